"""``.grad`` fields that a call leaves as they are, on some of its paths: eager PyTorch against `tg.function`."""

import pytest
import torch
from torch import nn

import tograph as tg


def trained(net, opt, x, n):
    for _ in range(n):
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()


def cleared_behind(net, opt, x, n):
    for _ in range(n):
        net(x).sum().backward()
        opt.step()
        opt.zero_grad()


def in_a_branch(net, opt, x, n):
    if n > 0:
        opt.zero_grad()
    if n == 2:
        net(x).sum().backward()


def read_behind(net, opt, x, n):
    if n == 1:
        opt.zero_grad()
    elif n == 2:
        for p in net.parameters():
            p.grad = torch.ones_like(p)
    return [None if p.grad is None else p.grad * 2 for p in net.parameters()]


def added_behind(net, opt, x, n):
    if n > 1:
        opt.zero_grad()
    net(x).sum().backward()


FUNCTIONS = [trained, cleared_behind, in_a_branch, read_behind, added_behind]


def _seen(function, decorator):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    made = decorator(function)
    rows = []
    for n in (0, 2, 0, 1, 2, 0):
        result = made(net, opt, torch.ones(2), torch.tensor(n))
        grads = [None if p.grad is None else p.grad.tolist() for p in net.parameters()]
        rows.append((result and [None if g is None else g.tolist() for g in result], grads))
    return rows, made


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_field_that_a_run_leaves_as_it_is(function):
    native, _ = _seen(function, lambda f: f)
    staged, made = _seen(function, tg.function)
    assert native == staged
    assert made.trace_count <= 2


def test_a_loop_that_clears_gradients_has_one_trace():
    _, made = _seen(trained, tg.function)
    assert made.trace_count == 1


def either(a, b, n):
    w = a if n > 1 else b
    before = w.grad is None
    (w * w * a).sum().backward()
    return w.grad, before


def graded_before(a, b, n):
    (a * b).sum().backward()
    w = a if n > 1 else b
    first = w.grad.clone()
    w.grad = None
    (w * w * a).sum().backward()
    w.grad.mul_(2)
    return w.grad, first


def a_leaf_or_the_argument(a, b, n):
    w = a if n > 1 else (b * 2).detach().requires_grad_()
    (w * w).sum().backward()
    (w * a).sum().backward()
    return w.grad


def asked_for(a, b, n):
    if n > 1:
        w = a
    else:
        w = (b * 2).detach().requires_grad_()
    (w * w).sum().backward(inputs=[w])
    return w.grad


def a_leaf_or_a_result(a, b, n):
    w = (b * 3).detach().requires_grad_() if n > 1 else a * 2
    (w * w * b).sum().backward()
    return w.grad if n > 1 else a.grad


def one_made_here_or_there(a, b, n):
    p = (a * 2).detach().requires_grad_()
    (p * p).sum().backward()
    if n > 1:
        w, s = (b * 3).detach().requires_grad_(), 0
        s = (w * w).sum()
    else:
        w, s = p, p.sum()
    (s + (w * w * p).sum()).backward()
    return w.grad, p.grad


def carried(a, b, n):
    w = a
    for _ in range(n):
        w = (w * 2).detach().requires_grad_()
    (w * w * b).sum().backward()
    return w.grad


def carried_from_a_leaf(a, b, n):
    w = p = (a * 2).detach().requires_grad_()
    for _ in range(n):
        w = (w * 2).detach().requires_grad_()
    (w * w * b).sum().backward()
    return w, p.grad


