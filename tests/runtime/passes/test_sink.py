"""What one branch uses is computed there; what may fail, has an effect or reads something written between stays."""

import pytest
import torch

from tests.runtime.passes.text_case import same
from tograph.runtime.graph.interp import run
from tograph.runtime.graph.ir import all_nodes
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.passes import checked
from tograph.runtime.passes.sink import DEEPEST, sink

IF = """%4: f32[2] = If(%p, %x{args}) {{
    then(%a: f32[2]{inputs}) {{
      {then}
    }}
    orelse(%a: f32[2]{inputs}) {{
      {orelse}
    }}
  }}"""


def program(*lines, args="", inputs="", then="return %a", orelse="return %a", result="%4"):
    made = IF.format(args=args, inputs=inputs, then=then, orelse=orelse)
    text = "\n  ".join([*(line for line in lines if line != "IF"), made])
    return f"main(%p: bool, %x: f32[2], %r: f32[2], %i: int, %d: f32[?]) {{\n  {text}\n  return {result}\n}}"


def test_a_chain_sinks_and_keeps_its_order():
    same(
        sink,
        program(
            "%1: f32[2] = aten.exp.default(%x)",
            "%2: f32[2] = aten.mul.Tensor(%1, %i)",
            args=", %2",
            inputs=", %b: f32[2]",
            then="%3: f32[2] = aten.add.Tensor(%a, %b)\n      return %3",
        ),
        program(
            args=", %i",
            inputs=", %n: int",
            then="%1: f32[2] = aten.exp.default(%a)\n      %2: f32[2] = aten.mul.Tensor(%1, %n)\n"
            "      %3: f32[2] = aten.add.Tensor(%a, %2)\n      return %3",
        ),
    )


def test_into_the_branch_of_a_branch():
    inner = """%6: f32[2] = If(%n, %b) {{
        then(%e: f32[2]{more}) {{
          {first}
        }}
        orelse(%e: f32[2]{more}) {{
          return %e
        }}
      }}
      return %6"""
    deep = """%6: f32[2] = If(%n, %b, %f) {{
        then(%e: f32[2], %g: f32[2]) {{
          return %g
        }}
        orelse(%e: f32[2], %g: f32[2]) {{
          return %e
        }}
      }}
      return %6""".format()
    same(
        sink,
        program(
            "%1: f32[2] = aten.exp.default(%x)",
            args=", %i, %r, %1",
            inputs=", %n: int, %b: f32[2], %f: f32[2]",
            then=deep,
        ),
        program(
            args=", %i, %r",
            inputs=", %n: int, %b: f32[2]",
            then=inner.format(
                more=", %g: f32[2]", first="%1: f32[2] = aten.exp.default(%g)\n          return %1"
            ).replace("If(%n, %b)", "If(%n, %b, %a)"),
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        "%1: f32[2] = aten.rand_like.default(%x)",
        "%1: f32[] = aten.select.int(%x, 0, %i)",
        "%1: int = py.floordiv(%i, %i)",
        "%1: f32[?] = aten.add.Tensor(%d, %x)",
        "%1: f32[2] = tg.read(%r)\n  !2 = tg.assign(%r, %x)",
        "%1: f32[2] = tg.read(%r)\n  %2: object = tg.py_call(<py f>, [], 0)",
    ],
)
def test_stays(line):
    kind = line[4 : line.index(" =")]
    same(
        sink,
        program(
            line, args=", %1", inputs=f", %b: {kind}", then="!7 = tg.print(%b)\n      return %a"
        ),
    )


def test_a_read_sinks_past_writes_of_others():
    write = "!2 = tg.assign(%x, %x)"
    read = "%1: f32[2] = tg.read(%r)"
    same(
        sink,
        program(read, write, args=", %1", inputs=", %b: f32[2]", then="return %b"),
        program(
            write,
            args=", %r",
            inputs=", %s: f32[2]",
            then="%1: f32[2] = tg.read(%s)\n      return %1",
        ),
    )


def test_what_others_use_stays():
    line = "%1: f32[2] = aten.exp.default(%x)"
    both = dict(args=", %1", inputs=", %b: f32[2]", then="return %b")
    same(sink, program(line, orelse="return %b", **both))
    same(sink, program(line, result="%4, %1", **both))
    same(sink, program(line, "%2: f32[2] = aten.neg.default(%1)", result="%4, %2", **both))


def test_branches_behind_one_another_sink_into_each_other_no_deeper_than_a_limit():
    def choice(i):
        return [f"%{3 * i + 1}: f32[2] = If(%p, %x, %{3 * i - 2}) {{", f"then(%a{i}: f32[2], %b{i}: f32[2]) {{", f"return %a{i}", "}",
                f"orelse(%c{i}: f32[2], %d{i}: f32[2]) {{", f"return %d{i}", "}", "}"]  # fmt: skip

    count = 60
    lines = ["%1: f32[2] = aten.exp.default(%x)", *(line for i in range(1, count) for line in choice(i))]  # fmt: skip
    text = "main(%p: bool, %x: f32[2]) {\n" + "\n".join(lines) + f"\nreturn %{3 * count - 2}\n}}"
    graph = checked(sink, parse_graph(text))
    depth, region = 0, graph
    while inner := [n for n in region.nodes if n.regions]:
        depth, region = depth + 1, inner[-1].regions["orelse"]
    assert depth == DEEPEST + 1
    assert len(graph.nodes) == 1
    assert sum(1 for _ in all_nodes(graph)) == count
    x = torch.tensor([1.0, 2.0])
    assert run(graph, [False, x])[0].equal(x.exp())
    assert run(graph, [True, x])[0].equal(x)


def test_one_value_that_a_branch_knows_by_two_inputs():
    x, y = "%e: f32[2]", "%f: f32[?]"
    text = f"""main(%p: bool, %x: f32[2]) {{
  %1: f32[2] = aten.exp.default(%x)
  %4: f32[2] = If(%p, %x, %1, %1, %1) {{
    then(%a: f32[2], {x}, {y}, %g: f32[2]) {{
      %2: f32[2] = aten.add.Tensor(%e, %f)
      %3: f32[2] = aten.add.Tensor(%2, %g)
      return %3
    }}
    orelse(%a: f32[2], {x}, {y}, %g: f32[2]) {{
      return %a
    }}
  }}
  return %4
}}"""
    graph = checked(sink, parse_graph(text))
    assert len(graph.nodes) == 1
    x = torch.tensor([1.0, 2.0])
    assert run(graph, [True, x])[0].equal(x.exp() * 3)
