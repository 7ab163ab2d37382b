"""Results that were computed of leaves which the function made and does not give: native against `tg.function`."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import tograph as tg
from tograph.errors import GradientError


def leaf(x):
    return x.detach().clone().requires_grad_()


def at_the_top(x, n):
    w = torch.zeros(2, requires_grad=True)
    return (w * x).sum(), w.detach(), x * n


def of_a_layer(x, n):
    layer = nn.Linear(2, 1)
    return layer(x) * 0 + n


def in_a_branch(x, n):
    a = x * 3
    if n > 1:
        w = leaf(x)
        s = (w * w).sum()
    else:
        w = a * 2
        s = (w * 3).sum()
    return w, s


def by_the_last_iteration(x, n):
    for _ in range(n):
        x = x.detach().requires_grad_()
        (x**2).sum().backward()
        x = x - 0.1 * x.grad
    return x


def newton(x, n):
    w = leaf(x)
    for _ in range(n):
        (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        w = w - g.detach() / h
    return w


def the_gradient_too(x, n):
    w = leaf(x)
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    k = 0
    while g.norm() > 0.1 and k < n:
        (hv,) = torch.autograd.grad(g, w, g.detach())
        w = leaf(w - 0.01 * hv)
        (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        k += 1
    return w, g, k


def steps_that_are_accepted(x, n):
    for _ in range(n):
        x = x.detach().requires_grad_()
        f = (x**2).sum()
        (g,) = torch.autograd.grad(f, x)
        if f > 1:
            x = x - 0.1 * g
    return x


def where_none_is_needed(x, n):
    w = leaf(x)
    with torch.no_grad():
        s = w * 2
    t = (w * 2).detach()
    (g,) = torch.autograd.grad((w * w).sum(), w)
    for _ in range(n):
        g = g + w.detach()
    return s, t, g, (w > 0).float()


def behind_a_search_that_raises(x, n):
    """What the body of a ``try`` held when it failed was not computed of the leaf."""
    w = leaf(x)
    (g,) = torch.autograd.grad((w**2).sum(), w)
    w, t = w.detach(), torch.tensor(4.0)
    try:
        while True:
            if (w - t * g).square().sum() <= n:
                raise ValueError
            t = t * 0.5
            if t < 0.1:
                raise ValueError
    except ValueError:
        pass
    return w - t * g, t


def kept_where_it_failed(x, n):
    """It was computed of one that the body made."""
    y = x * n
    try:
        w = leaf(x)
        y = w * 2
        if n > 1:
            raise ValueError
    except ValueError:
        y = y + 1
    return y


PROGRAMS = [behind_a_search_that_raises, kept_where_it_failed, at_the_top, of_a_layer, in_a_branch, by_the_last_iteration, newton, the_gradient_too, steps_that_are_accepted, where_none_is_needed]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_which_require_a_gradient(program):
    converted = tg.function(program)
    for n in map(torch.tensor, (0, 1, 3)):
        rows = []
        for f in (converted, program):
            outs = tree_leaves(f(torch.tensor([1.0, 2.0]), n))
            rows.append([(x.detach(), x.requires_grad, x.is_leaf) if isinstance(x, torch.Tensor) else x for x in outs])  # fmt: skip
        torch.testing.assert_close(*rows)


def test_a_gradient_of_one_comes_to_nothing():
    @tg.function
    def f(x, y):
        w = x.detach().requires_grad_()
        return (w * w).sum(), (w * y).sum()

    x, y = torch.ones(2), torch.ones(2, requires_grad=True)
    s, t = f(x, y)
    s.backward()
    (s + t).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and x.grad is None
    s.add_(1)  # it is no view


def test_a_gradient_of_one_that_the_function_took_is_refused():
    def f(x):
        w = x.detach().requires_grad_()
        loss = (w * w).sum()
        loss.backward()
        return loss

    for g in (f, tg.function(f)):
        loss = g(torch.ones(2))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_without_gradients_there_is_none():
    @tg.function
    def f(x):
        w = x.detach().requires_grad_()
        return w * 2

    with torch.no_grad():
        assert not f(torch.ones(2)).requires_grad
    assert f(torch.ones(2)).requires_grad
    rows = torch.func.vmap(f)(torch.ones(3, 2))
    assert rows.tolist() == [[2.0, 2.0]] * 3


def test_a_gradient_that_was_taken_is_refused_for_what_it_depends_on_only():
    @tg.function
    def f(x, y, n):
        w = torch.zeros(2, requires_grad=True)
        for _ in range(n):
            loss = ((w - x.detach()) ** 2).sum() + (w * y).sum()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
        return loss * 1 if n < 1 else loss

    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    loss = f(x, y, torch.tensor(2))
    assert torch.autograd.grad(loss, x, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, y)


def asked_behind_a_branch(x, n):
    s = x * 0
    if n > 1:
        s = leaf(x) * 3
    y = s * 2
    return s.requires_grad, s.detach().requires_grad, y.requires_grad, s.is_leaf, y


def asked_behind_a_loop(x, n):
    s, k = x * 0, 0
    for _ in range(n):
        s = leaf(x) * 3
    if n > 1:
        if (s * 2).requires_grad:
            s.sum().backward()
            k = k + 1
    return s, k


def asked_in_the_next_iteration(x, n):
    loss = x.sum() * 0
    for _ in range(n):
        if loss.requires_grad:
            loss.backward()
            x = x - 0.1 * x.grad
        x = leaf(x)
        loss = (x**2).sum()
    return loss, x


def asked_where_branches_in_a_loop_make_it(x, n):
    s, k = x * 0, 0
    for i in range(n):
        if i > 1:
            s = leaf(x) * 3
        if s.requires_grad:
            k = k + 1
        s = s * 2
        if s.requires_grad:
            k = k + 10
    return s, k


@pytest.mark.parametrize(
    "program",
    [
        asked_behind_a_branch,
        asked_behind_a_loop,
        asked_in_the_next_iteration,
        asked_where_branches_in_a_loop_make_it,
    ],
)
def test_inside_it_requires_a_gradient_in_the_runs_in_which_it_does(program):
    converted = tg.function(program)
    for n in (0, 1, 3):
        rows = [tree_leaves(f(torch.ones(2), torch.tensor(n))) for f in (program, converted)]
        for x, y in zip(*rows, strict=True):
            torch.testing.assert_close(*((z.detach(), z.requires_grad) if isinstance(z, torch.Tensor) else z for z in (x, y)))  # fmt: skip
    assert converted.trace_count == 1


def test_what_a_branch_did_not_compute_of_a_leaf_has_no_gradient():
    @tg.function
    def f(x, n):
        s = x * 0
        if n > 1:
            s = leaf(x) * 3
        s.sum().backward()
        return s

    assert f(torch.ones(2), torch.tensor(2)).requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        f(torch.ones(2), torch.tensor(0))


def test_a_gradient_that_would_come_to_a_leaf_which_a_branch_gives_is_refused_by_the_run():
    @tg.function
    def f(x, n):
        if n > 1:
            w = leaf(x)
            s = w * 3
        else:
            w = x * 2
            s = w * 3
        s.sum().backward()
        return w.detach(), w.is_leaf

    x = torch.ones(2, requires_grad=True)
    assert not f(x, torch.tensor(0))[1]
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(GradientError, match="gives too"):
        f(x, torch.tensor(2))


def test_a_leaf_of_an_inner_loop_requires_a_gradient_behind_a_gradient_of_another_result():
    def f(x, n):
        w, v = x, x
        (v**2).sum().backward()
        for _ in range(n):
            v = v * 1
            for _ in range(n):
                v = x
                if w.grad is not None:
                    w = leaf(w - 0.1 * w.grad)
        (v**2).sum().backward()
        return w * 1, w.requires_grad

    for g in (f, tg.function(f)):
        w, requires = g(torch.ones(2, requires_grad=True), torch.tensor(2))
        assert w.requires_grad and requires


def test_a_gradient_to_a_leaf_of_an_earlier_loop_that_only_some_iterations_take():
    def f(x, n):
        w, v = x * 1, x
        for _ in range(n):
            v = leaf(w)
        for _ in range(n):
            for _ in range(n):
                if w.requires_grad:
                    (w**2).sum().backward()
                w = leaf(v + 0.1)
        return w, v

    rows = []
    for g in (f, tg.function(f)):
        x = torch.ones(2, requires_grad=True)
        w, v = g(x, torch.tensor(2))
        rows.append([w.detach(), w.grad, v.detach(), v.grad, x.grad])
    torch.testing.assert_close(*([y for y in row if y is not None] for row in rows))


def moved_by_a_branch_beside_a_gradient(x, n):
    v = x * 1.0
    w = leaf(v + 0.1)
    for _ in range(n):
        v = leaf(v + 0.1)
        (w**2).sum().backward()
        if n > 2:
            w, v = v, w
    return w, v


def of_a_branch_that_iterations_move(x, n):
    w, v = x, x.detach().clone()
    if n > 0:
        v = leaf(v + 0.1)
    (w**2).sum().backward()
    for _ in range(n):
        w, v = v, w
        if v.requires_grad:
            (v**2).sum().backward()
    return w, v


@pytest.mark.parametrize(
    "program", [moved_by_a_branch_beside_a_gradient, of_a_branch_that_iterations_move]
)
def test_leaves_that_loops_move_require_a_gradient_outside(program):
    converted = tg.function(program)
    for n in (0, 2, 3):
        rows = []
        for f in (program, converted):
            found = f(torch.ones(2, requires_grad=True), torch.tensor(n))
            rows.append([(y.detach(), y.requires_grad) for y in found])
        torch.testing.assert_close(*rows)


def test_a_leaf_of_some_paths_that_is_returned_behind_a_gradient_is_refused_at_its_branch():
    @tg.function
    def f(x, n):
        if n > 1:
            w = leaf(x)
            s = w * 3
        else:
            w = x * 2
            s = w * 3
        (x * x).sum().backward()
        return w, s

    with pytest.raises(GradientError, match="if n > 1"):
        f(torch.ones(2, requires_grad=True), torch.tensor(2))


def before_it_is_one(x):
    w = x * 2
    y = (w * 2).sum()
    w.requires_grad_()
    (w * x).sum().backward()
    return y, w * 3, w


def frozen_in_between(x):
    w = leaf(x)
    z = w * 3
    w.requires_grad_(False)
    h = w
    y = h * 2
    w.requires_grad_()
    return y, z, h, h * 4


def frozen_at_the_end(x):
    w = leaf(x)
    z = w * 3
    w.requires_grad_(False)
    return w * 2, z, w


@pytest.mark.parametrize("program", [before_it_is_one, frozen_in_between, frozen_at_the_end])
def test_what_is_computed_of_a_leaf_while_it_is_none_requires_no_gradient(program):
    rows = [f(torch.ones(2)) for f in (tg.function(program), program)]
    assert [(y.requires_grad, y.is_leaf) for y in rows[0]] == [(y.requires_grad, y.is_leaf) for y in rows[1]]  # fmt: skip
    torch.testing.assert_close(*([y.detach() for y in row] for row in rows))


def frozen_with_a_gradient(x):
    w = leaf(x)
    (w**2).sum().backward()
    w.requires_grad_(False)
    return w, w.grad


def frozen_layer(x):
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(0.5)
    layer(x).sum().backward()
    layer.requires_grad_(False)
    return list(layer.parameters())


def given_a_gradient(x):
    y = x * 2
    y.grad = x
    return {"y": y}


@pytest.mark.parametrize("program", [frozen_with_a_gradient, frozen_layer, given_a_gradient])
def test_what_requires_no_gradient_keeps_the_one_that_it_has(program):
    rows = [tree_leaves(f(torch.ones(2))) for f in (tg.function(program), program)]
    torch.testing.assert_close(*([(y.detach(), y.requires_grad, y.grad) for y in row] for row in rows))  # fmt: skip


def written_before_the_list(x, w, n):
    with torch.no_grad():
        x.mul_(2)
    xs = [x]
    for _ in range(n):
        xs.append(w)
        xs.append(x)
    return xs


def written_in_a_list(x, w, n):
    xs = [x]
    with torch.no_grad():
        x.mul_(2)
        w.add_(x)
    if n > 0:
        xs.append(w)
    xs.append(x)
    return xs


@pytest.mark.parametrize("case", [written_before_the_list, written_in_a_list])
def test_arguments_that_are_written_are_themselves_in_a_list(case):
    f = tg.function(case)
    for n in (2, 0, 1):
        found = []
        for g in (f, case):
            x, w = (torch.tensor([k, 2.0], requires_grad=True) for k in (1.0, 3.0))
            xs = g(x, w, torch.tensor(n))
            found.append([(y is x, y is w, y.is_leaf, y.tolist()) for y in xs])
        assert found[0] == found[1]
