"""Derivatives of determinants, to the third order, where torch's formula for tensors that are no plain ones gives NaN."""

import pytest
import torch

import tograph as tg

D = torch.float64
RANDOM = torch.randn(3, 3, dtype=D, generator=torch.Generator().manual_seed(0))
SINGULAR = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], dtype=D)


def plain(x, p):
    return torch.det(x)


def method(x, p):
    return x.t().det()


def in_a_branch(x, p):
    return torch.linalg.det(x) if p else x.sum()


def orders(f, x, p, n=2):
    """The value and the gradients up to order n."""
    found = [f(x, p)]
    for _ in range(n):
        (g,) = torch.autograd.grad((found[-1] * found[-1].sin()).sum(), x, create_graph=True)
        found.append(g)
    return found


@pytest.mark.parametrize("f", [plain, method, in_a_branch], ids=lambda f: f.__name__)
def test_orders(f):
    staged, p = tg.function(f), torch.tensor(True)
    for x in (RANDOM, RANDOM.t(), torch.eye(3, dtype=D)):
        x = x.clone().requires_grad_()
        torch.testing.assert_close(orders(staged, x, p), orders(f, x, p))


def test_the_third_order_inside():
    x, p = RANDOM.clone().requires_grad_(), torch.tensor(True)
    found = tg.function(lambda x, p: orders(in_a_branch, x, p, 3))(x, p)
    torch.testing.assert_close(found, orders(in_a_branch, x, p, 3))


def test_a_batch_of_regular_and_singular_matrices():
    x = torch.stack([RANDOM, SINGULAR, torch.eye(3, dtype=D)]).requires_grad_()

    def second(f):
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return g, *torch.autograd.grad((g * g).sum(), x)

    torch.testing.assert_close(second(tg.function(torch.det)), second(torch.det))


def test_of_a_file(tmp_path):
    tg.save(tg.function(in_a_branch, input_signature=[tg.TensorSpec([3, 3], D), tg.TensorSpec([], torch.bool)]), tmp_path / "f.tg")  # fmt: skip
    x, p = RANDOM.clone().requires_grad_(), torch.tensor(True)
    torch.testing.assert_close(orders(tg.load(tmp_path / "f.tg"), x, p), orders(in_a_branch, x, p))


def test_a_matrix_without_rows():
    x = torch.zeros(2, 0, 0, requires_grad=True)
    y = tg.function(lambda x: torch.linalg.det(x))(x)
    assert y.tolist() == [1.0, 1.0]
    assert torch.autograd.grad(y.sum(), x)[0].shape == (2, 0, 0)
