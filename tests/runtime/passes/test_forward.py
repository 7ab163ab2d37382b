"""Reads take what was last written; writes that nobody can see go."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.passes.forward import forward


def body(*lines, result="%9"):
    text = "\n".join(f"  {line}" for line in lines)
    return f"main(%x: f32[2], %r: f32[2], %s: f32[2], %i: int) {{\n{text}\n  return {result}\n}}"


def test_read_after_assign_and_after_read():
    same(
        forward,
        body(
            "%0: f32[2] = tg.read(%r)",
            "%1: f32[2] = aten.neg.default(%0)",
            "!2 = tg.assign(%r, %1)",
            "%3: f32[2] = tg.read(%r)",
            "%4: f32[2] = tg.read(%s)",
            "%5: f32[2] = tg.read(%s)",
            "%6: f32[2] = aten.add.Tensor(%3, %4)",
            "%9: f32[2] = aten.add.Tensor(%6, %5)",
        ),
        body(
            "%0: f32[2] = tg.read(%r)",
            "%1: f32[2] = aten.neg.default(%0)",
            "!2 = tg.assign(%r, %1)",
            "%4: f32[2] = tg.read(%s)",
            "%6: f32[2] = aten.add.Tensor(%1, %4)",
            "%9: f32[2] = aten.add.Tensor(%6, %4)",
        ),
    )


def test_two_results_stay_two():
    same(forward, body("%0: f32[2] = tg.read(%r)", "%1: f32[2] = tg.read(%r)", result="%0, %1"))
    same(forward, body("!0 = tg.assign(%r, %x)", "%1: f32[2] = tg.read(%r)", result="%1"))


def test_a_write_nobody_can_see_goes():
    same(
        forward,
        body(
            "!0 = tg.assign(%r, %x)",
            "%1: f32[2] = aten.exp.default(%x)",
            "!2 = tg.assign(%r, %1)",
            result="%1",
        ),
        body("%1: f32[2] = aten.exp.default(%x)", "!2 = tg.assign(%r, %1)", result="%1"),
    )


REGION = """%3: f32[2] = If(%i, %r, %x) {{
    then(%a: f32[2], %b: f32[2]) {{
      {inside}
    }}
    orelse(%a: f32[2], %b: f32[2]) {{
      return %b
    }}
  }}"""
WRITES = REGION.format(inside="!4 = tg.assign(%a, %b)\n return %b")
READS = REGION.format(
    inside="%4: f32[2] = tg.read(%a)\n %5: f32[2] = aten.neg.default(%4)\n return %5"
)


@pytest.mark.parametrize(
    "between",
    [
        "!3 = tg.print(%x)",
        "%3: f32[] = aten.select.int(%x, 0, %i)",
        "!3 = tg.assert(%i, 'ValueError', ())",
        "%3: object = tg.py_call(<py f>, [], 0)",
        WRITES,
    ],
)
def test_a_write_that_may_be_seen_stays(between):
    same(forward, body("!0 = tg.assign(%r, %x)", between, "!2 = tg.assign(%r, %x)", result="%x"))


@pytest.mark.parametrize(
    "between", ["!3 = tg.assign(%r, %0)", WRITES, "%3: object = tg.py_call(<py f>, [], 0)"]
)
def test_a_read_after_something_else_wrote_stays(between):
    same(
        forward,
        body(
            "%0: f32[2] = tg.read(%s)",
            "%1: f32[2] = tg.read(%r)",
            between,
            "%5: f32[2] = tg.read(%r)"
            if "assign(%r, %0)" not in between
            else "%5: f32[2] = aten.neg.default(%0)",
            "%6: f32[2] = aten.sub.Tensor(%1, %5)",
            "%9: f32[2] = aten.sub.Tensor(%6, %0)",
        ),
    )


def test_what_is_known_outside_is_known_in_a_branch():
    same(
        forward,
        body(
            "%0: f32[2] = aten.neg.default(%x)",
            "!1 = tg.assign(%r, %0)",
            READS,
            "%9: f32[2] = aten.neg.default(%3)",
        ),
        body(
            "%0: f32[2] = aten.neg.default(%x)",
            "!1 = tg.assign(%r, %0)",
            """%3: f32[2] = If(%i, %r, %x, %0) {
    then(%a: f32[2], %b: f32[2], %c: f32[2]) {
      %5: f32[2] = aten.neg.default(%c)
      return %5
    }
    orelse(%a: f32[2], %b: f32[2], %c: f32[2]) {
      return %b
    }
  }""",
            "%9: f32[2] = aten.neg.default(%3)",
        ),
    )


LOOP = """main(%r: f32[2], %n: int) {{
  %0: f32[2] = tg.read(%r)
  %1: f32[2] = aten.neg.default(%0)
  %2: int, %3: f32[2] = While(0, %1, %n, %r{more}, carried=2) {{
    cond(%i: int, %a: f32[2], %m: int, %s: f32[2]{input}) {{
      %4: bool = py.lt(%i, %m)
      return %4
    }}
    body(%i: int, %a: f32[2], %m: int, %s: f32[2]{input}) {{
      %5: int = py.add(%i, 1)
      {inside}
      return %5, %7
    }}
  }}
  return %3
}}"""
WRITTEN = "\n      !8 = tg.assign(%s, %7)"
READ = "%6: f32[2] = tg.read(%s)\n      %7: f32[2] = aten.add.Tensor(%a, %6)"


def test_what_is_known_outside_is_known_in_a_loop_that_does_not_write():
    same(
        forward,
        LOOP.format(more="", input="", inside=READ),
        LOOP.format(
            more=", %0", input=", %k: f32[2]", inside="%7: f32[2] = aten.add.Tensor(%a, %k)"
        ),
    )
    same(forward, LOOP.format(more="", input="", inside=READ + WRITTEN))


def test_a_handler_reads_what_the_body_wrote_before_it_failed():
    given = body(
        "%0: f32[2] = tg.read(%r)",
        "%1: f32[2] = tg.read(%s)",
        "%9: f32[2] = Try(%r, %s, %0, kinds=(<py ValueError>,)) {",
        "    body(%2: f32[2], %3: f32[2], %4: f32[2]) {",
        "      !5 = tg.assign(%2, %4)",
        '      !6 = tg.raise("ValueError", ())',
        "      return %4",
        "    }",
        "    handler0(%10: f32[2], %11: f32[2], %12: f32[2]) {",
        "      %13: f32[2] = tg.read(%10)",
        "      %14: f32[2] = tg.read(%11)",
        "      %15: f32[2] = aten.add.Tensor(%13, %14)",
        "      return %15",
        "    }",
        "  }",
    )
    handler = forward(parse_graph(given)).nodes[-1].regions["handler0"]
    assert [n.op for n in handler.nodes] == ["tg.read", "aten.add.Tensor"]
    assert handler.nodes[0].args[0] is handler.inputs[0]
