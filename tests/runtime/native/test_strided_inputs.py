"""Inputs that are not contiguous: code for their strides, results with eager PyTorch's strides."""

import pytest
import torch

import tograph as tg
from tograph.runtime.execution import scheduler
from tograph.runtime.kernels import jit
from tograph.runtime.native import lower

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
A = torch.arange(48.0).view(6, 8)


def loop(x, y, n):
    for i in range(n):
        y = torch.tanh(x * 0.1 + y) + i
    return y, y.sum(1), x @ y.t()


def pointwise(x, y, n):
    return x * 2 + y + n, (x - y).sum()


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()


@pytest.mark.parametrize("f", [loop, pointwise])
@pytest.mark.parametrize(
    "x",
    [
        A.t(),
        A[:, ::2],
        A[1:, 1:].t(),
        A[:1].expand(6, 8),
        A.view(2, 3, 8)[0],
        A[:, :1].expand(6, 8),
    ],
    ids=["turned", "steps", "part", "rows", "whole", "columns"],
)
def test_values_and_strides(f, x):
    g = tg.function(f)
    y, n = torch.randn(x.shape), torch.tensor(3)
    for _ in range(4):
        same(g(x, y, n), f(x, y, n))
        same(g(x.contiguous(), y, n), f(x.contiguous(), y, n))
    assert g.trace_count == 1


def test_the_code_for_strides_runs_and_is_bounded(monkeypatch):
    monkeypatch.setattr(scheduler, "LAYOUTS", 2)

    def f(x, n):
        total = torch.zeros(())
        for i in range(n):
            total = total + (x * i).sum()
        return total

    g, n = tg.function(f), torch.tensor(4)
    for step in (1, 2, 3, 4):
        x = torch.arange(64.0)[: 16 * step : step]
        for _ in range(3):
            assert g(x, n) == f(x, n)
    program = g.concrete_functions[0].scheduled
    assert len(program._strided) == 2 and None not in program._strided.values()
    assert program.level == "native"


def test_a_written_argument_that_is_not_contiguous():
    def f(x, n):
        for i in range(n):
            x.mul_(0.5).add_(i)
        return x.sum()

    g = tg.function(f)
    for _ in range(3):
        a, b = torch.randn(4, 6), torch.randn(4, 6)
        b.copy_(a)
        assert torch.allclose(g(a.t(), torch.tensor(3)), f(b.t(), torch.tensor(3)))
        assert torch.allclose(a, b)


def test_carried_tensors_that_become_strided_are_found_at_once(monkeypatch):
    """However many loops there are, the graph is lowered twice."""
    count, run = [], lower.Lowering.run
    monkeypatch.setattr(lower.Lowering, "run", lambda self: count.append(1) or run(self))

    def f(x, n):
        for _ in range(5):
            y, i = x, 0
            while i < n:
                y = (y * 0.5).t()
                i = i + 1
            x = x + y.sum() + y
        return x.sum()

    g, x = tg.function(f), torch.arange(9.0).view(3, 3)
    for n in (0, 1, 2, 3):
        assert torch.allclose(g(x, torch.tensor(n)), f(x, torch.tensor(n)))
    assert len(count) == 2
    assert g.concrete_functions[0].scheduled.level == "native"


def _factors(a, n):
    """Stored by columns before the loop and in it."""
    l, k = torch.linalg.cholesky(a), 0
    while k < n:
        l = torch.linalg.cholesky(l @ l.t() * 1.01)
        k += 1
    return l


def _becomes_rows(a, n):
    l, k = torch.linalg.inv(a), 0
    while k < n:
        l = l @ a * 0.1
        k += 1
    return l


def _becomes_columns(a, n):
    l, k = a * 1.0, 0
    while k < n:
        l = torch.linalg.inv(l + torch.eye(len(a)))
        k += 1
    return l


def _trades(a, n):
    l, m, k = torch.linalg.inv(a), a * 2.0, 0
    while k < n:
        l, m = m, l * 0.5
        k += 1
    return l, m


def _three(a, n):
    x, k = a[:, :, None].expand(4, 4, 3).permute(2, 0, 1) * 1.0, 0
    while k < n:
        x = torch.tanh(x * 1.1 + k)
        k += 1
    return x, x.sum(0)


@pytest.mark.parametrize("f", [_factors, _becomes_rows, _becomes_columns, _trades, _three])
def test_what_a_loop_carries_lies_as_in_eager(f):
    g = tg.function(f)
    a = torch.randn(4, 4)
    a = a @ a.t() + torch.eye(4)
    for n in (0, 1, 2, 5):
        ours, plain = g(a, torch.tensor(n)), f(a, torch.tensor(n))
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
        for x, y in zip(ours, plain) if isinstance(ours, tuple) else [(ours, plain)]:
            assert x.stride() == y.stride()
    if f in (_factors, _three):
        assert g.concrete_functions[-1].scheduled.level == "native"


def test_what_a_loop_makes_anew_lies_as_the_arguments():
    def f(x, g, c):
        t, y = 1.0, x - g
        while (y * y).sum() > c:
            t = t * 0.5
            y = x - t * g
        return y, t

    x, g = torch.rand(3, 4).t(), torch.rand(3, 4).t() * 20
    made = tg.function(f)
    for _ in range(12):
        same(made(x, g, 15.0)[:1], f(x, g, 15.0)[:1])
    scheduled = made.get_concrete_function(x, g, 15.0).scheduled
    assert (scheduled.level, scheduled.declined) == ("native", 0)


@pytest.mark.parametrize(
    "step",
    [
        lambda y: y.flip(3),
        lambda y: torch.nn.functional.conv2d(y, torch.ones(4, 3, 2, 2)),
        lambda y: torch.nn.functional.conv_transpose2d(y, torch.ones(3, 2, 2, 2)),
        lambda y: y.sort(1).values,
    ],
    ids=["flip", "conv2d", "conv_transpose2d", "sort"],
)
def test_images_with_their_channels_last(step):
    def f(y, n):
        for _ in range(n):
            z = step(y)
        return z, step(y).stride()

    x, n = torch.arange(180.0).view(2, 3, 6, 5) % 17, torch.tensor(2)
    for y in (x, x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3)):
        found, wanted = tg.function(f)(y, n), f(y, n)
        same(found[:1], wanted[:1])
        assert found[1] == wanted[1]
