"""Every rule on special values of every dtype; and graphs on which rules must not act."""

import itertools
import math

import pytest
import torch

import tograph as tg
from tests.runtime.passes.text_case import after, same
from tograph.runtime.graph import ops
from tograph.runtime.graph.types import BOOL, FLOAT, INT, TensorType
from tograph.runtime.passes.rules import ANY, RULES
from tograph.runtime.passes.simplify import simplify

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64]  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, -3.0, math.inf, -math.inf, math.nan, 1e-45, 3e-39, 65504.0, 7e4, 1e38]


def special(dtype):
    if dtype == torch.bool:
        values = torch.tensor([True, False] * 6)
    elif dtype.is_floating_point or dtype.is_complex:
        values = torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    else:
        info = torch.iinfo(dtype)
        values = torch.tensor(
            [0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 7, 5, 100, 11], dtype=dtype
        )
    return values.view(3, 4)


def environments():
    """(type of x, what each variable is): tensors of every dtype, Python numbers, lists."""
    for dtype in DTYPES:
        x = special(dtype)
        for a, b in [(0, 1), (1, 0)]:
            yield {
                "x": x,
                "y": x.flip(0),
                "v": x[1].flip(0),
                "u": x[0],
                "d": 0,
                "i": 1,
                "a": a,
                "b": b,
            }
        yield {"x": x, "v": x[:2].flip(0), "d": 0, "a": 0, "b": 2, "s": 1}
        yield {"x": x, "v": x[:, 1:4:2].flip(0), "d": 1, "a": 1, "b": 4, "s": 2}
        yield {"x": x, "s": [4, 3]}
    for one, other in itertools.product(DTYPES, DTYPES):
        if one.is_complex == other.is_complex:
            yield {"x": special(one), "y": special(other).flip(0)}
    for x in [0, 3, -7, 2**70, True, False, 0.0, -0.0, 1.5, math.inf, math.nan]:
        yield {"x": x}
    row = torch.ones(2)
    yield {"l": (row, row * 2), "v": row * 3, "i": 1}


def type_of(x):
    if isinstance(x, torch.Tensor):
        return TensorType(x.dtype, tuple(x.shape))
    return {bool: BOOL, int: INT, float: FLOAT}.get(type(x))


def evaluate(pattern, env):
    if isinstance(pattern, str):
        return env[pattern]
    if pattern is ANY:
        return list(env["x"].shape) if isinstance(env["x"], torch.Tensor) else None
    if not isinstance(pattern, tuple):
        return pattern
    args, options = pattern[1:], {}
    if args and isinstance(args[-1], dict):
        known = {"dtype": getattr(env["x"], "dtype", None), "device": "cpu"}
        args, options = args[:-1], {k: known[k] for k in args[-1]}
    return ops.lookup(pattern[0]).run(*(evaluate(p, env) for p in args), **options)


