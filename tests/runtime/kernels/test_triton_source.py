"""Triton source: what it looks like, and in the interpreter the values of every op against the reference interpreter."""

import math

import pytest
import torch

from tests.runtime.kernels import test_pointwise as pointwise
from tests.runtime.kernels import test_reductions as reductions
from tests.runtime.kernels.kernel_samples import FLOATS, INTEGERS, op_graph, sample
from tests.runtime.kernels.triton_samples import loops_alone, loops_of, run, run_triton
from tograph.runtime.graph import interp, ops
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.types import FLOAT, INT, TensorType
from tograph.runtime.kernels import loop_ir, triton_jit
from tograph.runtime.kernels.exprs import Maker
from tograph.runtime.kernels.loop_ir import (
    Affine,
    Buffer,
    Dim,
    Kernel,
    Scalar,
    Store,
    ordered,
    variable,
)
from tograph.runtime.kernels.reductions import REDUCERS
from tograph.runtime.kernels.tiles import Tile, programs, tiles
from tograph.runtime.kernels.triton_source import render

pytest.importorskip("triton")

WALKED = Tile(2, 16, whole=False, warps=1)


# ---- text


def test_a_row_kernel_reads_like_one_written_by_hand():
    x = torch.zeros(7, 37)
    loops, _ = loops_of(op_graph([("aten._softmax.default", (x, -1, False), {})], [x]), [x])
    assert (
        render(loops, Tile(2, 64, True, 1)).text
        == """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _maximum(a, b):
    return tl.where((b > a) | (b != b), b, a)  # NaN wins


# aten._softmax.default
@triton.jit
def k(p0, o0, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    i00 = (tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK))[:, None]
    xmask = i00 < 7
    r0 = (tl.arange(0, RBLOCK))[None, :]
    rmask = r0 < 37
    v0 = tl.load(p0 + 37 * i00 + r0, xmask & rmask, other=0)
    v1 = tl.reduce(tl.where(rmask, v0, tl.full([], float("-inf"), tl.float32)), 1, _maximum, keep_dims=True)
    v2 = v0 - v1
    v3 = libdevice.exp(v2)
    v5 = tl.sum(tl.where(rmask, v3, tl.full([], 0.0, tl.float32)), 1, keep_dims=True)
    v6 = tl.div_rn(1.0, v5)
    v7 = v3 * v6
    tl.store(o0 + 37 * i00 + r0, v7, xmask & rmask)
"""
    )


def test_blocks_that_divide_the_size_need_no_mask():
    x = torch.zeros(64, 64)
    loops, _ = loops_of(op_graph([("aten.exp.default", (x,), {})], [x]), [x])
    text = render(loops, Tile(256)).text
    assert "mask" not in text and "tl.load(p0 + i01)" in text


def test_rounding_needs_no_function_that_a_library_lacks():
    """Triton 3.6's library for AMD has no rint."""
    x = torch.tensor(
        [-0.3, 0.5, 1.5, 2.5, -2.5, 8388607.5, -8388609.0, 1e30, math.inf, -math.inf, math.nan]
    )
    for x in (x, x.double()):
        graph = op_graph([("aten.round.default", (x,), {})], [x])
        loops, _ = loops_of(graph, [x])
        assert "rint" not in render(loops, Tile(16)).text
        (found,) = run_triton(graph, [x])
        assert torch.equal(found.nan_to_num(7), x.round().nan_to_num(7))
        assert torch.equal(found[:1].signbit(), torch.tensor([True]))


def test_positions_beyond_31_bits_are_64_bits_wide():
    dim = Dim("i00", 1 << 20)
    x = Maker()
    load = x.make("load", "f32", name="p0", address=Affine((("i00", 1 << 12),)))
    kernel = Kernel("k", (dim,), (), (Buffer("p0", "f32"), Buffer("o0", "f32", True)), (), (), (load,),
                    (Store("o0", variable("i00"), load),))  # fmt: skip
    assert "tl.program_id(0).to(tl.int64)" in render(kernel, Tile(128)).text


