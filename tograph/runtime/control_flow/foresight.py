"""Which tensors a loop's variables may be in later iterations, from what one trace of the body left in them.

A trace takes each variable to be a tensor of its own. Where an iteration may leave one as it began (``if good: u = new``), that is not so: in
the second iteration ``u`` is what ``new`` was, in the third also what it itself was then. Tracing the body again tells one such step at a
time; here the steps are followed without: what stands for a variable is seen as each of the variable's options.

That holds as long as all that the trace knows of its variables is that each is a tensor of its own or one from before the loop. The
trace that follows checks it (``Carried.confirmed``). Views whose size or place only the run knows are left to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ..symbols.funcgraph import FuncGraph, Storage
from ..symbols.symbolic import SymTensor
from .identity import Binding, Key, Option, own_option, seen_through, settle
from .picking import fresh_view


def alone(key: Key, options: Sequence[Option]) -> bool:
    """Whether a variable may only be a tensor of its own, or one from before the loop."""
    return all(o.tensor is not None or o.key == own_option(key).key for o in options)


class Foresight:
    """The next iterations after a trace that left ``found``, in which ``slots`` were the storages of the variables, by their ids."""

    def __init__(self, found: Mapping[Key, Binding], slots: Mapping[int, Key], graph: FuncGraph, outer: FuncGraph):  # fmt: skip
        self.found, self.graph, self.outer = found, graph, outer
        self.slots = dict(slots)
        self.storages: dict[Key, Storage] = {}
        for binding in found.values():
            for x in binding.tensors:
                if x is not None and id(x.storage_) in slots:
                    self.storages[slots[id(x.storage_)]] = x.storage_

    def next(self, options: Mapping[Key, Sequence[Option]]) -> dict[Key, Binding] | None:
        """What an iteration leaves in the variables that began as their ``options``; None where that cannot be told."""
        made = {}
        for key, binding in self.found.items():
            tensors: list[SymTensor | None] = []
            for x in binding.tensors:
                began = None if x is None else self.slots.get(id(x.storage_))
                if x is None or began is None:
                    tensors.append(x)
                    continue
                for option in options.get(began) or [own_option(began)]:
                    seen = self._seen(option, x)
                    if seen is None:
                        return None
                    tensors.append(seen)
            made[key] = Binding(binding.which, _different(tensors), binding.variable)
        settle(made, self.graph, self.slots, self.outer)
        lost = any(o.bases or o.key[0] == "lost" for b in made.values() for o in b.all())
        return None if lost else made

    def _seen(self, option: Option, x: SymTensor) -> SymTensor | None:
        """What stands for a variable, or a view of that, as one of the variable's options."""
        if option.numbers or option.bases or not x.meta.static:
            return None
        if option.tensor is not None:
            return seen_through(option.tensor, x)
        if option.slot is None:
            return None
        storage = self.storages.get(option.slot)
        if storage is None:  # a variable that was no state in this trace
            storage = self.storages[option.slot] = Storage(x.meta, home=self.graph)
            self.slots[id(storage)] = option.slot
        return fresh_view(storage, (*option.chain, *x.chain), x.meta)


def _different(tensors: Sequence[SymTensor | None]) -> list[SymTensor | None]:
    """The tensors without those that come again."""
    made: dict[Hashable, SymTensor | None] = {}
    for x in tensors:
        made.setdefault(None if x is None else (id(x.storage_), *map(id, x.chain)), x)
    return list(made.values())
