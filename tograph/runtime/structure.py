"""Specs: what is known, while tracing, of a Python value that a graph carries.

A staged construct has inputs and outputs that are Python values: tensors, numbers, None, lists of these, objects. A
spec says which parts are staged (each becomes a graph value) and which are constants of the trace.

``Leaf``    a graph value of a type; with ``const`` when the same known object or number stands there every time.
``Const``   a Python object that is the same every time: None, a string, a function, a module, ``MISSING``.
``Tree``    a container or object of a class with parts in order.
``Choice``  one of several specs, told by a tag that is known when the graph runs: None on one path and a tensor
            on the other, an int and a float, two different strings. ``TaggedUnion`` is its Python value.

``join`` is the least spec that covers two. It always exists: what cannot be merged becomes a Choice. So the join
of the branches of an If, and the fixed point of a loop's state, never change what plain Python would give.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import StagingError, StructureError
from . import types
from .funcgraph import FuncGraph, Ref, user_location
from .infer import meta_of, tensor_type
from .ir import Value
from .journal import MISSING
from .scalars import ScalarNode, size_of, staged
from .shapes import SYMBOLS, contiguous
from .symbolic import SymTensor, scalar_of, value_of, wrap
from .types import INT, ListType, OptionalType, ScalarType, TensorType, Type

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
    cls: type
    aux: Any
    parts: tuple[Spec, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    options: tuple[Spec, ...]


Spec = Leaf | Const | Tree | Choice


# The class of lists that may be staged, and how one is flattened into a staged spec: set by ``growing``, which needs this module.
LISTS: Any = ((), None)
STAGED_LISTS: Any = (
    "staged",
    (),
)  # what ``aux`` is of the spec of a list of the graph: this, or of this class


# The class of strings that are made when the graph runs, and how a string that is known becomes one: set by ``staged_string``.
TEXTS: Any = ((), None)
MANY_TEXTS = 6  # up to as many a string in a loop is one of those that are known


# Whether an object existed before the trace: set by ``reads``. Such an object is itself wherever it goes, never a copy of its parts.
OUTSIDE: list[Callable[[Any], bool]] = [lambda x: False]


@dataclass(frozen=True)
class Identity:
    """An object that counts as itself, not as its parts: it existed before the construct that may pick it."""

    value: Any


class TaggedUnion:
    """A value that is one of ``options``; ``tag`` is the staged index of the one that counts."""

    def __init__(self, tag: Any, options: list[Any]):
        self.__dict__.update(tag_=tag, options_=options, name_="")

    def __hash__(self):
        raise StagingError(
            "a value that is one thing or another depending on a staged condition cannot be hashed here: use it as a key by [], `in`, get(), "
            "pop() or setdefault()",
            user_location(),
        )


def is_union(x: Any) -> bool:
    return type(x) is TaggedUnion


# ---- containers


def parts_of(x: Any) -> tuple[Any, list[Any]] | None:
    """(aux, parts) of a container or a simple object, or None when ``x`` is not one."""
    cls = type(x)
    if cls in (list, tuple, deque):
        return (getattr(x, "maxlen", None), list(x))
    if cls in (dict, OrderedDict, defaultdict):
        return ((tuple(x), getattr(x, "default_factory", None)), list(x.values()))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return (None, list(x))
    if issubclass(cls, torch.Size) or _is_structseq(cls):
        return (None, list(x))
    if cls is slice:
        return (None, [x.start, x.stop, x.step])
    if hasattr(cls, "__tograph_flatten__"):
        return x.__tograph_flatten__()
    base = base_container(cls)
    if base is not None:
        return _held(x, base)
    if dataclasses.is_dataclass(cls) or _plain_class(cls):
        held = _attributes(x)
        return tuple(held), list(held.values())
    return None


@dataclass(frozen=True)
class Held:
    """What an object of a user's own class of dict or list holds: its ``keys``, or how many items, and its attributes.

    ``names``: of the attributes, each with the number of the item of the same name that is the same object, else None.
    """

    keys: Any
    names: tuple[tuple[str, int | None], ...]


@functools.cache
def base_container(cls: type) -> type | None:
    """The dict or list that a user's class extends, None for other classes."""
    if not issubclass(cls, (dict, list)) or not cls.__flags__ & _HEAP or _standard(cls):
        return None
    if cls.__module__.partition(".")[0] in _LIBRARIES or hasattr(cls, "__tograph_flatten__"):
        return None
    return next(c for c in cls.__mro__ if c in (dict, OrderedDict, defaultdict, list))


