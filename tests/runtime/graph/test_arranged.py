"""Kernels that take for granted how an operand lies get it that way, wherever the graph's tensors lie."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.graph import ops
from tograph.runtime.graph.arranged import ARRANGED

aten = torch.ops.aten


def turned(x):
    """The same values in memory with the first and the last dim swapped."""
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return x
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def arguments():
    """For each op of the table: arguments that lie as its kernels want them."""
    torch.manual_seed(0)
    x, cube = torch.randn(2, 8, 6), torch.randn(2, 3, 6, 6, 6)
    y, mean, rstd = aten.native_group_norm(x, None, None, 2, 8, 6, 4, 1e-5)
    q, k, v = torch.randn(3, 2, 4, 8, 16)
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    pooled, where = aten.adaptive_max_pool3d(cube, [2, 2, 2])
    flat, at = aten.fractional_max_pool2d(cube[:, :, 0], [2, 2], [3, 3], torch.rand(2, 3, 2))
    deep, places = aten.fractional_max_pool3d(cube, [2, 2, 2], [3, 3, 3], torch.rand(2, 3, 3))
    rows = torch.randn(6, 5)
    distances = aten._pdist_forward(rows)
    return {
        "native_group_norm": (x, None, None, 2, 8, 6, 4, 1e-5),
        "native_group_norm_backward": (y, x, mean, rstd, None, 2, 8, 6, 4, [True, False, False]),
        "adaptive_max_pool3d_backward": (pooled, cube, where),
        "fractional_max_pool2d_backward": (flat, cube[:, :, 0].contiguous(), [2, 2], [3, 3], at),
        "fractional_max_pool3d_backward": (deep, cube, [2, 2, 2], [3, 3, 3], places),
        "isin": (rows, rows[:3] * 1),
        "_pdist_forward": (rows,),
        "_pdist_backward": (distances, rows, 2.0, distances),
        "_scaled_dot_product_flash_attention_for_cpu": (q, k, v),
        "_scaled_dot_product_flash_attention_for_cpu_backward": (out, q, k, v, out, sums, 0.0, False),
    }  # fmt: skip


@pytest.mark.parametrize("op", sorted(ARRANGED))
def test_an_op_on_turned_operands(op):
    args = arguments()[op]
    wanted = getattr(aten, op)(*args)
    overload = "Tensor_Tensor" if op == "isin" else "default"
    found = ops.lookup(f"aten.{op}.{overload}").run(*map(turned, args))
    for a, b in zip(wanted, found) if isinstance(wanted, tuple) else [(wanted, found)]:
        if a is not None:
            torch.testing.assert_close(b, a)


def test_places_in_memory_count_from_the_first_element():
    x = torch.arange(10.0)[3:]
    shown = ops.lookup("aten.as_strided.default").run
    assert shown(x, [2], [2], 1).tolist() == [4, 6] and shown(x, [2], [1]).tolist() == [3, 4]
    written = ops.lookup("aten.as_strided_scatter.default").run(x, torch.zeros(2), [2], [2], 1)
    assert written.tolist() == [3, 0, 5, 0, 7, 8, 9]


def test_a_group_norm_keeps_channels_last():
    x = torch.randn(2, 8, 3, 3).to(memory_format=torch.channels_last)
    made = ops.lookup("aten.native_group_norm.default").run(x, None, None, 2, 8, 9, 4, 1e-5)[0]
    assert made.is_contiguous(memory_format=torch.channels_last)


def projected(x, a, b):
    """Two products of one group norm, as the projections of an attention: their gradients meet in a sum of turned matrices."""
    y = F.group_norm(x, 4).transpose(1, 2)
    return F.linear(y, a) + F.linear(y, b)


def attended(x, a, b):
    q, k, v = ((x.mT + i).mT.view(1, 2, 8, 16) for i in range(3))
    return F.scaled_dot_product_attention(q, k, v) @ a + b[:8]


def distances(x, a, b):
    return F.pdist((x[0].t() * 2).t()) * a.sum() + b.sum()


@pytest.mark.parametrize("program", [projected, attended, distances])
def test_gradients_in_native_code(program):
    torch.manual_seed(0)
    staged = tg.function(program)
    for _ in range(3):
        args = [torch.randn(s, requires_grad=True) for s in ((1, 16, 16), (16, 16), (16, 16))]
        wanted, found = (
            torch.autograd.grad(f(*args).square().sum(), args) for f in (program, staged)
        )
        for a, b in zip(wanted, found):
            torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3)
    assert staged.trace_count == 1
