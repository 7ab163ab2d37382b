"""Which nodes fuse, where kernels go in the schedule, and that programs with kernels mean what they meant."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import tograph as tg
from tograph import disk
from tograph.runtime.execution import host
from tograph.runtime.graph import interp, ops
from tograph.runtime.graph.ordering import set_control_inputs
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.graph.verification import verify
from tograph.runtime.kernels import jit, kernel, lower
from tograph.runtime.kernels.regions import fuse


def regions(text):
    graph = parse_graph(text)
    set_control_inputs(graph)
    return [
        [n.op.split(".")[1] for n in r.nodes]
        for r in fuse(graph, lambda group: len(group.nodes) > 1)
    ]


def test_a_chain_is_one_region():
    assert regions("""
        f(%x: f32[4,8], %b: f32[8]) {
          %0: f32[4,8] = aten.add.Tensor(%x, %b)
          %1: f32[4,8] = aten.exp.default(%0)
          %2: f32[8,4] = aten.permute.default(%1, [1, 0])
          %3: f32[8,4] = aten.neg.default(%2)
          return %3
        }""") == [["add", "exp", "permute", "neg"]]


def test_a_reduction_takes_producers_and_consumers():
    assert regions("""
        f(%x: f32[4,8]) {
          %0: f32[4,8] = aten.exp.default(%x)
          %1: f32[4,1] = aten.sum.dim_IntList(%0, [1], True)
          %2: f32[4,1] = aten.sqrt.default(%1)
          %3: f32[4,8] = aten.div.Tensor(%0, %2)
          return %3
        }""") == [["exp", "sum", "sqrt", "div"]]


def test_rows_over_other_dims_are_apart():
    assert regions("""
        f(%x: f32[4,8]) {
          %0: f32[4,8] = aten.exp.default(%x)
          %1: f32[4,1] = aten.sum.dim_IntList(%0, [1], True)
          %2: f32[4,8] = aten.div.Tensor(%0, %1)
          %3: f32[1,8] = aten.sum.dim_IntList(%2, [0], True)
          %4: f32[4,8] = aten.mul.Tensor(%2, %3)
          return %4
        }""") == [["exp", "sum", "div"], ["sum", "mul"]]


def test_no_region_crosses_what_comes_between():
    """The product needs the matrix product of what the sum made: one region of both would be a circle."""
    found = regions("""
        f(%x: f32[8,8], %y: f32[8,8]) {
          %0: f32[8,8] = aten.add.Tensor(%x, %y)
          %1: f32[8,8] = aten.mul.Tensor(%0, %y)
          %2: f32[8,8] = aten.mm.default(%1, %y)
          %3: f32[8,8] = aten.add.Tensor(%2, %0)
          %4: f32[8,8] = aten.mul.Tensor(%3, %0)
          return %4, %1
        }""")
    assert found == [["add", "mul"], ["add", "mul"]]


def test_effects_and_writes_stay_outside():
    found = regions("""
        f(%x: f32[8], %v: f32[8]) {
          %0: f32[8] = tg.read(%v)
          %1: f32[8] = aten.add.Tensor(%x, %0)
          %2: f32[8] = aten.mul.Tensor(%1, %x)
          !6 = tg.assign(%v, %2) ^%0
          %3: f32[8] = tg.read(%v) ^!6
          %4: f32[8] = aten.neg.default(%3)
          %5: f32[8] = aten.exp.default(%4)
          return %5
        }""")
    assert found == [["add", "mul"], ["neg", "exp"]]


def test_costly_work_is_not_repeated_for_a_broadcast():
    found = regions("""
        f(%x: f32[8], %y: f32[64,8]) {
          %0: f32[8] = aten.exp.default(%x)
          %1: f32[8] = aten.log.default(%0)
          %2: f32[64,8] = aten.mul.Tensor(%y, %1)
          %3: f32[64,8] = aten.neg.default(%2)
          return %3
        }""")
    assert found == [["exp", "log"], ["mul", "neg"]]


# ---- whole programs


def assert_same_programs(function, *args):
    graph = tg.function(function).get_concrete_function(*args).graph
    lowered, fused = lower.lower(graph, host.build)
    verify(lowered)
    program = host.build(lowered)
    for _ in range(2):
        for got, want in zip(program.run(*args), interp.run(graph, args), strict=True):
            assert (got.dtype, got.stride()) == (want.dtype, want.stride())
            torch.testing.assert_close(got, want, rtol=2e-5, atol=1e-5)
    assert fused and all(f.kernels for f in fused), [f.reasons for f in fused]
    for got, want in zip(interp.run(lowered, args), program.run(*args), strict=True):
        torch.testing.assert_close(got, want)
    return program.source, fused


def test_norm_gelu_residual():
    def g(x, w, b):
        return x + F.gelu(F.layer_norm(x, (x.shape[-1],), w, b))

    source, fused = assert_same_programs(
        g, torch.randn(64, 256), torch.randn(256), torch.randn(256)
    )
    assert source.count("kernel") == 1 and len(fused[0].region.nodes) == 3


def test_attention():
    def attention(q, k, v, mask):
        scores = (q @ k.transpose(-1, -2)) / 8.0
        return torch.softmax(scores.masked_fill(mask == 0, float("-inf")), -1) @ v

    mask = torch.tril(torch.ones(64, 64))
    assert_same_programs(attention, *(torch.randn(8, 64, 64) for _ in range(3)), mask)


def test_views_in_and_around():
    def views(x, y):
        t = (x * 2 + y).reshape(64, 4, 64)
        u = t.transpose(1, 2)[:, 3:] + 1
        return u.contiguous() * 2, (x[1:] - x[:-1]) * 3, x.flatten().exp() + 1, t[0]

    assert_same_programs(views, torch.randn(64, 256), torch.randn(256))


def test_several_outputs_of_one_row():
    def rows(x):
        e = x.exp() + 1
        return (
            e.sum(-1),
            e.mean(-1, keepdim=True),
            e.max(-1).values.sqrt(),
            e / e.sum(-1, keepdim=True),
        )

    assert_same_programs(rows, torch.randn(96, 130))


def test_kernels_in_loops_and_branches():
    @tg.function
    def loop(x):
        n = 0
        while (x * x).sum() > 10.0:
            x = torch.tanh(x) * 0.9
            n += 1
        return x, n

    x = torch.randn(128, 128)
    got, want = loop(x), loop.python_function(x)
    assert got[1] == want[1]
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    found = loop.get_concrete_function(x)
    assert "_kernel" in found.host_code
    torch.testing.assert_close(found.program.run(x)[0], want[0], rtol=1e-4, atol=1e-5)
    made = next(k for k in found.kernels if isinstance(k, kernel.Kernel))
    assert any("test_regions.py" in line for line in made.lines) and "define i32 @" in made.llvm


def test_each_stride_has_its_variant():
    @tg.function
    def f(x):
        return torch.sigmoid(x) * x + 1

    x = torch.randn(128, 128)
    for value in (x, x.T, x[:, None][:, 0], torch.randn(128, 256)[:, ::2]):
        torch.testing.assert_close(f(value), f.python_function(value), rtol=1e-6, atol=1e-6)
        assert f(value).stride() == f.python_function(value).stride()


def test_autograd_sees_every_op():
    @tg.function
    def f(x):
        return (torch.sigmoid(x) * x + 1).sum()

    x = torch.randn(128, 128, requires_grad=True)
    (grad,) = torch.autograd.grad(f(x), x)
    (want,) = torch.autograd.grad(f.python_function(x), x)
    torch.testing.assert_close(grad, want)


def test_results_are_fresh():
    @tg.function
    def f(x):
        return x * 2 + 1

    x = torch.ones(128, 128)
    first = f(x)
    second = f(x * 3)
    assert first.data_ptr() != second.data_ptr() and first.eq(3).all() and second.eq(7).all()


def test_a_lazily_negated_tensor():
    @tg.function
    def f(x):
        return x * 2 + 1

    x = torch.randn(128, 128, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert torch.equal(f(x), f.python_function(x))


def test_a_dispatch_mode_sees_every_op():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    f = tg.function(program)
    x = torch.randn(1 << 14)
    f(x)
    with Mode():
        f(x)
    assert torch.ops.aten.tanh.default in seen


# ---- levels


def program(x):
    return torch.tanh(x) * x + 0.5


@pytest.mark.parametrize("route", ["torch_parallel_for", "GOMP_parallel", "serial"])
def test_routes_to_threads(route, monkeypatch):
    if route == "GOMP_parallel" and jit.symbol("GOMP_parallel") is None:
        pytest.skip("no OpenMP library")
    monkeypatch.setattr(kernel.threads, "route", lambda has: route)
    x = torch.randn(1 << 20)
    region = lower.lower(tg.function(program).get_concrete_function(x).graph, host.build)[1][0]
    torch.testing.assert_close(region(x), program(x), rtol=1e-5, atol=1e-6)
    assert region.kernels[0].route == route


def test_without_a_compiler_graphs_run_op_by_op(monkeypatch):
    monkeypatch.setattr(lower, "target", lambda: None)
    monkeypatch.setattr(jit, "host", lambda: None)
    x = torch.randn(1 << 14)
    f = tg.function(program)
    assert torch.equal(f(x), program(x)) and not f.get_concrete_function(x).kernels


def test_a_kernel_that_does_not_compile_costs_a_warning(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(jit, "compile_module", broken)
    monkeypatch.setattr(disk, "_warned", set())
    x = torch.randn(1 << 14)
    f = tg.function(program)
    run = f.get_concrete_function(x).program.run
    with pytest.warns(RuntimeWarning, match="could not be compiled"):
        assert torch.equal(run(x)[0], program(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(run(x)[0], program(x))


def test_the_kernel_op_is_a_row():
    assert ops.lookup("tg.kernel").effects.pure
