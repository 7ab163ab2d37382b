"""The quick key of a call against the full one, and calls that go by it."""

import dataclasses
import enum
import itertools
import warnings

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.runtime.values import arguments, keys

A, B, C = torch.ones(3), torch.zeros(3), torch.ones(2, dtype=torch.int64)
ARGUMENTS = [
    (), (A,), (B,), (C,), (A, B), ([A, B],), ((A, B),), ([A], B), ([A], [B]), ([[A], B],), ([A, [B]],), ({"a": A, "b": B},), ({"b": A, "a": B},),
    ({"b": B, "a": A},), ({"a": [A], "b": B},), (A, 1), (A, True), (A, 1.0), (A, "1"), (A, None), (A, 0.0), (A, -0.0), ([A, 1],), ([A, True],),
    ([A], 1), ([], A), ((), A), ({}, A), ([[]], A), (A, float("nan")), (torch.nn.Parameter(A), B), ({"a": 1, "b": A},), ({"a": True, "b": A},),
]  # fmt: skip


def full(args):
    flat = arguments.Flat()
    return tuple(arguments.key_of(x, flat, "x") for x in args), flat.tensors


def test_two_calls_have_one_quick_key_where_they_have_one_key():
    for a, b in itertools.combinations_with_replacement(ARGUMENTS, 2):
        assert (keys.QuickKey(a).key == keys.QuickKey(b).key) is (full(a)[0] == full(b)[0]), (a, b)


@pytest.mark.parametrize("args", ARGUMENTS, ids=str)
def test_the_tensors_come_in_the_same_order(args):
    quick = keys.QuickKey(args)
    assert quick.key is not None
    flat = arguments.Flat()
    for x in args:
        arguments.key_of(x, flat, "x")
    assert list(map(id, quick.tensors)) == list(map(id, flat.tensors))
    assert list(map(repr, quick.numbers)) == list(map(repr, flat.numbers))


LIST, DICT = [A], {"a": A}


@pytest.mark.parametrize("args", [(A, A), (A, [A]), (LIST, LIST), (DICT, DICT), ({1: A},), ({A},), (range(3),), (object(),), ({"a": A}, A)])  # fmt: skip
def test_what_has_no_quick_key(args):
    assert keys.QuickKey(args).key is None


def test_calls_by_name_and_by_position_are_one():
    @tg.function
    def f(x, y, n=2):
        return x * n - y

    for _ in range(5):
        assert torch.equal(f(A, B, 3), f(n=3, y=B, x=A))
        assert torch.equal(f(A, y=B, n=3), A * 3)
        assert torch.equal(f(x=B, y=A), B * 2 - A)
    assert f.trace_count == 2
    with pytest.raises(TypeError, match="missing"):
        f(A, n=3)
    with pytest.raises(TypeError, match="unexpected"):
        f(A, B, m=3)


def test_containers_of_other_tensors_give_other_results():
    f = tg.function(lambda xs, d: (xs[0] - xs[1]) * d["k"])
    for i in range(6):
        x, y, k = torch.full((3,), float(i)), torch.arange(3.0), torch.tensor([1.0, i, 2.0])
        assert torch.equal(f([x, y], {"k": k}), (x - y) * k)
        assert torch.equal(f((y, x), {"k": k}), (y - x) * k)
        assert torch.equal(f([x, x], {"k": k}), x * 0)
    assert f.trace_count == 3


def product(x, y):
    return x @ y


def test_autocast_on_a_cpu_has_traces_of_its_own():
    f, x = tg.function(product), torch.randn(4, 4)
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert f(x, x + 1).dtype == torch.bfloat16
        assert f(x, x + 1).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.float16):
            assert f(x, x + 1).dtype == torch.float16
        with torch.autocast("cpu", enabled=False):
            torch.testing.assert_close(f(x, x + 1), x @ (x + 1))
    assert f.trace_count == 3


