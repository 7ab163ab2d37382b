"""Graphs being recorded: values of outer graphs, captured tensors, and the stack of open graphs.

``FuncGraph``  a graph being recorded, with its outer graph. A value of an outer graph, or a real tensor, used
               inside becomes an input of every graph on the way in: a **capture**.
               ``sources`` maps a value to the tensor that carries it in torch's autograd, where one requires grad.
``Storage``    what in-place ops change. Values of a graph never change: an in-place op computes a new base value
               for the storage, and a view is a chain of view ops that is replayed on the current base value.
               A storage is *local* (made while tracing) or *external* (an argument or a captured tensor, held by
               reference): writing an external one is a ``tg.assign`` that the caller sees.

Invariant: ``known`` of a graph holds the base value of an external storage only while nothing can have written
it since; a write in a nested graph drops the entry in every graph around it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import types
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.autograd import forward_ad

from ...errors import Location, Place, ScopeError
from ..graph.ir import Graph, Node, Value
from ..graph.ops import MOVES
from ..graph.ordering import op_effects
from ..graph.types import Type
from ..inference.infer import tensor_type
from ..inference.shapes import Meta
from . import journal, library_ops
from .code_lines import CodeSet, line_of
from .root import Root

_TORCH = os.path.dirname(torch.__file__) + os.sep
USER_CODE = CodeSet()  # code objects whose frames count as the user's lines
_versions = itertools.count(1)


def moment() -> int:
    """A number that is larger than any given before."""
    return next(_versions)


last_write = [0]  # the moment of the last write to a storage


def write_moment() -> int:
    """The version of a storage that is written now."""
    last_write[0] = next(_versions)
    return last_write[0]


@dataclass(frozen=True)
class Ref:
    """A value and the graph that it belongs to."""

    value: Value
    graph: FuncGraph


@dataclass(eq=False)
class Storage:
    """The changing content that tensors share. ``ref`` is the current base value of a local storage.

    ``derived``: the content is that of other storages, computed at each read; ``ref`` is what it was at first.
    ``twins``: the same memory with other histories, those of detached tensors which were written; ``owner``: the tensor that is all of a local
    storage that was written. ``first``: its first base value. ``listed``: where a list of the graph took the content; ``written_in``: the graph of the last write.
    ``reshaped``: whether another tensor shares this memory, or is a copy of it, follows from how the tensors of the call lie in theirs.
    """

    derived: ClassVar[bool] = False

    meta: Meta
    ref: Ref | None = None
    external: torch.Tensor | None = None
    argument: int | None = None
    version: int = 0
    home: FuncGraph | None = None
    twins: Sequence[weakref.ref[Storage]] = ()
    late: Any = None  # of a .grad that is looked up at every call: its owner, or the owner's place among the arguments
    owner: torch.Tensor | None = None
    listed: Location | None = None
    written_in: FuncGraph | None = None
    parts_: tuple[int, Sequence[Storage]] | None = None  # what ``listed.parts`` found, and when
    reshaped: bool = False
    first: Ref | None = None
    shown: bool = False  # autograd has seen a write to it

    def __post_init__(self) -> None:
        self.first = self.ref

    def computed(self, graph: FuncGraph) -> Value | None:
        """The base value of a storage that is made of others; None for all but ``control_flow.picking``'s."""
        return None

    def spread(self, graph: FuncGraph, value: Value) -> bool:
        """Write to the storages that this one is made of; False for all but ``control_flow.picking``'s."""
        return False

    def refuse_leaf(self, graph: FuncGraph, view: bool) -> None:
        """Let the graph raise where a write that autograd sees is one to a leaf, or to a ``view`` of it; only for a ``Picked``."""

    def strided(self) -> bool:
        """Whether the tensors that this storage is made of lie in memory in more than one way; False for all but a ``Picked``."""
        return False

    def unfollowed(self, x: Any, what: str) -> None:
        """``x``, which ``what`` made of this storage, may share its memory or not; asked only where it is ``strided``."""
        raise NotImplementedError

    def location(self) -> journal.Location:
        """The storage as a location: its content is the pair (base value, version)."""

        def set(content):
            self.ref = content
            self.version = write_moment()

        return journal.Location(("storage", id(self)), "a tensor", lambda: self.ref, set, self)


