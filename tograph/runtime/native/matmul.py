"""Matrix products of static sizes as generated micro-kernels: which form a product takes, and how it is called.

The forms are in ``micro_kernels``. Anything that neither of them reads (B strided both ways) is copied into one of these forms first; ``w.t()`` is
turned panel by panel where enough rows share that (``packed``). Large products are split over torch's threads by panels, stacks of them by matrices (``stacked``).
Products are fused multiply-adds in the matrices' dtype, f32 or f64; other dtypes have no native form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..graph.families import MATRIX_PRODUCTS
from ..graph.ir import Node
from ..graph.types import DTYPE_NAMES, TensorType
from ..kernels.loop_ir import Open, bound
from . import blas, calls, joined, looks, loop_nodes, masked, stacked, threading, walks
from .blas import Product
from .code import SIZE, literal
from .fortran import LETTERS, routines
from .groups import ALONE, one_element
from .masked import Kept
from .matrices import Matrix
from .micro_kernels import LONG as LONGEST
from .micro_kernels import Writer
from .packed import Packed
from .values import Decline, Mem, Operand, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering

LONG = 1 << 15  # of a dot product: a fold for all threads
FEW = 4  # rows of the result that a copy of the matrix on the right does not pay for
# Rows of A that make up for a copy of B that is contiguous along its columns: one for so many steps of the shared dimension, and the most.
STEPS, SHARED = 8, 128
UNITS = 32  # that threads share, where the products have as many tiles
NEAR = 1 << 18  # elements of a copy that stays in a core's own cache


def lower(low: Lowering, node: Node) -> None:
    """Write a matrix product and bind its result."""
    dtype = DTYPE_NAMES[node.outputs[0].type.dtype]
    if node.op not in ALONE or node.kwargs or len(node.args) > 3 or dtype not in ("f32", "f64"):
        calls.lower(low, node)
        return
    name = node.op.split(".")[1]
    bias = node.args[0] if name in ("addmm", "baddbmm") else None
    a, b = (low.operand(x) for x in node.args[(bias is not None) :])
    out = node.outputs[0]
    dtype, size = low.tensor(out)
    target = low.target(out)
    a, b = low.memory(a), low.memory(b)
    added = None if bias is None else broadcast(low, low.operand(bias), size)
    batch = a.size[0] if name in ("bmm", "baddbmm") else 1
    left, right, result = matrices(name, a, b, target)
    if blas.large(node) and not masked.asks(node) and (fitted := blas.fitted(Product(dtype, batch, left, right, result, added, target))):  # fmt: skip
        blas.write(low, fitted)
    else:
        _small(low, node, batch, left, right, result, added, b)
    low.work += 0.05 * batch * left.rows * _usual(left.columns) * right.columns
    if numel(size) == 1:
        made = low.register(Mem(target.pointer, dtype, size, strides(size)))
        low.bind(out, made)
    else:
        low.bind(out, target)


def _small(low: Lowering, node: Node, batch: int, left: Matrix, right: Matrix, result: Matrix, added: Mem | None, b: Mem) -> None:  # fmt: skip
    """Write a product as a micro-kernel. ``b``: the tensor on the right."""
    kept = None
    if _columns_first(left, right, added) and batch == 1:
        # x.t() @ v: the row v times x, whose rows are contiguous
        left, right, result = right.turned(), left.turned(), result.turned()
        added = None if added is None else _as_row(added)
        right = usable(low, left, right, b)
    elif masked.asks(node) or not packs(left, right):
        right = usable(low, left, right, b)
        kept = masked.look(low, node, b.dtype, left, right, result, added)
    fresh = joined.fresh(low, node.args[-1])
    product(low, b.dtype, batch, left, right, result, added, kept, fresh)


def either(low: Lowering, node: Node, tiled: bool, other: Callable[[], None]) -> None:
    """Write a product whose sizes only the run knows: by BLAS where they are large, else as ``other`` does.

    ``tiled``: whether that is a micro-kernel.
    """
    found = _of_the_run(low, node)
    if found is None:
        other()
        return
    out, target = node.outputs[0], found.target
    low.arena.hold(target.owners)
    with walks.either(low, blas.test(low, found, tiled)) as second:
        blas.write(low, found)
        second()
        low.dests[out] = target
        other()
        made = low.moved(low.env[out], target)
    low.unbind(out)
    low.bind(out, made)
    low.arena.release(target.owners)


def nest(low: Lowering, node: Node) -> None:
    """Write a product as a loop nest."""
    with by_rows(low, node):
        loop_nodes.lower(low, [node], set(node.outputs))


def _of_the_run(low: Lowering, node: Node) -> Product | None:
    """The operands of such a product, if BLAS can read them where they are, and where its result is written."""
    out = node.outputs[0]
    if node.op not in blas.OPS or node.kwargs or len(node.args) > 3 or one_element(out):
        return None
    *bias, a, b = map(low.operand, node.args)
    dtype, size = low.tensor(out)
    if dtype not in LETTERS or not isinstance(a, Mem) or not isinstance(b, Mem) or routines(dtype, "gemm") is None:  # fmt: skip
        return None
    if bias and not _lies_in(low, bias[0], size):
        return None
    added, dest = broadcast(low, bias[0], size) if bias else None, low.dests.get(out)
    target = low.target(out)
    batch = a.size[0] if len(size) == 3 else 1
    left, right, result = matrices(node.op.split(".")[1], a, b, target)
    found = blas.fitted(Product(dtype, batch, left, right, result, added, target))
    if found is None and dest is not None:
        low.dests[out] = dest
    return found


def _lies_in(low: Lowering, x: Operand, size: tuple) -> bool:
    """Whether the sizes of what is added are known to be those of the result, or one."""
    own = tuple(x.size or ())
    return all(n == 1 or low.sizes.same(n) == low.sizes.same(m) for n, m in zip(own, size[len(size) - len(own) :]))  # fmt: skip


def check(node: Node) -> None:
    """Decline a product of factors of several dtypes, which torch refuses where it runs."""
    given = {v.type.dtype for v in node.inputs if isinstance(v.type, TensorType)}
    if node.op in ALONE and len(given) > 1:
        raise Decline(f"{node.op} of several dtypes")


def folds(node: Node) -> bool:
    """Whether a product is one fold that is long enough for a loop nest, which uses all threads."""
    return node.op == "aten.dot.default" and (node.args[0].type.shape[0] or 0) >= LONG


def deep(low: Lowering, node: Node) -> bool:
    """Whether a product's shared dimension, and nothing else, has a length that only the run knows."""
    if node.op not in MATRIX_PRODUCTS or node.kwargs:
        return False
    a, b = (low.operand(x) for x in node.args[-2:])
    if not isinstance(a, Mem) or not isinstance(b, Mem) or a.dtype not in ("f32", "f64"):
        return False
    opened = [isinstance(n, Open) for n in (*a.size, *b.size)]
    return opened == [False, True, True, False] and (b.stride[1] == 1 or b.size[1] == 1)


