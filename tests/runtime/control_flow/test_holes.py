"""Views of one memory behind a staged construct, with and without its history: native against `tg.function`."""

import pytest
import torch
from torch import nn

import tograph as tg


def cut(w, xs, k):
    h = torch.zeros(3)
    for i in range(len(xs)):
        h = (h - w).mul_(xs[i]).view(3)
        if i % k == 2:
            h = h.detach()
    return h


def written_behind(w, xs, k):
    h = (w * xs[0]).view(3)
    y = h.view(3).detach() if k > 2 else h.view(3)
    h.mul_(xs[1])
    return y * w


@pytest.mark.parametrize("program", [cut, written_behind])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_detached_on_some_paths(program, k):
    found = []
    for function in (program, tg.function(program)):
        torch.manual_seed(0)
        w = torch.randn(3, requires_grad=True)
        y = function(w, torch.randn(8, 3), torch.tensor(k))
        found.append([y.detach(), *torch.autograd.grad(y.sum(), w)])
    torch.testing.assert_close(*found)


def truncated(cell, optimizer, xs, k):
    """Backpropagation through time in pieces of ``k`` steps: a cell returns a view of what it computed in place."""
    h, loss, total = torch.zeros(3), torch.zeros(()), torch.zeros(())
    for i in range(k * 2):
        h = cell(xs[i], h)
        loss = loss + h.square().sum()
        if (i + 1) % k == 0:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, loss, h = total + loss.detach(), torch.zeros(()), h.detach()
    return total


def test_truncated_backpropagation_through_a_cell():
    found = []
    for function in (truncated, tg.function(truncated)):
        torch.manual_seed(0)
        cell = nn.GRUCell(2, 3)
        optimizer = torch.optim.SGD(cell.parameters(), 0.1)
        total = function(cell, optimizer, torch.randn(6, 2), torch.tensor(3))
        found.append([total, *(p.detach() for p in cell.parameters())])
    torch.testing.assert_close(*found)
