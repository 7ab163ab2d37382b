"""Lists whose length depends on data, with leaves that the function made among their items: native against `tg.function`."""

from collections import deque

import pytest
import torch
from torch.utils._pytree import tree_leaves

import tograph as tg
from tograph.errors import GradientError


def leaf(x):
    return x.detach().clone().requires_grad_()


def the_path_of_a_descent(x, n):
    w = leaf(x)
    found = [x]
    for _ in range(n):
        (g,) = torch.autograd.grad((w**2).sum(), w)
        w = leaf(w - 0.1 * g)
        found.append(w)
    return found, w


def before_each_step(x, n):
    w, found = leaf(x), []
    for _ in range(n):
        found.append(w)
        w = leaf(w * 2)
    return found


def some_of_them(x, n):
    found = []
    for i in range(n):
        w = leaf(x * i)
        if w.sum() > 2:
            found.append(w)
        else:
            found.append(w.detach())
    return {"found": found}


def taken_out_and_replaced(x, n):
    found = [x, x * 2]
    for i in range(n):
        found.append(leaf(x * i))
        if i > 1:
            found.pop(0)
    found[0] = x * 5
    return found


def in_front_and_turned(x, n):
    found = []
    for i in range(n):
        found.insert(0, leaf(x * i) if i % 2 == 0 else x * i)
    found = found + [x]
    return found[::-1] if n > 2 else found


def in_a_comprehension(x, n):
    return [leaf(x * i) for i in range(n)]


def in_loops_in_each_other(x, n):
    found = []
    for i in range(n):
        for j in range(i):
            found.append((x * j).requires_grad_())
        if i > 1:
            found.append(x)
    return found


def in_two_lists_that_change_places(x, n):
    a, b = [], []
    for i in range(n):
        a.append(leaf(x * i))
        a, b = b, a
    return a, b


def what_has_none(x, n):
    w, found = leaf(x), []
    for _ in range(n):
        loss = (w**2).sum()
        loss.backward()
        found.append(loss.detach())
    return found


def on_some_paths_of_branches_in_each_other(x, n):
    w, found = leaf(x), []
    if n > 0:
        if n > 1:
            w = leaf(x * 2)
        found.append(w)
    return found


def in_tuples_and_objects(x, n):
    class Step:
        def __init__(self, w, of):
            self.w, self.of = w, of

    w, found, steps, last = leaf(x), [], [], deque(maxlen=2)
    for i in range(n):
        w = leaf(w * 2)
        found.append((w, i, x * i))
        steps.append({"w": w, "of": x.detach()})
        last.append(w)
    return [f[0] for f in found], found, steps, last, Step(w, found)


def read_again(x, n):
    found = [leaf(x)]
    for i in range(n):
        found.append(leaf(x * i))
    best = found[-1]
    for w in found:
        if w.sum() > best.sum():
            best = w
    return found[-1], best, [w for w in found if w.sum() > 1], found


PROGRAMS = [the_path_of_a_descent, before_each_step, some_of_them, taken_out_and_replaced, in_front_and_turned, in_a_comprehension, in_loops_in_each_other, in_two_lists_that_change_places, what_has_none, on_some_paths_of_branches_in_each_other, in_tuples_and_objects, read_again]  # fmt: skip


