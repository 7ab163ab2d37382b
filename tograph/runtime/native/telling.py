"""Prints inside of native code, and the texts that they are made of.

A print is a call of Python like that of an op (``calls``). A text (an f-string, ``"%d" % n``) is not made where it stands but where it
is printed: ``Text`` holds the numbers, and copies of the tensors, that it says. One that may fail is made at its place too, for the
failure. What a call has printed when its code declines is passed over when the host runs the call again (``prints``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..graph import ops, prints
from ..graph.families import FORMATS
from ..graph.ir import Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.types import ObjectType
from . import calls
from .callees import Call, lies
from .values import NO_OWNERS, Decline, Listed, Mem

if TYPE_CHECKING:
    from .lower import Lowering

FAILED = object()


@dataclass(frozen=True)
class Text:
    """A text that is made where it is printed. ``held``: what stands for the inputs of its node."""

    node: Node
    held: dict[Value, Any] = field(hash=False)
    owners: frozenset[int] = NO_OWNERS

    dtype, size, alias = "text", None, "false"
    dense = plain = ordered = settled = True


class Told(Call):
    """A print, or the check that a text can be made. ``printed``: how many times it has printed since it was set to 0."""

    native_ops = 1

    def __init__(self, node: Node, held: dict[Value, Any]):
        self.leaves = list(dict.fromkeys(_leaves(held)))
        super().__init__(node, [], self.leaves, [], [], [])
        self.held, self.printed = held, 0

    def __call__(self, address: int) -> bool:
        if self.made(address) is FAILED:
            return False
        self.printed += self.node.op == "tg.print"
        return True

    def made(self, address: int) -> Any:
        """What the node gives; ``FAILED`` where it raises."""
        slots = self.slots(ctypes.string_at(address, 8 * self.words))
        sizes = dict(zip(self.opened, slots[len(self._operands) :]))
        known = {x: self._value(x, bits, lies(x, sizes)) for x, bits in zip(self._operands, slots)}
        try:
            return self._made(self.node, self.held, known)
        except Exception as error:  # of formatting, or of the file that is printed to: the host runs the call again and raises it
            if self.node.unsure:
                prints.failed(error)
            return FAILED

    def _made(self, node: Node, held: dict[Value, Any], known: dict[Any, Any]) -> Any:
        """What a node gives, the texts in it made first."""

        def value(v: Value) -> Any:
            x = held[v]
            return self._made(x.node, x.held, known) if isinstance(x, Text) else known[x]

        args, kwargs = map_values(value, node.args), map_values(value, node.kwargs)
        return ops.lookup(node.op).run(*args, **kwargs)


def _leaves(held: dict[Value, Any]) -> Iterator[Any]:
    for x in held.values():
        if isinstance(x, Text):
            yield from _leaves(x.held)
        else:
            yield x


def is_text(node: Node) -> bool:
    """Whether a node makes a text that native code can keep until it is printed."""
    return node.op in FORMATS and isinstance(node.outputs[0].type, ObjectType)


def text(low: Lowering, node: Node) -> None:
    """Keep what a text says."""
    kept = {v: _kept(low, _operand(low, v)) for v in dict.fromkeys(node.inputs)}
    owners = frozenset().union(*(x.owners for x in kept.values()))
    if node_effects(node).may_fail:
        _tell(low, node, kept)
    low.bind(node.outputs[0], Text(node, kept, owners))


def _kept(low: Lowering, x: Any) -> Any:
    """An operand that stays what it is when memory is used again."""
    if not isinstance(x, Mem):
        return x
    made = low.new(x.dtype, x.size)
    low.copy(x, made)
    return made


def _operand(low: Lowering, v: Value) -> Any:
    x = low.operand(v)
    if isinstance(x, Listed):
        raise Decline("a list that is printed")
    return x if isinstance(x, Text) else calls.placed(low, v)


def show(low: Lowering, node: Node) -> None:
    """Write a print."""
    _tell(low, node, held(low, node))


def held(low: Lowering, node: Node) -> dict[Value, Any]:
    """What stands for the inputs of a node that Python runs."""
    return {v: _operand(low, v) for v in dict.fromkeys(node.inputs)}


def _tell(low: Lowering, node: Node, given: dict[Value, Any]) -> None:
    told = Told(node, given)
    calls.ask(low, told, calls.block(low, told, told.leaves))


def printed(made: list[Any]) -> int:
    """How many prints the calls of a program have made, which begin to count anew."""
    count = 0
    for x in made:
        if isinstance(x, Told):
            count, x.printed = count + x.printed, 0
    return count


def tells(made: list[Any]) -> bool:
    """Whether a program prints."""
    return any(isinstance(x, Told) and x.node.op == "tg.print" for x in made)


__all__ = ["Text", "Told", "held", "is_text", "printed", "show", "tells", "text"]
