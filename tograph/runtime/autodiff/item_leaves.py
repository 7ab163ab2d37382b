"""Which items of a list of the graph are leaves that the code made: a list of bools or codes that is filled, and changed, as the list is.

Each op that gives a list has one beside it that gives its flags; a region gives them as a further output, a loop as state. Whether an item is a leaf is what
``passing.Flags`` says where it is put in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...errors import GradientError
from ..graph.families import ALTERNATIVES, ITEM_READS
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, add_state, lead
from ..graph.types import BOOL, INT, ListType, TensorType, Type
from ..symbols.funcgraph import FuncGraph
from .made_leaves import NotFollowed, first_of
from .own_leaves import OwnLeaves
from .passing import Flag, Flags

_ITEMS = {"tg.list_push": (1,), "tg.list_set": (2,), "tg.list_insert": (2,), "tg.list_extend": (), "tg.list_slice": (), "tg.list_pop": ()}  # fmt: skip
_LISTS = {"tg.list_extend": (0, 1)}  # the arguments that are lists; of others the first


NEW, FROZEN = -1, -2  # what is said of a leaf that a region made, and of one that was frozen there


def item_codes(v: Value, graph: FuncGraph, own: OwnLeaves) -> Value | None:
    """What the items of a list of tensors are: 0 of what is no leaf, the place, from 1 on, of one of ``own.tensors``, ``NEW`` of another one that the code made, ``FROZEN`` of one that requires no gradient any more.

    None where none of them is a leaf, or that is not known.
    """
    for beside in (False, True):
        made = _coded(graph, own)
        try:
            if (
                beside
            ):  # what of a list is put into it again, as state of a loop around, is asked for first
                made.beside(graph.graph, v)
            found = made.of(graph.graph, v)
        except NotFollowed:
            continue
        if made.fresh and graph.root.graded_at is not None:
            raise GradientError(_GRADED, *graph.root.graded_at)
        return found if made.some else None
    return None


_GRADED = (
    "a list whose length depends on data leaves the function with leaves that a staged branch or loop made, and a gradient may have been put in their .grad: which of them "
    "has which is not followed. Put w.detach() in the list, or take the gradient with torch.autograd.grad."
)


def item_code(v: Value, graph: FuncGraph, own: OwnLeaves) -> Flag:
    """The same of a tensor that may be an item of a list; 0 of any other one."""
    if not (own.tensors and own.reads_items):
        return 0
    return _code(v, graph, _coded(graph, own))


def passed_code(v: Value, graph: FuncGraph, own: OwnLeaves) -> Flag:
    """Which of ``own.passed`` a tensor is that may be an item of a list, from 1 on; 0 of any other one."""
    codes: dict[Value, Flag] = {x: place for place, x in enumerate(own.passed, 1)}
    return _code(v, graph, _ItemFlags(codes, (), INT)) if codes else 0


def _code(v: Value, graph: FuncGraph, made: _ItemFlags) -> Flag:
    try:
        found = made.leaves.of(graph.graph, v)
    except NotFollowed:
        return 0
    return found if made.some else 0


def _coded(graph: FuncGraph, own: OwnLeaves) -> _ItemFlags:
    places = {id(x): i + 1 for i, x in enumerate(own.tensors)}
    codes: dict[Value, Flag] = dict.fromkeys(own.leaves, NEW)
    codes |= dict.fromkeys((value for value, _ in own.frozen), FROZEN)
    for value, x in (
        *own.sources,
        *own.frozen,
    ):  # regions have values of their own for what is around them
        if id(x) in places:
            codes[value] = places[id(x)]
    return _ItemFlags(codes, graph.root.starts, INT)


def is_leaf(v: Value, graph: FuncGraph) -> Flag:
    """Whether what a node with regions gives, or a list holds, is a leaf that the code made."""
    leaves: dict[Value, Flag] = dict.fromkeys((*graph.root.leaves, *graph.root.left_leaves), True)
    made = _ItemFlags(dict(leaves), graph.root.starts, BOOL)
    try:
        flag = made.leaves.of(graph.graph, v)
    except NotFollowed:
        return Flags(leaves).of(graph.graph, v)
    return Flags(leaves).of(graph.graph, v) if made.known and not made.some else flag


class _ItemFlags:
    """``kind``: of flags, bools or codes. ``known``: the flags of lists; ``around``: of a region the graph with its node; ``open``: the flags of loops' state that are looked for. ``some``: an item may be a leaf; ``fresh``: it may be one that a region made."""

    def __init__(self, leaves: dict[Value, Flag], tokens: Collection[Value], kind: Type):
        self.kind, self.list = kind, ListType(kind)
        self.known: dict[Value, Value] = {}
        self.around: dict[Graph, tuple[Graph, Node]] = {}
        self.leaves = _Leaves(leaves, self, tokens)
        self.open: dict[Graph, dict[int, Value]] = {}
        self.some = self.fresh = False

    def of(self, graph: Graph, v: Value) -> Value:
        if v not in self.known:
            self.known[v] = self._found(graph, v)
        return self.known[v]

    def beside(self, graph: Graph, v: Value) -> None:
        """Find which of the tensors are leaves that a loop gives beside a list."""
        for x in v.node.outputs if v.node is not None and v.node.op == "While" else ():
            if isinstance(x.type, TensorType):
                self.leaves.of(graph, x)

    def _found(self, graph: Graph, v: Value) -> Value:
        node = v.node
        if node is None:
            return self._given(graph, v)
        if node.op == "While":
            return self._state(graph, node, v.index)
        if node.op in (*ALTERNATIVES, "Call") and "gradient" not in node.regions:
            return self._chosen(graph, node, v.index)
        if node.op in ("tg.list_new", "tg.list_of"):
            return _behind(graph, node, [self._flag(graph, x) for x in node.args], self.kind)
        if node.op in _ITEMS:
            args = list(node.args)
            for k in _LISTS.get(node.op, (0,)):
                args[k] = self.of(graph, args[k])
            for k in _ITEMS[node.op]:
                args[k] = self._flag(graph, args[k])
            return _behind(graph, node, args, self.kind, v.index)
        raise NotFollowed

    def _given(self, graph: Graph, v: Value) -> Value:
        """The flags of what a region takes."""
        if graph not in self.around:
            raise NotFollowed
        outer, node = self.around[graph]
        k = graph.inputs.index(v)
        if k < node.kwargs.get("carried", 0):
            if graph in self.open:
                return self.open[graph].setdefault(k, Value(self.list))
            self.of(outer, node.args[k])  # loops around it come first
            if v not in self.known:
                self.of(outer, node.outputs[k])  # which says it of the state too
            return self.known[v]
        flags = self.of(outer, node.args[lead(node) + k])
        return next(given for name, given in add_input(node, flags).items() if node.regions[name] is graph)  # fmt: skip

    def _chosen(self, graph: Graph, node: Node, index: int) -> Value:
        found = []
        for region in node.regions.values():
            self.around[region] = graph, node
            if always_fails(region):
                region.nodes.append(Node("tg.list_new", (), {}, [self.list]))
                found.append(region.nodes[-1].outputs[0])
            else:
                found.append(self.of(region, region.outputs[index]))
        for region, flags in zip(node.regions.values(), found):  # which may have got others since
            region.outputs.append(flags)
        node.outputs.append(Value(self.list, node, len(node.outputs)))
        return node.outputs[-1]

    def _state(self, graph: Graph, node: Node, index: int) -> Value:
        body = node.regions["body"]
        if body in self.open:
            raise NotFollowed
        self.around[body], self.open[body] = (graph, node), {index: Value(self.list)}
        inner, left = self.open[body], dict[int, Value]()
        while more := inner.keys() - left.keys():
            for k in sorted(more):
                self.known[body.inputs[k]] = inner[k]
                left[k] = self.of(body, body.outputs[k])
        del self.open[body]
        starts = [self.of(graph, node.args[k]) for k in left]
        ends = add_state(node, [inner[k] for k in left], list(left.values()), starts)
        self.known |= {node.outputs[k]: end for k, end in zip(left, ends)}
        return self.known[node.outputs[index]]

    def _flag(self, graph: Graph, x: Value) -> Value:
        """Whether a tensor is a leaf, as a value of its graph that is there when it is."""
        flag = self.leaves.of(graph, x)
        self.some = self.some or flag != self.leaves.none
        self.fresh = self.fresh or flag in (NEW, FROZEN) or (isinstance(flag, Value) and self.leaves.any_new)  # fmt: skip
        if isinstance(flag, Value):
            return flag
        made = Node("py.constant", (flag,), {}, [self.kind])
        graph.nodes.insert(0, made)
        return made.outputs[0]