class FuncGraph:
    """A graph being recorded.

    ``captures`` maps each outer value or external storage to the input that stands for it, in order;
    ``arguments`` maps the same keys to the value that the next outer graph passes. ``undone``: values of nodes
    that were taken out again; what remembers one of them has to be computed anew.
    """

    __tograph_opaque__ = True

    def __init__(self, name: str, outer: FuncGraph | None = None):
        self.graph = Graph(name)
        self.outer = outer
        self.root: Root = outer.root if outer else Root()
        self.root.graphs.append(self)
        self.captures: dict[Any, Value] = {}
        self.arguments: dict[Any, Value] = {}
        self.known: dict[Storage, Value] = {}
        self.assumed: set[Any] = set()
        self.undone: set[Value] = set()
        self.numbers: dict[Any, Value] = {}  # computed from integers
        self.sources: dict[Value, torch.Tensor] = {}
        self.differentiated = False  # a gradient was taken while it was recorded
        self.searching = False  # for ops without a derivative, see ``autodiff.missing``
        self.replaying = False  # a recorded graph runs again: reading a resource is an op too
        self.rewritten: dict[Storage, torch.Tensor] = {}  # of the caller, written by a region
        self.reads: dict[Value, list[Any]] = {}  # of variables, while it is replayed
        self.written_later: dict[Value, Value | bool] = {}  # behind what is replayed, see ``joint``
        self.torn: dict[Storage, Any] = {}  # of the caller, written with a history: ``writes.torn``
        self.hooked: list[tuple[Node, set[Value]]] = []  # see ``hooked.check``
        self.closed = self.repeats = False  # ``repeats``: the body of a loop
        self.settled = True  # of a loop: its state is known
        self.duals: set[str] = set()  # see ``symbols.duals``
        self.loop: Any = None  # of a loop's body: ``proofs.LoopFacts``
        self.frees = False  # of a loop: a gradient frees what was computed before it
        self.shares = False  # of a loop: a gradient is another one in the first iteration
        self.named: set[int] = (
            set()
        )  # the ids of the tensors whose ``.grad`` code has read or changed by a name of their own
        # A tensor with a later number was made while it was recorded, or since.
        self.born = next(_versions)
        self.looking: dict[Storage, Value] | None = None  # see ``control_flow.picking``

    def __repr__(self) -> str:
        return f"<FuncGraph {self.graph.name}>"

    def within(self, other: FuncGraph) -> bool:
        """Whether this graph is ``other`` or nested in it."""
        graph: FuncGraph | None = self
        while graph is not None and graph is not other:
            graph = graph.outer
        return graph is other

    def input(self, type: Type, label: str = "") -> Value:
        value = Value(type)
        self.graph.inputs.append(value)
        self.graph.input_names.append(label)
        return value

    def add(self, op: str, args=(), kwargs=None, types: Sequence[Type] = (), regions=None, unsure=False) -> Node:  # fmt: skip
        """Append a node; all values among the arguments must be this graph's. ``unsure``: it may fail by sizes that only the run knows."""
        fails = not regions and (unsure or op_effects(op, tuple(args)).may_fail)
        for callback in list(self.root.before_failure) if fails else ():
            callback(self)
        # a gradient of the user's own is that of the whole op, as those of torch's are
        inner = bool(regions) and "gradient" not in regions
        grad = op in MOVES or inner or torch.is_grad_enabled() or library_ops.wants_gradient(op)
        place = self._calls() if fails else user_location()
        node = Node(op, args, kwargs, types, regions=regions, location=place, grad=grad)
        self.graph.nodes.append(node)
        if not self.differentiated and torch._C._current_autograd_node() is not None:
            self.note_gradient()
        if (grad or forward_ad._current_level >= 0) and self.sources and not op.startswith("aten."):
            CONNECT(node, self)
        return node

    def _calls(self) -> Place | None:
        """``user_location`` with the calls that led there, for what an error tells; nodes of one line share it."""
        frame: types.FrameType | None = sys._getframe(2)
        root, known = self.root, USER_CODE.codes
        base, calls = root.base, []
        while frame is not None and id(frame) != base:
            code = frame.f_code
            if id(code) in known:
                calls.append((code, line_of(frame)))
            frame = frame.f_back
        before = root.place
        if not calls or (before is not None and before.calls == calls):
            return before if calls else None
        users = (c for c in calls if not c[0].co_filename.startswith(_TORCH))
        code, line = next(users, calls[0])
        root.place = made = Place((code.co_filename, line))
        made.calls = calls
        return made

    def note_gradient(self) -> None:
        """A gradient is taken while this graph is recorded."""
        graph: FuncGraph | None = self
        while graph is not None:
            graph.differentiated, graph = True, graph.outer

    def emit(self, op: str, *args, type: Type, **kwargs) -> Value:
        """Append a node with one output."""
        return self.add(op, args, kwargs, (type,)).outputs[0]

    def resolve(self, ref: Ref) -> Value:
        """The value of ``ref`` as seen from here."""
        if ref.graph is self:
            return ref.value
        if ref.value not in self.captures:
            if self.outer is None or ref.graph.closed:
                raise ScopeError(
                    "a tensor is out of scope and cannot be used here: it belongs to another function, branch or loop "
                    "body. Use return values, explicit Python locals or tograph collections to access it.",
                    user_location(),
                )
            outer = self.outer.resolve(ref)
            inner = self.captures[ref.value] = self.input(outer.type)
            self.arguments[ref.value] = outer
            if outer in self.outer.sources:
                self.sources[inner] = self.outer.sources[outer]
        return self.captures[ref.value]

    def reference(self, storage: Storage) -> Value:
        """The input through which an external storage is reached."""
        if storage not in self.captures:
            kind = tensor_type(storage.meta)
            if self.outer is not None:
                self.arguments[storage] = self.outer.reference(storage)
            self.captures[storage] = self.input(kind)
        return self.captures[storage]

    def current(self, storage: Storage) -> Value:
        """The base value of a storage at this point."""
        found = storage.computed(self)
        if found is not None:
            return found
        if storage.external is None and storage.argument is None:
            assert storage.ref is not None
            return self.resolve(storage.ref)
        if storage not in self.known:
            source = self.reference(storage)
            self.known[storage] = value = self.emit("tg.read", source, type=source.type)
            if (same := self._read_around(storage)) is not None:
                self.root.reread[value] = same
        return self.known[storage]

    def _read_around(self, storage: Storage) -> Value | None:
        """What the graphs around a branch have read of a storage that nothing has written since: not a loop, nor a function, which run again."""
        graph: FuncGraph | None = self
        while graph is not None and graph.graph.name in ("then", "orelse"):
            graph = graph.outer
            if graph is not None and storage in graph.known:
                return graph.known[storage]
        return None

    def assign(self, storage: Storage, value: Value) -> None:
        """Give a storage a new base value."""
        if storage.spread(self, value):
            return
        WRITES(storage, self)
        if storage.external is None and storage.argument is None:
            storage.location().set(Ref(value, self))
            return
        self.add("tg.assign", (self.reference(storage), value))
        self.root.assigned.setdefault(id(storage), False)
        graph: FuncGraph | None = self
        while graph is not None:
            graph.known.pop(storage, None)
            graph = graph.outer
        self.known[storage] = value
        storage.version = write_moment()


