"""The rules of a graph: effects, control inputs (DESIGN section 4) and `prune`."""

import re

import pytest
import torch

import tograph as tg
from tograph.runtime.graph import ordering, verification
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.graph.types import BOOL, TensorType

F3 = TensorType(torch.float32, (3,))


def parse(body, head="main(%x: f32[3], %y: f32[3], %p: bool[], %i: int)"):
    return parse_graph(head + " {\n" + body + "\n}")


# ---- effects of regions


def test_effects_of_a_region_are_those_of_its_graphs():
    graph = parse("""\
!0 = If(%p, %y, %x) {
  then(%a: f32[3], %b: f32[3]) {
    !1 = tg.assign(%b, %a)
    return
  }
  orelse(%a: f32[3], %b: f32[3]) {
    %2: f32[3] = tg.read(%b)
    !3 = tg.print(%2)
    return
  }
}
return""")
    effects = ordering.node_effects(graph.nodes[0])
    assert (effects.writes, effects.reads, effects.io) == ((2,), (2,), True)
    assert (effects.random, effects.may_fail) == (False, False)
    known = {}
    assert ordering.written(graph, known) == {graph.inputs[0]}
    then, orelse = graph.nodes[0].regions.values()
    assert known[then] == (1, {then.inputs[1]}) and known[orelse] == (2, set())
    then.nodes.append(Node("tg.assign", (then.inputs[0], then.inputs[0])))
    assert ordering.written(then, known) == set(then.inputs)
    assert [graph.nodes[0].inputs[i] for i in effects.writes] == [graph.inputs[0]]


@pytest.mark.parametrize(
    ("args", "params"),
    [
        ("3, %y, %x", "%n: int, %a: f32[3], %b: f32[3]"),
        ("%y, %x, 3", "%a: f32[3], %b: f32[3], %n: int"),
        ("%y, 3, %x", "%a: f32[3], %n: int, %b: f32[3]"),
    ],
)
def test_effects_of_a_region_with_constant_arguments(args, params):
    graph = parse(f"""\
!0 = If(%p, {args}) {{
  then({params}) {{
    !1 = tg.assign(%b, %a)
    return
  }}
  orelse({params}) {{
    return
  }}
}}
return""")
    node = graph.nodes[0]
    written = [node.inputs[i] for i in ordering.node_effects(node).writes]
    assert written == [graph.inputs[0]]


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("%0: int = py.floordiv(%i, 2)", False),
        ("%0: int = py.floordiv(%i, %i)", True),
        ("%0: int = py.int(%p)", False),
        ("%0: int = py.trunc(%i)", False),
        ("%0: int = py.int(%x)", True),
        ("%0: f32[] = aten.select.int(%x, 0, 1)", False),
        ("%0: f32[] = aten.select.int(%x, 0, %i)", True),
        ("!0 = tg.assert(%p, 'tg.AssertionFailed', [])", True),
        ("%0: f32[3] = aten.add.Tensor(%x, %y)", False),
    ],
)
def test_may_fail_by_arguments(line, fails):
    assert ordering.node_effects(parse(line + "\nreturn").nodes[0]).may_fail is fails


# ---- control inputs: `text` holds the expected edges


