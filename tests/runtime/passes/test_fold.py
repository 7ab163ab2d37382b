"""What is known is computed; what would raise, draw or take long is not."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.fold import fold

HEAD = "main(%x: f32[2], %y: f32[2], %p: bool, %i: int) {\n"


def body(*lines, result):
    return HEAD + "\n".join(f"  {line}" for line in lines) + f"\n  return {result}\n}}"


def test_numbers_become_arguments():
    same(
        fold,
        body(
            "%0: int = py.constant(3)",
            "%1: int = py.mul(%0, 2)",
            "%2: float = py.truediv(%1, 4)",
            "%3: f32[2] = aten.mul.Tensor(%x, %2)",
            "%4: int = py.add(%i, %1)",
            result="%3, %4, %1",
        ),
        body(
            "%3: f32[2] = aten.mul.Tensor(%x, 1.5)",
            "%4: int = py.add(%i, 6)",
            "%5: int = py.constant(6)",
            result="%3, %4, %5",
        ),
    )


def test_small_tensors_become_constants():
    same(
        fold,
        body(
            "%0: i64[2] = tg.constant([1, 2], torch.int64, device('cpu'))",
            "%1: i64[2] = aten.add.Tensor(%0, %0)",
            "%2: i64[] = aten.select.int(%1, 0, 1)",
            "%3: int = py.int(%2)",
            "%4: f32[2] = aten.mul.Tensor(%x, %3)",
            "%5: f32[2] = aten.mul.Tensor(%4, %1)",
            result="%5",
        ),
        body(
            "%0: i64[2] = tg.constant([1, 2], torch.int64, device('cpu'))",
            "%1: i64[2] = tg.constant([2, 4], torch.int64, device('cpu'))",
            "%2: i64[] = tg.constant(4, torch.int64, device('cpu'))",
            "%4: f32[2] = aten.mul.Tensor(%x, 4)",
            "%5: f32[2] = aten.mul.Tensor(%4, %1)",
            result="%5",
        ),
    )


@pytest.mark.parametrize(
    "kept",
    [
        "%0: float = py.truediv(1, 0)",
        "%0: int = py.floordiv(%i, 0)",
        "%0: int = py.pow(10, 100000)",
        "%0: int = py.lshift(1, 100000)",
        "%0: f32[2] = aten.rand.default([2])",
        "%0: f32[2] = aten.empty.memory_format([2])",
        "%0: f32[100] = aten.full.default([100], 1)",
        "%0: f32[] = aten.select.int(%x, 0, 5)",
        "%0: object = py.apply_opaque(<py f>, 1)",
        "%0: object = tg.py_call(<py f>, [1], 0)",
    ],
)
def test_stays(kept):
    same(fold, body(kept, result="%0"))


def test_a_nan_keeps_its_bits():
    same(
        fold,
        body(
            "%0: f32[2] = tg.constant([nan, 1.0], torch.float32, device('cpu'))",
            "%1: f32[2] = aten.neg.default(%0)",
            result="%1",
        ),
    )


def test_branches_on_constants():
    regions = """{
    then(%a: f32[2], %n: int) {
      %5: f32[2] = aten.mul.Tensor(%a, %n)
      return %5
    }
    orelse(%a: f32[2], %n: int) {
      !6 = tg.print(%a)
      return %a
    }
  }"""
    same(
        fold,
        body("%0: bool = py.lt(1, 2)", f"%1: f32[2] = If(%0, %x, 4) {regions}", result="%1"),
        body("%5: f32[2] = aten.mul.Tensor(%x, 4)", result="%5"),
    )
    same(
        fold,
        body(f"%1: f32[2] = If(0, %x, %i) {regions}", result="%1"),
        body("!6 = tg.print(%x)", result="%x"),
    )
    same(fold, body(f"%1: f32[2] = If(%p, %x, %i) {regions}", result="%1"))


def test_a_condition_is_known_in_its_branches_and_constants_are_no_arguments():
    same(
        fold,
        body(
            """%1: int = If(%p, %p, %i, 7) {
    then(%q: bool, %n: int, %k: int) {
      %2: int = py.add(%q, %n)
      return %2
    }
    orelse(%q: bool, %n: int, %k: int) {
      %2: int = py.add(%q, %k)
      return %2
    }
  }""",
            result="%1",
        ),
        body(
            """%1: int = If(%p, %p, %i) {
    then(%q: bool, %n: int) {
      %2: int = py.add(True, %n)
      return %2
    }
    orelse(%q: bool, %n: int) {
      %3: int = py.constant(7)
      return %3
    }
  }""",
            result="%1",
        ),
    )


@pytest.mark.parametrize(("index", "factor"), [(0, 10), (1, 20), (2, 30), (7, 30), (-1, 30)])
def test_case_takes_the_last_branch_out_of_range(index, factor):
    regions = "".join(
        f"\n    branch{k}(%a: f32[2]) {{\n      %2: f32[2] = aten.mul.Tensor(%a, {f})\n      return %2\n    }}"
        for k, f in enumerate([10, 20, 30])
    )
    same(
        fold,
        body(f"%1: f32[2] = Case({index}, %x) {{{regions}\n  }}", result="%1"),
        body(f"%1: f32[2] = aten.mul.Tensor(%x, {factor})", result="%1"),
    )


LOOP = """%1: int, %2: f32[2] = While({start}, %x, {bound}, carried=2) {{
    cond(%j: int, %a: f32[2], %m: int) {{
      %3: bool = py.lt(%j, %m)
      return %3
    }}
    body(%j: int, %a: f32[2], %m: int) {{
      %4: int = py.add(%j, 1)
      %5: f32[2] = aten.neg.default(%a)
      return %4, %5
    }}
  }}"""


def test_a_loop_that_never_runs():
    same(
        fold,
        body(LOOP.format(start=3, bound=3), result="%2"),
        body(result="%x").replace("\n\n", "\n"),
    )


@pytest.mark.parametrize("start", ["2", "%i"])
def test_a_loop_that_may_run_stays(start):
    made = LOOP.format(start=start, bound=3)
    expected = made.replace(", 3, ", ", ").replace(", %m: int", "").replace("%m", "3")
    same(fold, body(made, result="%2"), body(expected, result="%2"))


def test_state_is_not_known_in_a_loop():
    made = LOOP.format(start=0, bound="%i")
    same(fold, body(made, result="%2"))
