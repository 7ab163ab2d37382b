"""Results of a call that share nothing have gradients of their own, as in eager PyTorch."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp
from tograph.runtime.autodiff.shares import MOST, shares


def apart(x, y):
    return x.sin() * 2, y.cos() * 3, (x * x).exp()


def sums(x, y):
    h = x + y
    return h.sin(), h.cos() * y, h[1:]


def saved(x, y):
    h = x.exp() + y
    return h.sin(), h.cos(), y * y


def twins(x, y):
    a = x.sin()
    return a, a, y.cos(), x


def loops(x, y):
    for _ in range(torch.tensor(3)):
        x, y = x.sin(), y * y * 0.5
    return x, y


def draws(x, y):
    return torch.nn.functional.dropout(x, 0.5) * x, y * torch.rand(3, dtype=x.dtype)


def run(f, how):
    """What gradients taken in one of several ways give, or the error."""
    torch.manual_seed(0)
    x, y = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    results = f(x, y)
    try:
        if how == "one by one":
            for r in results:
                r.sum().backward()
        elif how == "the first":
            results[0].sum().backward()
        elif how == "unused":
            return torch.autograd.grad(results[0].sum(), [x, y])
        elif how == "together":
            (results[0] * results[1]).sum().backward()
        else:
            (g,) = torch.autograd.grad(results[0].sum(), x, create_graph=True)
            ((g * g).sum() + sum(r.sum() for r in results)).backward()
    except RuntimeError as error:
        return str(error)[:40]
    return x.grad, y.grad


@pytest.mark.parametrize("how", ["one by one", "the first", "unused", "together", "twice"])
@pytest.mark.parametrize("f", [apart, sums, saved, twins, draws])
def test_as_in_eager(f, how):
    found, wanted = run(tg.function(f), how), run(f, how)
    if isinstance(wanted, str):
        assert found == wanted
    else:
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("how", ["the first", "together", "twice"])
def test_loops_as_in_eager(how):
    found = run(tg.function(loops), how)
    wanted = run(lambda x, y: (x.sin().sin().sin(), ((y**2 / 2) ** 2 / 2) ** 2 / 2), how)
    torch.testing.assert_close(
        [torch.zeros(3, dtype=torch.float64) if g is None else g for g in found],
        [torch.zeros(3, dtype=torch.float64) if g is None else g for g in wanted],
    )


def parts(f, *args):
    graph = tg.function(f).get_concrete_function(*args).graph
    return [s.given for s in shares(vjp(graph, range(len(args))))]


def test_which_results_are_one():
    args = torch.randn(3), torch.randn(3)
    assert parts(apart, *args) == [[0], [1], [2]]
    assert parts(sums, *args) == [[0], [1], [2]]
    assert parts(saved, *args) == [[0, 1], [2]]
    assert parts(loops, *args) == [[0, 1]]


def test_many_results_are_one():
    args = [torch.randn(2) for _ in range(MOST + 1)]
    assert parts(lambda *xs: [x.sin() for x in xs], *args) == [list(range(MOST + 1))]


def test_a_backward_graph_takes_what_it_needs():
    graph = tg.function(apart).get_concrete_function(torch.randn(3), torch.randn(3)).graph
    pullback = vjp(graph, [0, 1])
    _, second, _ = shares(pullback)
    assert second.present == [1] and len(second.backward.inputs) == len(second.stored) + 1 == 2


def moved(x, y):
    return torch.cat([x + 1, y - x]).view(2, 3).t()


def moved_by_turns(x, y):
    for _ in range(torch.tensor(3)):
        if x.sum() > 0:
            x, y = y + 1, x
        else:
            x, y = torch.add(y, x, alpha=2), y.flip(0)
    return x.mean()


def scaled(x, y):
    return x * 2 + y


@pytest.mark.parametrize("f", [moved, moved_by_turns, scaled])
def test_what_saves_no_tensor_is_differentiated_twice(f):
    def twice(f):
        x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
        result = f(x, y).sum()
        try:
            result.backward()
            result.backward()
        except RuntimeError as error:
            return str(error)[:40]
        return str(x.grad), str(y.grad)

    assert twice(tg.function(f)) == twice(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: (x - y).abs(),
        lambda x, y: (x * y).abs(),
        lambda x, y: (x * x - y).abs() * y,
        lambda x, y: torch.nn.functional.l1_loss(x, y),
    ],
)
def test_zeros_of_which_no_cotangent_is_a_part_are_there(f):
    def second(run):
        x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        y = torch.tensor([0.5, 2.0, -1.0], requires_grad=True)
        first = torch.autograd.grad(run(x, y).sum(), (x, y), create_graph=True)
        return [torch.autograd.grad(g.sum(), (x, y), retain_graph=True) for g in first]

    g = tg.function(f)
    for _ in range(2):
        torch.testing.assert_close(second(g), second(f))
