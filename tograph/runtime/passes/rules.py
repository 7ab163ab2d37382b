"""Algebraic rules as data: each is a pattern, what stands for it, and when that is exact.

A pattern is ``(op, arguments...)``: a string is a variable (the same one twice: the same value or equal constants), a tuple
is the node that makes the argument, anything else is that constant (``0`` is 0 and 0.0, but not -0.0). A dictionary
at the end has the keyword arguments, all of them; ``ANY`` matches any. The right side is a variable or a new node.

Laws. A rule holds for every value of every dtype: infinities, -0.0, overflow of integers, NaN (whose payload may differ). The
driver applies it only where the type of the result is that of what it replaces, so promotion cannot slip in.
Strides may differ only for ``layout`` rules, which hold where nobody sees strides: not for results, and not in a
graph with an op of ``STRIDED``. An ``elementwise`` rule is one of them where ``x`` may have gaps between its elements, which a new tensor has not. The right side is never dearer. No rule turns another one's right side back. ``when`` narrows a rule to dtypes.
Not rules, because they are not exact: x + 0 on floats (-0.0 + 0 is 0.0), x * 0 (NaN, infinity, -0.0), x - x, x / x,
pow(x, 3) (half-precision kernels round once, x * x * x rounds twice).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..graph.types import BOOL, ScalarType, TensorType, Type, is_static

ANY: Any = object()
# Ops whose result depends on the strides of what they are given.
STRIDED = (
    "aten.as_strided.",
    "aten.as_strided_scatter.",
    "aten.view.dtype",
    "aten.view_as_complex.",
    "aten.unfold.",
)


class Rule(NamedTuple):
    """``left`` may become ``right`` where ``when`` holds for the type of the result."""

    left: tuple
    right: Any
    when: Callable[[Type], bool] = lambda kind: True
    layout: bool = False  # the right side may have other strides
    apart: bool = False  # the left side is a view, and the right side none of the same tensor
    elementwise: bool = False  # it may where it has gaps
    shown: bool = (
        False  # the left side shows the memory of the right side, and all of it in the same way
    )
    where: tuple[str, Callable[[Type, Type], bool]] | None = (
        None  # for the types of a variable and of the result
    )

    def holds(self, result: Type, kind: Callable[[str], Type]) -> bool:
        """Whether the rule is exact for a type of the result, and for the types of variables."""
        return self.when(result) and (self.where is None or self.where[1](kind(self.where[0]), result))  # fmt: skip


def integers(kind: Type) -> bool:
    """Integers, not bools."""
    if not isinstance(kind, (TensorType, ScalarType)) or kind == BOOL:
        return False
    dtype = kind.dtype
    return not (dtype.is_floating_point or dtype.is_complex) and str(dtype) != "torch.bool"


def floats(kind: Type) -> bool:
    """Real floating-point tensors."""
    return isinstance(kind, TensorType) and kind.dtype.is_floating_point


def real(kind: Type) -> bool:
    """No complex numbers: (inf + 0j) * 1 has a NaN."""
    return not (isinstance(kind, TensorType) and kind.dtype.is_complex)


def truths(kind: Type) -> bool:
    """Bools."""
    return kind == BOOL or (isinstance(kind, TensorType) and str(kind.dtype) == "torch.bool")


def negated_alike(kind: Type, result: Type) -> bool:
    """Floats, or integers of the dtype of the result: an integer's sign changes in its own dtype."""
    return floats(kind) or (isinstance(kind, TensorType) and kind.dtype == result.dtype)


def of_its_dtype(kind: Type, result: Type) -> bool:
    """Tensors of the dtype of the result: a number has not promoted them."""
    return isinstance(kind, TensorType) and kind.dtype == result.dtype


def tests(kind: Type, result: Type) -> bool:
    """Tensors of bools."""
    return isinstance(kind, TensorType) and truths(kind)


