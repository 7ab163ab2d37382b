"""Optimisers that have not stepped yet: one trace serves all calls, and their state is as in eager PyTorch."""

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.errors import GraphBoolError

OPTIMIZERS = [
    lambda p: torch.optim.Adam(p, 0.01),
    lambda p: torch.optim.Adam(p, 0.01, foreach=True),
    lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True, fused=True),
    lambda p: torch.optim.NAdam(p, 0.01),
    lambda p: torch.optim.RAdam(p, 0.01),
    lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
    lambda p: torch.optim.Adadelta(p),
    lambda p: torch.optim.Adamax(p, 0.01),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, maximize=True, foreach=True),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
]


def step(net, optimizer, x):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def steps(net, optimizer, x):
    loss = x.new_zeros(())
    while x.sum() > 1:
        loss = step(net, optimizer, x)
        x = x * 0.8
    return loss


def by_closure(net, optimizer, x):
    def closure():
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    return optimizer.step(closure).detach()


def looking(net, optimizer, x):
    warm = len(optimizer.state) == 0
    loss = step(net, optimizer, x)
    return loss * 2 if warm else loss


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def results(function, make, calls=3):
    """Losses, parameters and states after ``calls`` calls."""
    net = made()
    net[0].bias.requires_grad_(False)  # has no state
    optimizer, x = make(net.parameters()), torch.linspace(0, 1, 15).reshape(5, 3)
    losses = [function(net, optimizer, x) for _ in range(calls)]
    state = [dict(optimizer.state.get(p, {})) for p in net.parameters()]
    return losses, list(map(torch.detach, net.parameters())), state


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("function", [step, steps])
def test_one_trace_serves_all_calls(function, make):
    f = tg.function(function)
    torch.testing.assert_close(results(f, make), results(function, make), rtol=1e-4, atol=1e-5)
    assert f.trace_count == 1


def halting(net, optimizer, x):
    """What the loop computes has a gradient on some paths only."""
    optimizer.zero_grad()
    y, n = net[1](x @ net[0].weight.t()), 0
    while n < 3:
        y, n = net[1](y + net[0].bias), n + 1
        if y.sum() > 5:
            break
    net[2](y).square().mean().backward()
    optimizer.step()


def test_gradients_that_are_none_on_some_paths():
    """One trace serves all steps here, too, and the states stand in the order of the parameters."""
    orders = []
    for wrap in (lambda f: f, tg.function):
        net, f = made(), wrap(halting)
        optimizer, x = torch.optim.Adam(net.parameters(), 0.1), torch.full((2, 3), -0.5)
        for _ in range(2):
            f(net, optimizer, x)
        names = {p: name for name, p in net.named_parameters()}
        orders.append([names[p] for p in optimizer.state])
    assert orders[0] == orders[1] == list(names.values())
    assert f.trace_count == 1


def test_gradients_of_a_closure():
    f = tg.function(by_closure)
    make = OPTIMIZERS[0]
    torch.testing.assert_close(results(f, make), results(by_closure, make), rtol=1e-4, atol=1e-5)
    assert f.trace_count == 1


def test_a_program_that_looks_at_the_state_sees_that_there_is_none():
    f, make = tg.function(looking), OPTIMIZERS[0]
    torch.testing.assert_close(results(f, make), results(looking, make), rtol=1e-4, atol=1e-5)
    assert f.trace_count == 2


def test_the_momentum_of_a_damped_sgd_is_the_first_gradient():
    make = lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5)  # noqa: E731
    torch.testing.assert_close(results(tg.function(step), make), results(step, make))


def test_a_call_that_is_refused_leaves_no_state():
    net = made()
    optimizer = torch.optim.Adam(net.parameters())

    @tg.do_not_convert
    def asked(x):
        return bool(x.sum() > 0)

    @tg.function
    def f(x):
        return step(net, optimizer, x), asked(x)

    with pytest.raises(GraphBoolError):
        f(torch.ones(2, 3))
    assert not optimizer.state


def test_a_step_before_an_error_of_the_program_is_done():
    def f(net, optimizer, x):
        step(net, optimizer, x)
        raise ValueError("no more")

    seen = []
    for function in (f, tg.function(f)):
        net = made()
        optimizer = torch.optim.Adam(net.parameters())
        with pytest.raises(ValueError, match="no more"):
            function(net, optimizer, torch.ones(2, 3))
        seen.append([v for s in optimizer.state.values() for v in s.values()])
    torch.testing.assert_close(seen[0], seen[1])
