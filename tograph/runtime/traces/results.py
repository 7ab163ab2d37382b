"""What leaves a trace: a result, or what a changed place holds, in a form whose tensors all become real ones.

Tensors are keys of dicts and members of sets by identity: there they become parts of the result like any other. Python objects
that keep tensors where a result cannot have them (closures, partial objects, generators, iterators) are refused: outside, they
would show symbolic tensors.
"""

from __future__ import annotations

import array
import copy
import functools
import io
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from ...errors import StructureError
from .. import autodiff
from ..control_flow.picking import Picked, Which, fresh_view, options_of
from ..control_flow.raising import shown_by
from ..graph.ir import Value
from ..graph.rewrite import beside_inputs
from ..graph.types import BOOL, INT
from ..guarding import reads
from ..guarding.sources import holder
from ..inference.shapes import SYMBOLS
from ..symbols.descriptions import given_attributes
from ..symbols.funcgraph import FuncGraph, Storage, user_location
from ..symbols.symbolic import SymTensor, View, apply_view, as_symbolic, value_of, wrap
from ..values import pytrees, structure
from ..values.keyed_parts import DictOf, keyed
from . import keeping, left_functions, made_tensors
from .rebuilding import Attributed, Made, ObjectOf, Rebuilt

Outer = tuple[Storage, tuple[View, ...]]  # a tensor of the caller's, or a view of one


class Shown(NamedTuple):
    """The values that leave for tensors of the caller's: ``given``, and those that are, by an index, one of the caller's or new (None)."""

    given: dict[Value, Outer]
    chosen: dict[Value, tuple[Value, list[Outer | None]]]


Forms = dict[int, tuple[Any, Any]]


