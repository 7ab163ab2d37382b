"""Tensors that were saved for a gradient and, in a region of a node or at a time that only a run knows, written in place since.

torch keeps a version in each tensor, and raises where a gradient needs one that has another version now. A write that may happen
makes it raise while tracing. So such a write is noted (``Write``), and before a gradient is taken ``settle`` looks for
saved tensors that torch would refuse for no other reason: of those it gives the condition, and lets torch take them as they are.
Where the condition does not hold when the graph runs, that is what eager PyTorch does, and where it holds the graph raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...errors import Location
from ..graph.ir import Node, Value
from ..graph.overwritten import place_of, targets, told
from ..graph.types import BOOL
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..symbols.packing import packing
from ..symbols.symbolic import as_symbolic, same, value_of
from .freed import fields
from .rebasing import set_versions, without_history

MODIFIED = "modified by an inplace operation"
WROTE = "tg.wrote_earlier"  # asked of an input of the body of a loop, see ``control_flow.loop_histories``
_PROBE = 1 << 30  # a version that no tensor has
Flag = Value | bool


@dataclass
class Write:
    """A write of ``x``, which was at version ``before``. ``flag``: whether it happens, as a value of ``graph``; True: it does."""

    x: torch.Tensor
    before: int
    after: int
    graph: FuncGraph
    flag: Callable[[], Flag]
    location: Location | None


def bump(
    x: torch.Tensor, graph: FuncGraph, flag: Callable[[], Flag], location: Location | None
) -> None:
    """Let torch know that ``x`` may be written, and note when."""
    before = x._version
    torch.autograd.graph.increment_version(x)
    graph.root.wrote = True
    graph.root.writes.append(Write(x, before, x._version, graph, flag, location))


def one_memory(x: Any, y: torch.Tensor) -> bool:
    """Whether torch counts the writes of two tensors together."""
    if not isinstance(x, torch.Tensor):
        return False
    now = x._version
    set_versions((x,), (_PROBE,))
    found = y._version == _PROBE
    set_versions((x,), (now,))
    return found


def region_writes(node: Node, graph: FuncGraph, tensors: Sequence[Any]) -> None:
    """Note what the regions of a node that was recorded just now may write over; ``tensors`` are its arguments."""
    for place in targets(node):
        flag = partial(told, node, place, graph.graph)
        for x in (tensors[place], *graph.reads.get(node.args[place], ())):  # one memory
            if isinstance(x, torch.Tensor):
                bump(x, graph, flag, place_of(node, place))


@contextmanager
def joined(x: torch.Tensor, content: Ref, made: Value, graph: FuncGraph) -> Iterator[None]:
    """Around what makes ``x`` what the node that was recorded just now gives, ``made`` in the place of ``content``: note the write."""
    before, node = x._version, next((n for n in reversed(graph.graph.nodes) if n.regions), None)
    yield
    if node is None:  # the state of a loop, at the start of its body
        if graph.repeats:
            here = user_location()
            earlier = wrote_earlier(lambda: made, graph, here)
            graph.root.writes.append(Write(x, before, x._version, graph, earlier, here))
        return
    graph.root.memory[made] = content

    def flag() -> Flag:
        value = graph.resolve(content)
        places = [p for p in targets(node) if node.args[p] is value]
        return told(node, places[0], graph.graph) if places else True

    graph.root.writes.append(Write(x, before, x._version, graph, flag, node.location))


def wrote_earlier(
    content: Callable[[], Value], graph: FuncGraph, location: Location | None
) -> Callable[[], Value]:
    """Whether an earlier iteration of the loop, of which ``graph`` is the body, wrote over an input of the body."""
    made: list[Value] = []

    def flag() -> Value:
        if not made:
            node = Node(WROTE, (content(),), {}, [BOOL], location=location)
            graph.graph.nodes.insert(0, node)
            made.append(node.outputs[0])
        return made[0]

    return flag


def _memory(content: Ref, graph: FuncGraph) -> list[Ref]:
    """The contents that a write replaces: also those from before regions that may have left them as they were."""
    found, known = [content], graph.root.memory
    while (before := known.get(found[-1].value)) is not None and graph.within(before.graph):
        found.append(before)
    return found


def shown(target: torch.Tensor, result: torch.Tensor) -> None:
    """``result`` was written: where ``target`` is a view, it is a part of its memory until that is written again."""
    x, y, graph = as_symbolic(target), as_symbolic(result), current_graph()
    storage = x.storage_
    if not x.chain or y.ref is None or storage.ref is None or storage.derived:
        return
    # a view of all of it (``detach``) is that memory itself
    if storage.ref.value is not y.ref.value:
        graph.root.memory[storage.ref.value] = y.ref


def replaced(targets: Sequence[Any]) -> tuple[Value, ...]:
    """The contents that an in-place op is about to replace, as far as this graph has them."""
    graph, found = current_graph(), list[Value]()
    for target in targets:
        if not isinstance(target, torch.Tensor):
            continue
        x = as_symbolic(target)
        if any(view.quiet for view in x.chain[:-1]):
            continue  # a part of ``x.data``: torch goes on, most often because what was saved are other parts
        storage = x.storage_
        if storage in graph.known:
            found.append(graph.known[storage])
        elif storage.external is None and storage.argument is None:
            if storage.ref is not None and not storage.derived:
                found += [graph.resolve(ref) for ref in _memory(storage.ref, graph)]
            if not x.chain:  # in a loop, a variable may have a placeholder of its own
                found.append(value_of(x, graph))
    return tuple(dict.fromkeys(found))


@dataclass
class _Let:
    """What a node has saved and torch takes as it is: ``x`` as it was at ``version``, where that is known.

    ``flag``: whether ``x`` was written since, as the gradient that is taken now knows it.
    """

    error: str
    x: torch.Tensor | None = None
    version: int = 0
    flag: Ref | bool = True
    location: Location | None = None

    def settle(self, writes: Sequence[Write]) -> None:
        """Look for the writes since."""
        if self.x is None:
            return
        self.flag, self.location = False, None
        if self.x._version == self.version:
            return
        since = _covering(self.x, self.version, self.x._version, writes)
        flag = _any_flag(since)
        self.flag = Ref(flag, current_graph()) if isinstance(flag, Value) else flag
        self.location = since[0].location if since else None

    def refuse(self, grads: Sequence[Any]) -> None:
        """Record that the graph raises where it was written and a gradient comes: torch's own words, and the line that wrote."""
        graph, bad = current_graph(), None
        with torch.no_grad():
            for g in grads if self.flag is not False else ():
                if g is not None:
                    some = graph.emit(
                        "py.bool", value_of(as_symbolic((g != 0).any()), graph), type=BOOL
                    )
                    bad = some if bad is None else graph.emit("py.or_", bad, some, type=BOOL)
        if bad is None:
            return
        if isinstance(self.flag, Ref):
            bad = graph.emit("py.and_", graph.resolve(self.flag), bad, type=BOOL)
        said, place = self.error.partition(" Hint: ")[0], self.location
        if place is not None:
            said += f' It was written here:\n  File "{place[0]}", line {place[1]}'
        right = graph.emit("py.not", bad, type=BOOL)
        node = graph.add("tg.assert", (right, "RuntimeError", (said,)))
        node.location = place or node.location


