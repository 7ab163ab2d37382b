"""A forward part that runs again for a gradient draws what it drew, from whichever generator."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import pairs
from tograph.runtime.autodiff.generator_states import gpus_of, restored, states_of
from tograph.runtime.gpu.retarget import retarget

OWN = torch.Generator()


def _drawn(x, n, g):
    while n > 0:
        x = (x * 0.9 + torch.rand(4, generator=g) * x + torch.rand(4)).sin()
        n = n - 1
    return x.sum()


def _gradients(f, g):
    for each in (OWN, torch.default_generator):
        each.manual_seed(3)
    x = torch.linspace(-1, 1, 4).requires_grad_()
    y = f(x, torch.tensor(3), g)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    torch.rand(3, generator=g)
    (second,) = torch.autograd.grad(first.sum(), x)
    return y, first, second


@pytest.mark.parametrize("g", [OWN, torch.default_generator], ids=["own", "default"])
def test_gradients_of_gradients_draw_the_same_numbers(g):
    f, states = tg.function(_drawn), []
    for _ in range(2):
        for found, plain in zip(_gradients(f, g), _gradients(_drawn, g), strict=True):
            torch.testing.assert_close(found, plain)
    for call in (f, _drawn):
        _gradients(call, g)
        states.append([each.get_state() for each in (OWN, torch.default_generator)])
    assert all(map(torch.equal, *states))


def test_generators_of_gpus_on_which_the_graph_has_tensors(monkeypatch):
    """Of no input alone: a tensor may be made there, in a loop, or be an item of a list."""
    graph = tg.function(_drawn).get_concrete_function(torch.ones(4), torch.tensor(3), OWN).graph
    gpus = gpus_of(retarget(graph, "cuda:1"))
    assert gpus_of(graph) == [] and gpus == [1]
    made = [torch.Generator(), torch.Generator()]
    begun: list[bool] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: begun.append(True))
    monkeypatch.setattr(torch.cuda, "default_generators", made)
    states = states_of(gpus, [OWN])
    first, other = (torch.rand(3, generator=g) for g in reversed(made))
    with restored(states):
        again, on = (torch.rand(3, generator=g) for g in reversed(made))
    assert begun and torch.equal(first, again) and not torch.equal(other, on)
    monkeypatch.setattr(pairs, "gpus_of", lambda graph: gpus)
    _gradients(tg.function(_drawn), OWN)
    assert len(begun) > 1
