"""``.grad`` while a function is traced.

The gradient field of a leaf is a ``Slot``: what code reads and writes while tracing is the slot, never the field of the real
tensor. A slot is a location like any other, so a write under a staged branch or loop becomes state, and at the end of the
trace its content becomes an effect: every call leaves ``.grad`` as eager would.

A tensor that a ``.grad`` field holds at the call is an input of the graph that is looked up at every call, through its
owner, so that gradients that are replaced between calls do not trace anew. Whether a field that the trace read is None is a guard.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from ..inference.infer import meta_of
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, is_tracing
from ..symbols.journal import MISSING, Location
from ..symbols.root import Root
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor, found_outside
from ..values.structure import TaggedUnion, is_union
from ..writes import iterations
from . import outer_gradients

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Slot:
    """The gradient field of ``owner``; ``real`` is the tensor that the function was called with, or ``owner`` itself.

    ``stands``: what it is now is not what the leaf's gradient is (``standing``).
    The content is MISSING while it is what the field held before the call, where that was None when the function was traced: a run that
    leaves it so does not write the field, whatever it holds then.
    """

    def __init__(self, owner: torch.Tensor, root: Root):
        self.owner = owner
        self.real = _real(owner)
        self.was_read = self.stands = False
        self.summed: list[
            Storage
        ] = []  # the memory of gradients that others were added to in place
        self.start: Any = None if isinstance(self.real, SymTensor) else self.real.grad
        self.content = MISSING if self.start is None and self.outside else self.start
        if self.start is not None:
            storage = Storage(meta_of(self.start), external=self.start, late=self.late)
            root.captured[id(self.start)] = storage
            root.keep.append(self.start)

    @property
    def late(self) -> Any:
        """How a call finds the owner: the position of an argument, or the tensor."""
        return self.owner.storage_.argument if isinstance(self.owner, SymTensor) else self.owner

    @property
    def graded(self) -> bool:
        """Whether there may be a gradient."""
        return self.content is not None and self.content is not MISSING

    def location(self) -> Location:
        def set(content: Any) -> None:
            self.content = content

        return Location(("grad", id(self.owner)), "a gradient", lambda: self.content, set, self)

    @property
    def outside(self) -> bool:
        """Whether the owner was there before the function ran."""
        return not isinstance(self.real, SymTensor)


def _real(owner: torch.Tensor) -> torch.Tensor:
    if not isinstance(owner, SymTensor):
        return owner
    known = owner.__dict__.get("real_")
    return known if known is not None else owner if owner.caller_ is None else owner.caller_


def slot(owner: torch.Tensor) -> Slot:
    root = current_graph().root
    if id(owner) not in root.slots:
        if not isinstance(owner, SymTensor):
            found_outside(owner, root)
        root.slots[id(owner)] = Slot(owner, root)
        root.keep.append(owner)
    return root.slots[id(owner)]


def read(owner: torch.Tensor) -> Any:
    """``owner.grad``"""
    if not is_tracing():
        return owner.grad
    known = current_graph().root.slots.get(id(owner))
    if known is not None and known.stands:
        return known.content
    _asked(owner)
    _note_names(sys._getframe(1))
    return _read(owner)


def _note_names(frame: FrameType | None) -> None:
    """The code reads or writes a field, in this frame or one around it: what the field holds may have other names. Torch's own code keeps none."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None or not frame.f_code.co_filename.startswith(_TORCH):
        current_graph().root.fields_named = True


def _read(owner: torch.Tensor, named: bool = True) -> Any:
    if _is_by_leaf(owner):
        return _by(HELD(owner), owner, lambda x: _read(x, False), own)
    if named:
        note_named([owner])
    return by_leaf(owner, lambda x: _read(x, named), own)


def note_named(owners: Iterable[torch.Tensor]) -> None:
    """The fields of tensors from before a loop are read or changed in its body otherwise than by the loop's state."""
    found = {id(x) for x in owners if not iterations.is_state(x.grad_fn)}
    graph: FuncGraph | None = current_graph()
    while graph is not None:
        graph.named |= found
        graph = graph.outer


