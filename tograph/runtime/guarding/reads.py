"""Reads: what converted code tells of the Python values that it looks at while tracing. A ``Watch`` for each open trace takes them."""

from __future__ import annotations

import io
import threading
import types
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import StagingError
from ..symbols import contents, journal, switched
from ..symbols.descriptions import given_attributes
from ..symbols.funcgraph import Storage, current_graph, user_location
from ..symbols.journal import MISSING, Location
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor, found_outside
from ..values.structure import OUTSIDE
from . import questions, which_objects
from .guards import ATOMS, CONTAINERS, MAPPINGS, extends_container
from .watch import Watch


class _State(threading.local):
    def __init__(self) -> None:
        self.watches: list[Watch] = []
        self.taken: dict[int, tuple[Any, list[Any]]] = {}


_state = _State()


# ---- what converted code calls


def current() -> Watch | None:
    """The watch of the trace in progress."""
    return _state.watches[-1] if _state.watches else None


def looked_at(x: Any) -> bool:
    """Whether the program has come by an object from outside in a trace in progress."""
    return any(watch.source_of(x) is not None for watch in _state.watches)


def history() -> None:
    """A program asks whether a tensor requires a gradient: that may follow from any argument."""
    for watch in _state.watches[-1:]:
        watch.history()


def argument(x: torch.Tensor) -> tuple[Watch, int, torch.Tensor] | None:
    """The tensor of the caller that ``x`` is, or is a view of, with its place among the arguments and who takes what is asked of it."""
    watch = current()
    i = x.storage_.argument if watch is not None and isinstance(x, SymTensor) else None
    if watch is None or i is None or i >= len(watch.given):
        return None
    found = watch.given[i]
    plain = isinstance(found, torch.Tensor) and not isinstance(found, SymTensor)
    return (watch, i, found) if plain else None


def leaf(x: torch.Tensor) -> None:
    """A program sets ``x.requires_grad``: what a tensor from outside requires before is asked once, where it has not been set yet."""
    watch, real = current(), switched.outside(x)
    if watch is None or real is None:
        return
    before = current_graph().root.switched.get(id(real), real.requires_grad)
    if before is not real.requires_grad:
        return
    watch.leaf(real, next((i for i, given in enumerate(watch.given) if given is real), None))


def tensor_fields(x: torch.Tensor) -> dict[str, Any]:
    """The attributes that code has given to a tensor: a program asks for all of them."""
    watch = current()
    return given_attributes(x) if watch is None else watch.tensor_fields(x)


def layout() -> None:
    """A program asks how a tensor lies in memory: that may follow from any argument."""
    for watch in _state.watches[-1:]:
        watch.layout()


def watched(function: types.FunctionType) -> None:
    """A user's function is about to run in a trace."""
    for watch in _state.watches[-1:]:
        watch.add(function)


def method(function: types.FunctionType, args: tuple) -> None:
    """A user's function is about to be called with these arguments."""
    if args and _state.watches:
        _state.watches[-1].method(function, args[0])


def grad_mode() -> bool:
    """Whether the call that is traced began with gradients on; another answer traces anew."""
    watch = current()
    return watch is None or questions.at_the_start(torch.is_grad_enabled, watch.began, watch)


def leaf_written() -> None:
    """A write to a leaf that requires a gradient has failed; with gradients off, and to another tensor, it does not."""
    follow_grad_mode()
    watch = current()
    if watch is not None:
        watch.leaf_written([x.external for x in current_graph().root.captured.values()])


def follow_grad_mode() -> None:
    """What the program does depends on whether gradients are on: a call that began with gradients off is traced so.

    Of all other calls only those with gradients on have this trace.
    """
    watch = current()
    if watch is not None and not watch.quiet and not grad_mode():
        raise Retrace(quiet=True)


def compared(*xs: torch.Tensor) -> None:
    """``is`` asked which tensors these are: others in their places trace anew."""
    if any(isinstance(x, SymTensor) and x.storage_.reshaped for x in xs):
        layout()
    if _state.watches:
        watch = _state.watches[-1]
        watch.compared.update(map(id, xs))
        if any(isinstance(x, SymTensor) and _may_be_argument(x) for x in xs):
            for x in xs:
                if not isinstance(x, SymTensor):
                    _told_from(watch, x)


def _may_be_argument(x: SymTensor) -> bool:
    made = type(x.storage_) is Storage and x.storage_.argument is None  # in the function
    return not made and not x.chain


def _told_from(watch: Watch, real: torch.Tensor) -> None:
    """A captured tensor was compared with what may be an argument: that it is none is a check, one that it is begins the trace anew."""
    found_outside(real, current_graph().root)
    for i, given in enumerate(watch.given):
        if isinstance(given, torch.Tensor) and given is not real:
            watch.other(i, real)


def identified(*xs: Any) -> None:
    """Code may have asked which objects these are (``is``, ``==``, ``in``, a key, an argument of code that is not converted)."""
    if _state.watches:
        watch = _state.watches[-1]
        # of copies of what a call brings the key tells which are one
        if len(xs) == 1 or not all(id(x) in watch.copies for x in xs):
            watch.compared.update(id(x) for x in xs if not isinstance(x, torch.Tensor))
        if watch.copies and len(xs) == 1:
            watch.compared |= which_objects.asked(watch.copies, xs, alone=True)