_ONE = ("aten.full.default", ANY, 1, {"dtype": ANY, "device": ANY})  # as a gradient begins with
_ONES = ("aten.expand.default", _ONE, ANY)
RULES = [
    # x * 1 = x,  x / 1 = x,  x ** 1 = x
    Rule(("aten.mul.Tensor", "x", 1), "x", real, elementwise=True),
    Rule(("aten.mul.Scalar", "x", 1), "x", real, elementwise=True),
    *(Rule(("aten.mul.Tensor", *pair), "x", real, elementwise=True) for one in (_ONE, _ONES) for pair in (("x", one), (one, "x"))),
    Rule(("aten.div.Tensor", "x", 1), "x", floats, elementwise=True),
    Rule(("aten.pow.Tensor_Scalar", "x", 1), "x", elementwise=True),
    # x ** 2 = x * x: torch computes it so
    Rule(("aten.pow.Tensor_Scalar", "x", 2), ("aten.mul.Tensor", "x", "x"), floats, where=("x", of_its_dtype)),  # not i ** 2.0
    # x - 0 = x;  x + 0 = x for integers only
    Rule(("aten.sub.Tensor", "x", 0), "x", elementwise=True),
    Rule(("aten.add.Tensor", "x", 0), "x", integers, elementwise=True),
    # x + -y = x - y
    Rule(("aten.add.Tensor", "x", ("aten.neg.default", "y")), ("aten.sub.Tensor", "x", "y"), real, where=("y", negated_alike)),
    # some of x are true
    *(Rule((f"aten.{word}.Scalar", (f"aten.{count}.default", "x"), n), ("aten.any.default", "x"), where=("x", tests))
      for word, n in (("gt", 0), ("ne", 0), ("ge", 1)) for count in ("sum", "count_nonzero")),
    # -(-x) = x,  not not x = x,  ~~x = x
    Rule(("aten.neg.default", ("aten.neg.default", "x")), "x", real, elementwise=True),
    Rule(("aten.logical_not.default", ("aten.logical_not.default", "x")), "x", truths, elementwise=True),
    Rule(("aten.bitwise_not.default", ("aten.bitwise_not.default", "x")), "x", elementwise=True),
    # ||x|| = |x|,  relu(relu(x)) = relu(x)
    Rule(("aten.abs.default", ("aten.abs.default", "x")), ("aten.abs.default", "x")),
    Rule(("aten.relu.default", ("aten.relu.default", "x")), ("aten.relu.default", "x")),
    # x and x = x,  x or x = x
    Rule(("aten.logical_and.default", "x", "x"), "x", truths, elementwise=True),
    Rule(("aten.logical_or.default", "x", "x"), "x", truths, elementwise=True),
    # a copy of x into y's memory is x;  a clone is x
    Rule(("aten.copy.default", "y", "x"), "x", is_static, layout=True),
    Rule(("aten.clone.default", "x"), "x", is_static, layout=True),
    Rule(("tg.identity", "x"), "x"),
    Rule(("tg.identity", "x", ANY), "x"),
    # a write that autograd did not see
    Rule(("tg.written", ANY, "x"), "x"),
    # views of views
    Rule(("aten.alias.default", "x"), "x", shown=True),
    Rule(("aten.view.default", "x", ANY), "x", is_static),
    Rule(("aten.view.default", ("aten.view.default", "x", ANY), "s"), ("aten.view.default", "x", "s")),
    Rule(("aten.t.default", ("aten.t.default", "x")), "x", shown=True),
    Rule(("aten.transpose.int", ("aten.transpose.int", "x", "a", "b"), "a", "b"), "x", shown=True),
    Rule(("aten.transpose.int", ("aten.transpose.int", "x", "a", "b"), "b", "a"), "x", shown=True),
    Rule(("aten.expand.default", "x", ANY), "x", is_static),
    # what was written in a place is what a look there shows
    Rule(("aten.select.int", ("aten.select_scatter.default", "x", "v", "d", "i"), "d", "i"), "v", apart=True),
    Rule(("aten.slice.Tensor", ("aten.slice_scatter.default", "x", "v", "d", "a", "b"), "d", "a", "b"), "v", apart=True),
    Rule(("aten.slice.Tensor", ("aten.slice_scatter.default", "x", "v", "d", "a", "b", "s"), "d", "a", "b", "s"), "v", apart=True),
    # what was there before written back
    Rule(("aten.select_scatter.default", "x", ("aten.select.int", "x", "d", "i"), "d", "i"), "x"),
    Rule(("aten.slice_scatter.default", "x", ("aten.slice.Tensor", "x", "d", "a", "b"), "d", "a", "b"), "x"),
    Rule(("aten.slice_scatter.default", "x", ("aten.slice.Tensor", "x", "d", "a", "b", "s"), "d", "a", "b", "s"), "x"),
    # the first of two writes to one place is lost
    Rule(("aten.select_scatter.default", ("aten.select_scatter.default", "x", "u", "d", "i"), "v", "d", "i"),
         ("aten.select_scatter.default", "x", "v", "d", "i")),
    # a list that has just been written
    Rule(("tg.list_get", ("tg.list_push", "l", "v"), -1), "v"),
    Rule(("tg.list_get", ("tg.list_set", "l", "i", "v"), "i"), "v"),
    Rule(("tg.optional_get", ("tg.optional_some", "v")), "v"),
    Rule(("tg.optional_has", ("tg.optional_some", "v")), True),
    Rule(("tg.optional_has", ("tg.optional_none",)), False),
    # Python numbers
    Rule(("py.int", "x"), "x"),
    Rule(("py.float", "x"), "x"),
    Rule(("py.bool", "x"), "x"),
    Rule(("py.add", "x", 0), "x", integers),
    Rule(("py.sub", "x", 0), "x", integers),
    Rule(("py.mul", "x", 1), "x"),
    Rule(("py.mul", 1, "x"), "x"),
    Rule(("py.not", ("py.not", "x")), "x"),
    Rule(("py.neg", ("py.neg", "x")), "x"),
    Rule(("py.min", "x", "x"), "x"),
    Rule(("py.max", "x", "x"), "x"),
]  # fmt: skip