def blank(cls: type) -> Any:
    """An object of a class, before its ``__init__``."""
    base: Any = base_container(cls) or object
    return base.__new__(cls)


def _held(x: Any, base: Any) -> tuple[Held, list[Any]]:
    """The items as the base keeps them, and the attributes: the class's own methods do not run."""
    own, keys = _attributes(x), None
    if base is defaultdict:
        own = {"default_factory": x.default_factory, **own}
    if base is list:
        items = list(list.__iter__(x))
    else:
        keys, items = tuple(base.keys(x)), list(base.values(x))
    at = {
        k: i
        for i, k in enumerate(keys or ())
        if isinstance(k, str) and own.get(k, MISSING) is items[i]
    }
    alone = [v for n, v in own.items() if n not in at]
    names = tuple((n, at.get(n)) for n in own)
    return Held(len(items) if keys is None else keys, names), [*items, *alone]


def _attributes(x: Any) -> dict[str, Any]:
    held = dict(getattr(x, "__dict__", ()))
    return held | {s: v for s in slots_of(type(x)) if (v := getattr(x, s, MISSING)) is not MISSING}


def _holding(cls: type, aux: Held, parts: list[Any]) -> Any:
    made, base = blank(cls), base_container(cls)
    count = aux.keys if base is list else len(aux.keys)
    if base is list:
        list.extend(made, parts[:count])
    else:
        for k, v in _present(aux.keys, parts[:count]):
            base.__setitem__(made, k, v)  # type: ignore[union-attr]
    alone = iter(parts[count:])
    own = [next(alone) if i is None else parts[i] for _, i in aux.names]
    _set_attributes(made, _present([name for name, _ in aux.names], own))
    return made


@functools.cache
def slots_of(cls: type) -> tuple[str, ...]:
    """The attributes of a class's objects that are not in a ``__dict__``, by the names they have in the class."""
    found = []
    for c in cls.__mro__:
        names = vars(c).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else tuple(names):
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{c.__name__.lstrip('_')}{name}" if private else name)
    return tuple(n for n in dict.fromkeys(found) if n not in ("__dict__", "__weakref__"))


def has_identity(x: Any) -> bool:
    """Whether ``x`` is an object of a user's class that can change: who holds it sees the change."""
    cls = type(x)
    if base_container(cls) is not None:
        return True
    if issubclass(cls, (tuple, list, dict, deque, slice, Handle)) or hasattr(
        cls, "__tograph_flatten__"
    ):
        return False
    frozen = getattr(cls, "__dataclass_params__", None)
    return not (frozen is not None and frozen.frozen) and (
        dataclasses.is_dataclass(cls) or _plain_class(cls)
    )


def _is_structseq(cls: type) -> bool:
    """Whether a class is one of torch's return types, such as that of ``torch.topk``."""
    return issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def _plain_class(cls: type) -> bool:
    """Whether objects of a class are their attributes and nothing more: a class that users write for data."""
    library = cls.__module__.partition(".")[0] in _LIBRARIES
    if (library and not cls.__module__.startswith(_DATA)) or issubclass(
        cls, (type, BaseException, torch.nn.Module)
    ):
        return False
    ours = [c for c in cls.__mro__ if c is not object]
    plain = all(c.__flags__ & _HEAP and "__new__" not in vars(c) for c in ours)
    return plain and not any(n in vars(c) and (n in _BOUND or _standard(c)) for c in ours for n in _SPECIAL)  # fmt: skip


