"""Ops without a native form inside of native code: torch runs them, on tensors in the program's own memory.

A call asks a Python object by way of the interpreter, which native code has locked anyway, for one op: the object views the
memory of the operands as tensors, runs the op and copies what it gives to the results' memory. So one op that has no
native form does not send a whole loop to Python. It costs a few microseconds, so a graph must have more native ops
than calls (``worth``). An op that raises makes the code decline, and the host raises the error at the user's line; an
interrupt goes up at once. Ops that draw random numbers are run too: ``Native`` puts the generator's state back when the
code declines. A result whose size only the op tells (``unique``) is kept by the object until the code has copied it to a buffer.

The first word of the arena points to the table of these objects, which ``Native`` makes: the text of the code has no address
in it and is the same in every process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from ..graph import ops
from ..graph.ir import Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.types import DTYPE_NAMES, DTYPES, ScalarType, TensorType
from ..inference.infer import meta_of
from ..inference.shapes import RULES, Meta
from ..kernels.loop_ir import LONGEST
from . import list_items, text_code
from .callees import Call, Later, Own, laid, opened, without_gaps
from .code import SIZE
from .drawing import of_host
from .extents import several
from .groups import one_element
from .values import Decline, Mem, Reg, alike, in_a_row, laid_out, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering

FILL = "tg.random_fill"  # of memory of given strides
SEEDS = frozenset(
    ["tg.manual_seed", "tg.rng_state", "tg.set_rng_state"]
)  # seeds and states of generators
# Their results lie in a row, however the operands lie.
IN_A_ROW = frozenset(["aten.embedding_dense_backward.default", "aten._cdist_forward.default", "aten.histc.default"])  # fmt: skip
LARGE = 1 << 14  # bytes of a result that leaves where torch has put it
TRIED = 1 << 16  # elements that an op may be tried on while code is written
SIZES = (3, 6)  # that stand for open ones there
# Ops that look at all sizes they are given. Others, such as those of oneDNN with the workspace of a recurrent layer, write past the end where one does not fit.
LOOKS = ("aten.linalg_", "aten._linalg_", "aten._fft_", "aten.sort.", "aten.topk.", "aten.cholesky", "aten.triangular_solve.", "aten.lu_")  # fmt: skip

_ASK = """define internal i32 @ask(ptr %callee, ptr %block) noinline {
  %address = call ptr @PyLong_FromVoidPtr(ptr %block)
  %result = call ptr @PyObject_CallFunctionObjArgs(ptr %callee, ptr %address, ptr null)
  call void @Py_DecRef(ptr %address)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %stop, label %look
look:
  %true = call i32 @PyObject_IsTrue(ptr %result)
  call void @Py_DecRef(ptr %result)
  %code = icmp ne i32 %true, 1
  %declined = zext i1 %code to i32
  ret i32 %declined
stop:
  ret i32 2
}
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ptr, ...)
declare i32 @PyObject_IsTrue(ptr)
"""


def may_call(node: Node) -> bool:
    """Whether torch may run a node for native code: it only computes, and has tensors and numbers only."""
    effects = node_effects(node)
    if not (node.op.startswith("aten.") or node.op == FILL or node.op in SEEDS) or node.regions:
        return False
    if effects.io or effects.reads or effects.writes or effects.overwrites or effects.diverges:
        return False
    return of_host(node) and all(isinstance(v.type, (TensorType, ScalarType)) for v in (*node.inputs, *node.outputs))  # fmt: skip


def lower(low: Lowering, node: Node) -> None:
    """Write the call of an op and bind its results."""
    if not may_call(node):
        raise Decline(f"{node.op} has no native form")
    inputs = list(dict.fromkeys(node.inputs))
    operands = [placed(low, v) for v in inputs]
    used = [v for v in node.outputs if v in low.used]
    layouts = _layouts(node, inputs, operands)
    targets = [_target(low, v, layouts[v.index]) for v in used]
    for x in targets:
        low.arena.hold(x.owners)
    exact = [layouts[v.index] is not False for v in used]
    call = Call(node, inputs, operands, targets, exact, [v.index for v in used])
    slots = block(low, call, [*operands, *targets])
    own = [v for v, x in zip(used, targets) if isinstance(x, Own)]
    low.own |= {v: (len(low.asked), k) for k, v in enumerate(own)}
    ask(low, call, slots)
    targets = _arrived(low, call, slots, targets)
    for v, x, known in zip(used, targets, exact):
        x = replace(x, dense=known)
        low.bind(v, x if not one_element(v) else low.register(Mem(x.pointer, x.dtype, x.size, x.stride)))  # fmt: skip
    low.release(targets)


def _arrived(low: Lowering, call: Call, slots: str, targets: list[Mem | Later]) -> list[Mem]:
    """The results, those that the call kept in buffers."""
    code, first, made = low.code, call.words, []
    for x in targets:
        if not isinstance(x, Later):
            made.append(x)
            continue
        pointer, *lengths = (
            code.do(f"load {kind}, ptr {code.do(f'getelementptr i64, ptr {slots}, i64 {first + k}')}")
            for k, kind in enumerate(("ptr", *["i64"] * (x.words - 1)))
        )  # fmt: skip
        first += x.words
        size = list(map(low.sizes.fixed, (n or 0 for n in x.shape)))
        for d, length in zip(x.dims, lengths, strict=True):
            size[d] = low.sizes.new(length, LONGEST)
        found = laid_out(pointer, x.dtype, tuple(size))
        if isinstance(x, Own):
            made.append(found)
            continue
        kept = low.new(x.dtype, found.size)
        low.copy(found, kept)
        low.arena.hold(kept.owners)
        made.append(kept)
    return made


def _target(low: Lowering, v: Value, layout: Stride) -> Mem | Later:
    """Memory for a result, of the strides of torch's; contiguous where they are not known."""
    if v not in low.sizes.of and None in v.type.shape:
        if not several(v.type):
            list_items.part(v.type)
        elif DTYPE_NAMES[v.type.dtype] not in SIZE:
            raise Decline(f"a value of type {v.type}")
        return Later(DTYPE_NAMES[v.type.dtype], tuple(v.type.shape), low.in_order, layout is False)
    dtype, size = low.tensor(v)
    if 0 in v.type.shape:  # torch's own ops for one library give None instead, which they take back
        raise Decline("an empty result of an op that torch runs")
    if numel(size) == 1:
        return low.new(dtype, size)
    if layout is False or layout is None or alike(size, layout, strides(size)):
        if layout is False or not _leaves(low, v):
            return low.target(v)
        low.dests.pop(v, None)
        return Own(dtype, tuple(v.type.shape))
    low.dests.pop(v, None)
    return replace(low.new(dtype, size), stride=layout)


