"""What a loop adds in one place of a sum that it carries is added there; sums that something else looks at stay."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.passes.text_case import same
from tograph.runtime.passes.accumulate import accumulate

LOOP = """main(%n: int, %x: f32[9,2], %v: f32[2], %r: i64[2], %w: f32[2,2]) {{
  %z: f32[9,2] = aten.zeros_like.default(%x)
  %0: int, %1: f32[9,2] = While(0, %z, %n, %x, %v, %r, %w, carried=2) {{
    cond(%i: int, %s: f32[9,2], %m: int, %a: f32[9,2], %b: f32[2], %c: i64[2], %d: f32[2,2]) {{
      %2: bool = py.lt(%i, %m)
      return %2
    }}
    body(%i: int, %s: f32[9,2], %m: int, %a: f32[9,2], %b: f32[2], %c: i64[2], %d: f32[2,2]) {{
      %3: int = py.add(%i, 1)
      {inside}
      return %3, %9
    }}
  }}
  return %1
}}"""


def loop(*inside):
    return LOOP.format(inside="\n      ".join(inside))


SUM = "%9: f32[9,2] = aten.add.Tensor(%s, %8)"
ROW = "%8: f32[9,2] = aten.select_backward.default(%b, [9, 2], 0, %i)"
LOOK = "%5: f32[2] = aten.select.int(%s, 0, %i)"
IN_PLACE = (
    LOOK,
    "%6: f32[2] = aten.add.Tensor(%5, %b)",
    "%9: f32[9,2] = aten.select_scatter.default(%s, %6, 0, %i)",
)
ZEROS = "%7: f32[9,2] = aten.new_zeros.default(%b, [9, 2])"
CASES = {
    "a row": ([ROW, SUM], IN_PLACE),
    "the sum behind the term": ([ROW, "%9: f32[9,2] = aten.add.Tensor(%8, %s)"], IN_PLACE),
    "a slice": (
        ["%8: f32[9,2] = aten.slice_backward.default(%d, [9, 2], 0, %i, %3, 1)", SUM],
        [
            "%5: f32[2,2] = aten.slice.Tensor(%s, 0, %i, %3, 1)",
            "%6: f32[2,2] = aten.add.Tensor(%5, %d)",
            "%9: f32[9,2] = aten.slice_scatter.default(%s, %6, 0, %i, %3, 1)",
        ],
    ),
    "rows of a table": (
        ["%8: f32[9,2] = aten.embedding_dense_backward.default(%d, %c, 9, -1, False)", SUM],
        ["%9: f32[9,2] = aten.index_put.default(%s, [%c], %d, True)"],
    ),
    "rows of a table with padding": (
        ["%8: f32[9,2] = aten.embedding_dense_backward.default(%d, %c, 9, 0, False)", SUM],
        [
            "%5: bool[2] = aten.ne.Scalar(%c, 0)",
            "%6: bool[2,1] = aten.unsqueeze.default(%5, -1)",
            "%7: f32[2,2] = aten.where.ScalarOther(%6, %d, 0)",
            "%9: f32[9,2] = aten.index_put.default(%s, [%c], %7, True)",
        ],
    ),
    "an index": (
        [ZEROS, "%8: f32[9,2] = aten.index_put.default(%7, [%c], %d, True)", SUM],
        [ZEROS, "%9: f32[9,2] = aten.index_put.default(%s, [%c], %d, True)"],
    ),
    "index_add": (
        [ZEROS, "%8: f32[9,2] = aten.index_add.default(%7, 0, %c, %d)", SUM],
        [ZEROS, "%9: f32[9,2] = aten.index_add.default(%s, 0, %c, %d)"],
    ),
    "two rows and all of another tensor": (
        [
            ROW,
            "%4: f32[9,2] = aten.select_backward.default(%b, [9, 2], 0, 1)",
            "%5: f32[9,2] = aten.add.Tensor(%8, %4)",
            "%6: f32[9,2] = aten.add.Tensor(%5, %a)",
            "%9: f32[9,2] = aten.add.Tensor(%s, %6)",
        ],
        [
            "%10: f32[9,2] = aten.add.Tensor(%s, %a)",
            "%5: f32[2] = aten.select.int(%10, 0, %i)",
            "%6: f32[2] = aten.add.Tensor(%5, %b)",
            "%7: f32[9,2] = aten.select_scatter.default(%10, %6, 0, %i)",
            "%4: f32[2] = aten.select.int(%7, 0, 1)",
            "%8: f32[2] = aten.add.Tensor(%4, %b)",
            "%9: f32[9,2] = aten.select_scatter.default(%7, %8, 0, 1)",
        ],
    ),
    "a branch": (
        [
            "%4: bool = py.lt(%i, 3)",
            "%8: f32[9,2] = If(%4, %b, %i) {",
            "  then(%e: f32[2], %j: int) {",
            "    %8: f32[9,2] = aten.select_backward.default(%e, [9, 2], 0, %j)",
            "    return %8",
            "  }",
            "  orelse(%e: f32[2], %j: int) {",
            "    %8: f32[9,2] = aten.new_zeros.default(%e, [9, 2])",
            "    return %8",
            "  }",
            "}",
            SUM,
        ],
        [
            "%4: bool = py.lt(%i, 3)",
            "%9: f32[9,2] = If(%4, %b, %i, %s) {",
            "  then(%e: f32[2], %j: int, %t: f32[9,2]) {",
            "    %5: f32[2] = aten.select.int(%t, 0, %j)",
            "    %6: f32[2] = aten.add.Tensor(%5, %e)",
            "    %8: f32[9,2] = aten.select_scatter.default(%t, %6, 0, %j)",
            "    return %8",
            "  }",
            "  orelse(%e: f32[2], %j: int, %t: f32[9,2]) {",
            "    return %t",
            "  }",
            "}",
        ],
    ),
    "a loop within the loop": (
        [
            "%7: f32[9,2] = aten.zeros_like.default(%a)",
            "%4: int, %8: f32[9,2] = While(0, %7, %i, %a, carried=2) {",
            "  cond(%j: int, %t: f32[9,2], %e: int, %f: f32[9,2]) {",
            "    %8: bool = py.lt(%j, %e)",
            "    return %8",
            "  }",
            "  body(%j: int, %t: f32[9,2], %e: int, %f: f32[9,2]) {",
            "    %8: int = py.add(%j, 1)",
            "    %9: f32[9,2] = aten.add.Tensor(%t, %f)",
            "    return %8, %9",
            "  }",
            "}",
            SUM,
        ],
        [
            "%7: f32[9,2] = aten.zeros_like.default(%a)",
            "%4: int, %9: f32[9,2] = While(0, %s, %i, %a, carried=2) {",
            "  cond(%j: int, %t: f32[9,2], %e: int, %f: f32[9,2]) {",
            "    %8: bool = py.lt(%j, %e)",
            "    return %8",
            "  }",
            "  body(%j: int, %t: f32[9,2], %e: int, %f: f32[9,2]) {",
            "    %8: int = py.add(%j, 1)",
            "    %9: f32[9,2] = aten.add.Tensor(%t, %f)",
            "    return %8, %9",
            "  }",
            "}",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_added_in_place(name):
    before, expected = CASES[name]
    same(accumulate, loop(*before), loop(*expected))


@pytest.mark.parametrize(
    "inside",
    [
        [ROW, SUM, "%4: f32[] = aten.sum.default(%s)"],  # the sum is looked at
        [ROW, SUM, "%4: f32[] = aten.sum.default(%8)"],  # and so is the term
        [ROW, "%9: f32[9,2] = aten.sub.Tensor(%s, %8)"],
        [ROW, "%9: f32[9,2] = aten.add.Tensor(%s, %8, alpha=2)"],
        ["%8: f32[9,2] = aten.exp.default(%a)", SUM],
        ["%8: f32[9,2] = aten.index_put.default(%a, [%c], %d, True)", SUM],
        [ZEROS, "%8: f32[9,2] = aten.index_put.default(%7, [%c], %d)", SUM],
        ["%8: f32[9,2] = aten.embedding_dense_backward.default(%d, %c, 9, -1, True)", SUM],
    ],
)
def test_others_stay(inside):
    same(accumulate, loop(*inside))


READS = {
    "row": lambda x, t: x[t],
    "column": lambda x, t: x[:, t],
    "two rows": lambda x, t: x[t] * x[t - 1],
    "rows": lambda x, t: x[t : t + 2],
    "chosen": lambda x, t: x[torch.tensor([2, 1, 2]) - t],
    "places": lambda x, t: x[torch.tensor([2, 1]), torch.tensor([0, 0]) + t],
    "table": lambda x, t: F.embedding(torch.tensor([2, 3, 3]) - t, x, padding_idx=0),
    "gathered": lambda x, t: x.gather(0, torch.zeros(2, 4, dtype=torch.long) + t),
    "index_select": lambda x, t: x.index_select(1, torch.tensor([0, 1]) + t),
    "all and a row": lambda x, t: x.sum() * x[t],
    "branch": lambda x, t: x[t] if x[t].sum() > 0 else x[0].exp(),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(name, dtype):
    def f(x, n):
        total, t = x.new_zeros(()), 0
        while t < n:
            total = total + torch.sin(READS[name](x, t) + total).sum()
            t += 1
        return total

    torch.manual_seed(0)
    x, n = torch.randn(4, 4, dtype=dtype, requires_grad=True), torch.tensor(3)
    converted = tg.function(f)
    for _ in range(3):
        [expected] = torch.autograd.grad(f(x, n), x)
        [found] = torch.autograd.grad(converted(x, n), x)
        torch.testing.assert_close(found, expected)


def test_a_sum_of_floats_that_began_with_minus_zero():
    def f(s, v, n):
        i = torch.tensor(0)
        while i < n:
            s = s + torch.zeros(4).index_put((i.view(1),), v, accumulate=True)
            i = i + 1
        return 1 / s

    args = torch.full((4,), -0.0), torch.ones(1), torch.tensor(2)
    torch.testing.assert_close(tg.function(f)(*args), f(*args))
