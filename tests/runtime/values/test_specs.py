"""``TensorSpec`` and ``input_signature``: what they take, and what is said of anything else."""

import collections

import pytest
import torch

import tograph as tg

errors = tg.errors
FLOAT = tg.TensorSpec([], torch.float32)
WHOLE = tg.TensorSpec([], torch.int64)
Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize("shape", [3, "ab", [2.5], [True], [[1]], {1}])
def test_what_is_no_shape(shape):
    with pytest.raises(errors.SignatureError, match="a shape is a list of whole numbers"):
        tg.TensorSpec(shape, torch.float32)


@pytest.mark.parametrize("dtype", [None, "float32", float, [1]])
def test_what_is_no_dtype(dtype):
    with pytest.raises(errors.SignatureError, match="dtype must be a torch.dtype, not"):
        tg.TensorSpec([2], dtype)


def test_what_is_no_name_of_a_spec():
    with pytest.raises(errors.SignatureError, match="the name of a TensorSpec must be a str, not 3"):  # fmt: skip
        tg.TensorSpec([2], torch.float32, 3)


def test_negative_sizes():
    with pytest.raises(ValueError, match=r"no negative sizes: \[2, -1\]; None stands for"):
        tg.TensorSpec([2, -1], torch.float32)


def test_one_spec_for_several_tensors():
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    f = tg.function(lambda x, y: x - y, input_signature=[FLOAT, FLOAT])
    assert f.get_concrete_function()(one, two) == f(one, two) == -1
    g = tg.function(lambda x, y: x[0] - y["a"])
    assert g.get_concrete_function((FLOAT, FLOAT), {"a": FLOAT})((one, two), {"a": two}) == -1
    assert f.trace_count == g.trace_count == 1


def test_specs_of_extra_arguments():
    f = tg.function(lambda x, *more: x + more[0] * more[1], input_signature=[FLOAT] * 3)
    assert f(1, 2, 3) == 7 and f.get_concrete_function()(*map(torch.tensor, (1.0, 2.0, 3.0))) == 7
    with pytest.raises(errors.SignatureError, match="argument 'more': expected 2 items"):
        f(1, 2, 3, 4)


def test_named_tuples_and_dicts():
    f = tg.function(lambda p, d: p.a - d["k"], input_signature=[Pair(FLOAT, WHOLE), {"k": FLOAT}])
    assert f(Pair(5, 1), {"k": 2.0}) == 3
    with pytest.raises(errors.SignatureError, match=r"dict with the keys \['k'\], found the keys \['j'\]"):  # fmt: skip
        f(Pair(5, 1), {"j": 2.0})


@pytest.mark.parametrize("x", [2.5, 1j, [1, 2.5], True])
def test_numbers_that_the_dtype_cannot_hold(x):
    shape = [None] if isinstance(x, list) else []
    dtype = torch.bool if x == 1j else torch.int64
    f = tg.function(lambda x: x, input_signature=[tg.TensorSpec(shape, dtype)])
    if x is True:
        assert f(x) == 1
    else:
        with pytest.raises(errors.SignatureError, match="which does not fit TensorSpec"):
            f(x)


def test_numbers_that_the_dtype_holds():
    f = tg.function(lambda x: x, input_signature=[tg.TensorSpec(None, torch.float64)])
    assert f(0.1).item() == 0.1 and f([1, 2.5]).tolist() == [1, 2.5] and f([]).dtype == torch.float64  # fmt: skip
    with pytest.raises(errors.SignatureError, match=r"found \[\[1\], \[1, 2\]\], which is no tensor"):  # fmt: skip
        f([[1], [1, 2]])


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (FLOAT, "must be a list or tuple with an entry for each parameter.*write \\[spec\\]"),
        (3, "must be a list or tuple"),
        ([3], r"input_signature\[0\] is 3"),
        ([{"a": [FLOAT, None]}], r"input_signature\[0\]\['a'\]\[1\] is None"),
    ],
)
def test_what_is_no_signature(signature, words):
    with pytest.raises(errors.SignatureError, match=words):
        tg.function(lambda x: x, input_signature=signature)


def test_what_is_no_name():
    with pytest.raises(errors.SignatureError, match="'name' of tg.function must be a str, not 3"):
        tg.function(lambda x: x, name=3)


@pytest.mark.parametrize("option", ["autograph", "reduce_retracing"])
def test_what_is_no_bool(option):
    with pytest.raises(errors.SignatureError, match=f"'{option}' of tg.function must be a bool"):
        tg.function(lambda x: x, **{option: "x"})