def test_what_a_function_leaves_out_of_autocast_stays_out():
    def inside(x):
        with torch.autocast("cpu", enabled=False):
            y = x @ x
        return y, x @ x, y.sin() + 1

    x = torch.randn(4, 4)
    f, traced = tg.function(inside), tg.function(product)
    concrete = traced.get_concrete_function(x, x + 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(3):
            for made, wanted in zip(f(x), inside(x), strict=True):
                torch.testing.assert_close(made, wanted)
            torch.testing.assert_close(concrete(x, x + 1), torch.mm(x.double(), (x + 1).double()).float())  # fmt: skip


def test_python_code_in_a_graph_sees_the_autocast_around_it():
    def call(x):
        spec = tg.TensorSpec([4, 4], torch.bfloat16)
        return tg.py_function(lambda v: v @ v, [x], spec)

    def within(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return call(x)

    x = torch.randn(4, 4)
    assert tg.function(within)(x).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tg.function(call)(x).dtype == torch.bfloat16


class Kind(str, enum.Enum):
    A = "a"


@pytest.mark.parametrize(
    "function, ways",
    [
        (lambda d: {str(k): v for k, v in d.items()}, [{1: A}, {True: A}, {1.0: A}, {"1": A}]),
        (lambda d: ([str(k) for k in d], *d.values()), [{"a": A}, {Kind.A: A}, {0.0: A}, {-0.0: A}]),
        (str, [frozenset([1]), frozenset([True]), frozenset([1.0])]),
        (str, [(frozenset([0.0]),), (frozenset([-0.0]),)]),
        (lambda r: (r.start, r.stop, r.step), [range(0, 3, 2), range(0, 4, 2), range(0), range(1, 1)]),
        (repr, [complex(-1.0, 0.0), complex(-1.0, -0.0)]),
    ],
)  # fmt: skip
def test_what_compares_equal_is_not_one_argument(function, ways):
    def f(x, way):
        return x + 1, function(way)

    converted = tg.function(f)
    for way in [w for w in ways for _ in range(5)]:
        (_, wanted), (_, found) = f(A, way), converted(A, way)
        assert repr(found) == repr(wanted)


def test_keyword_only_arguments_are_not_given_by_position():
    @tg.function
    def f(x, *, n=1):
        return x + n

    for _ in range(5):
        f(A, n=2)
    with pytest.raises(TypeError, match="too many positional arguments"):
        f(A, 2)


class Twice(torch.overrides.TorchFunctionMode):
    """Doubles sines."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.Tensor.sin else result


@pytest.mark.parametrize("called_before", [False, True])
def test_what_a_mode_makes_of_functions_is_for_calls_under_it(called_before):
    x = torch.ones(2)
    f = tg.function(lambda x: x.sin() + 1)
    if called_before:
        f(x), f(x)
    with Twice():
        found = [f(x), f(x)]
    for y in found:
        torch.testing.assert_close(y, x.sin() * 2 + 1)
    for _ in range(2):
        torch.testing.assert_close(f(x), x.sin() + 1)


def test_weights_are_cast_in_each_branch_and_trace():
    layer = torch.nn.Linear(4, 4)
    inner = tg.function(lambda x: layer(x) @ x)

    def outer(x):
        a = inner(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = inner(x)
            if b.sum() > 0:
                b = layer(b)
            return a, b, layer(x)

    f, x = tg.function(outer), torch.randn(4, 4)
    for y in (x, -x, x[:, :4].clone().requires_grad_()):
        for made, wanted in zip(f(y), outer(y), strict=True):
            torch.testing.assert_close(made, wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for y in (x, x.clone().requires_grad_()):
            for made, wanted in zip(f(y), outer(y), strict=True):
                torch.testing.assert_close(made, wanted, atol=0.1, rtol=0.05)
        assert torch.is_autocast_cache_enabled()


def test_texts_of_numpy_are_texts():
    f = tg.function(lambda x, kind: x * 2 if kind == "double" and x > 0 else x)
    x = torch.tensor(1.0)
    assert f(x, np.str_("double")) == 2 and f(x, np.str_("single")) == 1


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array([1], "M8[D]"), np.datetime64("2020-01-01")])  # fmt: skip
def test_arrays_of_no_numbers_are_refused(array):
    with pytest.raises(tg.errors.UnhashableArgumentError, match="'kind'.*is no tensor. Pass a list or a tuple"):  # fmt: skip
        tg.function(lambda x, kind: x)(torch.tensor(1.0), array)


def test_nested_tensors_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for args in ((x,), ([x],)):
        with pytest.raises(tg.errors.UnsupportedOpError, match="no nested ones"):
            tg.function(lambda v: v)(*args)


@dataclasses.dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    name: str = "a"
    rest: list = dataclasses.field(default_factory=list)

    def scaled(self, k):
        return dataclasses.replace(self, x=self.x * k)


def grown(s):
    while s.x.sum() < 20:
        s = s.scaled(2)
    s.rest.append(s.x + 1)
    return s


def test_frozen_dataclasses_with_tensors_are_structures():
    f = tg.function(grown)
    for i in range(1, 5):
        given = [Sample(torch.full((2,), float(i))) for _ in range(2)]
        found, wanted = f(given[0]), grown(given[1])
        torch.testing.assert_close([found.x, *found.rest], [wanted.x, *wanted.rest])
        assert found.name == wanted.name
        torch.testing.assert_close(given[0].rest, given[1].rest)
    assert f.trace_count == 1
    f(Sample(torch.ones(2), "b"))
    f(Sample(torch.ones(3)))
    assert f.trace_count == 3


def test_a_frozen_dataclass_is_one_object_in_a_call():
    s = Sample(torch.ones(2))
    both = tg.function(lambda a, b: (a, a is b, a.x is b.x))
    for one, other in ((s, s), (s, Sample(s.x))):
        found = both(one, other)
        assert found[0] is s and found[1:] == (one is other, True)
    x = torch.ones(2, requires_grad=True)
    tg.function(lambda s: (s.scaled(3).x).sum())(Sample(x)).backward()
    assert x.grad.tolist() == [3, 3]


def test_frozen_dataclasses_without_tensors_are_objects():
    f = tg.function(lambda x, s: x * len(s.name))
    s = Sample("no tensor")
    for _ in range(3):
        f(torch.ones(2), s)
    assert f.trace_count == 1


def test_a_slice_is_a_structure_of_its_bounds():
    def taken(x, rows):
        total = x[rows].sum()
        while total < 50:
            total = total + x[rows].sum() + 1
        return x[rows], total, rows.stop

    x = torch.arange(12.0).view(4, 3)
    f, slices = tg.function(taken), [slice(0, 2), slice(None), slice(3, None, 2), slice(-1, None)]
    for _ in range(2):
        for rows in slices:
            for found, expected in zip(f(x, rows), taken(x, rows)):
                assert found == expected if expected is None else torch.equal(torch.as_tensor(found), torch.as_tensor(expected))  # fmt: skip
    assert f.trace_count == len(slices)
    assert "from slice(0, 2, None) to slice(None, None, None)" in f.explain_retraces()


def test_bounds_of_a_slice_that_are_tensors_or_open():
    def rows_of(x, rows):
        return x[rows] * 2

    x = torch.arange(12.0).view(4, 3)
    tensors, relaxed = tg.function(rows_of), tg.function(rows_of, reduce_retracing=True)
    for n in (0, 4, 2, 3, -1, 9):
        expected = x[:n] * 2
        assert torch.equal(tensors(x, slice(None, torch.tensor(n))), expected)
        assert torch.equal(relaxed(x, slice(None, n)), expected)
    assert tensors.trace_count == 1 and relaxed.trace_count == 2
