"""Views of an argument that branches and loops give share its memory outside, as in eager PyTorch, and are native code."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
TABLE = torch.tensor([[1, 2], [2, 0], [0, 1]])


def a_branch(x, i, n):
    return x[i] if i > 0 else x[0]


def known_rows(x, i, n):
    return x[2, 1:] if i > 0 else x[0, 1:]


def sizes_of_the_run(x, i, n):
    return x[i:] if i > 1 else x[1:]


def through_names(x, i, n):
    r = x.unbind()[1]
    if i > 1:
        r = x[i]
    elif n > 3:
        raise ValueError("too many")
    return r, r.sum()


def through_views(x, i, n):
    r = x[0]
    if i > 1:
        r = x[i]
    elif n > 3:
        raise ValueError("too many")
    return r.view(2, 2), r[i:]


def best_row(x, i, n):
    best, most = x[0], x[0].sum()
    for k in range(n):
        s = x[k].sum()
        if s > most:
            best, most = x[k], s
    return best


def two_best(x, i, n):
    best = second = x[0]
    for k in range(n):
        if x[k].sum() > best.sum():
            second = best[:]
            best = x[k]
    return best, second * 1


def loops_in_loops(x, i, n):
    r = x[0]
    for k in range(n):
        for j in range(k):
            if x[j].sum() < r.sum():
                r = x[j]
        if k == 2:
            r = x[i]
    return r


def a_condition_that_reads_it(x, i, n):
    r, k = x[0], 0
    while r.sum() < 20 and k < n:
        k = k + 1
        r = x[k]
    return r


def turned(x, i, n):
    r = x.permute(1, 0)[:, i]
    for k in range(n):
        r = x.permute(1, 0)[:, k] if x[k, 0] > 4 else r
    return r


def elements(x, i, n):
    r = x[0, 0]
    for k in range(n):
        r = x[k, i]
        if r > 9:
            break
    return r, r * 2


PROGRAMS = [a_branch, known_rows, sizes_of_the_run, through_names, best_row, two_best, loops_in_loops, a_condition_that_reads_it, turned, elements]  # fmt: skip


@pytest.mark.parametrize("f", [*PROGRAMS, through_views])
@pytest.mark.parametrize("grad", [False, True])
def test_they_share_the_memory_of_the_argument(f, grad):
    g, rows = tg.function(f), torch.arange(20.0).reshape(5, 4)
    for given in (rows, rows.flip(0), rows.t().contiguous().t()):
        for i, n in ((2, 3), (0, 2), (1, 0), (3, 3)):
            x = given.clone().requires_grad_(grad)
            got, expected = (
                h(x, torch.tensor(i), n if h is f else torch.tensor(n)) for h in (g, f)
            )
            got, expected = (r if isinstance(r, tuple) else (r,) for r in (got, expected))
            for y, z in zip(got, expected, strict=True):
                torch.testing.assert_close(y, z, rtol=0, atol=0)
                assert (y.stride(), y.requires_grad) == (z.stride(), grad)
            assert got[0].data_ptr() == expected[0].data_ptr()
            if grad:
                ways = [torch.autograd.grad(sum(y.exp().sum() for y in r), x)[0] for r in (got, expected)]  # fmt: skip
                torch.testing.assert_close(*ways)
    if f in PROGRAMS and not grad:
        assert {(c.scheduled.level, c.scheduled.declined) for c in g.concrete_functions} == {("native", 0)}  # fmt: skip


def test_an_element_of_a_captured_table_is_one_of_it():
    def f(word):
        state = TABLE[0, 0]
        for k in range(len(word)):
            state = TABLE[state, word[k]]
            if state == 2:
                break
        return state

    g = tg.function(f)
    for word in ([0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0]):
        word = torch.tensor(word)
        assert g(word).data_ptr() == f(word).data_ptr()
    assert [(c.scheduled.level, c.scheduled.declined) for c in g.concrete_functions] == [("native", 0)]  # fmt: skip


def test_a_place_that_is_not_there_is_an_error_of_the_line():
    def f(x, n):
        r = x[0]
        for k in range(n):
            r = x[k]
        return r

    g, x = tg.function(f), torch.arange(20.0).reshape(5, 4)
    for n in (2, 5, 6, 0, 6):
        if n < 6:
            assert g(x, torch.tensor(n)).data_ptr() == x[max(n - 1, 0)].data_ptr()
        else:
            with pytest.raises(IndexError, match=r"(?s)out of bounds.*test_placed\.py"):
                g(x, torch.tensor(n))


def written_before(x, i):
    x.mul_(2)
    r = x[i].clone() if i > 0 else x[0].clone()
    x[0] += 1
    return r


def other_kinds(x, i):
    return (x[i] if i > 0 else x[0, :].exp()), (x[i:] if i > 1 else x[:, 1:]).sum()


@pytest.mark.parametrize("f", [written_before, other_kinds])
def test_what_is_no_such_view_stays_as_it_is(f):
    g = tg.function(f)
    for i in (1, 0, 2, 0):
        x, z = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
        torch.testing.assert_close(g(x, torch.tensor(i)), f(z, torch.tensor(i)))
        assert torch.equal(x, z)
