"""Joining the outcomes of regions that are alternatives: one spec for every location, and the node's outputs applied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...errors import StagingError, StructureError
from ..graph.ir import Node, Value
from ..graph.types import INT
from ..guarding import outer_lists, outer_numbers, outer_tables, reads
from ..inference.shapes import SYMBOLS
from ..recording.opaque import Held
from ..recording.tracing import recording
from ..symbols import journal, symbolic
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.journal import MISSING
from ..symbols.journal import Location as Place
from ..values import conditional_items, flattening, inner_lists, joins, listed, pytrees, structure
from ..values.flattening import flatten
from ..values.joins import join
from ..values.list_specs import join_lists, join_tuples
from ..values.listed import tensors_in
from ..values.structure import Choice, Handle, Leaf, Spec, is_union, leaf_types, spec_of
from ..writes import freed, histories, rebasing, stale
from . import leaf_fields, made_leaves, tensor_attributes
from .joint import Joint
from .learning import learn_by_flag, learn_outcome
from .leaves import noting
from .merged import Merged
from .raising import Unreachable
from .regions import Region, as_before, close, forget_written, replayed, structure_argument, unmoved
from .telling import Before, told_apart


def join_regions(op: str, heads: Sequence[Any], regions: dict[str, Region], **attrs):
    """Record a region op whose regions are alternatives, and apply the join of their outcomes."""
    graph = current_graph()
    live = [r for r in regions.values() if not r.raised]
    if not live:
        _emit_regions(op, heads, regions, [[] for _ in regions], [], graph, attrs)
        raise _no_outcome(regions)
    places = _places(regions, live, graph)
    for place in places.values():
        outer_lists.prefer(place, [r.content(place) for r in live], reads.current())
    slots = [(None, [identified(r.result, r) for r in live])]
    slots += [(p, [identified(r.content(p), r) for r in live]) for p in places.values()]
    before = Before(live)
    slots = told_apart(slots, before)
    specs = [visible(s, graph) for s in _join_contents(slots, live)]
    fields = leaf_fields.Joins([(p, [*map(as_value, c)]) for p, c in slots], specs, live)
    slots += fields.slots
    specs += [visible(s, graph) for s in _join_contents(fields.slots, live)]
    kinds = [t for s in specs for t in leaf_types(s)]
    joint, merged = Joint(slots, specs, live), Merged(slots, specs, live, before)
    outputs = [_outputs(region, slots, specs, live, joint, op) for region in regions.values()]
    kinds += [INT] * joint.count(op)
    node = _emit_regions(op, heads, regions, outputs, kinds, graph, attrs)
    _forget_written(graph, regions, node)
    values, made, joined = iter(node.outputs), [], []
    _mind_order(places, live)
    result = MISSING
    for i, ((place, contents), spec) in enumerate(zip(slots, specs)):
        start = len(made)
        x = flattening.unflatten(spec, values, noting(flattening.plain_maker(graph), made))
        tensor_attributes.carry(made[start:], list(map(as_value, contents)), spec)
        x = merged.one(i, x)
        listed.inherit(tensors_in(x), [t for c in contents for t in tensors_in(c)])
        joined.append((x, spec, [as_value(c) for c in contents]))
        learn_outcome(op, heads, *joined[-1], live)
        if not isinstance(place, leaf_fields.Field):
            made_leaves.in_parts(made[start:], fields.rows(i), [r.graph for r in live])
            fields.note(i, made[start:])
        result = x if place is None else result
        if place is not None:
            inner_lists.stays(x, place.keep, contents)
            put_back(place, x)
        merged.guard(place, x)
    learn_by_flag(op, joined, live)
    joint.attach(node, made, list(values), graph)
    inner_lists.check_names()
    return result


def _places(
    regions: dict[str, Region], live: Sequence[Region], graph: FuncGraph
) -> dict[Any, Place]:
    """The locations that the regions leave changed; the graph is told of those that some do not touch, and that failures lose."""
    _whole_dicts(list(regions.values()))
    places: dict[Any, Place] = {}
    for region in regions.values():
        places.update({k: p for k, (p, _) in region.changed.items()})
        if region.raised:
            graph.root.lost.update(region.changed)
    for key, place in places.items():
        if as_before(place) and any(r.content(place) is place.get() for r in live):
            graph.root.kept.add(key)
            reads.may_stay(place)
    return _joined(places, live, graph.root.lost)


def _whole_dicts(regions: Sequence[Region]) -> None:
    """A dict that one region changes as a whole, and another one key by key, is one that both change as a whole."""
    whole = {k: p for r in regions for k, (p, _) in r.changed.items() if k[0] == "contents" and isinstance(p.keep, dict)}  # fmt: skip
    for key, place in whole.items():
        keys = [
            {k: (p, v) for k, (p, v) in r.changed.items() if k[0] == "key" and p.keep is place.keep}
            for r in regions
        ]
        if not any(own and key not in r.changed for own, r in zip(keys, regions)):
            continue
        for own, region in zip(keys, regions):
            if key not in region.changed and own:
                content = place.get() | {p.name_key: v for p, v in own.values()}
                left = {k: v for k, v in content.items() if v is not MISSING}
                region.changed[key] = place, left
            for k in own:
                del region.changed[k]


def _mind_order(places: dict[Any, Place], live: Sequence[Region]) -> None:
    """Keys that regions add to one dict, and attributes to one object, in different orders, or that have no common order, leave it without one."""
    added: dict[int, tuple[dict, list[Any]]] = {}
    for key, place in places.items():
        held = _ordered(place)
        if held is not None and place.get() is MISSING:
            added.setdefault(id(held), (held, []))[1].append(key)
    for held, keys in added.values():
        for region in live if len(keys) > 1 else ():
            own = [k for k, (_, v) in region.changed.items() if k in keys and v is not MISSING]
            if own != [k for k in keys if k in own]:
                conditional_items.unorder(held)


def _ordered(place: Place) -> dict | None:
    """The dict that a place is a key of, if it is one: an object's attributes are keys of its ``__dict__``."""
    held = place.keep
    if place.key[0] == "attr":
        held = getattr(held, "__dict__", None)
    return held if place.key[0] in ("key", "attr") and isinstance(held, dict) else None


