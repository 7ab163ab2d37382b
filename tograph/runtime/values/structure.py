"""Specs: what is known, while tracing, of a Python value that a graph carries.

A staged construct has inputs and outputs that are Python values: tensors, numbers, None, lists of these, objects. A
spec says which parts are staged (each becomes a graph value) and which are constants of the trace.

``Leaf``    a graph value of a type; with ``const`` when the same known object or number stands there every time.
``Const``   a Python object that is the same every time: None, a string, a function, a module, ``MISSING``.
``Tree``    a container or object of a class with parts in order.
``Choice``  one of several specs, told by a tag that is known when the graph runs: None on one path and a tensor
            on the other, an int and a float, two different strings. ``TaggedUnion`` is its Python value.
``Again``   an object that stands in another place of the same result too (see ``shared_objects``).

``pytrees`` takes containers and objects apart, ``joins`` orders specs, ``flattening`` turns values into graph values and back.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import StagingError
from ..graph.ir import Value
from ..graph.types import INT, ScalarType, TensorType, Type
from ..inference.infer import meta_of, tensor_type
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import Ref, user_location
from ..symbols.journal import MISSING
from ..symbols.symbolic import SymTensor
from .pytrees import has_identity, parts_of

_NO = object()


class _Unset:
    """What a variable holds whose content does not count yet: any other content takes its place in a join."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET = _Unset()


@dataclass(frozen=True)
class Handle:
    """A graph value that is not a tensor or a number: a list, an optional or an opaque object."""

    ref: Ref

    @property
    def type(self) -> Type:
        return self.ref.value.type

    def __repr__(self) -> str:
        return f"<{self.type}, known when the graph runs>"


@dataclass(frozen=True, eq=False)
class Leaf:
    type: Type
    const: Any = _NO

    @property
    def fixed(self) -> bool:
        return self.const is not _NO


@dataclass(frozen=True, eq=False)
class Const:
    value: Any


@dataclass(frozen=True, eq=False)
class Tree:
    """``number``, ``outer`` and ``cyclic``: see ``shared_objects``."""

    cls: type
    aux: Any
    parts: tuple[Spec, ...]
    number: int | None = None
    outer: int | None = None
    cyclic: bool = False

    @functools.cached_property
    def types(self) -> tuple[Type, ...]:
        """See ``leaf_types``."""
        return tuple([t for p in self.parts for t in leaf_types(p)])

    @functools.cached_property
    def has_tensors(self) -> bool:
        return any(isinstance(t, TensorType) for t in self.types)


@dataclass(frozen=True, eq=False)
class Again:
    """The object that the tree of this number made."""

    number: int


@dataclass(frozen=True, eq=False)
class Choice:
    options: tuple[Spec, ...]

    @functools.cached_property
    def types(self) -> tuple[Type, ...]:
        """See ``leaf_types``."""
        return (INT, *(t for o in self.options for t in leaf_types(o)))

    @functools.cached_property
    def has_tensors(self) -> bool:
        return any(isinstance(t, TensorType) for t in self.types)


Spec = Leaf | Const | Tree | Choice | Again


def is_marked(spec: Spec) -> bool:
    """Whether something is in what a spec describes that is one with something from before the call, or in another place (``shared_objects``)."""
    if isinstance(spec, Choice):
        return any(map(is_marked, spec.options))
    if not isinstance(spec, Tree):
        return isinstance(spec, Again)
    marked = spec.outer is not None or spec.number is not None
    return marked or any(map(is_marked, spec.parts))


class GraphClasses:
    """The classes of lists and strings that a graph makes: set by ``growing`` and ``staged_string``, which need this module."""

    lists: Any = ()  # that may be staged, and how one is flattened into a staged spec
    flatten_list: Callable[..., list[Value]]
    join_lists: Callable[..., Any]  # the list of the graph that covers several
    tuples: Any = ()  # of tuples of the graph, and the one that covers several tuples
    join_tuples: Callable[..., Any]
    refilled: Callable[
        ..., list[Handle]
    ]  # the columns of a list as those of items that may be of more kinds
    records: Any = ()  # of the ``aux`` of a staged list, where it is not "staged"
    texts: Any = ()  # of strings that are made when the graph runs, and how a string that is known becomes one
    text_value: Callable[..., Value]