def compared_by_value(*xs: Any) -> None:
    """``==`` asked whether these are equal, and which objects those in them are that compare by identity."""
    watch = current()
    if watch is not None and watch.copies:
        watch.compared |= which_objects.asked(watch.copies, xs, alone=False)


def keyed(key: Any, others: Callable[[], Iterable[Any]]) -> None:
    """Whether a key is one of the others decides what a dict or set holds, or gives."""
    watch = current()
    if watch is not None and watch.copies:
        watch.compared |= which_objects.keyed(watch.copies, key, others)


def may_stay(place: Location) -> None:
    """A staged construct may leave what a place outside holds: what is read of that behind it is read by way of the place."""
    watch, kind, content = current(), place.key[0], place.get()
    if watch is None or content is MISSING or watch.written(place.key):
        return
    if kind == "cell" and place.key in watch.cells:
        watch.kept(place, content, written=True)
    elif kind == "attr" and watch.source_of(place.keep) is not None:
        watch.attribute(place.keep, place.key[2], content)
    elif kind == "key" and isinstance(place.keep, MAPPINGS):
        watch.item(place.keep, place.name_key, content)


def told_apart(*xs: tuple) -> None:
    """``is`` asked which tuples these are: others in their places, equal ones too, trace anew."""
    watch = current()
    for x in xs if watch is not None else ():
        watch.told_apart(x)


def whole(x: Any) -> Any:
    """``x``, all of which is about to be read."""
    if _state.watches and extends_container(x):
        _state.watches[-1].whole(x)
    return x


def passed(args: Any) -> None:
    """Arguments of code that is not converted: it may read all of them."""
    watch = current()
    if watch is None:
        return
    for x in args:
        if isinstance(x, (torch.Tensor, *ATOMS)) or watch.source_of(x) is None:
            continue
        watch.draws.note(x)
        if extends_container(x):
            watch.whole(x)
        if type(x) in CONTAINERS:
            continue
        if hasattr(type(x), "__next__"):
            _advanced(x, watch)
        elif isinstance(x, torch.nn.Module):
            watch.module(x)
        elif hasattr(x, "__dict__") and not isinstance(
            x, (type, types.FunctionType, types.ModuleType)
        ):
            watch.fields(x)
        identified(x)
        if not isinstance(x, (type, torch.nn.Module)):
            _passed_slots(x, watch)


def _advanced(x: Any, watch: Watch) -> None:
    """Code that is not converted may take items of an iterator; those of users' classes change by what they hold."""
    watch.advanced(x)
    of_c = not isinstance(x, io.IOBase) and type(type(x).__next__) is not types.FunctionType
    if of_c and journal.is_staged():
        raise advanced_by_condition(watch.sources[id(x)][1].label)


def seeded(function: Any, owner: Any) -> None:
    """A random generator of numpy is about to be seeded, which may leave it as it is."""
    watch = current()
    if watch is not None:
        watch.draws.seeded(function, owner)


def _passed_slots(x: Any, watch: Watch) -> None:
    """What an object holds that is not in a ``__dict__``."""
    for value in watch.slots(x):
        passed((value,))
    source = watch.source_of(x)
    if type(x) is bytearray and source is not None and not watch.written(("contents", id(x))):
        watch.check(source, "bytes", "bytes({0}) == {1}", bytes(x))


@contextmanager
def watching(watch: Watch):
    """Collect reads in ``watch``."""
    _state.watches.append(watch)
    try:
        yield watch
    finally:
        _state.watches.pop()


@contextmanager
def one_call():
    """The traces that one call needs: what one of them has taken from an iterator outside is there for the next."""
    before, _state.taken = _state.taken, {}
    try:
        yield
    finally:
        _state.taken = before


def taken_from(iterator: Any) -> list[Any]:
    """The items that the traces of this call have taken from an iterator from outside."""
    return _state.taken.setdefault(id(iterator), (iterator, []))[1]


def advanced_by_condition(name: str, where: str = "in a staged branch or loop") -> StagingError:
    return StagingError(
        f"{name!r} is an iterator from outside of the function, and items of it are taken {where}: this happens while tracing, not when the graph "
        "runs. Take them before, or give a list or tensor and go over that.",
        user_location(),
    )


def made_class(cls: type) -> type:
    """A class that a class statement of the trace has made: what it holds is not read from outside."""
    watch = current()
    if watch is not None:
        watch.made_classes[id(cls)] = cls
    return cls


def is_outside(x: Any) -> bool:
    """Whether the function found an object outside of it, where it looked: an argument, a variable, an attribute."""
    watch = current()
    return watch is not None and watch.source_of(x) is not None


OUTSIDE[0] = is_outside


def _held(x: torch.Tensor) -> bool:
    watch = current()
    return watch is not None and watch.content(x)


contents.GUARD = _held
