"""Who uses the values of a graph."""

import tograph as tg
from tograph.runtime.graph.uses import readers, use_counts, users

GRAPH = tg.parse_graph("""main(%x: f32[3], %y: f32[3]) {
  %0: f32[3] = aten.mul.Tensor(%x, %x)
  %1: f32[3] = aten.add.Tensor(%0, %x)
  return %1, %0, %1
}
""")


def test_nodes_come_once_and_results_each_time():
    (x, y), (mul, add) = GRAPH.inputs, GRAPH.nodes
    assert readers(GRAPH) == {x: [mul, add], mul.outputs[0]: [add]}
    assert users(GRAPH) == {
        x: [mul, add],
        mul.outputs[0]: [add, None],
        add.outputs[0]: [None, None],
    }
    assert use_counts(GRAPH) == {x: 3, mul.outputs[0]: 2, add.outputs[0]: 2}
    assert y not in users(GRAPH)
