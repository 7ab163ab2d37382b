"""Which tensor each variable is when a region of a staged construct ends, and what that makes it outside of the region.

At the end of a region (a branch, an iteration) a variable holds one of some tensors, its **bindings**. Outside of the region it is then
one of some ``Option``s: a tensor that existed before the region, which it shares with all that hold it; the content of a
**slot**, which is the value that the region's node gives for a variable, its own or, where two variables hold one tensor, the first
one's; or lost, where neither can be told. The number of the option is an index of the graph (see ``picking``).

Invariant: the slot of a variable always has the value of the variable; so a tensor that nothing else holds needs no
following, and two variables have options with the same memory only where they share it in plain Python.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph.types import INT, TensorType
from ..recording.tracing import recording
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor, View, as_symbolic
from ..values.listed import parts
from ..values.structure import Spec
from .holes import Dug, dig, layout, number
from .leaves import NEW, Among, leaf_objects, leaf_paths
from .nested_choices import Which, one_choice
from .picking import Lost, flat, fresh_view

Key = Hashable  # of a variable, or of a part of what it holds
LIMIT = 12  # options of a variable; more of them are lost


@dataclass(frozen=True, eq=False)
class Option:
    """A ``tensor`` from outside of the region, the content of a ``slot`` seen through ``chain``, or lost among ``bases``.

    ``numbers``: what stands in the holes of its views in the region where it was found (see ``holes``).
    """

    key: Hashable
    tensor: SymTensor | None = None
    slot: Key = None
    chain: tuple[View, ...] = ()
    bases: tuple[Any, ...] = ()
    numbers: tuple[Any, ...] = ()


@dataclass
class Binding:
    """What a variable holds at the end of a region: the ``tensors[which]`` tensor, and the options that each may be.

    ``options``: for each tensor, (holder, option) pairs; the first whose holder holds the tensor too counts; the last has no holder.
    """

    which: Which
    tensors: list[SymTensor | None]  # None: a number that becomes a tensor
    variable: bool  # whether one of them is a ``tg.Variable``
    options: list[list[tuple[Key, Option]]] = field(default_factory=list)

    @property
    def settled(self) -> Option | None:
        """The option, where it is known while tracing."""
        one = len(self.tensors) == 1 and len(self.options[0]) == 1
        return self.options[0][0][1] if one else None

    def all(self) -> Iterator[Option]:
        return (option for row in self.options for _, option in row)


def variables(
    places: Sequence[Place | None], specs: Sequence[Spec]
) -> list[tuple[Key, str] | None]:
    """The graph values of the contents of places, in order: (key, name) of those that are tensors with an identity."""
    found: list[tuple[Key, str] | None] = []
    left_out = _NOT if current_graph().root.fields_named else (*_NOT, "grad")
    for place, spec in zip(places, specs, strict=True):
        followed = place is None or not (
            isinstance(place.keep, Storage) or place.key[0] in left_out
        )
        key, name = ("result", "the result") if place is None else (place.key, place.name)
        for path, kind in leaf_paths(spec):
            tensor = followed and isinstance(kind, TensorType)
            found.append(((key, path), name) if tensor else None)
    return found


_NOT = ("carried field", "flag", "counter")


def bindings(
    keys: Sequence[tuple[Key, str] | None],
    contents: Sequence[Any],
    specs: Sequence[Spec],
    inner: FuncGraph | None,
) -> dict[Key, Binding]:
    """What the variables hold, at the end of ``inner`` or, without it, before a construct."""
    objects = [o for c, s in zip(contents, specs, strict=True) for o in leaf_objects(c, s)]
    pairs = zip(keys, objects, strict=True)
    return {k[0]: _binding(o, inner) for k, o in pairs if k and o is not None}


def _binding(x: Any, inner: FuncGraph | None) -> Binding:
    if x is NEW:
        return Binding(first, [None], False)
    which, given = first, [x]
    if isinstance(x, Among):
        which, given = _opened(x)
    variable = any(hasattr(o, "assign_add") for o in given)
    tensors: list[SymTensor | None] = [None if o is NEW else as_symbolic(o) for o in given]
    if inner is not None:
        with recording(inner):  # sizes of the tensors may be known there only
            which, tensors = flat(which, tensors, inner)
    return Binding(which, list(tensors), variable)


def _opened(x: Among) -> tuple[Which, list[Any]]:
    """The index and the tensors of a choice: those of the choices among its options in their places."""
    return one_choice(_tag(x), x.options, _inside, id)


def _inside(x: Any) -> tuple[Which, Sequence[Any]] | None:
    return (_tag(x), x.options) if isinstance(x, Among) else None


def _tag(x: Among) -> Which:
    return lambda graph: x.tag.node.value(graph)


def first(graph: FuncGraph) -> int:
    return 0


def settle_outside(found: dict[Key, Binding]) -> None:
    """Find the options of bindings of tensors that all exist outside."""
    for key, binding in found.items():
        binding.options = [
            [(None, own_option(key) if x is None else _outside(x))] for x in binding.tensors
        ]


def settle(
    found: dict[Key, Binding], inner: FuncGraph, own: Mapping[int, Key], outer: FuncGraph
) -> None:
    """Find the options of bindings at the end of ``inner``, where ``own`` are the slots that it began with."""
    sharing = _Sharing(found, inner, own, outer)
    for key, binding in found.items():
        binding.options = [sharing.options(key, x) for x in binding.tensors]


class _Sharing:
    """Which variables hold the same memory at the end of a region: ``users`` all that do, ``whole`` those that hold all of it."""

    def __init__(
        self, found: dict[Key, Binding], inner: FuncGraph, own: Mapping[int, Key], outer: FuncGraph
    ):
        self.found, self.inner, self.own, self.outer = found, inner, own, outer
        self.users: dict[Hashable, list[Key]] = {}
        self.whole: dict[Hashable, list[Key]] = {}
        self.order = {key: i for i, key in enumerate(found)}
        for key, binding in found.items():
            for x in (t for t in binding.tensors if t is not None):
                self.users.setdefault(self.base(x), []).append(key)
                if not x.chain:
                    self.whole.setdefault(self.base(x), []).append(key)
                if isinstance(x.storage_, Lost):
                    for b in x.storage_.bases:
                        self.users.setdefault(("fresh", id(b)), []).append(key)

    def base(self, x: SymTensor) -> Hashable:
        """The memory of a tensor that does not exist outside of the region; None for one that does."""
        if id(x.storage_) in self.own:
            return ("slot", self.own[id(x.storage_)])
        home = x.storage_.home
        inside = home is not None and home.within(self.inner)
        return ("fresh", id(x.storage_)) if inside else None

    def options(self, key: Key, x: SymTensor | None) -> list[tuple[Key, Option]]:
        """What a tensor that a variable holds is outside of the region (``Binding.options``)."""
        if x is None:
            return [(None, own_option(key))]
        dug = dig(x, self.outer)
        if self.base(x) is None:
            return [(None, _lost([x.storage_]) if dug is None else _outside(x, dug))]
        if isinstance(x.storage_, Lost):
            bases = [b for base in x.storage_.bases for b in self._held(key, base)]
            alone = x.storage_.bases and not bases and len(self.users[self.base(x)]) == 1
            return [(None, own_option(key) if alone else _lost(bases))]
        holders = self._holders(key, x)
        rows: list[tuple[Key, Option]] = []
        for h in holders:
            rows.append((h, _lost([h]) if dug is None else _in_slot(h, dug)))
            if len(self.found[h].tensors) == 1:
                return [*rows[:-1], (None, rows[-1][1])]
        others = [k for k in dict.fromkeys(self.users[self.base(x)]) if k not in (key, *holders)]
        alone = not x.chain or not others
        return [*rows, (None, own_option(key) if alone else _lost([*holders, *others]))]

    def _held(self, key: Key, storage: Storage) -> Sequence[Any]:
        """A memory that a variable may share, outside of the region: what the region made is that of the other variables that may hold it."""
        if id(storage) in self.own:
            return [self.own[id(storage)]]
        if storage.home is None or not storage.home.within(self.inner):
            return [storage]
        return [k for k in dict.fromkeys(self.users.get(("fresh", id(storage)), ())) if k != key]

    def _holders(self, key: Key, x: SymTensor) -> list[Key]:
        """The variables in whose slot a tensor may be found: for a view any that holds all of it, else an earlier one."""
        found = dict.fromkeys(self.whole.get(self.base(x), ()))
        before = self.order[key]
        return [h for h in found if h != key and (x.chain or self.order[h] < before)]


def as_if(binding: Binding, before: Mapping[int, SymTensor]) -> Binding:
    """The binding where the storages with these ids are those of other tensors."""
    tensors = [
        x if x is None or id(x.storage_) not in before else seen_through(before[id(x.storage_)], x)
        for x in binding.tensors
    ]
    return Binding(binding.which, tensors, binding.variable)


def seen_through(base: SymTensor, x: SymTensor) -> SymTensor:
    """``base`` with the views of ``x``."""
    return fresh_view(base.storage_, (*base.chain, *x.chain), x.meta) if x.chain else base


def own_option(key: Key) -> Option:
    return Option(("slot", key, ()), slot=key)


def translated(
    option: Option, places: Mapping[Hashable, Hashable], graph: FuncGraph
) -> Option | None:
    """The option for a loop in which places have other keys; None where it names what is not there, or is a view."""
    if option.chain or option.bases or option.numbers or option.key[0] == "lost":
        return None
    if option.tensor is not None:
        home = option.tensor.storage_.home
        there = not option.tensor.chain and (home is None or graph.within(home))
        return option if there else None
    place, path = option.slot
    return own_option((places[place], path)) if place in places else None


def _in_slot(holder: Key, dug: Dug) -> Option:
    key = ("slot", holder, dug.layout)
    return Option(key, slot=holder, chain=dug.chain, numbers=dug.numbers)


def _outside(x: SymTensor, dug: Dug | None = None) -> Option:
    dug = Dug(x.chain, (), layout(x)) if dug is None else dug
    made = x if isinstance(x.storage_, Lost) else fresh_view(x.storage_, dug.chain, x.meta)
    return Option(("tensor", id(x.storage_), dug.layout), tensor=made, numbers=dug.numbers)


def _lost(bases: Sequence[Any]) -> Option:
    kept = tuple(dict.fromkeys(m for b in bases for m in _memories(b)))
    ids = frozenset(id(b) if isinstance(b, Storage) else b for b in kept)
    return Option(("lost", ids), bases=kept)


def _memories(base: Any) -> Iterator[Any]:
    """The storages that have a content of their own behind one: those that it is picked from, and those that it may share memory with."""
    if not isinstance(base, Storage) or not base.derived:
        yield base
        return
    for part in parts(base):
        if isinstance(part, Lost):
            for b in part.bases:
                yield from _memories(b)
        elif not part.derived:
            yield part


def add_options(have: list[Option], found: Iterable[Option]) -> None:
    """Take over the options that are not known yet; those over the limit are lost."""
    for option in found:
        if len(have) <= LIMIT and all(o.key != option.key for o in have):
            have.append(option if len(have) < LIMIT else _lost([]))


def position(have: Sequence[Option], option: Option) -> int:
    keys = [o.key for o in have]
    return keys.index(option.key) if option.key in keys else len(have) - 1


def index_of(
    key: Key, found: Mapping[Key, Binding], have: Sequence[Option], graph: FuncGraph
) -> Any:
    """The number of the option that a variable is at the end of a region, in its graph."""
    binding = found[key]
    rows = []
    for x, row in zip(binding.tensors, binding.options, strict=True):
        at: Any = position(have, row[-1][1])
        for holder, option in reversed(row[:-1]):
            held = _holds(found[holder], x, graph)
            at = graph.emit("tg.choose", held, [at, position(have, option)], type=INT)
        rows.append(at)
    which = binding.which(graph)
    if isinstance(which, int):
        return rows[which]
    if rows == list(range(len(rows))):
        return which
    return graph.emit("tg.choose", which, rows, type=INT)


def with_holes(options: Mapping[Key, Sequence[Option]]) -> list[tuple[Key, Option]]:
    """The options of variables that have holes."""
    return [(key, option) for key, row in options.items() for option in row if option.numbers]


def numbers_of(
    key: Key, option: Option, found: Mapping[Key, Binding], graph: FuncGraph
) -> list[Any]:
    """What stands in the holes of an option at the end of a region, in its graph; zeros where the variable is none such."""
    rows = found[key].options if key in found else []
    given = [next((o.numbers for _, o in row if o.key == option.key), None) for row in rows]
    out: list[Any] = []
    for i in range(len(option.numbers)):
        values = [0 if n is None else n[i].node.value(graph) for n in given]
        which = found[key].which(graph) if len(set(map(id, values))) > 1 else 0
        one = values[which] if isinstance(which, int) and values else 0
        out.append(one if isinstance(which, int) else graph.emit("tg.choose", which, values, type=INT))  # fmt: skip
    return out


def filled(
    holes: Sequence[tuple[Key, Option]], values: Iterator[Any], graph: FuncGraph
) -> dict[tuple[Key, Hashable], list[Any]]:
    """The numbers in the holes, as values of ``graph``, by variable and option."""
    return {(key, o.key): [number(next(values), graph) for _ in o.numbers] for key, o in holes}


def _holds(binding: Binding, x: SymTensor, graph: FuncGraph) -> Any:
    """1 where a variable is the tensor that ``x`` is a view of, else 0."""
    same = [
        int(t is not None and t.storage_ is x.storage_ and not t.chain) for t in binding.tensors
    ]
    which = binding.which(graph)
    return same[which] if isinstance(which, int) else graph.emit("tg.choose", which, same, type=INT)
