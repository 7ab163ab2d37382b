"""The specs of a loop's state: what the entry suggests, what an iteration adds, and what ``tg.set_loop_options`` says of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ...errors import LoopShapeError, LoopTypeError, ShapeInvariantError
from ..graph import types
from ..graph.types import TensorType
from ..symbols.funcgraph import user_location
from ..symbols.journal import Location as Place
from ..symbols.misuse import check_loop_limits
from ..values import joins
from ..values.joins import generalize, join
from ..values.structure import Choice, Const, Leaf, Spec, Tree, spec_of
from .joining import growing, one_list


@dataclass
class LoopOptions:
    """What ``tg.set_loop_options`` said: ``shape_invariants`` maps a location key to a shape."""

    shape_invariants: dict[Any, Sequence[int | None]] | None = None
    maximum_iterations: Any = None
    parallel_iterations: int = 10
    checkpoint: Any = None

    def __post_init__(self) -> None:
        check_loop_limits(self.maximum_iterations, self.parallel_iterations)


def endless(moving: Sequence[tuple[Place, Spec]]) -> LoopTypeError:
    """The error for variables that are of another kind in every iteration."""
    (place, spec), *_ = moving
    before, after = (shape_of(s) for s in [*getattr(spec, "options", ()), spec, spec][:2])
    error, found = LoopTypeError, "does not have the same nested structure after one iteration"
    if before is not None and after is not None:
        error, found = LoopShapeError, f"has shape {before} before the loop, but shape {after} after one iteration"  # fmt: skip
    shown = "; ".join(f"'{p.name}' is {_kinds(s)}, and so on" for p, s in moving)
    return error(
        f"'{place.name}' {found}: each iteration changes what kind of value a variable is ({shown}). A loop in the graph keeps the "
        "number of dimensions of a tensor and the length of a tuple: append to a list and stack it after the loop, or loop over "
        "Python's range",
        user_location(),
    )


def depth(spec: Spec) -> int:
    """How many containers or objects hold each other."""
    if isinstance(spec, Choice):
        return max(map(depth, spec.options))
    return 1 + max(map(depth, spec.parts), default=0) if isinstance(spec, Tree) else 0


def length(spec: Spec) -> int:
    """How many items the longest list has."""
    if isinstance(spec, Choice):
        return max(map(length, spec.options))
    if not isinstance(spec, Tree):
        return 0
    own = len(spec.parts) if issubclass(spec.cls, list) else 0
    return max(own, max(map(length, spec.parts), default=0))


def copies(spec: Spec) -> int:
    """How many functions made from one ``def`` or ``lambda`` a name may hold."""
    if not isinstance(spec, Choice):
        return 0
    held = [o.value for o in spec.options if isinstance(o, Const)]
    codes = Counter(f.__code__ for f in held if isinstance(f, FunctionType))
    return max(codes.values(), default=0)


def shape_of(spec: Spec) -> str | None:
    """The shape of a tensor as text, with None for a size that is not known."""
    if not isinstance(spec, Leaf) or not isinstance(spec.type, TensorType):
        return None
    sizes = ["None" if n is None else str(n) for n in spec.type.shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _kinds(spec: Spec) -> str:
    """The first kinds of value that a variable is in turn."""
    options = list(getattr(spec, "options", ())) or [spec]
    return ", then ".join(map(_kind, options[:3]))


def _kind(spec: Spec) -> str:
    kind, parts = getattr(spec, "type", None), getattr(spec, "parts", None)
    if parts is not None:
        items = "1 item" if len(parts) == 1 else f"{len(parts)} items"
        return f"a {spec.cls.__name__} of {items}"
    return str(kind) if kind is not None else repr(getattr(spec, "value", spec))


def opened(spec: Spec) -> Spec:
    """The spec without knowing which tensor or number it is."""
    return Leaf(spec.type) if isinstance(spec, Leaf) else spec


def initial_spec(content: Any, place: Place, options: LoopOptions) -> Spec:
    spec = generalize(spec_of(content))
    return _with_invariant(spec, place, options)


def _with_invariant(spec: Spec, place: Place, options: LoopOptions) -> Spec:
    shape = (options.shape_invariants or {}).get(place.key)
    if shape is None or not isinstance(spec, Leaf) or not isinstance(spec.type, TensorType):
        return spec
    if types.join_shapes(tuple(shape), spec.type.shape) != tuple(shape):
        raise ShapeInvariantError(
            _unfit(place, spec.type, "before the loop", shape), user_location()
        )
    return Leaf(TensorType(spec.type.dtype, tuple(shape), spec.type.device))


def _unfit(place: Place, kind: TensorType, when: str, shape: Sequence[int | None]) -> str:
    return f"'{place.name}' has shape {shape_of(Leaf(kind))} {when}, which does not conform with the shape invariant {tuple(shape)}."


def next_spec(spec: Spec, place: Place, left: Any, options: LoopOptions) -> Spec:
    """The join of what went in and what came out."""
    out = spec_of(left)
    shape = (options.shape_invariants or {}).get(place.key)
    if shape is not None and isinstance(out, Leaf) and isinstance(out.type, TensorType):
        covered = types.join_shapes(tuple(shape), out.type.shape)
        if covered != tuple(shape):
            text = _unfit(place, out.type, "after one iteration", shape)
            raise ShapeInvariantError(text, user_location())
    return together(spec, generalize(out), place)


def together(a: Spec, b: Spec, place: Place) -> Spec:
    """What covers two specs of a place that a loop carries: lists that grow, and strings and numbers of numpy that change, are the graph's."""
    return joins.texts(joins.numbers(growing(one_list(join(a, b), [a, b], place))))


MAX_DEEPER = 4  # rounds in a row after each of which an object holds one more of its kind
MAX_LONGER = 8  # the same where a list has more items, as one that a window bounds has not
MAX_COPIES = 4  # the same where a name may hold one more function of one ``def``


class Growth:
    """What gets larger from round to round: objects hold one more of their kind, as a tree that grows, lists have more items, as one in a list that is
    replaced by longer ones, or a name may be one more function that an iteration has made.
    """

    def __init__(self) -> None:
        self.found: list[tuple[Callable[[Spec], int], int, list[int]]] = [(depth, MAX_DEEPER, []), (length, MAX_LONGER, []), (copies, MAX_COPIES, [])]  # fmt: skip

    def add(self, specs: Sequence[Spec]) -> None:
        """The state of one more round."""
        for size, _, sizes in self.found:
            sizes.append(max(map(size, specs), default=0))

    def goes_on(self) -> bool:
        """Whether something rose in each of the last rounds."""
        return any(_rises(sizes, most) for _, most, sizes in self.found)


def _rises(found: Sequence[int], rounds: int) -> bool:
    last = found[-rounds - 1 :]
    return len(last) > rounds and all(a < b for a, b in itertools.pairwise(last))