@pytest.mark.parametrize(("shape", "dim", "wide"), [((4096, 1 << 20), 0, True), ((1 << 20, 4096), 1, False), ((2, 1 << 20), 0, False)])  # fmt: skip
def test_positions_along_a_row_have_64_bits_where_they_need_them(shape, dim, wide):
    x = torch.empty(shape, device="meta")
    loops = loops_alone(op_graph([("aten._softmax.default", (x, dim, False), {})], [x]), [x])
    for tile in (Tile(2, 16, whole=False), Tile(2, 4096)):
        assert ("tl.arange(0, RBLOCK).to(tl.int64)" in render(loops, tile).text) == wide


@pytest.mark.parametrize(
    "shape", [(5,), (1 << 20,), (3, 50000), (4096, 1000), (7, 1 << 20), (1000, 8)]
)
def test_tiles_cover_every_point(shape):
    x = torch.empty(1).expand(shape)
    graph = op_graph([("aten.sum.dim_IntList", (x, [-1], True), {})], [x])
    loops, _ = loops_of(graph, [x])
    points = math.prod(d.size for d in loops.outer)
    found = tiles(loops)
    assert len(set(found)) == len(found)
    for tile in found:
        assert tile.points & (tile.points - 1) == tile.row & (tile.row - 1) == 0
        assert programs(loops, tile) * tile.points >= points
        assert not tile.whole or tile.row >= math.prod(d.size for d in loops.row)
        assert tile.points * tile.row <= 1 << 20 and 1 <= tile.warps <= 16


# ---- values of every op


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_pointwise_rows(dtype):
    n = 301
    x, y, z = sample(dtype, n), sample(dtype, n, 1).roll(40), sample(dtype, n, 2).roll(90)
    if dtype in INTEGERS:
        y[y == 0] = 3
    if dtype == torch.bfloat16:
        for t in (x, y, z):
            t[t.abs() < 1e-36] = 0  # the interpreter of triton 3.9 has no -0 of bf16 either
    found = pointwise.calls(dtype, x, y, z)
    assert len(found) > 40
    for start in range(0, len(found), 24):
        some = found[start : start + 24]
        inputs = pointwise.inputs_of(some)
        graph = op_graph(some, inputs)
        got = run_triton(graph, inputs, Tile(512))
        for (op, _, _), a, b in zip(some, got, interp.run(graph, inputs), strict=True):
            check(op, a, b)


# The interpreter rounds the product in a fused multiply-add, and it has no denormal numbers of bf16.
FUSED = ("lerp", "addcmul", "tanh_backward", "gelu_backward", "silu_backward")


def check(op, got, want):
    if want.dtype.is_floating_point and op.split(".")[1] in FUSED:
        near = (got - want).abs() <= 4e-3 * (0.1 + want.abs())
        got = torch.where(near, want, got)
    if want.dtype == torch.bfloat16:
        got = torch.where((got.abs() < 1e-36) & (want.abs() < 1e-36), want, got)
    pointwise.check(op, got, want)


