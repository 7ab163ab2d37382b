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
