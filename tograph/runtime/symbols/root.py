"""What all graphs of one trace share: facts that are found out while the code runs, each with the module that uses it.

A trace that finds an assumption wrong begins again with another ``Root``, on which the new assumption stands. When a trace is over its root is released:
tensors that stand for values refer to their graph by way of torch's histories, and would never be collected.
"""

from __future__ import annotations

import sys
import types as pytypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ...errors import Location, Place
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import Written

if TYPE_CHECKING:
    from .funcgraph import FuncGraph, Storage


@dataclass(eq=False)
class Root:
    """What all graphs of one trace share.

    ``kept``: locations whose content before the call may stay on some path. ``created``: objects made while tracing, and where;
    ``settled``: the locations changed only by their creation. ``assigned``: the caller's storages that are written, and whether that depends
    on which of them are leaves. ``given``: the tensors of the call, ``real`` those that are captured.
    ``bases``: memory that several captured tensors share and that is written; ``flat``: the storage of all of it.
    ``made``: objects that the traced code made, and the graph that was recorded then; ``lent``: copies of the containers of the
    arguments, each with the caller's container that it stands for. ``apart``: containers from before a staged
    construct count as themselves beside those that it makes; ``merged``: they do not, whatever leaves; ``doubles``: see ``control_flow.doubles``. ``gathered``: a ``.grad`` field that was None before a staged loop is
    a tensor behind it; ``iterated``: such loops are taken to have an iteration. ``alike``: a loop was taken to be what another copy of
    it is; ``alone``: none is. ``repeated``: a loop of Python's was to be staged for its length; ``spared``: how many nodes those that were staged would have else; ``straight``: none is, and in ``unstaged`` stand the bodies of those that could not be. ``unnested``: a list of the graph did not take items that can change; ``nested``: they are taken.
    ``mixed``: see ``records``; ``draws``: numpy's random generators draw numbers when the graph runs, and ``drawn``: none does.
    ``items_written``, ``items_copied``, ``placed``: see ``inner_lists``; ``homes``: those of dicts and objects by their ids. ``looped``: the code of functions whose calls of themselves are
    loops; ``calls``: how often those that may call themselves were called; ``recursive``: of those that are graphs which call themselves, ``callees`` the ones that are being traced. ``shared``: see ``Retrace``. ``reserved``, ``shrunk``, ``unreserved``: see ``values.reserved``.
    ``stepped``: the states of optimisers that were made for this trace (``traces.optimizer_state``).
    ``tables``, ``tabled``, ``untabled``, and ``looked_up``, the staged keys that were read: see ``values.tables``.
    ``rewritten``: locations that a staged construct writes, with what they hold, which is what it writes.
    ``grown``, ``grew`` (in an earlier trace), ``ungrown``, ``additions``, ``kinds``: lists from outside that grow by a staged condition, and what is added to them: see ``guarding.outer_lists``.
    ``stdout``: that of Python when the trace began; ``told``: the texts in memory that the graph prints to. ``laid_out``: what the code does follows from how the tensors of the call lie in memory. ``read_items``: containers that were read from lists and dicts of the graph, each time a new object, and tuples for those of arguments and staged constructs.
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
    told: list[Any] = field(default_factory=list)
    stdout: Any = field(default_factory=lambda: sys.stdout)
    stderr: Any = field(default_factory=lambda: sys.stderr)
    real: frozenset[int] = frozenset()
    made: dict[int, tuple[Any, FuncGraph]] = field(default_factory=dict)
    lent: list[tuple[Any, Any]] = field(default_factory=list)
    bases: frozenset[int] = frozenset()
    flat: dict[int, Storage] = field(default_factory=dict)
    apart: bool = False
    merged: bool = False
    doubles: dict[int, Any] = field(default_factory=dict)
    gathered: bool = False
    iterated: bool = False
    alone: bool = False
    alike: bool = False
    straight: bool = False
    repeated: bool = False
    spared: int = 0
    unstaged: set[pytypes.CodeType] = field(default_factory=set)
    unnested: bool = False
    nested: bool = False
    looped: frozenset[pytypes.CodeType] = frozenset()
    shared: frozenset[pytypes.CodeType] = frozenset()
    recursive: frozenset[pytypes.CodeType] = frozenset()
    stepped: frozenset[Any] = frozenset()
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
    raised: list[Any] = field(default_factory=list)  # see ``control_flow.raising``
    # The code of the bodies of ``try`` statements that were staged.
    tries: set[pytypes.CodeType | None] = field(default_factory=set)
    refusals: list[Exception] = field(default_factory=list)  # see ``asking.refusal``
    slots: dict[int, Any] = field(default_factory=dict)
    retained: list[torch.Tensor] = field(default_factory=list)  # with ``retain_grad``
    freed: dict[Any, FuncGraph] = field(default_factory=dict)  # see ``freed``
    # The graphs in which some runs have freed a history before the one that ``freed`` names.
    freed_too: dict[Any, list[FuncGraph]] = field(default_factory=dict)
    # By history and graph: the outputs by which a gradient that is taken there frees it.
    freed_outputs: dict[Any, dict[FuncGraph, set[int]]] = field(default_factory=dict)
    # Graphs and values that were recorded anew: what they were first.
    anew: dict[Any, Any] = field(default_factory=dict)
    once: dict[Any, tuple[Value, Value]] = field(
        default_factory=dict
    )  # by loop and node the item of a list by which each iteration frees another part of it
    freed_by: dict[Any, list[tuple[int, torch.Tensor]]] = field(
        default_factory=dict
    )  # in the runs in which one of these is not zero
    level: int = field(default_factory=lambda: forward_ad._current_level)  # around the trace
    enabled: bool = False  # the code turned gradients on
    wrote: bool = False  # some op writes over something
    torn: dict[Any, Any] = field(default_factory=dict)  # see ``writes.torn``
    laid_out: bool = False
    writes: list[Any] = field(default_factory=list)  # see ``stale``
    written: Written = field(default_factory=weakref.WeakKeyDictionary)  # by regions: ``ordering``
    let: dict[Any, Any] = field(default_factory=dict)  # see ``stale``
    ways: dict[Value, Value] = field(default_factory=dict)  # see ``recording.ways``
    # Of nodes of a gradient: the positions of arguments that eager PyTorch has not saved, see ``autodiff.unsaved``.
    loose: dict[Node, frozenset[int]] = field(default_factory=dict)
    held: dict[Storage, list[Any]] = field(default_factory=dict)  # see ``writes.histories.hold``
    memory: dict[Value, Any] = field(default_factory=dict)  # what it held before a node gave this
    graphs: list[FuncGraph] = field(default_factory=list)
    origin: Root | None = None  # of a graph that is replayed: that of the trace
    earlier: list[Any] = field(default_factory=list)  # ``iterations.Earlier``
    fields_named: bool = False  # what a ``.grad`` field holds may have other names
    took: bool = False  # the code takes a gradient
    # Where the first gradient was put in the ``.grad`` of a leaf that a region made, or came by a list to what may be one.
    graded_at: tuple[Any] | None = None
    wholes: dict[Any, Any] = field(default_factory=dict)  # see ``wholes``
    # Leaves that regions made, each with the value that stands for them.
    joined: list[Any] = field(default_factory=list)
    # By node and output: the tensors that stand for leaves which regions made, see ``autodiff.given_leaves``.
    tokens: dict[Node, dict[int, list[Any]]] = field(default_factory=dict)
    # Of loops, by the output: which places of the state an iteration moves such leaves between.
    moves: dict[Node, dict[int, list[Any]]] = field(default_factory=dict)
    # The leaves in the regions that the tokens stand for.
    token_leaves: dict[Node, dict[int, set[Value]]] = field(default_factory=dict)
    gives_leaf: dict[Value, Any] = field(
        default_factory=dict
    )  # by output: whether it is such a leaf
    # What staged constructs computed of leaves that they give without tokens.
    unfollowed: set[Value] = field(default_factory=set)
    unrolled: bool = False  # a loop is, see ``control_flow.unrolled``
    starts: set[Value] = field(default_factory=set)  # what loops take for the histories of leaves
    # By the value of a leaf that the code made: what used that before.
    leaves: dict[Value, list[Node]] = field(default_factory=dict)
    # What is a leaf that a region made in some runs only, and gets no gradient then.
    halves: list[torch.Tensor] = field(default_factory=list)
    frozen: list[tuple[Any, torch.Tensor]] = field(
        default_factory=list
    )  # values of tensors that were leaves, with these
    # The values of leaves that regions made, as they leave these.
    left_leaves: dict[Value, list[Node]] = field(default_factory=dict)
    parts: dict[Any, tuple[int, bool]] = field(default_factory=dict)  # see ``recording.parts``
    reread: dict[Value, Value] = field(default_factory=dict)  # of a branch: the same from around
    packed: set[Graph] = field(default_factory=set)  # where hooks got what is saved
    # By identity: whether a tensor from outside required a gradient before the code switched that, see ``switched``.
    switched: dict[int, bool] = field(default_factory=dict)
    drew: torch.Tensor | None = None  # see ``drew_from``
    place: Place | None = None  # of the node that was recorded last
    base: int = 0  # the identity of the frame that runs the function

    def is_standard(self, file: Any) -> bool:
        """Whether a file is one of the standard streams as they were when the trace began."""
        return file is self.stdout or file is self.stderr

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Ops that cannot fail, or are a callback's own, call none of ``before_failure``."""
        waiting, self.before_failure = self.before_failure, []
        try:
            yield
        finally:
            self.before_failure = waiting

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
            self.outside, self.before, self.retained, self.freed, self.freed_by, self.freed_too, self.freed_outputs, self.anew, self.once, self.writes, self.torn, self.let, self.held, self.ways, self.loose, self.before_failure, self.keep, self.tables,
            self.created, self.items_written, self.placed, self.homes, self.made, self.lent, self.reserved, self.shrunk, self.looked_up, self.read_items, self.earlier, self.leaves, self.left_leaves, self.halves, self.frozen, self.joined, self.tokens, self.token_leaves, self.unfollowed, self.moves, self.starts,
            self.packed, self.parts, self.doubles, self.reread, self.wholes,
        ):  # fmt: skip
            noted.clear()
        self.loops = None
