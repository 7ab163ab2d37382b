"""Which part of a graph computes a value from others, and where another graph does the same."""

import tograph as tg
from tograph.runtime.passes.slices import between, led_to, matching

TEXT = """
f(%w: f32[3], %u: f32[3], %c: f32[3]) {{
  %0: f32[3] = aten.sin.default(%u)
  %1: f32[3] = aten.neg.default(%c)
  %2: f32[3] = aten.mul.Tensor(%w, %0)
  %3: f32[3] = aten.{op}.Tensor(%2, %1)
  return %3
}}
"""


def graph(op="add"):
    return tg.parse_graph(TEXT.format(op=op))


def test_what_is_given_is_computed_again_and_the_rest_is_taken():
    g = graph()
    w, u, c = g.inputs
    made = between(g, g.outputs[0], [w], [c])
    assert [n.op for n in made.graph.nodes] == ["aten.neg.default", "aten.mul.Tensor", "aten.add.Tensor"]  # fmt: skip
    assert set(made.sources) == {w, g.nodes[0].outputs[0], c}
    assert u not in made.sources


def test_a_value_that_does_not_follow_has_no_slice():
    g = graph()
    w, _, c = g.inputs
    assert between(g, g.nodes[0].outputs[0], [w], [c]) is None
    assert led_to(g, [w]) == {w, g.nodes[2].outputs[0], g.nodes[3].outputs[0]}


def test_another_graph_matches_where_it_does_the_same():
    g = graph()
    made = between(g, g.outputs[0], [g.inputs[0]], [g.inputs[2]])
    for op, same in (("add", True), ("mul", False)):
        other = graph(op)
        known = {v: other.inputs[g.inputs.index(s)] for v, s in zip(made.graph.inputs, made.sources) if s in g.inputs}  # fmt: skip
        found = matching(made.graph, other.outputs[0], known)
        assert (found is not None) == same
        if found is not None:
            assert found[made.graph.outputs[0]] is other.outputs[0]


def test_random_numbers_are_not_drawn_again():
    g = tg.parse_graph("""
f(%w: f32[3]) {
  %0: f32[3] = aten.bernoulli.p(%w, 0.5)
  %1: f32[3] = aten.mul.Tensor(%w, %0)
  return %1
}
""")
    assert between(g, g.outputs[0], [g.inputs[0]], []) is None
