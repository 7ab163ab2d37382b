"""torch's trees go into lists of converted code, in whatever library calls them."""

import pytest
import torch
from torch.utils import _pytree

import tograph as tg
from tograph.errors import StagingError


def test_lists_are_nodes():
    def f(x):
        made, rows = [x, x + 1], [[x]] + [x]
        doubled = _pytree.tree_map(lambda v: v * 2, made)
        both = _pytree.tree_map(lambda a, b: a + b, made, [x, x])
        return (
            doubled,
            both,
            _pytree.tree_flatten(rows)[0],
            _pytree.tree_map(torch.neg, {"a": [x] * 2}),
        )

    x = torch.tensor(1.0)
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_transforms_take_lists_that_functions_made():
    def f(x):
        return torch.func.grad(lambda a: a[0] * a[1])([x, x * 3])

    x = torch.tensor(2.0)
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_a_list_of_the_graph_is_refused():
    @tg.function
    def f(x):
        made = [x]
        if x > 0:
            made.append(x)
        return _pytree.tree_map(torch.neg, made)

    with pytest.raises(StagingError, match="cannot be given to 'tree_map'"):
        f(torch.tensor(1.0))
