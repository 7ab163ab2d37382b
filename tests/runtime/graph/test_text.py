"""The text of a graph: what is shown reads back, and what is no graph names the line that is wrong."""

import math
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tograph as tg
from tests.runtime.programs import SAMPLE_NAMES, generated, sample_concrete
from tograph.errors import GraphSyntaxError
from tograph.runtime.graph import text
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.ops import OpaqueObject
from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.graph.types import INT, OBJECT, TensorType
from tograph.runtime.graph.verification import verify

F3 = TensorType(torch.float32, (3,))

GOLDEN = """\
main(%x: f32[3], %n: i64[]) {
  %0: bool[] = aten.gt.Scalar(%n, 0)  # user.py:3
  %3: f32[3] = If(%0, %x) {  # user.py:3
    then(%x: f32[3]) {
      %1: f32[3] = aten.mul.Tensor(%x, 2)  # user.py:4
      return %1
    }
    orelse(%x: f32[3]) {
      %2: f32[3] = aten.div.Tensor_mode(%x, 0.5, rounding_mode='floor') nograd
      return %2
    }
  }
  !4 = tg.print(%3, sep=', ')  # user.py:5
  !5 = tg.print('done') ^!4
  return %3
}"""


def one_node(*args, **kwargs):
    """A graph with one node of these arguments."""
    graph = Graph()
    graph.nodes = [Node("py.constant", args, kwargs, (OBJECT,))]
    graph.outputs = list(graph.nodes[0].outputs)
    return graph


def assert_reads_back(graph):
    text = show(graph)
    again = parse_graph(text)
    verify(again)
    assert show(again) == text
    assert again == graph


# ---- equality


def test_graphs_are_equal_by_text_and_keys_by_identity():
    graph, again = parse_graph(GOLDEN), parse_graph(GOLDEN)
    assert graph == again and not graph != again
    assert graph != parse_graph(GOLDEN.replace("user.py:4", "user.py:5"))
    assert graph != GOLDEN
    assert len({graph, again, graph}) == 2


# ---- what is shown


def test_golden_reads_back():
    graph = parse_graph(GOLDEN)
    verify(graph)
    assert show(graph) == GOLDEN
    branch = graph.nodes[1]
    assert branch.location == ("user.py", 3)
    assert list(branch.regions) == ["then", "orelse"]
    division = branch.regions["orelse"].nodes[0]
    assert (division.grad, division.kwargs) == (False, {"rounding_mode": "floor"})
    assert graph.nodes[3].control_inputs == [graph.nodes[2]]


def doubled_if_positive(x):
    if x.sum() > 0:
        x = x * 2
    return x


def test_text_of_a_traced_function():
    text = str(tg.function(doubled_if_positive).get_concrete_function(torch.ones(3)).graph)
    assert (
        re.sub("  # .*", "", text)
        == """\
doubled_if_positive(%x: f32[3]) {
  %0: f32[] = aten.sum.default(%x)
  %1: bool[] = aten.gt.Scalar(%0, 0)
  %2: int = py.int(%1)
  %6: f32[3] = If(%1, %x) {
    then(%3: f32[3]) {
      %4: f32[3] = aten.mul.Tensor(%3, 2)
      return %4
    }
    orelse(%5: f32[3]) {
      return %5
    }
  }
  return %6, %2
}"""
    )


def test_every_line_of_the_text_names_the_line_of_the_user():
    text = str(tg.function(doubled_if_positive).get_concrete_function(torch.ones(3)).graph)
    first = doubled_if_positive.__code__.co_firstlineno
    lines = [int(n) - first for n in re.findall(r"# test_text.py:(\d+)", text)]
    assert lines == [1, 1, 1, 2]


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_sample_reads_back(name):
    assert_reads_back(sample_concrete(name).graph)


@pytest.mark.parametrize("first", range(3000, 3120, 20))
def test_generated_reads_back(first):
    found = [concrete for _, concrete in map(generated, range(first, first + 20)) if concrete]
    assert len(found) >= 10
    for concrete in found:
        assert_reads_back(concrete.graph)


