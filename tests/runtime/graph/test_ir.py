"""What walks over the arguments of nodes give."""

import torch

from tograph.runtime.graph.ir import Value, map_values, values_in
from tograph.runtime.graph.types import BOOL, TensorType

F3 = TensorType(torch.float32, (3,))


def test_values_in_and_map_values_keep_structure():
    a, b = Value(F3), Value(BOOL)
    tree = (a, [1, (b, "x")], {"k": a})
    assert list(values_in(tree)) == [a, b, a]
    assert map_values(lambda v: v.type, tree) == (F3, [1, (BOOL, "x")], {"k": F3})
