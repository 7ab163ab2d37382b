"""Every row of the op table is complete, and the references of list, array and optional ops do what they say."""

import builtins
import copy
import math

import pytest
import torch

from tograph.errors import AssertionFailed, OutOfRangeError, TographError
from tograph.runtime.graph import ops
from tograph.runtime.graph.types import BOOL, FLOAT, INT, OBJECT, ListType, OptionalType, TensorType

A, B, C = (torch.full((2,), float(i)) for i in range(3))
ROWS = sorted(name for name in ops.TABLE if not name.startswith(("aten.", "op.")))


def run(name, *args, **kwargs):
    return ops.lookup(name).run(*args, **kwargs)


def same(x, y):
    if isinstance(x, torch.Tensor):
        return isinstance(y, torch.Tensor) and x.dtype == y.dtype and torch.equal(x, y)
    if isinstance(x, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    return type(x) is type(y) and x == y


# ---- rows


@pytest.mark.parametrize("name", ROWS)
def test_row_is_complete(name):
    row = ops.lookup(name)
    assert row.name == name
    assert callable(row.run)
    assert isinstance(row.effects, ops.Effects)
    assert row.gradient in (ops.NONE, ops.REPLAY)
    assert row.outputs >= 0
    assert ops.exists(name)


def test_a_second_row_is_an_error():
    with pytest.raises(KeyError, match="two rows for py.add"):
        ops.register("py.add", run=len, effects=ops.PURE, gradient=ops.NONE)
    assert run("py.add", 1, 2) == 3


@pytest.mark.parametrize(
    "name", ["tg.nothing", "py.nothing", "aten.nothing.default", "aten.add.nothing", "add", "If"]
)
def test_no_such_row(name):
    assert not ops.exists(name)
    with pytest.raises((KeyError, AttributeError)):
        ops.lookup(name)


@pytest.mark.parametrize(
    ("name", "random", "may_fail", "outputs"),
    [
        ("aten.add.Tensor", False, False, 1),
        ("aten.rand.default", True, False, 1),
        ("aten.native_dropout.default", True, False, 2),
        ("aten.bernoulli.default", True, True, 1),
        ("aten.index.Tensor", False, True, 1),
        ("aten.embedding.default", False, True, 1),
        ("aten.max.dim", False, False, 2),
        ("aten.remainder.Tensor", False, False, 1),
        ("aten.split.Tensor", False, False, 1),
    ],
)
def test_rows_of_torch_ops(name, random, may_fail, outputs):
    row = ops.lookup(name)
    assert (row.effects.random, row.effects.may_fail, row.outputs) == (random, may_fail, outputs)
    assert ops.overload_name(ops.overload(name)) == name
    assert ops.lookup(name) is row


@pytest.mark.parametrize(
    ("effects", "pure", "removable"),
    [
        (ops.PURE, True, True),
        (ops.IO, False, False),
        (ops.MAY_FAIL, False, False),
        (ops.Effects(random=True), False, False),
        (ops.Effects(reads=(0,)), False, True),
        (ops.Effects(writes=(0,)), False, False),
    ],
)
def test_effects(effects, pure, removable):
    assert (effects.pure, effects.removable) == (pure, removable)
    assert effects | ops.PURE == effects


def test_union_of_effects():
    both = ops.Effects(random=True, reads=(1,)) | ops.Effects(io=True, writes=(0,), reads=(2,))
    assert both == ops.Effects(random=True, io=True, reads=(1, 2), writes=(0,))


# ---- Python numbers


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("add", (2, 3), 5),
        ("truediv", (1, 2), 0.5),
        ("floordiv", (-7, 2), -4),
        ("mod", (-7, 3), 2),
        ("pow", (2, -1), 0.5),
        ("pow", (2, 100), 2**100),
        ("and_", (True, False), False),
        ("and_", (6, 3), 2),
        ("xor", (True, True), False),
        ("not", (0,), True),
        ("invert", (5,), -6),
        ("int", (-2.7,), -2),
        ("bool", (0.0,), False),
        ("float", (3,), 3.0),
        ("str", (1.5,), "1.5"),
        ("min", (1, 2.0), 1),
        ("max", (1, 2.0), 2.0),
        ("round", (2.5,), 2),
        ("round", (2.345, 2), 2.35),
        ("trunc", (-1.5,), -1),
        ("ceil", (1.2,), 2),
        ("floor", (-1.2,), -2),
        ("select", (True, 1, 2), 1),
        ("select", (0, 1, 2), 2),
        ("range_length", (0, 10, 3), 4),
        ("range_length", (10, 0, -3), 4),
        ("range_length", (0, -1, 1), 0),
        ("math.sqrt", (4,), 2.0),
        ("math.isnan", (math.nan,), True),
        ("math.hypot", (3, 4), 5.0),
        ("math.floor", (1.5,), 1),
        ("math.factorial", (5,), 120),
        ("lshift", (1, 70), 1 << 70),
        ("abs", (-3,), 3),
        ("lt", (1, 2), True),
        ("constant", ("x",), "x"),
    ],
)
def test_python_numbers(op, args, expected):
    found = run(f"py.{op}", *args)
    assert type(found) is type(expected)
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


