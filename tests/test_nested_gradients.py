"""Constructs nested three deep: values and gradients of the first and second order as in eager PyTorch and by finite differences.

`TOGRAPH_TEST_PROGRAMS=500` in the environment takes that many of the combinations instead of the 8 of every run.
"""

import itertools
import linecache
import os
import random

import pytest
import torch

import tograph as tg
from tests.nested_gradients import CONSTRUCTS, fits, source

COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "8"))
TRIPLES = [t for t in itertools.product(CONSTRUCTS, repeat=3) if fits(*t)]
CHOSEN = random.Random(3).sample(TRIPLES, COUNT)


def define(names):
    """The function of a combination."""
    text, file = source(*names), f"<nested {' '.join(names)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {}
    exec(compile(text, file, "exec"), space)
    return space["f"]


def leaves():
    values = [0.3, -0.2], [[0.7, -0.4], [0.5, 0.9]], 0.3
    return [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]


def derivatives(f, n, orders):
    """The value, then for each order the gradients, None at the first where there is none."""
    wrt = leaves()
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
    f = define(names)
    staged = tg.function(f)
    for n, orders in ((0, 1), (2, 2), (3, 2)):
        tg.run_functions_eagerly(True)
        try:
            want = derivatives(f, n, orders)
        finally:
            tg.run_functions_eagerly(False)
        close(derivatives(staged, n, orders), want)
    if "own" not in names:  # its gradient is not that of its value
        assert torch.autograd.gradcheck(lambda *xs: staged(*xs, torch.tensor(3)), leaves())
