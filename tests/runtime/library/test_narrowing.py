"""``narrow`` with arguments that only the run knows raises where eager PyTorch does, and is a view."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg


def by_numbers(x, k, n):
    return x.narrow(0, k.item(), n.item()) * 2


def by_a_tensor(x, k, n):
    return torch.narrow(x, 0, k, n.item()) * 2


def in_a_branch(x, k, n):
    if k < 2:
        x = x.narrow(dim=-1, start=k.item(), length=n.item())
    return x.sum()


def written(x, k, n):
    x = x.clone()
    x.narrow(0, k.item(), n.item()).mul_(3)
    return x


def shrinking(x, k, n):
    i = 0
    while i < n:
        x = x.narrow(0, 1, x.shape[0] - 1)
        i = i + 1
    return x, i


def outcome(f, *args):
    try:
        return f(*args)
    except (RuntimeError, IndexError) as error:
        return type(error)


@pytest.mark.parametrize("f", [by_numbers, by_a_tensor, in_a_branch, written, shrinking])
def test_as_in_eager(f):
    made, raised = tg.function(f), set()
    for k in (-7, -6, -2, -1, 0, 1, 5, 6, 7):
        for n in (-1, 0, 1, 2, 6, 7):
            args = torch.arange(6.0), torch.tensor(k), torch.tensor(n)
            expected, got = outcome(f, *args), outcome(made, *args)
            if isinstance(expected, type):
                assert got is expected, (k, n)
                raised.add(expected)
            else:
                torch.testing.assert_close(got, expected)
    assert raised
    assert made.trace_count == 1


def test_known_arguments():
    for args in ((0, 1, 2), (0, -2, 2), (0, 5, 2), (0, 0, -1), (3, 0, 1)):
        f = tg.function(lambda x, args=args: x.narrow(*args))
        x = torch.arange(6.0)
        expected, got = outcome(x.narrow, *args), outcome(f, x)
        assert got is expected if isinstance(expected, type) else torch.equal(got, expected)


def test_the_error_names_the_line():
    f = tg.function(by_numbers)
    with pytest.raises(RuntimeError, match="length must be non-negative") as caught:
        f(torch.ones(3), torch.tensor(0), torch.tensor(-1))
    assert "test_narrowing.py" in "".join(caught.value.__notes__)


def normalised(x, n):
    return F.layer_norm(x, (n.item(),))


def test_a_normalised_shape_of_the_run():
    """It has to be that of the input, which kernels do not look at."""
    f, x = tg.function(normalised), torch.randn(2, 3)
    for n in (3, 3, 3, 4):
        expected, got = outcome(normalised, x, torch.tensor(n)), outcome(f, x, torch.tensor(n))
        assert got is expected if n == 4 else torch.allclose(got, expected)


@pytest.mark.parametrize(
    "part",
    [
        lambda x, k: x.narrow(0, k, 1),
        lambda x, k: x.narrow(0, k[None].long(), 1),
        lambda x, k: x.narrow(0, k.item(), 1),
        lambda x, k: x.narrow(0, 0, k.item()),
    ],
)
def test_of_what_is_no_whole_number(part):
    def f(x, k):
        while k < 2:
            y = part(x, k)
            k = k + 1
        return y

    kinds = []
    for g in (f, tg.function(f)):
        with pytest.raises((RuntimeError, TypeError)) as raised:
            g(torch.ones(4), torch.tensor(1.0))
        kinds.append(raised.type)
    assert issubclass(kinds[1], kinds[0]) and "frame #" not in str(raised.value)
