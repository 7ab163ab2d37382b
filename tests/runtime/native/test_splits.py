"""Parts of as many elements as the run says."""

import pytest
import torch

import tograph as tg

X = torch.randn(12, 4)


def means(n, x):
    return torch.stack([p.mean(0) for p in torch.split(x, n.tolist())])


def cut(n, x):
    return torch.stack([p.sum(0) for p in torch.split(x[: int(n.sum())], n.tolist())])


def columns(n, x):
    return [p.sum(1) for p in torch.split(x.t(), n.tolist(), 1)]


def some(n, x):
    a, b, c = x.split([int(n[0]), 2, int(n[1]) + int(n[2]) - 2])
    return a.sum(0), b * 2, c.amax(0)


def long(n, x):
    total = x.sum() * 0
    for p in x[:, 0].split(n.tolist()):
        for v in p:
            total = total * 0.5 + v
    return total


def ragged(n, x):
    return list(x.split(n.tolist()))


@pytest.mark.parametrize("f", [means, cut, columns, some, long, ragged])
def test_as_in_eager(f):
    g = tg.function(f)
    for sizes in ([3, 4, 5], [1, 1, 10], [4, 4, 4], [3, 9, 0], [12, 0, 0], [5, 5, 2]):
        n = torch.tensor(sizes)
        for _ in range(3):
            try:
                expected = f(n, X)
            except (IndexError, RuntimeError) as error:  # the largest of none, and fewer than none
                with pytest.raises(type(error), match=str(error)[:20]):
                    g(n, X)
                continue
            torch.testing.assert_close(g(n, X), expected, equal_nan=True)
    for sizes in ([3, 4, 4], [5, 5, 5], [13, -1, 0], [2**62, 2**62, 12], [-(2**63), 2**62, 2**62 + 12]):  # fmt: skip
        if f is not cut:
            with pytest.raises(RuntimeError):
                g(torch.tensor(sizes), X)


@pytest.mark.parametrize("f", [means, cut, columns, some])
def test_they_are_native(f):
    g, n = tg.function(f), torch.tensor([3, 4, 5])
    for _ in range(3):
        g(n, X)
    (cf,) = g.concrete_functions
    assert cf.scheduled.level == "native", cf.scheduled.reason
