"""What a call saves in some runs only goes to its gradient as plain tensors and numbers."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp
from tograph.runtime.autodiff.pairs import Differentiable
from tograph.runtime.autodiff.unwrapped import unwrap
from tograph.runtime.execution.gradient_calls import GradientCalls
from tograph.runtime.graph.interp import run as interpret
from tograph.runtime.graph.types import OptionalType

WEIGHTS = [torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in range(3)]  # fmt: skip


def exits(x, limit):
    for w in WEIGHTS:
        x = torch.tanh(x @ w)
        if x.abs().mean() > limit:
            return x
    return x


def nested(x, limit):
    if x.sum() > limit:
        y = x.exp()
        if y.mean() > 2 * limit:
            y = (y * x).sin()
        return y
    return x.cos() * x


def shared(x, limit):
    y = x
    if x.sum() > limit:
        y = x.exp()
    return y * y


def matched(x, limit):
    n = (x > limit).sum()
    if n == 0:
        return x.sin()
    elif n == 1:
        return (x.exp() * x).cos()
    return x


def looped(x, limit):
    if x.sum() > limit:
        for _ in range(torch.tensor(3)):
            x = x.sin() * x
    return x


def selected(x, limit):
    y = x[x > limit]
    return (y.exp() * y).sum() if y.sum() > 1 else x.sum()


PROGRAMS = [exits, nested, shared, matched, looped, selected]
LIMITS = [-5.0, 0.2, 0.4, 0.8, 5.0]


def gradients(f, limit, again):
    x = torch.linspace(-0.5, 1, 4, dtype=torch.float64, requires_grad=True)
    y = f(x, torch.tensor(limit, dtype=torch.float64))
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=again)
    if again:
        (g,) = torch.autograd.grad((g * x).sum(), x)
    return y.detach(), g


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(f, again):
    staged = tg.function(f)
    for _ in range(4):  # the fourth run of a program goes by its entry
        for limit in LIMITS:
            got, want = gradients(staged, limit, again), gradients(f, limit, again)
            for a, b in zip(got, want, strict=True):
                assert (a is None) == (b is None)
                assert a is None or torch.allclose(a, b)


@pytest.mark.parametrize("f", [exits, nested, shared, matched], ids=lambda f: f.__name__)
def test_no_optionals_are_left(f):
    x = torch.ones(4, dtype=torch.float64)
    cf = tg.function(f).get_concrete_function(x, x.sum())
    before = vjp(cf.graph, [0])
    assert any(isinstance(v.type, OptionalType) for v in before.forward.outputs)
    unwrap(before, len(cf.graph.outputs))
    assert not any(isinstance(v.type, OptionalType) for v in before.forward.outputs)
    assert not any(isinstance(v.type, OptionalType) for v in before.backward.inputs)
    assert [v.type for v in before.forward.outputs[len(cf.graph.outputs) :]] == [
        v.type for v in before.backward.inputs[len(before.kept) : -1]
    ]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_both_graphs_mean_the_same(f, limit):
    """The reference interpreter on both sides: what it makes of a slot that no run fills is not read."""
    x, bound = torch.linspace(-0.5, 1, 4, dtype=torch.float64), torch.tensor(limit).double()
    cf = tg.function(f).get_concrete_function(x, bound)
    inputs, results = [x, bound, *cf.captured_inputs], []
    for change in (lambda p, n: None, unwrap):
        p = vjp(cf.graph, [0])
        change(p, len(cf.graph.outputs))
        outs = interpret(p.forward, inputs)
        kept = [inputs[i] for i in p.kept]
        saved = outs[len(cf.graph.outputs) :]
        results.append((outs[0], *interpret(p.backward, [*kept, *saved, torch.ones_like(outs[0])])))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_programs_of_both_sides_have_an_entry():
    x = torch.ones(4, dtype=torch.float64, requires_grad=True)
    cf = tg.function(exits).get_concrete_function(x, x.sum())
    d = Differentiable(cf.graph, GradientCalls(cf.graph)._build)
    for _ in range(6):
        d.run([x, torch.tensor(0.2).double(), *cf.captured_inputs])[0].sum().backward()
    (pair,) = d._pairs.values()
    (backward,) = pair._backwards.values()
    assert pair.nodes[0].flat
    assert pair.program.native._whole is not None
    assert backward.native._whole is not None
