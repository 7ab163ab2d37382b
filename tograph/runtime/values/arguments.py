"""Arguments of a call: bound to the signature, flattened into leaves, and turned into a trace key.

Tensors enter a key by dtype, shape and device; Python numbers, strings and None by type and value (1, True and 1.0
are three keys, 0.0 and -0.0 two); containers and slices by structure; bound methods by their function and object, functions and other objects by identity. numpy arrays
become tensors.
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import operator
import types
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...errors import SignatureError, UnhashableArgumentError
from ..inference import layouts
from ..inference.shapes import SYMBOLS
from . import tables
from .exact import exact, exact_keys
from .growing import StagedList
from .pytrees import HEAP, is_frozen_dataclass, parts_of, rebuild
from .specs import TensorSpec
from .structure import Handle

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MAPPINGS = (dict, defaultdict)
_CONTAINERS = (list, tuple, *_MAPPINGS)
_COPIED = (list, set, *_MAPPINGS)  # a trace has its own, whose changes go to the caller's
_NUMBERS = (int, float)
_BOUNDS = ("start", "stop", "step")
_ATOMS = (str, bytes, int, float, complex, type(None), enum.Enum)


@dataclass
class Flat:
    """The leaves of bound arguments: tensors (or specs) in order, and the key of everything else."""

    tensors: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    number_names: list[str] = field(default_factory=list)
    places: dict[int, int] | None = field(default_factory=dict)  # None: each counts for itself
    containers: dict[int, int] = field(default_factory=dict)
    # of a graph, by the numbers that are open
    inputs: dict[tuple[int, ...], list[Any]] = field(default_factory=dict)
    opened: frozenset[type] = frozenset()  # classes of records that are what they hold
    within: int = 0  # in how many of them is what is looked at
    closed: bool = False  # the numbers are those of a concrete function, which binds them
    changed: bool = False  # they hold arrays, which are tensors in a copy, or are keys

    def add(self, x: Any, name: str) -> int:
        """The position of a tensor; one that is passed twice has one position."""
        if self.places is None or id(x) not in self.places:
            if self.places is not None:
                self.places[id(x)] = len(self.tensors)
            self.tensors.append(x)
            self.names.append(name)
            return len(self.tensors) - 1
        return self.places[id(x)]


def plain_names(signature: inspect.Signature) -> tuple[str, ...] | None:
    """The names of parameters that all may be given by position or by name; None for other signatures."""
    kinds = {p.kind for p in signature.parameters.values()}
    return tuple(signature.parameters) if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} else None  # fmt: skip


def most_by_position(signature: inspect.Signature) -> float:
    """How many arguments may be given by position."""
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return math.inf
    named = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return sum(k not in named for k in kinds)


def named_defaults(signature: inspect.Signature) -> dict[str, Any] | None:
    """The defaults of parameters that all may be given by name, ``empty`` where there is none; None for other signatures."""
    found = signature.parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p.default for p in found} if all(p.kind in named for p in found) else None


def by_position(args: tuple, kwargs: dict, names: tuple[str, ...] | None) -> tuple[tuple, dict]:
    """The arguments without keywords, where all parameters, which are ``names``, are given."""
    if names is None or len(args) + len(kwargs) != len(names):
        return args, kwargs
    rest = names[len(args) :]
    if not all(map(kwargs.__contains__, rest)):
        return args, kwargs
    return (*args, *[kwargs[n] for n in rest]), {}


def values_of(
    args: tuple, kwargs: dict, most: float, defaults: dict[str, Any] | None
) -> tuple | None:
    """The arguments, with keywords the values of all parameters in their order, where each has one and a name; None for other calls.

    ``most``, ``defaults``: ``most_by_position`` and ``named_defaults`` of the signature.
    """
    if len(args) > most:
        return None
    if not kwargs:
        return args
    if defaults is None:
        return None
    rest = dict(list(defaults.items())[len(args) :])
    if not kwargs.keys() <= rest.keys():
        return None
    rest |= kwargs
    missing = any(x is inspect.Parameter.empty for x in rest.values())
    return None if missing else (*args, *rest.values())


def is_fixed(default: Any) -> bool:
    """Whether a default is the same at every call: nothing of it can change."""
    return default is inspect.Parameter.empty or isinstance(
        default, (int, float, str, bool, type(None))
    )


def bind(
    signature: inspect.Signature,
    args: tuple,
    kwargs: dict,
    name: str = "",
    names: tuple[str, ...] | None = None,
) -> inspect.BoundArguments:
    """Arguments by name with defaults; SignatureError in Python's words. ``names``: the signature's ``plain_names``."""
    if names is not None and len(args) + len(kwargs) == len(names):
        rest = names[len(args) :]
        if all(map(kwargs.__contains__, rest)):
            values = dict(zip(names, args))
            values.update((n, kwargs[n]) for n in rest)
            return inspect.BoundArguments(signature, values)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise SignatureError(f"Binding inputs to tg.function {name!r} failed due to: {error}") from None  # fmt: skip
    bound.apply_defaults()
    return bound


def key_of(x: Any, flat: Flat, name: str) -> Any:
    """The key of a value; its tensors are appended to ``flat``."""
    kind = type(x)
    if isinstance(x, torch.Tensor):
        place = flat.add(x, name)
        return (
            "tensor",
            x.dtype,
            _sizes(x),
            x.device,
            kind if kind not in _PLAIN else None if x.layout is torch.strided else x.layout,
            place,
        )
    if kind in (bool, str, bytes) or x is None:
        return (kind, x)
    if kind is int or kind is float:
        flat.numbers.append(x)
        flat.number_names.append(name)
        return (kind, x if kind is int else repr(x))
    if isinstance(x, TensorSpec):
        places, flat.places = flat.places, None  # a spec that is given twice is two tensors
        place = flat.add(x, x.name or name)
        flat.places = places
        return ("tensor", x.dtype, x.shape, x.device, None, place)
    if _of_numpy(x):
        flat.changed |= flat.within > 0
        made = from_numpy(x, name)
        flat.tensors.append(made)
        flat.names.append(name)
        return ("tensor", made.dtype, tuple(made.shape), made.device, None, len(flat.tensors) - 1)
    if kind in _CONTAINERS or _is_named(x) or _is_copied_set(x):
        return _container_key(x, kind, flat, name)
    if kind is slice:
        return (kind, tuple(key_of(getattr(x, n), flat, f"{name}.{n}") for n in _BOUNDS))
    if isinstance(x, SYMBOLS):
        return ("staged", x.node.kind)
    return _object_key(x, flat, name)


def _container_key(x: Any, kind: type, flat: Flat, name: str) -> Any:
    if kind in _COPIED:  # one that is passed twice is one container
        if id(x) in flat.containers:
            return ("same", flat.containers[id(x)])
        flat.containers[id(x)] = len(flat.containers)
    if kind is set:
        return (kind, tuple(map(exact, x)))  # in the order of a loop over it
    if kind in _MAPPINGS:
        flat.changed |= any(type(k) in flat.opened for k in x)
        items = tuple(
            (k, key_of(v, flat, f"{name}_{k}"))
            for k, v in sorted(x.items(), key=lambda i: repr(i[0]))
        )
        made, names = getattr(x, "default_factory", None), exact_keys(x)
        # the values come in the order of sorted keys, a loop over it in its own
        return (kind, names, items) if made is None else (kind, names, items, made)
    return (kind, tuple(key_of(v, flat, f"{name}_{i}") for i, v in enumerate(x)))


def _is_named(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def _is_copied_set(x: Any) -> bool:
    """Whether a set is what it holds: values that compare by what they are, which a copy has in the same order, as few that lost items have not."""
    return type(x) is set and all(map(_is_value, x)) and all(map(operator.is_, x, x.copy()))


def _is_value(x: Any) -> bool:
    inside = type(x) is tuple or type(x) is frozenset
    return all(map(_is_value, x)) if inside else isinstance(x, _ATOMS)


def _is_structure(x: Any, opened: frozenset[type]) -> bool:
    """Whether an object of a class is what it holds: the class says so, it is a frozen dataclass with tensors, or one that is made for each call."""
    kind = type(x)
    if kind in opened or kind is types.MethodType or hasattr(kind, "__tograph_flatten__"):
        return True
    return is_frozen_dataclass(kind) and _holds_tensors(x)


def _is_one(kind: type, opened: frozenset[type]) -> bool:
    """Whether a structure of a class that is passed twice is one object."""
    return kind in opened or is_frozen_dataclass(kind)


def _holds_tensors(x: Any) -> bool:
    if isinstance(x, (torch.Tensor, TensorSpec)):
        return True
    kind = type(x)
    inside = kind in _CONTAINERS or _is_named(x)
    _, parts = parts_of(x) or (None, ()) if inside or is_frozen_dataclass(kind) else (None, ())
    return any(map(_holds_tensors, parts))


def _object_key(x: Any, flat: Flat, name: str) -> Any:
    kind = type(x)
    if _is_structure(x, flat.opened):
        return _structure_key(x, flat, name)
    if isinstance(x, Handle):
        return ("handle", x.type)
    if isinstance(x, (enum.Enum, torch.dtype, torch.device, torch.Size, type)):
        return (kind, x)
    if isinstance(x, (complex, range)):
        return exact(x)
    held = hasattr(x, "__dict__") or kind.__flags__ & HEAP or kind in (deque, bytearray, set)
    if kind.__hash__ is None and not held:
        raise UnhashableArgumentError(
            f"Could not generate a generic TraceType for {x!r} (argument {name!r}): it cannot be hashed"
        )
    if isinstance(x, frozenset):
        return (*exact(x), tuple(map(exact, x)))  # in the order of a loop over it
    flat.objects.append(x)
    held = (bytes(x),) if kind is bytearray else ()  # its items are not guarded one by one
    return ("object", kind, id(x), *held)


def _structure_key(x: Any, flat: Flat, name: str) -> Any:
    kind = type(x)
    if kind is types.MethodType:  # each look at `x.step` makes another one
        function = key_of(x.__func__, flat, name)
        return (kind, function, key_of(x.__self__, flat, f"{name}_self"))
    if _is_one(kind, flat.opened):
        if id(x) in flat.containers:
            return ("same", flat.containers[id(x)])
        flat.containers[id(x)] = len(flat.containers)
    aux, parts = _parts(x)
    flat.within += kind in flat.opened
    keys = tuple(key_of(p, flat, f"{name}_{i}") for i, p in enumerate(parts))
    flat.within -= kind in flat.opened
    return (kind, repr(aux), keys)


def _parts(x: Any) -> tuple[Any, list[Any]]:
    if type(x) is functools.partial:
        return (len(x.args), tuple(x.keywords)), [x.func, *x.args, *x.keywords.values()]
    return parts_of(x) or (None, [])


def _sizes(x: torch.Tensor) -> tuple[Any, ...]:
    try:
        return tuple(x.shape)
    except RuntimeError:
        layouts.check(x)
        raise


def _of_numpy(x: Any) -> bool:
    """Whether it is an array or number of numpy; its texts are Python's."""
    return isinstance(x, (np.ndarray, np.generic)) and not isinstance(x, (str, bytes))