ORDER = {
    "a read waits for the last write": """\
!0 = tg.assign(%x, %y)
%1: f32[3] = tg.read(%x) ^!0
return %1""",
    "reads do not wait for each other": """\
%0: f32[3] = tg.read(%x)
%1: f32[3] = tg.read(%x)
return %0, %1""",
    "a write waits for the reads and the write before": """\
!0 = tg.assign(%x, %y)
%1: f32[3] = tg.read(%x) ^!0
%2: f32[3] = tg.read(%x) ^!0
!3 = tg.assign(%x, %y) ^%1 ^%2 ^!0
return %1, %2""",
    "a write waits for the reads since the last write only": """\
%0: f32[3] = tg.read(%x)
!1 = tg.assign(%x, %y) ^%0
!2 = tg.assign(%x, %y) ^!1
return %0""",
    "resources are independent": """\
!0 = tg.assign(%x, %p)
!1 = tg.assign(%y, %p)
%2: f32[3] = tg.read(%x) ^!0
%3: f32[3] = tg.read(%y) ^!1
return %2, %3""",
    "io is one resource": """\
!0 = tg.print(%x)
%1: object = tg.py_call(<py f>, [], 0) ^!0
!2 = tg.print(%y) ^%1
return""",
    "random draws are ordered and need no io order": """\
%0: f32[3] = aten.rand.default([3])
!1 = tg.print(%x)
%2: f32[3] = aten.rand.default([3]) ^%0
return %0, %2""",
    "pure ops have no order": """\
!0 = tg.print(%x)
%1: f32[3] = aten.add.Tensor(%x, %y)
!2 = tg.assign(%x, %1)
return""",
    "a write and io wait for what may fail": """\
!0 = tg.assert(%p, 'tg.AssertionFailed', [])
!1 = tg.assign(%x, %y) ^!0
!2 = tg.print(%y) ^!0
return""",
    "what may fail waits for the writes before": """\
!0 = tg.assign(%x, %y)
!1 = tg.print(%y)
!2 = tg.assert(%p, 'tg.AssertionFailed', []) ^!0 ^!1
return""",
    "of two that fail the first is seen": """\
!0 = tg.assert(%p, 'tg.AssertionFailed', [])
!1 = tg.raise('KeyError', []) ^!0
!2 = tg.assign(%x, %y) ^!1
return""",
    "a pure read does not wait for what may fail": """\
!0 = tg.assert(%p, 'tg.AssertionFailed', [])
%1: f32[3] = tg.read(%x)
return %1""",
    "a region is ordered by what its graphs do": """\
!0 = tg.assign(%x, %y)
!1 = tg.assign(%y, %p)
%2: f32[3] = tg.read(%y) ^!1
!5 = If(%p, %x) ^!0 {
  then(%a: f32[3]) {
    %3: f32[3] = tg.read(%a)
    !4 = tg.assign(%a, %3) ^%3
    return
  }
  orelse(%a: f32[3]) {
    return
  }
}
%6: f32[3] = tg.read(%x) ^!5
return %2, %6""",
}


@pytest.mark.parametrize("text", ORDER.values(), ids=list(ORDER))
def test_control_inputs(text):
    graph = parse(re.sub(r" \^[%!]\d+", "", text))
    ordering.set_control_inputs(graph)
    verification.verify(graph)
    found, wanted = show(graph).splitlines(), show(parse(text)).splitlines()
    assert list(map(split_edges, found)) == list(map(split_edges, wanted))


LATE = """\
!0 = tg.assign(%x, %y)
!1 = tg.assert(%p, 'tg.AssertionFailed', [])
!2 = tg.assign(%x, %y) ^!0
!3 = tg.print([%y], ' ', '\\n', False) ^!1
!4 = tg.assert(%p, 'tg.AssertionFailed', [])
!5 = tg.print([%y], ' ', '\\n', False) ^!3 ^!4
return"""


def test_code_that_writes_at_its_end_lets_only_what_is_seen_wait_for_what_may_fail():
    graph = parse(re.sub(r" \^[%!]\d+", "", LATE))
    ordering.set_control_inputs(graph, late=True)
    found, wanted = show(graph).splitlines(), show(parse(LATE)).splitlines()
    assert list(map(split_edges, found)) == list(map(split_edges, wanted))


def split_edges(line):
    return re.sub(r" \^[%!]\d+", "", line), sorted(re.findall(r"\^[%!]\d+", line))


def test_a_resource_that_is_two_inputs_of_a_region_is_ordered():
    """Every write through any of the inputs counts."""
    graph = parse("""\
!0 = tg.assign(%y, %p)
!1 = If(%p, %x, %y) {
  then(%a: f32[3], %b: f32[3]) {
    !2 = tg.assign(%a, %b)
    !3 = tg.assign(%b, %a)
    return
  }
  orelse(%a: f32[3], %b: f32[3]) {
    return
  }
}
%4: f32[3] = tg.read(%x)
return %4""")
    ordering.set_control_inputs(graph)
    assign, branch, read = graph.nodes
    assert branch.control_inputs == [assign]
    assert read.control_inputs == [branch]


# ---- prune


def test_prune_keeps_effects_and_drops_the_rest():
    graph = parse("""\
%0: f32[3] = aten.neg.default(%x)
%1: f32[3] = aten.neg.default(%0)
%2: f32[3] = aten.rand.default([3])
%3: f32[3] = tg.read(%x)
%4: f32[3] = aten.exp.default(%x)
!5 = tg.print(%4)
!6 = tg.assign(%x, %y)
%7: f32[3] = aten.index.Tensor(%x, [%y])
%8: object = tg.py_call(<py f>, [], 0)
%9: int = py.floordiv(%i, %i)
%10: int = py.floordiv(%i, 2)
%11: int = py.add(%i, %i)
%12: f32[3] = aten.sin.default(%x)
return %12""")
    ordering.prune(graph)
    assert [n.op for n in graph.nodes] == [
        "aten.rand.default",
        "aten.exp.default",
        "tg.print",
        "tg.assign",
        "aten.index.Tensor",
        "tg.py_call",
        "py.floordiv",
        "aten.sin.default",
    ]
    verification.verify(graph)


