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
import sys
import threading
import types as pytypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.autograd import forward_ad

from ...errors import Location, ScopeError
from ..graph.ir import Graph, Node, Value
from ..graph.ops import MOVES
from ..graph.ordering import Written, op_effects
from ..graph.types import Type
from ..inference.infer import tensor_type
from ..inference.shapes import Meta
from . import journal, library_ops
from .code_lines import CodeSet, line_of

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


@dataclass(eq=False)
class Root:
    """What all graphs of one trace share.

    ``kept``: locations whose content before the call may stay on some path. ``created``: objects made while tracing, and where;
    ``settled``: the locations changed only by their creation. ``assigned``: the caller's storages that are written, and whether that depends
    on which of them are leaves. ``given``: the tensors of the call, ``real`` those that are captured.
    ``bases``: memory that several captured tensors share and that is written; ``flat``: the storage of all of it.
    ``made``: objects that the traced code made, and the graph that was recorded then; ``lent``: copies of the containers of the
    arguments, each with the caller's container that it stands for. ``apart``: containers from before a staged
    construct count as themselves beside those that it makes. ``gathered``: a ``.grad`` field that was None before a staged loop is
    a tensor behind it; ``iterated``: such loops are taken to have an iteration. ``alike``: a loop was taken to be what another copy of
    it is; ``alone``: none is. ``unnested``: a list of the graph did not take items that can change; ``nested``: they are taken.
    ``mixed``: see ``records``; ``draws``: numpy's random generators draw numbers when the graph runs, and ``drawn``: none does.
    ``items_written``, ``items_copied``, ``placed``: see ``inner_lists``; ``homes``: those of dicts and objects by their ids. ``looped``: the code of functions whose calls of themselves are
    loops; ``calls``: how often those that may call themselves were called; ``recursive``: of those that are graphs which call themselves, ``callees`` the ones that are being traced. ``reserved``, ``shrunk``, ``unreserved``: see ``values.reserved``.
    ``tables``, ``tabled``, ``untabled``, and ``looked_up``, the staged keys that were read: see ``values.tables``.
    ``rewritten``: locations that a staged construct writes, with what they hold, which is what it writes.
    ``grown``, ``grew`` (in an earlier trace), ``ungrown``, ``additions``, ``kinds``: lists from outside that grow by a staged condition, and what is added to them: see ``guarding.outer_lists``.
    ``laid_out``: what the code does follows from how the tensors of the call lie in memory. ``read_items``: containers that were read from lists and dicts of the graph, each time a new object, and tuples for those of arguments and staged constructs.
    """

    __tograph_opaque__ = True  # what it holds is no state of the user's

    captured: dict[int, Storage] = field(default_factory=dict)
    # Dimensions of the state of a loop that begin with a length of one.
    singles: set[tuple[Value, int]] = field(default_factory=set)
    # What was captured, with its history and version.
    outside: list[tuple[torch.Tensor, Any, int]] = field(default_factory=list)
    # The histories of those that were written, see ``writes.histories.remember``.
    before: dict[int, torch.Tensor] = field(default_factory=dict)
    assigned: dict[int, bool] = field(default_factory=dict)
    guards: list[tuple[Any, Any]] = field(default_factory=list)
    kept: set[Any] = field(default_factory=set)
    # At the outermost graph: the keys of locations that a branch changes before it raises.
    lost: set[Any] = field(default_factory=set)
    created: list[tuple[Any, Location | None]] = field(default_factory=list)
    settled: set[Any] = field(default_factory=set)
    given: Sequence[Any] = ()
    real: frozenset[int] = frozenset()
    made: dict[int, tuple[Any, FuncGraph]] = field(default_factory=dict)
    lent: list[tuple[Any, Any]] = field(default_factory=list)
    bases: frozenset[int] = frozenset()
    flat: dict[int, Storage] = field(default_factory=dict)
    apart: bool = False
    gathered: bool = False
    iterated: bool = False
    alone: bool = False
    alike: bool = False
    unnested: bool = False
    nested: bool = False
    looped: frozenset[pytypes.CodeType] = frozenset()
    recursive: frozenset[pytypes.CodeType] = frozenset()
    callees: dict[pytypes.CodeType, Any] = field(default_factory=dict)
    calls: dict[pytypes.CodeType, int] = field(default_factory=dict)
    reserved: dict[int, tuple[Any, dict[Any, Any]]] = field(default_factory=dict)
    shrunk: dict[int, Any] = field(default_factory=dict)
    unreserved: bool = False
    tables: dict[int, tuple[Any, Location | None]] = field(default_factory=dict)
    tabled: frozenset[Location | None] = frozenset()
    untabled: Exception | None = None
    rewritten: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    grown: frozenset[int] = frozenset()
    grew: frozenset[int] = frozenset()
    ungrown: Exception | None = None
    additions: dict[int, tuple[list, Any]] = field(default_factory=dict)
    kinds: dict[int, set[Any]] = field(default_factory=dict)
    read_items: dict[int, Any] = field(default_factory=dict)
    looked_up: dict[tuple[int, int], tuple[Any, Any, FuncGraph]] = field(default_factory=dict)
    items_written: list[Any] = field(default_factory=list)  # the bodies of loops, and None
    items_copied: bool = False
    placed: list[Any] = field(default_factory=list)
    mixed: bool = False
    draws: bool = False
    drawn: bool = False
    tagged: bool = False  # a tensor got an attribute, see ``control_flow.tensor_attributes``
    pointwise: Exception | None = None  # see ``control_flow.trying``
    homes: dict[int, Any] = field(default_factory=dict)
    loops: Any = None  # the ``control_flow.seeds.Memory`` of loops that stand in no loop
    keep: list[Any] = field(default_factory=list)
    before_failure: list[Any] = field(default_factory=list)
    tries: int = 0  # bodies of ``try`` that are being recorded
    raised: list[Any] = field(default_factory=list)  # see ``control_flow.raising``
    slots: dict[int, Any] = field(default_factory=dict)
    retained: list[torch.Tensor] = field(default_factory=list)  # with ``retain_grad``
    freed: dict[Any, FuncGraph] = field(default_factory=dict)  # see ``freed``
    level: int = field(default_factory=lambda: forward_ad._current_level)  # around the trace
    enabled: bool = False  # the code turned gradients on
    wrote: bool = False  # some op writes over something
    torn: dict[Any, Any] = field(default_factory=dict)  # see ``writes.torn``
    laid_out: bool = False
    writes: list[Any] = field(default_factory=list)  # see ``stale``
    written: Written = field(default_factory=weakref.WeakKeyDictionary)  # by regions: ``ordering``
    let: dict[Any, Any] = field(default_factory=dict)  # see ``stale``
    ways: dict[Value, Value] = field(default_factory=dict)  # see ``recording.ways``
    held: dict[Storage, list[Any]] = field(default_factory=dict)  # see ``writes.histories.hold``
    memory: dict[Value, Any] = field(default_factory=dict)  # what it held before a node gave this
    graphs: list[FuncGraph] = field(default_factory=list)
    earlier: list[Any] = field(default_factory=list)  # ``histories.Earlier``
    # Leaves that regions made, each with the value that stands for them.
    joined: list[Any] = field(default_factory=list)
    # By the value of a leaf that the code made: what used that before.
    leaves: dict[Value, list[Node]] = field(default_factory=dict)
    drew: torch.Tensor | None = None  # see ``drew_from``

    def drew_from(self, state: torch.Tensor) -> None:
        """What was made may have drawn from torch's default generator, which was in this state before."""
        if self.drew is None:
            self.drew = state

    def put_back_draws(self) -> None:
        """The trace begins again: what it makes is made again, and draws the same."""
        if self.drew is not None:
            torch.set_rng_state(self.drew)

    def release(self) -> None:
        """The trace is over: forget what was noted for it, the tensors that stand for values above all.

        torch holds their histories, and these hold them: what refers to such a tensor and is referred to by it is never collected.
        """
        for graph in self.graphs:
            graph.sources.clear()
            graph.reads.clear()
        for iterations in self.earlier:
            iterations.release()
        for noted in (
            self.outside, self.before, self.retained, self.freed, self.writes, self.torn, self.let, self.held, self.ways, self.before_failure, self.keep, self.tables,
            self.created, self.items_written, self.placed, self.homes, self.made, self.lent, self.reserved, self.shrunk, self.looked_up, self.read_items, self.earlier, self.leaves, self.joined,
        ):  # fmt: skip
            noted.clear()
        self.loops = None


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
        self.replaying = False  # a recorded graph runs again: reading a resource is an op too
        self.rewritten: dict[Storage, torch.Tensor] = {}  # of the caller, written by a region
        self.reads: dict[Value, list[Any]] = {}  # of variables, while it is replayed
        self.written_later: dict[Value, Value | bool] = {}  # behind what is replayed, see ``joint``
        self.torn: dict[Storage, Any] = {}  # of the caller, written with a history: ``writes.torn``
        self.hooked: list[tuple[Node, set[Value]]] = []  # see ``hooked.check``
        self.closed = self.repeats = False  # ``repeats``: the body of a loop
        self.settled = True  # of a loop: its state is known
        self.duals: set[str] = set()  # see ``symbols.duals``
        self.frees = False  # of a loop: a gradient frees what was computed before it
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
        if self.root.before_failure and not regions and (unsure or op_effects(op, tuple(args)).may_fail):  # fmt: skip
            for callback in list(self.root.before_failure):
                callback(self)
        # a gradient of the user's own is that of the whole op, as those of torch's are
        inner = bool(regions) and "gradient" not in regions
        grad = op in MOVES or inner or torch.is_grad_enabled() or library_ops.wants_gradient(op)
        node = Node(op, args, kwargs, types, regions=regions, location=user_location(), grad=grad)
        self.graph.nodes.append(node)
        if not self.differentiated and torch._C._current_autograd_node() is not None:
            self.note_gradient()
        if (grad or forward_ad._current_level >= 0) and self.sources and not op.startswith("aten."):
            CONNECT(node, self)
        return node

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
            self.known[storage] = self.emit("tg.read", source, type=source.type)
        return self.known[storage]

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
    """File and line of the innermost frame that runs the user's code."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code in USER_CODE:
            return frame.f_code.co_filename, line_of(frame)
        frame = frame.f_back
    return None
