"""A loop that runs block by block as two graphs: its numbers, and its elements.

The numbers of an iteration are computed of numbers, once for all elements of a block. The elements are the region of one kernel: what
the body makes of them, and the mask for which the condition asks, both of the elements that the iteration begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import lookup
from ..graph.ordering import node_effects
from ..graph.rewrite import copied, copy_node, replaced
from ..kernels import loop_blocks
from ..kernels.build import Region
from ..kernels.loop_choices import chosen, only_numbers, small
from ..kernels.loop_graphs import SAME_ELEMENTS
from ..kernels.loop_ir import Unsupported
from ..kernels.settled import settled


class Parts:
    """The parts of a ``While``; Unsupported where it has none.

    ``numbers`` and ``elements``: which parts of the state are what; elements that no iteration changes are like those from outside.
    ``region``: the nodes of elements. Its outputs are the ``mask``, where there is one and a node makes it, and the elements' ``next`` values
    that nodes make. The graphs of numbers, of the ``small`` inputs: ``before`` gives those that the mask needs where the condition asks, ``test`` is the condition,
    ``used`` gives those that the elements need, ``step`` the next ones and the ``truths`` that choose among tensors. ``answers``: what stands for the answer of the elements, in ``test``, or in ``step``.
    """

    def __init__(self, node: Node):
        node, self.choices, _ = chosen(node)
        self.body, self.cond = node.regions["body"], node.regions["cond"]
        _check_effects([*all_nodes(self.body), *all_nodes(self.cond)])
        self.blocks = loop_blocks.independent(node)
        if not settled(node, self.blocks):
            raise Unsupported("elements that may change when their block has ended")
        given, results = self.body.inputs, self.body.outputs
        state = range(node.kwargs["carried"])
        self.numbers = [j for j in state if small(given[j])]
        self.elements = [j for j in state if not small(given[j]) and results[j] is not given[j]]
        self.next = [results[j] for j in self.elements]
        self.mask, asked = self._mask()
        self._split(asked)
        self._test()

    def _mask(self) -> tuple[Value | None, list[Node]]:
        """(the mask, the nodes that compute it and its numbers), on the values that the body begins with."""
        asked = self.blocks.mask
        if asked is None or self.blocks.late:
            return asked, []
        names = dict(loop_blocks.passed(self.cond))
        env = _Copies(names, zip(self.cond.inputs, self.body.inputs))
        nodes = [copy_node(n, env) for n in _needed([asked], env, names)]
        return env[asked], nodes

    def _split(self, asked: list[Node]) -> None:
        """The regions and graphs of the nodes."""
        nodes = [*asked, *self.body.nodes]
        large = [n for n in nodes if not all(map(small, n.outputs))]
        made = {v for n in large for v in n.outputs}
        wanted = [] if self.mask is None else [self.mask]
        outputs = [v for v in dict.fromkeys([*wanted, *self.next]) if v in made]
        if not outputs:
            raise Unsupported("a loop that computes no elements")
        needed = _needed(outputs)
        if any(node_effects(n).may_fail for n in large if n not in needed):
            raise Unsupported("elements of which only their failing counts")
        self.region = Region([n for n in large if n in needed], outputs)
        self.small = [v for v in self.body.inputs if small(v)]
        read = [v for v in self.region.inputs if small(v) and v not in self.small]
        own = {v for n in asked for v in n.outputs}
        self.before = self._numbers_of("before", asked, [v for v in read if v in own])
        questions = self.blocks.asked if self.blocks.late else ()
        nodes = [n for n in self.body.nodes if n not in large and n not in questions]
        self.used = self._numbers_of("used", nodes, [v for v in read if v not in own])
        self.step = Graph("step")
        self.step.inputs, self.step.nodes = self.small, nodes
        self.truths = list(dict.fromkeys(t for v in self.next for t in self._truths(v)))
        self.step.outputs = [*(self.body.outputs[j] for j in self.numbers), *self.truths]

    def handed(self, v: Any) -> Any:
        """What elements are as a tensor: a part of the state, a choice (truth, then, otherwise), or None for a new one."""
        node = v.node if isinstance(v, Value) else None
        while node is not None and node not in self.choices and (node.regions or lookup(node.op).aliases):  # fmt: skip
            if node.op not in SAME_ELEMENTS or small(node.args[0]):
                raise Unsupported("elements that are a view of others")
            v = node.args[0]
            node = v.node
        if node in self.choices:
            return node.args
        return v if isinstance(v, Value) and node is None else None

    def _truths(self, v: Value) -> Iterator[Value]:
        """What chooses which tensor elements are."""
        found = self.handed(v)
        if isinstance(found, tuple):
            truth, *sides = found
            yield truth
            for side in sides:
                yield from self._truths(side)
        elif found is not None and (found not in self.body.inputs or self.body.inputs.index(found) not in self.elements):  # fmt: skip
            raise Unsupported("elements that become those of another tensor")

    def _numbers_of(self, name: str, nodes: list[Node], outputs: list[Value]) -> Graph:
        """The part of some nodes that gives ``outputs``."""
        made, needed = Graph(name), _needed(outputs)
        made.inputs, made.nodes, made.outputs = (
            self.small,
            [n for n in nodes if n in needed],
            outputs,
        )
        return made

    def _test(self) -> None:
        """The condition without what elements are asked: a value stands for that."""
        blocks = self.blocks
        self.answers = [n.outputs[0] for n in blocks.asked] if blocks.late else [Value(n.outputs[0].type) for n in blocks.asked[:1]]  # fmt: skip
        self.test = replaced(copied(self.cond), self._answered)
        self.test.inputs = [v for v in self.test.inputs if small(v)]
        self.test.nodes = [n for n in self.test.nodes if all(map(small, n.outputs))]
        for n in self.test.nodes:
            if n.regions:
                only_numbers(n)

    def _answered(self, node: Node, nodes: list[Node]) -> Sequence[Any] | None:
        asks = node.op in loop_blocks.QUESTIONS and not all(map(small, node.inputs))
        return self.answers if asks else None


class _Copies(dict[Value, Any]):
    """What stands for values while nodes are copied; what branches are given is what it is outside (``names``)."""

    def __init__(self, names: Mapping[Value, Any], known: Iterable[tuple[Value, Value]]):
        super().__init__(known)
        self.names = names

    def __missing__(self, v: Value) -> Any:
        a = self.names[v]
        return self[a] if isinstance(a, Value) else a


def _check_effects(nodes: Iterable[Node]) -> None:
    for n in nodes:
        found = node_effects(n)
        if not n.outputs or found.random or found.io or found.reads or found.writes or found.diverges:  # fmt: skip
            raise Unsupported(f"{n.op} in a loop over blocks")


def _needed(values: Iterable[Value], known: Mapping[Value, Any] = {}, names: Mapping[Value, Any] = {}) -> dict[Node, None]:  # fmt: skip
    """The nodes that compute values of those ``known``, operands first; ``names``: what branches are given."""
    found: dict[Node, None] = {}
    stack: list[tuple[Any, Node | None]] = [(v, None) for v in values]
    while stack:
        v, ready = stack.pop()
        if ready is not None:
            found[ready] = None
            continue
        v = names.get(v, v)
        node = None if v in known or not isinstance(v, Value) else v.node
        if node is not None and node not in found:
            stack.append((None, node))
            stack += [(a, None) for a in node.inputs]
    return found
