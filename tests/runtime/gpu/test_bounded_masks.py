"""Items where a mask holds, in memory for all of them: as the graph gives them in the reference interpreter, and as a plan in Triton's."""

import math

import pytest
import torch

import tograph as tg
from tests.runtime.gpu import test_programs
from tests.runtime.gpu.test_bounded import check, undefined  # noqa: F401  a fixture
from tograph.errors import OutOfRangeError
from tograph.runtime.gpu.bounded import bounded
from tograph.runtime.graph import interp
from tograph.runtime.kernels.loop_ir import Unsupported


def rows(x, y):
    return x[x.sum(1) > 0] * 2


def items(x, y):
    return x[x > y], x[x > y].sum(), (x > y).sum()


def inner(x, y):
    return x[:, y[0] > 0].sum(1)


def leading(x, y):
    z = torch.stack([x, y], -1)
    return z[x > 0], z[x > 0].sum(0)


def selected(x, y):
    return torch.masked_select(x, x > 0).softmax(0)


def places(x, y):
    found, number = torch.nonzero(x > y), torch.nonzero(x.round()).sum(0)
    return found.sum(0), found[:, 0] * 3 + found[:, 1], torch.nonzero(x[0] > y[0])[:, 0], number


def where(x, y):
    i, j = torch.where(x > 0)
    return i, j, y[torch.where(x[:, 0] > 0)[0]]


def picked(x, y):
    """The weights of labels, where a mask says so."""
    labels, m = (y[:, 0] > 0).long() + 1, x.sum(1) > -1
    z = torch.stack([x, y], 1)
    return (
        x[m, labels[m]],
        x.log_softmax(-1)[m, labels[m]].sum(),
        z[m, :, labels[m]],
        z[:, 0][m, labels[m]],
    )


def written(x, y):
    x = x.clone()
    x[x > 0] = x[x > 0] * 2 + y[x > 0]
    return x


def filled(x, y):
    x = x.clone()
    x[y > 0] = 7.0
    x[x.sum(1) < 0] = y[0]
    x[:, y[0] < 0] = y[:, :1]
    return x


def increased(x, y):
    x = x.clone()
    x[x.sum(1) > 0] += y[0]
    return x


def twice(x, y):
    found = x[x > 0]
    found[found < 0.5] = 0
    return found[found > 0], found


def ordered(x, y):
    found = x[x > 0]
    values, at = found.sort(descending=True)
    return found.sort()[0], values, found[at], (found > 0.5).sort()[0], (found * 9).long().sort()[0]


def best(x, y):
    return x[x > -1].topk(1)[0], x[x > -1].topk(1, largest=False)


def in_a_loop(x, y):
    n = 0
    while x.sum() > 0.1:
        x = torch.where(x > 0, x * 0.5, x)
        y = y + x[x > 0].sum()
        n += 1
    return x, y, n


def gathered(x, y):
    """A sampler's nucleus: the smallest set whose weights sum to more than a bound."""
    p, at = x[0].abs().sort(descending=True)
    kept = p.cumsum(0) - p < y[0, 0].abs()
    return at[kept], p[kept] / p[kept].sum()


PROGRAMS = [rows, items, inner, leading, selected, places, where, picked, written, filled, increased, twice, ordered, best, in_a_loop, gathered]  # fmt: skip


def arguments(seed):
    r = torch.Generator().manual_seed(seed)
    x, y = torch.randn(4, 3, generator=r), torch.randn(4, 3, generator=r)
    return {0: (x, y), 1: (x.abs() + 0.2, y), 2: (-x.abs() * 0.5, y)}[seed % 3]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_values(fn):
    """For some, for all and for none of the items."""
    for seed in range(3):
        check(fn, *arguments(seed))


@pytest.mark.parametrize("fn", [items, places, picked, written, filled, ordered, best, gathered, in_a_loop], ids=lambda f: f.__name__)  # fmt: skip
def test_plans(fn, interpreted):
    for seed in range(2):
        given = arguments(seed)
        test_programs.compare(tg.function(fn).get_concrete_function(*given).value_graph, given)


def test_what_is_not_a_number_is_last():
    x = torch.tensor([[1.0, 5.0, -math.inf], [math.inf, 2.0, 5.0]])

    def shown(x, y):
        x = torch.where(x == 5.0, math.nan, x)
        for given in (x[x == x], x[0][y[0] > 0], x[x != 2.0]):
            y = y + given.sort()[0].nan_to_num(9.0, 8.0, 7.0).cumsum(0)[-1]
            y = y - 3 * given.sort(descending=True)[0].nan_to_num(9.0, 8.0, 7.0)[0]
        return y

    check(shown, x, torch.ones(2, 3))


def test_gradients():
    x, y = arguments(0)
    f = tg.function(written)
    f(x.requires_grad_(), y).square().sum().backward()
    (pair,) = f.concrete_functions[0].gradients.differentiable._pairs.values()
    (backward,) = pair._backwards.values()
    assert not isinstance(bounded(backward.graph, "cpu"), Unsupported)


@pytest.mark.parametrize(
    "fn",
    [lambda x, y: x[x > 0].topk(3)[0], lambda x, y: torch.where(x > 0, x, y)[x > 0] + y[y > 0]],
)
def test_too_few_items_fail(fn):
    given = torch.ones(2, 3), torch.ones(2, 3)
    made = bounded(tg.function(fn).get_concrete_function(*given).value_graph, "cpu")
    few = torch.zeros(2, 3)
    few[0, 0] = few[1, 1] = 1
    with pytest.raises(OutOfRangeError):
        interp.run(made.graph, [few, torch.ones(2, 3)])


def test_items_at_other_positions_than_a_row_are_refused_at_the_line():
    with pytest.raises(Unsupported, match=r"test_bounded_masks.py:\d+: .*several dims"):
        check(lambda x, y: x[x[:, 0] > 0, torch.tensor([0])], torch.ones(2, 3), torch.ones(2, 3))
