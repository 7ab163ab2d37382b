"""What walks over the arguments of nodes give."""

import torch

from tograph.runtime.graph.ir import Graph, Node, Value, all_nodes, map_values, values_in
from tograph.runtime.graph.types import BOOL, TensorType

F3 = TensorType(torch.float32, (3,))


def test_values_in_and_map_values_keep_structure():
    a, b = Value(F3), Value(BOOL)
    tree = (a, [1, (b, "x")], {"k": a})
    assert list(values_in(tree)) == [a, b, a]
    assert map_values(lambda v: v.type, tree) == (F3, [1, (BOOL, "x")], {"k": F3})


def test_nodes_of_deep_regions_stand_behind_their_own():
    outer = graph = Graph("main")
    for depth in range(2_000):
        branches = Graph("body"), Graph("orelse")
        branches[1].nodes = [Node("other", (depth,), {}, [])]
        graph.nodes = [
            Node("If", (depth,), {}, [], regions=dict(zip("ab", branches))),
            Node("after", (depth,), {}, []),
        ]
        graph = branches[0]
    found = [(n.op, n.args[0]) for n in all_nodes(outer)]
    inward = [("If", d) for d in range(2_000)]
    outward = [(op, d) for d in reversed(range(2_000)) for op in ("other", "after")]
    assert found == inward + outward
