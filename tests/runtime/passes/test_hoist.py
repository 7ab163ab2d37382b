"""Loop invariants leave their loops, unless they may fail, draw, read what is written, or reach the caller."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.hoist import hoist

LOOP = """main(%n: int, %x: f32[2], %r: f32[2], %y: f32[?]) {{
  {before}%0: int, %1: f32[2] = While(0, %x, %n, %x, %r, %y{more}, carried=2) {{
    cond(%i: int, %a: f32[2], %m: int, %c: f32[2], %s: f32[2], %d: f32[?]{inputs}) {{
      %3: bool = py.lt(%i, %m)
      return %3
    }}
    body(%i: int, %a: f32[2], %m: int, %c: f32[2], %s: f32[2], %d: f32[?]{inputs}) {{
      %4: int = py.add(%i, 1)
      {inside}
      return %4, %8
    }}
  }}
  return {result}
}}"""


def loop(inside, before="", more="", inputs="", result="%0"):
    before = "".join(f"{line}\n  " for line in before.splitlines())
    return LOOP.format(
        inside="\n      ".join(inside), before=before, more=more, inputs=inputs, result=result
    )


def test_a_chain_leaves():
    same(
        hoist,
        loop(
            [
                "%5: f32[2] = aten.exp.default(%c)",
                "%6: f32[2] = aten.mul.Tensor(%5, %m)",
                "%8: f32[2] = aten.add.Tensor(%a, %6)",
            ]
        ),
        loop(
            ["%8: f32[2] = aten.add.Tensor(%a, %e)"],
            "%5: f32[2] = aten.exp.default(%x)\n%6: f32[2] = aten.mul.Tensor(%5, %n)",
            ", %6",
            ", %e: f32[2]",
        ),
    )


def test_a_read_leaves_a_loop_that_does_not_write():
    use = "%8: f32[2] = aten.add.Tensor(%a, %5)"
    read = "%5: f32[2] = tg.read(%s)"
    same(
        hoist,
        loop([read, use]),
        loop([use.replace("%5", "%e")], "%5: f32[2] = tg.read(%r)", ", %5", ", %e: f32[2]"),
    )
    same(hoist, loop([read, "!6 = tg.assign(%s, %a)", use]))
    same(hoist, loop([read, "%6: object = tg.py_call(<py f>, [], 0)", use]))


@pytest.mark.parametrize(
    "line",
    [
        "%5: f32[2] = aten.exp.default(%a)",
        "%5: f32[2] = aten.rand_like.default(%c)",
        "%5: f32[] = aten.select.int(%c, 0, %m)",
        "%5: int = py.floordiv(%m, %m)",
        "%5: f32[?] = aten.add.Tensor(%d, %c)",
        "!5 = tg.print(%c)",
        "%5: object = py.apply_opaque(<py f>, %c)",
    ],
)
def test_stays(line):
    used = "%8: f32[2] = aten.neg.default(%a)"
    same(hoist, loop([line, used]))


def test_each_iteration_makes_its_own_result():
    same(hoist, loop(["%8: f32[2] = aten.exp.default(%c)"], result="%1"))


def test_nothing_leaves_a_branch():
    branch = """%8: f32[2] = If(%i, %c) {
        then(%f: f32[2]) {
          %6: f32[2] = aten.exp.default(%f)
          return %6
        }
        orelse(%f: f32[2]) {
          return %f
        }
      }"""
    same(hoist, loop([branch]))
