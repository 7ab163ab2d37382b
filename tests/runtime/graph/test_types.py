"""The text of a type reads back as the type; `join` is the least type that covers two."""

import itertools

import pytest
import torch

from tograph.runtime.graph.types import (
    BOOL,
    DTYPE_NAMES,
    FLOAT,
    INT,
    OBJECT,
    ListType,
    OptionalType,
    ScalarType,
    TensorType,
    join,
    join_shapes,
    parse_type,
)

F3 = TensorType(torch.float32, (3,))
F_ = TensorType(torch.float32, (None,))
TYPES = [
    INT,
    FLOAT,
    BOOL,
    OBJECT,
    F3,
    F_,
    TensorType(torch.int64, ()),
    TensorType(torch.bool, (0, None, 2)),
    TensorType(torch.float16, (2,), "cuda:0"),
    TensorType(torch.float32, (3,), "meta"),
    ListType(None),
    ListType(F3),
    ListType(F_),
    OptionalType(F3),
    OptionalType(F_),
    OptionalType(INT),
    OptionalType(ListType(None)),
    OptionalType(ListType(F_)),
    OptionalType(OptionalType(OBJECT)),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_text_reads_back(kind):
    assert parse_type(str(kind)) == kind
    assert parse_type(f"  {kind} ") == kind


@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_every_dtype_reads_back(dtype):
    kind = TensorType(dtype, (2, None))
    assert str(kind) == f"{DTYPE_NAMES[dtype]}[2,?]"
    assert parse_type(str(kind)) == kind


def test_dtype_names_are_unique():
    assert len(set(DTYPE_NAMES.values())) == len(DTYPE_NAMES)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (F3, "f32[3]"),
        (TensorType(torch.int64, ()), "i64[]"),
        (TensorType(torch.float16, (2, None), "cuda:0"), "f16[2,?]@cuda:0"),
        (ListType(F_), "list<f32[?]>"),
        (ListType(None), "list<?>"),
        (OptionalType(INT), "optional<int>"),
        (OBJECT, "object"),
    ],
)
def test_text(kind, text):
    assert str(kind) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "f32[",
        "f32[3",
        "f32[x]",
        "f32[-1]",
        "f32[3?]",
        "f99[3]",
        "f32[3]@",
        "list",
        "list<>",
        "list<f32[3]",
        "optional<>",
        "optional<?>",
        "Int",
        "f32[3] x",
        "f32[3,,4]",
        "f32[,3]",
        "f32[3,]",
    ],
)
def test_text_that_is_no_type(text):
    with pytest.raises(ValueError, match="not a type"):
        parse_type(text)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(TYPES, TYPES)), ids=str)
def test_join_covers_both_and_is_symmetric(a, b):
    both = join(a, b)
    assert both == join(b, a)
    if a == b:
        assert both == a
    if both is not None:
        assert join(a, both) == both == join(both, b)


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (F3, TensorType(torch.float32, (4,)), F_),
        (F3, F_, F_),
        (
            TensorType(torch.float32, (2, 3)),
            TensorType(torch.float32, (2, 4)),
            TensorType(torch.float32, (2, None)),
        ),
        (F3, TensorType(torch.float32, (3, 3)), None),
        (F3, TensorType(torch.float64, (3,)), None),
        (F3, TensorType(torch.float32, (3,), "cuda:0"), None),
        (INT, FLOAT, None),
        (INT, BOOL, None),
        (INT, F3, None),
        (ListType(None), ListType(F3), ListType(F3)),
        (ListType(F3), ListType(TensorType(torch.float32, (4,))), ListType(F_)),
        (ListType(F3), ListType(TensorType(torch.int64, (3,))), None),
        (OptionalType(ListType(None)), OptionalType(ListType(F3)), OptionalType(ListType(F3))),
        (OptionalType(F3), OptionalType(INT), None),
        (OptionalType(F3), F3, None),
        (OBJECT, INT, None),
    ],
)
def test_join(a, b, both):
    assert join(a, b) == both


def test_join_shapes():
    assert join_shapes((1, 2), (1, 3)) == (1, None)
    assert join_shapes((), ()) == ()
    assert join_shapes((1,), (1, 1)) is None


def test_scalar_dtypes():
    assert [ScalarType(k).dtype for k in (int, float, bool)] == [
        torch.int64,
        torch.float64,
        torch.bool,
    ]
