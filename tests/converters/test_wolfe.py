"""The line search of LBFGS takes the steps of torch's own."""

import pytest
import torch
from torch.optim.lbfgs import _strong_wolfe

from tograph.converters.builtin.wolfe import strong_wolfe


def searched(seed, scale, most, dtype=torch.float64):
    """Both searches along a direction of a random function of five numbers, from one point."""
    generator = torch.Generator().manual_seed(seed)
    a, b, x = torch.randn(3, 5, generator=generator, dtype=dtype)
    asked = []

    def function(x):
        return (a * x**2).sin().sum() + 0.05 * (x**4).sum() + (b * x).sum() + (x[0] * x[1] - 1).abs() ** 1.5  # fmt: skip

    def at(x, t, d):
        y = (x + t * d).detach().requires_grad_()
        value = function(y)
        (grad,) = torch.autograd.grad(value, y)
        asked.append(float(t))
        return value.item(), grad

    loss, grad = at(x, 0.0, -x)
    d = -grad * (1 + torch.rand(5, generator=generator, dtype=dtype))
    slope, begun = grad.dot(d), len(asked)
    expected = _strong_wolfe(at, x, scale, d, loss, grad, slope, max_ls=most)
    steps, begun = asked[begun:], len(asked)
    found = strong_wolfe(lambda t: at(x, t, d), scale, d, loss, grad, slope, most)
    return expected, found, steps, asked[begun:]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 5, 25])
@pytest.mark.parametrize("scale", [1e-7, 1e-3, 0.1, 1.0, 30.0])
def test_as_torch(scale, most):
    for seed in range(40):
        expected, found, steps, others = searched(seed, scale, most)
        assert others == pytest.approx(steps, rel=1e-9)
        assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-9)
        torch.testing.assert_close(found[1], expected[1])
        assert float(found[2]) == pytest.approx(float(expected[2]), rel=1e-9)
        assert found[3] == expected[3]


def test_single_precision_takes_as_many_steps():
    for seed in range(40):
        expected, found, steps, others = searched(seed, 1.0, 25, torch.float32)
        assert others == pytest.approx(steps, rel=1e-3)
        assert found[3] == expected[3]