@pytest.mark.parametrize(
    "constant",
    [
        0,
        -1,
        10**30,
        0.5,
        -0.0,
        1e-30,
        1.5e300,
        math.inf,
        -math.inf,
        True,
        False,
        None,
        ...,
        1 + 2j,
        complex(-0.0, math.inf),
        -3j,
        "",
        "it's",
        'say "x"',
        "both ' and \"",
        "back\\slash",
        "a\nb\tc\r\x00\x1b",
        "\x85\u2028\x1c",
        "é ∂ \U0001f600",
        "\ud800",
        "  # a.py:3",
        " = ",
        " {",
        "^%0",
        " nograd",
        "a, (b",
        "%x",
        [],
        (),
        [1],
        (1,),
        (1, 2),
        [[], ()],
        [1, (2.0, [None])],
        torch.float32,
        torch.int64,
        torch.strided,
        torch.channels_last,
        torch.preserve_format,
        torch.device("cpu"),
        torch.device("cuda:1"),
    ],
    ids=repr,
)
def test_constant_reads_back(constant):
    graph = one_node(constant, key=constant)
    again = parse_graph(show(graph))
    assert show(again) == show(graph)
    for found in (again.nodes[0].args[0], again.nodes[0].kwargs["key"]):
        assert type(found) is type(constant)
        assert repr(found) == repr(constant)


def test_nan_reads_back():
    assert math.isnan(parse_graph(show(one_node(math.nan))).nodes[0].args[0])


@pytest.mark.parametrize(
    "label",
    ["f", "f.<locals>.<lambda>", "a > b", "<", "x' \"", "two\nlines", "IndexError KeyError"],
)
def test_opaque_object_reads_back(label):
    assert_reads_back(one_node([OpaqueObject(None, label), 1], key=OpaqueObject(None, label)))


@pytest.mark.parametrize("label", ["x", "5", "x[0]", "self.w", "a-b", "", "x"])
def test_any_input_label_reads_back(label):
    graph = Graph()
    graph.inputs = [Value(F3), Value(INT), Value(F3)]
    graph.input_names = ["x", label, "0"]
    graph.nodes = [Node("aten.add.Tensor", (graph.inputs[0], graph.inputs[2]), {}, (F3,))]
    graph.outputs = graph.nodes[0].outputs
    assert_reads_back(graph)


@pytest.mark.parametrize("name", ["main", "<lambda>", "f.g"])
def test_any_graph_name_reads_back(name):
    graph = one_node(1)
    graph.name = name
    assert_reads_back(graph)
    assert parse_graph(show(graph)).name == name


def test_lambda_reads_back():
    assert_reads_back(tg.function(lambda x: x + 1).get_concrete_function(torch.ones(2)).graph)


def test_py_function_reads_back():
    def f(x):
        return tg.py_function(lambda v: v * 2, [x], tg.TensorSpec([3], torch.float32))

    assert_reads_back(tg.function(f).get_concrete_function(torch.ones(3)).graph)


def test_equal_graphs_have_equal_texts():
    def f(x, n):
        while n > 0:
            x, n = x * 2, n - 1
        return x

    texts = {
        str(tg.function(f).get_concrete_function(torch.ones(3), torch.tensor(2)).graph)
        for _ in range(3)
    }
    assert len(texts) == 1


# ---- what is no graph


def malformed(old, new):
    assert old in GOLDEN
    return GOLDEN.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "ends too early"),
        ("main(", 1, "expected 'name"),
        ("main(%x: f32[3]) {", 1, "ends too early"),
        (malformed("main(", "("), 1, "expected 'name"),
        (malformed("i64[]) {", "i64[])"), 1, "expected 'name"),
        (malformed("%n: i64[]", "%n: i99[]"), 1, "not a type"),
        (malformed("%n: i64[]", "%n"), 1, "not a type"),
        (malformed("%n: i64[]", "%x: i64[]"), 1, "defined twice"),
        (malformed("%n: i64[]", "n: i64[]"), 1, "not a name"),
        (malformed("Scalar(%n, 0)", "Scalar(%m, 0)"), 2, "%m is not defined"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, 0"), 2, "expected ','"),
        (malformed("Scalar(%n, 0)", "Scalar(%n 0)"), 2, "expected ','"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, zero)"), 2, "unknown word"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, torch.add)"), 2, "unknown word"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, 0) 7"), 2, "control input"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, $)"), 2, "cannot read"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, 007)"), 2, "cannot read"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, device('no such'))"), 2, "not a device"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, device)"), 2, "expected '('"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, 'open)"), 2, "cannot read"),
        (malformed("Scalar(%n, 0)", r"Scalar(%n, '\xzz')"), 2, "cannot read"),
        (malformed("Scalar(%n, 0)", "Scalar(%n, [0)"), 2, "expected ','"),
        (malformed("%0: bool[] = ", ""), 2, "expected 'outputs"),
        (malformed("%0: bool[]", "%0"), 2, "not a type"),
        (malformed("(%0, %x) {  #", "(%0, %x)  #"), 3, "If has no region 'then'"),
        (malformed("orelse(", "then("), 8, "two regions"),
        (
            malformed(
                "%2: f32[3] = aten.div.Tensor_mode(%x, 0.5",
                "%2: f32[3] = aten.div.Tensor_mode(%n, 0.5",
            ),
            9,
            "%n is not",
        ),
        (malformed("return %2", "return %7"), 10, "%7 is not"),
        (malformed("^!4", "^!9"), 14, "is not defined"),
        (malformed("%3\n}", "%3"), 15, "ends too early"),
        (malformed("%3\n}", "%3\n%4"), 16, "expected '}'"),
        (GOLDEN + "\nmore", 17, "after the end"),
        ("\n\n" + malformed("%n: i64[]", "%n: i99[]"), 3, "not a type"),
    ],
)
def test_malformed_text_names_the_line(text, line, why):
    with pytest.raises(GraphSyntaxError, match=rf"^line {line} of the graph: .*{re.escape(why)}"):
        parse_graph(text)


