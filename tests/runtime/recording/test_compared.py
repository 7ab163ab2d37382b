"""What torch's formulas ask of whole tensors: the gradient is eager PyTorch's, and so is the error."""

import pytest
import torch

import tograph as tg

MATRIX = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


def product(x, n):
    i = 0
    while i < n:
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        i = i + 1
    return ((u * s * s) @ v).abs().sum()


def phase(x, n):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u.real.sum() * n


def test_gradient_of_singular_vectors():
    f, grads = tg.function(product), []
    for g in (product, f):
        x = MATRIX.clone().requires_grad_()
        grads.append(torch.autograd.grad(g(x, torch.tensor(2)), x)[0])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("inside", [False, True])
def test_a_loss_that_depends_on_their_phase(inside):
    def taken(x, n):
        return torch.autograd.grad(phase(x, n), x)[0]

    for f in (taken if inside else phase, tg.function(taken if inside else phase)):
        x = MATRIX.clone().requires_grad_()
        with pytest.raises(RuntimeError, match="svd_backward: The singular vectors"):
            found = f(x, torch.tensor(2))
            torch.autograd.grad(found, x)