def test_a_tensor_among_numbers_counts_as_its_number():
    assert same(run("py.add", torch.tensor(2), 1), 3)
    assert same(run("py.int", torch.tensor(2.7)), 2)
    assert same(run("py.bool", torch.tensor([0.0])), False)


@pytest.mark.parametrize(
    ("op", "args", "error"),
    [
        ("truediv", (1, 0), ZeroDivisionError),
        ("mod", (1, 0), ZeroDivisionError),
        ("floordiv", (1.0, 0.0), ZeroDivisionError),
        ("lshift", (1, -1), ValueError),
        ("int", (math.nan,), ValueError),
        ("int", (math.inf,), OverflowError),
        ("pow", (0, -1), ZeroDivisionError),
        ("math.sqrt", (-1,), ValueError),
        ("math.log", (0,), ValueError),
        ("math.exp", (1e4,), OverflowError),
        ("math_of", ("fsum", None, [1e308, 1e308]), OverflowError),
        ("range_length", (0, 1, 0), ValueError),
        ("int", (torch.ones(2),), RuntimeError),
    ],
)
def test_python_number_errors(op, args, error):
    with pytest.raises(error):
        run(f"py.{op}", *args)
    assert ops.lookup(f"py.{op}").effects.may_fail


def test_format():
    assert (
        run("py.format", "x=", (3.14159, "", ".2f"), " ", ("a", "r", ""), (7, "", "3d"))
        == "x=3.14 'a'  7"
    )
    assert run("py.format", (2.5, "", ((8, "", ""), ".1f"))) == format(2.5, "8.1f")


# ---- lists


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("list_new", (), ()),
        ("list_of", (A, B), (A, B)),
        ("list_push", ((A,), B), (A, B)),
        ("list_pop", ((A, B), -1), ((A,), B)),
        ("list_pop", ((A, B), 0), ((B,), A)),
        ("list_pop", ((A, B), torch.tensor(1)), ((A,), B)),
        ("list_insert", ((A, B), 1, C), (A, C, B)),
        ("list_insert", ((A, B), 99, C), (A, B, C)),
        ("list_insert", ((A, B), -1, C), (A, C, B)),
        ("list_insert", ((A, B), -99, C), (C, A, B)),
        ("list_get", ((A, B), 0), A),
        ("list_get", ((A, B), -1), B),
        ("list_get", ((A, B), torch.tensor(1)), B),
        ("list_set", ((A, B), 0, C), (C, B)),
        ("list_set", ((A, B), -1, C), (A, C)),
        ("list_slice", ((A, B, C), None, -1, None), (A, B)),
        ("list_slice", ((A, B, C), None, None, -1), (C, B, A)),
        ("list_size", ((A, B),), 2),
        ("list_extend", ((A,), (B, C)), (A, B, C)),
        ("list_from_tensor", (torch.stack([A, B]),), (A, B)),
        ("list_from_tensor", (torch.empty(0, 2),), ()),
        ("list_reserve", (2,), (None, None)),
        ("list_split", (torch.cat([A, B]), [2, 2]), (A, B)),
        ("list_split", (torch.cat([A, B]), torch.tensor([2, 2])), (A, B)),
        ("list_stack", ((A, B), torch.float32, (2,), "cpu"), torch.stack([A, B])),
        ("list_stack", ((), torch.int64, (2,), "cpu"), torch.empty(0, 2, dtype=torch.int64)),
        ("list_stack", ((), torch.float32, None, "cpu"), torch.empty(0)),
        ("list_stack", ((1, 2), torch.int64, (), "cpu"), torch.tensor([1, 2])),
        ("list_concat", ((A, B), torch.float32, (2,), "cpu"), torch.cat([A, B])),
        ("list_concat", ((), torch.float32, (), "cpu"), torch.empty(0)),
        ("optional_some", (A,), (A,)),
        ("optional_none", (), ()),
        ("optional_has", ((A,),), True),
        ("optional_has", ((),), False),
        ("optional_get", ((A,),), A),
        ("choose", (1, [A, B]), B),
        ("identity", (A,), A),
        ("array_write", ((), 0, A, None), (A,)),
        ("array_write", ((A,), 2, B, None), (A, None, B)),
        ("array_write", ((A, B), 0, C, 2), (C, B)),
        ("array_read", ((A, B), 1, torch.float32, (2,), "cpu"), B),
        ("array_read", ((None, B), 0, torch.float32, (2,), "cpu"), torch.zeros(2)),
        ("array_read", ((None, B), 0, torch.float32, (None,), "cpu"), torch.zeros(2)),
        ("array_read", ((None, B), torch.tensor(1), torch.float32, None, "cpu"), B),
        ("array_stack", ((A, None), torch.float32, (2,), "cpu"), torch.stack([A, torch.zeros(2)])),
        ("array_stack", ((None, None), torch.int64, (), "cpu"), torch.tensor([0, 0])),
        ("array_stack", ((), torch.float32, (2,), "cpu"), torch.empty(0, 2)),
        (
            "array_concat",
            ((A, None, B), torch.float32, (2,), "cpu"),
            torch.cat([A, torch.zeros(2), B]),
        ),
        ("array_concat", ((), torch.float32, (2, 3), "cpu"), torch.empty(0, 3)),
    ],
)
def test_lists(op, args, expected):
    before = copy.copy(args[0]) if args else None
    assert same(run(f"tg.{op}", *args), expected)
    assert not args or before is args[0] or same(before, args[0])


