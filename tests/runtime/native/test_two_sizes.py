"""Tensors with two sizes that only the run knows, in native code."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native.sizes import Open
from tograph.runtime.native.values import Decline, Span, strides

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def attention(x, n):
    """All tokens attend to all before them, and the last one's answer is appended."""
    i = 0
    while i < n:
        length = x.shape[0]
        score = x @ x.t() / 2
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
        y = torch.softmax(score.masked_fill(~mask, float("-inf")), -1) @ x
        x = torch.cat([x, torch.tanh(y[-1:])])
        i += 1
    return x


def heads(x, n):
    i = 0
    while i < n:
        q = x.view(-1, 2, 4).transpose(0, 1)
        places = torch.arange(x.shape[0])
        score = (q @ q.transpose(-1, -2)).masked_fill(places[None] > places[:, None], -1e9)
        y = (torch.softmax(score, -1) @ q).transpose(0, 1).reshape(-1, 8)
        x = torch.cat([x, y[-1:] * 0.9])
        i += 1
    return x


def distances(x, n):
    total = x.sum()
    while x.shape[0] < n:
        apart = (x[:, None] - x[None]).abs()
        total = total + apart.sum() + apart.amax(0).mean() + apart.sum(-1).argmax(1).sum()
        x = torch.cat([x, apart[0].mean(0, keepdim=True) + apart[:, -1].amax(0)])
    return x, total


def products(x, n):
    total = x.sum()
    i = 0
    while i < n:
        table = x[:, None] * x[None] + 1
        both = torch.stack([table, table * 2])
        total = (
            total * 0.5
            + (both[0] @ both[1].transpose(0, 1)).mean()
            + table.t()[0].sum()
            + both.permute(1, 2, 0)[-1].sum()
        )
        total = (
            total
            + torch.cat([table, table[:1]]).sum() * 0.1
            + table[1:, :-1].sum()
            + table.select(1, 0).sum()
        )
        x = torch.cat([x, x[:1] * 0.3])
        i += 1
    return total


@pytest.mark.parametrize("case, x", [
    (attention, torch.randn(2, 8)), (heads, torch.randn(3, 8)), (distances, torch.rand(2, 3)), (products, torch.rand(3)),
])  # fmt: skip
def test_values(case, x):
    f = tg.function(case)
    for n in (4, 1, 9, 20):
        found, wanted = f(x, torch.tensor(n)), case(x, n)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    scheduled = f.get_concrete_function(x, torch.tensor(4)).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert not scheduled.declined


def batch(x, n):
    """Views that make one dimension of the batch and the length, and back."""
    i, w = 0, torch.eye(6) * 0.5 + 0.1
    while i < n:
        flat = x.reshape(-1, 6) @ w
        y = torch.tanh(flat).view(2, x.shape[1], 6)
        parts = y.view(2, -1, 2, 3).transpose(1, 2)
        score = torch.softmax(parts @ parts.transpose(-1, -2), -1)
        y = (score @ parts).transpose(1, 2).reshape(2, -1, 6)
        x = torch.cat([x, y[:, -1:] + flat.view(2, -1)[:, :6].mean()], 1)
        i += 1
    return x, x.reshape(-1), x.flatten(1) * 2, x.transpose(0, 1).reshape(-1, 12) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_views_across_dimensions(dtype):
    f, x = tg.function(batch), torch.randn(2, 3, 6, dtype=dtype)
    w = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for n in (1, 7, 2):
            found, wanted = f(x, torch.tensor(n)), batch(x, n)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, check_stride=True)
        scheduled = f.get_concrete_function(x, torch.tensor(2)).scheduled
        assert scheduled.level == "native", scheduled.reason
        assert not scheduled.declined
    finally:
        torch.set_default_dtype(w)


def test_a_view_that_does_not_fit_raises():
    def f(x, n):
        total = x.sum()
        while n > 0:
            x = torch.cat([x, x[:1]])
            total = total + x.view(2, -1).sum()
            n = n - 1
        return total

    g, x = tg.function(f), torch.rand(3, 3)
    torch.testing.assert_close(g(x, torch.tensor(1)), f(x, torch.tensor(1)))
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        g(x, torch.tensor(2))


def test_a_module_of_torch():
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval().requires_grad_(False)

    def f(x, n):
        i = 0
        while i < n:
            y, _ = attention(x, x, x, need_weights=False)
            x = torch.cat([x, y[:, -1:]], 1)
            i += 1
        return x

    g, x = tg.function(f), torch.randn(2, 3, 16)
    for n in (2, 5):
        torch.testing.assert_close(g(x, torch.tensor(n)), f(x, n), rtol=1e-4, atol=1e-4)
    scheduled = g.get_concrete_function(x, torch.tensor(2)).scheduled
    assert scheduled.level == "native", scheduled.reason


def test_a_branch_that_raises():
    def f(x, n):
        i = 0
        while i < n:
            if x.sum() > 30:
                raise ValueError(f"too large: {x.shape[0]}, {list(x.shape)}")
            x = torch.cat([x, x[:1]])
            i += 1
        return x

    g, x = tg.function(f), torch.ones(3)
    assert torch.equal(g(x, torch.tensor(20)), f(x, 20))
    assert g.get_concrete_function(x, torch.tensor(20)).scheduled.level == "native"
    with pytest.raises(ValueError, match=r"too large: 31, \[31\]"):
        g(x, torch.tensor(40))


def test_sizes_that_differ_raise():
    def f(x, n):
        total, y = x.sum(), x * 1
        while n > 0:
            x = torch.cat([x, x[:1]])
            y = torch.cat([y, y[:1], y[:1]])
            total = total + (x[:, None] * x[None] + y[:, None] * y[None]).sum()
            n = n - 1
        return total

    with pytest.raises(RuntimeError, match="must match the size"):
        tg.function(f)(torch.rand(3), torch.tensor(2))


def test_a_result_of_two_such_sizes_is_the_hosts():
    def f(x, n):
        while n > 0:
            x = torch.cat([x, F.relu(x[:1])])
            n = n - 1
        return x[:, None] * x[None]

    g, x = tg.function(f), torch.rand(3)
    torch.testing.assert_close(g(x, torch.tensor(2)), f(x, torch.tensor(2)), check_stride=True)


def test_strides_are_products_of_sizes():
    a, b = Open("a", 1 << 32), Open("b", 1 << 32)
    outer, middle, inner = strides((2, a, b, 3)[:3])
    assert inner == 1
    assert middle == Span(1, (b,)) != Span(1, (a,))
    assert outer == Span(1, (a, b)) == Span(1, (b, a))
    assert outer > middle > inner
    assert middle * 3 == Span(3, (b,))
    assert middle * 0 == 0
    for compute in (lambda: middle + 1, lambda: f"{middle}", lambda: str(middle)):
        with pytest.raises(Decline):
            compute()


def test_scores_are_folded_along_contiguous_columns():
    f, x = tg.function(attention), torch.randn(2, 8)
    f(x, torch.tensor(3))
    kernels = [k.loops for k in f.get_concrete_function(x, torch.tensor(3)).scheduled.kernels]
    folds = [k for k in kernels if len(k.outer) == 2 and len(k.row) == 1 and k.row[0].size == 8]
    (fold,) = folds
    lanes = fold.outer[-1].name
    (store,) = fold.stores
    loads = [e.address.factor(lanes) for e in fold.body if e.op == "load"]
    assert store.address.factor(lanes) == 1
    assert sorted(loads) == [0, 1]