class _Leaves(Flags):
    """Which values are leaves, those that a region takes as they are around it, and those that are read from ``lists``."""

    def __init__(self, leaves: dict[Value, Flag], lists: _ItemFlags, tokens: Collection[Value]):
        # What a node with regions gives is followed through these, where it is not asked for as the one tensor that it is behind the node.
        self.given_by = {v: flag for v, flag in leaves.items() if v.node and v.node.regions}
        super().__init__({v: flag for v, flag in leaves.items() if v not in self.given_by})
        self.lists, self.tokens = lists, tokens
        self.any_new = NEW in leaves.values() or FROZEN in leaves.values()
        self.kind, self.none = lists.kind, False if lists.kind == BOOL else 0

    def of(self, graph: Graph, v: Value) -> Flag:
        return self.given_by[v] if v in self.given_by else super().of(graph, v)

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
        return _behind(graph, v.node, [flags, *v.node.args[1:]], self.kind, v.index)

    def _own(self, region: Graph) -> bool:
        return super()._own(region) or any(n.op in ITEM_READS for n in all_nodes(region))

    def _of_written(self, graph: Graph, old: Value, new: Value) -> Flag:
        """A write leaves a leaf one. Behind a token, the value is what it is without."""
        return self.of(graph, new if self._is_token(graph, first_of(old)) else old)

    def _of_choice(self, graph: Graph, node: Node) -> Flag:
        """A name that is one of several tensors is a leaf where that one is; the flag stands right behind the choice."""
        which, flags = node.args[0], [self.of(graph, x) for x in node.args[1]]
        if isinstance(which, int) or all(f is flags[0] for f in flags):
            return flags[which] if isinstance(which, int) else flags[0]
        at, values = graph.nodes.index(node) + 1, list[Value]()
        made = [Node("tg.choose", (which, values), {}, [self.kind], location=node.location)]
        for flag in flags:
            if not isinstance(flag, Value):
                known = Node("py.constant", (flag,), {}, [self.kind], location=node.location)
                made.insert(0, known)
                flag = known.outputs[0]
            values.append(flag)
        graph.nodes[at:at] = made
        return made[-1].outputs[0]

    def _is_token(self, graph: Graph, v: Value) -> bool:
        """Whether a value is one that a region takes for the history of a leaf which it makes (``made_leaves``)."""
        while v.node is None and graph in self.lists.around:
            k = graph.inputs.index(v)
            graph, node = self.lists.around[graph]
            v = node.args[lead(node) + k]
        return v in self.tokens

    def given(self, graph: Graph, v: Value) -> Flag:
        if graph not in self.lists.around:
            return self.none
        outer, node = self.lists.around[graph]
        k = graph.inputs.index(v)
        if k < node.kwargs.get("carried", 0):
            super().of(outer, node.outputs[k])  # which says it of the state too
            return self.known.get(v, self.none)
        flag = self.of(outer, node.args[lead(node) + k])
        if not isinstance(flag, Value):
            return flag
        return next(given for name, given in add_input(node, flag).items() if node.regions[name] is graph)  # fmt: skip


def _behind(graph: Graph, node: Node, args: Iterable[Value], kind: Type, index: int = 0) -> Value:
    """The same op of flags, right behind one of a list."""
    kinds = [ListType(kind) if isinstance(v.type, ListType) else kind for v in node.outputs]
    made = Node(node.op, tuple(args), {}, kinds, location=node.location)
    graph.nodes.insert(graph.nodes.index(node) + 1, made)
    return made.outputs[index]
