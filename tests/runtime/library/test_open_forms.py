"""Functions of torch whose C++ asks for values that only the run knows, beside eager PyTorch."""

import pytest
import torch

import tograph as tg

COUNTS, WEIGHTS = torch.tensor([1, 0, 2, 3]), torch.tensor([0.5, 1.0, 0.0, 2.0])


def spread(x, c, counts, weights, correction):
    found = None
    if c > 0:
        found = torch.cov(x, fweights=counts, aweights=weights, correction=correction)
    return found


def outcome(f, *args):
    try:
        return f(*args)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int64])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_covariance_with_weights(dtype, rows):
    f, torch_seed = tg.function(spread), torch.Generator().manual_seed(0)
    size = (4,) if rows is None else (rows, 4)
    x = (torch.randn(size, generator=torch_seed) * 5).to(dtype)
    for counts, weights in ((COUNTS, None), (None, WEIGHTS), (COUNTS, WEIGHTS)):
        for correction in (0, 1):
            args = x, torch.tensor(1), counts, weights, correction
            torch.testing.assert_close(f(*args), spread(*args))


@pytest.mark.parametrize(
    ("counts", "weights"),
    [
        (-COUNTS, None),
        (None, -WEIGHTS),
        (COUNTS * 0, None),
        (COUNTS[:2], None),
        (COUNTS[None], None),
        (WEIGHTS, None),
        (None, COUNTS),
    ],
)
def test_weights_that_cannot_be(counts, weights):
    args = torch.arange(8.0).reshape(2, 4), torch.tensor(1), counts, weights, 1
    expected = outcome(spread, *args)
    assert isinstance(expected, str)
    found = outcome(tg.function(spread), *args)
    assert isinstance(found, str) and expected.splitlines()[0] in found


def test_gradient_of_a_weighted_covariance():
    f, grads = tg.function(spread), []
    for g in (spread, f):
        x = torch.arange(8.0).reshape(2, 4).square().requires_grad_()
        w = WEIGHTS.clone().requires_grad_()
        found = g(x, torch.tensor(1), COUNTS, w, 1)
        grads.append(torch.autograd.grad(found.square().sum(), (x, w)))
    torch.testing.assert_close(*grads)
