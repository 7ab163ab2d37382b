"""Slices between numbers of the run: their sizes where they are proved, and eager PyTorch's results."""

import random

import pytest
import torch

import tograph as tg

X = torch.linspace(-1, 1, 280).view(40, 7)
CASES = []
N = torch.tensor


def case(*sizes, **numbers):
    """``sizes``: of the slices in the graph, in order; ``numbers``: what to call it with."""

    def add(function):
        given = numbers.get("given", (4, 0, -3, 39, 100))
        CASES.append(pytest.param(function, sizes, given, id=function.__name__))
        return function

    return add


def sizes_of(made):
    """The first sizes of the results of slices, in the order of the text."""
    lines = [n for n in str(made.graph).splitlines() if "aten.slice.Tensor" in n]
    found = [n.split(" = aten")[0].split("[")[-1].split(",")[0].rstrip("]") for n in lines]
    return tuple(None if n == "?" else int(n) for n in found)


@case(8, 5, 3, None)
def drawn(x, n):
    j, k = torch.randint(0, 33, ()).item(), random.randrange(30)
    return x[j : j + 8], x[k : k + 5], x[k + 2 : k + 5], x[j : j + 9]


@case(8, 8)
def drawn_in_a_batch(x, n):
    at = torch.randint(30, (6,))
    return torch.stack([x[i : i + 8] for i in at]) + torch.stack([x[i + 1 : i + 9] for i in at])


