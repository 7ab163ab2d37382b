"""Random programs over leaves that loops and branches move: results with their `.grad`, the arguments and the parameter afterwards as in eager PyTorch.

A tograph error is a refusal, and no difference. `TOGRAPH_TEST_PROGRAMS=500` in the environment runs that many programs;
`python -m tests.test_leaf_programs SEED ...` prints the smallest program found for each of these seeds that differs in the same way.
"""

import ast
import itertools
import os
import sys

import pytest
import torch

import tograph as tg
from tests.leaf_programs import generate, inputs, leaf
from tests.program_runner import reductions
from tests.random_functions import define

SEEDS = [12, 39, 65, 81, 102, 118, 143, 152, 187, 246, 322, 327, 330, 368, 672, 748, 797, 853, 868, 873, 955, 1040, 1141, 1305, 10014]  # each another mistake once  # fmt: skip
SEEDS = list(range(int(os.environ["TOGRAPH_TEST_PROGRAMS"]))) if "TOGRAPH_TEST_PROGRAMS" in os.environ else SEEDS  # fmt: skip


def function_of(source):
    f = define(source, f"<leaf program {hash(source)}>")
    p = torch.linspace(-0.4, 0.6, 3, dtype=torch.float64).requires_grad_()
    f.__globals__.update(leaf=leaf, p=p)
    return f, p


def shown(x, named):
    """What is seen of a result: its values, what it is for autograd, and which of the tensors from outside it is."""
    grad = x.grad.clone() if x.is_leaf and x.grad is not None else None
    return [x.detach().clone(), x.requires_grad, x.is_leaf, grad, [x is y for y in named]]


def outcome(f, p, args):
    """What a call gives and leaves; or the error."""
    with torch.no_grad():
        p.copy_(torch.linspace(-0.4, 0.6, 3, dtype=torch.float64))
    p.grad = None
    try:
        outs = f(*args)
    except Exception as error:  # any error is an outcome, which is compared with eager PyTorch's
        return error
    named = [*args[:2], p]
    tensors = [x for out in outs for x in (out if isinstance(out, list) else [out])]
    found = [y for x in tensors if x is not None for y in shown(x, named)]
    return [*found, *(y for x in named for y in shown(x, named))]


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
    return type(a) is type(b) and not isinstance(a, torch.Tensor) and a == b


def difference(source):
    """How a program differs from eager PyTorch; None where it does not."""
    (f, p), (g, q) = function_of(source), function_of(source)
    converted = tg.function(g)
    for ours, theirs in zip(inputs(), inputs(), strict=True):
        want, got = outcome(f, p, theirs), outcome(converted, q, ours)
        if isinstance(want, NameError):  # a variable of a loop without an iteration
            continue
        if isinstance(got, tg.errors.TographError):
            return None
        if isinstance(want, Exception) or isinstance(got, Exception):
            if type(got) is not type(want):
                return f"{got!r} instead of {want!r}"
            continue
        for a, b in itertools.zip_longest(got, want):
            if not same(a, b):
                return f"{a} instead of {b}"
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_leaves_that_move_against_eager(seed):
    source = generate(seed)
    found = difference(source)
    assert not found, f"{found}\n{source}"


def shrunk(source):
    """The smallest program reached by dropping statements that still differs."""
    for tree in reductions(ast.parse(source)):
        text = ast.unparse(tree) + "\n"
        if len(text) < len(source) and "return" in text and _compiles(text) and difference(text):
            return shrunk(text)
    return source


def _compiles(source):
    """Whether it is a program still: a `continue` may have lost its loop."""
    try:
        compile(source, "<leaf program>", "exec")
    except SyntaxError:
        return False
    return True


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        text = generate(seed)
        if difference(text):
            small = shrunk(text)
            print(f"# seed {seed}: {difference(small)}\n{small}")
