"""Products that do not need each other run as one, and give what they give apart."""

from contextlib import contextmanager

import pytest
import torch

import tograph as tg
from tests.runtime.native import checks
from tests.runtime.native.checks import r
from tograph.runtime.kernels import jit
from tograph.runtime.native import joined, threading
from tograph.runtime.native.added import added

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


@pytest.fixture(autouse=True)
def small_products_are_joined(monkeypatch):
    """As if sizes that a test can afford were large."""
    monkeypatch.setattr(joined, "LEAST", 1 << 10)
    monkeypatch.setattr(threading, "PRODUCT", 1 << 10)


@contextmanager
def many_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def compiled(f, *args):
    """On one thread and on all."""
    return checks.compiled(f, *args, calls=8, atol=1e-4, rtol=1e-4)


def calls(cf):
    """How many products start at once, at each place of the code that starts some."""
    texts = cf.scheduled.llvm.split("define ")
    return [t.count("call void @") for t in texts if t.startswith("internal void @joint")]


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_what_waits_for_one_matrix_runs_together():
    def gradients(g, w, x, h):
        g = torch.tanh(g)
        up = g @ w.t()
        own = x.t() @ g
        return (up + 1).sum(), own, torch.addmm(own * 0.5, h.t(), g)

    def apart(g, w, x, h):
        return gradients(g, w, x, h)[:2]

    args = r(17, 40), r(23, 40), r(17, 31), r(17, 31, seed=1)
    assert calls(compiled(apart, *args)) == [2]
    compiled(gradients, *args)  # the last product needs the one before


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_a_loop_that_adds_to_two_gradients():
    def summed(xs, hs, w):
        a, b, g = torch.zeros(19, 24), torch.zeros(21, 24), torch.ones(16, 24)
        for i in tg.range(torch.tensor(xs.shape[0])):
            a = a + xs[i].t() @ g
            b = b + hs[i].t() @ g
            g = torch.sin(g @ w)
        return a, b, g

    cf = compiled(summed, r(5, 16, 19), r(5, 16, 21), r(24, 24))
    assert calls(cf) == [3]


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_more_threads_than_a_product_has_parts():
    def summed(xs, hs, w):
        a, b, g = torch.zeros(8, 96), torch.zeros(210, 96), torch.ones(64, 96)
        for i in tg.range(torch.tensor(xs.shape[0])):
            a = a + xs[i].t() @ g
            b = b + hs[i].t() @ g
            g = torch.sin(g @ w * 0.05)
        return a, b, g

    with many_threads(8):
        cf = compiled(summed, r(5, 64, 8), r(5, 64, 210), r(96, 96))
    assert calls(cf) == [3]


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_have_whole_products_of_one_form(threads):
    def summed(xs, hs, w):
        a, b, c = torch.zeros(19, 100), torch.zeros(19, 100), torch.zeros(19, 100)
        g = torch.ones(16, 100)
        for i in tg.range(torch.tensor(xs.shape[0])):
            a = a + xs[i].t() @ g
            b = b + hs[i].t() @ g
            c = c + hs[i].t() @ torch.cos(g)
            g = torch.sin(g @ w * 0.05)
        return a, b, c, g

    with many_threads(threads):
        cf = compiled(summed, r(5, 16, 19), r(5, 16, 19, seed=1), r(100, 100))
    assert calls(cf) == [4]
    (joint,) = [
        t for t in cf.scheduled.llvm.split("define ") if t.startswith("internal void @joint")
    ]
    assert "smin" in joint


def test_which_matrix_was_made_just_before(monkeypatch):
    told = {}
    true = joined.fresh
    monkeypatch.setattr(joined, "fresh", lambda low, v: told.setdefault(v, true(low, v)))

    def f(x, w, n):
        b, i = w, 0
        while i < n:
            x = x @ w.t() + x @ b + x @ torch.tanh(b)
            b = b * 0.5
            i += 1
        return x

    compiled(f, r(8, 8), r(8, 8), torch.tensor(2))
    assert sorted(told.values()) == [
        False,
        True,
        True,
    ]  # the weights; what is carried, what is computed


