"""A trace that is over leaves nothing behind: torch's histories hold tensors where no collector looks."""

import gc

import pytest
import torch

import tograph as tg
from tograph.runtime.symbols.funcgraph import FuncGraph

WEIGHT = torch.nn.Parameter(torch.full((3,), 1.5))


def gradient_inside(x):
    x = x.detach().requires_grad_()
    (found,) = torch.autograd.grad((x * x).sum(), x)
    return found


def backward_through_a_branch(x):
    x = x.detach().requires_grad_()
    y = x * x if x.sum() > 0 else x
    y.sum().backward()
    return x.grad


def gradient_through_a_loop(x):
    x = x.detach().requires_grad_()
    y = x
    while y.sum() < 100:
        y = y * 1.5
    (found,) = torch.autograd.grad(y.sum(), x)
    return found


def training_step(x):
    optimizer = torch.optim.SGD([WEIGHT], 0.0)
    optimizer.zero_grad()
    (WEIGHT * x).sum().backward()
    optimizer.step()
    return WEIGHT.sum()


def loop_over_a_parameter(x):
    while x.sum() < 100:
        x = x * WEIGHT
    return x


def failure_while_traced(x):
    y = x * WEIGHT
    raise ValueError(y.shape)


PROGRAMS = [
    gradient_inside, backward_through_a_branch, gradient_through_a_loop, training_step, loop_over_a_parameter, failure_while_traced,
]  # fmt: skip


def recorded():
    gc.collect()  # of tensors, whose histories go with them
    gc.collect()  # of what these held
    return sum(type(x) is FuncGraph for x in gc.get_objects())


def trace(program):
    try:
        result = tg.function(program)(torch.ones(3))
        if result.requires_grad:
            result.sum().backward()
    except ValueError:
        pass


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_graph_outlives_its_trace(program):
    before = recorded()
    trace(program)
    assert recorded() <= before
