"""A gradient that some results of a call take no part in: their formulas do not run, so that no zeros meet an infinite derivative."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp
from tograph.runtime.autodiff.absent import without


def selected(x):
    y = x[x >= 0]
    return y.log().sum(), y.sum()


def branches(x):
    y = x * 1
    if x.sum() > 0:
        a, b = y.sqrt(), y * 2
    else:
        a, b = y.log(), y * 3
    return a, b


def counted(x):
    a = b = x
    for _ in range(torch.tensor(3)):
        a, b = a.sqrt(), b * 2
    return a, b


def mixed(x):
    a, b, c = x, x * 1, x
    while b.sum() < 20:
        if b.sum() > 3:
            a, c = a.sqrt(), c + b.sum()
        b = b * 2 + x
    return a, c


def sized(x):
    a, b = x[x > 0].sqrt(), x[x >= 0]
    for _ in range(torch.tensor(2)):
        b = torch.cat([b.sqrt(), b])
    return b, a


@tg.custom_gradient
def reciprocal(a, b):
    return (a.sqrt(), b * 2), lambda g, h: (g / 1 + h * 0, h * 2)


def by_user(x):
    y = x * 1
    a, b = reciprocal(y, y)
    return (a * y).sqrt(), b


def derivatives(f, order):
    x = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    found = list(torch.autograd.grad(f(x)[1].sum(), x, create_graph=True))
    if order == 2 and found[0].requires_grad:
        found += torch.autograd.grad((found[0] ** 2).sum(), x)
    return [g.detach() for g in found]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [selected, branches, counted, mixed, sized])
def test_infinite_derivatives_of_what_takes_no_part(f, order):
    wanted = derivatives(f, order)
    assert all(g.isfinite().all() for g in wanted)
    torch.testing.assert_close(derivatives(tg.function(f), order), wanted)


def test_a_gradient_of_the_users_own_gets_zeros():
    x = torch.tensor([1.0, 4.0], requires_grad=True)
    (g,) = torch.autograd.grad(tg.function(by_user)(x)[1].sum(), x)
    assert g.tolist() == [2, 2]


def test_what_is_left_out():
    graph = tg.function(counted).get_concrete_function(torch.ones(3)).graph
    backward = vjp(graph, [0]).backward
    first = len(backward.inputs) - 2
    copy = without(backward, [first], [first + 1])
    [loop] = [n for n in copy.graph([0]).nodes if n.op == "While"]
    assert "aten.div.Tensor" not in [n.op for n in loop.regions["body"].nodes]
    assert loop.kwargs["carried"] == 2 and not copy.asked


def test_what_depends_on_absent_cotangents_only_is_absent():
    graph = tg.function(branches).get_concrete_function(torch.ones(3)).graph
    backward = vjp(graph, [0]).backward
    count = len(backward.inputs)
    assert without(backward, [count - 2, count - 1], []).absent() == {0}
    assert not without(backward, [], [count - 2, count - 1]).absent()
