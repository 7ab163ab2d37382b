"""``tg.range`` as a tensor: empty, of floats, with staged bounds, and what it does not take."""

import pytest
import torch

import tograph as tg
from tests.converters.both import compare

BOUNDS = [(3,), (0,), (-2,), (2, 5), (5, 2), (5, 2, -1), (2, 5, -1), (0, 7, 3), (7, 0, -3), (2.5,)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_as_a_tensor(bounds):
    wanted = torch.arange(2.5) if bounds == (2.5,) else torch.tensor(list(range(*bounds)), dtype=torch.int64)  # fmt: skip
    made = tg.range(*bounds)
    staged = tg.function(lambda *bounds: tg.range(*bounds))(*map(torch.tensor, bounds))
    fixed = tg.function(lambda: tg.range(*bounds))()
    for found in (made, staged, fixed):
        assert torch.equal(found, wanted) and found.dtype == wanted.dtype


@pytest.mark.parametrize("bounds", [b for b in BOUNDS if b != (2.5,)])
def test_in_a_loop(bounds):
    def digits(*bounds):
        s = 1
        for i in tg.range(*bounds):
            s = s * 10 + i
        return s

    wanted = 1
    for i in range(*bounds):
        wanted = wanted * 10 + i
    assert tg.function(digits)(*map(torch.tensor, bounds)) == wanted
    assert tg.function(lambda: digits(*bounds))() == wanted


def test_other_dtypes():
    assert tg.range(2, 5, dtype=torch.float32).dtype == torch.float32
    assert tg.range(2, 5, dtype=float).dtype == torch.float64
    assert tg.range(2, 5, dtype=None).dtype == torch.int64


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize(
    ("bounds", "error", "words"),
    [
        ((), tg.errors.SignatureError, "not 0 arguments"),
        ((1, 2, 3, 4), tg.errors.SignatureError, "not 4 arguments"),
        (("a",), tg.errors.SignatureError, "numbers or 0-d tensors, not 'a'"),
        ((None,), tg.errors.SignatureError, "numbers or 0-d tensors, not None"),
        ((torch.ones(2),), tg.errors.SignatureError, "not a torch.float32 tensor of shape (2,)"),
        ((0, 5, 0), tg.errors.InvalidArgumentError, "the step of tg.range must not be zero"),
    ],
)
def test_mistakes(where, bounds, error, words):
    with pytest.raises(error) as caught:
        where(lambda: tg.range(*bounds))()
    assert words in str(caught.value)


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize("dtype", ["int", 3, torch.ones(2)], ids=repr)
def test_what_is_no_dtype(where, dtype):
    with pytest.raises(tg.errors.SignatureError, match="must be a torch.dtype") as caught:
        where(lambda: tg.range(3, dtype=dtype))()
    assert repr(dtype) in str(caught.value)


def test_ranges_that_give_the_same_numbers_are_equal():
    def f(n, m):
        i, j = n.item(), m.item()
        known = range(i) == range(4), range(4) == range(i), range(i) != range(5)
        others = range(0, i, 2) == range(0, 3, 2), range(j) == range(3, 1), range(i) == range(1, 5)
        return (*known, *others, range(i) == [0, 1, 2, 3], 1 if range(i) == range(i) else 2)

    for bounds in ((4, 0), (3, 1), (-1, -2)):
        args = tuple(map(torch.tensor, bounds))
        assert tg.function(f)(*args) == f(*args)


def test_the_text_of_a_range():
    def f(n):
        counted = range(1, n, 2)
        print(counted, [range(n)])
        return str(counted), repr(range(n)), f"{range(n)}", "%s" % range(n)

    compare(f, (torch.tensor(5),), (torch.tensor(0),))
