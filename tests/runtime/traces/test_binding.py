"""What the arguments of a concrete function may be, and traces for tensors of any rank."""

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.errors import SignatureError

ONES = torch.ones(3)


@tg.function
def scaled(x, k, mode="a", *, z=2):
    return x.sum() * x.numel() * k * z


@pytest.fixture
def concrete():
    return scaled.get_concrete_function(ONES, 2, z=3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((ONES, 2), {"z": 3}), ((ONES,), {}), ((ONES, 2, "a"), {}), ((), {"x": ONES})],
)
def test_the_same_values_or_none(concrete, args, kwargs):
    assert concrete(*args, **kwargs) == 54


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [
        ((ONES, 5), {}, "argument 'k' is 5, and it was traced for 2"),
        ((ONES, 2.0), {}, "argument 'k' is 2.0"),
        ((ONES, True), {}, "argument 'k' is True"),
        ((ONES, 2, "b"), {}, "argument 'mode' is 'b', and it was traced for 'a'"),
        ((ONES,), {"z": 2}, "argument 'z' is 2, and it was traced for 3"),
        ((torch.ones(5),), {}, r"argument 'x' is TensorSpec\(\[5\].*traced for TensorSpec\(\[3\]"),
        ((torch.ones(3, 1),), {}, "argument 'x'"),
        ((ONES.double(),), {}, "argument 'x' is .*float64"),
        ((3,), {}, "argument 'x' is 3"),
        ((), {}, "missing a required argument: 'x'"),
        ((ONES, 2, "a", 4), {}, "too many positional arguments"),
    ],
)
def test_other_values_are_refused(concrete, args, kwargs, found):
    with pytest.raises(SignatureError, match=found):
        concrete(*args, **kwargs)
    assert isinstance(pytest.raises(SignatureError, concrete, *args, **kwargs).value, TypeError)


def test_open_sizes():
    made = scaled.get_concrete_function(tg.TensorSpec([None], torch.float32), 1, z=1)
    assert made(torch.ones(5)) == 25
    with pytest.raises(SignatureError):
        made(torch.ones(5, 1))


def test_structures_and_modules():
    layer = nn.Linear(3, 3)

    @tg.function
    def f(m, x, d, items):
        return m(x) + d["a"] * items[1]

    def given(m=layer, b=3, rows=1):
        return m, torch.ones(2, 3), {"a": ONES, "b": b}, [rows, ONES]

    made = f.get_concrete_function(*given())
    torch.testing.assert_close(made(*given()), f(*given()))
    for other in (given(m=nn.Linear(3, 3)), given(b=4), given(rows=2)):
        with pytest.raises(SignatureError):
            made(*other)


def test_one_tensor_twice_is_not_two():
    @tg.function
    def f(x, y):
        x += 1
        return x + y

    made = f.get_concrete_function(torch.zeros(2), torch.zeros(2))
    x = torch.zeros(2)
    with pytest.raises(SignatureError):
        made(x, x)


def test_any_rank():
    @tg.function(input_signature=[tg.TensorSpec(None, torch.float32)])
    def f(x):
        return x.sum() * x.numel(), x.shape

    for size in ((1,), (3,), (2, 2), (3, 2), (), (0,), (7,)):
        value, shape = f(torch.ones(size))
        assert (value, tuple(shape)) == (torch.ones(size).numel() ** 2, size)
    assert f.trace_count == 3


def test_a_condition_whose_size_a_run_tells():
    @tg.function
    def f(x):
        y = x[x > 0]
        if y > 1:
            return y + 1
        return y

    assert torch.equal(f(torch.tensor([3.0, -1.0])), torch.tensor([4.0]))
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        f(torch.tensor([3.0, 1.0]))
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        f(torch.tensor([-3.0, -1.0]))


def test_slices_and_constants_in_tuples_may_be_left_out():
    @tg.function
    def f(x, where, how):
        rows, factor = how
        return (x[where] * factor + x[rows].sum()).to(torch.float64)

    x, how = torch.arange(4.0), (slice(0, 2), 3.0)
    concrete = f.get_concrete_function(x, slice(1, None), how)
    expected = f.python_function(x, slice(1, None), how)
    assert torch.equal(concrete(x), expected)
    assert torch.equal(concrete(x, slice(1, None), how), expected)
    with pytest.raises(tg.errors.SignatureError, match=r"is slice\(0, None, None\), and it was"):
        concrete(x, slice(0, None))
    with pytest.raises(tg.errors.SignatureError, match="argument 'how' is"):
        concrete(x, slice(1, None), (slice(0, 2), 4.0))


def test_a_trace_of_any_rank_takes_tensors_of_the_rank_that_it_was_traced_with():
    """It took those without dimensions only, whatever the graph was for."""
    f = tg.function(lambda x: x * 2, input_signature=[tg.TensorSpec(None, torch.float32)])
    f(torch.ones(2, 3))
    (concrete,) = f.concrete_functions
    assert torch.equal(concrete(torch.ones(4, 5)), torch.full((4, 5), 2.0))
    with pytest.raises(
        SignatureError, match=r"is TensorSpec\(\[\].*traced for TensorSpec\(\[None, None\]"
    ):
        concrete(torch.tensor(1.0))
