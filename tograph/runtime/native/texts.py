"""Texts in native code: numbers of records that the run makes (``text_pool``), so loops, branches and lists carry them as they carry numbers.

Joining, measuring and comparing are instructions, numbers and 0-d tensors are written by Python's own functions, and so is what a method of ``str``
gives. What is said of other values (a tensor of many elements, ``"%d" % n``) is a call of Python, as a print is.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, OBJECT, STR, ListType, ScalarType
from . import calls, list_memory
from .code import FLOATS
from .scalar_parts import cast
from .telling import Told, held
from .text_code import known, pool, string
from .text_types import MADE
from .values import Decline, Listed, Operand, Reg

if TYPE_CHECKING:
    from .lower import Lowering

_ORDERS = {"__eq__": "eq", "__ne__": "ne", "__lt__": "slt", "__le__": "sle", "__gt__": "sgt", "__ge__": "sge"}  # fmt: skip
_BUILT_INS = frozenset(["list", "ord", "int", "float"])


def concerns(node: Node) -> bool:
    """Whether a node makes a text, or asks one for something."""
    out = node.outputs[0].type if node.outputs else None
    if node.op == "py.text":
        return True
    return out == STR and (node.op in MADE or node.op in ("tg.choose", "py.constant"))


def lower(low: Lowering, node: Node) -> None:
    """Write a node of texts and bind its result."""
    low.native_ops += 1
    low.work += 30
    out = node.outputs[0]
    if out.type in (OBJECT, ListType(OBJECT)):
        raise Decline("a text beside objects of other kinds")
    if node.op == "tg.choose":
        found: Operand = _choice(low, *node.args)
    elif node.op == "py.constant":
        found = known(low, node.args[0] or "")  # None: where no text is ever read
    elif node.op == "py.format" and all(map(_simple, node.args)):
        found = _formatted(low, node.args)
    else:
        form = _form(low, node) if node.op == "py.text" else None
        found = form(low, *node.args[1:]) if form else _asked(low, node)
    low.dests.pop(out, None)
    low.bind(out, found)


def _text(low: Lowering, x: Any) -> str:
    """The number of an argument that is a text."""
    found = low.register(low.operand(x))
    if found.dtype != "text":
        raise Decline(f"a {found.dtype} where a text belongs")
    return found.text


def _made(low: Lowering, call: str) -> Reg:
    """The text that a function of the pool gives."""
    found = low.code.do(f"call i64 {call}")
    low.fail(low.code.do(f"icmp slt i64 {found}, 0"))
    return Reg(found, "text")


def _own(low: Lowering, object_: str) -> Reg:
    return _made(low, f"@text_own(ptr {pool(low)}, ptr {object_})")


# ---- making texts


def _choice(low: Lowering, number: Any, options: Any) -> Reg:
    """One of several texts: those that the code knows follow each other, so their numbers do."""
    at = low.numbers.number(low.register(low.operand(number)), "i64")
    if not any(isinstance(o, Value) for o in options):
        pool(low)
        table = f"@words{len(low.globals)}"
        numbers = ", ".join(f"i64 {known(low, o).text}" for o in options)
        low.globals[table] = f"{table} = private constant [{len(options)} x i64] [{numbers}]\n"
        place = low.code.do(f"getelementptr i64, ptr {table}, i64 {at}")
        return Reg(low.code.do(f"load i64, ptr {place}"), "text")
    first, *rest = (_text(low, o) for o in options)
    for i, other in enumerate(rest, 1):
        here = low.code.do(f"icmp eq i64 {at}, {i}")
        first = low.code.do(f"select i1 {here}, i64 {other}, i64 {first}")
    return Reg(first, "text")


def _simple(part: Any) -> bool:
    """Whether a part of an f-string is written without a call: a text, or a number in a format that is known."""
    if isinstance(part, str):
        return True
    value, conversion, spec = part
    if not isinstance(spec, str) or not isinstance(value, Value):
        return False
    if isinstance(value.type, ScalarType):
        return conversion in ("", "s") or (conversion == "r" and value.type != STR)
    return not conversion and getattr(value.type, "shape", None) == ()


def _formatted(low: Lowering, parts: tuple) -> Reg:
    found = [known(low, p) if isinstance(p, str) else _part(low, *p) for p in parts]
    made = found[0] if found else known(low, "")
    for x in found[1:]:
        made = _join(low, made, x)
    return made


def _join(low: Lowering, a: Reg, b: Reg) -> Reg:
    return _made(low, f"@text_join(ptr {pool(low)}, i64 {a.text}, i64 {b.text})")


def _part(low: Lowering, value: Value, conversion: str, spec: str) -> Reg:
    x = low.register(low.operand(value))
    if x.dtype == "text":
        return _spec(low, x, spec) if spec else x
    number = _number(low, x)
    text = "null" if conversion or not spec else string(low, known(low, spec).text)
    made = _made(low, f"@text_format(ptr {pool(low)}, ptr {number}, ptr {text})")
    return _spec(low, made, spec) if conversion and spec else made


def _spec(low: Lowering, x: Reg, spec: str) -> Reg:
    own, form = string(low, x.text), string(low, known(low, spec).text)
    return _own(low, low.code.do(f"call ptr @PyObject_Format(ptr {own}, ptr {form})"))


def _number(low: Lowering, x: Reg) -> str:
    """The Python number of a register: a new reference."""
    code = low.code
    if x.dtype == "bool":
        return code.do(f"call ptr @PyBool_FromLong(i64 {code.do(f'zext i1 {x.text} to i64')})")
    if x.dtype in FLOATS:
        return code.do(f"call ptr @PyFloat_FromDouble(double {cast(code, x.text, x.dtype, 'f64')})")
    return code.do(f"call ptr @PyLong_FromLongLong(i64 {cast(code, x.text, x.dtype, 'i64')})")


# ---- methods


def _form(low: Lowering, node: Node) -> Callable[..., Operand] | None:
    """What writes a method of ``str``; None where Python is asked for it as for a print."""
    name, *given = node.args
    if isinstance(node.outputs[0].type, ListType) or name in _BUILT_INS or not all(map(_plain, given)):  # fmt: skip
        return None
    if name in _ORDERS:
        return lambda low, a, b: _compared(low, _ORDERS[name], a, b)
    if name == "slice":
        return _slice if given[3] in (None, 1) and type(given[3]) is not bool else None
    own = {"__add__": _add, "__len__": _length, "__getitem__": _item}.get(name)
    if own is None and None in given:
        return None
    kind = node.outputs[0].type
    return own or (lambda low, *args: _method(low, name, kind, args))


def _plain(x: Any) -> bool:
    if isinstance(x, Value):
        return isinstance(x.type, ScalarType)
    return x is None or type(x) in (str, int, bool)


def _add(low: Lowering, a: Any, b: Any) -> Reg:
    return _join(low, Reg(_text(low, a), "text"), Reg(_text(low, b), "text"))


def _length(low: Lowering, x: Any) -> Reg:
    return Reg(low.code.do(f"call i64 @text_length(ptr {pool(low)}, i64 {_text(low, x)})"), "i64")


def _compared(low: Lowering, sign: str, a: Any, b: Any) -> Reg:
    code, rule = low.code, "text_differ" if sign in ("eq", "ne") else "text_compare"
    left, right = _text(low, a), _text(low, b)
    order = code.do(f"call i32 @{rule}(ptr {pool(low)}, i64 {left}, i64 {right})")
    low.fail(code.do(f"icmp eq i32 {order}, 2"))
    return Reg(code.do(f"icmp {sign} i32 {order}, 0"), "bool")


def _item(low: Lowering, x: Any, at: Any) -> Reg:
    """A character; an index that is none fails."""
    code, text = low.code, _text(low, x)
    index = low.numbers.number(low.register(low.operand(at)), "i64")
    length = _length(low, x).text
    index = _from_start(low, index, length)
    low.fail(code.do(f"icmp uge i64 {index}, {length}"))
    own = string(low, text)
    return _own(low, code.do(f"call ptr @PyUnicode_Substring(ptr {own}, i64 {index}, i64 {code.add(index, '1')})"))  # fmt: skip


def _from_start(low: Lowering, index: str, length: str) -> str:
    code = low.code
    below = code.do(f"icmp slt i64 {index}, 0")
    return code.do(f"select i1 {below}, i64 {code.do(f'add i64 {index}, {length}')}, i64 {index}")


def _slice(low: Lowering, x: Any, start: Any, stop: Any, step: Any) -> Reg:
    code, text, length = low.code, _text(low, x), _length(low, x).text
    code.declare("llvm.smax.i64", "i64 {}(i64, i64)")

    def bound(given: Any, default: str) -> str:
        if given is None:
            return default
        at = low.numbers.number(low.register(low.operand(given)), "i64")
        return code.do(f"call i64 @llvm.smax.i64(i64 {_from_start(low, at, length)}, i64 0)")

    first, last = bound(start, "0"), bound(stop, length)
    own = string(low, text)
    return _own(low, code.do(f"call ptr @PyUnicode_Substring(ptr {own}, i64 {first}, i64 {last})"))


def _method(low: Lowering, name: str, kind: Any, args: tuple) -> Reg:
    """``args[0].name(*args[1:])`` by Python."""
    code, given, numbers = low.code, [], []
    function = string(low, known(low, name).text)
    registers = [low.register(low.operand(a)) for a in args]
    texts = {x: string(low, x.text) for x in registers if x.dtype == "text"}
    for x in registers:
        if x not in texts:
            numbers.append(_number(low, x))
        given.append(texts[x] if x in texts else numbers[-1])
    rest = "".join(f", ptr {x}" for x in given[1:])
    got = code.do(f"call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr {given[0]}, ptr {function}{rest}, ptr null)")  # fmt: skip
    for x in numbers:
        code.line(f"call void @Py_DecRef(ptr {x})")
    if kind == STR:
        return _own(low, got)
    place = code.cell("i64")
    fine = code.do(f"call i1 @text_int(ptr {got}, ptr {place})")
    low.fail(code.do(f"xor i1 {fine}, true"))
    found = code.do(f"load i64, ptr {place}")
    return Reg(code.do(f"icmp ne i64 {found}, 0"), "bool") if kind.kind is bool else Reg(found, "i64")  # fmt: skip


# ---- texts that Python makes


class TextCall(Told):
    """What Python gives of a node: a text or a list of texts, whose reference goes to the code, or a number."""

    native_ops, spare = 1, 2

    def __init__(self, node: Node, given: dict[Value, Any]):
        super().__init__(node, given)
        self.kind = node.outputs[0].type

    def __call__(self, address: int) -> bool:
        found = self.made(address)
        if isinstance(self.kind, ListType):
            good = type(found) is list and all(type(x) is str for x in found)
        else:
            good = type(found) is self.kind.kind
        if not good:
            return False
        if self.kind == STR or isinstance(self.kind, ListType):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
            words = struct.pack("2q", id(found), len(found))
        else:
            try:
                words = struct.pack("dq" if self.kind.kind is float else "2q", found, 0)
            except struct.error:  # an int of more than 64 bits
                return False
        ctypes.memmove(address + 8 * self.words, words, 16)
        return True


def _asked(low: Lowering, node: Node) -> Operand:
    given = held(low, node)
    call = TextCall(node, given)
    code, block = low.code, calls.block(low, call, call.leaves)
    pool(low)
    calls.ask(low, call, block)
    place = code.do(f"getelementptr i64, ptr {block}, i64 {call.words}")
    kind = node.outputs[0].type
    if isinstance(kind, ListType):
        return _listed(low, place)
    if kind == STR:
        return _own(low, code.do(f"load ptr, ptr {place}"))
    return Reg(code.load(DTYPE_NAMES[kind.dtype], place), DTYPE_NAMES[kind.dtype])


def _listed(low: Lowering, place: str) -> Listed:
    """The strings of a Python list as a list of texts."""
    code, made = low.code, list_memory.fresh(low, STR)
    items = code.do(f"load ptr, ptr {place}")
    length = code.do(f"load i64, ptr {code.do(f'getelementptr i64, ptr {place}, i64 1')}")
    room = list_memory.reserve(low, made, "0", length)
    fine = code.do(f"call i1 @text_items(ptr {pool(low)}, ptr {items}, ptr {room})")
    low.fail(code.do(f"xor i1 {fine}, true"))
    return replace(made, length=length)