STAGED = GraphClasses()
# Whether an object existed before the trace: set by ``reads``. Such an object is itself wherever it goes, never a copy of its parts.
OUTSIDE: list[Callable[[Any], bool]] = [lambda x: False]


@dataclass(frozen=True)
class Identity:
    """An object that counts as itself, not as its parts: it existed before the construct that may pick it."""

    value: Any


class TaggedUnion:
    """A value that is one of ``options``; ``tag`` is the staged index of the one that counts."""

    tag_: Any
    options_: list[Any]
    name_: str  # of the variable that holds it, for messages
    either_: int | None  # the option that is a tensor, where the others are numbers that it has too

    def __init__(self, tag: Any, options: list[Any], either: int | None = None):
        self.__dict__.update(tag_=tag, options_=options, name_="", either_=either)
        _unions.made = True

    def __hash__(self):
        raise StagingError(
            "a value that is one thing or another depending on a staged condition cannot be hashed here: use it as a key by [], `in`, get(), "
            "pop() or setdefault()",
            user_location(),
        )


class _Unions(threading.local):
    made = False  # whether the trace has made one


_unions = _Unions()


@contextmanager
def unions_of_a_trace(nested: bool) -> Iterator[None]:
    """A trace, which begins without unions where it is not nested in another."""
    around = _unions.made
    _unions.made = nested and around
    try:
        yield
    finally:
        _unions.made = around or (nested and _unions.made)


def holds_missing(values: Iterable[Any]) -> bool:
    """Whether something of a dict's values is nothing on some path: no look at each takes place while there are no unions at all."""
    return _unions.made and any(map(may_miss, values))


def may_miss(x: Any) -> bool:
    """Whether ``x`` is nothing on some path: an attribute or key that is set on other paths only."""
    return type(x) is TaggedUnion and any(o is MISSING for o in x.options_)


def is_growing(x: Any) -> bool:
    """Whether ``x`` is a list, deque, tuple or table of the graph, of which only a run knows how many items there are."""
    return isinstance(x, STAGED.lists) and x.handle is not None


def is_union(x: Any) -> bool:
    return type(x) is TaggedUnion


_NUMBERS = {kind: ScalarType(kind) for kind in (bool, int, float)}


def spec_of(x: Any, seen: tuple[int, ...] = ()) -> Spec:
    """The spec of a Python value, with everything in it a constant that can be."""
    kind = type(x)
    if kind in (bool, int, float):
        return Leaf(_NUMBERS[kind], x)
    if isinstance(x, torch.Tensor):
        return Leaf(tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x)), x)
    if isinstance(x, SYMBOLS):
        return Leaf(_NUMBERS.get(x.node.kind) or ScalarType(x.node.kind), x)
    if kind is Handle:
        return Leaf(x.type, x)
    if is_union(x):
        return Choice(tuple([spec_of(o, seen) for o in x.options_]))
    if kind is Identity:
        return Const(x.value)
    if (
        x is None
        or x is MISSING
        or x is UNSET
        or isinstance(x, (str, bytes))
        or issubclass(kind, type)
        or id(x) in seen
    ):
        return Const(x)
    found = parts_of(x)
    if found is None or (has_identity(x) and OUTSIDE[0](x)):
        return Const(x)
    aux, parts = found
    seen = (*seen, id(x))
    return Tree(kind, aux, tuple([spec_of(p, seen) for p in parts]))


def is_staged_list(spec: Spec) -> bool:
    return isinstance(spec, Tree) and (spec.aux == "staged" or isinstance(spec.aux, STAGED.records))


def has_tensors(spec: Spec) -> bool:
    """Whether some graph value of a spec is a tensor."""
    if isinstance(spec, (Tree, Choice)):
        return spec.has_tensors
    return isinstance(spec, Leaf) and not spec.fixed and isinstance(spec.type, TensorType)


def leaf_types(spec: Spec) -> list[Type]:
    """The types of the graph values of a spec, in order."""
    if isinstance(spec, Leaf):
        return [] if spec.fixed else [spec.type]
    if isinstance(spec, (Const, Again)):
        return []
    return list(spec.types)
