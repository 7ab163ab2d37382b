"""`verify`: graphs that are well formed, and each way in which one is not."""

import pytest
import torch

from tograph.errors import VerifyError
from tograph.runtime.graph import verification
from tograph.runtime.graph.ir import Node, Value
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.graph.types import TensorType

F3 = TensorType(torch.float32, (3,))


def parse(body, head="main(%x: f32[3], %y: f32[3], %p: bool[], %i: int)"):
    return parse_graph(head + " {\n" + body + "\n}")


BRANCHES = """\
%0: f32[3] = If(%p, %x) {
  then(%a: f32[3]) {
    return %a
  }
  orelse(%a: f32[3]) {
    return %a
  }
}
return %0"""


LOOP = """\
%0: f32[3] = While(%x, %y, carried=1) {
  cond(%a: f32[3], %b: f32[3]) {
    %1: bool[] = aten.any.default(%a)
    return %1
  }
  body(%a: f32[3], %b: f32[3]) {
    %2: f32[3] = aten.sub.Tensor(%a, %b)
    return %2
  }
}
return %0"""


@pytest.mark.parametrize("text", [BRANCHES, LOOP, "return", "return %x, %x"])
def test_verify_accepts(text):
    verification.verify(parse(text))


def no_such_op(graph):
    graph.nodes.append(Node("tg.no_such_op"))


def no_such_overload(graph):
    graph.nodes.append(Node("aten.add.NoSuch"))


def undefined_value(graph):
    graph.nodes.append(Node("aten.neg.default", (Value(F3),), {}, (F3,)))


def undefined_value_in_a_list(graph):
    graph.nodes.append(Node("aten.cat.default", ([graph.inputs[0], Value(F3)],), {}, (F3,)))


def undefined_keyword(graph):
    graph.nodes.append(Node("aten.clamp.default", (graph.inputs[0],), {"max": Value(F3)}, (F3,)))


def use_before_definition(graph):
    node = Node("aten.neg.default", (graph.inputs[0],), {}, (F3,))
    graph.nodes = [Node("aten.neg.default", tuple(node.outputs), {}, (F3,)), node]


def own_output(graph):
    node = Node("aten.neg.default", (graph.inputs[0],), {}, (F3,))
    node.args = tuple(node.outputs)
    graph.nodes.append(node)


def undefined_output(graph):
    graph.outputs = [Value(F3)]


def input_twice(graph):
    graph.inputs.append(graph.inputs[0])


def later_control_input(graph):
    first, second = Node("tg.print"), Node("tg.print")
    first.control_inputs = [second]
    graph.nodes = [first, second]


def control_input_of_itself(graph):
    node = Node("tg.print")
    node.control_inputs = [node]
    graph.nodes.append(node)


def control_input_of_another_graph(graph):
    node = Node("tg.print")
    node.control_inputs = [Node("tg.print")]
    graph.nodes.append(node)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (no_such_op, "no such op: tg.no_such_op"),
        (no_such_overload, "no such op: aten.add.NoSuch"),
        (undefined_value, "not defined before"),
        (undefined_value_in_a_list, "not defined before"),
        (undefined_keyword, "not defined before"),
        (use_before_definition, "not defined before"),
        (own_output, "not defined before"),
        (undefined_output, "an output is not defined"),
        (input_twice, "an input appears twice"),
        (later_control_input, "comes after it"),
        (control_input_of_itself, "comes after it"),
        (control_input_of_another_graph, "comes after it"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_verify_rejects(harm, why):
    graph = parse("return %x")
    verification.verify(graph)
    harm(graph)
    with pytest.raises(VerifyError, match=why):
        verification.verify(graph)


def outer_value(graph):
    branch = graph.nodes[0].regions["then"]
    branch.outputs = [graph.inputs[0]]


def missing_region_input(graph):
    graph.nodes[0].regions["orelse"].inputs.append(Value(F3))


def extra_region_output(graph):
    branch = graph.nodes[0].regions["orelse"]
    branch.outputs = branch.outputs * 2


def broken_inside(graph):
    graph.nodes[0].regions["then"].nodes.append(Node("no.op"))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (outer_value, "then: an output is not defined"),
        (missing_region_input, "If.orelse takes 2 inputs, not 1"),
        (extra_region_output, "If.orelse gives 2 outputs, not 1"),
        (broken_inside, "then: no such op"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_verify_rejects_in_a_branch(harm, why):
    graph = parse(BRANCHES)
    harm(graph)
    with pytest.raises(VerifyError, match=why):
        verification.verify(graph)


def test_verify_rejects_a_condition_with_two_outputs():
    graph = parse(LOOP)
    cond = graph.nodes[0].regions["cond"]
    cond.outputs = cond.outputs * 2
    with pytest.raises(VerifyError, match="While.cond gives 2 outputs, not 1"):
        verification.verify(graph)
