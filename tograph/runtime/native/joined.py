"""Matrix products that do not need each other, run as one: on all threads at once, with one start and one end.

Starting and joining threads costs a microsecond, as much as a small product does: a training step or a cell of a
recurrent network has several of them that only wait for the same matrix. ``order`` puts such products behind each other;
they become one group, whose products are given to the threads together: each thread takes the same share of every one.

A product and what needs it may only move down, past nodes that need neither, and not far: what is in memory meanwhile is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..graph.ir import Graph, Node
from ..graph.types import TensorType
from . import threading

if TYPE_CHECKING:
    from .lower import Lowering

LEAST = 1 << 17  # multiply-adds of a product that is worth a share of its own
MOST, FAR = 8, 64  # products of a group, and nodes that wait for them
FEW = 64  # rows of a matrix whose sum is such a product
OPS, SUM = ("aten.mm.default", "aten.addmm.default"), "aten.sum.dim_IntList"


def work(node: Node) -> int:
    """The multiply-adds of a matrix product; 0 where only a run knows the sizes, and for other nodes."""
    if node.op not in OPS or node.kwargs:
        return 0
    left, right = (a.type for a in node.args[-2:])
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return 0
    (n, k), m = left.shape, right.shape[1]
    return n * k * m if None not in (n, k, m) and n * m > 1 else 0


def fits(node: Node) -> bool:
    """Whether a node is a product that may be joined with others."""
    return work(node) >= LEAST


def sums(graph: Graph) -> set[Node]:
    """The sums over the few rows of a matrix that is also the right one of such a product: ones times that matrix.

    They read what the threads that multiply by it read.
    """
    right = {n.args[-1] for n in graph.nodes if fits(n)}
    return {n for n in graph.nodes if n.op == SUM and n.args[0] in right and _over_rows(n)}


def _over_rows(node: Node) -> bool:
    x, made = node.args[0].type, node.outputs[0].type
    return list(node.args[1] or ()) == [0] and not node.kwargs and x.dtype is made.dtype and 1 < x.shape[0] <= FEW  # fmt: skip


def worth(nodes: Sequence[Node]) -> bool:
    """Whether some products together are work for all threads."""
    return threading.available() and sum(map(work, nodes)) >= threading.PRODUCT


def order(graph: Graph, before: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes of ``graph``, products that do not need each other together. ``before``: what a node has to stand behind besides."""
    if sum(map(fits, graph.nodes)) < 2:
        return list(graph.nodes)
    extra = sums(graph)
    out: list[Node] = []
    products: list[Node] = []
    waiting: list[Node] = []
    late: set[Node] = set()

    def flush() -> None:
        out.extend([*products, *waiting])
        for held in (products, waiting, late):
            held.clear()

    for node in graph.nodes:
        needed = (*(v.node for v in node.inputs), *node.control_inputs, *before.get(node, ()))
        needs = any(n in late for n in needed)
        if fits(node) or node in extra:
            if needs or len(products) == MOST:
                flush()
            products.append(node)
        elif needs:
            waiting.append(node)
        else:
            out.append(node)
            continue
        late.add(node)
        if len(waiting) == FAR:
            flush()
    flush()
    return out


@contextmanager
def together(low: Lowering) -> Iterator[None]:
    """Products that are written inside are called at the end, as one."""
    low.joint = parts = []
    yield
    low.joint = None
    if len(parts) == 1:
        ((task, block, units),) = parts
    elif parts:
        task, block, units = _joint(low, parts)
    if parts:
        threading.call(low, f"{task}_{len(low.globals)}", task, block, units, 1)


def _joint(low: Lowering, parts: Sequence[tuple[str, str, int]]) -> tuple[str, str, int]:
    """(task, block, units) of a task that does a share of each part."""
    code, units = low.code, max(n for *_, n in parts)
    block = code.cell(f"[{len(parts)} x ptr]")
    lines = []
    for i, (task, own, n) in enumerate(parts):
        code.line(f"store ptr {own}, ptr {code.do(f'getelementptr ptr, ptr {block}, i64 {i}')}")
        lines += [f"%q{i} = getelementptr ptr, ptr %block, i64 {i}", f"%p{i} = load ptr, ptr %q{i}"]
        for end in ("begin", "end"):
            lines += [
                f"%{end}a{i} = mul i64 %{end}, {n}",
                f"%{end}{i} = udiv i64 %{end}a{i}, {units}",
            ]
        lines.append(f"call void @{task}(i64 %begin{i}, i64 %end{i}, ptr %p{i})")
    text = "".join(f"  {line}\n" for line in lines)
    return (
        low.function("joint", f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{text}  ret void\n}}\n"),
        block,
        units,
    )
