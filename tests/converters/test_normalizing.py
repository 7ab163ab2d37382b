"""Normalisations with an ``eps`` that only the run knows."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg

X = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(0))
W, B = torch.linspace(0.5, 2.0, 6), torch.linspace(-1.0, 1.0, 6)


def grouped(x, s):
    w, b = W.to(x.dtype), B.to(x.dtype)
    return F.group_norm(x, 3, eps=s.item()), F.group_norm(x, 2, w, b, s.item() * 2)


def batched(x, s):
    w, b = W.to(x.dtype), B.to(x.dtype)
    mean, var = torch.ones(6, dtype=x.dtype), torch.full((6,), 2.0, dtype=x.dtype)
    y = F.batch_norm(x, mean, var, w, b, training=True, momentum=s.item(), eps=s.item())
    return y, mean, var, F.batch_norm(x, None, None, training=True, eps=s.item())


def batched_by_statistics(x, s):
    w, b = W.to(x.dtype), B.to(x.dtype)
    return F.batch_norm(x, b, w, w, b, eps=s.item())


def by_instance(x, s):
    w, b = W.to(x.dtype), B.to(x.dtype)
    mean, var = torch.ones(6, dtype=x.dtype), torch.full((6,), 2.0, dtype=x.dtype)
    known = F.instance_norm(x, b, w, use_input_stats=False, eps=s.item())
    return F.instance_norm(x, mean, var, w, b, eps=s.item()), mean, var, known


def by_root(x, s):
    return F.rms_norm(x, (5,), eps=s.item()), F.rms_norm(
        x, (6, 5), torch.full((6, 5), 2.0, dtype=x.dtype), s.item()
    )


def to_length_one(x, s):
    return F.normalize(x, eps=s.item()), F.normalize(x, p=1.0, dim=0, eps=s.item() * 100)


FUNCTIONS = [grouped, batched, batched_by_statistics, by_instance, by_root, to_length_one]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_eps(f, dtype):
    g, near = tg.function(f), {"rtol": 0.016, "atol": 0.01} if dtype == torch.bfloat16 else {}
    for eps in (0.5, 1e-3):
        x = X.to(dtype)
        pairs = zip(_flat(g(x, torch.tensor(eps))), _flat(f(x, torch.tensor(eps))), strict=True)
        for got, expected in pairs:  # near 0 torch's kernels for bf16 differ by a rounded addend
            torch.testing.assert_close(got, expected, **near)


def _flat(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients(f):
    grads = []
    for g in (f, tg.function(f)):
        x = X.clone().requires_grad_()
        (_flat(g(x, torch.tensor(0.1)))[0] * torch.arange(5.0)).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(*reversed(grads), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("eps", [0.0, -1.0])
@pytest.mark.parametrize("training", [True, False])
def test_an_eps_that_torch_refuses(eps, training):
    def f(x, s):
        return F.batch_norm(x, torch.zeros(6), torch.ones(6), training=training, eps=s.item())

    try:
        expected = f(X, torch.tensor(eps))
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            tg.function(f)(X, torch.tensor(eps))
    else:
        torch.testing.assert_close(tg.function(f)(X, torch.tensor(eps)), expected)


def test_sizes_that_do_not_fit():
    def f(x, s):
        return F.group_norm(x, 4, eps=s.item())

    with pytest.raises(RuntimeError, match="num_groups") as expected:
        f(X, torch.tensor(0.5))
    with pytest.raises(RuntimeError) as got:
        tg.function(f)(X, torch.tensor(0.5))
    assert str(expected.value) in str(got.value)


def attended(x, s):
    mask = torch.linspace(0, 1, 36).reshape(6, 6).to(x.dtype)
    scaled = F.scaled_dot_product_attention
    return (
        scaled(x, x + 1, x * 2, scale=s.item()),
        scaled(x, x, x, mask, scale=-s.item()),
        scaled(x, x, x, is_causal=True, scale=s.item() * 2),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_attention(dtype):
    g, x = tg.function(attended), X.to(dtype)
    for s in (0.5, 0.1):
        for got, expected in zip(g(x, torch.tensor(s)), attended(x, torch.tensor(s)), strict=True):
            torch.testing.assert_close(got, expected)


def test_rows_whose_number_only_the_run_knows():
    def f(x, s):
        x = x[x[:, 0, 0] > -5]
        norms = F.group_norm(x, 3, eps=s.item()), F.instance_norm(x, eps=s.item())
        batch = F.batch_norm(x, None, None, training=True, eps=s.item())
        return *norms, batch, F.rms_norm(x, (5,), eps=s.item()), attended(x, s)[0]

    for got, expected in zip(tg.function(f)(X, torch.tensor(0.5)), f(X, torch.tensor(0.5)), strict=True):  # fmt: skip
        torch.testing.assert_close(got, expected)