@pytest.mark.parametrize(
    ("op", "args", "error", "text"),
    [
        ("list_get", ((A, B), 2), IndexError, "^list index out of range$"),
        ("list_get", ((A, B), -3), IndexError, "^list index out of range$"),
        ("list_get", ((), 0), IndexError, "list index out of range"),
        ("list_set", ((A,), 1, B), IndexError, "^list assignment index out of range$"),
        ("list_pop", ((), -1), IndexError, "pop from empty list"),
        ("list_pop", ((A,), 1), IndexError, "pop index out of range"),
        ("list_pop", ((A,), -2), IndexError, "pop index out of range"),
        (
            "list_stack",
            ((A, torch.ones(3)), torch.float32, None, "cpu"),
            RuntimeError,
            "equal size",
        ),
        ("list_split", (torch.ones(4), [1, 2]), RuntimeError, "split"),
        ("array_write", ((), -1, A, None), OutOfRangeError, "index -1 is out of range"),
        (
            "array_write",
            ((A,), 2, A, 2),
            OutOfRangeError,
            "index 2 is out of range for a TensorArray of size 2",
        ),
        (
            "array_read",
            ((A,), 1, torch.float32, (2,), "cpu"),
            OutOfRangeError,
            "index 1 is out of range .* size 1",
        ),
        (
            "array_read",
            ((A,), -1, torch.float32, (2,), "cpu"),
            OutOfRangeError,
            "index -1 is out of range",
        ),
        ("array_stack", ((None,), torch.float32, None, "cpu"), TographError, "needs element_shape"),
        (
            "array_read",
            ((None,), 0, torch.float32, (None,), "cpu"),
            TographError,
            "needs element_shape",
        ),
        ("optional_get", ((),), TographError, "no value"),
    ],
)
def test_list_errors(op, args, error, text):
    with pytest.raises(error, match=text):
        run(f"tg.{op}", *args)
    assert ops.lookup(f"tg.{op}").effects.may_fail


# ---- effects


def test_print(capsys):
    run("tg.print", 1, "a", ops.OpaqueObject([2], "list"), sep="-", end="!")
    assert capsys.readouterr().out == "1-a-[2]!"


def test_raise_by_name():
    with pytest.raises(KeyError) as info:
        run("tg.raise", "KeyError", ("k",))
    assert info.value.args == ("k",)


class CustomError(ValueError):
    pass


def test_raise_copies_its_template():
    template = CustomError("old")
    template.code = 7
    template.__cause__ = cause = OSError()
    with pytest.raises(CustomError) as info:
        run("tg.raise", ops.OpaqueObject(template, "exception"), ("new",))
    assert info.value is not template
    assert (info.value.args, info.value.code, info.value.__cause__) == (("new",), 7, cause)
    assert template.args == ("old",)


@pytest.mark.parametrize("condition", [True, 1, torch.tensor(True), torch.tensor([1, 2])])
def test_assert_holds(condition):
    assert run("tg.assert", condition, "tg.AssertionFailed", []) is None


