"""Which items of a list of the graph are leaves that the code made: a list of bools that is filled, and changed, as the list is.

Each op that gives a list has one beside it that gives its flags; a region gives them as a further output, a loop as state. Whether an item is a leaf is what
``passing.Flags`` says where it is put in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..graph.families import ALTERNATIVES, ITEM_READS
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, add_state, lead
from ..graph.types import BOOL, ListType
from ..symbols.funcgraph import FuncGraph
from .made_leaves import NotFollowed, first_of
from .passing import Flag, Flags

_LIST = ListType(BOOL)
_ITEMS = {"tg.list_push": (1,), "tg.list_set": (2,), "tg.list_insert": (2,), "tg.list_extend": (), "tg.list_slice": (), "tg.list_pop": ()}  # fmt: skip
_LISTS = {"tg.list_extend": (0, 1)}  # the arguments that are lists; of others the first


def item_flags(v: Value, graph: FuncGraph) -> Value | None:
    """The flags of the items of a list of tensors; None where none of them is a leaf, or that is not known."""
    root = graph.root
    leaves = (*root.leaves, *root.left_leaves)
    if not leaves:
        return None
    made = _ItemFlags(dict.fromkeys(leaves, True), root.starts)
    try:
        found = made.of(graph.graph, v)
    except NotFollowed:
        return None
    return found if made.some else None


def is_leaf(v: Value, graph: FuncGraph) -> Flag:
    """Whether what a node with regions gives, or a list holds, is a leaf that the code made."""
    leaves: dict[Value, Flag] = dict.fromkeys((*graph.root.leaves, *graph.root.left_leaves), True)
    made = _ItemFlags(dict(leaves), graph.root.starts)
    try:
        flag = made.leaves.of(graph.graph, v)
    except NotFollowed:
        return Flags(leaves).of(graph.graph, v)
    return Flags(leaves).of(graph.graph, v) if made.known and not made.some else flag


class _ItemFlags:
    """``known``: the flags of lists; ``around``: of a region the graph with its node; ``open``: the flags of loops' state that are looked for. ``some``: an item may be a leaf."""

    def __init__(self, leaves: dict[Value, Flag], tokens: Collection[Value]):
        self.known: dict[Value, Value] = {}
        self.around: dict[Graph, tuple[Graph, Node]] = {}
        self.leaves = _Leaves(leaves, self, tokens)
        self.open: dict[Graph, dict[int, Value]] = {}
        self.some = False

    def of(self, graph: Graph, v: Value) -> Value:
        if v not in self.known:
            self.known[v] = self._found(graph, v)
        return self.known[v]

    def _found(self, graph: Graph, v: Value) -> Value:
        node = v.node
        if node is None:
            return self._given(graph, v)
        if node.op == "While":
            return self._state(graph, node, v.index)
        if node.op in (*ALTERNATIVES, "Call") and "gradient" not in node.regions:
            return self._chosen(graph, node, v.index)
        if node.op in ("tg.list_new", "tg.list_of"):
            return _behind(graph, node, [self._flag(graph, x) for x in node.args])
        if node.op in _ITEMS:
            args = list(node.args)
            for k in _LISTS.get(node.op, (0,)):
                args[k] = self.of(graph, args[k])
            for k in _ITEMS[node.op]:
                args[k] = self._flag(graph, args[k])
            return _behind(graph, node, args, v.index)
        raise NotFollowed

    def _given(self, graph: Graph, v: Value) -> Value:
        """The flags of what a region takes."""
        if graph not in self.around:
            raise NotFollowed
        outer, node = self.around[graph]
        k = graph.inputs.index(v)
        if k < node.kwargs.get("carried", 0):
            if graph not in self.open:
                raise NotFollowed
            return self.open[graph].setdefault(k, Value(_LIST))
        flags = self.of(outer, node.args[lead(node) + k])
        return next(given for name, given in add_input(node, flags).items() if node.regions[name] is graph)  # fmt: skip

    def _chosen(self, graph: Graph, node: Node, index: int) -> Value:
        for region in node.regions.values():
            self.around[region] = graph, node
            if always_fails(region):
                found = Node("tg.list_new", (), {}, [_LIST])
                region.nodes.append(found)
                region.outputs.append(found.outputs[0])
            else:
                region.outputs.append(self.of(region, region.outputs[index]))
        node.outputs.append(Value(_LIST, node, len(node.outputs)))
        return node.outputs[-1]

    def _state(self, graph: Graph, node: Node, index: int) -> Value:
        body = node.regions["body"]
        self.around[body], self.open[body] = (graph, node), {index: Value(_LIST)}
        inner, left = self.open[body], dict[int, Value]()
        while more := inner.keys() - left.keys():
            for k in sorted(more):
                self.known[body.inputs[k]] = inner[k]
                left[k] = self.of(body, body.outputs[k])
        starts = [self.of(graph, node.args[k]) for k in left]
        ends = add_state(node, [inner[k] for k in left], list(left.values()), starts)
        self.known |= {node.outputs[k]: end for k, end in zip(left, ends)}
        return self.known[node.outputs[index]]

    def _flag(self, graph: Graph, x: Value) -> Value:
        """Whether a tensor is a leaf, as a value of its graph that is there when it is."""
        flag = self.leaves.of(graph, x)
        self.some = self.some or flag is not False
        if isinstance(flag, Value):
            return flag
        made = Node("py.constant", (flag,), {}, [BOOL])
        graph.nodes.insert(0, made)
        return made.outputs[0]