def _standard(cls: type) -> bool:
    """Whether a class is of the standard library."""
    root = cls.__module__.partition(".")[0]
    return root in sys.stdlib_module_names and root != "__main__"


_BOUND = (
    "__enter__",
    "__next__",
    "__get__",
    "get_concrete_function",
)  # act by being used, or stand for something else
_SPECIAL = ("__call__", *_BOUND)  # of the standard library: hold what is no value


_HEAP = 1 << 9
_DATA = "torch.distributions."  # plain classes of a library
_LIBRARIES = frozenset(
    ("builtins", "torch", "numpy", "functools", "typing", "types", "enum", "tograph", "threading")
)


def rebuild(cls: type, aux: Any, parts: list[Any]) -> Any:
    """The container or object of ``cls`` with these parts."""
    if type(aux) is Held:
        return _holding(cls, aux, parts)
    if cls is list or cls is tuple:
        return cls(parts)
    if cls is deque:
        return deque(parts, aux)
    if cls in (dict, OrderedDict):
        return cls(_present(aux[0], parts))
    if cls is defaultdict:
        return defaultdict(aux[1], _present(aux[0], parts))
    if issubclass(cls, torch.Size) or _is_structseq(cls):
        return cls(parts)
    if issubclass(cls, tuple):
        return cls._make(parts)
    if cls is slice:
        return slice(*parts)
    if hasattr(cls, "__tograph_flatten__"):
        return cls.__tograph_unflatten__(aux, parts)
    return _object(cls, _present(aux, parts))


def _object(cls: type, attributes: list[tuple[str, Any]]) -> Any:
    """An object with these attributes; its class's own code does not run."""
    made = object.__new__(cls)
    _set_attributes(made, attributes)
    return made


def _set_attributes(made: Any, attributes: list[tuple[str, Any]]) -> None:
    held = getattr(made, "__dict__", None)
    in_c = slots_of(type(made))
    for name, value in attributes:
        if (
            held is None
            or name in in_c
            or (name == "default_factory" and isinstance(made, defaultdict))
        ):
            object.__setattr__(made, name, value)
        else:
            held[name] = value


def _present(keys: Any, parts: list[Any]) -> list[tuple[Any, Any]]:
    """The keys that have a part: one that some path did not set is missing there."""
    return [(k, p) for k, p in zip(keys, parts) if p is not MISSING]


# ---- specs of values


def spec_of(x: Any, seen: tuple[int, ...] = ()) -> Spec:
    """The spec of a Python value, with everything in it a constant that can be."""
    if isinstance(x, torch.Tensor):
        return Leaf(tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x)), x)
    if isinstance(x, SYMBOLS):
        return Leaf(ScalarType(x.node.kind), x)
    if type(x) in (bool, int, float):
        return Leaf(ScalarType(type(x)), x)
    if isinstance(x, Handle):
        return Leaf(x.type, x)
    if is_union(x):
        return Choice(tuple(spec_of(o, seen) for o in x.options_))
    if isinstance(x, Identity):
        return Const(x.value)
    if (
        x is None
        or x is MISSING
        or x is UNSET
        or isinstance(x, (str, bytes, type))
        or id(x) in seen
    ):
        return Const(x)
    found = parts_of(x)
    if found is None or (has_identity(x) and OUTSIDE[0](x)):
        return Const(x)
    aux, parts = found
    return Tree(type(x), aux, tuple(spec_of(p, (*seen, id(x))) for p in parts))


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
    return False


def join(a: Spec, b: Spec) -> Spec:
    """The least spec that covers both."""
    if a is b or (isinstance(b, Const) and b.value is UNSET):
        return a
    if isinstance(a, Const) and a.value is UNSET:
        return b
    if isinstance(a, Choice) or isinstance(b, Choice):
        return _join_choice(a, b)
    merged = _merge(a, b)
    return Choice((a, b)) if merged is None else merged


