"""Values of a graph in one memory, as sets with a representative: the home of a value.

An op that overwrites memory, or looks at it without a copy, concerns all values that share it.
"""

from __future__ import annotations

from . import ops
from .ir import Graph, Value
from .types import ScalarType, TensorType


class Homes:
    """Which values of a graph share memory that an op overwrites, or that is looked at without a copy.

    ``of`` is the value that stands for the memory; ``tracked`` has those of such memory. Without such ops: nothing.
    """

    def __init__(self, graph: Graph, effects: list[ops.Effects]):
        self._home: dict[Value, Value] = {}
        self.tracked: set[Value] = set()
        looks = [n for n in graph.nodes if n.op == "tg.borrow"]
        taken = [n.inputs[i] for n, e in zip(graph.nodes, effects) for i in e.overwrites]
        if not looks and not taken:
            return
        for node, e in zip(graph.nodes, effects):
            shared = node.inputs if node.regions or ops.lookup(node.op).aliases else []
            if e.overwrites and not node.regions and isinstance(node.outputs[0].type, TensorType):
                shared = [node.inputs[i] for i in e.overwrites]  # the others are copied from
            for value in shared:
                for out in node.outputs:
                    self._join(out, value)
        self.tracked.update(map(self.of, taken))
        self.tracked.update(self.of(n.args[0]) for n in looks)

    def of(self, value: Value) -> Value:
        home, root = self._home, value
        while (above := home.get(root)) is not None:
            root = above
        while value is not root:  # the next walk from here is one step
            home[value], value = root, home[value]
        return root

    def _join(self, out: Value, value: Value) -> None:
        if not isinstance(out.type, ScalarType) and not isinstance(value.type, ScalarType):
            one, other = self.of(out), self.of(value)
            if one is not other:
                self._home[one] = other