class _Leaves(Flags):
    """Which values are leaves, those that a region takes as they are around it, and those that are read from ``lists``."""

    def __init__(self, leaves: dict[Value, Flag], lists: _ItemFlags, tokens: Collection[Value]):
        super().__init__(leaves)
        self.lists, self.tokens = lists, tokens

    def found(self, graph: Graph, v: Value) -> Flag:
        for region in v.node.regions.values() if v.node is not None else ():
            self.lists.around.setdefault(region, (graph, v.node))
        if v.node is not None and v.node.op == "tg.written":
            return self._of_written(graph, *v.node.args)
        if v.node is not None and v.node.op == "tg.choose":
            return self._of_choice(graph, v.node)
        if v.node is None or v.node.op not in ITEM_READS:
            return super().found(graph, v)
        flags = self.lists.of(graph, v.node.args[0])
        return _behind(graph, v.node, [flags, *v.node.args[1:]], v.index)

    def _of_written(self, graph: Graph, old: Value, new: Value) -> Flag:
        """A write leaves a leaf one. Behind a token, the value is what it is without."""
        return self.of(graph, new if self._is_token(graph, first_of(old)) else old)

    def _of_choice(self, graph: Graph, node: Node) -> Flag:
        """A name that is one of several tensors is a leaf where that one is; the flag stands right behind the choice."""
        which, flags = node.args[0], [self.of(graph, x) for x in node.args[1]]
        if isinstance(which, int) or all(f is flags[0] for f in flags):
            return flags[which] if isinstance(which, int) else flags[0]
        at, found = graph.nodes.index(node) + 1, None
        for i, flag in enumerate(flags):
            if flag is False:
                continue
            steps = [Node("py.eq", (which, i), {}, [BOOL], location=node.location)]
            here = steps[0].outputs[0]
            for op, other in (("py.and_", flag), ("py.or_", found)):
                if isinstance(other, Value):
                    steps.append(Node(op, (here, other), {}, [BOOL], location=node.location))
                    here = steps[-1].outputs[0]
            graph.nodes[at:at], at, found = steps, at + len(steps), here
        return found

    def _is_token(self, graph: Graph, v: Value) -> bool:
        """Whether a value is one that a region takes for the history of a leaf which it makes (``made_leaves``)."""
        while v.node is None and graph in self.lists.around:
            k = graph.inputs.index(v)
            graph, node = self.lists.around[graph]
            v = node.args[lead(node) + k]
        return v in self.tokens

    def given(self, graph: Graph, v: Value) -> Flag:
        if graph not in self.lists.around:
            return False
        outer, node = self.lists.around[graph]
        k = graph.inputs.index(v)
        if k < node.kwargs.get("carried", 0):
            self.of(outer, node.outputs[k])  # which says it of the state too
            return self.known.get(v, False)
        flag = self.of(outer, node.args[lead(node) + k])
        if not isinstance(flag, Value):
            return flag
        return next(given for name, given in add_input(node, flag).items() if node.regions[name] is graph)  # fmt: skip


def _behind(graph: Graph, node: Node, args: Iterable[Value], index: int = 0) -> Value:
    """The same op of flags, right behind one of a list."""
    kinds = [_LIST if isinstance(v.type, ListType) else BOOL for v in node.outputs]
    made = Node(node.op, tuple(args), {}, kinds, location=node.location)
    graph.nodes.insert(graph.nodes.index(node) + 1, made)
    return made.outputs[index]
