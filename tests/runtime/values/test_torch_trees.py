"""torch's trees go into lists of converted code, in whatever library calls them."""

from collections import deque

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


def test_functions_that_look_a_class_up_in_c_get_the_lists_themselves():
    seen = []

    def leaves(tree):
        """As optree's: a container is one of exactly these classes."""
        seen.append(tree)
        if type(tree) in (list, tuple, deque):
            return [v for t in tree for v in leaves(t)]
        if type(tree) is dict:
            return [v for t in tree.values() for v in leaves(t)]
        return [tree]

    class Leaves:
        __module__ = "optree"

        def __call__(self, tree):
            return leaves(tree)

    Leaves.__call__ = tg.do_not_convert(Leaves.__call__)
    flatten = Leaves()

    def f(x):
        same = (1, {"a": None})
        found = flatten([x, (x + 1, {"k": [x * 2, same]}), deque([x], maxlen=3)])
        assert flatten(same) and seen[-4] is same
        return found

    x = torch.ones(2)
    torch.testing.assert_close(tg.function(f)(x), f(x))

    def grown(x):
        made = [x]
        if x.sum() > 0:
            made.append(x)
        return flatten(made)

    with pytest.raises(StagingError, match="given to 'optree'"):
        tg.function(grown)(x)
