"""What the options of variables (``identity``) make of the tensors that stand for them outside of a region."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..graph.types import INT
from ..symbols import wholes
from ..symbols.funcgraph import FuncGraph, Ref, Storage
from ..symbols.symbolic import SymTensor, as_symbolic
from ..values import flattening, joins, structure
from .holes import fill
from .identity import Key, Option, own_option
from .leaves import NEW, Among, leaf_objects, noting
from .picking import Lost, Picked, Which, become, fresh_view


def attach(
    made: Mapping[Key, SymTensor],
    names: Mapping[Key, str],
    options: Mapping[Key, Sequence[Option]],
    which: Callable[[Key], Which],
    graph: FuncGraph,
    variable: Container[Key] = (),
    numbers: Mapping[tuple[Key, Hashable], Sequence[Any]] = MappingProxyType({}),
) -> dict[int, Key]:
    """Give the tensors that stand for variables the memory of their options; returns the slots by the ids of their storages.

    ``numbers``: what stands in the holes of the options (``filled``).
    """
    slots = {key: x.storage_ for key, x in made.items()}

    def tensor(x: SymTensor, key: Key, option: Option) -> SymTensor:
        holes = numbers.get((key, option.key), ())
        if option.tensor is not None:
            base, chain = option.tensor.storage_, option.tensor.chain
            return fresh_view(base, fill(chain, holes), x.meta) if holes else option.tensor
        if option.slot in slots:
            return fresh_view(slots[option.slot], fill(option.chain, holes), x.meta)
        assert x.ref is not None
        bases = [b if isinstance(b, Storage) else slots.get(b) for b in option.bases]
        lost = Lost(x.meta, x.ref, [b for b in bases if b is not None], names[key], graph)
        return SymTensor(x.meta, lost, (), x.ref)

    holders = {id(storage): made[key] for key, storage in slots.items()}
    found = {key: [tensor(x, key, o) for o in options.get(key, ())] for key, x in made.items()}
    for key, x in made.items():
        own = [o.key for o in options.get(key, ())] in ([], [own_option(key).key])
        if not own:
            become(x, which(key), found[key], graph, variable=key in variable)
            assert isinstance(x.storage_, Picked)
            x.storage_.holders = holders
    for x in made.values():
        wholes.note(x, graph.root)
    return {id(storage): key for key, storage in slots.items()}


def choose(
    tag: Any, options: Sequence[Any], graph: FuncGraph, spec: structure.Spec | None = None
) -> Any:
    """The option that the staged index ``tag`` picks; its tensors are those of that option.

    ``spec``: what covers all options, if not their join.
    """
    if spec is None:
        spec = functools.reduce(joins.join, map(structure.spec_of, options))
    made: list[Any] = []
    x = flattening.choose(tag, options, graph, noting(flattening.plain_maker(graph), made), spec)
    columns = zip(*(leaf_objects(o, spec) for o in options))
    for tensor, objects in zip(made, columns, strict=True):
        given = [o for o in objects if o is not None]
        if isinstance(tensor, SymTensor) and any(o is not NEW for o in given):
            places = [sum(o is not None for o in objects[:i]) for i in range(len(objects))]
            table = [min(at, len(given) - 1) for at in places]
            variable = any(hasattr(o, "assign_add") for o in given)
            have = [_possible(o, tensor, graph) for o in given]
            become(tensor, _mapped(Ref(tag.node.value(graph), graph), table), have, graph, variable)
    return x


def _possible(x: Any, tensor: SymTensor, graph: FuncGraph) -> SymTensor:
    """What a leaf may be, as a tensor: a number that becomes one is what ``tensor`` is by itself."""
    if x is not NEW and not isinstance(x, Among):
        return as_symbolic(x)
    made = SymTensor(tensor.meta, tensor.storage_, (), tensor.ref)
    if isinstance(x, Among):
        have = [_possible(o, tensor, graph) for o in x.options]
        become(made, resolved(Ref(x.tag.node.value(graph), graph)), have, graph, False)
    return made


def _mapped(ref: Ref, table: list[int]) -> Which:
    """An index by way of a table."""
    if table == list(range(len(table))):
        return resolved(ref)
    return lambda graph: graph.emit("tg.choose", graph.resolve(ref), table, type=INT)


def resolved(ref: Ref) -> Which:
    """The index that a value of the graph is."""
    return lambda graph: graph.resolve(ref)
