"""Constructs nested three deep: values and gradients of the orders 1 to 3 as in eager PyTorch, of the orders 1 and 2 by finite differences.

`TOGRAPH_TEST_PROGRAMS=500` in the environment takes that many of the combinations, all of them to the third order, instead of the 8 of every run.
"""

import itertools
import os
import random

import pytest
import torch

import tograph as tg
from tests.nested_gradients import CONSTRUCTS, fits, source
from tests.random_functions import define, eager

COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "8"))
TRIPLES = [t for t in itertools.product(CONSTRUCTS, repeat=3) if fits(*t)]
PAIRS = [("if", "for"), ("while", "list"), ("match", "call"), ("written", "if")]
CHOSEN = random.Random(3).sample(TRIPLES, COUNT)


def define_nested(names):
    """The function of a combination."""
    return define(source(*names), f"<nested {' '.join(names)}>")


def leaves(seed):
    rng = torch.Generator().manual_seed(seed)
    x, w, a = (torch.randn(n, generator=rng, dtype=torch.float64) for n in ((2,), (2, 2), ()))
    return [x.mul_(0.7).requires_grad_(), w.mul_(0.7).requires_grad_(), a.abs_().requires_grad_()]


def differences(f, n, wrt, **how):
    """Whether finite differences agree with the gradients of orders 1 and 2."""

    def g(*xs):
        return f(*xs, torch.tensor(n))

    if not g(*wrt).requires_grad:
        return True
    first = torch.autograd.gradcheck(g, wrt, fast_mode=True, **how)
    return first and torch.autograd.gradgradcheck(g, wrt, fast_mode=True, **how)


def smooth(f, n):
    """A point that is not near to where a condition changes: finite differences of eager PyTorch agree there."""
    for seed in range(9):
        if eager(lambda s=seed: differences(f, n, leaves(s), raise_exception=False)):
            return leaves(seed)
    raise AssertionError("no such point")


def derivatives(f, n, orders):
    """The value, then for each order the gradients, None at the first where there is none."""
    wrt = leaves(0)
    y = f(*wrt, torch.tensor(n))
    found, total = [y.detach()], y.square().sum() + y[0]
    for order in range(orders):
        if not total.requires_grad:
            break
        more = order < orders - 1
        grads = torch.autograd.grad(total, wrt, create_graph=more, allow_unused=True, materialize_grads=order > 0)  # fmt: skip
        found += [None if g is None else g.detach() for g in grads]
        total = sum(g.square().sum() for g in grads if g is not None)
    return found


def close(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("names", CHOSEN, ids=" ".join)
def test_three_deep(names):
    f = define_nested(names)
    staged = tg.function(f)
    for n, orders in ((0, 1), (2, 3 if COUNT > 8 else 2), (3, 2)):
        want = eager(lambda n=n, orders=orders: derivatives(f, n, orders))
        close(derivatives(staged, n, orders), want)
    assert differences(staged, 3, smooth(f, 3))


@pytest.mark.parametrize("names", PAIRS, ids=" ".join)
def test_third_order(names):
    f = define_nested(names)
    want = eager(lambda: derivatives(f, 2, 3))
    close(derivatives(tg.function(f), 2, 3), want)
