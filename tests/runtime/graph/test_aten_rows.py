"""What rows of torch's operators run."""

import pytest
import torch

import tograph as tg


def doubled(z):
    while z.real.sum() < 20:
        z = z * 2
    return z


def parts(z):
    if z.imag.sum() > 0:
        return z.real - z.imag
    return z.real + z.imag


def written(z):
    if z.real.sum() > 0:
        z.real.mul_(3)
    return z.imag.sum()


@pytest.mark.parametrize("f", [doubled, parts, written])
def test_an_argument_that_is_conjugated_by_a_flag(f):
    g = tg.function(f)
    for values in ([1 + 2j, 3 - 1j], [-1 - 3j, 2 + 1j], [1 + 2j, 3 - 1j]):
        x, y = torch.tensor(values).conj(), torch.tensor(values).conj()
        assert torch.equal(g(x), f(y))
        assert torch.equal(x, y)