def tensors_of(f, n):
    """The tensors that a call gives, those in lists too."""
    found = tree_leaves(f(torch.tensor([1.0, 2.0]), n))
    return [x for x in found if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_which_items_are_leaves(program):
    converted = tg.function(program)
    for n in map(torch.tensor, (0, 1, 3)):
        rows = []
        for f in (converted, program):
            outs = tensors_of(f, n)
            rows.append([(x.detach(), x.requires_grad, x.is_leaf) for x in outs])
        torch.testing.assert_close(*rows)


def with_gradients_and_by_name(x, n):
    w, v, u = leaf(x), torch.zeros(2, requires_grad=True), leaf(x * 2)
    found = [w]
    (w * w + v * x).sum().backward()
    for i in range(n):
        found.append(v if i % 2 == 0 else w)
        found.append(w if i == 0 else leaf(w))
    (u * 3).sum().backward()
    return found, w, u


def in_tuples_with_gradients(x, n):
    w, found = leaf(x), []
    for i in range(n):
        found.append((i, w, w * 2))
    (w * w).sum().backward()
    return found


def one_that_an_iteration_took_out(x, n):
    w = u = leaf(x)
    found = [w]
    for _ in range(n):
        u = found[0]
        found.append(u)
    (w * w).sum().backward()
    return w, u, found


def one_or_another_one(x, n):
    w = leaf(x)
    u, found = w, [leaf(x * 2)]
    for i in range(n):
        found.append(leaf(x * i) if i % 2 == 0 else w)
        u = found[-1] if i > 0 else found[0]
    (w * w).sum().backward()
    return w, u


def put_in_by_branches_in_each_other(x, n):
    w, v = leaf(x), leaf(x * 2)
    found, last = [w], [v]
    if n > 0:
        last.append(found[0])
        if n > 2:
            found.append(last[-1])
    else:
        found.append(v)
    (v * w).sum().backward()
    return found, last


ITEMS = [with_gradients_and_by_name, in_tuples_with_gradients, put_in_by_branches_in_each_other]
NAMES = [
    one_that_an_iteration_took_out,
    one_or_another_one,
]  # two names of one object come back as two


@pytest.mark.parametrize("program", [*ITEMS, *NAMES])
def test_leaves_from_before_are_themselves_with_their_gradients(program):
    converted = tg.function(program)
    for n in map(torch.tensor, (0, 1, 3)):
        rows = []
        for f in (converted, program):
            outs = tensors_of(f, n)
            rows.append([(x.detach(), x.is_leaf, x.grad if x.is_leaf else None) for x in outs])
            rows[-1] += [[x is y for y in outs] for x in outs if program in ITEMS]
        torch.testing.assert_close(*rows)


def test_what_an_outer_loop_reads_of_a_list_that_an_inner_one_fills_with_it():
    def f(x, n):
        w, i = x.detach().clone().requires_grad_(), 0
        xs = [w]
        while i < n:
            i, j = i + 1, 0
            while j < n:
                j = j + 1
                xs.append(w)
            w = xs[0]
        return w, xs

    x, staged = torch.tensor([0.5, -0.3], requires_grad=True), tg.function(f)
    for n in (1, 2, 0):
        w, xs = staged(x, torch.tensor(n))
        assert w.requires_grad and w.is_leaf and len(xs) == 1 + n * n
        assert all(y is xs[0] for y in xs) and xs[0].requires_grad and xs[0].is_leaf


def graded_where_they_are_made(x, n):
    found = []
    for i in range(n):
        w = leaf(x * i)
        (w**2).sum().backward()
        found.append(w)
    return found


def graded_by_the_list(x, n):
    found, s = [], x
    for i in range(n):
        found.append(leaf(x * i))
    for w in found:
        s = s + w * x
    s.sum().backward()
    return found


@pytest.mark.parametrize("f", [graded_where_they_are_made, graded_by_the_list])
def test_leaves_of_regions_whose_gradients_are_not_followed_are_refused(f):
    with pytest.raises(GradientError, match="which of them has which is not followed") as error:
        tg.function(f)(torch.ones(2, requires_grad=True), torch.tensor(2))
    assert "test_item_leaves.py" in str(error.value)


def frozen_before(x, n):
    found, w = [], leaf(x)
    (w**2).sum().backward()
    w.requires_grad_(False)
    for i in range(n):
        found += [w, x.detach() * i]
    return found, w


def frozen_behind(x, n):
    found, w = [], leaf(x)
    (w**2).sum().backward()
    for _ in range(n):
        found.append(w)
    w.requires_grad_(False)
    return found


@pytest.mark.parametrize("f", [frozen_before, frozen_behind])
def test_frozen_leaves_in_lists_are_themselves(f):
    g = tg.function(f)
    for n in map(torch.tensor, (0, 1, 3)):
        ours, plain = (tree_leaves(h(torch.ones(2, requires_grad=True), n)) for h in (g, f))
        for a, b in zip(ours, plain, strict=True):
            assert torch.equal(a, b) and a.requires_grad == b.requires_grad
            assert (a.grad is None) == (b.grad is None) and (b.grad is None or a.grad.equal(b.grad))
        assert [x is ours[0] for x in ours] == [x is plain[0] for x in plain]


def test_frozen_leaves_of_regions_whose_gradients_are_not_followed_are_refused():
    @tg.function
    def f(x, n):
        found = []
        for i in range(n):
            w = leaf(x * i)
            (w**2).sum().backward()
            w.requires_grad_(False)
            found.append(w)
        return found

    with pytest.raises(GradientError, match="which of them has which is not followed"):
        f(torch.ones(2), torch.tensor(2))


def a_field_read_behind_a_branch(x, n):
    w = leaf(x)
    found = [w]
    if n > 1:
        found.append(x)
    if n > 0:
        w = found[0]
        (w**2).sum().backward()
    return w.grad


def a_field_that_is_set(x, n):
    w = leaf(x)
    found = [w]
    (w**2).sum().backward()
    if n > 1:
        found.append(leaf(x))
    for v in found:
        v.grad = None
    return w.grad


def a_field_of_an_argument(x, n):
    found = [x]
    if n > 1:
        found.append(x * 2)
    found[0].grad = torch.ones(2)
    return x.grad


@pytest.mark.parametrize(
    "f", [a_field_read_behind_a_branch, a_field_that_is_set, a_field_of_an_argument]
)
def test_fields_of_items_are_refused(f):
    with pytest.raises(GradientError, match="the gradient field of an item of a list") as error:
        tg.function(f)(torch.ones(2, requires_grad=True), torch.tensor(2))
    assert "test_item_leaves.py" in str(error.value)
