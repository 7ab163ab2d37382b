"""Writes of branches and loops as results: what a region writes into, it returns, and the write stands after it.

Before::

    While(%x, %v, carried=1) { ... body(%4, %5) { %6 = tg.read(%5); tg.assign(%5, %8); return %9 } }

After, with the state in the loop's own and one write after it::

    %1 = tg.read(%v)
    %2, %3 = While(%x, %1, carried=2) { ... body(%4, %5) { return %9, %8 } }
    tg.assign(%v, %3)

From the inside out, so that only the outermost graph writes. A ``Case`` becomes nested ``If``. Not there: writes in the
condition of a loop, and any write in a region that runs more than these three (``Try``).
"""

from __future__ import annotations

from ...errors import InterchangeError
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import Renaming, passed, replaced
from ..graph.types import BOOL, INT

WRITE, READ = "tg.assign", "tg.read"


def cases(graph: Graph) -> Graph:
    """``graph`` with each ``Case``, and each choice among values, as nested ``If``: the last branch takes every other index."""
    return replaced(graph, _as_ifs)


def _as_ifs(node: Node, nodes: list[Node]) -> list[Value] | None:
    """A ``Case`` or a choice as nested ``If``."""
    made = _as_case(node) if node.op == "tg.choose" and node.inputs[1:] else node
    if made.op == "Case" and len(made.regions) > 1:
        return _nested(nodes, made)
    if made is node:
        return None
    nodes.append(made)
    return made.outputs


def _as_case(node: Node) -> Node:
    """A choice among values as a Case whose branches hand one on."""
    tag, options = node.args
    given = list(dict.fromkeys(v for v in options if isinstance(v, Value)))
    kind, regions = node.outputs[0].type, {}
    for i, option in enumerate(options):
        region = regions[f"branch{i}"] = Graph(f"branch{i}")
        region.inputs = [Value(v.type) for v in given]
        if isinstance(option, Value):
            region.outputs = [region.inputs[given.index(option)]]
        else:
            region.nodes = [Node("py.constant", (option,), None, [kind], location=node.location)]
            region.outputs = list(region.nodes[0].outputs)
    return Node("Case", (tag, *given), None, [kind], regions=regions, location=node.location, grad=node.grad)  # fmt: skip


def _nested(nodes: list[Node], node: Node) -> list[Value]:
    """Append ``If(index == 0, the first branch, the others)``; its outputs."""
    index = Node("py.int", (node.args[0],), None, [INT], location=node.location)
    test = Node("py.eq", (index.outputs[0], 0), None, [BOOL], location=node.location)
    then, *others = node.regions.values()
    args, kinds = passed(node), [v.type for v in node.outputs]
    rest = others[0]
    if len(others) > 1:
        args = (*args, index.outputs[0])
        then.inputs.append(Value(INT))
        rest = Graph("others")
        rest.inputs = [Value(v.type) for v in then.inputs]
        less = Node("py.sub", (rest.inputs[-1], 1), None, [INT], location=node.location)
        regions = {f"branch{i}": g for i, g in enumerate(others)}
        inner = Node("Case", (less.outputs[0], *rest.inputs[:-1]), None, kinds, regions=regions, location=node.location)  # fmt: skip
        rest.nodes.append(less)
        rest.outputs = list(_nested(rest.nodes, inner))
    regions = {"then": then, "orelse": rest}
    made = Node("If", (test.outputs[0], *args), None, kinds, regions=regions, location=node.location, grad=node.grad)  # fmt: skip
    nodes += [index, test, made]
    return made.outputs


def states(graph: Graph, system: str) -> Graph:
    """``graph`` with all writes in its outermost nodes. Raises InterchangeError where that cannot be."""
    nodes: list[Node] = []
    for node in graph.nodes:
        for region in node.regions.values():
            states(region, system)
        nodes += _lifted(node, system) if node.regions else [node]
    graph.nodes = nodes
    return graph


def _lifted(node: Node, system: str) -> list[Node]:
    """The node without writes in its regions, with a read before and a write after it for each."""
    targets = _written(node)
    if not targets:
        return [node]
    if node.op not in ("If", "While"):
        raise InterchangeError(system, f"a write inside of {node.op}", node.location)
    if node.op == "While":
        _refuse_writes(node.regions["cond"], system)
    before, after = [], []
    first = len(node.args) - len(passed(node))
    for at in targets:
        target = node.args[first + at]
        if node.op == "While":
            before.append(Node(READ, (target,), None, (target.type,), location=node.location, grad=False))  # fmt: skip
            at = _carry(node, at, before[-1].outputs[0])
        for name, region in node.regions.items():
            if name != "cond":
                region.outputs.append(_threaded(region, region.inputs[at]))
        node.outputs.append(Value(target.type, node, len(node.outputs)))
        after.append(Node(WRITE, (target, node.outputs[-1]), None, (), location=node.location, grad=False))  # fmt: skip
    return [*before, node, *after]


def _written(node: Node) -> list[int]:
    """The places among the inputs of the regions that one of them writes into."""
    found = set()
    for region in node.regions.values():
        place = {v: i for i, v in enumerate(region.inputs)}
        found |= {place[n.args[0]] for n in region.nodes if n.op == WRITE}
    return sorted(found)


def _refuse_writes(cond: Graph, system: str) -> None:
    for node in cond.nodes:
        if node.op == WRITE:
            raise InterchangeError(system, "a write in the condition of a loop", node.location)


def _carry(node: Node, at: int, initial: Value) -> int:
    """One more state of the loop in the place of an input that stays; its place."""
    count = node.kwargs["carried"]
    args = list(node.args)
    args.pop(at)
    node.args = (*args[:count], initial, *args[count:])
    for region in node.regions.values():
        names = [*region.input_names, *[""] * (len(region.inputs) - len(region.input_names))]
        region.inputs.insert(count, region.inputs.pop(at))
        names.insert(count, names.pop(at))
        region.input_names = names
    node.kwargs["carried"] = count + 1
    return count


def _threaded(region: Graph, start: Value) -> Value:
    """Let every use of ``start`` be what was written last; what it is at the end."""
    names, nodes = Renaming(), []
    for node in region.nodes:
        if node.op == WRITE and node.args[0] is start:
            nodes.append(_cast(node, start, names.of(node.args[1])))
            names[start] = nodes[-1].outputs[0]
            continue
        names.apply(node)
        nodes.append(node)
    region.nodes = nodes
    names.outputs(region)
    return names.of(start)


def _cast(node: Node, target: Value, value: object) -> Node:
    """What a write leaves: the value in the dtype and shape of the target."""
    return Node("aten.copy.default", (target, value), None, (target.type,), location=node.location, grad=False)  # fmt: skip
