"""The order of specs: ``join`` is the least spec that covers two, ``generalize`` and ``opened`` are greater ones.

A join always exists: what cannot be merged becomes a ``Choice``. So the join of the branches of an If, and the fixed
point of a loop's state, never change what plain Python would give.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
import torch

from ...errors import StructureError
from ..graph import types
from ..graph.types import ScalarType
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.symbolic import SymTensor
from . import either
from .alike import same_function
from .exact import exact
from .structure import (
    STAGED,
    UNSET,
    Choice,
    Const,
    Handle,
    Leaf,
    Spec,
    Tree,
    is_staged_list,
    spec_of,
)

_ATOMS = (str, bytes, int, float, complex, type(None))  # what is equal is one
MANY_SETS = 24  # up to as many a name is one of sets that are known
MANY_TEXTS = 6  # up to as many a string in a loop is one of those that are known


# Objects that cannot change, and modules of such: two that are equal are one value.
_VALUES = (np.generic, torch.finfo, torch.iinfo)
_OF_VALUES = frozenset(("decimal", "fractions", "datetime", "pathlib", "uuid", "ipaddress"))


def same_number(a: Any, b: Any) -> bool:
    """Whether two Python numbers cannot be told apart: type, sign of zero and NaN included."""
    if type(a) is not type(b) or isinstance(a, torch.Tensor):
        return False
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


def _same_const(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, SYMBOLS) and isinstance(b, SYMBOLS):
        return a.node.same(b.node)
    if isinstance(a, Handle) and isinstance(b, Handle):
        return a.ref == b.ref
    if isinstance(a, (bool, int, float)):
        return same_number(a, b)
    if isinstance(a, range) and isinstance(b, range):
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    if isinstance(a, (str, bytes, complex, torch.dtype, torch.device)) or (
        hasattr(a, "__func__") and hasattr(b, "__func__")
    ):
        return type(a) is type(b) and a == b
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return exact(a) == exact(b)
    if isinstance(a, _VALUES) or type(a).__module__.partition(".")[0] in _OF_VALUES:
        # Their text tells them apart, where `==` does not: Decimal("1.0") from Decimal("1.00"), and zeros by their sign.
        return type(a) is type(b) and repr(a) == repr(b)
    return same_function(a, b, _same_const)


def join(a: Spec, b: Spec) -> Spec:
    """The least spec that covers both."""
    if a is b or (isinstance(b, Const) and b.value is UNSET):
        return a
    if isinstance(a, Const) and a.value is UNSET:
        return b
    if isinstance(a, Choice) or isinstance(b, Choice):
        return _join_choice(a, b)
    merged = _merge(a, b)
    return Choice(either.opened((a, b))) if merged is None else merged


def _merge(a: Spec, b: Spec) -> Spec | None:
    """The join of two specs where it needs no tag."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        if a.fixed and b.fixed and _same_const(a.const, b.const):
            return a if a.type == b.type else Leaf(types.join(a.type, b.type) or a.type, a.const)
        kind = types.join(a.type, b.type)
        return None if kind is None else Leaf(kind)
    if isinstance(a, Const) and isinstance(b, Const):
        return a if _same_const(a.value, b.value) else None
    if isinstance(a, Tree) and isinstance(b, Tree):
        if (
            a.cls is b.cls
            and a.aux == b.aux
            and is_staged_list(a)
            and issubclass(a.cls, STAGED.lists)
        ):
            if any(types.join(p.type, q.type) is None for p, q in zip(a.parts, b.parts)):
                return None
            return Tree(a.cls, a.aux, tuple(map(join, a.parts, b.parts)))
        if a.cls is b.cls and is_staged_list(a) and is_staged_list(b):
            return STAGED.join_lists([a, b])
        if STAGED.tuples in (a.cls, b.cls):
            return STAGED.join_tuples([a, b])
        if a.cls is not b.cls or a.aux != b.aux or len(a.parts) != len(b.parts):
            return None
        return Tree(a.cls, a.aux, tuple(map(join, a.parts, b.parts)))
    return _join_text(a, b)


def _join_text(a: Spec, b: Spec) -> Spec | None:
    """A string that is known and one that is made when the graph runs."""
    if isinstance(a, Const):
        a, b = b, a
    staged_one = isinstance(a, Tree) and a.cls is STAGED.texts
    known = isinstance(b, Const) and type(b.value) is str
    return _text() if staged_one and known else None


def _text() -> Spec:
    return Tree(STAGED.texts, None, (Leaf(types.OBJECT),))


def text_of(spec: Spec) -> Spec | None:
    """A string, or one of several, as one that is made when the graph runs; None for anything else."""
    options = spec.options if isinstance(spec, Choice) else (spec,)
    known = all(isinstance(o, Const) and type(o.value) is str for o in options)
    return _text() if known else None


def texts(spec: Spec) -> Spec:
    """A string that is another one in every iteration of a loop is one that is made when the graph runs."""
    many = isinstance(spec, Choice) and len(spec.options) > MANY_TEXTS
    return (text_of(spec) if many else None) or spec


def _number_kind(spec: Spec) -> type | None:
    """The kind of Python's numbers that a number of numpy counts as, beside staged ones; not in a loop of Python's that nobody asked to stage."""
    kind = _OF_NUMPY.get(type(spec.value)) if isinstance(spec, Const) else None
    if kind is not None and is_tracing() and current_graph().root.repeated:
        raise StructureError(
            "a number of numpy keeps its type in a loop of Python's, also in a long one"
        )
    return kind


_OF_NUMPY: dict[type, type] = {np.float64: float, np.int64: int, np.bool_: bool}


