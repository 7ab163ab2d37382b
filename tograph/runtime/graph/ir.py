"""The graph: nodes in program order, values with types, regions as attributes. What nodes do beside that is in ``ordering``.

``Graph``  inputs, nodes, outputs. Nodes stand in an order that is a legal execution.
``Node``   an op name, arguments, keyword arguments, output values, control inputs and the user's line. An
           argument is a ``Value``, a constant (number, string, dtype, device, None, ...), or a list or tuple
           of these. A region (``If``, ``While``, ...) holds its graphs under ``regions``.
``Value``  one output of a node, or a graph input (``node`` is None).

Regions take all they use as inputs: nothing refers to a value of another graph.
``If(pred, *xs)``      regions then, orelse: xs -> outputs.
``While(*state, *xs)`` regions cond: state+xs -> pred, and body: state+xs -> state; ``carried`` = len(state).
``Case(index, *xs)``   regions branch0..n: xs -> outputs; an index out of range takes the last branch.
``Call(*xs)``          region function; with a gradient of its own also gradient: xs+cotangents -> cotangents of xs[wrt].
``Try(*xs)``           regions body: xs -> outputs, and handler0..n: xs -> outputs, chosen by exception type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ...errors import Location
from .types import Type

T = TypeVar("T")


def as_word(name: str) -> str:
    """A name of a graph as a part of a name in generated code: each character that has no place there is a ``_``."""
    return "".join(c if c.isalnum() else "_" for c in name)


class Value:
    """What a node computes; ``type`` is one of ``types.Type``."""

    __slots__ = ("index", "node", "type")
    __tograph_opaque__ = True  # behind it is the whole graph, and no object of the user's

    def __init__(self, type: Type, node: Node | None = None, index: int = 0):
        self.type, self.node, self.index = type, node, index

    def __repr__(self) -> str:
        return f"<value of {self.node.op if self.node else 'input'}: {self.type}>"


_NOT_LOOKED: tuple[Any, Any, list[Value]] = (None, None, [])


class Node:
    """One operation. ``grad`` is False for an op recorded while gradients were off.

    ``over``: the values whose memory it would write in eager PyTorch, for an in-place op: there a gradient that has saved one of
    them raises (``autodiff.replay``). ``unsure``: the sizes that only the run knows may not fit, or the file of a print may raise.
    """

    __slots__ = ("_found", "args", "control_inputs", "grad", "kwargs", "location", "op", "outputs", "over", "regions", "told", "unsure")  # fmt: skip

    def __init__(
        self,
        op: str,
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
        types: Iterable[Type] = (),
        *,
        regions: dict[str, Graph] | None = None,
        location: Location | None = None,
        grad: bool = True,
    ):
        self.op, self.args = op, tuple(args)
        self.kwargs: dict[str, Any] = dict(kwargs) if kwargs else {}
        self.regions: dict[str, Graph] = dict(regions) if regions else {}
        self.outputs = [Value(t, self, i) for i, t in enumerate(types)]
        self.control_inputs: list[Node] = []
        self.location, self.grad, self.unsure = location, grad, False
        self.over: tuple[Value, ...] = ()
        self.told: dict[int, Value] | None = None  # see ``overwritten``
        self._found = _NOT_LOOKED

    @property
    def inputs(self) -> list[Value]:
        """All values among the arguments, in order, repeated when used twice. Not to be changed: other arguments are a new tuple."""
        args, kwargs, found = self._found
        if args is not self.args or kwargs is not self.kwargs:
            found = []
            _collect(self.args, found)
            if self.kwargs:
                _collect(self.kwargs.values(), found)
            self._found = self.args, self.kwargs, found
        return found

    def replace_inputs(self, substitute: Callable[[Value], Value]) -> None:
        """Put ``substitute(v)``, asked once for each, in the place of every value among the arguments."""
        found = {v: substitute(v) for v in dict.fromkeys(self.inputs)}
        if all(new is v for v, new in found.items()):
            return
        if self.over:
            over = (found.get(v, v) for v in self.over)
            self.over = tuple(v for v in over if isinstance(v, Value))
        self.args = map_values(found.__getitem__, self.args)
        self.kwargs = map_values(found.__getitem__, self.kwargs)

    def __repr__(self) -> str:
        return f"<node {self.op}>"


class Graph:
    """A function from inputs to outputs. ``name`` is shown; ``input_names`` label the inputs."""

    # Set by ``concrete``: nothing here may know how graphs are drawn.
    _repr_html_: Callable[[Graph], str]

    def __init__(self, name: str = "main"):
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.input_names: list[str] = []
        self.over: tuple[Value, ...] = ()  # what is written after the last node, see ``Node.over``

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.nodes)} nodes>"


def all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of the regions in it, each before those of its regions."""
    around: list[
        Iterator[Node]
    ] = []  # what is left of the graphs around, outermost first: regions may be deep
    level = iter(graph.nodes)
    while True:
        for node in level:
            yield node
            if node.regions:
                around.append(level)
                level = (n for region in node.regions.values() for n in region.nodes)
                break
        else:
            if not around:
                return
            level = around.pop()


def nesting(graph: Graph) -> int:
    """How many regions stand in each other, with the graph itself."""
    levels, here = 0, [graph]
    while here:
        here = [r for g in here for n in g.nodes for r in n.regions.values()]
        levels += 1
    return levels


def all_values(graph: Graph) -> Iterator[Value]:
    """The inputs of a graph and of the regions in it, and what their nodes compute."""
    yield from graph.inputs
    for node in graph.nodes:
        yield from node.outputs
        for region in node.regions.values():
            yield from all_values(region)


def _collect(items: Iterable[Any], found: list[Value]) -> None:
    """Append the values among arguments: a list is built faster than a generator runs, and passes ask often."""
    for x in items:
        if type(x) is Value:
            found.append(x)
        elif isinstance(x, (list, tuple)):
            _collect(x, found)
        elif isinstance(x, dict):
            _collect(x.values(), found)


def values_in(tree: Any) -> Iterator[Value]:
    """The values among arguments, in order."""
    return items_in(tree, Value)


def items_in(tree: Any, kind: type[T] | tuple[type, ...]) -> Iterator[T]:
    """What is of a kind among nested arguments, in order."""
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from items_in(item, kind)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from items_in(item, kind)


_SIMPLE = frozenset({bool, float, int, str, type(None)})


def map_values(function: Callable[[Value], Any], tree: Any) -> Any:
    """``tree`` with every value replaced by ``function(value)``."""
    kind = type(tree)
    if kind is Value:
        return function(tree)
    if kind is tuple:  # all arguments of a node are one: what most of them are is not asked again
        return tuple([function(t) if type(t) is Value else t if type(t) in _SIMPLE else map_values(function, t) for t in tree])  # fmt: skip
    if isinstance(tree, list):
        return [map_values(function, t) for t in tree]
    if isinstance(tree, tuple):
        return tuple(map_values(function, t) for t in tree)
    if isinstance(tree, dict):
        return {k: map_values(function, t) for k, t in tree.items()}
    return tree