@case(8, 2, 3, 1)
def limited(x, n):
    j = n.clamp(0, 30)
    k = torch.minimum(torch.maximum(j - 3, N(2)), N(20))
    return x[j : j + 8], x[k : k + 2], x[j // 2 : j // 2 + 3], x[abs(j - 9) : abs(j - 9) + 1]


@case(3, None, 2)
def from_the_end(x, n):
    k = n.item() % 30 + 1
    return x[-k - 3 : -k], x[-k - 11 : -k], x[len(x) - k - 2 : len(x) - k]


@case(0, 0, 4, 0)
def empty_and_by_steps(x, n):
    k = n.item() % 25
    return x[k + 40 : k + 44], x[k + 5 : k], x[k : k + 10 : 3], x[k:k]


@case(None, None)
def not_known(x, n):
    j = n.item()
    return x[j : j + 3].sum(), x[max(j, 0) : j + 3].sum()


@case(4, 4, 7)
def guarded(x, n):
    j = n.item()
    if j < 0 or j + 4 > len(x):
        return x[:4], 0
    assert j != 3
    y = x[j : j + 4]
    if j + 7 <= len(x):
        return y * 2, x[j : j + 7].sum()
    return y, 1


@case(5)
def counted(x, n):
    s = torch.zeros(7)
    for i in range(0, n.item(), 5):
        if i + 5 > x.shape[0]:
            break
        s = s + x[i : i + 5].sum(0)
    return s


@case(3, 3)
def backwards(x, n):
    i, s = min(max(n.item(), 0), 30), x[:3] * 0
    while i >= 3:
        s = s + x[i - 3 : i]
        i -= 2
    return s


@case(3, 3)
def by_tensors(x, n):
    i, s = torch.tensor(0), x[:3] * 0
    while i < n and i < 20:
        s = s + x[i : i + 3]
        i = i + 4
    return s


@case(4, 4)
def with_a_second_counter(x, n):
    i, p, s = 0, 0, x[:4] * 0
    while i < n and i < 9:
        s = s + x[p : p + 4]
        p += 4
        i += 1
    return s


@case(None)
def one_iteration_too_far(x, n):
    i, p, s = 0, 0, x[0] * 0
    while i < n and i < 11:
        s = s + x[p : p + 4].sum(0)
        p += 4
        i += 1
    return s


@case(4, 4, 4)
def around(x, n):
    p, q, s = 0, 3, x[:4] * 0
    for _ in range(n):
        s = s + x[p : p + 4] + x[q - 3 : q + 1]
        p = (p + 7) % (len(x) - 4)
        q += 6
        if q >= len(x):
            q = 3
    return s


@case(3, None, given=(0, 1, 4))
def up_and_down(x, n):
    i, k, s = 10, 0, x[:3] * 0
    while k < n:
        if i < 30:
            s = s + x[i : i + 3]
        i = i + 7 if k % 2 == 0 else i - 9
        k += 1
    return s


@case(4, 4)
def of_a_loop_in_a_loop(x, n):
    s, p = x[:4] * 0, 0
    for _ in range(n):
        q = p
        while q > 2:
            s = s + x[q : q + 4]
            q -= 2
        p = (p + 11) % 36
    return s


@case(4, given=(4, 36, 37, -1))
def by_the_test_of_a_loop(x, n):
    i, j, s = 0, n.item(), torch.zeros(4, 7)
    while i < 3 and 0 <= j and j <= 36:
        s = s + x[j : j + 4]
        i += 1
    return s


@case(None, given=(2**63 - 1, 2**63 - 3, 0, 4))
def sums_that_wrap(x, n):
    if n + 5 < 10:
        if n + 5 >= 5:
            return x[n + 5 : n + 8].sum()
    return x.sum()


@case(10, 10, 10, given=(5, 25, -5))
def written(x, n):
    j = n.item()
    if j < 0 or j > 20:
        return x.sum()
    x[j : j + 10] = 5.0
    y = x[j + 10 : j + 20]
    y.add_(1)
    return y.sum()


@case(4, None, 0)
def of_an_argument_that_is_written(x, n):
    s = x[0] * 0
    if 0 <= n < 30:
        for _ in range(3):
            s = s + x[n.item() : n.item() + 4].sum(0)
            n.add_(20)
    return s


@case(3, 2, given=(4, -4, -40, 0))
def narrowed(x, n):
    return torch.narrow(x, 0, n, 3) + x.narrow(0, n, 2).sum()


def called(function, n):
    torch.manual_seed(0)
    random.seed(0)
    try:
        return function(X.clone(), N(n))
    except AssertionError as error:
        return type(error)


def check(function, sizes, given):
    made = tg.function(function)
    for n in given:
        torch.testing.assert_close(called(made, n), called(function, n))
    assert sizes_of(made.concrete_functions[0]) == sizes


@pytest.mark.parametrize(("function", "sizes", "given"), CASES)
def test_slice(function, sizes, given):
    check(function, sizes, given)


def test_the_size_is_a_number_of_the_code():
    @tg.function
    def f(x):
        j = torch.randint(0, 30, ()).item()
        y = x[j : j + 8]
        assert type(y.shape[0]) is int
        return y.reshape(4, 14), y.stride(), x[:, j // 6 : j // 6 + 2].is_contiguous()

    assert f(X)[0].shape == (4, 14)
    assert f(X)[1:] == ((7, 1), False)


def test_an_error_of_sizes_comes_as_from_pytorch():
    @tg.function
    def f(x):
        j = torch.randint(0, 30, ()).item()
        return x[j : j + 8] + torch.ones(5, 7)

    with pytest.raises(RuntimeError, match=r"size of tensor a \(8\) must match"):
        f(X)


def test_of_a_size_that_only_the_call_knows():
    @tg.function(reduce_retracing=True)
    def f(x):
        j = torch.randint(0, len(x) - 4, ()).item()
        return x[j : j + 4], x[len(x) - j - 3 : len(x) - j - 1]

    for n in (9, 12, 20, 5):
        torch.manual_seed(0)
        j = torch.randint(0, n - 4, ()).item()
        torch.manual_seed(0)
        assert torch.equal(f(X[:n])[0], X[j : j + 4])
    assert sizes_of(f.concrete_functions[-1]) == (4, 2)


def test_gradients_keep_the_size():
    def f(x, w):
        i, total = 0, w.sum() * 0
        while i <= 30:
            total = total + (x[i : i + 5] * w).sin().sum() + (w[i // 10 : i // 10 + 2] ** 3).sum()
            i += 6
        return total

    found = []
    for function in (f, tg.function(f)):
        w = torch.linspace(0, 1, 7, requires_grad=True)
        (g,) = torch.autograd.grad(function(X, w), w, create_graph=True)
        found.append((g.detach(), *torch.autograd.grad((g * g).sum(), w)))
    torch.testing.assert_close(*found)


def test_what_rests_on_a_condition_stays_there():
    """What is behind a slice adds up only where the condition holds."""

    @tg.function
    def f(x, j, n):
        j, s = j.item(), torch.zeros(4, 7)
        while n > 0:
            if 0 <= j and j <= 36:
                s = s + x[j : j + 4]
            n = n - 1
        return s

    assert torch.equal(f(X, N(100), N(3)), torch.zeros(4, 7))
    assert torch.equal(f(X, N(36), N(1)), X[36:])
    assert "unsure" in str(f.concrete_functions[0].graph)
