"""Numbers that Python computes in native code: those from outside, which its random generators draw and clocks show, in their order, and
those of ops that have no machine form, such as ``round(x, 3)``.

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
from .callees import Call, lies
from .values import Reg

if TYPE_CHECKING:
    from .lower import Lowering

OP = "py.outside"
_WORDS = {float: (ctypes.c_double, "f64"), int: (ctypes.c_int64, "i64"), bool: (ctypes.c_int64, "bool")}  # fmt: skip


class Computed(Call):
    """One number that Python computes. ``self(address)`` of a block of slots: the numbers that it takes, and the word for what it gives."""

    _place: Any  # the word, at the address of the last block

    native_ops, spare = 1, 1
    first = 0  # of the arguments that the function takes

    def __init__(self, node: Node, inputs: list[Value], operands: list[Any]):
        super().__init__(node, inputs, operands, [], [], [])
        self.kind = node.outputs[0].type.kind
        self._word = _WORDS[self.kind][0]
        self._address, self._place = 0, None

    def __reduce__(self) -> Any:
        kind, (node, inputs, operands, *_) = super().__reduce__()
        return kind, (node, inputs, operands)

    def __call__(self, address: int) -> bool:
        try:
            found = self._found(self._arguments(address))
        except (
            Exception
        ):  # Python's functions raise anything: the host, which runs the call again, raises it
            return False
        if address != self._address:
            self._address = address
            self._place = self._word.from_address(address + 8 * self.words)
        if type(found) is not self.kind:
            return False
        self._place.value = found  # of an integer that is too long the last 64 bits
        return self.kind is not int or self._place.value == found

    def _found(self, given: Sequence[Any]) -> Any:
        return self.run(*given)

    def _arguments(self, address: int) -> Sequence[Any]:
        if not self._operands:
            return self.node.args[self.first :]
        slots = self.slots(ctypes.string_at(address, 8 * self.words))
        known = {v: self._value(x, bits, lies(x, {})) for v, x, bits in zip(self._inputs, self._operands, slots)}  # fmt: skip
        return map_values(known.__getitem__, self.node.args[self.first :])


class Asked(Computed):
    """One number from outside. ``numbers``: what this run has been given so far."""

    numbers: outside.Numbers

    native_ops = 0  # the host would call Python as well
    first = 1

    def __init__(self, node: Node, inputs: list[Value], operands: list[Any]):
        super().__init__(node, inputs, operands)
        self._function = plain(node.args[0])

    def _found(self, given: Sequence[Any]) -> Any:
        try:
            found = self._function(*given)
        except Exception as error:  # Python's functions raise anything: the host raises it again
            self.numbers.add(outside.Raised(error))
            raise
        self.numbers.add(found)
        return found


def lower(low: Lowering, node: Node) -> Reg:
    """Write the call; what it gives."""
    inputs = list(dict.fromkeys(node.inputs))
    operands = [calls.placed(low, v) for v in inputs]
    call = (Asked if node.op == OP else Computed)(node, inputs, operands)
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