def leaving(
    x: Any,
    root: FuncGraph,
    shown: Shown,
    seen: Forms,
    moves: Callable[[torch.Tensor], bool],
    own: autodiff.OwnLeaves,
) -> Any:
    """``x`` in the form in which it leaves a trace; ScopeError for what would keep a symbolic tensor.

    ``shown`` takes what the caller has to find again: a tensor of its own that the function wrote, or a view of one, one that
    is looked up at every call (``moves``), and one that a staged construct may have bound the name to. ``seen`` takes objects with their forms, by identity:
    it is one for all that leaves a trace, and each object has one form. ``own``: the leaves that the function makes.
    """

    def tensor(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return made_tensors.list_form(x, root, own, lambda y: _leaving(y, seen, tensor))
        if not isinstance(x, SymTensor):
            moving = moves(x) or made_tensors.is_late(x, root)
            return _written(as_symbolic(x), root, shown) if moving else x
        made = form(x)
        watch = reads.current()
        if not root.root.tagged or watch is None or id(x) in watch.placeholders:
            return made
        return _attributed(x, made, lambda v: _leaving(v, seen, tensor))

    def form(x: SymTensor) -> Any:
        if x.storage_.reshaped:
            root.root.laid_out = True
        return made_tensors.form(x, root, own, chosen, lambda g: _leaving(g, seen, tensor))

    def chosen(x: SymTensor) -> SymTensor:
        if (isinstance(x.storage_, Picked) or own.passed) and (one := _one_of(x, root, shown, own)) is not None:  # fmt: skip
            return one
        return _written(x, root, shown) if id(x.storage_) in root.root.assigned else x

    return _leaving(x, seen, tensor)


def _attributed(x: SymTensor, form: Any, leave: Callable[[Any], Any]) -> Any:
    """The form of a tensor that the code made, with the attributes that the code gave it; those of the caller's are changes of it."""
    if x.unknown_:
        x.__getattr__(min(x.unknown_))
    given = given_attributes(x)
    if not given:
        return form
    return Rebuilt(Attributed(tuple(given)), [form, *map(leave, given.values())])


def _one_of(
    x: SymTensor, root: FuncGraph, shown: Shown, own: autodiff.OwnLeaves
) -> SymTensor | None:
    """A name that a staged construct binds, or an item of a list, maybe to a tensor of the caller's: outside it is that one, where the run says so. None where it is none of them.

    It may be written later, by one name or the other. Results on a GPU come before the run has ended: there a name that may be one tensor of the
    caller's or a new one gives an equal one, and no call waits for the answer.
    """
    outer: list[Outer | None] = [None]
    first = None if x.chain or not own.passed else x.storage_.first
    code = 0 if first is None else autodiff.passed_code(root.resolve(first), root, own)
    start = len(root.graph.nodes)
    at = _with_item(_index(x, root, outer), code, outer, root, own)
    beside_inputs(root.graph, start)
    if isinstance(at, int):
        found = outer[at]
        return None if found is None else _written(fresh_view(*found, x.meta), root, shown)
    if x.device.type != "cpu" and len(outer) == 2:
        return None
    for o in outer:
        if o is not None:
            root.reference(o[0])
    value = value_of(x, root)
    if (found := _table(at)) is not None:
        at, outer = at.node.args[0], [outer[i] for i in found]
    shown.chosen[value] = at, outer
    return wrap(value, x.meta, root)


def _with_item(
    at: Any, code: int | Value, outer: list[Outer | None], root: FuncGraph, own: autodiff.OwnLeaves
) -> Any:
    """The index of what may be an item of a list (``autodiff.passed_code``), and by that a tensor of the caller's; others are added to ``outer``."""
    if code == 0 or (isinstance(at, int) and at != 0):
        return at
    places = [0, *(_place((storage, ()), outer) for storage in own.passed.values())]
    if isinstance(code, int):
        found: Any = places[code]
    else:
        found = root.emit("tg.choose", code, places, type=INT)
    if isinstance(at, int):
        return found
    new = root.emit("py.int", root.emit("py.eq", at, 0, type=BOOL), type=INT)
    return root.emit("tg.choose", new, [at, found], type=INT)


def _index(x: SymTensor, root: FuncGraph, outer: list[Outer | None]) -> Any:
    """The place in ``outer`` of the tensor that counts, 0 of one that the code makes: an int, or a value of the graph. Others are added.

    Choices among choices are as deep as branches follow each other in an unrolled loop: the stack is a list.
    """
    found: dict[int, Any] = {}
    opened: dict[int, list[SymTensor]] = {}
    todo = [x]
    while todo:
        here = todo[-1]
        key, storage = _key(here), here.storage_
        if not isinstance(storage, Picked):
            found[key] = _place(_outer(here), outer)
            todo.pop()
            continue
        if key not in opened:
            opened[key] = options_of(here)
            todo += opened[key]
            continue
        todo.pop()
        if key not in found:
            found[key] = _chosen(storage.which, [found[_key(o)] for o in opened[key]], root)
    return found[_key(x)]


def _key(x: SymTensor) -> int:
    return id(x) if x.chain else id(x.storage_)


def _chosen(which: Which, places: list[Any], root: FuncGraph) -> Any:
    """The one of ``places`` that an index picks."""
    if all(type(p) is int and p == places[0] for p in places):
        return places[0]
    at = which(root)
    if isinstance(at, int):
        return places[at]
    if (table := _table(at)) is not None:
        at, places = at.node.args[0], [places[i] for i in table]
    if places == list(range(len(places))):
        return at
    return root.emit("tg.choose", at, places, type=INT)


def _table(index: Value) -> list[int] | None:
    """The known numbers that an index picks one of."""
    made = index.node
    known = (
        made is not None and made.op == "tg.choose" and all(type(i) is int for i in made.args[1])
    )
    return made.args[1] if made is not None and known else None


def _place(x: Outer | None, outer: list[Outer | None]) -> int:
    for i, o in enumerate(outer):
        if _same_place(x, o):
            return i
    outer.append(x)
    return len(outer) - 1


def _same_place(x: Outer | None, y: Outer | None) -> bool:
    """Whether both are one view of one tensor; sizes, which the run may know, follow from its steps."""
    if x is None or y is None:
        return x is y
    steps = [[(v.func, v.args, v.kwargs, v.index) for v in chain] for _, chain in (x, y)]
    return x[0] is y[0] and steps[0] == steps[1]


def _outer(x: SymTensor) -> Outer | None:
    """The tensor of the caller's that ``x`` is, or is a view of at a place that is known while tracing."""
    is_own = x.storage_.external is None and x.storage_.argument is None
    return None if is_own or _moving(x) else (x.storage_, x.chain)


def _moving(x: SymTensor) -> bool:
    """Whether ``x`` is a view whose place the run knows."""
    return any(isinstance(a, (torch.Tensor, *SYMBOLS)) for v in x.chain for a in tree_leaves((v.args, v.kwargs)))  # fmt: skip


def _written(x: SymTensor, root: FuncGraph, shown: Shown) -> SymTensor:
    if _moving(x):
        return x
    source = root.reference(x.storage_)
    value = root.emit("tg.read", source, type=source.type)
    for view in x.chain:
        value = apply_view(root, view, value)
    shown.given[value] = x.storage_, x.chain
    return wrap(value, x.meta, root)


def _leaving(x: Any, seen: Forms, tensor: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(x, (*SYMBOLS, str, bytes)):
        return x
    if structure.is_union(x):
        return _union(x, seen, tensor)
    if id(x) not in seen:
        seen[id(x)] = x, _OPEN
        made = tensor(x) if isinstance(x, torch.Tensor) else _made(x, type(x), seen, tensor)
        if all(seen[id(x)][1] is not form for form in (_OPEN, made)):
            raise _holds_itself(type(x))
        seen[id(x)] = x, made
    elif seen[id(x)][1] is _OPEN:
        kind = type(x._plain(())) if isinstance(x, structure.STAGED.lists) else type(x)
        if isinstance(x, torch.Tensor) or not pytrees.has_blank(kind):
            raise _holds_itself(kind)
        seen[id(x)] = x, pytrees.blank(kind)
    return seen[id(x)][1]


_OPEN = object()  # the form of what is being looked at


def _holds_itself(kind: type) -> StructureError:
    return StructureError(
        f"what leaves the function holds a {kind.__name__} that holds itself: objects, lists and dicts may do that, others cannot",
        user_location(),
    )


def _union(x: Any, seen: Forms, tensor: Callable[[torch.Tensor], Any]) -> Any:
    """One of several values, each in the form in which it leaves, and objects from outside as themselves."""

    def option(o: Any) -> Any:
        if isinstance(
            o, SymTensor
        ):  # what it is beside its content, a place that is looked up at each call is not in this one
            form = tensor(o)
            return form if isinstance(form, made_tensors.FORMS) else o
        if isinstance(o, torch.Tensor):
            return tensor(o)
        found = _itself(o)
        return _held_as_themselves(_leaving(o, seen, tensor)) if found is o else found

    new = [option(o) for o in x.options_]
    if all(a is b for a, b in zip(x.options_, new)):
        return x
    made = structure.TaggedUnion(x.tag_, new)
    made.__dict__["name_"] = x.name_
    return made


def _itself(x: Any) -> Any:
    """An object of a user's class from outside, of which a trace tells that it is the same one at each call; anything else as it is."""
    watch = reads.current()
    if watch is not None and watch.read_at(x) is not None and pytrees.has_identity(x):
        return Rebuilt(Made(holder(x)), [])
    return x


def _held_as_themselves(x: Any) -> Any:
    """An option of a union with the objects from outside, that tuples, lists and dicts in it hold, as themselves: no mark in its spec tells."""
    if not isinstance(x, (tuple, list, dict)) or structure.OUTSIDE[0](x):
        return _itself(x)
    found = pytrees.parts_of(x)
    if found is None:
        return x
    new = list(map(_held_as_themselves, found[1]))
    if all(a is b for a, b in zip(found[1], new)):
        return x
    return pytrees.rebuild(type(x), found[0], new)


def _made(x: Any, kind: type, seen: Forms, tensor: Callable[[torch.Tensor], Any]) -> Any:
    by_key = keyed(x)
    if by_key is not None:
        make, parts = by_key
        return Rebuilt(make, [_leaving(v, seen, tensor) for v in parts])
    if isinstance(x, structure.STAGED.lists):
        return tensor(x) if x.handle is not None else _container(x, None, list(x), seen, tensor)
    if kind is Counter and not structure.OUTSIDE[0](x):
        counts = [_leaving(v, seen, tensor) for v in x.values()]
        return Rebuilt(DictOf(Counter, None), [*_fixed(x), *counts])
    if kind in _ANEW and not structure.OUTSIDE[0](x):
        return _ANEW[kind](x)
    found = None if hasattr(kind, "__tograph_flatten__") else pytrees.parts_of(x)
    if found is not None:
        outside = pytrees.has_identity(x) and structure.OUTSIDE[0](x)
        return x if outside else _container(x, *found, seen, tensor)
    if not structure.OUTSIDE[0](x) and _is_made(x, kind):
        return _object(x, kind, seen, tensor)
    if (left := left_functions.form(x, lambda v: _leaving(v, seen, tensor))) is not None:
        return left
    keeping.check(x)
    make = x.__tograph_anew__() if hasattr(kind, "__tograph_anew__") else None
    return x if make is None else Rebuilt(Made(make), [])


def _container(x: Any, aux: Any, old: list[Any], seen: Forms, tensor: Callable[[torch.Tensor], Any]) -> Any:  # fmt: skip
    """The container or object itself, unless something in it leaves in another form."""
    new = [_leaving(v, seen, tensor) for v in old]
    begun = seen[id(x)][1]
    if begun is not _OPEN:  # something in it holds it
        return pytrees.fill(begun, aux, new)
    if all(a is b for a, b in zip(old, new)):
        return x
    return type(x)(new) if isinstance(x, list) and aux is None else pytrees.rebuild(type(x), aux, new)  # fmt: skip


def _is_made(x: Any, kind: type) -> bool:
    """Whether an object leaves as one with the same attributes: an exception, one that acts by being used, a module of tensors that the code made."""
    if isinstance(x, torch.nn.Module):
        return any(keeping.holds(vars(m)) for m in x.modules())
    return isinstance(x, BaseException) or pytrees.is_acting_class(kind)


def _object(x: Any, kind: type, seen: Forms, tensor: Callable[[torch.Tensor], Any]) -> Rebuilt:
    """An exception, or an object that acts by being used, that the code made: each call makes one with the same attributes."""
    names, old = shown_by(x) if isinstance(x, BaseException) else pytrees.attributes(x)
    new = [_leaving(v, seen, tensor) for v in old]
    if seen[id(x)][1] is not _OPEN:
        raise _holds_itself(kind)
    return Rebuilt(ObjectOf(kind, names), new)


def _fixed(items: Iterable[Any]) -> list[Any]:
    return list(map(structure.Identity, items))


# Containers that can change and that a spec takes for one constant: each call makes its own.
_ANEW: dict[type, Callable[[Any], Rebuilt]] = {
    set: lambda x: Rebuilt(set, _fixed(x)),
    bytearray: lambda x: Rebuilt(bytearray, _fixed(x)),
}
_COPIED = (np.ndarray, array.array, io.StringIO, io.BytesIO)
_ANEW |= dict.fromkeys(
    _COPIED, lambda x: Rebuilt(Made(functools.partial(copy.copy, copy.copy(x))), [])
)
# A run leaves them in the state that they have where the program returns them.
_ANEW[random.Random] = lambda x: Rebuilt(Made(functools.partial(copy.copy, x)), [])
_ANEW[torch.Generator] = lambda x: Rebuilt(Made(x.clone_state), [])