def _leaves(low: Lowering, v: Value) -> bool:
    """Whether a value is a result of the program that is worth a Python object more."""
    return v in low.leaving and None not in v.type.shape and numel(v.type.shape) * v.type.dtype.itemsize > LARGE  # fmt: skip


def block(low: Lowering, call: Call, operands: list[Any]) -> str:
    """The slots of a call, filled."""
    code = low.code
    slots = [*operands, *(Reg(low.sizes.text(n), "i64") for n in call.opened)]
    made = code.cell(
        f"[{max(len(slots) + sum(x.words for x in call.later) + call.spare, 1)} x i64]"
    )
    for i, x in enumerate(slots):
        place = code.do(f"getelementptr i64, ptr {made}, i64 {i}")
        if isinstance(x, Later):
            code.line(f"store i64 0, ptr {place}")
        elif isinstance(x, Mem):
            code.line(f"store ptr {x.pointer}, ptr {place}")
        else:
            code.store(x.dtype, x.text, place)
    return made


Stride = tuple[int, ...] | Literal[False] | None


def _layouts(node: Node, inputs: list[Value], operands: list[Any]) -> list[Stride]:
    """The strides of torch's results. None: contiguous, which is seen when the op runs; False: any."""
    if node.op == FILL:
        size, stride = map(tuple, node.args[1:3])
        return [stride if without_gaps(size, stride) else False]
    if node.op in IN_A_ROW:
        return [None]
    if not all(x.dense and not (isinstance(x, Mem) and x.excused) for x in operands):
        return [None if in_a_row(getattr(v.type, "shape", ())) else False for v in node.outputs]
    if not node.outputs:
        return []
    if any(isinstance(x, Mem) and x.open for x in operands):
        ways = [_metas(node, inputs, operands, n) for n in SIZES]
        return [_of_all(v, metas) for v, metas in zip(node.outputs, zip(*ways))]
    return [_stride(m) for m in _metas(node, inputs, operands)]


def _metas(node: Node, inputs: list[Value], operands: list[Any], size: int = 0) -> list[Meta | None]:  # fmt: skip
    """What is known of the results, where all open sizes are ``size``, and what is laid out for these is without gaps."""
    known = {v: _operand(v, x, size) for v, x in zip(inputs, operands)}
    args, kwargs = (map_values(known.__getitem__, a) for a in (node.args, node.kwargs))
    found = _by_rule(node, args, kwargs)
    if found is None and (not size or node.op.startswith(LOOKS)):
        found = _on_ones(node, known)
    return found if isinstance(found, list) else [found] * len(node.outputs)