@pytest.mark.parametrize("count", range(len(GOLDEN.splitlines())))
def test_text_cut_short(count):
    with pytest.raises(GraphSyntaxError, match="line"):
        parse_graph("\n".join(GOLDEN.splitlines()[:count]))


PIECES = [
    *"%!^()[]{}=,:#'\"\\ \n<>?*.-",
    "If",
    "return",
    "None",
    "torch.",
    "inf",
    "j",
    "1e999",
    "device(",
    "complex(",
    "<py x>",
    "list<",
    "then(",
    "9",
    "é",
    "²",
    "\x00",
]


@settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(
    st.sampled_from([GOLDEN, *SAMPLE_NAMES]),
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(["", *PIECES])),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_text_reads_or_is_a_syntax_error(text, edits):
    text = str(sample_concrete(text).graph) if text in SAMPLE_NAMES else text
    for where, length, piece in edits:
        where %= len(text)
        text = text[:where] + piece + text[where + length :]
    try:
        graph = parse_graph(text)
    except GraphSyntaxError as error:
        assert re.match(r"line \d+ of the graph: ", str(error))
    else:
        assert isinstance(show(graph), str)


def test_the_line_of_a_node_that_fails_at_every_call_is_written_once(monkeypatch):
    def f(x, n):
        if n > 1:
            raise ValueError("too many")
        return x * n

    g = tg.function(f)
    written = []
    monkeypatch.setattr(text, "lines_of", lambda graph: written.append(graph) or {})
    for _ in range(6):
        with pytest.raises(ValueError, match="too many") as caught:
            g(torch.ones(2), torch.tensor(3))
        assert "raised when the graph ran" in caught.value.__notes__[0]
    assert len({id(graph) for graph in written}) == len(written) < 6


def test_a_branch_without_its_other_side():
    def f(n):
        return n + 1 if n > 0 else n - 1

    shown = str(tg.function(f).get_concrete_function(torch.tensor(3)).graph)
    first, _, rest = shown.partition("    orelse(")
    with pytest.raises(tg.errors.GraphSyntaxError, match="If has no region 'orelse'"):
        tg.parse_graph(first + rest.partition("    }\n")[2])


WRONG = {
    "aten.add.Tensor(%x)": "needs its argument 'other'",
    "aten.sin.default(%x, %x, %x)": "takes at most 1 argument, not 3",
    "aten.sin.default(%x, foo=3)": "has no argument 'foo'",
    "py.add(%x)": "py.add takes 2 arguments, not 1",
    "aten.sort.default(%x)": "gives 2 results, not 1",
    "tg.list_push(%x)": "tg.list_push takes 2 arguments, not 1",
    "If(%x) {\n then() {\n return\n }\n orelse() {\n return %x\n }\n }": "%x is not defined",
    "If(%x) {\n then() {\n return\n }\n orelse() {\n return\n }\n }": "If.then gives 0 outputs, not 1",
    "If(%x) {\n then(%1: f32[3]) {\n return %1\n }\n orelse() {\n return\n }\n }": "takes 1 inputs, not 0",
}


@pytest.mark.parametrize("node", WRONG)
def test_text_with_other_arguments_or_results_than_an_op_has(node):
    with pytest.raises(tg.errors.GraphSyntaxError, match=re.escape(WRONG[node])):
        tg.parse_graph(f"f(%x: f32[3]) {{\n %0: f32[3] = {node}\n return %0\n}}")