def test_prune_in_regions():
    graph = parse("""\
%0: f32[3] = If(%p, %x) {
  then(%a: f32[3]) {
    %1: f32[3] = aten.neg.default(%a)
    !2 = tg.print(%a)
    return %a
  }
  orelse(%a: f32[3]) {
    %3: f32[3] = aten.exp.default(%a)
    return %a
  }
}
%4: f32[3] = If(%p, %x) {
  then(%a: f32[3]) {
    return %a
  }
  orelse(%a: f32[3]) {
    return %a
  }
}
return""")
    ordering.prune(graph)
    assert [n.op for n in graph.nodes] == ["If"]
    assert [[n.op for n in r.nodes] for r in graph.nodes[0].regions.values()] == [["tg.print"], []]


def test_prune_drops_control_inputs_on_dropped_nodes():
    graph = parse("""\
!0 = tg.assign(%x, %y)
%1: f32[3] = tg.read(%x) ^!0
!2 = tg.assign(%x, %y) ^%1 ^!0
return""")
    ordering.prune(graph)
    verification.verify(graph)


def test_control_outputs():
    graph = parse("""\
%0: f32[3] = aten.neg.default(%x)
!1 = tg.print(%0)
%2: f32[3] = tg.read(%x)
return %2""")
    assert ordering.control_outputs(graph) == [graph.nodes[1]]


# ---- walks


def test_replace_inputs():
    graph = parse("%0: f32[3] = aten.clamp.Tensor(%x, %y, max=%x)\nreturn %0")
    x, y = graph.inputs[:2]
    graph.nodes[0].replace_inputs({x: y, y: x}.__getitem__)
    assert graph.nodes[0].inputs == [y, x, y]


def test_a_traced_function_orders_its_effects():
    state = torch.zeros(3)

    def f(x):
        state.add_(x)
        tg.print(state)
        state.mul_(2)
        return state + 1

    graph = tg.function(f).get_concrete_function(torch.ones(3)).graph
    verification.verify(graph)
    writes = [n for n in graph.nodes if n.op == "tg.assign"]
    assert len(writes) == 2
    assert writes[0] in writes[1].control_inputs
    assert [n.op for n in graph.nodes].count("tg.print") == 1


def test_show_is_str():
    assert str(Graph()) == show(Graph()) == "main() {\n  return\n}"


# ---- cost


@pytest.mark.parametrize("walk", [ordering.set_control_inputs, ordering.prune])
def test_effects_of_nested_regions_are_asked_once(walk, monkeypatch):
    """Not once for each level around them."""
    graph, depth = Graph("main"), 8
    graph.inputs = [Value(F3), Value(BOOL)]
    region = graph
    for _ in range(depth):
        inner, other = Graph("then"), Graph("orelse")
        for made in (inner, other):
            made.inputs = [Value(F3), Value(BOOL)]
        other.outputs = other.inputs[:1]
        node = Node("If", (region.inputs[1], *region.inputs), {}, [F3], regions={"then": inner, "orelse": other})  # fmt: skip
        region.nodes, region.outputs = [node], region.inputs[:1]
        region = inner
    node = Node("tg.assign", (region.inputs[0], region.inputs[0]))
    region.nodes, region.outputs = [node], region.inputs[:1]
    verification.verify(graph)
    asked, plain = [], ordering.op_effects
    monkeypatch.setattr(ordering, "op_effects", lambda *a: asked.append(a) or plain(*a))
    walk(graph)
    assert 0 < len(asked) <= 2


def test_inputs_that_stay_leave_the_arguments():
    """`replace_inputs` asks once for each value, and makes no new arguments where none changes."""
    x, y = Value(F3), Value(F3)
    node = Node("aten.cat.default", ([x, y, x],), {}, [F3])
    args, asked = node.args, []
    node.replace_inputs(lambda v: asked.append(v) or v)
    assert node.args is args and asked == [x, y]
    node.over = (x, y)
    node.replace_inputs(lambda v: y if v is x else v)
    assert node.args == ([y, y, y],) and node.over == (y, y)
