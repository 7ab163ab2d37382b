"""The `.grad` of leaves that staged branches and loops made and gave one: native against `tg.function`."""

import pytest
import torch

import tograph as tg
from tests.runtime.leaf_checks import compared
from tograph.errors import GradientError


def leaf(x):
    return x.detach().clone().requires_grad_()


def energy(w):
    return (w**2).sum()


def in_a_branch(a, n):
    w = leaf(a)
    if n > 1:
        w = leaf(w * 2)
        energy(w).backward()
    return w, w.grad


def in_branches_in_each_other(a, n):
    w = leaf(a)
    if n > 0:
        w = leaf(w * 0.9)
        energy(w).backward()
        if n > 2:
            (w**3).sum().backward()
        else:
            w = leaf(w * 2)
    return w * 3 if w.grad is None else (w + w.grad, w)


def and_once_more_behind_it(a, n):
    w = a
    if n > 1:
        w = leaf(a * 3)
        energy(w).backward()
    (w * w).sum().backward()
    if n > 2:
        w.grad.zero_()
    return w, w.grad


def by_another_name(a, n):
    w, g = leaf(a), torch.zeros(2)
    if n > 1:
        w = leaf(a)
        energy(w).backward()
        g = w.grad
    g += 1
    return w, g


def by_a_call(a, n):
    def made(k):
        v = leaf(a * k)
        energy(v).backward()
        return v

    return made(2) if n > 1 else made(3)


def in_a_try(a, n):
    w = leaf(a)
    try:
        w = leaf(w * 2)
        energy(w).backward()
        if n > 1:
            raise ValueError
    except ValueError:
        w = leaf(w * 3)
    return w, w.grad


def returned_early(a, n):
    for i in range(4):
        w = leaf(a * i)
        energy(w).backward()
        if i >= n:
            return w
    return w, w.grad


def in_iterations(a, n):
    w = leaf(a)
    for _ in range(n):
        w = leaf(w * 2)
        energy(w).backward()
    return w


def when_an_iteration_begins(a, n):
    w = leaf(a)
    energy(w).backward()
    while n > 0:
        w = leaf(w - 0.1 * w.grad)
        energy(w).backward()
        n = n - 1
    return w, w.grad


def of_an_argument_before(a, n):
    w = a
    energy(w).backward()
    for _ in range(n):
        w = leaf(w - 0.1 * w.grad)
        energy(w).backward()
    return w, w.grad


def in_some_iterations(a, n):
    w = leaf(a)
    for i in range(n):
        if i % 2 == 0:
            w = leaf(w * 0.9)
        energy(w).backward()
    return w, w.grad


def steps_that_are_accepted(a, n):
    w = leaf(a)
    f, t = energy(w), 0.1
    f.backward()
    for _ in range(n):
        new = leaf(w - t * w.grad)
        after = energy(new)
        after.backward()
        if after < f:
            w, f, t = new, after.detach(), t * 4
        else:
            t = t * 0.3
    return w, w.grad, t


def the_best_of_several(a, n):
    best, least = None, torch.tensor(1e9)
    for i in range(n):
        w = leaf(a + i)
        loss = ((w - 2) ** 2).sum()
        loss.backward()
        if loss < least:
            best, least = w, loss.detach()
    return a if best is None else (best, best.grad, least)


def the_one_before(a, n):
    w = leaf(a)
    before = w
    for _ in range(n):
        energy(w).backward()
        before, w = w, leaf(w - 0.1 * w.grad)
    return w, before, before.grad


def in_a_list(a, n):
    ps = [leaf(a), leaf(a * 3)]
    (ps[0] * ps[1]).sum().backward()
    for _ in range(n):
        ps = [leaf(p - 0.1 * p.grad) for p in ps]
        (ps[0] * ps[1]).sum().backward()
    return ps, [p.grad for p in ps]


def in_an_attribute(a, n):
    class Held:
        w = leaf(a)

    held = Held()
    energy(held.w).backward()
    for _ in range(n):
        held.w = leaf(held.w - 0.1 * held.w.grad)
        energy(held.w).backward()
    return held.w


def in_loops_in_each_other(a, n):
    w = leaf(a)
    energy(w).backward()
    for i in range(n):
        for _ in range(i):
            w = leaf(w - 0.1 * w.grad)
            energy(w).backward()
    return w, w.grad


def an_argument_that_is_returned_early(a, n):
    w = leaf(a)
    (a * w).sum().backward()
    t = a * 2
    while n > 0:
        return (a if a.sum() > 0.2 else a), t.tanh().mean()
    return a, t.sin()