@pytest.mark.parametrize(
    "f",
    [either, graded_before, a_leaf_or_the_argument, asked_for, a_leaf_or_a_result, one_made_here_or_there, carried, carried_from_a_leaf],
)  # fmt: skip
def test_the_field_of_what_a_construct_gives_is_that_of_the_leaf_it_is(f):
    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        found, wanted = ([torch.tensor(v, requires_grad=True) for v in ((1.0, 2.0), (3.0, 4.0))] for _ in "12")  # fmt: skip
        outs = converted(*found, torch.tensor(n)), f(*wanted, torch.tensor(n))
        torch.testing.assert_close(*([x.detach() if isinstance(x, torch.Tensor) else x for x in (o if isinstance(o, tuple) else [o])] for o in outs))  # fmt: skip
        for x, y in zip(found, wanted):
            assert (x.grad is None) == (y.grad is None)
            if x.grad is not None:
                torch.testing.assert_close(x.grad, y.grad)


def test_the_field_of_a_leaf_of_a_loop_that_begins_with_an_argument():
    def f(a, n):
        w = a
        for _ in range(n):
            (w * w).sum().backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
        (w * w * a).sum().backward()
        return w.grad

    g = tg.function(f)
    for n in (0, 1, 2):
        a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
        torch.testing.assert_close(g(a, torch.tensor(n)), f(b, torch.tensor(n)))
        torch.testing.assert_close(a.grad, b.grad)


def test_the_field_of_an_argument_that_an_object_holds_too():
    """An optimiser that is an argument beside its parameter clears the field that ``backward()`` fills."""

    def f(w, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            (w * w).sum().backward()
        return w * 1

    def left(function, n):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], 0.1)
        (w * 3).sum().backward()
        function(w, optimizer, torch.tensor(n))
        return w.grad.tolist()

    converted = tg.function(f)
    for n in (2, 1, 0):
        assert left(converted, n) == left(f, n)


def test_a_leaf_from_before_a_loop_may_have_a_gradient_already():
    """Iterations make a leaf of their own; the one that they begin with is an argument that earlier calls gave a gradient."""

    def f(a, n):
        w = a
        for _ in range(n):
            (w * w).sum().backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
        return w.detach()

    def left(function):
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        outs = [function(a, torch.tensor(n)) for n in (2, 0, 3)]
        return torch.cat([*outs, a.grad])

    torch.testing.assert_close(left(tg.function(f)), left(f))


def test_the_field_of_an_argument_that_the_code_makes_a_leaf_of():
    def f(x, n):
        x = x.requires_grad_() if not x.requires_grad else x
        for _ in range(n):
            (x * x).sum().backward()
        before = x.grad
        if n > 2:
            x.grad = None
        return before

    g = tg.function(f)
    for n in (0, 1, 2, 3):
        ours, plain = torch.ones(2), torch.ones(2)
        for _ in range(2):  # the second time it requires a gradient already
            outs = g(ours, torch.tensor(n)), f(plain, torch.tensor(n))
            assert (ours.requires_grad, outs[0] is None, ours.grad is None) == (True, outs[1] is None, plain.grad is None)  # fmt: skip
            if plain.grad is not None:
                torch.testing.assert_close(ours.grad, plain.grad)


def test_a_field_of_an_argument_that_requires_no_gradient():
    def f(x):
        x.grad = x * 2
        return x * 1

    ours, plain = torch.ones(2), torch.ones(2)
    tg.function(f)(ours), f(plain)
    assert ours.grad.equal(plain.grad)


def test_a_gradient_that_a_call_finds_is_given_as_that_of_this_call():
    def f(x, n):
        for _ in range(n):
            (x * x).sum().backward()
        found = [x.grad]
        if n > 2:
            x.grad = None
        return found

    g = tg.function(f)
    for n in map(torch.tensor, (1, 2, 3)):
        ours, plain = (torch.ones(2, requires_grad=True) for _ in range(2))
        for _ in range(2):
            outs = g(ours, n), f(plain, n)
            assert torch.equal(outs[0][0], outs[1][0]) and (ours.grad is None) == (plain.grad is None)  # fmt: skip
            assert plain.grad is None or (ours.grad is outs[0][0] and torch.equal(ours.grad, plain.grad))  # fmt: skip
