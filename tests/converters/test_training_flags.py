"""Modules that a staged condition trains or does not: native against `tg.function`."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tograph as tg

X = torch.linspace(-1, 1, 18).reshape(6, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.drop, self.last = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)  # fmt: skip

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x)).relu()))


def by_a_condition(net, x, n):
    if n > 1:
        net.eval()
    return net(x), net.training


def one_of_its_layers(net, x, n):
    if n > 1:
        net.norm.eval()
    return net(x)


def from_an_iteration_on(net, x, n):
    optimizer, loss = torch.optim.SGD(net.parameters(), 0.1), torch.zeros(())
    for i in range(n):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        if i > 0:
            net.eval()
    return loss, net.training


def functions(net, x, n):
    training = bool(n > 1)
    return F.dropout(x, 0.3, training), F.rrelu(x, training=training), F.instance_norm(x[None], use_input_stats=True)  # fmt: skip


@pytest.mark.parametrize(
    "program", [by_a_condition, one_of_its_layers, from_an_iteration_on, functions]
)
def test_as_in_eager(program):
    converted, net = tg.function(program), Net()
    for n in map(torch.tensor, (0, 3)):
        rows = []
        for f in (converted, program):
            own = copy.deepcopy(net)
            torch.manual_seed(1)
            rows.append((f(own, X, n), dict(own.state_dict()), own.norm.training))
        torch.testing.assert_close(*rows)
