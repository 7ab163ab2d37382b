"""Optimisers with ``foreach=True`` whose first step stands in a staged loop."""

import pytest
import torch

import tograph as tg

KINDS = {
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, foreach=True),
    "nesterov": lambda p: torch.optim.SGD(
        p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=True
    ),
    "adafactor": lambda p: torch.optim.Adafactor(p, 0.1, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
}


def trained(kind, stage):
    """What two loops leave, the second of which begins with the state of the first."""
    w, b = (torch.nn.Parameter(torch.linspace(-1, 1, n)) for n in (6, 2))
    w.data = w.data.reshape(2, 3)
    optimizer = KINDS[kind]([w, b])

    @stage
    def fit(x, limit):
        steps = 0
        while steps < 8:
            optimizer.zero_grad()
            loss = (torch.tanh(w @ x + b) - 0.5).square().sum()
            loss.backward()
            optimizer.step()
            steps = steps + 1
            if loss < limit:
                break
        return loss.detach(), steps

    x = torch.tensor([0.3, -0.7, 1.1])
    found = [fit(x, torch.tensor(limit)) for limit in (0.5, 0.05)]
    state = [v for p in (w, b) for v in optimizer.state[p].values()]
    return [int(n) for _, n in found], [loss for loss, _ in found], [w.data, b.data, *state]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_begins_without_state(kind):
    torch.testing.assert_close(trained(kind, tg.function), trained(kind, lambda f: f))
