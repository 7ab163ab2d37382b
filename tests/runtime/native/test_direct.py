"""Variables that native code computes in their own memory: eager PyTorch's values, whatever else reads them."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def momentum(w, m, g):
    with torch.no_grad():
        m.mul_(0.9).add_(g)
        w.sub_(0.1 * m)
    return (w.t() @ g).sum()


def old_value_needed(w, m, g):
    with torch.no_grad():
        before = w * 1
        product = w.t() @ g
        w.add_(m)
        m.copy_(before.t().contiguous() + product)
    return product


def read_elsewhere(w, m, g):
    with torch.no_grad():
        w.copy_(w.t() + w)
        m.copy_(w.flip(0) * g)
    return w.sum()


def returned(w, m, g):
    with torch.no_grad():
        old = w.clone()
        w.mul_(2)
    return old, w * 1


def fails_behind(w, m, g):
    with torch.no_grad():
        w.add_(g)
        i = (m.sum() * 0).long()
        return g[i + w.size(0) - 1] + w[0]


def twice(w, m, g):
    with torch.no_grad():
        w.add_(g)
        m.add_(w.t())
        w.mul_(m)
    return w.sum(1)


CASES = [momentum, old_value_needed, read_elsewhere, returned, fails_behind, twice]


@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_state_after_several_calls(case, grad, size):
    f = tg.function(case)
    mine = [torch.randn(size, size) for _ in range(3)]
    theirs = [x.clone() for x in mine]
    mine[0].requires_grad_(grad)
    theirs[0].requires_grad_(grad)
    for _ in range(4):
        got, want = f(*mine), case(*theirs)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-3)  # of long sums
        torch.testing.assert_close(mine, theirs)


def test_versions_and_levels():
    f = tg.function(momentum)
    state = [torch.randn(8, 8) for _ in range(3)]
    for _ in range(3):
        f(*state)
    program = f.get_concrete_function(*state).scheduled
    assert program.level == "native", program.reason
    assert "memmove" not in program.llvm
    assert state[0]._version == 3 and state[2]._version == 0


def test_a_late_failure_leaves_earlier_writes():
    def step(w, x, i):
        with torch.no_grad():
            w.add_(x)
            return x.index_select(0, i)

    f, w, x = tg.function(step), torch.zeros(5, 5), torch.ones(5, 5)
    for _ in range(3):
        f(w, x, torch.tensor([1]))
    with pytest.raises((IndexError, RuntimeError)):
        f(w, x, torch.tensor([7]))
    assert (w == 4).all()


def decode_step(q, k, v, keys, values, t):
    with torch.no_grad():
        keys[t] = k
        values[t] = v
        values[t, 0] = 1
        score = torch.softmax(keys[: t + 1] @ q, 0)
        return score @ values[: t + 1]


def test_rows_of_a_cache_are_written_where_they_are():
    f, mine, theirs = (
        tg.function(decode_step),
        *([torch.zeros(5000, 64) for _ in range(2)] for _ in range(2)),
    )
    for i in range(4):
        q, k, v, t = *torch.randn(3, 64).unbind(), torch.tensor(i)
        torch.testing.assert_close(f(q, k, v, *mine, t), decode_step(q, k, v, *theirs, t))
        torch.testing.assert_close(mine, theirs)
    program = f.get_concrete_function(q, k, v, *mine, t).scheduled
    assert program.level == "native", program.reason
    assert "i64 1280000" not in program.llvm  # nothing has the size of a cache
    with pytest.raises((IndexError, RuntimeError)):
        f(q, k, v, *mine, torch.tensor(5000))
    torch.testing.assert_close(mine, theirs)


def test_variables_that_trade_places():
    def trade(a, b):
        with torch.no_grad():
            old = a.clone()
            a.copy_(b)
            b.copy_(old)
        return a.sum()

    f, a, b = tg.function(trade), torch.arange(600.0), torch.ones(600)
    for i in range(4):
        f(a, b)
        assert (a.sum() == 600) == (i % 2 == 0) and (b.sum() == 600) == (i % 2 == 1)


def test_a_branch_reads_what_a_variable_was_set_to():
    def f(v):
        last = v[-1]
        v += v
        kept = last
        if kept > v.sum() - last:
            kept = kept - 1
        return last, kept

    g = tg.function(f)
    for x in ([1.0, -2.0, 0.5], [-1.0, 0.0, 2.5], [0.2, 3.0, -0.5]):
        assert g(torch.tensor(x)) == f(torch.tensor(x))
    assert g.get_concrete_function(torch.tensor(x)).scheduled.level == "native"
