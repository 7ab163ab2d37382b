"""Random programs that take gradients inside: values, `.grad` of the arguments, gradients outside of orders 1 to 3 and exceptions as in eager PyTorch.

A `GradientError` is a refusal, which is counted and no difference. `TOGRAPH_TEST_PROGRAMS=500` in the environment runs that many instead of the 20 of every run.
"""

import itertools
import os

import pytest
import torch

import tograph as tg
from tests.inside_programs import generate
from tests.random_functions import define, eager

CHUNK = 10
COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "20"))


def outcome(f, args, orders):
    """The outputs, whether they require grad, `.grad` of the arguments, and order by order the gradients; or the class of the error."""
    args = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
    wrt = args[:3]
    try:
        outs = f(*args)
    except Exception as error:
        return type(error)
    found = [x.detach() for x in outs] + [x.requires_grad for x in outs]
    found += [None if a.grad is None else a.grad.clone() for a in wrt]
    total = sum((x * x).sum() for x in outs)
    for order in range(orders):
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            break
        more = order < orders - 1
        grads = torch.autograd.grad(total, wrt, create_graph=more, allow_unused=True, materialize_grads=order > 0)  # fmt: skip
        found += [None if g is None else g.detach() for g in grads]
        total = sum((g * g).sum() for g in grads if g is not None)
    return found


def close(a, b):
    if isinstance(a, torch.Tensor) and b is None:
        return not a.any()  # zeros for None: by the state of loops, see docs/limits/gradients.md
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a is b
    scale = 1 + b.abs().max().item()
    return torch.allclose(a / scale, b / scale, rtol=1e-6, atol=1e-8, equal_nan=True)


def difference(seed):
    source, args = generate(seed)
    f, orders = define(source, f"<inside program {seed}>"), 1 + seed % 3
    want = eager(lambda: outcome(f, args, orders))
    if want in (UnboundLocalError, NameError):
        return None
    got = outcome(tg.function(f), args, orders)
    if got is tg.errors.GradientError:
        return None
    if isinstance(got, type) or isinstance(want, type):
        return None if got is want else f"seed {seed}: {got} instead of {want}\n{source}"
    for k, (a, b) in enumerate(itertools.zip_longest(got, want, fillvalue="nothing")):
        if not close(a, b):
            return f"seed {seed}, result {k}: {a} instead of {b}\n{source}"
    return None


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_gradients_inside_against_eager(first):
    found = [d for seed in range(first, first + CHUNK) if (d := difference(seed))]
    assert not found, f"{len(found)} of {CHUNK} programs differ\n{found[0]}"