def column_sums(low: Lowering, node: Node) -> bool:
    """Write the sum over a first dimension whose length only the run knows, as ones times a matrix; whether it is one."""
    x = low.env.get(node.args[0]) if node.op == "aten.sum.dim_IntList" and not node.kwargs else None
    if not isinstance(x, Mem) or x.dtype not in ("f32", "f64") or not x.packed or list(node.args[1] or ()) != [0]:  # fmt: skip
        return False
    if not isinstance(x.size[0], Open) or any(isinstance(n, Open) for n in x.size[1:]):
        return False
    if numel(x.size[1:]) == 1 or low.tensor(node.outputs[0])[0] != x.dtype:
        return False
    _ones_times(low, node, x)
    return True


def rows_summed(low: Lowering, node: Node) -> None:
    """Write the sum over the rows of a matrix, as ones times it."""
    x = low.memory(low.operand(node.args[0]))
    _ones_times(low, node, x if x.packed else low.contiguous(x))


def _ones_times(low: Lowering, node: Node, x: Mem) -> None:
    """Write and bind ones times what lies in memory row by row."""
    columns, one = numel(x.size[1:]), low.code.cell("i64")
    kept = looks.found(low, x.dtype, x.size[0], (x.pointer, columns, columns))
    low.code.store(x.dtype, literal(1.0, x.dtype), one)
    target = low.target(node.outputs[0])
    ones = Matrix(one, 1, x.size[0], 0, 0)
    product(low, x.dtype, 1, ones, Matrix(x.pointer, x.size[0], columns, columns, 1), Matrix(target.pointer, 1, columns, columns, 1), None, kept, fresh=True)  # fmt: skip
    low.bind(node.outputs[0], target)


