"""Gradients of what is broadcast along a dimension whose size only the run knows."""

import pytest
import torch

import tograph as tg

PROGRAMS = {
    "added": lambda x, b: x + b,
    "larger": lambda x, b: torch.maximum(x.unsqueeze(-1), b.unsqueeze(-1)) * 2,
    "chosen": lambda x, b: torch.where(x > 0, x, b.exp()),
    "stacked": lambda x, b: x.view(1, -1, 5) * b.unsqueeze(0).tanh().squeeze(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_of_one_are_added_up(name):
    f = PROGRAMS[name]
    spec = tg.TensorSpec((None, 5), torch.float32), tg.TensorSpec((None,), torch.float32)
    g = tg.function(f, input_signature=spec)
    for count in (1, 5):
        x, found = torch.randn(3, 5), []
        for called in (g, f):
            given = [x.clone().requires_grad_(), torch.ones(count, requires_grad=True)]
            called(*given).square().sum().backward()
            found.append([a.grad for a in given])
        torch.testing.assert_close(*found)
        assert found[0][1].shape == (count,)


def test_a_fold_of_the_rows_themselves():
    def f(x):
        return torch.maximum(x.unsqueeze(-1), x.unsqueeze(-1).std(1))

    g = tg.function(f, input_signature=[tg.TensorSpec((None, 5), torch.float32)])
    for rows in (1, 5):
        x = torch.randn(rows, 5)
        found = []
        for called in (g, f):
            given = x.clone().requires_grad_()
            called(given).sum().backward()
            found.append(given.grad)
        torch.testing.assert_close(*found)
