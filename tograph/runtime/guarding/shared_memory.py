"""Tensors that share memory, one of which a trace writes, are views of one storage in the graph.

Captured tensors become such views when the function is traced again, with the memory known; an argument cannot be that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import SharedMemoryError
from ..symbols.funcgraph import user_location
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor, memory
from . import reads


class SharedMemory:
    """The memory of the tensors of one trace: those of the arguments (``given``), and those captured."""

    def __init__(
        self, root: Any, watch: reads.Watch, inputs: Sequence[SymTensor], given: Sequence[Any]
    ):
        self.root, self.watch, self.inputs, self.given = root, watch, inputs, given

    def check(self) -> None:
        """Trace anew where two tensors share memory and one is written; SharedMemoryError where that is not possible."""
        root = self.root
        for i in root.real:
            self.watch.argument(i, root.given[i])
        if not root.assigned:
            return
        known = [*root.captured.values(), *(x.storage_ for x in self.inputs)]
        written = [s for s in known if id(s) in root.assigned]
        self._guard(written)
        real = {id(s): self._real(s) for s in known if isinstance(self._real(s), torch.Tensor)}
        sharing = _by_memory(known, real)
        for s in written:
            if id(s) not in real:
                continue
            mine = real[id(s)]
            others = [o for o in sharing.get(memory(mine), ()) if real[id(o)] is not mine]
            if s.argument is not None:
                self.watch.apart(s.argument)
            if not others:
                continue
            both = [real[id(s)], *(real[id(o)] for o in others)]
            if any(x.requires_grad or x.dtype != both[0].dtype for x in both) or any(
                o.argument is not None for o in [s, *others]
            ):
                raise SharedMemoryError(
                    "a tensor that is written shares memory with another one that the function uses, and one of them is an argument or "
                    "requires grad. Pass one of them, and make the view inside of the function.",
                    user_location(),
                )
            raise Retrace(bases=frozenset([memory(both[0])]))

    def _guard(self, written: Sequence[Any]) -> None:
        """In other calls no argument overlaps a captured tensor, where one of both is written."""
        root = self.root
        places = tuple(i for i in range(len(self.given)) if i not in root.real)
        both = {s.argument for s in written}.intersection(places)
        stores = [s for s in root.captured.values() if isinstance(s.external, torch.Tensor)]
        ids = set(map(id, written))
        self.watch.clear(
            [s.external for s in stores],
            [places if id(s) in ids else tuple(sorted(both)) for s in stores],
        )

    def _real(self, storage: Any) -> Any:
        return storage.external if storage.argument is None else self.given[storage.argument]


def _by_memory(known: Sequence[Any], real: dict[int, Any]) -> dict[int, list[Any]]:
    """Storages by the memory that their tensors lie in, of those that have some."""
    found: dict[int, list[Any]] = {}
    for storage in known:
        if id(storage) in real and memory(real[id(storage)]):
            found.setdefault(memory(real[id(storage)]), []).append(storage)
    return found