def _operand(v: Value, x: Mem | Reg, size: int) -> Any:
    if not isinstance(x, Mem):
        return v.type.kind(1)
    dtype, device = DTYPES[x.dtype], torch.device("cpu")
    sizes = opened(x)
    found, stride = laid(x, dict.fromkeys(sizes, size))
    if not all(n.in_order for n in sizes):
        order = sorted(range(len(found)), key=lambda d: -x.step(x.stride[d]))
        turned = dict(zip(order, strides(tuple(found[d] for d in order))))
        stride = tuple(turned[d] for d in range(len(found)))
    return Meta(dtype, found, stride, 0, device)


def _of_all(v: Value, metas: tuple[Meta | None, ...]) -> Stride:
    """The strides of a result for some open sizes: contiguous for each, known where all its sizes are, or else any."""
    found = [_stride(m) for m in metas]
    first = found[0]
    if all(s is None or (m and s and alike(m.size, s, strides(m.size))) for s, m in zip(found, metas)):  # fmt: skip
        return None
    if first and found.count(first) == len(found) and None not in v.type.shape:
        return first
    return False


def _by_rule(node: Node, args: Any, kwargs: Any) -> Any:
    """What the rule of an op gives; None where there is none, or the op raises."""
    rule = RULES.get(node.op.split(".")[1])
    try:
        return rule and rule(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError):  # so will the op, in its place
        return None


def _stride(m: Meta | None) -> Stride:
    if m is None or not m.laid_out:
        return None
    return m.stride if without_gaps(m.size, m.stride) else False


def _on_ones(node: Node, known: dict[Value, Any]) -> list[Meta | None] | None:
    """What the op gives of ones with the strides of its operands, where it has no rule; None where that does not tell."""
    if node_effects(node).random or not all(isinstance(m, Meta) and numel(m.size) <= TRIED for m in known.values()):  # fmt: skip
        return None
    ones = {v: torch.empty_strided(m.size, m.stride, dtype=m.dtype).fill_(1) for v, m in known.items()}  # fmt: skip
    args, kwargs = (map_values(ones.__getitem__, a) for a in (node.args, node.kwargs))
    try:
        found = ops.lookup(node.op).run(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError):  # it does not like ones
        return None
    every = [found] if isinstance(found, torch.Tensor) else found
    return [meta_of(x) if isinstance(x, torch.Tensor) else None for x in every]


def placed(low: Lowering, v: Value) -> Mem | Reg:
    """An operand as the call takes it: numbers by value, tensors in memory."""
    x = low.operand(v)
    if isinstance(v.type, ScalarType):
        x = low.register(x)
        if x.dtype == "text":
            own = text_code.string(low, x.text)
            return Reg(low.code.do(f"ptrtoint ptr {own} to i64"), "text")
        if x.dtype not in ("i64", "f64", "bool"):
            raise Decline(f"a number of type {x.dtype}")
        return x
    if isinstance(x, Reg):
        made = Mem(low.code.cell("i64"), DTYPE_NAMES[v.type.dtype], x.size or (), (1,) * len(x.size or ()))  # fmt: skip
        low.code.store(x.dtype, x.text, made.pointer)
        return made
    return low.memory(x)


def ask(low: Lowering, call: Call, block: str) -> None:
    low.asked.append(call)
    low.globals["ask"] = _ASK
    low.code.declare("Py_DecRef", "void {}(ptr)")
    low.work += 3000
    code = low.code
    table = code.do(f"load ptr, ptr {low.base}")
    place = code.do(f"getelementptr ptr, ptr {table}, i64 {len(low.asked) - 1}")
    callee = code.do(f"load ptr, ptr {place}")
    got = code.do(f"call i32 @ask(ptr {callee}, ptr {block})")
    heed(low, got)


def heed(low: Lowering, got: str) -> None:
    """Go on where a callee says that it did: leave with it where it left (2), else fail with it."""
    code = low.code
    stop, on = code.fresh("stop"), code.fresh("on")
    code.branch(code.do(f"icmp eq i32 {got}, 2"), stop, on)
    code.label(stop)
    code.line("ret i32 2")
    code.label(on)
    low.fail(code.do(f"icmp ne i32 {got}, 0"))


def worth(low: Lowering) -> bool:
    """Whether enough of a graph is native for its calls."""
    return low.native_ops >= sum(call.native_ops for call in low.asked)
