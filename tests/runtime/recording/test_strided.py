"""``as_strided`` of views, with an offset of the memory and without; native against converted."""

import pytest
import torch

import tograph as tg

VIEWS = {
    "rows": lambda y: y[1:],
    "column": lambda y: y[:, 1],
    "turned": lambda y: y.t()[1:],
    "whole": lambda y: y,
}


@pytest.mark.parametrize("offset", [None, 0, 4, 1])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_read_and_written(view, offset):
    def f(x, n):
        y = x.clone()
        v = view(y)
        while n > 0:
            v.as_strided((2,), (3,), offset).mul_(2.0)
            n = n - 1
        return y, v, v.as_strided((2,), (2,), offset) * 2

    x = torch.arange(12.0).reshape(3, 4)
    for found, wanted in zip(tg.function(f)(x, torch.tensor(2)), f(x, 2), strict=True):
        assert torch.equal(found, wanted)


def test_diagonals_of_views():
    def f(x):
        y = x.clone()
        y[1:].fill_diagonal_(9)
        y[:, 1:].fill_diagonal_(7, wrap=True)
        return y

    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(tg.function(f)(x), f(x))


def test_gradients_of_what_lies_in_another_order():
    """They go to the elements whose memory was shown: a short-time Fourier transform of columns shows frames of it."""

    def read(x):
        return x.as_strided((5, 8), (1, 12)) * 1

    def written(x):
        y = x * 2
        y.as_strided((5, 8), (1, 12)).mul_(3)
        return y

    def transformed(x):
        return torch.stft(x, 8, 4, window=torch.ones(8), center=False, return_complex=True).abs()

    for f in (read, written, transformed):
        g, found = tg.function(f), []
        for run in (g, g, f):
            x = torch.linspace(1, 4, 120).sin().view(20, 6).t().requires_grad_()
            y = run(x)
            weights = torch.arange(float(y.numel())).view(y.shape)
            found.append(torch.autograd.grad((y * weights).sum(), x)[0])
        torch.testing.assert_close(found[:2], [found[2]] * 2)