def _merge(a: Spec, b: Spec) -> Spec | None:
    """The join of two specs where it needs no tag."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        if a.fixed and b.fixed and _same_const(a.const, b.const):
            return a if a.type == b.type else Leaf(types.join(a.type, b.type) or a.type, a.const)
        kind = types.join(a.type, b.type) or _join_number(a.type, b.type)
        return None if kind is None else Leaf(kind)
    if isinstance(a, Const) and isinstance(b, Const):
        return a if _same_const(a.value, b.value) else None
    if isinstance(a, Tree) and isinstance(b, Tree):
        if a.cls is b.cls and a.aux == b.aux and is_staged_list(a) and issubclass(a.cls, LISTS[0]):
            if any(types.join(p.type, q.type) is None for p, q in zip(a.parts, b.parts)):
                return None
            return Tree(a.cls, a.aux, tuple(map(join, a.parts, b.parts)))
        if a.cls is not b.cls or a.aux != b.aux or len(a.parts) != len(b.parts):
            return None
        return Tree(a.cls, a.aux, tuple(map(join, a.parts, b.parts)))
    return _join_text(a, b)


def _join_text(a: Spec, b: Spec) -> Spec | None:
    """A string that is known and one that is made when the graph runs."""
    if isinstance(a, Const):
        a, b = b, a
    staged_one = isinstance(a, Tree) and a.cls is TEXTS[0]
    known = isinstance(b, Const) and type(b.value) is str
    return _text() if staged_one and known else None


def _text() -> Spec:
    return Tree(TEXTS[0], None, (Leaf(types.OBJECT),))


def text_of(spec: Spec) -> Spec | None:
    """A string, or one of several, as one that is made when the graph runs; None for anything else."""
    options = spec.options if isinstance(spec, Choice) else (spec,)
    known = all(isinstance(o, Const) and type(o.value) is str for o in options)
    return _text() if known else None


def texts(spec: Spec) -> Spec:
    """A string that is another one in every iteration of a loop is one that is made when the graph runs."""
    many = isinstance(spec, Choice) and len(spec.options) > MANY_TEXTS
    return (text_of(spec) if many else None) or spec


def is_staged_list(spec: Spec) -> bool:
    return isinstance(spec, Tree) and (
        spec.aux == STAGED_LISTS[0] or isinstance(spec.aux, STAGED_LISTS[1])
    )


def _join_number(a: Type, b: Type) -> Type | None:
    """A number that meets a 0-d tensor of its category, or of a higher one, becomes such a tensor."""
    if isinstance(b, ScalarType):
        a, b = b, a
    if isinstance(a, ScalarType) and isinstance(b, TensorType) and b.shape == ():
        rank = {bool: 0, int: 1, float: 2}[a.kind]
        dtype = b.dtype
        have = (
            2
            if dtype.is_floating_point
            else 3
            if dtype.is_complex
            else 0
            if dtype == torch.bool
            else 1
        )
        return b if rank == have or (rank == 1 and have == 2) else None
    return None


def _join_choice(a: Spec, b: Spec) -> Spec:
    options = list(a.options) if isinstance(a, Choice) else [a]
    for new in b.options if isinstance(b, Choice) else (b,):
        if any(
            _covers(old, new) for old in options
        ):  # objects that are kept apart join each with itself
            continue
        for i, old in enumerate(options):
            merged = _merge(old, new)
            if merged is not None:
                options[i] = merged
                break
        else:
            options.append(new)
    return Choice(tuple(options))


def _covers(a: Spec, b: Spec) -> bool:
    merged = _merge(a, b)
    return merged is not None and equal(merged, a)


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


def leaf_types(spec: Spec) -> list[Type]:
    """The types of the graph values of a spec, in order."""
    if isinstance(spec, Leaf):
        return [] if spec.fixed else [spec.type]
    if isinstance(spec, Const):
        return []
    if isinstance(spec, Tree):
        return [t for p in spec.parts for t in leaf_types(p)]
    return [INT] + [t for o in spec.options for t in leaf_types(o)]


# ---- values in and out of a graph


def flatten(x: Any, spec: Spec, graph: FuncGraph) -> list[Value]:
    """The graph values that ``x`` gives for ``spec``, which covers it.

    A content that never counts, because nothing reads it there, is zeros.
    """
    if (x is MISSING or x is UNSET) and not _takes(spec, x):
        return [zero_value(t, graph) for t in leaf_types(spec)]
    if isinstance(spec, Leaf):
        return [] if spec.fixed else [leaf_value(x, spec.type, graph)]
    if isinstance(spec, Const):
        return []
    if isinstance(spec, Tree):
        return _flatten_tree(x, spec, graph)
    if is_union(x):
        return _flatten_union(x, spec, graph)
    chosen = option_of(spec_of(x), spec)
    out = [graph.emit("py.constant", chosen, type=INT)]
    for i, option in enumerate(spec.options):
        out += (
            flatten(x, option, graph)
            if i == chosen
            else [zero_value(t, graph) for t in leaf_types(option)]
        )
    return out


def _flatten_tree(x: Any, spec: Tree, graph: FuncGraph) -> list[Value]:
    if isinstance(x, LISTS[0]) and is_staged_list(spec):
        return LISTS[1](x, spec, graph)
    if spec.cls is TEXTS[0] and not isinstance(x, TEXTS[0]):
        return [TEXTS[1](x, graph)]
    if is_union(x) and is_staged_list(spec) and all(isinstance(o, LISTS[0]) or type(o) is spec.cls for o in x.options_):  # fmt: skip
        columns = zip(*(flatten(o, spec, graph) for o in x.options_))
        tag = x.tag_.node.value(graph)
        return [graph.emit("tg.choose", tag, list(c), type=t) for c, t in zip(columns, leaf_types(spec))]  # fmt: skip
    found = parts_of(x)
    if found is None or len(found[1]) != len(spec.parts):
        raise StructureError(
            f"expected {spec.cls.__name__} of {len(spec.parts)} parts, found {x!r}"
        )
    return [v for p, s in zip(found[1], spec.parts) for v in flatten(p, s, graph)]


def _takes(spec: Spec, x: Any) -> bool:
    options = spec.options if isinstance(spec, Choice) else (spec,)
    return any(isinstance(o, Const) and o.value is x for o in options)


def option_of(spec: Spec, choice: Choice) -> int:
    for i, option in enumerate(choice.options):
        if _covers(option, spec):
            return i
    raise StructureError("a value does not fit the kinds that were found for it")


def _flatten_union(x: TaggedUnion, spec: Choice, graph: FuncGraph) -> list[Value]:
    places = [option_of(spec_of(o), spec) for o in x.options_]
    tag = x.tag_.node.value(graph)
    out: list[Value] = []
    if places == list(range(len(places))):
        out.append(graph.emit("py.constant", tag, type=INT) if not isinstance(tag, Value) else tag)
    else:
        out.append(graph.emit("tg.choose", tag, places, type=INT))
    for i, option in enumerate(spec.options):
        sources = [k for k, place in enumerate(places) if place == i]
        rows = [flatten(x.options_[k], option, graph) for k in sources]
        if not rows:
            out += [zero_value(t, graph) for t in leaf_types(option)]
        elif len(rows) == 1:
            out += rows[0]
        else:
            out += _choose(rows, sources, len(places), tag, option, graph)
    return out


def _choose(rows, sources, count, tag, option, graph) -> list[Value]:
    columns = []
    for values, kind in zip(zip(*rows), leaf_types(option)):
        table = [values[sources.index(k)] if k in sources else values[0] for k in range(count)]
        columns.append(graph.emit("tg.choose", tag, table, type=kind))
    return columns


def choose(
    tag: Any, options: Sequence[Any], graph: FuncGraph, make: Callable[[Value], Any] | None = None
) -> Any:
    """The option that the staged index ``tag`` picks: one value where the options join, else a union."""
    spec = spec_of(options[0])
    for other in options[1:]:
        spec = join(spec, spec_of(other))
    rows = [flatten(o, spec, graph) for o in options]
    index = tag.node.value(graph)
    columns = [
        graph.emit("tg.choose", index, list(c), type=t)
        for c, t in zip(zip(*rows), leaf_types(spec))
    ]
    return unflatten(spec, iter(columns), make or plain_maker(graph))


def scalar_index(x: torch.Tensor) -> Any:
    """A tensor index as a number."""
    return scalar_of(x)


def leaf_value(x: Any, kind: Type, graph: FuncGraph) -> Value:
    """The graph value of a tensor, number or handle, made to be of type ``kind``."""
    if isinstance(x, Handle):
        return graph.resolve(x.ref)
    if isinstance(x, torch.Tensor):
        if isinstance(kind, ScalarType):
            raise StructureError(f"expected a Python {kind}, found a tensor")
        return value_of(x, graph)
    value = x.node.value(graph) if isinstance(x, SYMBOLS) else x
    if isinstance(kind, ScalarType):
        return value if isinstance(value, Value) else graph.emit("py.constant", value, type=kind)
    if isinstance(kind, TensorType):
        kwargs = {"dtype": kind.dtype, "device": torch.device(kind.device)}
        return graph.emit("aten.scalar_tensor.default", value, type=kind, **kwargs)
    raise StructureError(f"expected {kind}, found {x!r}")


def zero_value(kind: Type, graph: FuncGraph) -> Value:
    """A value that stands where none is ever read."""
    if isinstance(kind, ScalarType):
        return graph.emit("py.constant", kind.kind(0), type=kind)
    if isinstance(kind, TensorType):
        size = [0 if n is None else n for n in kind.shape]
        made = TensorType(kind.dtype, tuple(size), kind.device)
        return graph.emit(
            "aten.zeros.default",
            size,
            type=made,
            dtype=kind.dtype,
            device=torch.device(kind.device),
        )
    if isinstance(kind, ListType):
        return graph.emit("tg.list_new", type=kind)
    if isinstance(kind, OptionalType):
        return graph.emit("tg.optional_none", type=kind)
    return graph.emit("py.constant", None, type=kind)


def symbolic(value: Value, graph: FuncGraph, connected: bool = True) -> Any:
    """The Python object that stands for a graph value while tracing; ``connected``: in autograd, where it can be."""
    kind = value.type
    if connected and isinstance(kind, TensorType) and value in graph.sources:
        return graph.sources[value]
    if isinstance(kind, ScalarType):
        return staged(ScalarNode(kind.kind, Ref(value, graph)))
    if isinstance(kind, TensorType):
        size = [size_of(value, i, graph) if n is None else n for i, n in enumerate(kind.shape)]
        return wrap(value, contiguous(kind.dtype, size, torch.device(kind.device)), graph)
    return Handle(Ref(value, graph))


def plain_maker(graph: FuncGraph) -> Callable[[Value], Any]:
    """What makes the Python object of a graph value."""
    return lambda value: symbolic(value, graph)


def unflatten(spec: Spec, values: Iterator[Any], make: Callable[[Any], Any]) -> Any:
    """The Python value of ``spec`` from its graph values; ``make`` turns one of these into an object."""
    if isinstance(spec, Leaf):
        return spec.const if spec.fixed else make(next(values))
    if isinstance(spec, Const):
        return spec.value
    if isinstance(spec, Tree):
        return rebuild(spec.cls, spec.aux, [unflatten(p, values, make) for p in spec.parts])
    tag = make(next(values))
    options = [unflatten(o, values, make) for o in spec.options]
    return options[tag] if type(tag) is int else TaggedUnion(tag, options)