@pytest.mark.parametrize("condition", [False, 0, torch.tensor(False), torch.tensor([1, 0])])
def test_assert_fails(condition):
    with pytest.raises(AssertionFailed, match="x 3"):
        run("tg.assert", condition, "tg.AssertionFailed", ["x", 3])
    with pytest.raises(AssertionError):
        run("tg.assert", condition, "AssertionError", ["x"])


def test_read_is_a_snapshot_and_assign_writes_in_place():
    x = torch.zeros(2, requires_grad=True)
    before = run("tg.read", x)
    run("tg.assign", x, torch.ones(2))
    assert before.tolist() == [0, 0]
    assert x.tolist() == [1, 1]
    assert before.requires_grad


def test_py_call_and_apply():
    assert run("tg.py_call", ops.OpaqueObject(lambda a, b: a + b, "f"), [1, 2], 1) == 3
    assert run("py.apply", max, 1, 2) == 2
    assert run("py.apply_opaque", ops.OpaqueObject(divmod, "divmod"), 7, 2) == (3, 1)


def test_progress_cell():
    cell = run("tg.cell_new")
    assert run("tg.cell_tag", cell) == 0
    assert run("tg.cell_get", cell, 1, 0, "int") == 0
    run("tg.cell_set", cell, 2, [A, 5])
    assert run("tg.cell_tag", cell) == 2
    assert same(run("tg.cell_get", cell, 2, 1, "int"), 5)
    assert same(run("tg.cell_get", cell, 1, 0, "f32[2]"), torch.zeros(2))


@pytest.mark.parametrize(
    ("kind", "zero"),
    [
        (INT, 0),
        (FLOAT, 0.0),
        (BOOL, False),
        (OBJECT, None),
        (ListType(None), ()),
        (OptionalType(INT), ()),
        (TensorType(torch.int32, (2, None)), torch.zeros(2, 0, dtype=torch.int32)),
    ],
)
def test_zero_of(kind, zero):
    assert same(ops.zero_of(kind), zero)


def test_opaque_objects_are_equal_by_label():
    one, two = ops.OpaqueObject(1, "f"), ops.OpaqueObject(2, "f")
    assert one == two
    assert hash(one) == hash(two)
    assert one != ops.OpaqueObject(1, "g")
    assert (ops.plain(one), ops.plain(5)) == (1, 5)


# ---- references of views and copies


def test_view_of_a_value_never_fails_for_its_strides():
    x = torch.arange(6).reshape(2, 3).t()
    assert run("aten.view.default", x, [6]).tolist() == [0, 3, 1, 4, 2, 5]


def test_copy_keeps_dtype_size_and_strides():
    target = torch.zeros(3, 2).t()
    out = run("aten.copy.default", target, torch.ones(3, dtype=torch.int64))
    assert (out.dtype, out.shape, out.stride()) == (target.dtype, target.shape, target.stride())
    assert out.tolist() == [[1.0] * 3] * 2
    assert target.sum() == 0


def test_names_of_exceptions_are_builtins():
    with pytest.raises(AttributeError):
        ops.make_exception("NoSuchError", ())
    assert isinstance(ops.make_exception("OSError", (2, "x")), builtins.FileNotFoundError)


def _samples():
    x, w, t = torch.randn(2, 3, 4), torch.randn(4), torch.fft.rfft(torch.randn(8))
    rows = torch.randn(5, 3)
    yield "aten.view.default", (x, [6, 4]), {}
    yield "aten.view.default", (x, [-1]), {}
    yield "aten.expand.default", (x[:, :1], [2, 3, -1]), {}
    yield "aten.expand.default", (w, [3, 4]), {"implicit": False}
    yield "aten._softmax.default", (x, -1, False), {}
    yield "aten._log_softmax.default", (x, 1, False), {}
    yield "aten.native_layer_norm.default", (x, [4], w, None, 1e-5), {}
    yield "aten._fft_r2c.default", (torch.randn(8), [0], 0, True), {}
    yield "aten._fft_c2r.default", (t, [0], 2, 8), {}
    yield "aten._fft_c2c.default", (t, [0], 0, True), {}
    yield "aten.embedding.default", (rows, torch.tensor([1, 4]), -1, False, False), {}
    yield "aten.gelu.default", (x,), {"approximate": "tanh"}
    yield "aten.silu.default", (x,), {}
    yield "aten.native_batch_norm.default", (rows, None, None, None, None, True, 0.1, 1e-5), {}


@pytest.mark.parametrize("sample", list(_samples()), ids=lambda s: s[0])
def test_direct_functions_give_what_the_overloads_give(sample):
    name, args, kwargs = sample
    found = ops.DIRECT[name](*args, **kwargs)
    wanted = ops.overload(name)(*args, **kwargs)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()
