"""Variables that are computed where they are: a new value goes straight into the memory of the old one.

A loop nest may write what a variable becomes into the variable itself when nothing needs the old value afterwards, the
nest reads it only at the element that it writes, and nothing behind it may decline: native code that has
written outside cannot leave the graph to the host any more. The last of these shows only further on in the graph; then
``Late`` is raised, and the graph is lowered again without direct writes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..graph.ir import Node, Value
from ..kernels.build import Region
from ..kernels.loop_ir import Kernel
from .groups import Group, known_numel, overwrites
from .values import NO_OWNERS, Mem, Operand

if TYPE_CHECKING:
    from .lower import Lowering


class Late(Exception):
    """Something may decline after a variable was written."""


class Writes:
    """The direct writes of one graph. ``begun``: whether there was one."""

    def __init__(self, low: Lowering, allowed: bool):
        self.low, self.begun = low, False
        self.places: dict[Value, Mem] = {}
        assigns = [n for n in low.graph.nodes if n.op == "tg.assign"]
        self._owners = {r: low.arena.pin() for r in dict.fromkeys(n.args[0] for n in assigns)}
        assigns = assigns if allowed else []
        count: dict[Value, int] = {}
        for n in assigns:
            count[n.args[0]] = count.get(n.args[0], 0) + 1
        self._resource = {n.args[1]: n.args[0] for n in assigns if count[n.args[0]] == 1}
        found = overwrites(low.graph)
        for v, r in list(self._resource.items()):  # updates of updates
            while v in found:
                v = found[v][0]
                self._resource.setdefault(v, r)
        self._assign = {n.args[0]: n for n in assigns}
        self._done: set[Node] = set()
        self._dying: Collection[Value] = ()

    def owners(self, resource: Value) -> frozenset[int]:
        """The owner that stands for the memory of a variable."""
        owner = self._owners.get(resource)
        return NO_OWNERS if owner is None else frozenset([owner])

    def enter(self, group: Group, dying: Collection[Value]) -> None:
        """The next group, and the values that nothing reads behind it."""
        self._done.update(group.nodes)
        self._dying = dying

    def place(self, v: Value, kernel: Kernel, region: Region) -> Mem | None:
        """The memory of the variable that ``v`` is assigned to, if ``kernel`` may write there."""
        resource = self._resource.get(v)
        if resource is None or resource in self.places or v in self.low.dests:
            return None
        held = self.low.env[resource]
        dtype, size = self.low.tensor(v)
        if (
            not isinstance(held, Mem)
            or (held.dtype, held.size) != (dtype, size)
            or known_numel(size) == 1
        ):
            return None
        if kernel.row or kernel.may_fail or not self._last(resource) or not self._same_place(v, held, kernel, region):  # fmt: skip
            return None
        self.begun = True
        self.places[resource] = held
        return Mem(held.pointer, dtype, size, held.stride, held.owners)

    def update(self, node: Node) -> Mem | None:
        """The memory of the variable that an update of a part is assigned to, if it may be made there."""
        v = node.outputs[0]
        resource = self._resource.get(v)
        if resource is None or v in self.low.dests:
            return None
        held, base = self.low.env[resource], self.low.operand(node.args[0])
        if not isinstance(held, Mem) or getattr(base, "pointer", None) != held.pointer:
            return None
        again = resource in self.places and node in self.low.overwrites
        if not again and (resource in self.places or not self._last(resource)):
            return None
        others = [u for u in node.inputs if u is not node.args[0]]
        if any(self._inside(self.low.operand(u), held) for u in others):
            return None
        self.begun = True
        self.places[resource] = held
        return Mem(held.pointer, held.dtype, held.size, held.stride, held.owners)

    def _last(self, resource: Value) -> bool:
        """Whether the group being written is the last that reads the old value."""
        (owner,) = self.owners(resource)
        env = self.low.env
        dying = sum(owner in env[u].owners for u in self._dying if u in env)
        assign = self._assign[resource]
        for n in self.low.graph.nodes:
            if n is assign:
                break
            if resource in n.inputs and n not in self._done:
                return False
        return self.low.arena.holders(owner) == 2 + dying  # the pin itself, and the resource's name

    def _same_place(self, v: Value, held: Mem, kernel: Kernel, region: Region) -> bool:
        """Whether all that the nest reads of the old value is at the element that it writes."""
        name = f"o{region.outputs.index(v)}"
        (address,) = (s.address for s in kernel.stores if s.buffer == name)
        reads = {f"p{i}" for i, u in enumerate(region.inputs) if self._inside(self.low.operand(u), held)}  # fmt: skip
        return all(e.address == address for e in kernel.body if e.op == "load" and e.name in reads)

    def _inside(self, x: Operand, held: Mem) -> bool:
        return bool(x.owners & held.owners)

    def apart(self, x: Operand) -> Operand:
        """``x``, copied if it is in the memory of a variable that is written."""
        if not x.owners & frozenset(self._owners.values()) or not isinstance(x, Mem):
            return x
        made = self.low.new(x.dtype, x.size)
        self.low.arena.hold(made.owners)
        self.low.copy(x, made)
        return made

    def stands_in(self, resource: Value, x: Operand) -> bool:
        """Whether ``x`` is in the variable's own memory already."""
        return resource in self.places and getattr(x, "pointer", None) == self.places[resource].pointer  # fmt: skip
