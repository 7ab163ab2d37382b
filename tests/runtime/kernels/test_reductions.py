"""Every fold, over several dims, shapes and layouts, against the reference interpreter."""

import math

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.kernel_samples import fused, op_graph, run_both
from tests.runtime.kernels.triton_samples import loops_alone
from tograph.runtime.graph import ops
from tograph.runtime.kernels import llvm
from tograph.runtime.kernels.planning import Target
from tograph.runtime.kernels.reductions import REDUCERS

KEEP = (False, True)


def cases(op, x):  # noqa: C901
    """(args, kwargs) for an op on a tensor of two or more dims."""
    base, overload = op.split(".")[1:]
    y = x * 0.5 + 1 if x.dtype.is_floating_point else x
    last = x.dim() - 1
    if base in ("argmax", "argmin"):
        return [((x, d, k), {}) for d in (0, -1, None) for k in KEEP]
    if base in ("amax", "amin", "logsumexp"):
        return [((x, d, k), {}) for d in ([0], [-1], [0, last]) for k in KEEP]
    if overload == "correction":
        return [
            ((x, d), {"correction": c, "keepdim": k})
            for d in ([0], [-1], None)
            for k in KEEP
            for c in (0, 1)
        ]
    if base == "linalg_vector_norm":
        return [((x, o, d, False), {}) for o in (2, 1, math.inf) for d in (None, [-1])]
    if base in ("_softmax", "_log_softmax"):
        return [((x, d, False), {}) for d in (0, -1)]
    if base.endswith("_backward_data"):
        return [((x, y, d, x.dtype), {}) for d in (0, -1)]
    if base == "native_layer_norm":
        weight = torch.linspace(-1, 2, x.shape[-1]).to(x.dtype)
        return [((x, [x.shape[-1]], None, None, 1e-5), {}), ((x, [x.shape[-1]], weight, weight * 2, 1e-5), {}),
                ((x, list(x.shape[1:]), None, None, 1e-5), {})]  # fmt: skip
    if base in ("mse_loss", "soft_margin_loss"):
        return [((x, y, r), {}) for r in (0, 1, 2)]
    if base == "binary_cross_entropy_with_logits":
        return [((x, y, w, p, r), {}) for r in (0, 1, 2) for w, p in ((None, None), (y, x * x))]
    if base in ("smooth_l1_loss", "huber_loss"):
        return [((x, y, r, n), {}) for r in (0, 1, 2) for n in (1.0, 0.3)]
    if base == "nll_loss_forward":
        rows = x if x.dim() == 2 else x[0]
        target = torch.arange(rows.shape[0]) % rows.shape[1]
        return [((rows, target, None, r, 1), {}) for r in (1, 2)]
    if base == "nll_loss2d_forward":
        images = (x if x.dim() == 3 else x[None])[None].transpose(1, 2).contiguous()  # [1, C, H, W]
        target = torch.arange(images[:, 0].numel()).reshape(images[:, 0].shape) % images.shape[1]
        return [((images, target, None, r, 1), {}) for r in (1, 2)]
    if base in ("cumsum", "cumprod"):
        return [((x, d), {}) for d in (0, -1)]
    if overload == "default":
        return [((x,), {})]
    if overload in ("dim_IntList", "dims") or base == "mean":
        return [((x, d, k), {}) for d in ([0], [-1], [0, last], [], None) for k in KEEP]
    return [((x, d, k), {}) for d in (0, -1) for k in KEEP]


LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "expanded": lambda x: x[:1].expand(5, *x.shape[1:]),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def compare(op, x, limit=None):
    count = 0
    for args, kwargs in cases(op, x)[:limit]:
        tensors = list({id(a): a for a in args if isinstance(a, torch.Tensor)}.values())
        try:
            ops.overload(op)(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            continue
        graph = op_graph([(op, args, kwargs)], tensors)
        for got, want in zip(*run_both(graph, tensors)):
            assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
            rtol = TOLERANCE.get(want.dtype, 0)
            torch.testing.assert_close(got, want, rtol=rtol, atol=2 * rtol, equal_nan=True)
        count += 1
    return count


def values(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2
    return x.to(dtype) if dtype.is_floating_point else (x * 3).to(dtype)


@pytest.mark.parametrize("op", sorted(REDUCERS))
def test_dims(op):
    assert compare(op, values((7, 37), torch.float32))


@pytest.mark.parametrize("op", sorted(REDUCERS))
@pytest.mark.parametrize("layout", [k for k in LAYOUTS if k != "plain"])
def test_layouts(op, layout):
    assert compare(op, LAYOUTS[layout](values((3, 5, 33), torch.float32)), 2)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str
)
def test_dtypes(dtype):
    some = ["sum.dim_IntList", "sum.default", "amax.default", "max.dim", "argmin.default", "any.dim", "all.default",
            "prod.dim_int", "cumsum.default"]  # fmt: skip
    if dtype.is_floating_point:
        some = [n for n in some if "prod" not in n] + [
            "var.correction",
            "_softmax.default",
            "mean.dim",
        ]
    assert sum(compare(f"aten.{n}", values((4, 35), dtype), 2) for n in some) > 10


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 63, 64, 65, 130])
def test_odd_rows(size):
    x = values((3, size), torch.float32)
    for op in (
        "aten._softmax.default",
        "aten.argmax.default",
        "aten.native_layer_norm.default",
        "aten.amin.default",
    ):
        compare(op, x, 2)


@pytest.mark.parametrize("op", ["argmax", "argmin", "amax", "amin"])
def test_nan_and_ties(op):
    x = torch.zeros(4, 40)
    x[1, 7] = x[1, 30] = math.nan
    x[2, 5] = x[2, 25] = 3 if "max" in op else -3
    x[3] = -math.inf if "max" in op else math.inf
    assert compare(f"aten.{op}.default", x)


def test_errors_of_a_running_sum_do_not_add_up():
    for x, dim in ((torch.rand(20_000), 0), (torch.rand(3_000, 9), 0), (torch.rand(3, 3_000), 1)):
        graph = op_graph([("aten.cumsum.default", (x, dim), {})], [x])
        assert torch.equal(fused(graph)(x), x.cumsum(dim))


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 64, 100])
def test_running_sums_of_odd_rows(size):
    x = values((3, size), torch.float32)
    for y in (x, torch.randint(-9, 9, (3, size)), x > 0, x[:, :1].expand(3, size)):
        assert compare("aten.cumsum.default", y)


def test_a_running_sum_of_what_costs_goes_along_the_lanes():
    x = values((300, 100), torch.float32)
    f = tg.function(lambda x: x.exp().cumsum(1) / 2)
    torch.testing.assert_close(f(x), x.exp().cumsum(1) / 2)
    assert any("x double>" in k.llvm for k in f.concrete_functions[0].kernels)


def test_a_running_product_meets_zeros_before_infinities():
    x = torch.tensor([[0.0, 1e30, 1e30, 2.0] * 8])
    assert torch.equal(tg.function(lambda x: (x * 1).cumprod(1))(x), x.cumprod(1))


def test_long_rows_are_not_kept_on_the_stack():
    x = values((2, 40_000), torch.float32)
    assert compare("aten._softmax.default", x) and compare("aten._log_softmax.default", x)


def test_empty_and_unfusible_shapes_run_op_by_op():
    x = torch.empty(3, 0)
    graph = op_graph([("aten.sum.dim_IntList", (x, [1]), {})], [x])
    region = fused(graph)
    assert torch.equal(region(x), torch.zeros(3)) and not region.kernels


def test_a_row_of_two_vectors_is_read_once():
    x = torch.zeros(4, 20)
    kernel = loops_alone(op_graph([("aten._softmax.default", (x, 1, False), {})], [x]), [x])
    made = llvm.render(kernel, Target(64, True, True, True, lambda name: False))
    calls = [
        line for line in made.text.splitlines() if "call <16 x float> @llvm.masked.load" in line
    ]
    assert len(calls) == 1


@pytest.mark.parametrize("size", [1, 3, 10, 16, 20, 31, 32, 33, 40, 48, 70])
def test_softmax_of_short_rows_and_their_sums(size):
    x = values((300, size), torch.float32)
    for op in ("aten._softmax.default", "aten._log_softmax.default", "aten.var.correction"):
        assert compare(op, x)
