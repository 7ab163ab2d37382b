"""What nobody needs goes; effects, what may fail and loops that may not end stay."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.prune import prune


def test_dead_nodes_and_reads_go():
    same(
        prune,
        """main(%x: f32[2], %r: f32[2]) {
  %0: f32[2] = aten.neg.default(%x)
  %1: f32[2] = aten.neg.default(%0)
  %2: f32[2] = tg.read(%r)
  return %0
}""",
        """main(%x: f32[2], %r: f32[2]) {
  %0: f32[2] = aten.neg.default(%x)
  return %0
}""",
    )


@pytest.mark.parametrize(
    "effect",
    [
        "!0 = tg.print(%x)",
        "!0 = tg.assign(%r, %x)",
        "%0: f32[2] = aten.rand_like.default(%x)",
        "%0: f32[] = aten.select.int(%x, 0, %i)",
        "%0: f32[] = aten.select.int(%x, 0, 2)",
        "%0: i64[] = aten.remainder.Tensor(%k, %k)",
        "%0: int = py.floordiv(%i, %i)",
        "%0: float = py.truediv(%i, 0)",
        "!0 = tg.assert(%i, 'ValueError', ())",
    ],
)
def test_effects_stay(effect):
    same(
        prune,
        f"""main(%x: f32[2], %r: f32[2], %i: int, %k: i64[]) {{
  {effect}
  return %x
}}""",
    )


@pytest.mark.parametrize(
    "dead",
    [
        "%0: f32[] = aten.select.int(%x, 0, -2)",
        "%0: i64[] = aten.remainder.Scalar(%k, 2)",
        "%0: f32[2] = aten.remainder.Tensor(%x, %k)",
        "%0: int = py.floordiv(%i, 2)",
    ],
)
def test_what_cannot_fail_goes(dead):
    head = "main(%x: f32[2], %i: int, %k: i64[]) {\n"
    same(prune, f"{head}  {dead}\n  return %x\n}}", f"{head}  return %x\n}}")


def test_unused_outputs_and_inputs_of_branches_go():
    same(
        prune,
        """main(%p: bool, %x: f32[2], %y: f32[2]) {
  %0: f32[2] = aten.neg.default(%y)
  %1: f32[2], %2: f32[2] = If(%p, %x, %0) {
    then(%a: f32[2], %b: f32[2]) {
      %3: f32[2] = aten.exp.default(%b)
      return %a, %3
    }
    orelse(%a: f32[2], %b: f32[2]) {
      %4: f32[2] = aten.neg.default(%a)
      return %4, %b
    }
  }
  return %1
}""",
        """main(%p: bool, %x: f32[2], %y: f32[2]) {
  %1: f32[2] = If(%p, %x) {
    then(%a: f32[2]) {
      return %a
    }
    orelse(%a: f32[2]) {
      %4: f32[2] = aten.neg.default(%a)
      return %4
    }
  }
  return %1
}""",
    )


def test_an_effect_in_a_branch_keeps_the_branch():
    same(
        prune,
        """main(%p: bool, %x: f32[2]) {
  !1 = If(%p, %x) {
    then(%a: f32[2]) {
      !3 = tg.print(%a)
      return
    }
    orelse(%a: f32[2]) {
      return
    }
  }
  return %x
}""",
    )


LOOP = """main(%n: int, %x: f32[2]) {{
  {outs} = While({args}, carried={count}) {{
    cond({inputs}) {{
      %3: bool = py.lt(%i, %m)
      return %3
    }}
    body({inputs}) {{
      {body}
      return {results}
    }}
  }}
  return %1
}}"""


def test_dead_state_goes_with_what_only_it_needs():
    same(
        prune,
        LOOP.format(
            outs="%0: int, %1: f32[2], %8: f32[2], %9: f32[2]",
            args="0, %x, %x, %x, %n",
            count=4,
            inputs="%i: int, %a: f32[2], %b: f32[2], %c: f32[2], %m: int",
            body="""%4: int = py.add(%i, 1)
      %5: f32[2] = aten.neg.default(%a)
      %6: f32[2] = aten.add.Tensor(%b, %c)
      %7: f32[2] = aten.exp.default(%c)""",
            results="%4, %5, %6, %7",
        ),
        LOOP.format(
            outs="%0: int, %1: f32[2]",
            args="0, %x, %n",
            count=2,
            inputs="%i: int, %a: f32[2], %m: int",
            body="""%4: int = py.add(%i, 1)
      %5: f32[2] = aten.neg.default(%a)""",
            results="%4, %5",
        ),
    )


@pytest.mark.parametrize(
    "need",
    [
        ["%5: f32[2] = aten.add.Tensor(%a, %b)", "%6: f32[2] = aten.neg.default(%b)"],
        [
            "!7 = tg.print(%b)",
            "%5: f32[2] = aten.neg.default(%a)",
            "%6: f32[2] = aten.neg.default(%b)",
        ],
    ],
)
def test_state_that_something_needs_stays(need):
    same(
        prune,
        LOOP.format(
            outs="%0: int, %1: f32[2], %8: f32[2]",
            args="0, %x, %x, %n",
            count=3,
            inputs="%i: int, %a: f32[2], %b: f32[2], %m: int",
            body="\n      ".join(["%4: int = py.add(%i, 1)", *need]),
            results="%4, %5, %6",
        ),
    )


DEAD_LOOP = """main(%n: int, %k: i64[], %y: f32[]) {{
  %0: {kind} = While({start}, {bound}, carried=1) {{
    cond(%i: {kind}, %m: {bound_kind}) {{
      %1: {truth} = {test}(%i, %m)
      return %1
    }}
    body(%i: {kind}, %m: {bound_kind}) {{
      %2: {kind} = {step}
      return %2
    }}
  }}
  return %n
}}"""


@pytest.mark.parametrize(
    ("kind", "bound_kind", "test", "step"),
    [
        ("int", "int", "py.lt", "py.add(%i, 1)"),
        ("int", "int", "py.le", "py.add(%i, 3)"),
        ("int", "int", "py.gt", "py.sub(%i, 2)"),
        ("i64[]", "i64[]", "aten.lt.Tensor", "aten.add.Tensor(%i, 1)"),
    ],
)
def test_an_unused_loop_that_surely_ends_goes(kind, bound_kind, test, step):
    same(
        prune,
        dead_loop(kind, bound_kind, test, step),
        "main(%n: int, %k: i64[], %y: f32[]) {\n  return %n\n}",
    )


@pytest.mark.parametrize(
    ("kind", "bound_kind", "test", "step"),
    [
        ("int", "int", "py.lt", "py.sub(%i, 1)"),
        ("int", "int", "py.lt", "py.add(%i, 0)"),
        ("int", "int", "py.ne", "py.add(%i, 1)"),
        ("int", "int", "py.gt", "py.add(%i, 1)"),
        ("i64[]", "i64[]", "aten.lt.Tensor", "aten.add.Tensor(%i, 2)"),
        ("i64[]", "i64[]", "aten.le.Tensor", "aten.add.Tensor(%i, 1)"),
        ("f32[]", "f32[]", "aten.lt.Tensor", "aten.add.Tensor(%i, 1)"),
    ],
)
def test_an_unused_loop_that_may_not_end_stays(kind, bound_kind, test, step):
    same(prune, dead_loop(kind, bound_kind, test, step))


def dead_loop(kind, bound_kind, test, step):
    start = {"int": "0", "i64[]": "%k", "f32[]": "%y"}[kind]
    bound = {"int": "%n", "i64[]": "%k", "f32[]": "%y"}[bound_kind]
    truth = "bool" if kind == "int" else "bool[]"
    return DEAD_LOOP.format(
        kind=kind,
        bound_kind=bound_kind,
        test=test,
        step=step,
        start=start,
        bound=bound,
        truth=truth,
    )


ROW = "main(%x: f32[3,2], %v: f32[2], %r: f32[3,2], %i: int, %j: int) {\n  {}\n  return %x\n}"


def rows(*lines):
    return ROW.replace("{}\n  return", "\n  ".join(lines) + "\n  return")


def test_an_update_that_nobody_uses_is_only_checked():
    same(
        prune,
        rows("%0: f32[3,2] = aten.select_scatter.default(%x, %v, 0, %i)"),
        rows("%0: f32[2] = aten.select.int(%x, 0, %i)"),
    )


LOOK = "%0: f32[2] = aten.select.int(%x, 0, %i)"
UPDATE = "!1 = update.aten.select_scatter.default(%r, %v, 0, %i)"


def test_a_look_before_an_update_of_the_same_place():
    same(prune, rows(LOOK, UPDATE), rows(UPDATE))
    for other in [
        UPDATE.replace("%i", "%j"),
        UPDATE.replace("0, %i", "1, %i"),
        "!1 = tg.assign(%r, %x)",
    ]:
        same(prune, rows(LOOK, other))
    for between in ["!2 = tg.print(%v)", "%3: int = py.floordiv(%i, %j)"]:
        same(prune, rows(LOOK, between, UPDATE))
