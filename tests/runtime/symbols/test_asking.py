"""Who asked for a value that only the run knows."""

import pytest
import torch

import tograph as tg
from tograph.errors import GraphBoolError


def by_number(x):
    n = x.item()
    try:
        if n > 0:
            yield x
    finally:
        pass


def by_tensor(x):
    try:
        if x > 0:
            yield x
    finally:
        pass


@pytest.mark.parametrize("generator", [by_number, by_tensor])
def test_a_generator_that_yields_in_a_try_and_whose_items_are_taken_by_next(generator):
    def f(x):
        return next(generator(x))

    with pytest.raises(GraphBoolError, match="A generator whose values") as error:
        tg.function(f)(torch.tensor(1.0))
    assert "if " in str(error.value).splitlines()[2]  # the line of the generator