def identical(one, other):
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and repr(one) == repr(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.is_complex():
        one, other = torch.view_as_real(one.clone()), torch.view_as_real(other.clone())
    nan = (
        one.isnan() & other.isnan()
        if one.is_floating_point()
        else torch.zeros_like(one, dtype=torch.bool)
    )
    bits = [v.contiguous().masked_fill(nan, 0).flatten().view(torch.uint8) for v in (one, other)]
    return torch.equal(*bits)


@pytest.mark.parametrize(
    "rule", RULES, ids=lambda r: f"{r.left} = {r.right}".replace(str(ANY), "_")
)
def test_rule_is_exact(rule):
    count = 0
    for env in environments():
        try:
            before = evaluate(rule.left, env)
            result = evaluate(rule.right, env)
        except (LookupError, RuntimeError, TypeError, ValueError, ArithmeticError):
            continue
        # the driver replaces only by what has the same type
        if not isinstance(rule.right, tuple) and type_of(before) != type_of(result):
            continue
        if rule.holds(type_of(before), lambda name: type_of(env[name])):  # noqa: B023  called at once
            count += 1
            assert identical(before, result), (env, before, result)
    assert count


def body(*lines, result="%9"):
    head = "main(%x: f32[2,2], %k: i64[2,2], %i: int) {\n"
    return head + "\n".join(f"  {line}" for line in lines) + f"\n  return {result}\n}}"


def test_chains():
    same(
        simplify,
        body(
            "%0: f32[2,2] = aten.neg.default(%x)",
            "%1: f32[2,2] = aten.mul.Tensor(%0, 1)",
            "%2: f32[2,2] = aten.neg.default(%1)",
            "%3: f32[2,2] = aten.pow.Tensor_Scalar(%2, 2)",
            "%9: f32[2,2] = aten.exp.default(%3)",
        ),
        body(
            "%0: f32[2,2] = aten.neg.default(%x)",
            "%3: f32[2,2] = aten.mul.Tensor(%x, %x)",
            "%9: f32[2,2] = aten.exp.default(%3)",
        ),
    )


def test_a_write_of_a_row_needs_no_old_row():
    made = body(
        "%0: f32[2] = aten.select.int(%x, 0, %i)",
        "%1: f32[2] = aten.neg.default(%0)",
        "%2: f32[2] = aten.copy.default(%0, %1)",
        "%9: f32[2,2] = aten.select_scatter.default(%x, %2, 0, %i)",
    )
    assert "copy" not in after(simplify, made)


@pytest.mark.parametrize(
    "line",
    [
        "%0: f32[2,2] = aten.add.Tensor(%x, 0)",  # -0.0 + 0 is 0.0
        "%0: f32[2,2] = aten.sub.Tensor(%x, -0.0)",
        "%0: f32[2,2] = aten.mul.Tensor(%x, 0)",
        "%0: f32[2,2] = aten.mul.Tensor(%k, 1.0)",  # another dtype
        "%0: f32[2,2] = aten.pow.Tensor_Scalar(%x, 3)",
        "%0: f32[2,2] = aten.pow.Tensor_Scalar(%k, 2.0)",
        "%0: f32[2,2] = aten.add.Tensor(%x, 0, alpha=2)",
        "%0: f32[2,2] = aten.div.Tensor(%k, 1)",
        "%0: f32[2,2] = aten.clone.default(%x, memory_format=torch.contiguous_format)",
    ],
)
def test_stays(line):
    same(simplify, body(line, "%9: f32[2,2] = aten.exp.default(%0)"))


def test_what_the_caller_gets_is_no_input_and_keeps_its_layout():
    same(simplify, body("%9: f32[2,2] = aten.mul.Tensor(%x, 1)"))
    same(simplify, body("%9: f32[2,2] = aten.clone.default(%x)"))
    same(
        simplify,
        body(
            "%0: f32[2,2] = aten.t.default(%x)",
            "%1: f32[2,2] = aten.exp.default(%0)",
            "%9: f32[2,2] = aten.clone.default(%1)",
        ),
    )


@pytest.mark.parametrize("op", ["aten.t.default({})", "aten.transpose.int({}, 0, 1)"])
def test_a_result_that_is_turned_twice_is_what_was_turned(op):
    lines = ["%0: f32[2,2] = aten.exp.default(%x)", f"%1: f32[2,2] = {op.format('%0')}"]
    twice = body(*lines, f"%9: f32[2,2] = {op.format('%1')}")
    same(simplify, twice, body(*lines, result="%0"))


def test_a_result_that_is_turned_twice_is_no_other_result_and_no_argument():
    same(
        simplify,
        body("%0: f32[2,2] = aten.t.default(%x)", "%9: f32[2,2] = aten.t.default(%0)"),
    )
    x = torch.randn(2, 3)

    @tg.function
    def f(x):
        y = x + 1
        return y, y.t().t(), x.t().t()

    y, z, again = f(x)
    assert y is not z and again is not x
    z[0] = 5.0
    again[0] = 6.0
    assert torch.equal(y, z) and torch.equal(again, x)


def test_the_gradient_of_a_weight_is_not_copied():
    layer = torch.nn.Linear(3, 4)
    f = tg.function(lambda x: layer(x).tanh())
    f(torch.randn(5, 3)).sum().backward()
    assert layer.weight.grad.stride() == (3, 1)
    (pair,) = f.concrete_functions[0].gradients.differentiable._pairs.values()
    (program,) = pair._backwards.values()
    made = [v.node.op for v in program.graph.outputs if v.type.shape == (4, 3)]
    assert made == ["aten.mm.default"]


def test_strides_that_somebody_looks_at():
    same(
        simplify,
        body(
            "%0: f32[2,2] = aten.clone.default(%x)",
            "%9: f32[4] = aten.as_strided.default(%0, [4], [1])",
        ),
    )


def test_a_gradient_begins_with_ones_and_multiplies_by_none():
    x = torch.randn(3, 4, requires_grad=True)
    y = torch.randn(3, 4)
    f = tg.function(lambda x: torch.autograd.grad((x * y.exp()).sum(), x))
    (found,) = f(x)
    torch.testing.assert_close(found, y.exp())
    assert not any(
        "aten.mul" in n.op or "sum" in n.op for n in f.concrete_functions[0].optimized_graph.nodes
    )