def mind_iterations(state: Sequence[Place]) -> None:
    """Two keys of a dict, or attributes of an object, that iterations may add come in any order."""
    found: dict[int, Any] = {}
    for place in state:
        held = _ordered(place)
        if held is not None:
            x = place.get()
            may_miss = is_union(x) and any(o is MISSING for o in x.options_)
            if may_miss and found.setdefault(id(held), place) is not place:
                conditional_items.unorder(held)


def _joined(places: dict[Any, Place], live: Sequence[Region], lost: set) -> dict[Any, Place]:
    """The locations in which a region leaves something else than it found there.

    ``lost``: those changed before a failure, in a branch at any depth. A commit there changes them, so the regions around know them.
    """
    alone = {k: p for k, p in places.items() if all(_left_alone(p, r) for r in live)}
    for key, place in alone.items():
        if key in lost:
            place.put_back(place.get())
        else:
            note_rewritten(place)
    return {k: p for k, p in places.items() if k not in alone}


def note_rewritten(place: Place) -> None:
    """A staged construct writes a place, which holds that already: there is no change in this trace, and another content traces anew."""
    if as_before(place):
        current_graph().root.rewritten.setdefault(place.key, (place, place.get()))


def _left_alone(place: Place, region: Region) -> bool:
    """Whether a region leaves in a location what it found there."""
    if place.key not in region.changed:
        return True
    old, new = place.get(), region.changed[place.key][1]
    return old is new or (place.key[0] == "contents" and unmoved(old, new))


def put_back(place: Place, x: Any) -> None:
    """Write what a staged construct made of a location."""
    if isinstance(place.keep, Storage):
        if place.keep.owner is not None and isinstance(x, structure.SymTensor):
            owner = place.keep.owner
            histories.note(place.keep, owner)
            made = symbolic.value_of(x, current_graph())
            with stale.joined(owner, place.get(), made, current_graph()):
                rebasing.rebase(owner, None if histories.detached(owner) else x)
        if isinstance(x, structure.SymTensor):
            x = structure.Ref(symbolic.value_of(x, current_graph()), current_graph())
        else:
            x = x.ref
    elif is_union(x):
        if place.key[0] == "contents" and not isinstance(place.get(), Held):
            outer_tables.stand_for_list(place, reads.current())
            outer_lists.need(place, reads.current())
            error = StructureError(_of_many_lengths(place), user_location())
            error.table = conditional_items.table_of(place.keep)
            raise error
        x.__dict__["name_"] = place.name
    elif isinstance(x, SYMBOLS):
        outer_numbers.changes(place, reads.current())
    try:
        place.put_back(x)
    except (TypeError, RuntimeError) as error:  # what C keeps takes only values that are known
        if not (is_union(x) or isinstance(x, SYMBOLS)):
            raise
        raise StagingError(
            f"{place.name} is changed under a staged condition, and cannot depend on one: {error}. Use a tensor or an attribute of a "
            "Python object.",
            user_location(),
        ) from None


def _of_many_lengths(place: Place) -> str:
    cls = type(place.keep)
    if pytrees.base_container(cls) is list:
        return (
            f"an object of {cls.__name__}, which extends list, has a different number of items, or items of different kinds, depending on a "
            "staged condition: of lists only list itself can. Keep a list in an attribute of the class"
        )
    return (
        f"{_called(place)} has a different number of items, or items of different kinds, depending on a staged "
        "condition. A list whose length depends on data holds tensors, numbers and tuples of these, all of one kind: append in "
        "both branches, or use a tg.TensorList"
    )


def _called(place: Place) -> str:
    """The name of a container in the program, where it is one from outside."""
    watch = reads.current()
    source = None if watch is None else watch.source_of(place.keep)
    return place.name if source is None else source.label


def as_value(x: Any) -> Any:
    """The content of a location as a value that has a spec."""
    return Handle(x) if isinstance(x, structure.Ref) else x


