"""Which leaf a name stands for behind staged branches and loops: eager PyTorch against `tg.function`, and what is refused."""

import pytest
import torch

import tograph as tg
from tests.runtime.leaf_checks import compared
from tograph.errors import GradientError


def leaf(x):
    return x.detach().clone().requires_grad_()


def energy(w):
    return (w**2).sum()


def written_in_one_branch(a, n):
    w, v = leaf(a), leaf(a * 2)
    if n > 1:
        v = w.detach()
    else:
        with torch.no_grad():
            v.add_(0.1 * w)
    return w, v


def written_in_a_loop_and_named(a, n):
    w, g = leaf(a * 2), torch.zeros(2)
    (w * a).sum().backward()
    for _ in range(n):
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        g = w
    return w, g


def by_two_branches(a, n):
    w = leaf(a)
    v = first = leaf(a * 3)
    if n > 0:
        v = w.detach()
    if n > 2:
        v = w.detach()
    (v * w).sum().backward()
    return w, v, first


def both_names_of_the_caller(a, n):
    w = v = a
    for k in range(n):
        if k % 2 == 0:
            v, w = w, v
        w.grad = torch.ones(2)
        v = a * 2
    return w, v


def asked_where_a_name_has_a_gradient(a, n):
    w, v = leaf(a * 2), a
    for _ in range(n):
        if v.grad is None:
            v, w = w, v
            energy(a).backward()
    return a * 1


def one_that_may_be_none(a, n):
    w = leaf(a)
    if n > 0:
        energy(w).backward()
    g = w.grad
    (w * a).sum().backward()
    return w, torch.zeros(2) if g is None else g


def one_from_before_a_loop(a, n):
    a.grad = g = torch.zeros(2)
    for _ in range(n):
        energy(a).backward()
    return g


def shared_by_two_leaves(a, n):
    w = leaf(a * 2)
    for _ in range(n):
        (w * a).sum().backward()
        w.grad = a.grad
    return w


def changed_by_the_other_name(a, n):
    w, g = leaf(a), torch.zeros(2)
    for _ in range(n):
        g = w.grad
        (w * a).sum().backward()
        if g is not None:
            g.mul_(0.5)
    return w


def swapped_behind_a_loop_that_may_leave_both(a, n):
    w, v, u = leaf(a), leaf(a * 2), leaf(a * 3)
    for _ in range(n):
        v = leaf(v - 0.1)
        u = w
    if n > 1:
        v, u = u, v
    energy(v).backward()
    return w, v, u


PROGRAMS = [
    swapped_behind_a_loop_that_may_leave_both, written_in_one_branch, written_in_a_loop_and_named, by_two_branches, both_names_of_the_caller, asked_where_a_name_has_a_gradient,
    one_that_may_be_none, one_from_before_a_loop, shared_by_two_leaves, changed_by_the_other_name,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    compared(program)


def one_of_two_behind_a_loop(a, n):
    w, v = leaf(a), leaf(a * 2)
    for _ in range(n):
        w = v
    w.copy_(a)
    return w


def that_change_places(a, n):
    w, v = leaf(a), leaf(a * 2)
    for _ in range(n + 1):
        w, v = v, w
        w.copy_(v)
    return w


def one_of_the_iteration_before(a, n):
    w = leaf(a)
    for k in range(n + 2):
        if k > 0:
            w.add_(1)
        w = leaf(w * 2)
    return w


def one_that_a_branch_made(a, n):
    w = leaf(a) if n >= 0 else a * 2
    w.add_(1)
    return w


def a_view_of_one_that_a_branch_made(a, n):
    w = leaf(a) if n >= 0 else a * 2
    w[0].add_(1)
    return w


WRITES = [one_of_two_behind_a_loop, that_change_places, one_of_the_iteration_before, one_that_a_branch_made, a_view_of_one_that_a_branch_made]  # fmt: skip


@pytest.mark.parametrize("program", WRITES)
def test_a_write_to_a_leaf_raises(program):
    for f in (program, tg.function(program)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used"):
            f(torch.ones(2), torch.tensor(1))


def test_a_write_to_what_is_no_leaf_in_the_iterations_that_write():
    def f(a, n):
        w = leaf(a)
        for k in range(n):
            if k > 0:
                w.add_(1)
            w = w * 2
        return w

    for n in (0, 1, 3):
        given = torch.ones(2), torch.tensor(n)
        torch.testing.assert_close(tg.function(f)(*given), f(*given))


def in_loops_in_each_other(p, n):
    u = p
    for _ in range(n):
        for _ in range(n):
            (g,) = torch.autograd.grad((u * u * p).sum(), u)
            u = leaf(u - 0.1 * g)
    return u


def what_an_inner_loop_gives(p, n):
    w, v, g = p, leaf(p * 2), torch.zeros(2)
    for _ in range(n):
        for _ in range(n):
            v, w = w, v
        (g,) = torch.autograd.grad((v * v * p).sum(), v)
    return g


def what_another_name_was_before(p, n):
    w, v, g = p, leaf(p), torch.zeros(2)
    for _ in range(n):
        (g,) = torch.autograd.grad((v * v * p).sum(), v)
        for _ in range(n):
            v, w = w, v
    return g


def one_that_a_branch_made_with_a_gradient(p, n):
    v = p
    if n > 1:
        v = leaf(p * 2)
    else:
        energy(v).backward()
        with torch.no_grad():
            v -= 0.1 * v.grad
    (v * v * p).sum().backward()
    return v


REFUSED = [in_loops_in_each_other, what_an_inner_loop_gives, what_another_name_was_before, one_that_a_branch_made_with_a_gradient]  # fmt: skip


@pytest.mark.parametrize("program", REFUSED)
def test_what_is_not_followed_is_refused(program):
    with pytest.raises(GradientError):
        tg.function(program)(torch.ones(2, requires_grad=True), torch.tensor(2))