@pytest.mark.parametrize("tile", [None, WALKED], ids=["whole", "walked"])
@pytest.mark.parametrize("op", sorted(REDUCERS))
def test_folds(op, tile):
    """Over the last and the first dim, with NaN and, where eager PyTorch's answer is plain, infinities."""
    x = reductions.values((5, 37), torch.float32)
    x[1, 30] = math.nan
    if not any(word in op for word in ("var", "std", "layer_norm")):
        x[2, 3], x[3, 20], x[4] = math.inf, -math.inf, -math.inf
    some = [case for case in reductions.cases(op, x)]
    count = 0
    for args, kwargs in [some[0], *some[len(some) // 2 :][:1]]:
        try:
            ops.overload(op)(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            continue
        tensors = list({id(a): a for a in args if isinstance(a, torch.Tensor)}.values())
        graph = op_graph([(op, args, kwargs)], tensors)
        for got, want in zip(run_triton(graph, tensors, tile), interp.run(graph, tensors)):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            torch.testing.assert_close(got, want, rtol=1e-5, atol=2e-5, equal_nan=True)
        count += 1
    assert count or op.startswith(("aten.var", "aten.nll")) or "backward" in op


@pytest.mark.parametrize("tile", [None, WALKED], ids=["whole", "walked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)  # fmt: skip
def test_folds_of_dtypes(dtype, tile):
    some = ["sum.dim_IntList", "max.dim", "argmin.default", "any.dim", "prod.dim_int", "cumsum.default"]  # fmt: skip
    x = reductions.values((3, 37), dtype)
    for name in some:
        if dtype == torch.bool and name == "argmin.default":
            continue
        args, kwargs = reductions.cases(f"aten.{name}", x)[-1]
        graph = op_graph([(f"aten.{name}", args, kwargs)], [x])
        for got, want in zip(run_triton(graph, [x], tile), interp.run(graph, [x])):
            rtol = 2 * reductions.TOLERANCE.get(want.dtype, 0)
            torch.testing.assert_close(got, want, rtol=rtol, atol=2 * rtol, equal_nan=True)


@pytest.mark.parametrize("layout", [k for k in reductions.LAYOUTS if k != "plain"])
def test_layouts_and_broadcasts(layout):
    x = reductions.LAYOUTS[layout](reductions.values((3, 5, 9), torch.float32))
    bias = torch.linspace(-1, 1, x.shape[-1])
    for calls in (
        [("aten.add.Tensor", (x, bias), {})],
        [("aten.sum.dim_IntList", (x, [0], False), {})],
        [("aten._softmax.default", (x, 1, False), {})],
    ):
        inputs = pointwise.inputs_of(calls)
        graph = op_graph(calls, inputs)
        for got, want in zip(run_triton(graph, inputs), interp.run(graph, inputs)):
            torch.testing.assert_close(got, want)


def test_scalars_of_the_call():
    graph = Graph("scaled")
    x, a, n = Value(TensorType(torch.float64, (40,))), Value(FLOAT), Value(INT)
    graph.inputs = [x, a, n]
    first = Node("aten.mul.Tensor", (x, a), {}, [x.type])
    second = Node("aten.add.Tensor", (first.outputs[0], n), {}, [x.type])
    graph.nodes, graph.outputs = [first, second], [second.outputs[0]]
    value = torch.linspace(-1, 1, 40, dtype=torch.float64)
    (got,) = run_triton(graph, [value, 0.1, 3])
    assert torch.equal(got, value * 0.1 + 3)


# ---- forms that no op has yet, and errors


def kernel_of(n, buffers, make, scalars=()):
    """A kernel over ``n`` points that stores ``make(maker, load)`` to o0."""
    maker = Maker()

    def load(name):
        dtype = next(b.dtype for b in buffers if b.name == name)
        return maker.term(maker.make("load", dtype, name=name, address=variable("i00")))

    out = make(maker, load)
    store = Store("o0", variable("i00"), out.expr)
    every = (*buffers, Buffer("o0", out.dtype, True))
    return Kernel(
        "k", (Dim("i00", n),), (), every, scalars, (), tuple(ordered([out.expr])), (store,)
    )


def test_a_gather_with_its_check():
    def make(maker, load):
        size = maker.const(10, "i64")
        row = load("p1").op("check_index", size)
        return maker.term(maker.make("load", "f32", name="p0", address=Affine((), 1, ((row.expr, 3),))))  # fmt: skip

    loops = kernel_of(6, (Buffer("p0", "f32"), Buffer("p1", "i64")), make)
    table = torch.randn(10, 3)
    index = torch.tensor([0, -1, 9, 3, -10, 2])
    arguments = {"p0": table.flatten(), "p1": index, "o0": torch.empty(6)}
    after, code = run(loops, arguments, Tile(4))
    assert code == 0 and torch.equal(after["o0"], table[index, 1])
    arguments["p1"] = torch.tensor([0, 1, 2, 3, 4, 10])
    assert run(loops, arguments, Tile(4))[1] == loop_ir.ASSERTED


@pytest.mark.parametrize("op", ["floordiv", "mod", "truncdiv", "fmod"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division_by_everything(op, dtype):
    name = {torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8"}[dtype]  # fmt: skip
    loops = kernel_of(8, (Buffer("p0", name), Buffer("p1", name)), lambda m, load: load("p0").op(op, load("p1")))  # fmt: skip
    low = torch.iinfo(dtype).min
    a = torch.tensor([7, 250, 9, low, 100, 5, 0, 13]).to(dtype)
    b = torch.tensor([2, 3, 255, 255, 7, 127, 9, 250]).to(dtype)  # 255 is -1 in 8 bits
    if dtype in (torch.int16, torch.int32, torch.int64):
        b = torch.tensor([2, -3, -1, -1, 7, 127, 9, -6], dtype=dtype)
    after, code = run(loops, {"p0": a, "p1": b, "o0": torch.empty_like(a)}, Tile(8))
    wide_a, wide_b = a.to(torch.int64), b.to(torch.int64)
    want = {
        "floordiv": lambda: torch.div(wide_a, wide_b, rounding_mode="floor"),
        "truncdiv": lambda: torch.div(wide_a, wide_b, rounding_mode="trunc"),
        "mod": lambda: wide_a % wide_b,
        "fmod": lambda: torch.fmod(wide_a, wide_b),
    }[op]
    if dtype == torch.int64:
        a, wide_a = a.clone(), torch.where(a == low, 0, a)  # low // -1 overflows in torch
        after["o0"] = torch.where(a == low, 0, after["o0"])
    assert code == 0 and torch.equal(after["o0"], want().to(dtype))
    _, code = run(loops, {"p0": a, "p1": torch.zeros_like(b), "o0": torch.empty_like(a)}, Tile(8))
    assert code == loop_ir.DIVISION_BY_ZERO


@pytest.mark.parametrize("op", ["floor", "ceil"])
def test_whole_numbers_near_every_number(op):
    """Those below 1.18e-38 too, which Triton's own functions take for 0 on a device."""
    x = torch.tensor([1e-40, -1e-40, 0.0, -0.0, 0.5, -0.5, 2.0, -3.7, 3e38, math.inf, -math.inf, math.nan])  # fmt: skip
    loops = kernel_of(12, (Buffer("p0", "f32"),), lambda m, load: load("p0").op(op))
    after, _ = run(loops, {"p0": x, "o0": torch.empty_like(x)}, Tile(16))
    want = getattr(torch, op)(x)
    assert torch.equal(after["o0"].view(torch.int32)[:-1], want.view(torch.int32)[:-1]) and after["o0"][-1].isnan()  # fmt: skip
    assert ".ftz" not in triton_jit.compiled(render(loops, Tile(16)), "sm_90").assembly


def test_points_beyond_the_end_do_not_fail():
    """Masked lanes load 0, which is no divisor."""
    loops = kernel_of(5, (Buffer("p0", "i32"), Buffer("p1", "i32")), lambda m, load: load("p0").op("floordiv", load("p1")))  # fmt: skip
    a = torch.arange(5, dtype=torch.int32)
    after, code = run(loops, {"p0": a, "p1": a + 1, "o0": torch.empty_like(a)}, Tile(8))
    assert code == 0 and torch.equal(after["o0"], a // (a + 1))


def test_a_masked_load_gives_zero():
    def make(maker, load):
        mask = load("p1") > 0
        return maker.term(maker.make("load", "f32", (mask.expr,), name="p0", address=variable("i00")))  # fmt: skip

    loops = kernel_of(6, (Buffer("p0", "f32"), Buffer("p1", "f32")), make)
    x, y = torch.arange(1.0, 7), torch.tensor([1.0, -1, 1, -1, 1, -1])
    after, _ = run(loops, {"p0": x, "p1": y, "o0": torch.empty(6)}, Tile(4))
    assert torch.equal(after["o0"], torch.where(y > 0, x, 0))


def test_bool_and_number_scalars():
    def make(maker, load):
        flag = maker.term(maker.make("scalar", "bool", name="s0"))
        number = maker.term(maker.make("scalar", "i64", name="s1"))
        return flag.where(load("p0") + number.cast("f32"), load("p0"))

    scalars = (Scalar("s0", "bool"), Scalar("s1", "i64"))
    loops = kernel_of(4, (Buffer("p0", "f32"),), make, scalars)
    x = torch.arange(4.0)
    for flag in (True, False):
        after, _ = run(loops, {"p0": x, "s0": flag, "s1": 5, "o0": torch.empty(4)}, Tile(4))
        assert torch.equal(after["o0"], x + 5 if flag else x)