def _is_by_leaf(owner: torch.Tensor) -> bool:
    return iterations.is_by_leaf(owner) or bool(SHARED(owner))


def _asked(owner: torch.Tensor) -> None:
    """A field is read or written: of the state of a loop, it may be that of what earlier iterations made."""
    if type(owner) is SymTensor and not owner.given_:
        current_graph().note_gradient()


def by_leaf(owner: Any, of_other: Callable[[Any], Any], of_own: Callable[[Any], Any]) -> Any:
    """What ``of_other`` gives of the leaf that a tensor is in a run, ``of_own`` where it is none from before the construct that gives it."""
    stands = STANDS_FOR(owner) if isinstance(owner, SymTensor) else ()
    return _by(stands, owner, of_other, of_own)


def _by(
    stands: Sequence[tuple[Any, Any]],
    owner: Any,
    of_other: Callable[[Any], Any],
    of_own: Callable[[Any], Any],
) -> Any:
    if not stands:
        return of_own(owner)
    *others, (leaf, flag) = stands
    test = scalar(current_graph().resolve(flag), current_graph())
    return outer_gradients.EITHER(
        test, lambda: of_other(leaf), lambda: _by(others, owner, of_other, of_own)
    )


def STANDS_FOR(owner: Any) -> Sequence[tuple[Any, Any]]:
    """The leaves that a tensor which a staged construct gives may be, each with the value that says whether it is. Set by ``autodiff``."""
    return ()


def HELD(owner: Any) -> Sequence[tuple[Any, Any]]:
    """The leaves from before its loop that state may be, and other state that is the same tensor, each with the value that says whether it is. Set by ``control_flow``."""
    return ()


def SHARED(owner: Any) -> Sequence[tuple[Any, Any]]:
    """Other state of a loop that is the same tensor of an earlier iteration, with the value that says whether it is. Set by ``control_flow``."""
    return ()


def by_state(owner: Any, of_other: Callable[[Any], Any], of_own: Callable[[Any], Any]) -> Any:
    """What ``of_other`` gives of the state that holds the field of what an earlier iteration made."""
    return _by(SHARED(owner), owner, of_other, of_own)


def IS_MADE(owner: Any) -> Any:
    """Whether a tensor that a staged construct gives, with a history on some path, is a leaf that it made: False, or the value that says it. Set by ``autodiff``."""
    return False


def GIVES_LEAF(owner: Any) -> bool:
    """Whether a tensor that a staged construct gives may be a leaf that its regions made. Set by ``autodiff``."""
    return True


def left(x: Any) -> Any:
    """What a call leaves in the ``.grad`` of a leaf that the code made."""

    def content(y: Any) -> Any:
        if current_graph().root.took and isinstance(y, SymTensor) and GIVES_LEAF(y):
            iterations.check_graded(y)
        known = current_graph().root.slots.get(id(y))
        return None if known is None else known.content

    return by_leaf(x, left, content) if _have_fields(STANDS_FOR(x)) else content(x)


def _have_fields(stands: Sequence[tuple[Any, Any]]) -> bool:
    """Whether the trace knows the field of one of some tensors, or of one that these may be."""
    slots = current_graph().root.slots
    return any(id(y) in slots or (isinstance(y, SymTensor) and _have_fields(STANDS_FOR(y))) for y, _ in stands)  # fmt: skip


def own(owner: torch.Tensor) -> Any:
    """``owner.grad`` of a tensor that is no other one."""
    if not iterations.is_followed(owner):
        iterations.check_graded(owner, bool(SHARED(owner)))
    return _content(slot(owner))


def _content(found: Slot) -> Any:
    """What a field holds for the code."""
    content = found.content
    options = content.options_ if is_union(content) else [content]
    kept = any(o is MISSING for o in options)
    found.was_read |= kept or (content is found.start is not None)
    if not kept:
        return content
    options = [None if o is MISSING else o for o in options]
    return TaggedUnion(content.tag_, options, content.either_) if is_union(content) else None


