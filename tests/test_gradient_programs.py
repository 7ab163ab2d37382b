"""Random differentiable programs: values and gradients of orders 1 to 3 as in eager PyTorch.

`TOGRAPH_TEST_PROGRAMS=500` in the environment runs that many instead of the 60 of every run.
"""

import itertools
import os

import pytest
import torch

import tograph as tg
from tests.gradient_programs import generate
from tests.random_functions import define, eager

CHUNK = 20
COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "60"))


def derivatives(f, args, orders):
    """The outputs, whether they require grad and, order by order, the gradients: None where there is none.

    From the second order on zeros: there graphs do not tell one from the other.
    """
    args = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
    wrt = args[:3]
    outs = f(*args)
    found, total = [x.detach() for x in outs], sum((x * x).sum() for x in outs)
    found += [x.requires_grad for x in outs]
    for order in range(orders):
        if not total.requires_grad:
            break
        grads = torch.autograd.grad(
            total,
            wrt,
            create_graph=order < orders - 1,
            allow_unused=True,
            materialize_grads=order > 0,
        )
        found += [None if g is None else g.detach() for g in grads]
        total = sum((g * g).sum() for g in grads if g is not None)
    return found


def difference(seed):
    source, args = generate(seed)
    f = define(source, f"<gradient program {seed}>")
    orders = 1 + seed % 3
    want = eager(lambda: derivatives(f, args, orders))
    got = derivatives(tg.function(f), args, orders)
    for k, (a, b) in enumerate(itertools.zip_longest(got, want, fillvalue="nothing")):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            if a is b or a == b == "nothing":
                continue
            return f"seed {seed}, result {k}: {a} instead of {b}\n{source}"
        scale = 1 + b.abs().max().item()
        if not torch.allclose(a / scale, b / scale, rtol=1e-6, atol=1e-8):
            return f"seed {seed}, result {k}: {a} instead of {b}\n{source}"
    return None


# Every second part is of optimised code.
PARTS = [pytest.param(k, marks=[pytest.mark.unoptimised] * (k // CHUNK % 2)) for k in range(0, COUNT, CHUNK)]  # fmt: skip


@pytest.mark.parametrize("first", PARTS)
def test_gradients_against_eager(first):
    found = [d for seed in range(first, first + CHUNK) if (d := difference(seed))]
    assert not found, f"{len(found)} of {CHUNK} programs differ\n{found[0]}"
