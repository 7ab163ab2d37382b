"""Numbers from outside in native code: what Python's random generators draw and clocks show, by calls of Python in their order.

What a call was given before its code declines is given again when the host runs it (``graph.outside``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..graph import outside
from ..graph.ir import Node, Value, map_values
from ..graph.ops import plain
from . import calls
from .callees import Call
from .values import Reg

if TYPE_CHECKING:
    from .lower import Lowering

OP = "py.outside"
_WORDS = {float: (ctypes.c_double, "f64"), int: (ctypes.c_int64, "i64"), bool: (ctypes.c_int64, "bool")}  # fmt: skip


class Asked(Call):
    """One number. ``self(address)`` of a block of slots: the numbers that the function takes, and the word for what it gives.

    ``numbers``: what this run has been given so far.
    """

    numbers: outside.Numbers
    _place: Any  # the word, at the address of the last block

    native_ops, spare = 0, 1  # the host would call Python as well

    def __init__(self, node: Node, inputs: list[Value], operands: list[Any]):
        super().__init__(node, inputs, operands, [], [], [])
        self.kind = node.outputs[0].type.kind
        self._function, self._word = plain(node.args[0]), _WORDS[self.kind][0]
        self._address, self._place = 0, None

    def __call__(self, address: int) -> bool:
        try:
            found = self._function(*self._arguments(address))
        except Exception as error:  # Python's functions raise anything: the host, which runs the call again, raises it
            self.numbers.add(outside.Raised(error))
            return False
        self.numbers.add(found)
        if address != self._address:
            self._address = address
            self._place = self._word.from_address(address + 8 * self.words)
        if type(found) is not self.kind:
            return False
        self._place.value = found  # of an integer that is too long the last 64 bits
        return self.kind is not int or self._place.value == found

    def _arguments(self, address: int) -> Sequence[Any]:
        if not self._operands:
            return self.node.args[1:]
        slots = self.slots(ctypes.string_at(address, 8 * self.words))
        known = {v: self._value(x, bits, {}) for v, x, bits in zip(self._inputs, self._operands, slots)}  # fmt: skip
        return map_values(known.__getitem__, self.node.args[1:])


def lower(low: Lowering, node: Node) -> Reg:
    """Write the call; what it gives."""
    inputs = list(dict.fromkeys(node.inputs))
    operands = [calls.placed(low, v) for v in inputs]
    call = Asked(node, inputs, operands)
    slots = calls.block(low, call, operands)
    calls.ask(low, call, slots)
    code, (_, dtype) = low.code, _WORDS[call.kind]
    place = code.do(f"getelementptr i64, ptr {slots}, i64 {call.words}")
    if call.kind is float:
        return Reg(code.do(f"load double, ptr {place}"), dtype)
    word = code.do(f"load i64, ptr {place}")
    return Reg(code.do(f"trunc i64 {word} to i1") if call.kind is bool else word, dtype)


def asked(made: Sequence[Call]) -> list[Asked]:
    """The calls of a program that ask for numbers."""
    return [x for x in made if isinstance(x, Asked)]
