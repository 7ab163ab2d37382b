"""Ops whose elements follow from where they are, in native code: eager PyTorch's values."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def triangles(x):
    return x.tril() - x.triu(1) * 2 + x.tril(-2) + torch.stack([x, x * 2]).triu(-1).sum(0)


def turned(x):
    return x.flip(0) + x.flip(0, 1) * x - (x * 2).flip(-1)[:, :1]


def diagonals(x):
    y = torch.diag_embed(x[0]) + torch.diag(x[1, :4], 2) - torch.diag(x[1, :5], -1)
    return (
        x
        + y.sum(0) * 0.1
        + torch.diagonal_copy(x, 1).sum()
        + torch.diagonal_copy(torch.stack([x, x]), 0, 1, 2).sum()
    )


def identities(x):
    return torch.eye(6).sum(0) + x * torch.eye(7, 6) - torch.eye(6, 7, dtype=torch.float64).sum()


def filled_later(x):
    y, z = torch.empty_like(x), torch.empty(7, 6)
    y[:] = x * 2
    z[:, 0] = x[:, 1]
    z[:, 1:] = y[:, 1:]
    return y + z


def distances(x):
    return (
        torch.logaddexp(x, x.roll(1, 1))
        + torch.logaddexp(x[0] * 60, x[1])
        + torch.logaddexp(x / 0, x.roll(1, 0) / 0).nan_to_num(0.5, 1, 2)
    )


def shrunk(x):
    return F.softshrink(x) + F.hardshrink(x, 0.7) * 2 + F.softshrink(x / 0, 0.1).nan_to_num(1, 2, 3)


def gradients(x):
    x = x.detach().requires_grad_()
    y = (
        (x[1:] - x[:-1]).pow(2).sum()
        + x[2, 1::2].sum() * x[-1].exp().sum()
        + (x[:, 2] * x[:, -1]).sum()
    )
    return torch.autograd.grad(
        y + F.mse_loss(x, x.detach() * 2 + 1) + F.mse_loss(x[0], x[1], reduction="sum"), x
    )[0]


def losses(x):
    x = x.detach().requires_grad_()
    y = x.detach() * 2 + 1
    found = F.smooth_l1_loss(x, y) + F.huber_loss(x * 2, y, delta=0.7) * 3 + F.smooth_l1_loss(x, y, beta=0.2, reduction="sum")  # fmt: skip
    each = F.huber_loss(x, y, reduction="none") * x.detach() + F.smooth_l1_loss(x, y, reduction="none", beta=2.0)  # fmt: skip
    return (
        torch.autograd.grad(found + each.sum() + F.smooth_l1_loss(x, y, beta=0.0), x)[0]
        + each.detach()
    )


CASES = [triangles, turned, diagonals, identities, filled_later, distances, shrunk, gradients, losses]  # fmt: skip


@pytest.mark.parametrize("step", CASES)
def test_values(step):
    def f(x, n):
        t = 0
        while t < n:
            x = torch.tanh(step(x).to(x.dtype) * 0.1 + t)
            t += 1
        return x

    g, n = tg.function(f), torch.tensor(3)
    for seed in range(3):
        x = torch.randn(7, 6, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(g(x, n), f(x, n))
    program = g.get_concrete_function(x, n).scheduled
    assert (program.level, program.reason) == ("native", "")
    assert not program.native.low.asked


def test_a_gradient_of_a_row_that_the_run_chooses():
    def f(x, i, n):
        t = 0
        while t < n:
            y = x.detach().requires_grad_()
            x = torch.tanh(x - torch.autograd.grad((y[i - t] ** 3).sum(), y)[0])
            t += 1
        return x

    g, x = tg.function(f), torch.randn(5, 4)
    for i in (2, 1, -2):
        given = x, torch.tensor(i), torch.tensor(3)
        torch.testing.assert_close(g(*given), f(*given))


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(300,), (1025,), (5, 300), (3, 4, 130), (64, 64), (7, 1), (0, 5)], ids=str)  # fmt: skip
def test_turned_and_rolled_in_runs(dtype, shape):
    """Sizes that vectors do not divide, turns near the ends and beyond, in every dim; a source with gaps."""
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 10).to(dtype)

    def rolled(x):
        once = torch.roll(x, [-3 * i - 1 for i in range(x.dim())], list(range(x.dim())))
        ends = torch.roll(x, x.shape[-1] - 1, -1), torch.roll(x, 1, -1), torch.roll(x, 777, 0)
        both = torch.roll(x.flip(-1), 17, -1).flip(0)
        return once, *ends, both, x.flip(*range(x.dim())), torch.roll(x[..., ::2], 5, -1).flip(-1)

    f = tg.function(rolled)
    for _ in range(3):
        for made, wanted in zip(f(x), rolled(x), strict=True):
            assert made.dtype == wanted.dtype and torch.equal(made, wanted)


def test_rolls_and_flips_read_runs_of_elements():
    @tg.function
    def turned(x):
        return torch.roll(x, (3, -5), (0, 1)) + x.flip(1)

    x = torch.randn(300, 301)
    for _ in range(3):
        assert torch.equal(turned(x), turned.python_function(x))
    text = turned.get_concrete_function(x).scheduled.llvm
    assert "masked.load" in text and "masked.gather" not in text


def test_the_second_derivative_of_what_fills_a_number():
    def f(x, v):
        return x.index_fill(0, torch.tensor([0]), v)

    g = tg.function(f)
    for _ in range(3):
        x, v = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        found = torch.autograd.grad(g(x, v), (x, v), create_graph=True)
        expected = torch.autograd.grad(f(x, v), (x, v), create_graph=True)
        torch.testing.assert_close(found, expected)
