"""Random numbers of torch's CPU generators, bit by bit those of eager PyTorch: uniform, normal, integer, Bernoulli, permutations.

Elements are drawn in the order of memory, under the generator's lock. What is not drawn by a formula that is known (``generator``), other
dtypes, 16 normal numbers and more, and tensors that are not contiguous are asked of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..graph.generators import generator_of
from ..graph.ir import Node, Value
from ..kernels.loop_ir import Open
from . import calls, generator, walks
from .code import REGISTER, literal
from .drawing import UNIFORM, Draw, Drawing, locked, of_host
from .groups import one_element
from .values import Decline, Mem, Reg, numel

if TYPE_CHECKING:
    import torch

    from .lower import Lowering


def lower(low: Lowering, node: Node) -> None:
    """Write the node, or a call of torch where it has another form."""
    v = node.outputs[0]
    try:
        kind, prepare = RULES[node.op]
        if not generator.known(kind):
            raise Decline(f"{node.op} draws in another way here")
        dtype, size = low.tensor(v)
        if v not in low.used or not of_host(node):
            raise Decline(f"{node.op} of another generator")
        if any(isinstance(n, Open) for n in size) or 0 in size or not _in_order(low, node):
            raise Decline(f"{node.op} of another layout")
        draw = prepare(low, node, dtype, size)
    except Decline:
        calls.lower(low, node)
        return
    low.native_ops += 1
    low.work += 20 * numel(size)
    own = generator_of(node)
    if one_element(v):
        with locked(low, own) as drawing:
            text = draw(drawing, "0")
        low.bind(v, Reg(text, dtype, size))
        return
    place = low.target(v)
    low.arena.hold(place.owners)
    out = place if place.contiguous else low.new(dtype, size)
    if kind == "order":
        _permute(low, out, numel(size), own)
    else:
        with locked(low, own) as drawing, walks.counted(low.code, str(numel(size))) as i:
            low.code.store(dtype, draw(drawing, i), out.pointer, i)
    if out is not place:
        low.copy(out, place)
    low.bind(v, place)
    low.release([place])


def _in_order(low: Lowering, node: Node) -> bool:
    """Whether all tensors that the node is given are contiguous: their elements are those of the result, by number."""
    return all(one_element(a) or low.operand(a).plain for a in node.inputs)


def _permute(low: Lowering, out: Mem, n: int, own: torch.Generator | None) -> None:
    """The numbers below ``n`` in a random order: each changes places with one from there on."""
    code = low.code
    with walks.counted(code, str(n)) as i:
        code.store("i64", i, out.pointer, i)
    with locked(low, own) as drawing, walks.counted(code, str(n - 1)) as i:
        step = drawing.below(code.do(f"sub i64 {n}, {i}"), "false")
        k = code.do(f"add i64 {i}, {step}")
        here, there = code.load("i64", out.pointer, i), code.load("i64", out.pointer, k)
        code.store("i64", there, out.pointer, i)
        code.store("i64", here, out.pointer, k)


# ---- the distributions


def _real(dtype: str) -> None:
    if dtype not in UNIFORM:
        raise Decline(f"draws of {dtype}")


def _rand(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    _real(dtype)
    return lambda drawing, i: drawing.uniform(dtype)


def _uniform(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    _real(dtype)
    low_, high = (*node.args[1:], 0.0, 1.0)[:2] if len(node.args) != 2 else (node.args[1], 1.0)
    if isinstance(low_, Value) or isinstance(high, Value) or not low_ <= high:
        raise Decline("bounds that only the run knows")
    kind, first = REGISTER[dtype], literal(low_, dtype)

    def draw(drawing: Drawing, i: str) -> str:
        code, number = low.code, drawing.uniform(dtype)
        span = code.do(f"fsub {kind} {literal(high, dtype)}, {first}")
        return code.do(f"fadd {kind} {code.do(f'fmul {kind} {number}, {span}')}, {first}")

    return draw


def _scaled(low: Lowering, number: str, mean: Any, deviation: Any, dtype: str) -> str:
    code = low.code
    if (mean, deviation) != (0.0, 1.0):
        scale, shift = literal(deviation, "f64"), literal(mean, "f64")
        code.declare("llvm.fma.f64", "double {}(double, double, double)")
        number = code.do(
            f"call double @llvm.fma.f64(double {number}, double {scale}, double {shift})"
        )
    return number if dtype == "f64" else code.do(f"fptrunc double {number} to float")


def _few(dtype: str, size: tuple) -> None:
    _real(dtype)
    if numel(size) >= generator.SMALL:
        raise Decline("many normal numbers")


def _randn(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    _few(dtype, size)
    return lambda drawing, i: _scaled(low, drawing.normal(), 0.0, 1.0, dtype)


def _normal(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    """``normal_(mean, deviation)`` and ``normal(mean, deviation, size)`` of numbers."""
    _few(dtype, size)
    first = 1 if node.op == "aten.normal_functional.default" else 0
    mean, deviation = (*node.args[first : first + 2], 0.0, 1.0)[:2]
    if isinstance(mean, Value) or isinstance(deviation, Value) or not deviation >= 0:
        raise Decline("parameters that only the run knows")
    mean, deviation = float(mean), float(deviation)
    return lambda drawing, i: _scaled(low, drawing.normal(), mean, deviation, dtype)


def _around(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    """``normal(mean, deviation)`` of tensors of one size, or one of them a number: a standard draw that is scaled and moved, each rounded."""
    _few(dtype, size)
    given = [_parameter(low, a, dtype, size) for a in (*node.args, 1.0)[:2]]
    deviation = given[1]
    if isinstance(node.args[0], Value) and not isinstance((*node.args, 1.0)[1], Value):
        return _moved(low, given[0], float((*node.args, 1.0)[1]), dtype)
    kind, code = REGISTER[dtype], low.code
    if isinstance(deviation, Mem):
        with walks.counted(code, str(numel(size))) as i:
            x = code.load(dtype, deviation.pointer, i)
            low.fail(code.do(f"fcmp ult {kind} {x}, {literal(0.0, dtype)}"))
    else:
        low.fail(code.do(f"fcmp ult {kind} {deviation.text}, {literal(0.0, dtype)}"))

    def draw(drawing: Drawing, i: str) -> str:
        number = _scaled(low, drawing.normal(), 0.0, 1.0, dtype)
        mean, scale = (_at(low, x, dtype, i) for x in given)
        scaled = code.do(f"fmul {kind} {number}, {scale}")
        return code.do(f"fadd {kind} {scaled}, {mean}")

    return draw


def _moved(low: Lowering, mean: Mem | Reg, deviation: float, dtype: str) -> Draw:
    """By a number: scaled while it is drawn."""
    if not deviation >= 0:
        raise Decline("a negative deviation")

    def draw(drawing: Drawing, i: str) -> str:
        number = _scaled(low, drawing.normal(), 0.0, deviation, dtype)
        return low.code.do(f"fadd {REGISTER[dtype]} {number}, {_at(low, mean, dtype, i)}")

    return draw


def _parameter(low: Lowering, a: Any, dtype: str, size: tuple) -> Mem | Reg:
    if not isinstance(a, Value):
        return Reg(literal(float(a), dtype), dtype)
    x = low.operand(a)
    if x.dtype != dtype or x.size is None or tuple(x.size) != tuple(size):
        raise Decline("parameters of another type or size")
    return low.register(x) if one_element(a) else low.memory(x)


def _at(low: Lowering, x: Mem | Reg, dtype: str, i: str) -> str:
    return low.code.load(dtype, x.pointer, i) if isinstance(x, Mem) else x.text


_EXACT = {"i64": 1 << 62, "i32": 1 << 30, "f32": 1 << 24, "f64": 1 << 53}


def _between(low: Lowering, first: Any, end: Any, dtype: str) -> Draw:
    """Integers from ``first`` to below ``end``, of which a number has to be between."""
    known = not isinstance(first, Value) and not isinstance(end, Value)
    if dtype not in _EXACT or not (known or dtype == "i64"):
        raise Decline(f"integers of type {dtype}")
    if known and (not first < end or max(abs(first), abs(end)) > _EXACT[dtype]):
        raise Decline("bounds that do not fit")
    code = low.code
    start, stop = (low.register(low.operand(a)) for a in (first, end))
    if start.dtype != "i64" or stop.dtype != "i64":
        raise Decline("bounds that are no integers")
    low.fail(code.do(f"icmp sge i64 {start.text}, {stop.text}"))
    count = code.do(f"sub i64 {stop.text}, {start.text}")
    wide = code.do(f"icmp uge i64 {count}, {generator.WIDE}")

    def draw(drawing: Drawing, i: str) -> str:
        found = code.do(f"add i64 {drawing.below(count, wide)}, {start.text}")
        if dtype == "i64":
            return found
        how = "trunc" if dtype == "i32" else "sitofp"
        return code.do(f"{how} i64 {found} to {REGISTER[dtype]}")

    return draw


def _to(at: int) -> Callable[[Any, Node, str, tuple], Draw]:
    """Integers from 0 to below the argument at a place."""
    return lambda low, node, dtype, size: _between(low, 0, node.args[at], dtype)


def _from(at: int) -> Callable[[Any, Node, str, tuple], Draw]:
    """Integers between the argument at a place and the next one."""
    return lambda low, node, dtype, size: _between(low, node.args[at], node.args[at + 1], dtype)


def _chosen(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    """1 with the chance that a tensor gives for each element."""
    _real(dtype)
    chance, code, kind = _parameter(low, node.args[0], dtype, size), low.code, REGISTER[dtype]
    zero, one = literal(0.0, dtype), literal(1.0, dtype)

    def check(x: str) -> None:
        low.fail(code.do(f"fcmp ult {kind} {x}, {zero}"))
        low.fail(code.do(f"fcmp ugt {kind} {x}, {one}"))

    if isinstance(chance, Mem):
        with walks.counted(code, str(numel(size))) as i:
            check(code.load(dtype, chance.pointer, i))
    else:
        check(chance.text)

    def draw(drawing: Drawing, i: str) -> str:
        less = code.do(f"fcmp olt {kind} {drawing.uniform(dtype)}, {_at(low, chance, dtype, i)}")
        return code.do(f"select i1 {less}, {kind} {one}, {kind} {zero}")

    return draw


def _flipped(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    """1 with one chance for all elements."""
    _real(dtype)
    chance = (*node.args[1:], 0.5)[0]
    if isinstance(chance, Value) or not 0 <= chance <= 1:
        raise Decline("a chance that only the run knows")
    code, kind = low.code, REGISTER[dtype]

    def draw(drawing: Drawing, i: str) -> str:
        number = drawing.uniform("f64")
        less = code.do(f"fcmp olt double {number}, {literal(float(chance), 'f64')}")
        return code.do(
            f"select i1 {less}, {kind} {literal(1.0, dtype)}, {kind} {literal(0.0, dtype)}"
        )

    return draw


def _order(low: Lowering, node: Node, dtype: str, size: tuple) -> Draw:
    if dtype != "i64" or not 2 <= numel(size) < generator.WIDE:
        raise Decline("a permutation in another form")
    return lambda drawing, i: i  # see ``_permute``


RULES: dict[str, tuple[str, Callable[[Any, Node, str, tuple], Draw]]] = {
    "aten.rand.default": ("uniform", _rand),
    "aten.rand.generator": ("uniform", _rand),
    "aten.rand_like.default": ("uniform", _rand),
    "aten.rand_like.generator": ("uniform", _rand),
    "aten.uniform.default": ("uniform", _uniform),
    "aten.randn.default": ("normal", _randn),
    "aten.randn.generator": ("normal", _randn),
    "aten.randn_like.default": ("normal", _randn),
    "aten.randn_like.generator": ("normal", _randn),
    "aten.normal_functional.default": ("normal", _normal),
    "aten.normal.float_float": ("normal", _normal),
    "aten.normal.Tensor_float": ("normal", _around),
    "aten.normal.float_Tensor": ("normal", _around),
    "aten.normal.Tensor_Tensor": ("normal", _around),
    "aten.randint.default": ("integer", _to(0)),
    "aten.randint.generator": ("integer", _to(0)),
    "aten.randint.low": ("integer", _from(0)),
    "aten.randint.low_generator": ("integer", _from(0)),
    "aten.randint_like.default": ("integer", _to(1)),
    "aten.randint_like.generator": ("integer", _to(1)),
    "aten.randint_like.low_dtype": ("integer", _from(1)),
    "aten.randint_like.low_generator_dtype": ("integer", _from(1)),
    "aten.random.to": ("integer", _to(1)),
    "aten.random.from": ("integer", _from(1)),
    "aten.bernoulli.default": ("chosen", _chosen),
    "aten.bernoulli.p": ("flipped", _flipped),
    "aten.randperm.default": ("order", _order),
    "aten.randperm.generator": ("order", _order),
}
