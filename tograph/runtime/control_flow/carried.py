"""The identity of the tensors that a staged loop carries: which tensor each variable is at the start of an iteration.

Beside its value, a variable that an iteration may bind to another tensor carries the index of the tensor that it is (``identity``). Most
often that is simple: the one from before the loop in the first iteration, and a new one that nothing else holds in
all later ones; all such variables share one index, which says whether an iteration ran. What nothing asks for is pruned.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..graph.ir import Value
from ..graph.types import INT
from ..symbols.funcgraph import FuncGraph, Ref, Storage, current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor
from ..values.structure import Spec
from .attaching import attach, resolved
from .foresight import Foresight, alone
from .identity import (
    LIMIT,
    Binding,
    Key,
    Option,
    add_options,
    as_if,
    bindings,
    filled,
    first,
    index_of,
    numbers_of,
    own_option,
    position,
    settle,
    settle_outside,
    translated,
    variables,
    with_holes,
)
from .picking import Which


class Carried:
    """What is known, from round to round of tracing a body, of the tensors that a loop's variables may be."""

    def __init__(self) -> None:
        self.keys: list[tuple[Key, str] | None] = []
        self.options: dict[Key, list[Option]] = {}
        self.settled: dict[Key, Option | None] = {}  # what every iteration leaves; None: it depends
        self.entry: dict[Key, Binding] = {}
        self.found: dict[Key, Binding] = {}
        self.variable: set[Key] = set()
        self.slots: dict[int, Key] = {}
        self.storages: dict[Key, Storage] = {}
        self.expected: set[Key] = set()
        self.held: dict[Key, list[Key]] = {}  # variables that may be what others held before
        self.foreseen = False  # whether there are options that no trace has found

    def expect(self, key: Key) -> None:
        """A variable is taken to hold a tensor of its own after an iteration."""
        own = own_option(key)
        self.expected.add(key)
        self.options[key], self.settled[key] = [own], own

    def adopt(self, other: Carried, places: Mapping[Hashable, Hashable], graph: FuncGraph) -> None:
        """Begin with what another search found of the same loop; ``places``: the keys here of those there, by which slots are known."""
        adopted = {
            (places[place], path): (place, path) for place, path in other.options if place in places
        }
        for key, old in adopted.items():
            options = other.options[old]
            found = [translated(o, places, graph) for o in options]
            self.options[key] = [o for o in found if o is not None]
            gone = [o for o, n in zip(options, found) if n is None]
            self.held[key] = [
                (places[p], q) for p, q in other.held_before(options, gone) if p in places
            ]
            if old in other.variable:
                self.variable.add(key)
            if old in other.settled:
                settled = other.settled[old]
                now = settled and translated(settled, places, graph)
                if settled is None or now is not None:
                    self.settled[key] = now

    def held_before(self, options: Sequence[Option], wanted: Sequence[Option]) -> list[Key]:
        """Variables that held the ``wanted`` ones of a variable's options before the loop: one for each that this can be told of.

        One that was itself one of several tensors counts where the variable may be any of them.
        """
        if not wanted:
            return []
        have, before = {o.key for o in options}, {}
        for key, binding in self.entry.items():
            keys = [o.key for o in _outer(binding)]
            if have.issuperset(keys):
                before |= dict.fromkeys(keys, key)
        return list(dict.fromkeys(before[o.key] for o in wanted if o.key in before))

    def own(self) -> Carried:
        """What is known of those variables that may only be tensors which the loop makes."""
        made = Carried()
        for key, options in self.options.items():
            if all(o.tensor is None for o in options):
                made.options[key] = list(options)
                if key in self.settled:
                    made.settled[key] = self.settled[key]
                if key in self.variable:
                    made.variable.add(key)
        return made

    def expect_of(self, other: Carried, places: Mapping[Hashable, Hashable]) -> None:
        """Take variables to be what they are in a copy of the loop; ``places``: as in ``adopt``.

        That is tensors which the loop makes, and those that variables held before it.
        """
        graph = current_graph()
        for key, options in other.options.items():
            place, path = key
            if place not in places:
                continue
            here, settled = (places[place], path), other.settled.get(key)
            if settled is not None and settled.key == own_option(key).key:
                self.expect(here)
                continue
            found = [translated(o, places, graph) for o in options if o.tensor is None]
            self.options[here] = [o for o in found if o is not None]
            held = other.held_before(options, [o for o in options if o.tensor is not None])
            self.held[here] = [(places[p], q) for p, q in held if p in places]
            if settled is None and key in other.settled:
                self.settled[here] = None

    @property
    def confirmed(self) -> bool:
        """Whether the last trace, or what there is before the loop, has every option in it."""
        for key, options in self.options.items():
            rows = [found[key] for found in (self.entry, self.found) if key in found]
            seen = {o.key for binding in rows for o in binding.all()}
            if rows and not all(o.key in seen for o in options):
                return False
        return True

    def forget(self, key: Key) -> None:
        """Nothing is known of a variable."""
        self.expected.discard(key)
        self.options.pop(key, None)
        self.settled.pop(key, None)

    def begin(self, state: Sequence[Place], specs: Sequence[Spec], contents: Sequence[Any]) -> None:
        """A round begins with these specs."""
        self.keys = variables(state, specs)
        self._drop_lost()
        self.entry = bindings(self.keys, contents, specs, None)
        settle_outside(self.entry)
        self._add(self.entry)
        for key, others in self.held.items():
            for other in others:
                if key in self.names and other in self.entry:
                    add_options(self.options.setdefault(key, []), _outer(self.entry[other]))
        self.alone = all(alone(k, self.options.get(k, ())) for k in self.names)
        moving = [k for k in self.names if len(self.options.get(k, ())) > 1]
        simple = [k for k in moving if self.settled.get(k) is not None and self._known(k)]
        self.flagged = frozenset(simple)
        self.moving = [k for k in moving if k not in self.flagged]
        self.holes = with_holes({k: self.options.get(k, ()) for k in self.names})

    def _drop_lost(self) -> None:
        """Forget options that name slots which this round does not have: of variables that are of several kinds by now."""
        names = self.names
        for key, have in self.options.items():
            left = [o for o in have if o.slot is None or o.slot in names]
            if len(left) < len(have):
                self.options[key] = left
                self.settled.pop(key, None)

    def _known(self, key: Key) -> bool:
        return key not in self.entry or self.entry[key].settled is not None

    @property
    def names(self) -> dict[Key, str]:
        return {k[0]: k[1] for k in self.keys if k is not None}

    def _add(self, found: dict[Key, Binding]) -> None:
        for key, binding in found.items():
            add_options(self.options.setdefault(key, []), binding.all())
            if binding.variable:
                self.variable.add(key)

    @property
    def count(self) -> int:
        """How many indices and numbers in holes are carried."""
        holes = sum(len(option.numbers) for _, option in self.holes)
        return bool(self.flagged) + len(self.moving) + holes

    def inputs(self, graph: FuncGraph) -> list[Value]:
        return [graph.input(INT) for _ in range(self.count)]

    def attach(self, graph: FuncGraph, made: Sequence[Any], indices: Sequence[Value]) -> None:
        """Give the tensors that stand for the variables, in order, the memory that the indices say."""
        tensors = {
            k[0]: x
            for k, x in zip(self.keys, made, strict=True)
            if k is not None and isinstance(x, SymTensor)
        }
        values = iter(indices)
        ran = Ref(next(values), graph) if self.flagged else None
        index = {key: next(values) for key in self.moving}
        numbers = filled(self.holes, values, graph)

        def which(key: Key) -> Which:
            if key in index:
                return resolved(Ref(index[key], graph))
            return self._by_flag(key, ran) if key in self.flagged else first

        self.storages = {key: x.storage_ for key, x in tensors.items()}
        self.slots = attach(tensors, self.names, self.options, which, graph, self.variable, numbers)

    def _by_flag(self, key: Key, ran: Ref | None) -> Which:
        have = self.options[key]
        option = self.settled[key]
        assert ran is not None and option is not None
        after = position(have, option)
        entry = self.entry[key].settled if key in self.entry else None
        before = after if entry is None else position(have, entry)
        if before == after:
            return lambda graph: after
        if (before, after) == (0, 1):
            return resolved(ran)
        table = [before, after]
        return lambda graph: graph.emit("tg.choose", graph.resolve(ran), table, type=INT)

    def widen(
        self, graph: FuncGraph, state: Sequence[Place], specs: Sequence[Spec], contents: Sequence
    ) -> bool:
        """Take over what a traced body left; whether that asks for another round."""
        keys = variables(state, specs)
        traced = self.found = bindings(keys, contents, specs, graph)
        doubted = self._doubted(graph)
        settle(self.found, graph, self.slots, current_graph())
        again = self._take(self.found) or doubted
        if doubted and self.alone:
            self._foresee(traced, graph)
        return again or self._mistaken()

    def _take(self, found: Mapping[Key, Binding]) -> bool:
        """Take over what an iteration leaves; whether that says more than was known."""
        before = {key: len(options) for key, options in self.options.items()}
        self._add(found)
        again = False
        for key, binding in found.items():
            grown = len(self.options[key]) != before.get(key, 0)
            now = binding.settled
            was = self.settled.get(key, now)
            same = was is not None and now is not None and was.key == now.key
            self.settled[key] = now if same else None
            loosened = was is not None and not same
            alone = len(self.options[key]) == 1 and self._is_own(key)
            again = again or ((grown or loosened) and not alone)
        return again

    def _foresee(self, traced: Mapping[Key, Binding], graph: FuncGraph) -> None:
        """Take over what the next iterations leave as well; the next round looks whether it is so."""
        foresight = Foresight(traced, self.slots, graph, current_graph())
        for _ in range(LIMIT):
            self._add(self.entry)
            found = foresight.next(self.options)
            if found is None or not self._take(found):
                return
            self.foreseen = True

    def _mistaken(self) -> bool:
        """Give up what was foreseen and is not so; whether there is any."""
        if not self.foreseen or self.confirmed:
            return False
        self.foreseen = False
        for key, options in self.options.items():
            rows = [found[key] for found in (self.entry, self.found) if key in found]
            seen = {o.key for binding in rows for o in binding.all()}
            self.options[key] = [o for o in options if o.key in seen or not rows]
        return True

    def _doubted(self, graph: FuncGraph) -> bool:
        """Whether a variable of which it was expected is not left with a tensor of its own; then no expectation counts.

        What is found is then what it would be without them: the variables begin as the tensors from before the loop.
        """
        expected, self.expected = self.expected & self.found.keys(), set()
        if not expected:
            return False
        entry = {k: self.entry[k].tensors[0] for k in expected if k in self.entry}
        before = {i: x for i, k in self.slots.items() if (x := entry.get(k)) is not None}
        exact = {key: as_if(binding, before) for key, binding in self.found.items()}
        settle(exact, graph, self.slots, current_graph())
        if all({o.key for o in exact[k].all()} == {own_option(k).key} for k in expected):
            return False
        for key in expected:
            self.forget(key)
        self.found = {key: as_if(binding, before) for key, binding in self.found.items()}
        return True

    def _is_own(self, key: Key) -> bool:
        return self.options[key][0].slot == key and not self.options[key][0].chain

    def initial(self, graph: FuncGraph) -> list[Value]:
        """The indices before the first iteration."""
        return self._indices(self.entry, 0, graph)

    def final(self, graph: FuncGraph) -> list[Value]:
        """The indices after an iteration, in the graph of the body."""
        return self._indices(self.found, 1, graph)

    def _indices(self, bound: dict[Key, Any], began: int, graph: FuncGraph) -> list[Value]:
        """Which options the variables are bound to. ``began``: whether there was an iteration, where that is told."""
        found: list[Any] = [began] if self.flagged else []
        for k in self.moving:
            found.append(index_of(k, bound, self.options[k], graph) if k in bound else 0)
        found += [n for k, o in self.holes for n in numbers_of(k, o, bound, graph)]
        return [
            i if isinstance(i, Value) else graph.emit("py.constant", i, type=INT) for i in found
        ]


def _outer(binding: Binding) -> list[Option]:
    """The tensors from outside of the loop among what a variable may be."""
    return [o for o in binding.all() if o.tensor is not None]
