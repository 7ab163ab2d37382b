"""A value that is written in place after it was saved for a gradient, where only a run knows whether it is: eager's error, or eager's value."""

import inspect

import pytest
import torch

import tograph as tg
from tograph.runtime.graph import text

MODIFIED = "modified by an inplace operation"


def same_second_derivative(f):
    x, p = X.clone().requires_grad_(), torch.tensor(True)

    def second(f):
        (g,) = torch.autograd.grad(f(x, p), x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), x)[0]

    torch.testing.assert_close(second(tg.function(f)), second(f))


def in_one_branch(x, p, n):
    if p:
        y = x.exp()
        z = y * y
        y.add_(1)
        return (z + y).sum()
    return x.sum()


def saved_before(x, p, n):
    y = x.exp()
    z = y * y
    if p:
        y.add_(1)
    return (z + y).sum()


def not_used_after(x, p, n):
    y = x.exp()
    z = y * y
    if p:
        y.add_(1)
    return z.sum()


def in_each_branch(x, p, n):
    y = x.exp()
    z = y * y
    if p:
        y.zero_()
    else:
        y.fill_(2)
    return (z + y).sum()


def nested(x, p, n):
    y = x.exp()
    z = y * y
    if p:
        if n > 1:
            y.add_(1)
    return (z + y).sum()


def twice(x, p, n):
    y = torch.relu(x - 0.15)
    if p:
        y.add_(1)
    if n > 1:
        y.mul_(3)
    return y.sum()


def through_a_view(x, p, n):
    y = x.exp()
    z = y * y
    row = y[0]
    if p:
        row.add_(1)
    return (z + y).sum()


def without_gradients(x, p, n):
    y = x.exp()
    z = y * y
    if p:
        with torch.no_grad():
            y.add_(1)
    return (z + y).sum()


def detached(x, p, n):
    y = x * 2
    z = y * y
    if p:
        y.detach().add_(1)
    return z.sum()


def in_a_case(x, p, n):
    y = x.exp()
    z = y * y
    match n:
        case 0:
            y.add_(1)
        case 1:
            z.add_(1)
        case _:
            y.mul_(2)
    return (y + z).sum()


def in_a_loop(x, p, n):
    y = x.exp()
    z = y * y
    for _ in range(n):
        y.add_(1)
    return (z + y).sum()


def in_the_same_iteration(x, p, n):
    c, y = torch.ones(3), x
    for _ in range(n):
        y = y * c
        if p:
            c.add_(1)
    return y.sum()


def in_the_next_iteration(x, p, n):
    c, y = torch.ones(3), x
    for _ in range(n):
        c.add_(1)
        y = y * c
    return y.sum()


def a_variable_of_the_loop(x, p, n):
    w, h = torch.ones(3, 3), x
    for _ in range(n):
        h = torch.tanh(w @ h)
        with torch.no_grad():
            if p:
                w += 0.1
    return h.sum()


def deep(x, p, n):
    y = x * 2
    z, total = y.exp(), torch.zeros(3)
    for i in range(n):
        total = total + z
        if p:
            if i == 1:
                z.mul_(2)
    return (y * total).sum()


def after_a_branch(x, p, n):
    c = torch.ones(3)
    z = x * c if p else x * 2
    c.add_(1)
    return z.sum()


def after_a_loop(x, p, n):
    c, z = torch.ones(3), x
    for _ in range(n):
        z = z * c
    c.add_(1)
    return z.sum()


def in_another_branch(x, p, n):
    c = torch.ones(3)
    z = x * c if p else x * 2
    if n > 1:
        c.add_(1)
    return z.sum()


def by_itself(x, p, n):
    y = x.clone()
    if p:
        y.mul_(x)
        y.mul_(y)
    else:
        y.exp_()
        y.exp_()
    return y.sum()


def copied_first(x, p, n):
    y = x.exp()
    z = y * y
    y = y.clone()
    if p:
        y.add_(1)
    return (z + y).sum()


def nothing_saved(x, p, n):
    y = x.exp()
    z = y + y
    if p:
        z.add_(1)
    while z.sum() < n * 30:
        z = z * 1.5
        z.mul_(2)
    return z.sum()


PROGRAMS = [
    in_one_branch, saved_before, not_used_after, in_each_branch, nested, twice, through_a_view, without_gradients, detached, in_a_case,
    in_a_loop, in_the_same_iteration, in_the_next_iteration, a_variable_of_the_loop, deep, after_a_branch, after_a_loop,
    in_another_branch, by_itself, copied_first, nothing_saved,
]  # fmt: skip
by_name = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
X = torch.tensor([0.1, 0.2, 0.3])


def outside(f, p, n):
    """The gradient, or that there is the error."""
    x = X.clone().requires_grad_()
    loss = f(x, torch.tensor(p), torch.tensor(n))
    try:
        return torch.autograd.grad(loss, x)[0]
    except RuntimeError as error:
        return str(error)


def inside(f):
    def g(x, p, n):
        return torch.autograd.grad(f(x, p, n), x)[0]

    return g


def called(f, p, n):
    try:
        return f(X.clone().requires_grad_(), torch.tensor(p), torch.tensor(n))
    except RuntimeError as error:
        return str(error)


def same(found, wanted):
    if isinstance(wanted, str):
        assert MODIFIED in wanted
        assert isinstance(found, str), f"no error, but {found}"
        assert MODIFIED in found
    else:
        torch.testing.assert_close(found, wanted)


CASES = [(p, n) for p in (True, False) for n in (0, 1, 2)]


@by_name
def test_outside(f):
    g = tg.function(f)
    for p, n in CASES:
        same(outside(g, p, n), outside(f, p, n))


