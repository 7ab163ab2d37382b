"""Graphs that are replayed for a gradient: which writes in place count for what was saved."""

import pytest
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


def by_a_constant(w, s, n):
    y = w * 2
    y.copy_(torch.ones(3))
    return y


def in_a_branch(w, s, n):
    y = w * 2
    if n > 1:
        y.copy_(s * s)
    return y.sin()


def in_a_loop(w, s, n):
    y, total = w * 2, w * 0
    for i in range(n):
        total = total + y
        y.copy_(s * i)
    return total


def of_another_type(w, s, n):
    y = w.double().expand(2, 3).clone()
    y.copy_(s * s)
    return y.sin()


@pytest.mark.parametrize("case", [by_a_constant, in_a_branch, in_a_loop, of_another_type])
def test_what_is_written_over_as_a_whole_has_zeros_for_a_gradient(case):
    def outcome(f, n):
        w, s = (torch.tensor([1.0, 0.5, -2.0], requires_grad=True) for _ in range(2))
        y = f(w, s, torch.tensor(n))
        grads = torch.autograd.grad(y.sum(), [w, s], allow_unused=True)
        return y.requires_grad, *grads

    f = tg.function(case)
    for n in (0, 1, 3):
        for got, wanted in zip(outcome(f, n), outcome(case, n), strict=True):
            assert (got is None) == (wanted is None)
            if wanted is not None:
                torch.testing.assert_close(got, wanted)
