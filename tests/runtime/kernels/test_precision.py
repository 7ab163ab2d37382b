"""Errors of rounding beside those of eager PyTorch, measured against f64: of long sums, variances and what is made of them."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
LEAST = 8e-7  # some units in the last place


def _gradient(x, layer):
    x = x.detach().requires_grad_()
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return torch.autograd.grad((y * weights).sum(), x)[0]


SUMS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "rows": lambda x: x.view(4, -1).sum(1),
    "columns": lambda x: x.view(-1, 40).sum(0),
    "two dims": lambda x: x.view(50, 8, -1).sum((0, 2)),
    "squares": lambda x: x.norm(),
    "loss": lambda x: F.mse_loss(x, x * 0.5),
    "where": lambda x: torch.where(x > 1, x, 0.5).sum(),
}
SPREADS = {
    "var": lambda x: x.var(),
    "var of rows": lambda x: x.var(1),
    "var of columns": lambda x: x.var(0),
    "std": lambda x: x.std(1),
    "var and mean": lambda x: torch.var_mean(x, 0)[0],
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
}
DATA = {
    "far from zero": lambda x: x + 1e4,
    "large": lambda x: x * 1e18,
    "small": lambda x: x * 1e-20,
    "of all sizes": lambda x: x * torch.exp(5 * torch.randn(x.shape)),
}


def _compare(f, x):
    """The largest error in the result, in parts of the largest element, is not much more than eager PyTorch's."""
    g = tg.function(f)
    for _ in range(2):
        found = g(x)
    exact, eager = f(x.double()), f(x)
    errors = [((y.double() - exact).abs().max() / exact.abs().max()).item() for y in (found, eager)]
    assert errors[0] <= 4 * errors[1] + LEAST, errors


@pytest.mark.parametrize("f", SUMS.values(), ids=SUMS)
def test_long_sums(f):
    torch.manual_seed(0)
    _compare(f, torch.rand(400_000) + 0.7)
    _compare(f, torch.full((400_000,), 0.1))


@pytest.mark.parametrize("f", SPREADS.values(), ids=SPREADS)
@pytest.mark.parametrize("make", DATA.values(), ids=DATA)
def test_spreads(f, make):
    torch.manual_seed(0)
    for shape in [(64, 500), (3000, 20)]:
        _compare(f, make(torch.randn(shape)))


def test_the_loss_of_many_rows():
    torch.manual_seed(0)
    classes = torch.zeros(3000, dtype=torch.int64)
    for scale in (1.0, 1e-20):
        _compare(lambda x: F.cross_entropy(x, classes), torch.randn(3000, 40) * scale)


@pytest.mark.parametrize("scale", [1.0, 1e18], ids=str)
def test_gradients_of_group_norms(scale):
    torch.manual_seed(0)
    _compare(lambda x: _gradient(x, lambda y: F.group_norm(y, 4)), torch.randn(64, 40, 5) * scale)
