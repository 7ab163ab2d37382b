"""Calls with tensors whose size a condition decided: torch's own questions about it are answered in branches."""

import torch
import torch.nn.functional as F

import tograph as tg


def masked(q, bias, pad):
    """The bias of every head, for one example or for each."""
    mask = bias if pad.all() else torch.where(pad[:, None, None, :], bias, -1e9)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def test_attention_with_a_mask_for_all_or_for_each():
    f = tg.function(masked)
    q, bias = torch.rand(2, 3, 4, 5), torch.rand(1, 3, 4, 4)
    full = torch.ones(2, 4, dtype=torch.bool)
    part = full.clone()
    part[1, 2:] = False
    for pad in (full, part):
        torch.testing.assert_close(f(q, bias, pad), masked(q, bias, pad))
    assert f.trace_count == 1


def test_a_wrong_size_raises_in_its_branch():
    def plain(q, t):
        k = q[..., :3] if t > 0 else q
        return F.scaled_dot_product_attention(q, k, k)

    f = tg.function(plain)
    q = torch.rand(2, 3, 4, 5)
    torch.testing.assert_close(f(q, torch.tensor(-1.0)), plain(q, torch.tensor(-1.0)))
    for g in (f, plain):
        try:
            g(q, torch.tensor(1.0))
        except RuntimeError:
            continue
        raise AssertionError(f"{g} did not raise")


def test_ops_that_ask_nothing_are_traced_once():
    @tg.function
    def f(x):
        y = x if x.sum() > 0 else x[:1]
        return torch.exp(y).sum()

    assert str(f.get_concrete_function(torch.rand(3)).graph).count("aten.exp") == 1


def test_a_number_that_a_condition_chose_with_a_tensor():
    def parts(x):
        y = x.reshape(2, -1, 2) if x.sum() > 0 else x
        halves = y[..., :1], y[..., 1:]
        return torch.stack(halves, dim=y.dim()).reshape(y.shape), y.sum(y.dim() - 1)

    def rows(x):
        d = 1 if x.sum() > 0 else 0
        return x.sum(d), torch.cat([x, x], d), x.unsqueeze(1 - d)

    for f in (parts, rows):
        g = tg.function(f)
        for x in (torch.ones(4, 2), -torch.ones(4, 2)):
            for ours, eager in zip(g(x), f(x)):
                assert torch.equal(ours, eager)