@contextmanager
def by_rows(low: Lowering, node: Node) -> Iterator[None]:
    """Inside, the matrix on the right of a product with many rows is contiguous along its columns, whose number only the run knows.

    The lanes of the fold are columns then; a copy of all columns costs as much as one row of the result.
    """
    a, b = node.args[-2:]
    x, y = low.operand(a), low.operand(b)
    opened = [n for n in y.size if isinstance(n, Open)] if isinstance(y, Mem) else []
    few = len(x.size) < 2 or bound(x.size[-2]) < FEW
    if len(opened) != 1 or opened[0] != y.size[-1] or y.stride[-1] == 1 or a is b or few or b in low.written:  # fmt: skip
        yield
        return
    made = low.row_by_row(y)
    low.arena.hold(made.owners)
    low.env[b] = made
    yield
    low.env[b] = y
    low.arena.release(made.owners)


def matrices(name: str, a: Mem, b: Mem, c: Mem) -> tuple[Matrix, Matrix, Matrix]:
    """The operands as (batches of) matrices: vectors become single columns."""

    def of(x: Mem) -> Matrix:
        (rows, columns), (down, across) = x.size[-2:], x.stride[-2:]
        return Matrix(
            x.pointer, rows, columns, down, across, x.stride[0] if len(x.size) == 3 else 0
        )

    if name == "mv":
        n, k = a.size
        return of(a), Matrix(b.pointer, k, 1, b.stride[0], 0), Matrix(c.pointer, n, 1, 1, 1)
    if name == "dot":
        (k,) = a.size
        return (
            Matrix(a.pointer, 1, k, 0, a.stride[0]),
            Matrix(b.pointer, k, 1, b.stride[0], 0),
            Matrix(c.pointer, 1, 1, 1, 1),
        )
    return of(a), of(b), of(c)


def _columns_first(a: Matrix, b: Matrix, bias: Mem | None) -> bool:
    """Whether a matrix times one column has its rows strided and its columns contiguous."""
    down = 0 if bias is None else bias.stride[-2]
    return b.columns == 1 and a.rows > 1 and a.row_stride == 1 and down in (0, 1)


def _as_row(x: Mem) -> Mem:
    """What is added to a single column, as what is added to a single row."""
    return Mem(x.pointer, x.dtype, (1, x.size[-2]), (0, x.stride[-2]), x.owners)


def broadcast(low: Lowering, x: Operand, size: tuple[int, ...]) -> Mem:
    """What is added, as memory with the strides of a broadcast to the result."""
    x = low.memory(x)
    lead = len(size) - len(x.size)
    stride = [0] * lead + [s if low.sizes.same(x.size[i]) == low.sizes.same(size[lead + i]) else 0 for i, s in enumerate(x.stride)]  # fmt: skip
    return Mem(x.pointer, x.dtype, size, tuple(stride), x.owners)