def from_numpy(x: Any, name: str = "") -> torch.Tensor:
    """A tensor of a numpy array or number, with its dtype; UnhashableArgumentError for one that holds texts or objects."""
    array = np.asarray(x)
    if array.dtype.kind not in "?biufc":
        raise UnhashableArgumentError(
            f"Could not generate a generic TraceType for {x!r} (argument {name!r}): an array of {array.dtype} is no tensor. "
            "Pass a list or a tuple, or keep the array in a closure, module or object"
        )
    return torch.as_tensor(array)


def tuples_in(x: Any) -> dict[int, tuple]:
    """The tuples in arguments, by identity: of each of them a trace has a copy."""
    found: dict[int, tuple] = {}
    todo = [x]
    while todo:
        here = todo.pop()
        if isinstance(here, tuple) and here:
            found[id(here)] = here
        if type(here) in _MAPPINGS:
            todo += here.values()
        elif isinstance(here, (list, tuple)):
            todo += list.__iter__(here) if isinstance(here, list) else here
    return found


def _mapping(x: Any, done: dict[Any, Any], tabled: bool) -> Any:
    """A dict of the kind of ``x``, in its order, with other values; or a table of the graph."""
    made = {k: done[k] for k in x}
    if type(x) is defaultdict:
        made = defaultdict(x.default_factory, made)
    return tables.table_of(made) if tabled else made