def cleared_in_the_first_iteration(a, n):
    w = a
    for _ in range(n):
        energy(w).backward()
        g, w.grad = w.grad, None
        w = leaf(w - 0.1 * g)
    return w


def assigned_in_the_first_iteration(a, n):
    w = a
    for i in range(n):
        w.grad = torch.ones(2) * i
        w = leaf(w - 0.1 * w.grad)
    return w, w.grad


def where_it_has_one(a, n):
    w = leaf(a)
    for _ in range(n):
        if w.grad is not None:
            w = leaf(w - 0.1 * w.grad)
        energy(w).backward()
    for _ in range(n):
        energy(w).backward()
    return w, w.grad


def on_some_paths_of_branches_in_each_other(a, n):
    w = a
    if n > 0:
        if n < 2:
            w = leaf(w * 0.5)
    else:
        w = leaf(w * 0.9)
    energy(w).backward()
    return w, w.grad


def of_two_names(a, n):
    best = w = leaf(a)
    for i in range(n):
        w = leaf(w * 0.9)
        if i < 2:
            best = w
    energy(best).backward()
    (w * best).sum().backward()
    return w, best, w.grad, best.grad


def of_two_names_in_a_branch(a, n):
    best = w = leaf(a)
    if n > 0:
        w = leaf(w * 0.9)
        if n > 1:
            best = w
    energy(best).backward()
    return w, best, w.grad, best.grad, *torch.autograd.grad((best * w).sum(), w)


def of_a_branch_moved_by_a_loop(a, n):
    w, v = a, a.detach().clone()
    if n > 0:
        v = leaf(v + 0.1)
    for _ in range(n):
        w, v = v, w
        energy(v).backward()
    return w, w.grad, v


def the_one_of_the_iteration_before(a, n):
    w = v = a
    for _ in range(n):
        w, v = v, leaf(v * 0.9)
    (w**2 * 3).sum().backward()
    return w, w.grad, v, v.grad


def that_change_places(a, n):
    w, v = leaf(a * 2), leaf(a * 3)
    for i in range(n):
        w, v = v, w
        if i % 2 == 0:
            v = leaf(w + 1)
    (w**2).sum().backward()
    return w, w.grad, v, v.grad


def in_a_list_that_grows(a, n):
    w, found = leaf(a), []
    v = w
    energy(v).backward()
    for _ in range(n):
        if v.requires_grad:
            energy(v).backward(retain_graph=True)
        found.append(w)
        v = w * v
    return w, w.grad


def changed_in_place_when_an_iteration_begins(a, n):
    w = leaf(a)
    energy(w).backward()
    for _ in range(n):
        w.grad.mul_(2)
        w = leaf(w - 0.1 * w.grad)
        energy(w).backward()
    return w, w.grad


def of_the_other_one_in_turn(a, n):
    w, v = leaf(a), leaf(a * 2)
    for _ in range(n):
        if w.grad is not None:
            w.grad.zero_()
        (w * w * v).sum().backward()
        w, v = v, w
    return w, v


def of_the_old_one_where_that_is_better(a, n):
    w, old = leaf(a), leaf(a * 2)
    for _ in range(n):
        energy(w).backward()
        new = leaf(w - 0.3 * w.grad)
        if energy(new) < energy(old):
            old, w = w, new
        else:
            w, old = old, w
        w.grad = None
        old.grad = None
    return w, old


def set_to_none_where_a_loop_before_moved_it(a, n):
    w, v = a, leaf(a * 2)
    (w * w * v).sum().backward()
    for _ in range(n):
        w, v = v, w
    for _ in range(n - 1):
        w.grad = None
        w, v = v, w
    return w, v


def read_by_a_name_from_before_the_loop(a, n):
    w = first = leaf(a)
    total = torch.zeros(2)
    for k in range(n):
        energy(first).backward()
        if w.grad is not None:
            total = total + w.grad
        if k == 1:
            w = leaf(w * 0.5)
    return w, total


def changed_by_either_name(a, n):
    w, best, total = leaf(a), leaf(a * 2), torch.zeros(2)
    for k in range(n + 2):
        energy(best).backward()
        if k == 0:
            w = leaf(w * 0.9)
            best = w
        elif k == 1:
            w.grad = None
        elif w.grad is not None:
            best.grad.mul_(3)
        if w.grad is not None:
            total = total + w.grad
    return w, best, total


def the_argument_from_the_second_iteration_on(a, n):
    u = leaf(a * 2)
    for _ in range(n):
        energy(u).backward()
        u = a
    return u


