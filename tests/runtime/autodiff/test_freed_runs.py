"""A second gradient behind one that is taken inside of a function is torch's error in the runs in which the first has freed what it needs, and in no others."""

import pytest
import torch

import tograph as tg


def in_one_branch(w, n):
    if n > 1:
        loss = (w * w).sum()
        loss.backward()
    else:
        loss = (w * w).sum() * 2
    (loss * loss).backward()


def in_both_branches(w, n):
    if n > 1:
        loss = (w * w).sum()
        loss.backward()
    else:
        loss = (w * w).sum() * 2
        loss.backward()
    loss.backward()


def in_a_branch_of_a_branch(w, n):
    if n > 0:
        if n > 1:
            loss = (w * w).sum()
            loss.backward()
        else:
            loss = (w * w * w).sum()
    else:
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
    loss.backward()


def what_the_branch_finds(w, n):
    y = w * w
    if n > 1:
        y.sum().backward()
    if n == 1:
        (y * 3).sum().backward(retain_graph=True)
    if n < 3:
        y.sum().backward()


def one_of_two(w, n):
    y = w * w
    if n > 2:
        y.sum().backward()
    if n == 2:
        y.sum().backward()
    if 0 < n < 4:
        (y * 2).sum().backward()


def nothing_saved(w, n):
    if n > 1:
        loss = (w + w).sum()
        loss.backward()
    else:
        loss = (w * w).sum()
    loss.backward()


def with_respect_to_another(w, n):
    u = torch.ones(3, requires_grad=True)
    if n > 1:
        loss = (w * w).sum()
        loss.backward()
        loss = loss + (u * u).sum()
    else:
        loss = (w * u).sum()
    w.grad = torch.autograd.grad(loss, u)[0]


def in_a_loop(w, n):
    loss, i = (w * w).sum(), 0
    while i < n:
        loss = (w * w).sum() * i
        loss.backward()
        i = i + 1
    loss.backward()


def in_a_branch_of_a_loop(w, n):
    loss = (w * w).sum()
    for i in range(n):
        if i % 2 == 0:
            loss = (w * w).sum()
            loss.backward()
        else:
            loss = (w * w).sum() * 2
    loss.backward()


def in_a_sum_of_a_loop(w, n):
    total = w.sum()
    for i in range(n):
        loss = (w * w).sum() * i
        if i > 1:
            loss.backward()
        total = total + loss
    total.backward()


def kept_by_a_loop(w, n):
    best = (w * w).sum()
    for i in range(n):
        loss = ((w - i) * w).sum()
        loss.backward()
        if i == 1:
            best = loss
    best.backward()


def where_a_loop_ends(w, n):
    loss = (w * w).sum()
    for i in range(n):
        loss = (w * w).sum() * i
        if i > 1:
            loss.backward()
            break
    if n < 4:
        loss.backward()


def two_results_of_a_branch(w, n):
    if n > 1:
        a, b = (w * w).sum(), (w * w * w).sum()
    else:
        a, b = (w * w).sum() * 2, w.exp().sum()
    a.backward()
    b.backward()


def two_that_share(w, n):
    if n > 1:
        y = w * w
        a, b = y.sum(), (y * 3).sum()
    else:
        a, b = (w * w).sum(), w.exp().sum()
    a.backward()
    b.backward()


def two_results_of_a_loop(w, n):
    a, b = (w * w).sum(), (w * w * w).sum()
    for _ in range(n):
        a, b = a + (w * w).sum(), b + (w * w * w).sum()
    a.backward()
    b.backward()


def in_each_iteration(w, n):
    for i in range(n):
        if i % 2 == 0:
            a, b = (w * w).sum(), (w * w * w).sum()
        else:
            a, b = w.exp().sum(), w.sin().sum()
        a.backward()
        b.backward()
        if i > 1:
            a.backward()


CASES = [in_one_branch, in_both_branches, in_a_branch_of_a_branch, what_the_branch_finds, one_of_two, nothing_saved, with_respect_to_another, in_a_loop, in_a_branch_of_a_loop,
         in_a_sum_of_a_loop, kept_by_a_loop, where_a_loop_ends, two_results_of_a_branch, two_that_share, two_results_of_a_loop, in_each_iteration]  # fmt: skip


def outcome(f, n):
    w, error = torch.tensor([1.0, 0.5, -1.0], requires_grad=True), ""
    try:
        f(w, torch.tensor(n))
    except RuntimeError as found:
        error = str(found)[:45]
    return error, None if error else w.grad


@pytest.mark.parametrize("case", CASES)
def test_as_in_eager(case):
    f = tg.function(case)
    for n in (0, 1, 2, 3, 4):
        (got, grad), (wanted, expected) = outcome(f, n), outcome(case, n)
        assert got == wanted, n
        torch.testing.assert_close(grad, expected)


def given_by_one_branch(w, n):
    if n > 1:
        loss = (w * w).sum()
        loss.backward()
    else:
        loss = (w * w).sum() * 2
    return loss


def given_by_a_loop(w, n):
    loss, i = (w * w).sum(), 0
    while i < n:
        loss = (w * w).sum() * i
        if i > 0:
            loss.backward()
        i = i + 1
    return loss * 3


def freed_by_a_branch(w, n):
    y = w * w
    if n > 2:
        y.sum().backward()
    return y * 2


def second_of_two(w, n):
    if n > 1:
        a, b = (w * w).sum(), (w * w * w).sum()
    else:
        a, b = (w * w).sum() * 2, w.exp().sum()
    a.backward()
    return b


@pytest.mark.parametrize("case", [given_by_one_branch, given_by_a_loop, freed_by_a_branch, second_of_two])  # fmt: skip
def test_outside_as_in_eager(case):
    f = tg.function(case)
    for n in (0, 1, 2, 3):
        found = [outcome(lambda w, n, g=g: g(w, n).sum().backward(), n) for g in (f, case)]
        assert found[0][0] == found[1][0], n
        torch.testing.assert_close(found[0][1], found[1][1])


@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize("n", [1.0, 2.0])
def test_a_result_that_a_branch_has_freed_beside_one_that_is_freed_for_sure(c, n):
    def f(w, c, n):
        if n > 1:
            a, b = (w * w).sum(), (w * w * w).sum()
        else:
            a, b = (w * w).sum() * 2, w.exp().sum()
        if c > 0:
            b.backward()
        a.backward()
        return b

    found = []
    for run in (f, tg.function(f)):
        w = torch.tensor([1.0, 0.5], requires_grad=True)
        try:
            run(w, torch.tensor(c), torch.tensor(n)).backward()
            found.append(w.grad.tolist())
        except RuntimeError:
            found.append("freed")
    assert found[0] == found[1]