def refuse(
    error: str, x: torch.Tensor, version: int, here: FuncGraph, grads: Sequence[Any]
) -> None:
    """Record the error of a gradient that needs ``x`` as it was at ``version``, where it was written since."""
    made = _Let(error, x, version)
    made.settle([w for w in here.root.writes if here.within(w.graph)])
    made.refuse(grads)


def settle(nodes: Iterable[Any], surely: bool) -> None:
    """Let torch take what ``nodes`` of its autograd have saved and may have been written since; the graph raises where it was.

    torch raises for what was written for sure, unless ``surely``: where a node gets zeros, they stand for what no gradient comes to.
    What torch was let take it takes ever after, so who asks again is told by what is known then.
    """
    here = current_graph()
    writes = [w for w in here.root.writes if here.within(w.graph)]
    # what a region was told that was traced and dropped is nothing here
    for node in nodes if writes or here.root.let else ():
        for name in _names(node):
            known = here.root.let.get((node, name))
            if known is not None:
                known.settle(writes)
                if known.flag is True and not surely:
                    raise RuntimeError(known.error)
                continue
            try:
                getattr(node, name)
            except RuntimeError as error:
                if MODIFIED not in str(error):
                    continue
                found = _saved(node, name, writes)
                made = _Let(str(error), *found) if found else _Let(str(error))
                made.settle(writes)
                if surely or made.flag is not True:
                    let(getattr(node, "_raw" + "_" * (name[0] != "_") + name), made.x)
                    here.root.let[node, name] = made
                    node.register_prehook(made.refuse)


def _names(node: Any) -> Sequence[str]:
    """The fields of a node that are saved tensors."""
    user = isinstance(node, torch.autograd.function.BackwardCFunction)
    return ("saved_tensors",) if user else fields(type(node))


def let(saved: Any, written: torch.Tensor | None, again: Callable[[Any], Any] = same) -> None:
    """Let torch take what was saved whatever its version is. ``again`` makes another object of it."""
    for one in saved if isinstance(saved, (list, tuple)) else [saved]:
        try:
            _pack(one, again)
        except RuntimeError:  # it was a leaf, and has a history since it was written
            if written is None or written.grad_fn is None:
                raise
            with without_history(written):
                _pack(one, again)


def _pack(saved: Any, again: Callable[[Any], Any]) -> None:
    with packing():
        # a new object each time: of one that is known elsewhere torch would make a detached one
        saved.register_hooks(lambda x: (x,), lambda packed: again(packed[0]))


def _any_flag(writes: Sequence[Write]) -> Flag:
    """Whether one of the writes happens; True where nothing is known of them."""
    flags, here = list[Value](), current_graph()
    for w in writes:
        flag = w.flag()
        if flag is True:
            return True
        assert isinstance(flag, Value)
        flags.append(here.resolve(Ref(flag, w.graph)))
    if not flags:
        return True
    total = flags[0]
    for flag in flags[1:]:
        total = here.emit("py.or_", total, flag, type=BOOL)
    return total


def _saved(node: Any, name: str, writes: Sequence[Write]) -> tuple[torch.Tensor, int] | None:
    """The tensor that a node has saved, and its version then, where that is one that was written."""
    for w in writes:
        now = w.x._version
        try:
            for version in sorted({x.before for x in writes if x.before < now}):
                set_versions((w.x,), (version,))
                if not _refused(node, name):
                    return w.x, version
        finally:
            set_versions((w.x,), (now,))
    return None


def _refused(node: Any, name: str) -> bool:
    try:
        getattr(node, name)
    except RuntimeError:
        return True
    return False


def _covering(x: torch.Tensor, version: int, now: int, writes: Sequence[Write]) -> list[Write]:
    set_versions((x,), (_PROBE,))
    same = [w for w in writes if w.x._version == _PROBE and w.after > version]
    set_versions((x,), (now,))
    return same if sum(w.after - w.before for w in same) == now - version else []
