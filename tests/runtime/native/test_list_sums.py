"""Cotangents that come to one list by several ways, in native code."""

import pytest
import torch

import tograph as tg


def natively(function, *calls):
    """Each call gives what the plain function gives, by one trace, in native code."""
    staged = tg.function(function)
    for x in calls:
        torch.testing.assert_close(staged(x.clone()), function(x.clone()))
    assert staged.trace_count == 1
    scheduled = staged.concrete_functions[0].scheduled
    assert "handle_add" in str(staged.concrete_functions[0].graph)
    assert scheduled.level == "native", scheduled.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_list_that_is_used_twice(dtype):
    def f(x):
        x.requires_grad_()
        outs, y = [], x
        while y.norm() < 10:
            y = y * 1.5 + torch.sin(y)
            outs.append(y * 2)
        doubled = torch.stack([v * 2 for v in outs])
        loss = torch.stack(outs).sum() + doubled.square().sum()
        return y.detach(), torch.autograd.grad(loss, x)[0]

    x = torch.tensor([0.5, 0.25, 0.75], dtype=dtype)
    natively(f, x, x * 3, x * 0.1)


def test_numbers_and_an_empty_list():
    def f(x):
        x.requires_grad_()
        outs, y = [], x
        while y.sum() < 10:
            y = y * 1.5
            outs.append(y.sum())
        loss = (x * x).sum()
        for v in outs:
            loss = loss + v * v
        for v in outs:
            loss = loss + torch.sin(v)
        return torch.autograd.grad(loss, x)[0]

    natively(f, torch.tensor([0.5, 0.25]), torch.tensor([2.0, 1.0]), torch.tensor([20.0, 1.0]))


def test_what_only_one_branch_gives():
    def f(x):
        x.requires_grad_()
        loss = (x * x).sum()
        for _ in range(3):
            y = torch.sin(x) if loss > 1 else x * 2
            if y.sum() > 1:
                break
            loss = loss + (y * y.exp()).sum()
        rows = [x * k for k in range(2)]
        while rows[-1].sum() < 4:
            rows.append(rows[-1] * 1.5 + 1)
        loss = loss + sum(v.square().sum() for v in rows) + torch.stack(rows).sin().sum() + y.sum()
        return torch.autograd.grad(loss, x)[0]

    natively(f, torch.tensor([0.5, 0.25]), torch.tensor([2.0, 1.0]), torch.tensor([-2.0, 1.0]))