def WRITES(storage: Storage, graph: FuncGraph) -> None:
    """A storage is about to be written. Set by ``listed``, which refuses some."""


def CONNECT(node: Node, graph: FuncGraph) -> None:
    """Make the outputs of a node part of torch's autograd. Set by ``autodiff``, which knows the gradients."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[FuncGraph] = []


stack = _Stack()


def current_graph() -> FuncGraph:
    """The innermost graph being recorded; ScopeError outside of a trace."""
    if not stack.graphs:
        raise ScopeError("a tensor is out of scope and cannot be used here: it belongs to the graph of a function, and has a value only where that runs. Return it from the function instead.")  # fmt: skip
    return stack.graphs[-1]


def is_tracing() -> bool:
    return bool(stack.graphs)


def user_location() -> Location | None:
    """File and line of the innermost frame that runs the user's code, which is not torch's where it can be told."""
    frame, found = sys._getframe(2), None
    known = (
        USER_CODE.codes
    )  # asked for each frame of each op: a call for each would be a tenth of the time of a trace
    while frame is not None:
        code = frame.f_code
        if id(code) in known:
            if not code.co_filename.startswith(_TORCH):
                return code.co_filename, line_of(frame)
            found = found or (code.co_filename, line_of(frame))
        frame = frame.f_back
    return found
