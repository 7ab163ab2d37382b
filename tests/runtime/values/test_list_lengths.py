"""What a loop over rows of a known number appends has a known length; other lists do not."""

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.types import TensorType


def rows(x, n):
    return torch.stack([r.sum() for r in x])


def two_for_each(x, n):
    out = [x[0]]
    for r in x:
        out.append(r)
        out.append(r * 2)
    return torch.stack(out)


def records(x, n):
    out = [(r, r.sum()) for r in x]
    return torch.stack([a for a, _ in out])


def after(x, n):
    out = [r for r in x]
    out.append(x[0])
    return torch.stack(out)


def some(x, n):
    out = []
    for r in x:
        if r.sum() > 0:
            out.append(r)
    out.append(x[0])
    return torch.stack(out)


def stopped(x, n):
    out = [x[0]]
    for r in x:
        if r.sum() > 3:
            break
        out.append(r)
    return torch.stack(out)


def counted(x, n):
    out = [x[0]]
    i = 0
    while i < n:
        out.append(x[0])
        i = i + 1
    return torch.stack(out)


def skipping(x, n):
    out = [x[0]]
    i = torch.zeros((), dtype=torch.int64)
    while i < 6:
        out.append(x[0])
        i = i + 2
    return torch.stack(out)


def in_a_branch(x, n):
    out = [r for r in x]
    if n > 2:
        out.append(x[0])
    return torch.stack(out)


@pytest.mark.parametrize(
    ("f", "length"),
    [(rows, 4), (two_for_each, 9), (after, 5), (some, None), (stopped, None), (counted, None), (skipping, None), (in_a_branch, None)],
)  # fmt: skip
def test_length(f, length):
    g, x = tg.function(f), torch.arange(12.0).view(4, 3) - 4
    for n in (0, 3):
        for scale in (1, -1):
            torch.testing.assert_close(g(x * scale, torch.tensor(n)), f(x * scale, torch.tensor(n)))
    (kind,) = {v.type for v in g.get_concrete_function(x, torch.tensor(3)).graph.outputs}
    assert isinstance(kind, TensorType)
    assert kind.shape[0] == length


def test_records():
    g, x = tg.function(records), torch.randn(4, 3)
    assert torch.equal(g(x, torch.tensor(0)), x)


def test_gradient():
    x = torch.randn(4, 3, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    (tg.function(two_for_each)(x, 0) ** 2).sum().backward()
    (two_for_each(y, 0) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
