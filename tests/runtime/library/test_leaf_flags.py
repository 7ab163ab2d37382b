"""``requires_grad`` that the code sets: of tensors with a history on some paths, of those from outside, in branches and loops."""

import traceback

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError, GraphBoolError

D = torch.float64


def outcome(f, *args):
    """What a call gives, with what that and the tensors from outside require; or its error."""
    try:
        found = f(*args)
    except RuntimeError as error:
        return type(error).__name__, str(error).splitlines()[0]
    found = found if isinstance(found, tuple) else (found,)
    return [(x.tolist(), x.requires_grad, x.is_leaf) for x in (*found, *args)]


def compare(f, calls):
    """Calls of the function and of plain Python; where a run is refused, which."""
    refused, staged = [], tg.function(f)
    for args in calls:
        want = outcome(f, *(x.detach().clone().requires_grad_(x.requires_grad) for x in args))
        got = outcome(staged, *args)
        if got[0] == "GradientError":
            refused.append(args[-1].item())
        else:
            assert got == want or got[1].startswith(want[1])
    return refused


def vectors(*last):
    for n in last:
        yield torch.ones(2, dtype=D), torch.full((2,), 3.0, dtype=D, requires_grad=True), torch.tensor(n)  # fmt: skip


def in_a_loop(h, w, n):
    h, i = h.clone(), 0
    while i < n:
        h = h * w
        h.requires_grad = True
        i = i + 1
    return h


def first_of_a_loop(h, w, n):
    h, i = h.clone(), 0
    while i < n:
        h.requires_grad = True
        h = h * 2
        i = i + 1
    return h


def behind_a_loop(h, w, n):
    h, i = h.clone(), 0
    while i < n:
        h, i = h * w, i + 1
    h.requires_grad = True
    return h


def on_one_path(h, w, n):
    h = h * w if n > 0 else h.clone()
    h.requires_grad = True
    return h * 2


def by_the_method(h, w, n):
    h = h * w if n > 0 else h.clone()
    h.requires_grad_()
    return torch.autograd.grad(h.sin().sum(), h)[0]


def frozen_on_one_path(h, w, n):
    h = h * w if n > 0 else h.clone()
    h.requires_grad_(False)
    return h * 2


def a_leaf_on_one_path(h, w, n):
    h = w.detach().clone().requires_grad_() if n > 0 else h.clone()
    h.requires_grad_(False)
    return h * 2


@pytest.mark.parametrize("f, refused", [
    (in_a_loop, []), (first_of_a_loop, [1, 0, 2]), (behind_a_loop, [0]), (on_one_path, [0]), (by_the_method, [0]),
    (frozen_on_one_path, []), (a_leaf_on_one_path, [1, 2]),
])  # fmt: skip
def test_what_has_a_history_on_some_paths(f, refused):
    assert compare(f, vectors(1, 0, 2)) == refused


def begun(with_):
    """A loop whose first iteration has what was ``with_`` a leaf before."""

    def f(h, w, n):
        z, i = with_(w), 0
        while i < n:
            z.requires_grad_()
            (g,) = torch.autograd.grad((z * z).sum(), z)
            z, i = z.detach() - 0.1 * g, i + 1
        return z

    return f


def of_a_copy(h, w, n):
    z, s, i = h, h * 0, 0
    while i < n:
        z = z.clone().requires_grad_()
        s, i = s + torch.autograd.grad((z * z).sum(), z)[0], i + 1
    return s, z


def of_a_product(h, w, n):
    z, i = h * 1, 0
    while i < n:
        z, i = (z * 2).requires_grad_(), i + 1
    return z * 2


@pytest.mark.parametrize("f", [begun(lambda w: w), begun(lambda w: w * 2), of_a_copy, of_a_product])
def test_the_first_iteration_has_another_one(f):
    assert compare(f, vectors(2, 0, 1)) == []


@pytest.mark.parametrize("frozen", [False, True])
def test_calls_with_arguments_that_require_one_and_that_do_not(frozen):
    def f(x):
        h = x * 2
        h.requires_grad_(not frozen)
        return h

    for order in ((True, False, True), (False, True, False)):
        staged = tg.function(f)
        for required in order:
            x = torch.ones(2, dtype=D, requires_grad=required)
            assert outcome(staged, x) == outcome(f, x)


def of_the_caller(h, w, n):
    z, i = h, 0
    while i < n:
        z.requires_grad_()
        (g,) = torch.autograd.grad((z * z).sum(), z)
        z, i = (z - 0.1 * g).detach(), i + 1
    return z


