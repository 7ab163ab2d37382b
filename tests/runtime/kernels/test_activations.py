"""Activations and their gradients as kernels: eager PyTorch's values, at the bounds of their parts too."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.native.checks import compiled
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
X = torch.tensor(
    [0.0, 1, -1, 3, -3, 0.5, -0.5, 2.999, -2.999, 20, -20, 100, -100, 0.25, 1e-8, -1e-8]
)
ACTIVATIONS = {
    "elu": F.elu, "elu of 0.7": lambda x: F.elu(x, 0.7), "in place": lambda x: F.elu(x * 1, inplace=True), "selu": F.selu, "celu": lambda x: F.celu(x, 0.7),
    "mish": F.mish, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "softshrink": F.softshrink, "hardshrink": F.hardshrink, "logsigmoid": F.logsigmoid,
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.3, dtype=x.dtype)), "logit": lambda x: torch.logit(x, 0.1),
    "entropy": lambda x: torch.special.entr(x.abs() + 0.1),
}  # fmt: skip


# Of halves, torch rounds their steps.
ROUNDED = {"aten.logit.default", "aten.special_entr.default"}


@pytest.mark.parametrize(
    "f",
    [lambda x, y: F.kl_div(x, y, reduction="sum"), torch.xlogy, lambda x, y: torch.special.entr(y)],
)
def test_halves_round_each_step(f):
    x, y = X.repeat(4).bfloat16(), X.abs().repeat(4).bfloat16() / 3
    found = tg.function(lambda x, y: f(x, y))
    for _ in range(3):
        torch.testing.assert_close(found(x, y), f(x, y), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("f", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_value_and_gradient(f, dtype):
    def step(x, g):
        x = x.detach().requires_grad_()
        y = f(x)
        return y.detach(), torch.autograd.grad(y, x, g)[0]

    x, g = X.to(dtype), torch.linspace(-1, 2, len(X)).to(dtype)
    near = {torch.float32: (2e-6, 1e-6), torch.float64: (1e-13, 1e-13)}.get(dtype, (2e-2, 1e-2))
    run = tg.function(step)
    for _ in range(3):
        torch.testing.assert_close(run(x, g), step(x, g), rtol=near[0], atol=near[1])
    program = run.concrete_functions[-1].scheduled
    asked = {c.node.op for c in program.native.low.asked}
    assert program.level == "native" and asked <= (ROUNDED if dtype == torch.bfloat16 else set())


def test_the_slope_of_a_prelu():
    def step(x, w):
        w = w.detach().requires_grad_()
        return torch.autograd.grad((F.prelu(x, w) * x).sum(), w)[0]

    cf = compiled(step, X.reshape(4, 4), torch.linspace(-1, 1, 4))
    assert not cf.scheduled.native.low.asked


def test_what_shrinks_to_zero_keeps_its_sign():
    x = torch.tensor([-2.0, -0.5, -0.3, -0.0, 0.0, 0.3, 0.5, 2])
    got = compiled(F.softshrink, x)(x)
    assert torch.equal(got.signbit(), F.softshrink(x).signbit())
