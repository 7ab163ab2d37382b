"""What torch's own code may assume of sizes that are known only when the graph runs; the graph checks it.

torch's C++ code asks whether a size is 0 or 1, or two sizes are equal, to check arguments or to take a shortcut. The answer
is that of tensors of usual sizes, and an assertion in the graph. A part with ends that are so far from each other (``x[i:i + 1]``) usually
has that length, also where the code asks for the number itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Value
from ..graph.ops import PYTHON, overload
from ..graph.types import ScalarType, TensorType
from .funcgraph import FuncGraph, Ref, current_graph

_USUAL_SIZE = 12  # neither 0 nor 1, nor smaller than a window or an order that is asked for


def assumed(ref: Ref) -> bool | None:
    """The answer that a relation of sizes usually has: the graph checks it when it runs. None for other conditions.

    torch's C++ code asks whether a size is 0 or 1, or two sizes are equal, to check arguments or to take a shortcut.
    """
    answer = _usual(ref.value)
    if not isinstance(answer, bool):
        return None
    assume(ref, answer)
    return answer


def assume(ref: Ref, answer: bool = True) -> None:
    """The graph checks that a condition has this answer."""
    graph = current_graph()
    key = _structure(ref.value)
    if key not in graph.assumed:
        graph.assumed.add(key)
        value = graph.resolve(ref)
        test = value if answer else graph.emit("py.not", value, type=ScalarType(bool))
        graph.add("tg.assert", (test, "tg.UnexpectedSizeError", (_ASSUMED,)))


def assume_equal(size: Any, other: Any) -> None:
    """The graph checks that two sizes are equal, one of which only the run knows."""
    graph = current_graph()
    a, b = (n if type(n) is int else n.node.value(graph) for n in (size, other))
    if a is b or (key := ("equal", _structure(a), _structure(b))) in graph.assumed:
        return
    graph.assumed.add(key)
    test = graph.emit("py.eq", a, b, type=ScalarType(bool))
    graph.add("tg.assert", (test, "tg.UnexpectedSizeError", (_ASSUMED,)))


def of_one_item(ref: Ref | None) -> bool:
    """Whether a relation asks of a part of one item (``x[:1]``) whether it has one."""
    node = None if ref is None else ref.value.node
    if node is None or node.op not in ("py.eq", "py.ne") or _fixed(node.args[1]) != 1:
        return False
    size = _captured(node.args[0]).node if isinstance(node.args[0], Value) else None
    return size is not None and size.op == "py.size" and _part(*size.args) == 1


def exactly(ref: Ref) -> int | None:
    """The number that the length of a part is, unless the tensor ends there: the graph checks it. None for other numbers."""
    node = _captured(ref.value).node
    length = _part(*node.args) if node is not None and node.op == "py.size" else None
    if length is None:
        return None
    graph = current_graph()
    key = "exactly", _structure(ref.value)
    if key not in graph.assumed:
        graph.assumed.add(key)
        test = graph.emit("py.eq", graph.resolve(ref), length, type=ScalarType(bool))
        graph.add("tg.assert", (test, "tg.UnexpectedSizeError", (_ASSUMED,)))
    return length


def settled(value: Any) -> Any:
    """The number that a value is by what the graph has checked of lengths of parts; None where that does not tell."""
    if not isinstance(value, Value):
        return value
    value = _captured(value)
    node = value.node
    if node is None or not node.op.startswith("py."):
        return None
    if node.op == "py.size":
        return _part(*node.args) if _checked(("exactly", _structure(value))) else None
    if node.op == "py.constant":
        return node.args[0]
    parts = [settled(a) for a in node.args]
    function = PYTHON.get(node.op[3:])
    return function(*parts) if function in _RELATIONS and None not in parts else None


_RELATIONS = frozenset(
    PYTHON[name] for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul")
)


def _checked(key: Any) -> bool:
    graph: FuncGraph | None = current_graph()
    while graph is not None and key not in graph.assumed:
        graph = graph.outer
    return graph is not None


_ASSUMED = (
    "torch's code for this call asks for a size that is known only when the graph runs, and was traced for tensors of the usual "
    "sizes (not empty, more than one element, equal where two must be); here the size is another one. Treat that case "
    "with an `if` of its own, or pass the size as a dimension of an argument."
)


def _fixed(x: Any) -> Any:
    """The number that an argument of a node is, whatever runs; None otherwise."""
    if not isinstance(x, Value):
        return x
    x = _captured(x)
    return x.node.args[0] if x.node is not None and x.node.op == "py.constant" else None


def _usual(value: Value) -> Any:
    """The number that a value usually is, when it comes from sizes alone; None otherwise."""
    value = _captured(value)
    node = value.node
    if node is None or not node.op.startswith("py."):
        return None
    if node.op == "py.size":
        return _part(*node.args) or (1 if _at_most_one(*node.args) else _USUAL_SIZE)
    if node.op == "py.constant":
        return node.args[0]
    function = PYTHON.get(node.op[3:])
    parts = [_usual(a) if isinstance(a, Value) else a for a in node.args]
    if function is None or any(p is None for p in parts):
        return None
    if node.op in ("py.eq", "py.ne") and not any(_fixed(a) in (0, 1) for a in node.args):
        return node.op == "py.eq"  # two sizes that torch compares, however each was computed
    try:
        return function(*parts)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _part(tensor: Value, d: int) -> int | None:
    """The length of a part whose ends are so far from each other (``x[i:i + 1]``), unless the tensor ends there; None for other sizes.

    Where a branch or a loop gives such a part or a tensor of that length, it is the length of the result too.
    """
    tensor = _captured(tensor)
    node = tensor.node
    if node is None:
        return 1 if (tensor, d) in current_graph().root.singles else None
    if node.op in ALTERNATIVES:
        return _common(node.regions.values(), tensor.index, d)
    if node.op == "While":
        began = _length(node.args[tensor.index], d)
        return began if _length(node.regions["body"].outputs[tensor.index], d) == began else None
    if node.op != "aten.slice.Tensor" or len(node.args) < 4 or node.args[1] != d:
        return None
    (first, start), (last, stop) = map(_apart, node.args[2:4])
    if first is last is None:
        if start < 0:
            return -start if stop >= _END else None
        return stop - start if start < stop < _END else None
    same = isinstance(first, Value) and first is last
    return stop - start if same and stop > start else None


def _at_most_one(tensor: Value, d: int) -> bool:
    """Whether a dimension is what a mask with a single element selects, also after elementwise ops."""
    tensor = _captured(tensor)
    node = tensor.node
    if node is None or d != 0:
        return False
    if node.op in ("aten.index.Tensor", "aten.masked_select.default"):
        mask = node.args[1] if node.op.startswith("aten.masked") else node.args[1][0]
        return isinstance(mask, Value) and mask.type.dtype == torch.bool and mask.type.shape == (1,)
    if not node.op.startswith("aten.") or torch.Tag.pointwise not in overload(node.op).tags:
        return False
    same = [v for v in node.inputs if isinstance(v.type, TensorType) and v.type.shape == (None,)]
    return any(_at_most_one(v, 0) for v in same)


_END = 2**63 - 1  # where ``x[-1:]`` stops


def _common(branches: Iterable[Graph], index: int, d: int) -> int | None:
    found = {_length(b.outputs[index], d) for b in branches}
    return found.pop() if len(found) == 1 else None


def _length(tensor: Any, d: int) -> int | None:
    """The length of a dimension that is static or that of a part."""
    if not isinstance(tensor, Value) or not isinstance(tensor.type, TensorType):
        return None
    n = tensor.type.shape[d]
    return n if n is not None else _part(tensor, d)


def note_singles(entry: Any, value: Value, graph: FuncGraph) -> None:
    """The state ``value`` of a loop begins as ``entry``: a length of one there is the usual one."""
    kind = value.type
    if not isinstance(entry, torch.Tensor) or not isinstance(kind, TensorType):
        return
    for d, (n, began) in enumerate(zip(kind.shape, entry.shape)):
        if n is None and (began == 1 if type(began) is int else _one(began)):
            graph.root.singles.add((value, d))


def _one(size: Any) -> bool:
    ref = getattr(size.node, "ref", None)
    node = None if ref is None else ref.value.node
    return node is not None and node.op == "py.size" and _part(*node.args) == 1


def _apart(x: Any) -> tuple[Any, int]:
    """A number as the sum of another one and one that is known."""
    known = 0
    while (
        isinstance(x, Value)
        and (x := _captured(x)).node is not None
        and x.node.op in ("py.add", "py.sub")
    ):
        a, b = x.node.args
        if _fixed(b) is not None:
            x, known = a, known + (_fixed(b) if x.node.op == "py.add" else -_fixed(b))
        elif _fixed(a) is not None and x.node.op == "py.add":
            x, known = b, known + _fixed(a)
        else:
            break
    return (None, known + x) if type(x) is int else (x, known)


def _captured(value: Value) -> Value:
    """The value that the input of a branch or a loop body stands for, where that is one from outside of it."""
    graph: FuncGraph | None = current_graph()
    while value.node is None and graph is not None:
        value = next(
            (k for k, v in graph.captures.items() if v is value and isinstance(k, Value)), value
        )
        graph = graph.outer
    return value


def _structure(value: Any) -> Any:
    """What a number is computed from: equal for two computations of the same number."""
    if not isinstance(value, Value) or value.node is None:
        return value
    if value.node.op == "py.size":
        return value.node.args
    return (value.node.op, *map(_structure, value.node.args))