def paying(b: Matrix) -> int:
    """The rows of A from which on a copy of ``b`` that is contiguous along its columns costs less than dot products.

    A dot product ends with a fold, which is little beside a long one; a large copy has to come back from a far cache.
    """
    depth = bound(b.rows)
    rows = max(FEW, min(depth // STEPS, SHARED))
    return rows * 2 if depth * bound(b.columns) >= NEAR else rows


def turned(a: Matrix, b: Matrix) -> bool:
    """Whether ``a`` times ``b`` has a form without a copy, of dot products, and another with one."""
    return b.column_stride != 1 and b.columns > 1 and b.row_stride == 1 and a.column_stride == 1


def packs(a: Matrix, b: Matrix) -> bool:
    """Whether a product turns ``b`` panel by panel: it would be copied for it, and is not taken in pieces."""
    if isinstance(b.rows, Open) or b.rows >= LONGEST or b.column_stride == 1 or b.row_stride != 1:
        return False
    return b.columns > 1 and a.rows >= (paying(b) if a.column_stride == 1 else FEW)


def usable(low: Lowering, a: Matrix, b: Matrix, source: Mem) -> Matrix:
    """``b``, or a copy of it that one of the two forms can read."""
    # folding many short dot products costs more than a copy
    shallow = a.rows >= paying(b)
    if b.column_stride == 1 or (b.row_stride == 1 and a.column_stride == 1 and not shallow):
        return b
    if b.columns == 1 and b.row_stride == 1 and a.column_stride == 1:
        return b
    made = low.contiguous(source) if not source.contiguous else source
    if made is source and b.columns != 1:
        made = low.new(source.dtype, source.size)
        low.copy(source, made)
    if b.columns == 1:
        return Matrix(made.pointer, b.rows, 1, 1, 1, b.rows)
    return Matrix(made.pointer, b.rows, b.columns, b.columns, 1, b.rows * b.columns)


def product(low: Lowering, dtype: str, batch: int, a: Matrix, b: Matrix, c: Matrix, bias: Mem | None, kept: Kept | None = None, fresh: bool = False) -> None:  # fmt: skip
    """Write the products of a ``batch`` of matrices, with a matrix on the right that one of the forms can read."""
    packed = packs(a, b)
    large = low.joint is not None or batch * a.rows * _usual(a.columns) * b.columns >= threading.PRODUCT  # fmt: skip
    parallel = large and threading.available()
    form = masked.FORMS[kept.by] if kept else Packed if packed else Writer
    shared = max(1, UNITS // batch) if parallel else 0
    writer = form(low, dtype, a, b, c, bias, packed or b.column_stride == 1, shared, fresh)
    name = low.function("product", writer.function())
    pointers = [a.pointer, b.pointer, c.pointer, *([bias.pointer] if bias is not None else [])]
    steps = _steps(dtype, a, b, c, bias)
    if isinstance(a.columns, Open):
        pointers.append(low.code.do(f"inttoptr i64 {low.sizes.text(a.columns)} to ptr"))
        steps.append(0)
    if kept is not None:
        pointers += [kept.live, kept.dead]
    if batch == 1:
        _call(low, name, pointers, writer.units, parallel, fresh)
        return
    task, block = stacked.task(low, name, pointers, steps, writer.units)
    units = batch * writer.units
    if parallel:
        threading.call(low, f"{name}_{len(low.globals)}", task, block, units, 1)
    else:
        low.code.line(f"call void @{task}(i64 0, i64 {units}, ptr {block})")


def _usual(n: int | Open) -> int:
    """A length to reckon with."""
    return min(bound(n), 1 << 12)


def _steps(dtype: str, a: Matrix, b: Matrix, c: Matrix, bias: Mem | None) -> list[int]:
    """Bytes from one matrix of a batch to the next."""
    out = [x.apart * SIZE[dtype] for x in (a, b, c)]
    if bias is not None:
        out.append(bias.stride[0] * SIZE[dtype] if len(bias.size) == 3 else 0)
    return out


def _call(
    low: Lowering, name: str, pointers: list[str], units: int, parallel: bool, fresh: bool
) -> None:
    if not parallel or (units < 2 and low.joint is None):
        given = ", ".join(f"ptr {p}" for p in pointers)
        low.code.line(f"call void @{name}({given}, i64 0, i64 {units})")
        return
    task, block = threading.packed(low, name, pointers, ", i64 %begin, i64 %end")
    if low.joint is None:
        threading.call(low, f"{name}_{len(low.globals)}", task, block, units, 1)
    else:
        low.joint.parts.append(joined.Part(task, block, units, fresh, pointers[1]))
