"""Calls under hooks of saved tensors: those of a checkpoint, and of the user."""

import torch
from torch.utils.checkpoint import checkpoint

import tograph as tg


def results(x, y):
    while x.sum() < 10:
        x = x * 2 + y.exp()
    return x * y, x.sin()


def leaves():
    return [torch.tensor([0.5, 1.5], requires_grad=True), torch.tensor([0.1, 0.2], requires_grad=True)]  # fmt: skip


def test_the_first_call_may_be_in_a_checkpoint():
    f = tg.function(results)
    for _ in range(8):  # op by op, native, and by the short way
        x, y = leaves()
        wanted = torch.autograd.grad(results(x, y)[0].sum(), (x, y))
        found = torch.autograd.grad(checkpoint(f, x, y, use_reentrant=False)[0].sum(), (x, y))
        torch.testing.assert_close(found, wanted)


def test_hooks_of_saved_tensors_see_real_tensors_only():
    f, seen = tg.function(results), []
    x, y = leaves()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        out = f(x, y)[0]
        y * y
    assert len(seen) > 2
    assert all(type(t) is torch.Tensor and t.tolist() for t in seen)
    wanted = torch.autograd.grad(results(x, y)[0].sum(), (x, y))
    torch.testing.assert_close(torch.autograd.grad(out.sum(), (x, y)), wanted)
