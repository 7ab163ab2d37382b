"""Graphs that are replayed for a gradient: which writes in place count for what was saved."""

import torch

import tograph as tg


def test_a_copy_is_used_after_a_write_whose_result_is_not():
    def program(x, w):
        t = x * 1.5
        kept = t.clone()
        t.mul_(2)
        return w * kept

    def run(f):
        x, w = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 5.0], requires_grad=True)  # fmt: skip
        return [g.tolist() for g in torch.autograd.grad(f(x, w).sum(), [x, w])]

    assert run(tg.function(program)) == run(program)