def by_another_name(h, w, n):
    z = h if n > 0 else h.clone()
    z.requires_grad_()
    return z * 2


def in_a_branch(h, w, n):
    if n > 0:
        h.requires_grad_()
    return h * 2


def turned_on_by_iterations(h, w, n):
    i, s = 0, h * 0
    while i < n:
        h.requires_grad_()
        s, i = s + torch.autograd.grad((h * h).sum(), h)[0], i + 1
    return s


def turned_off_by_iterations(h, w, n):
    i, s = 0, h * 0
    while i < n:
        w.requires_grad = False
        s, i = s + w, i + 1
    return s * w


def in_both_branches(h, w, n):
    if n > 0:
        w.requires_grad_(False)
    else:
        w.requires_grad = False
    return h * w


def restored(h, w, n):
    i, s = 0, h * 0
    while i < n:
        w.requires_grad_(False)
        h.requires_grad = True
        s = s + torch.autograd.grad((h * w).sum(), h)[0]
        h.requires_grad_(False)
        w.requires_grad_(True)
        s, i = s + torch.autograd.grad((w * w).sum(), w)[0], i + 1
    return s * w


@pytest.mark.parametrize("f, refused", [
    (of_the_caller, [1, 2]), (by_another_name, [1, 2]), (in_a_branch, [0]), (turned_on_by_iterations, [0]), (turned_off_by_iterations, [0]),
    (in_both_branches, []), (restored, []),
])  # fmt: skip
def test_tensors_from_outside(f, refused):
    assert compare(f, vectors(1, 0, 2)) == refused


def test_networks_that_take_turns_in_a_loop():
    def f(x, n):
        for _ in range(n):
            one.requires_grad_(False)
            one(two(x)).sum().backward()
            one.requires_grad_(True)
            one(two(x).detach()).sin().sum().backward()

    torch.manual_seed(0)
    one, two, x, found = torch.nn.Linear(2, 1), torch.nn.Linear(2, 2), torch.ones(3, 2), []
    for g in (f, tg.function(f)):
        for n in (2, 0, 1):
            for p in (*one.parameters(), *two.parameters()):
                p.grad = torch.zeros_like(p)
            g(x, torch.tensor(n))
            found.append(
                [(p.grad.clone(), p.requires_grad) for p in (*one.parameters(), *two.parameters())]
            )
    for a, b in zip(found[:3], found[3:], strict=True):
        torch.testing.assert_close(a, b)


def ones(x, c):
    return torch.ones(2, requires_grad=c > 0) * x


def of_data(x, c):
    return torch.tensor([1.0, 2.0], requires_grad=bool(c > 0)) * x


def by_assignment(x, c):
    y = x.clone()
    y.requires_grad = bool(c > 0)
    return y


@pytest.mark.parametrize("f", [ones, of_data, by_assignment])
def test_a_flag_that_only_the_run_knows(f):
    with pytest.raises(GraphBoolError, match="whether a tensor requires a gradient") as caught:
        tg.function(f)(torch.ones(2), torch.tensor(1))
    line = f.__code__.co_firstlineno + 1 + (f is by_assignment)
    assert f'File "{__file__}", line {line}' in str(caught.value)


def test_a_refused_run_names_the_line():
    with pytest.raises(GradientError, match="depends on a staged branch") as caught:
        tg.function(on_one_path)(*next(vectors(0)))
    line = on_one_path.__code__.co_firstlineno + 2
    assert f'File "{__file__}", line {line}' in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.zeros_like(x, requires_grad=True),
        lambda x: torch.zeros(2, requires_grad=True),
        lambda x: torch.tensor([1.0, 2.0], requires_grad=True),
        lambda x: x.new_tensor([1.0, 2.0], requires_grad=True),
    ],
)
def test_what_a_maker_gives_with_a_gradient_is_a_leaf_of_the_code(make):
    """A loop that may leave it as it was gives a leaf where it did."""

    def f(x, n):
        w = make(x)
        best = w
        for i in range(n):
            (w * best * x).sum().backward()
            if i % 2 == 0:
                best = w.detach().clone()
        return best, w

    found = tg.function(f)
    for n in (0, 1, 2):
        rows = []
        for g, count in ((found, torch.tensor(n)), (f, n)):
            results = g(torch.tensor([0.5, -2.0]), count)
            rows.append([(r.detach(), r.requires_grad, r.is_leaf, r.grad) for r in results])
        torch.testing.assert_close(*rows)
