"""Small branches become choices."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu.bounded import bounded
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.speculation import speculated
from tograph.runtime.graph import interp
from tograph.runtime.graph.verification import verify


def ops_of(graph):
    found = [n.op for n in graph.nodes]
    for n in graph.nodes:
        for region in n.regions.values():
            found += ops_of(region)
    return found


def changed(fn, *args):
    """The ops of the graph with its small branches changed, after a comparison; the reference runs both."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = speculated(bounded(retarget(graph, "cuda:0"), "cuda:0").graph, "cuda:0")
    verify(made)
    found = interp.run(retarget(made, "cpu", "cuda:0"), args)
    for a, b in zip(found, interp.run(graph, args), strict=True):
        assert type(a) is type(b)
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), equal_nan=True)
    return ops_of(made)


def pick(x, n):
    if x.sum() > n:
        return x * 2, n + 1, x
    return x / 0, n, x


@pytest.mark.parametrize("n", [0, 100])
def test_both_sides_and_a_choice(n):
    ops = changed(pick, torch.tensor([0.0, 1.0, 2.0]), torch.tensor(n))
    assert "If" not in ops and ops.count("aten.where.self") == 2


@pytest.mark.parametrize("start", [0.0, 9.0])
def test_numbers_stay_a_choice_of_numbers(start):
    def count(x):
        steps, most = 0, 3
        while x.sum() < 20:
            if x.max() > 5:
                x = x + 2
                steps += 1
            else:
                x = x + 1
                most += 2
        return x, steps, most

    ops = changed(count, torch.tensor([start, 1.0]))
    assert ops.count("If") == 1 and "aten.where.self" in ops


def test_short_circuits_with_a_test_on_a_tensor():
    def walk(x, n):
        i = 0
        while i < n and (x < 100).any():
            x = x * 2
            i += 1
        return x, i

    assert "If" not in changed(walk, torch.tensor([1.0, 3.0]), torch.tensor(4))


@pytest.mark.parametrize("large", [False, True])
def test_what_may_fail_or_costs_much_stays_a_branch(large):
    def divide(x, y):
        if y.sum() != 0:
            return x // y
        return x

    def heavy(x, y):
        if y.sum() != 0:
            return x * 2
        return x

    n = 1 << 16 if large else 4
    given = torch.arange(n), torch.zeros(n, dtype=torch.int64)
    assert "If" in changed(heavy if large else divide, *given)
