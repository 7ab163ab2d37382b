"""``torch.arange`` between numbers of the run: its size where it is proved, and eager PyTorch's values and errors."""

import pytest
import torch

import tograph as tg

N = torch.tensor


def positions(x, n):
    count, seen = n.item(), []
    while count < 9:
        one = torch.arange(count, count + 1)
        back = torch.arange(2 * count + 3, 2 * count - 3, -2, dtype=torch.float64)
        few = torch.arange(count - 2, count, dtype=torch.int32)
        none = torch.arange(count, count)
        if (one.shape, back.shape, few.shape, none.shape) != ((1,), (3,), (2,), (0,)):
            raise ValueError("sizes are plain numbers")
        seen.append(x[one] + back.sum() + few[0] + none.sum())
        count += few.shape[0]
    return torch.stack(seen), one, back, few, none


@pytest.mark.parametrize("n", [0, 5, 8])
def test_ends_that_are_a_known_number_apart(n):
    x = torch.linspace(0, 1, 10)
    f = tg.function(positions)
    torch.testing.assert_close(f(x, N(n)), positions(x, N(n)))


def test_their_size_is_that_of_the_graph():
    def f(n):
        k = n.item()
        return torch.arange(k, k + 3), torch.arange(k, 2 * k)

    made = tg.function(f).get_concrete_function(N(2))
    assert [tuple(x.type.shape) for x in made.graph.outputs] == [(3,), (None,)]


@pytest.mark.parametrize("n", [4, 4.5, True, -3])
def test_kinds_of_numbers(n):
    def f(x):
        k = x.item()
        return torch.arange(k, k + 3)

    torch.testing.assert_close(tg.function(f)(N(n)), f(N(n)))


def test_ends_in_the_wrong_order_raise():
    @tg.function
    def f(n):
        k = n.item()
        return torch.arange(k, k - 3)

    with pytest.raises(RuntimeError, match="upper bound and lower bound inconsistent"):
        f(N(4))
