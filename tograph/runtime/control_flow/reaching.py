"""Which tensors from outside of a loop each tensor in its state may have been computed from.

A trace of the body says it for one iteration: by the tensors themselves, and by state of the iteration before. What is not told may be computed from
all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import SymTensor
from ..writes import iterations
from ..writes.edges import edge

Name = tuple[Any, int]
Reached = frozenset[Any] | None  # keys of tensors, and names of state; None: not known


def key_of(x: torch.Tensor) -> Any:
    """What is the same for objects that are one tensor, or have one value."""
    if not isinstance(x, SymTensor):
        return id(x)
    return id(x.storage_)


def identity(x: torch.Tensor) -> Any:
    """Which tensor this is: objects that show the same storage in the same way are one."""
    if not isinstance(x, SymTensor):
        return id(x)
    return id(x.storage_), tuple(map(_step, x.chain))


def _step(view: Any) -> Any:
    return view.func, view.index, *map(_constant, (*view.args, *view.kwargs.items()))


def _constant(x: Any) -> Any:
    """A constant, or a number from outside of the loop, as something that is equal where it is; of a number that each trace of the body has anew its type."""
    if isinstance(x, (list, tuple)):
        return tuple(map(_constant, x))
    if type(x) in (int, float, bool, str, type(None)):
        return type(x), x
    ref, graph = getattr(getattr(x, "node", None), "ref", None), current_graph()
    while ref is not None and graph is not None:
        if ref.graph is graph:
            return id(ref.value)
        graph = graph.outer
    return type(x)


class Reaching:
    """``outside``: the tensors; ``told``: of state what an iteration computes it from."""

    def __init__(self, outside: Sequence[torch.Tensor], told: Mapping[Name, Reached]):
        self.keys, self.told = [key_of(x) for x in outside], told

    def of(self, names: Iterable[Name | None]) -> list[bool]:
        """For each of the tensors, whether state may be computed from it."""
        todo, seen = list(names), set[Any]()
        while todo:
            name = todo.pop()
            found = None if name is None else self.told.get(name)
            if found is None:
                return [True] * len(self.keys)
            more = found - seen
            seen |= more
            todo += [n for n in more if isinstance(n, tuple)]
        return [key in seen for key in self.keys]


def told(named: Iterable[tuple[Name, torch.Tensor]], outside: Sequence[torch.Tensor], earlier: iterations.Earlier) -> dict[Name, Reached]:  # fmt: skip
    """What an iteration computed tensors of its state from."""
    edges = {edge(x): key_of(x) for x in outside if x.grad_fn is not None}
    leaves = {key_of(x) for x in outside if x.grad_fn is None}
    before = set(iterations.behind(outside))
    return {name: _walk(x, edges, leaves, before, earlier) for name, x in named}


def _walk(x: torch.Tensor, edges: Mapping[Any, Any], leaves: set[Any], before: set[Any], earlier: iterations.Earlier) -> Reached:  # fmt: skip
    found, seen = set[Any](), set[Any]()
    if x.grad_fn is None:
        return frozenset([key_of(x)] if x.requires_grad else [])
    todo = [(x.grad_fn, x.output_nr)]
    while todo:
        edge = todo.pop()
        node = edge[0]
        if node is None or edge in seen:
            continue
        seen.add(edge)
        if edge in edges:
            found.add(edges[edge])
            continue
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.add(key_of(leaf))
        if node in before and (leaf is None or key_of(leaf) not in leaves):
            return None  # by way of what came before the loop, and is none of the tensors
        if getattr(node, "earlier", None) is earlier:
            name = iterations.name_of(node)
            if name is None:
                return None
            found.add(name)
            continue
        todo += [(n, i) for n, i in node.next_functions]
    return frozenset(found)


class Surely:
    """Which of the tensors outside state was computed from in any run, whatever the number of iterations and the ways through these.

    ``entries``: of each name the key of the tensor that it is before the loop; ``steps``: what an iteration surely computes it from.
    """

    def __init__(self, outside: Sequence[torch.Tensor], entries: Mapping[Name, Any], steps: Mapping[Name, frozenset[Any]]):  # fmt: skip
        self.keys = [key_of(x) for x in outside]
        self.found = {(name, key) for name, key in entries.items() if key in self.keys}
        while out := {p for p in self.found if not self._stays(*p, steps)}:
            self.found -= out

    def _stays(self, name: Name, key: Any, steps: Mapping[Name, frozenset[Any]]) -> bool:
        step = steps.get(name, frozenset())
        return key in step or any((n, key) in self.found for n in step if isinstance(n, tuple))

    def of(self, name: Name, k: int) -> bool:
        """Whether that of a name is computed from the ``k``-th tensor."""
        return (name, self.keys[k]) in self.found


def surely(x: torch.Tensor, outside: Sequence[torch.Tensor], earlier: iterations.Earlier) -> frozenset[Any]:  # fmt: skip
    """What an iteration computes a tensor of its state from in any run: keys of tensors outside, and names."""
    if x.grad_fn is None:
        return frozenset([key_of(x)] if x.requires_grad else [])
    edges = {edge(y): key_of(y) for y in outside if y.grad_fn is not None}
    found, todo = set[Any](), [(x.grad_fn, x.output_nr)]
    seen = set(todo)
    while todo:
        node, output = todo.pop()
        if (node, output) in edges:
            found.add(edges[node, output])
        elif (leaf := getattr(node, "variable", None)) is not None:
            found.add(key_of(leaf))
        elif getattr(node, "earlier", None) is earlier:
            found.add(iterations.name_of(node))
        else:
            following = enumerate(node.next_functions)
            new = {e for k, e in following if e[0] is not None and iterations.SURELY(node, output, k)}  # fmt: skip
            todo += new - seen
            seen |= new
    return frozenset(found)


def dependent(found: Sequence[tuple[Name, torch.Tensor]], before: Sequence[Any]) -> set[tuple[Name, Name]]:  # fmt: skip
    """Which of the tensors ``found`` in a state were computed from which others, or are these. ``before``: what stood for the state of the iterations before."""
    computed = {x.grad_fn for x in before if not iterations.is_leaf(x)}
    of_before = {x.grad_fn for x in before}
    made: set[tuple[Name, Name]] = set()
    for name, x in found:
        made |= {(name, other) for other, y in found if name != other and _edge(x) == _edge(y)}
        if x.grad_fn is None:
            continue
        nodes = iterations.behind([x])
        edges = _edges(nodes)
        for other, y in found:
            if _edge(y) == _edge(x):
                continue
            direct = _edge(y) in edges
            inside = hasattr(y.grad_fn, "call") and y.grad_fn in nodes
            if direct or inside or (y.grad_fn in of_before and not computed.isdisjoint(nodes)):
                made.add((name, other))
    return made


def _edges(nodes: Iterable[Any]) -> set[Any]:
    """The values that nodes computed something from."""
    found, leaves = set[Any](), list[Any]()
    for node in nodes:
        found.update(node.next_functions)
        leaves += [v for v in [getattr(node, "variable", None)] if v is not None]
    tokens = {v.token_ for v in leaves if getattr(v, "token_", None) is not None}
    joined = current_graph().root.joined if tokens else ()
    # What a construct computed of a leaf that it gives has the history of a token.
    found.update(id(x) for x, v in joined if (v.node, v.index) in tokens)
    return found | set(map(id, leaves))


def _edge(x: torch.Tensor) -> Any:
    return id(x) if x.grad_fn is None else (x.grad_fn, x.output_nr)