def test_a_result_that_is_added_in_place_is_read_before():
    def step(x, w):
        a = x @ w
        b = torch.relu(a) @ w
        return torch.cat([a + b, (x - 1) @ w]), x.t() @ b

    compiled(step, r(32, 32), r(32, 32, seed=3))


def test_writes_keep_their_order():
    w, v = r(24, 24), r(24, 24, seed=2)

    def f(x):
        a = x @ w
        w.mul_(2)
        b = x @ w
        v.copy_(a)
        return a + b + v @ x

    g, x = tg.function(f), r(24, 24, seed=5)
    start = w.clone(), v.clone()
    want, after = f(x), (w.clone(), v.clone())
    for _ in range(3):
        w.copy_(start[0]), v.copy_(start[1])
        torch.testing.assert_close(g(x), want, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close((w, v), after)


def order(f, *args):
    cf = tg.function(f).get_concrete_function(*args)
    nodes = joined.order(cf.graph, {})
    assert sorted(map(id, nodes)) == sorted(map(id, cf.graph.nodes))
    seen = set(cf.graph.inputs)
    for n in nodes:  # nothing stands before what it needs
        assert set(n.inputs) <= seen
        seen.update(n.outputs)
    return [n.op.split(".")[1] for n in nodes]


def test_order():
    def chain(x, w):
        a = x @ w
        b = torch.relu(a)
        c = torch.sin(x)
        d = c @ w
        return b @ w, d

    assert order(chain, r(16, 16), r(16, 16)) == ["sin", "mm", "mm", "relu", "mm"]


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(joined, "FAR", 2)

    def many(x, w):
        a = x @ w
        b = torch.sin(torch.cos(torch.relu(a)))
        return b, x @ w.t()

    assert order(many, r(16, 16), r(16, 16)) == ["mm", "relu", "cos", "sin", "t", "mm"]


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_sums_over_rows_run_with_the_products_of_their_matrix():
    def gradients(g, x, h):
        g = torch.tanh(g)
        return x.t() @ g, h.t() @ g, g.sum(0), g.sum(0, keepdim=True) * 2

    args = r(17, 400), r(17, 31), r(17, 31, seed=1)
    assert calls(compiled(gradients, *args)) == [4]
    assert calls(compiled(gradients, *[x.repeat(5, 1) for x in args])) == [
        2
    ]  # many rows are summed by nests


def test_a_matrix_that_is_added_is_part_of_the_product():
    def apart(x, w, a):
        return a @ w + x @ w  # they run together

    def residual(x, w, a):
        y = torch.tanh(x @ w)
        return y + torch.relu(y) @ w, y @ w + a, y - y @ w

    args = r(17, 40), r(40, 40), r(17, 40)

    def momentum(x, w, a):
        m = a * 0.9 + x @ w
        return m, w[:17] - 0.1 * m  # a loop nest adds as well

    assert "addmm" not in str([n.op for n in added(compiled(momentum, *args).graph).nodes])
    ops = [n.op.split(".")[1] for n in added(compiled(residual, *args).graph).nodes]
    assert (ops.count("addmm"), ops.count("mm"), ops.count("add")) == (2, 2, 0)
    assert added(graph := compiled(apart, *args).graph).nodes[-1].op == graph.nodes[-1].op
    assert "addmm" not in str([n.op for n in added(graph).nodes])


def test_a_thread_has_all_that_is_done_with_a_matrix():
    def part(task, right, fresh=True):
        return joined.Part(task, "%block", 4, fresh, right)

    parts = [part("sum", "%g"), part("up", "%w", False), part("sum", "%h"), part("add", "%h"), part("add", "%g")]  # fmt: skip
    assert joined._alike(parts, 0) == [0, 2]
    assert joined._alike(parts, 3) == [4, 3]
    assert joined._alike(parts, 1) == [1]