def numbers(spec: Spec) -> Spec:
    """A number of numpy that is another one in every iteration of a loop is one of the graph."""
    kinds = [_number_kind(o) for o in spec.options] if isinstance(spec, Choice) else []
    if len([k for k in kinds if k]) < 2 or not isinstance(spec, Choice):
        return spec
    options = [Leaf(ScalarType(k)) if k else o for k, o in zip(kinds, spec.options)]
    return functools.reduce(join, options)


def _join_choice(a: Spec, b: Spec) -> Spec:
    if not isinstance(a, Choice):  # so that what a branch leaves as it was keeps its tag
        a, b = b, a
    options = list(a.options) if isinstance(a, Choice) else [a]
    for new in b.options if isinstance(b, Choice) else (b,):
        # Objects that are kept apart join each with itself.
        if any(_covers(old, new) for old in options):
            continue
        for i, old in enumerate(options):
            merged = _merge(old, new)
            if merged is not None:
                options[i] = merged
                break
        else:
            options.append(new)
    before = a.options if isinstance(a, Choice) else ()
    if len(options) == len(before) and all(map(operator.is_, options, before)):
        return a  # it says all already: a spec joined with itself is itself
    _check_sets(options)
    return Choice(either.opened(tuple(options)))


def _check_sets(options: list[Spec]) -> None:
    """StructureError for a set that is another object in every iteration of a loop: its join has no end."""
    if len(options) > MANY_SETS and all(isinstance(o, Const) and isinstance(o.value, set) for o in options):  # fmt: skip
        raise StructureError(
            "a set that a staged loop replaces by a new one in each iteration (s = s | {v}) is not supported; change it in place (s |= {v}, s.add(v))",
            user_location(),
        )


def _covers(a: Spec, b: Spec) -> bool:
    """Whether the join of both is ``a`` and needs no tag."""
    if isinstance(a, Const):
        return isinstance(b, Const) and _same_const(a.value, b.value)
    if isinstance(a, Leaf):
        if not isinstance(b, Leaf):
            return False
        if a.fixed and b.fixed and _same_const(a.const, b.const):
            return a.type == b.type or types.join(a.type, b.type) in (a.type, None)
        return not a.fixed and types.join(a.type, b.type) == a.type
    merged = _merge(a, b)
    return merged is not None and equal(merged, a)


def _takes(a: Spec, b: Spec) -> bool:
    """Whether a value of ``b`` can become one of ``a``: as ``_covers``, with lists of Python as lists of the graph."""
    if isinstance(a, Tree) and isinstance(b, Choice):
        return all(_takes(a, option) for option in b.options)
    if isinstance(a, Leaf) and isinstance(a.type, ScalarType):
        return a.type.kind is _number_kind(b) or _covers(a, b)
    if not isinstance(a, Tree) or not isinstance(b, Tree):
        return _covers(a, b)
    if is_staged_list(a) and not is_staged_list(b):
        joined = STAGED.join_lists([a, b]) or STAGED.join_tuples([a, b])
        return joined is not None and equal(joined, a)
    if a.cls is not b.cls or a.aux != b.aux or len(a.parts) != len(b.parts):
        return False
    return all(map(_takes, a.parts, b.parts))


def generalize(spec: Spec) -> Spec:
    """Numbers that are known now will be others in the next iteration: they become staged."""
    if isinstance(spec, Leaf) and isinstance(spec.type, ScalarType):
        return Leaf(spec.type)
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(map(generalize, spec.parts)))
    if isinstance(spec, Choice):
        return Choice(tuple(map(generalize, spec.options)))
    return spec


def equal(a: Spec, b: Spec) -> bool:
    """Whether two specs say the same."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Leaf):
        return (
            a.type == b.type
            and a.fixed == b.fixed
            and (not a.fixed or _same_const(a.const, b.const))
        )
    if isinstance(a, Const):
        return _same_const(a.value, b.value)
    left, right = (a.parts, b.parts) if isinstance(a, Tree) else (a.options, b.options)
    if isinstance(a, Tree) and (a.cls is not b.cls or a.aux != b.aux):
        return False
    return len(left) == len(right) and all(map(equal, left, right))


def opened(spec: Spec) -> Spec:
    """Symbolic tensors and numbers of a spec become graph values; real tensors and plain constants stay."""
    if isinstance(spec, Leaf):
        plain = isinstance(spec.const, (bool, int, float)) or (
            isinstance(spec.const, torch.Tensor) and not isinstance(spec.const, SymTensor)
        )
        return spec if spec.fixed and plain else Leaf(spec.type)
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(map(opened, spec.parts)))
    return Choice(tuple(map(opened, spec.options))) if isinstance(spec, Choice) else spec


def option_for(x: Any, choice: Choice) -> int:
    """The option that a value is. An object that is part of a circle counts as itself where the circle was cut at it, which a spec of it alone does not tell."""
    if not isinstance(x, _ATOMS):
        for i, option in enumerate(choice.options):
            if isinstance(option, Const) and option.value is x:
                return i
    return _option_of(spec_of(x), choice)


def _option_of(spec: Spec, choice: Choice) -> int:
    """The option that a value of this spec is; one with a list of the graph in it where the value has a list of Python there, if no other fits."""
    for fits in (_covers, _takes):
        for i, option in enumerate(choice.options):
            if fits(option, spec):
                return i
    raise StructureError(
        "what a name or place holds is made of other kinds of values than the staged branch or loop around was found to leave there: make it in one way, or "
        "keep its parts in variables of their own",
        user_location(),
    )
