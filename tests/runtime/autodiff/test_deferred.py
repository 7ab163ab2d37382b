"""Weight gradients of a loop are one product after it, and it keeps no weights."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp
from tograph.runtime.graph.text import show


def network(x, w, b, n):
    for _ in range(n):
        x = torch.tanh(torch.nn.functional.linear(x, w, b)) + x
    return x


def test_weights_are_not_summed_in_the_loop():
    args = [torch.randn(2, 3), torch.randn(3, 3), torch.randn(3), torch.tensor(2)]
    graph = tg.function(network).get_concrete_function(*args).graph
    backward = vjp(graph, [0, 1, 2]).backward
    loop = next(n for n in backward.nodes if n.op == "While")
    ops = [n.op for n in loop.regions["body"].nodes]
    assert ops.count("aten.mm.default") == 1  # the one of the state
    assert "aten.sum.dim_IntList" not in ops
    assert sum(n.op == "tg.list_concat" for n in backward.nodes) >= 2


WEIGHT = torch.full((3, 3), 0.5, requires_grad=True)


def captured(x, n):
    for _ in range(n):
        if x.sum() < 100:
            x = torch.tanh(torch.nn.functional.linear(x, WEIGHT)) + x
    return x


def test_weights_are_not_kept_for_each_iteration():
    def gradient(x, n):
        return torch.autograd.grad(captured(x, n).sum(), WEIGHT)[0]

    x, n = torch.randn(2, 3), torch.tensor(4)
    f = tg.function(gradient)
    torch.testing.assert_close(f(x, n), gradient(x, n))
    graph = f.get_concrete_function(x, n).graph
    loops = [node for node in graph.nodes if node.op == "While"]
    assert len(loops) == 2
    assert "[3,3]>" not in show(graph)  # no lists or optionals of weights
    assert any(v.type == graph.inputs[-1].type for v in loops[1].inputs)


def test_weights_that_are_written_before_the_gradient():
    def f(x, n):
        y = captured(x, n).sum()
        with torch.no_grad():
            WEIGHT.mul_(0.5)
        return torch.autograd.grad(y, WEIGHT)[0]

    def g(x, n):
        y = captured(x, n).sum()
        grad = torch.autograd.grad(y, WEIGHT)[0]
        with torch.no_grad():
            WEIGHT.mul_(0.5)
        return grad + WEIGHT.detach()

    x, n = torch.randn(2, 3), torch.tensor(4)
    found = []
    for decorate in (lambda f: f, tg.function):
        with torch.no_grad():
            WEIGHT.fill_(0.5)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            decorate(f)(x, n)
        with torch.no_grad():
            WEIGHT.fill_(0.5)
        found.append((decorate(g)(x, n), WEIGHT.detach().clone()))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_many_rows_are_added_in_each_trip(trips):
    found = []
    for f in (network, tg.function(network)):
        torch.manual_seed(0)
        args = [torch.randn(s, requires_grad=True) for s in ((40, 20), (20, 20), (20,))]
        for _ in range(2):
            grads = torch.autograd.grad(
                f(*args, torch.tensor(trips)).sum(), args, allow_unused=True
            )
        found.append([torch.zeros_like(a) if g is None else g for g, a in zip(grads, args)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    if trips == 0:  # the result is the argument itself
        return
    (pair,) = f.concrete_functions[0].gradients.differentiable._pairs.values()
    (backward,) = pair._backwards.values()
    loop = next(n for n in backward.graph.nodes if n.op == "While")
    ops = [n.op for n in loop.regions["body"].nodes]
    assert "aten.addmm.default" in ops and "tg.list_push" not in ops
    assert (backward.level, backward.reason) == (
        "native",
        "",
    )  # also for the expanded gradient of a sum


def test_orders_as_in_eager():
    staged = tg.function(network)
    for trips in (0, 1, 4):
        found = []
        for f in (network, staged):
            torch.manual_seed(0)
            args = [
                torch.randn(s, dtype=torch.float64, requires_grad=True)
                for s in ((2, 3), (3, 3), (3,))
            ]
            y = f(*args, torch.tensor(trips)).sin().sum() + sum(0 * a.sum() ** 2 for a in args)
            first = torch.autograd.grad(y, args, create_graph=True)
            second = torch.autograd.grad(sum((g * g).sum() for g in first), args)
            found.append((y, *first, *second))
        torch.testing.assert_close(*found)
    assert staged.trace_count == 1


def gates(x, w, n):
    for _ in range(n):
        a, b, _ = (x @ w).chunk(3, 1)
        d = torch.tanh(a) - x
        x = torch.sigmoid(b) * d + x * d
    return x


def test_what_a_trip_saves():
    args = [torch.randn(2, 3), torch.randn(3, 9), torch.tensor(2)]
    graph = tg.function(gates).get_concrete_function(*args).graph
    pair = vjp(graph, [0, 1])
    forward, backward = (
        next(n for n in g.nodes if n.op == "While").regions["body"]
        for g in (pair.forward, pair.backward)
    )
    saved = [n.args[1] for n in forward.nodes if n.op == "tg.list_push"]
    assert sorted(v.node.op if v.node else "input" for v in saved) == [
        "aten.sigmoid.default",
        "aten.tanh.default",
        "input",
    ]  # not d, which is a difference of two of them
    ops = [n.op for n in backward.nodes]
    assert ops.count("tg.list_get") == 3
    assert "tg.list_pop" not in ops  # which would make a new list in each trip


def test_a_part_does_not_keep_the_whole():
    def f(x, w, n):
        for _ in range(n):
            a, b, _ = (x @ w).chunk(3, 1)
            x = a * b + x
        return x

    args = [torch.randn(2, 3), torch.randn(3, 9), torch.tensor(2)]
    graph = tg.function(f).get_concrete_function(*args).graph
    body = next(n for n in vjp(graph, [0, 1]).forward.nodes if n.op == "While").regions["body"]
    saved = [n.args[1] for n in body.nodes if n.op == "tg.list_push"]
    assert [v.node.op for v in saved if v.node].count("aten.clone.default") == 2