@by_name
def test_inside(f):
    g = inside(f)
    h = tg.function(g)
    for p, n in CASES:
        same(called(h, p, n), called(g, p, n))


@by_name
def test_of_a_file(f, tmp_path):
    specs = [tg.TensorSpec([3], torch.float32), tg.TensorSpec([], torch.bool), tg.TensorSpec([], torch.int64)]  # fmt: skip
    tg.save(tg.function(f, input_signature=specs), tmp_path / "f.tg")
    g = tg.load(tmp_path / "f.tg")
    for p, n in CASES:
        same(outside(g, p, n), outside(f, p, n))


def test_the_error_names_the_line_that_wrote():
    for f, line in ((saved_before, "y.add_(1)"), (in_a_loop, "y.add_(1)")):
        found = outside(tg.function(f), True, 2)
        source, first = inspect.getsourcelines(f)
        at = next(first + i for i, text in enumerate(source) if line in text)
        assert f'test_stale.py", line {at}' in found


def test_a_branch_that_is_not_taken_writes_nothing_for_the_other():
    def f(x, p):
        y = x.exp()
        z = y * y
        if p:
            y.add_(1)
            return y
        return torch.autograd.grad(z.sum(), x)[0]

    x, p = X.clone().requires_grad_(), torch.tensor(False)
    torch.testing.assert_close(tg.function(f)(x, p), f(x, p))


def test_a_second_derivative():
    def f(x, p):
        y = x.exp()
        z = y * y
        if p:
            y = y.clone()
            y.add_(z)
        return (z * y).sum()

    same_second_derivative(f)


def test_the_text_of_a_file_tells_what_is_written_over():
    f = tg.function(saved_before)
    f(X, torch.tensor(True), torch.tensor(1))
    graph = f.concrete_functions[0].graph
    shown = text.show(graph, over=True)
    assert "~%" in shown
    assert text.show(text.parse_graph(shown), over=True) == shown
    assert "~%" not in str(graph)


def unused_where_it_is_stale(x, p):
    y = x * 2
    z = torch.exp(-y * y)
    y.mul_(x)
    if p:
        return y.sum()
    return (y * z).sum()


def swapped(x, p):
    a, b = x * 2, x * 3
    for _ in range(p.int() + 0 if isinstance(p, torch.Tensor) else int(p)):
        a = a * 1
        a += a.sin()
        a, b = b, a
    return a.sum()


@pytest.mark.parametrize("f", [unused_where_it_is_stale, swapped], ids=lambda f: f.__name__)
def test_what_no_gradient_comes_to_is_no_error(f):
    x, p = X.clone().requires_grad_(), torch.tensor(True)
    same(torch.autograd.grad(tg.function(f)(x, p), x)[0], torch.autograd.grad(f(x, p), x)[0])


def test_a_gradient_in_a_loop_does_not_look_at_what_its_state_came_from():
    """The engine calls the nodes of the loss from before the loop, too, with no gradient."""

    def f(W, x, n):
        w = x.detach().requires_grad_()
        loss = (W * torch.exp(W * x)).sum()
        loss.backward()
        for _ in range(n):
            if loss > 100:
                with torch.no_grad():
                    W.mul_(0.5)
            loss = ((w - x * 2) ** 2).sum()
            loss.backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
        return w.detach()

    def outcome(f, n):
        W = X.clone().requires_grad_()
        return f(W, X, n), W.grad

    converted = tg.function(f)
    for n in (3, 0, 1):
        same(outcome(converted, torch.tensor(n)), outcome(f, n))


def test_the_second_derivative_of_a_branch_before_a_write():
    def f(x, p):
        y = x * x
        z = y * 3 if p else y.sin()
        if p:
            y.add_(1)
        return (z * z).sum() + y.sum()

    same_second_derivative(f)


def test_state_that_only_a_dead_write_needs():
    def f(x, p, n):
        y, c = x * 2, x.detach() * 3
        for _ in range(n):
            z = torch.tanh(c - y)
            if p:
                z[1] = x[0]
            else:
                c = c * 1
                c.sin_()
        return (y * y).sum()

    g = tg.function(f)
    for p, n in CASES:
        same(outside(g, p, n), outside(f, p, n))


W = torch.tensor([1.0, 2.0], requires_grad=True)


def captured_in_a_branch(w, n):
    loss = (W * W).sum()
    if n > 0:
        with torch.no_grad():
            W.mul_(2)
    loss.backward()
    return loss.detach()


def argument_in_a_branch(w, n):
    loss = (w * w).sum()
    if n > 0:
        if n > 1:
            with torch.no_grad():
                w.mul_(2)
        loss.backward()
    return loss.detach()


def captured_in_a_loop(w, n):
    loss = (W * W).sum()
    while n > 0:
        with torch.no_grad():
            W.mul_(2)
        n = n - 1
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("f", [captured_in_a_branch, argument_in_a_branch, captured_in_a_loop])
def test_a_leaf_that_a_region_writes(f, n):
    found = []
    for g in (f, tg.function(f)):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.no_grad():
            W.copy_(w)
        W.grad = None
        try:
            found.append((g(w, torch.tensor(n)), w, W, w.grad, W.grad))
        except RuntimeError as error:
            assert MODIFIED in str(error)
            found.append((w, W))
    same(*found)


@pytest.mark.parametrize("view", [torch.Tensor.detach, lambda z: z[:], lambda z: z.view(-1)])
def test_a_view_of_all_is_its_own_memory(view):
    """Each write but the first looks for the contents that it replaces: this one did not end."""

    def f(x):
        total = view(torch.zeros_like(x))
        total.mul_(2).add_(x)
        total.add_(x)
        return total

    same((f(X),), (tg.function(f)(X),))
