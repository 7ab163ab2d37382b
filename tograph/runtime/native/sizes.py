"""Sizes that only a run knows: where they come from, and the sizes of what is computed from such tensors.

A slice whose bounds are numbers of the run gives a tensor of an ``Open`` size. Its memory is laid out for the most that it can
be, so every stride is a number; loops over it end at a register. A number of the run as a size, and the size of a tensor that grows in
a loop, have no bound: see ``values.strides``, and ``Storage.new`` for the memory. An open size meets another size in an op only where both
are equal at run time: otherwise the code declines, and the host broadcasts, or raises what eager PyTorch raises. A size of 0 is
an open one too, so that empty tensors take the loops that may have no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import TensorType, is_static
from ..kernels.creators import CREATORS
from ..kernels.gathers import GATHERS
from ..kernels.loop_ir import LONGEST, Open, bound
from ..kernels.pointwise import ROWS
from ..kernels.products import SHARED
from ..kernels.reductions import REDUCERS
from .values import Decline, Reg, Span, numel

Size = tuple[Any, ...]
WIDEST = 1 << 20  # of one of two sizes without a bound
_INTO = ("aten.copy.default", "aten.fill.Tensor", "aten.fill.Scalar")
_AS_IT_IS = ("aten.tril.default", "aten.triu.default", "aten.flip.default")
_GATHERED = ("aten.embedding.default", "aten.gather.default", "aten.index_select.default", "aten.index.Tensor", *_AS_IT_IS)  # fmt: skip
_LIKE = ("zeros_like", "ones_like", "full_like", "empty_like")


def _alike(args: tuple) -> tuple[Value, list[tuple[Any, slice]]]:
    """Operands of one size."""
    tensors = [a for a in args if isinstance(a, Value)]
    return tensors[0], [(a, slice(None)) for a in tensors[1:]]


def _likelihood(args: tuple) -> tuple[Value, list[tuple[Any, slice]]]:
    x, target, weight = args[:3]
    return x, [(target, slice(-1)), (weight, slice(-1, None))]


def _normalised(args: tuple) -> tuple[Value, list[tuple[Any, slice]]]:
    x, shape, *weights = args[:4]
    return x, [(part, slice(-len(shape), None)) for part in (shape, *weights)]


# What operands have to have the size of a part of another one, or of all of it: eager PyTorch raises, or broadcasts.
_FITTING: dict[str, Callable[[tuple], tuple[Value, list[tuple[Any, slice]]]]] = {
    "aten.nll_loss_forward.default": _likelihood,
    "aten.nll_loss_backward.default": lambda args: _likelihood(args[1:]),
    "aten.native_layer_norm.default": _normalised,
    "aten._softmax_backward_data.default": lambda args: _alike(args[:2]),
    "aten._log_softmax_backward_data.default": lambda args: _alike(args[:2]),
    **{f"aten.{n}_loss.default": lambda args: _alike(args[:2]) for n in ("mse", "smooth_l1", "huber")},
    **{f"aten.{n}_loss_backward.default": lambda args: _alike(args[1:3]) for n in ("mse", "smooth_l1", "huber")},
}  # fmt: skip


# The dims without an element of which nothing can be picked: eager PyTorch raises, unless it picks nothing. A selection looks at its
# positions where other dims are empty, too: a loop over its elements would have no step that does.
_PICKED: dict[str, Callable[[tuple], Sequence[int]]] = {
    "aten.index_select.default": lambda args: range(len(args[0].type.shape)),
    "aten.embedding.default": lambda args: range(len(args[0].type.shape)),
    "aten.gather.default": lambda args: [args[1]],
    "aten.index.Tensor": lambda args: [d for d, i in enumerate(args[1]) if i is not None],
}


class Sizes:
    """The open sizes of one function: their registers, and the sizes of its values."""

    def __init__(self, low):
        self.low = low
        self.registers: dict[str, str] = {}
        self.bounds: dict[str, int] = {}
        self.of: dict[Value, Size] = {}
        self._by_register: dict[str, Open] = {}
        self.nothing = self.new("0", 2)

    def new(self, register: str, bound: int) -> Open:
        """The size that a register holds, which is at most ``bound``."""
        # one element would be a register
        made = Open(f"n{len(self.registers)}", max(bound, 2), self.low.in_order)
        self.registers[made.name], self.bounds[made.name] = register, made.bound
        self._by_register[register] = made
        return made

    def text(self, n: int | Open) -> str:
        """A size as an operand of an instruction."""
        return self.registers[n.name] if isinstance(n, Open) else str(n)

    def known(self, x: Reg) -> int | Open:
        """The size that a number is; the code declines where it is none."""
        if x.dtype != "i64":
            raise Decline(f"a {x.dtype} as a size")
        if x.text.isdigit():
            return self.fixed(int(x.text))
        found = self._by_register.get(x.text)
        if found is None:
            self.low.fail(self.low.code.do(f"icmp ugt i64 {x.text}, {LONGEST}"))
            found = self.new(x.text, LONGEST)
        return found

    def fixed(self, n: int) -> int | Open:
        """A size that the graph knows."""
        return n or self.nothing

    def require(self, a: int | Open, b: int | Open) -> None:
        """Decline where two sizes differ."""
        if a == b:
            return
        if not isinstance(a, Open) and not isinstance(b, Open):
            raise Decline("sizes that differ")
        self._equal(self.text(a), self.text(b))
        if isinstance(a, Open) and isinstance(b, Open):
            a, b = sorted((self.same(a), self.same(b)), key=lambda n: (n.bound, n.name))
            if a != b:
                self.low.found["same", b] = a

    def same(self, n: int | Open) -> int | Open:
        """The one name for all sizes that were found to be equal to ``n``: a loop nest sees that its tensors have one size."""
        while ("same", n) in self.low.found:
            n = self.low.found["same", n]
        return n

    def agree(self, n: int | Open, given: Any) -> None:
        """Decline where a number is not the size ``n``."""
        self._equal(self.text(n), self.low.register(self.low.operand(given)).text)

    def span(self, step: Span) -> str:
        """The register with a stride that sizes without a bound are factors of."""
        found, code = self.low.found, self.low.code
        if step not in found:
            text = str(step.factor)
            for n in step.sizes:
                text = self.text(n) if text == "1" else code.do(f"mul nsw i64 {text}, {self.text(n)}")  # fmt: skip
            found[step] = text
        return found[step]

    def strides(self, steps: Sequence[int]) -> tuple[int | str, ...]:
        """Strides as a loop nest takes them: numbers, and names of parameters."""
        return tuple(self._parameter(s) if isinstance(s, Span) else s for s in steps)

    def _parameter(self, step: Span) -> str:
        name = f"n{len(self.registers)}"
        self.registers[name] = self.span(step)
        return name

    def elements(self, size: Size) -> str:
        """How many elements a tensor has; where several sizes without a bound are too large for a product the code declines."""
        opened = [n for n in size if isinstance(n, Open)]
        ends = [n for n in opened if n.endless]
        if len(ends) > 2:
            raise Decline("a tensor with three sizes that have no bound")
        code, whole = self.low.code, str(numel(tuple(n for n in size if not isinstance(n, Open))))
        for n in opened:
            if len(ends) > 1 and n in ends:
                self.low.fail(code.do(f"icmp ugt i64 {self.text(n)}, {WIDEST}"))
            whole = code.multiply(self.text(n), int(whole)) if whole.isdigit() else code.do(f"mul nsw i64 {whole}, {self.text(n)}")  # fmt: skip
        return whole

    def _equal(self, *texts: str) -> None:
        pair = ("equal", *sorted(texts))
        if texts[0] != texts[1] and pair not in self.low.found:
            self.low.fail(self.low.code.do(f"icmp ne i64 {texts[0]}, {texts[1]}"))
            self.low.found[pair] = True

    # ---- the sizes of results

    def infer(self, node: Node) -> None:
        """Find the sizes of a node's outputs that the graph does not know."""
        opened = any(v in self.of for v in node.inputs)
        if node.op in _PICKED and not all(node.args[0].type.shape):
            self._require_elements(self._size(node.args[0]), _PICKED[node.op](node.args))
        if opened and node.op in _FITTING:
            self._require_fit(*_FITTING[node.op](node.args))
        for v in node.outputs:
            if not isinstance(v.type, TensorType) or node.op.startswith("tg."):
                continue
            shape = v.type.shape
            if None in shape or opened:
                found = self._found(node, v)
                if len(found) != len(shape):
                    raise Decline(f"{node.op} of a size that is known only at run time")
                self.note(v, self._agreed(found, shape))

    def inferred(self, node: Node) -> bool:
        """Whether the sizes of a node's results follow from those of its operands; then they are found."""
        try:
            self.infer(node)
        except Decline:
            if all(is_static(v.type) for v in node.outputs):
                raise
            return False
        return True

    def _agreed(self, found: Size, shape: Sequence[int | None]) -> Size:
        """``found`` with the numbers that the graph knows."""
        for a, b in zip(found, shape):
            if b is not None:
                self.require(a, b)
        return tuple(b or a for a, b in zip(found, shape))

    def note(self, v: Value, size: Size) -> None:
        if any(isinstance(n, Open) for n in size) or None in getattr(v.type, "shape", ()):
            self.of[v] = size

    def _require_fit(self, x: Value, others: Sequence[tuple[Any, slice]]) -> None:
        """Decline where an operand has another size than a part of ``x``."""
        size = self._size(x)
        for other, part in others:
            wanted = other if isinstance(other, (list, tuple)) else other and self._size(other)
            if wanted is None:
                continue
            if len(wanted) != len(size[part]):
                raise Decline("an operand of other dimensions")
            for n, m in zip(wanted, size[part]):
                if isinstance(n, Value):
                    self.agree(m, n)
                else:
                    self.require(self.fixed(n) if isinstance(n, int) else n, m)

    def _require_elements(self, size: Size, dims: Iterable[int]) -> None:
        """Decline where one of these dims has no element."""
        for n in [size[d] for d in dims] if size else ():
            if isinstance(n, Open) and ("some", n) not in self.low.found:
                self.low.fail(self.low.code.do(f"icmp eq i64 {self.text(n)}, 0"))
                self.low.found["some", n] = True

    def _size(self, a: Any) -> Size:
        return (
            self.low.tensor(a)[1] if isinstance(a, Value) and isinstance(a.type, TensorType) else ()
        )

    def _found(self, node: Node, v: Value) -> Size:
        op = node.op
        if op in SHARED:
            return self._product(node)
        if op in REDUCERS:
            return self._reduced(node, v)
        if op in CREATORS:
            return self._created(node)
        if op in _GATHERED:
            return self._gathered(node)
        if op in _INTO:
            size = self._size(node.args[0])
            return self._broadcast([size, self._size(node.args[1])]) and size
        if op in ("aten.select_backward.default", "aten.slice_backward.default"):
            return self._around(*node.args[:3])
        if op == "aten.diag_embed.default":
            return self._on_diagonal(*node.args, **node.kwargs)
        if op in ROWS:
            return self._broadcast([self._size(a) for a in node.args])
        if op in GATHERS and all(n is not None for n in v.type.shape):
            return tuple(v.type.shape)
        raise Decline(f"{op} of a size that is known only at run time")

    def _around(self, grad: Value, size: Sequence[Any], d: int) -> Size:
        """Those of what a part was taken of along ``d``: in other dims those of the gradient of the part."""
        d %= len(size)
        if type(size[d]) is not int:
            raise Decline(
                "the gradient of a part of what has a size that is known only at run time"
            )
        part = list(self._size(grad))
        part[d : d + 1 + len(part) - len(size)] = [size[d]]
        for n, m in zip(size, part):
            if isinstance(n, Value):
                self.agree(m, n)
        return tuple(part)

    def _gathered(self, node: Node) -> Size:
        if node.op in _AS_IT_IS:
            return self._size(node.args[0])
        if node.op == "aten.index.Tensor":
            return self._indexed(node)
        if node.op == "aten.embedding.default":
            return (*self._size(node.args[1]), *self._size(node.args[0])[1:])
        if node.op == "aten.gather.default":
            return self._picked(*node.args[:3])
        x, d, order = node.args
        size = self._size(x)
        if not size:
            return size
        d %= len(size)
        return (*size[:d], *self._size(order), *size[d + 1 :])

    def _picked(self, x: Value, d: int, order: Value) -> Size:
        """The sizes of the index, none of which is larger than that of ``x``, but in the dim along which it picks."""
        size, out = self._size(x), self._size(order)
        if len(size) != len(out):  # torch takes such an index, if it has no elements
            raise Decline("an index that has other dimensions than what it picks from")
        for at, (n, m) in enumerate(zip(out, size, strict=True)):
            if at != d % len(size) and n != m and (isinstance(n, Open) or isinstance(m, Open)):
                self.low.fail(self.low.code.do(f"icmp ugt i64 {self.text(n)}, {self.text(m)}"))
        return out

    def _indexed(self, node: Node) -> Size:
        """The indexed dims become the dims of the indices, in the first one's place or in front."""
        size, orders = self._size(node.args[0]), node.args[1]
        dims = [d for d, i in enumerate(orders) if i is not None]
        together = dims == list(range(dims[0], dims[-1] + 1))
        first = dims[0] if together else 0
        rest = [n for d, n in enumerate(size) if d not in dims]
        return (
            *rest[:first],
            *self._broadcast([self._size(orders[d]) for d in dims]),
            *rest[first:],
        )

    def _broadcast(self, sizes: Sequence[Size]) -> Size:
        rank = max(map(len, sizes), default=0)
        out: list[Any] = [1] * rank
        for size in sizes:
            for d, n in enumerate(size, rank - len(size)):
                if out[d] == 1:
                    out[d] = n
                elif n != 1:
                    self.require(out[d], n)
                    out[d] = n if isinstance(out[d], Open) else out[d]
        return tuple(out)

    def _reduced(self, node: Node, v: Value) -> Size:
        row = REDUCERS[node.op]
        size = self._size(node.args[row.space])
        dims = row.dims(node, len(size))
        if _needs_elements(node):
            self._require_elements(size, dims)
        if len(v.type.shape) == len(size):
            return tuple(1 if n == 1 else size[d] for d, n in enumerate(v.type.shape))
        return tuple(n for d, n in enumerate(size) if d not in dims)

    def _created(self, node: Node) -> Size:
        if node.op.split(".")[1] in _LIKE:
            return self._size(node.args[0])
        if node.op == "aten.arange.default" or (
            node.op == "aten.arange.start" and node.args[0] == 0
        ):
            return (self.known(self.low.register(self.low.operand(node.args[-1]))),)
        if node.op.startswith("aten.eye."):
            rows, *columns = (self.known(self.low.register(self.low.operand(n))) for n in node.args)
            return (rows, *(columns or [rows]))
        if not node.args or not isinstance(node.args[0], (list, tuple)):
            raise Decline(f"{node.op} of a size that is known only at run time")
        return tuple(self.known(self.low.register(self.low.operand(n))) for n in node.args[0])

    def _on_diagonal(self, x: Value, offset: Any = 0, *dims: int) -> Size:
        *lead, n = self._size(x)
        if dims or type(offset) is not int:
            raise Decline("a diagonal over other dims")
        if offset:
            if isinstance(n, Open):  # of an empty one there is no element to look at
                self.low.fail(self.low.code.do(f"icmp eq i64 {self.text(n)}, 0"))
            longer = self.low.code.add(self.text(n), str(abs(offset)))
            n = self.new(longer, min(bound(n) + abs(offset), LONGEST)) if isinstance(n, Open) else n + abs(offset)  # fmt: skip
        return (*lead, n, n)

    def _product(self, node: Node) -> Size:
        (left, own), (right, other) = SHARED[node.op]
        x, y = self._size(node.args[left]), self._size(node.args[right])
        self.require(x[own], y[other])
        for a, b in zip(x[:-2], y[:-2]):
            self.require(a, b)
        out = (*x[:-1], *(y[-1:] if len(y) > 1 else ()))
        if left:
            self._broadcast([out, self._size(node.args[0])])
        return out


def _needs_elements(node: Node) -> bool:
    """Whether a fold of nothing is an error."""
    return node.op.split(".")[1] in ("max", "min", "amax", "amin", "argmax", "argmin")