def read_where_two_branches_moved_one_that_was_there(a, n):
    w, v = leaf(a), leaf(a * 2)
    for i in range(2):
        if i < n:
            (w * a).sum().backward()
            if v.grad is not None:
                v = leaf(v)
        else:
            v, w = w, leaf(v)
    return w, v


PROGRAMS = [
    read_where_two_branches_moved_one_that_was_there,
    the_argument_from_the_second_iteration_on, changed_in_place_when_an_iteration_begins, of_the_other_one_in_turn, of_the_old_one_where_that_is_better, set_to_none_where_a_loop_before_moved_it, read_by_a_name_from_before_the_loop, changed_by_either_name,
    in_a_branch, in_branches_in_each_other, and_once_more_behind_it, by_another_name, by_a_call, in_a_try, returned_early, in_iterations, when_an_iteration_begins, of_an_argument_before, in_some_iterations,
    steps_that_are_accepted, the_best_of_several, the_one_before, in_a_list, in_an_attribute, in_loops_in_each_other, where_it_has_one, an_argument_that_is_returned_early, cleared_in_the_first_iteration, assigned_in_the_first_iteration,
    on_some_paths_of_branches_in_each_other, of_two_names, of_two_names_in_a_branch, of_a_branch_moved_by_a_loop, the_one_of_the_iteration_before, that_change_places, in_a_list_that_grows,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    assert compared(program).trace_count == 1


def made_in_the_first_iteration(a, n):
    w = a * 2
    for i in range(n):
        w = leaf(w) if i == 0 else w * 2
    return w.is_leaf, w.requires_grad, 3 if w.is_leaf else w


def made_in_the_iterations_before(a, n):
    w = a * 2
    for _ in range(n):
        w = leaf(w)
    for _ in range(n - 1):
        w = w * 2
    return w.is_leaf, w.requires_grad


def asked_of_what_changes_places(a, n):
    w, v, k = leaf(a), a.detach().clone(), 0
    for _ in range(n):
        if v.requires_grad:
            energy(v).backward()
        if v.grad is not None:
            k = k + 1
        w, v = v, w
    return w.requires_grad, v.is_leaf, k


def asked_of_what_earlier_iterations_made(a, n):
    w = v = a.detach().clone()
    k = 0
    for _ in range(n):
        if w.requires_grad:
            v = leaf(a * 0.3)
            energy(w).backward()
            if w.grad is not None:
                k = k + 1
        w = leaf(w)
    return w.requires_grad, v.requires_grad, k


def asked_of_some_of_several(a, n):
    pair, k = (leaf(a), a.detach() * 2), 0
    for _ in range(n):
        (pair[0] * pair[1]).sum().backward()
        if pair[1].requires_grad:
            k = k + 1
        pair = leaf(pair[0] * 0.9), pair[1] * 2
    return pair[0].requires_grad, pair[1].requires_grad, k


def computed_of_what_it_makes(a, n):
    w, v = a, leaf(a * 0.9)
    for _ in range(n):
        w, v = v + 0.1, leaf(w)
    return w.is_leaf, w.requires_grad


def made_in_a_branch(a, n):
    w = a
    if n > 0:
        w = leaf(a)
    if n > 2:
        w = w * 2
    return w.is_leaf, w.requires_grad


def detached_in_a_branch(a, n):
    w = a * 2
    if n > 1:
        w = w.detach()
    return w.is_leaf, w.requires_grad, w.grad_fn is None, w if w.grad_fn else w.sum()


@pytest.mark.parametrize(
    "program",
    [
        made_in_the_first_iteration,
        made_in_the_iterations_before,
        made_in_a_branch,
        detached_in_a_branch,
    ],
)
def test_which_are_leaves_in_a_run(program):
    converted = tg.function(program)
    for n in map(torch.tensor, (0, 1, 3)):
        rows = [f(torch.tensor([1.0, 2.0], requires_grad=True), n) for f in (converted, program)]
        torch.testing.assert_close(*([x.detach() if isinstance(x, torch.Tensor) else bool(x) for x in row] for row in rows))  # fmt: skip


def test_where_another_path_gives_what_is_no_leaf_it_is_refused():
    @tg.function
    def f(a, n):
        w = leaf(a * 2)
        if n > 0:
            for _ in range(n):
                if w.grad is not None:
                    w = leaf(w - 0.1 * w.grad)
                energy(w).backward()
        else:
            w = a * 0.3
        energy(w).backward()
        return w.grad

    with pytest.raises(GradientError, match="not followed"):
        f(torch.ones(2, requires_grad=True), torch.tensor(2))


def test_a_leaf_of_branches_in_each_other_gets_gradients():
    def f(a, n):
        w = leaf(a * 2)
        if n > 0:
            for _ in range(n):
                if w.grad is not None:
                    w = leaf(w - 0.1 * w.grad)
                energy(w).backward()
        energy(w).backward()
        return w.grad

    g = tg.function(f)
    for n in map(torch.tensor, (0, 1, 3)):
        torch.testing.assert_close(g(torch.ones(2), n), f(torch.ones(2), n))


def frozen(x):
    layer = torch.nn.Linear(2, 2)
    for p in layer.parameters():
        p.requires_grad_(False)
    return layer(x), x.new_ones(2).requires_grad_().requires_grad_(False), torch.nn.Linear(2, 2)(x)


def test_what_is_computed_of_leaves_that_are_none_any_more_requires_no_gradient():
    found = tg.function(frozen)(torch.ones(2))
    assert [y.requires_grad for y in found] == [y.requires_grad for y in frozen(torch.ones(2))]


def test_the_field_of_what_is_a_leaf_in_some_iterations_is_refused_behind_a_gradient():
    @tg.function
    def f(a, n):
        w = leaf(a)
        v = a.detach().clone()
        for _ in range(n):
            if v.requires_grad:
                energy(v).backward()
            if v.grad is not None:
                w = leaf(v - 0.1 * v.grad)
            w, v = v, w
        return w, v

    with pytest.raises(GradientError, match="not followed"):
        f(torch.ones(2, requires_grad=True), torch.tensor(2))


def test_what_requires_a_gradient_is_asked_in_an_inner_loop():
    def f(a, n):
        w, found = leaf(a), []
        for _ in range(n):
            for _ in range(n):
                w = w * 0.9
                found.append(w)
                if w.requires_grad:
                    energy(w).backward()
            w = leaf(w)
        return w

    g = tg.function(f)
    for n in map(torch.tensor, (0, 1)):
        torch.testing.assert_close(g(torch.ones(2), n), f(torch.ones(2), n))
    with pytest.raises(RuntimeError, match="second time"):
        g(torch.ones(2), torch.tensor(2))


def test_what_a_branch_in_an_iteration_detached_requires_no_gradient_in_the_next_one():
    def program(x, n):
        u, count = leaf(x), 0
        for _ in range(n):
            if u.requires_grad:
                count = count + 1
                if x.sum() > 1:
                    u = torch.sin(x).detach()
        return u.requires_grad, torch.as_tensor(count)

    converted = tg.function(program)
    for x in (torch.ones(2), -torch.ones(2)):
        rows = [[int(y) for y in f(x, torch.tensor(3))] for f in (converted, program)]
        assert rows[0] == rows[1]


def frozen_in_a_branch(a, n):
    if n > 1:
        w = leaf(a)
        energy(w).backward()
        w.requires_grad_(False)
    else:
        w = leaf(a * 3)
        (w * 2).sum().backward()
    return w


def frozen_beside_what_is_computed(a, n):
    if n > 1:
        w = leaf(a)
        energy(w).backward()
        w.requires_grad_(False)
    else:
        w = a * 2
    return w


def frozen_in_a_loop(a, n):
    w = leaf(a)
    for _ in range(n):
        w = leaf(w * 0.5)
        energy(w).backward()
        w.requires_grad_(False)
    return w


def frozen_and_moved(a, n):
    w, v = leaf(a), leaf(a * 2)
    energy(w).backward()
    w.requires_grad_(False)
    for _ in range(n):
        v, w = w, v
    return v, w


def a_field_of_what_requires_no_gradient(a, n):
    v = leaf(a)
    b, g = torch.ones(2), v
    for _ in range(n):
        g = v
        v.grad = b
        v = v.detach()
    return g.detach() if n < 1 else g


def moved_without_a_gradient(a, n):
    v, u = leaf(a), leaf(a * 2)
    for k in range(n):
        if k > 0:
            energy(u).backward()
            u = leaf(torch.sin(a))
            u, v = v, u
    return v, u


def moved_behind_a_continue(a, n):
    v, u = leaf(a), leaf(a * 2)
    for k in range(n):
        if k % 2 == 0:
            if k < 1:
                continue
            energy(u).backward()
        else:
            u = leaf(torch.sin(a))
        u, v = v, u
    return v, u


LEFT = [frozen_in_a_branch, frozen_beside_what_is_computed, frozen_in_a_loop, frozen_and_moved, a_field_of_what_requires_no_gradient, moved_without_a_gradient, moved_behind_a_continue]  # fmt: skip


@pytest.mark.parametrize("f", LEFT)
def test_what_leaves_in_fields_of_frozen_and_moved_leaves(f):
    compared(f)