def replace_tensors(
    x: Any,
    take: Callable[[Any], Any],
    spares: list[tuple[Any, Any]],
    tabled: frozenset[int] = frozenset(),
    opened: frozenset[type] = frozenset(),
) -> Any:
    """``x`` with every tensor and number replaced, in the order of ``key_of``; containers are copied and noted in ``spares``.

    ``tabled``: the dicts and sets, by identity, that become tables of the graph. ``opened``: classes of records that are what they hold.
    """
    kind = type(x)
    if isinstance(x, (torch.Tensor, TensorSpec)) or kind in _NUMBERS or _of_numpy(x):
        return take(x)

    def part(y: Any) -> Any:
        return replace_tensors(y, take, spares, tabled, opened)

    one = kind in _COPIED or _is_one(kind, opened)
    if one:
        known = next((made for made, real in spares if real is x), None)
        if known is not None:
            return known
    made = _rebuilt(x, part, tabled, opened)
    if one and made is not x:
        spares.append((made, x))
    return made


def _rebuilt(
    x: Any, part: Callable[[Any], Any], tabled: frozenset[int], opened: frozenset[type]
) -> Any:
    """A container or structure with what ``part`` gives for what it holds; anything else itself."""
    kind = type(x)
    if kind in _MAPPINGS:
        done = {k: part(v) for k, v in sorted(x.items(), key=lambda i: repr(i[0]))}
        return _mapping(x, done, id(x) in tabled)
    if kind is list or kind is tuple:
        return (StagedList if kind is list else tuple)(map(part, x))
    if _is_named(x):
        return kind._make(map(part, x))
    if _is_copied_set(x):
        return tables.table_of(x) if id(x) in tabled else x.copy()
    if kind is slice:
        return slice(*(part(getattr(x, n)) for n in _BOUNDS))
    if _is_structure(x, opened):
        return _remade(x, part)
    return x


def _remade(x: Any, part: Callable[[Any], Any]) -> Any:
    """A structure with other parts."""
    kind = type(x)
    if kind is types.MethodType:
        owner = part(x.__self__)
        return x if owner is x.__self__ else types.MethodType(x.__func__, owner)
    aux, parts = _parts(x)
    parts = list(map(part, parts))
    if kind is functools.partial:
        count, names = aux
        return functools.partial(*parts[: count + 1], **dict(zip(names, parts[count + 1 :])))
    return rebuild(kind, aux, parts)