def unfollow(nodes: Collection[Any]) -> None:
    """A gradient goes through ``nodes``: what is a leaf in some runs only, and gets none then, has a field that is not followed from here on.

    State of a loop may be what other state is.
    """
    halves = [x for x in current_graph().root.halves if isinstance(x, SymTensor)]
    loops = {n.earlier for n in nodes if iterations.is_state(n)} if halves else ()
    for x in halves:
        fn = x.grad_fn
        if fn in nodes or (iterations.is_state(fn) and fn.earlier in loops):
            x.graded_ = True


def _check_size(size: Sequence[Any], expected: Sequence[Any]) -> None:
    """A gradient's size is that of its tensor; sizes that only the graph knows count as equal."""
    pairs = zip(size, expected) if len(size) == len(expected) else [(0, 1)]
    if any(type(n) is int and type(m) is int and n != m for n, m in pairs):
        raise RuntimeError(
            f"assigned grad has data of a different size: {tuple(size)} for {tuple(expected)}"
        )


def write(owner: torch.Tensor, value: Any) -> None:
    """``owner.grad = value``"""
    if not is_tracing():
        owner.grad = value
        return
    if value is not None and not isinstance(value, torch.Tensor) and not is_union(value):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
        )
    _asked(owner)
    if not _is_by_leaf(owner):
        iterations.check_written(owner)
    note_named([owner])
    if value is not None:
        _note_names(sys._getframe(1))
    _write(owner, value)


def _write(owner: torch.Tensor, value: Any) -> None:
    put(owner, value)  # which counts where it is no other one
    by_leaf(owner, lambda x: write(x, value), lambda x: None)
    held = [(x, flag) for x, flag in HELD(owner) if value is not None or _may_hold(x)]
    _by(held, owner, lambda x: _write(x, value), lambda x: None)


def _may_hold(owner: torch.Tensor) -> bool:
    """Whether there may be something in a field, or in those of the tensors that the owner may be."""
    known = slot(owner)
    return known.content is not None or (
        isinstance(owner, SymTensor) and any(_may_hold(x) for x, _ in STANDS_FOR(owner))
    )


def put(owner: torch.Tensor, value: Any) -> None:
    """Write the ``.grad`` of a tensor that is no other one."""
    if isinstance(value, torch.Tensor):
        _check_size(value.shape, owner.shape)
    slot(owner).location().set(value)


@contextmanager
def standing(contents: dict[torch.Tensor, Any]) -> Iterator[None]:
    """Inside, the gradients of these tensors are others: for code that is traced with what a part of the paths gives."""
    before = {p: (slot(p).content, slot(p).stands) for p in contents}
    for p, content in contents.items():
        slot(p).content, slot(p).stands = content, True
    try:
        yield
    finally:
        for p, (content, stands) in before.items():
            slot(p).content, slot(p).stands = content, stands


def slots_read(graph: FuncGraph) -> list[Slot]:
    """The slots of a trace whose first content mattered: code has read it, or it is a tensor that the graph takes."""
    taken = {id(k.external) for k in graph.captures if isinstance(k, Storage)}
    slots = [s for s in graph.root.slots.values() if s.outside]
    return [s for s in slots if s.was_read or (s.start is not None and id(s.start) in taken)]


def effects_of(entries: dict[Any, tuple[Location, Any]]) -> list[Slot]:
    """The slots that a trace wrote and whose owners outlive it; a tensor that was only written in place stays."""
    slots = [place.keep for key, (place, _) in entries.items() if key[0] == "grad"]
    return [
        s
        for s in slots
        if s.outside
        and s.content is not MISSING
        and (s.content is None or s.content is not s.start)
    ]


def field_of(owner: torch.Tensor) -> Location:
    """The real ``.grad`` field of a tensor."""

    def set(value: Any) -> None:
        if value is not MISSING:
            owner.grad = value

    return Location(("attr", id(owner), "grad"), "a gradient", lambda: owner.grad, set, owner)


SymTensor.grad = property(read, write)