def identified(x: Any, region: Region) -> Any:
    """An object that was made before the region counts as itself: a change of it is seen by all that hold it."""
    home = region.graph.root.made.get(id(x))
    if home is None or home[1].within(region.graph) or not pytrees.has_identity(x):
        return x
    return structure.Identity(x)


def visible(spec: Spec, graph: FuncGraph) -> Spec:
    """The spec with everything opened that is known only by a value inside a region."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if spec.fixed and not _seen_from(spec.const, graph) else spec
    if isinstance(spec, structure.Tree):
        return structure.Tree(spec.cls, spec.aux, tuple(visible(p, graph) for p in spec.parts))
    if isinstance(spec, Choice):
        return Choice(tuple(visible(o, graph) for o in spec.options))
    return spec


def all_seen(spec: Spec, graph: FuncGraph) -> bool:
    return joins.equal(visible(spec, graph), spec)


def _seen_from(x: Any, graph: FuncGraph) -> bool:
    if isinstance(x, structure.SymTensor):
        refs = [x.ref] if x.ref is not None else []
        return (x.storage_.home is None or graph.within(x.storage_.home)) and all(
            graph.within(r.graph) for r in refs
        )
    if isinstance(x, SYMBOLS):
        return x.node.ref is None or graph.within(x.node.ref.graph)
    return not isinstance(x, Handle) or graph.within(x.ref.graph)


def _join_contents(slots: list[tuple[Place | None, list[Any]]], live: list[Region]) -> list[Spec]:
    """The specs that cover what the regions leave in each place."""
    rows = []
    for i, region in enumerate(live):
        with replayed(region):
            rows.append([spec_of(as_value(contents[i])) for _, contents in slots])
    columns = zip(slots, zip(*rows, strict=True), strict=True)
    return [one_list(reduce(join, specs), list(specs), place) for (place, _), specs in columns]


def one_list(spec: Spec, specs: list[Spec], place: Place | None) -> Spec:
    """The content of a list that has different lengths on different paths is a list of the graph."""
    if place is not None and place.key[0] == "contents" and not _settled(spec):
        found = join_lists(specs)
        if found is not None:
            return found
    return spec


def growing(spec: Spec) -> Spec:
    """A list or tuple that every iteration of a loop makes anew, and longer, is one of the graph; so it stays, whatever others join it."""
    if isinstance(spec, Choice) and (
        len(spec.options) > 2
        or current_graph().root.nested
        or any(map(structure.is_staged_list, spec.options))
    ):
        return _one_list(spec) or _within_options(spec)
    return _within(spec)


def _one_list(spec: Choice) -> Spec | None:
    options = list(spec.options)
    return join_lists(options) or join_tuples(options)


def _within(spec: Spec) -> Spec:
    """The same where lists and tuples in it that get longer in every iteration are those of the graph."""
    if isinstance(spec, structure.Tree) and not structure.is_staged_list(spec):
        parts = tuple(map(_within, spec.parts))
        return structure.Tree(spec.cls, spec.aux, parts, spec.number, spec.outer, spec.cyclic)
    if not isinstance(spec, Choice):
        return spec
    longer = len(spec.options) > 2 or any(map(structure.is_staged_list, spec.options))
    return (_one_list(spec) if longer else None) or _within_options(spec)


def _within_options(spec: Choice) -> Spec:
    return Choice(tuple(map(_within, spec.options)))


def _settled(spec: Spec) -> bool:
    """Whether a list content has a fixed number of items."""
    return isinstance(spec, structure.Tree)


def _no_outcome(regions: dict[str, Region]) -> Unreachable:
    """All regions raise."""
    for region in regions.values():
        for place, _ in region.changed.values():
            journal.record(place)  # a commit before the failure changes it
    return Unreachable()


def _outputs(
    region: Region, slots: Any, specs: Sequence[Any], live: list[Region], joint: Joint, op: str
) -> list[Any]:
    with recording(region.graph), replayed(region):
        return [*_region_outputs(region, slots, specs, live), *joint.outputs(region, op)]


def _region_outputs(region: Region, slots, specs, live) -> list[Value]:
    graph = region.graph
    out: list[Value] = []
    for (_, contents), spec in zip(slots, specs):
        if region.raised:
            out += [flattening.zero_value(t, graph) for t in leaf_types(spec)]
        else:
            x = contents[[r is region for r in live].index(True)]
            out += flatten(as_value(x), spec, graph)
    return out


def _emit_regions(op, heads, regions, outputs, kinds, graph: FuncGraph, attrs) -> Node:
    keys: dict[Any, Value] = {}
    for region in regions.values():
        keys.update(region.graph.arguments)
    for region, outs in zip(regions.values(), outputs):
        close(region.graph, list(keys), outs)
    freed.agree([r.graph.graph for r in regions.values()])
    args = tuple(structure_argument(h, graph) for h in heads) + tuple(keys.values())
    return graph.add(op, args, attrs, kinds, regions={n: r.graph.graph for n, r in regions.items()})


def _forget_written(graph: FuncGraph, regions: dict[str, Region], node: Node) -> None:
    """External storages that a region wrote have to be read again."""
    for region in regions.values():
        forget_written(graph, region.graph, node)
