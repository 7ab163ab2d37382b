"""``out=``: functions that make numbers, and results of another shape."""

import pytest
import torch

import tograph as tg
from tograph.errors import UnsupportedOpError

X = torch.tensor([0.5, -1.0, 2.0])
W = torch.zeros(3, 3)


def both(f):
    found = []
    for g in (f, tg.function(f)):
        torch.manual_seed(0)
        found.append(g(X))
    torch.testing.assert_close(*found, rtol=0, atol=0)
    assert found[0].stride() == found[1].stride()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.eye(3, out=x.new(3, 3)),
        lambda x: torch.eye(2, 3, out=x.new(2, 3)),
        lambda x: torch.eye(3, out=x.new(3, 3).int()),
        lambda x: torch.full((3,), 2.0, out=x.new(3)),
        lambda x: torch.arange(1, 4, out=x.new(3)),
        lambda x: torch.linspace(0, 1, 3, out=x.new(3).double()),
        lambda x: torch.rand(3, out=x.new(3)),
        lambda x: torch.randint(0, 5, (3,), out=x.new(3)),
        lambda x: torch.randperm(3, out=x.new(3).long()),
    ],
)
def test_numbers_have_the_type_of_what_they_are_written_to(f):
    both(f)


def test_numbers_that_are_written_to_a_part_and_to_a_tensor_from_outside():
    def f(x):
        m = x.new_zeros(3, 3)
        torch.eye(2, out=m[:2, :2])
        torch.ones(3, 3, out=W)
        return m + W + x

    both(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, out: torch.add(x, x, out=out),
        lambda x, out: torch.sum(x, 0, out=out),
        lambda x, out: torch.eye(2, out=out),
        lambda x, out: torch.exp(x.expand(2, 3).t(), out=out),
    ],
)
def test_a_tensor_of_no_elements_takes_the_shape(f):
    def returned(x):
        return f(x, torch.empty(0, dtype=torch.float64))

    def written(x):
        out = torch.empty(0)
        f(x, out)
        return out * 2

    both(returned)
    both(written)


@pytest.mark.parametrize("shape", [(2, 3), (1,), (4,)])
def test_other_shapes_are_refused(shape):
    """They were filled with as many copies as they have room for."""

    def f(x):
        out = torch.ones(shape)
        torch.sum(x, 0, out=out)
        return out

    with pytest.raises(UnsupportedOpError, match=r"does not resize it"):
        tg.function(f)(X)


def test_a_tensor_of_no_elements_from_outside_of_a_branch_is_refused():
    def f(x):
        out = torch.empty(0)
        if x.sum() > 0:
            torch.add(x, x, out=out)
        return out

    with pytest.raises(UnsupportedOpError, match="made in the same function, branch"):
        tg.function(f)(X)


DTYPES = torch.float32, torch.float64, torch.int64, torch.float16, torch.bool, torch.complex64
SQUARE = torch.tensor([[1.5, 2.0], [0.0, -1.0]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, out: torch.mm(x, x, out=out),
        lambda x, out: torch.dot(x[0], x[1], out=out),
        lambda x, out: torch.add(x, x, out=out),
        lambda x, out: torch.sum(x, 0, out=out),
        lambda x, out: torch.cat([x, x], out=out),
        lambda x, out: torch.index_select(x, 0, torch.tensor([1, 1]), out=out),
        lambda x, out: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))),
        lambda x, out: torch.tril(x, out=out),
        lambda x, out: torch.searchsorted(x[0], x[1], out=out),
        lambda x, out: torch.nonzero(x, out=out),
        lambda x, out: torch.masked_select(x, x > 0, out=out),
        lambda x, out: torch.kron(x, x, out=out),
    ],
)
def test_dtypes_of_out_that_torch_takes(f):
    """All of them in one function: what torch refuses, it refuses in the trace."""

    def every(x):
        found = []
        for dtype in DTYPES:
            try:
                out = torch.empty(0, dtype=dtype)
                f(x, out)
                found.append(out)
            except (RuntimeError, TypeError) as error:
                found.append((type(error), str(error).split("\n")[0]))
        return found

    for one, two in zip(every(SQUARE), tg.function(every)(SQUARE), strict=True):
        assert type(one) is type(two)
        assert one == two if isinstance(one, tuple) else torch.equal(one, two)


def test_an_attempt_that_is_undone_leaves_out_as_it_was():
    def f(x):
        out = torch.empty(0)
        try:
            torch.index_select(x, 0, torch.tensor([1, 1]), out=out)
        except IndexError:
            return None
        return out

    with pytest.raises(UnsupportedOpError, match="made in the same function, branch"):
        tg.function(f)(SQUARE)


def test_out_that_a_branch_makes():
    def f(x):
        if x.sum() > 0:
            out = torch.empty(0)
            return torch.index_select(x, 0, torch.tensor([1, 1]), out=out), out
        return x, x

    for one, two in zip(tg.function(f)(SQUARE), f(SQUARE), strict=True):
        assert torch.equal(one, two)


def test_kron_writes_out_by_another_name():
    def f(x):
        out = torch.zeros(4, 4)
        torch.kron(x, x, out=out)
        return out

    assert torch.equal(tg.function(f)(SQUARE), f(SQUARE))


def test_dtypes_of_out_for_many_elements():
    f = tg.function(lambda x: torch.mm(x, x, out=torch.empty(0, dtype=torch.float64)))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        f(torch.ones(1200, 1200))
