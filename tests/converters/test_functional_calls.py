"""``torch.func.functional_call`` with parameters that a staged condition chooses."""

import pytest
import torch
from torch.func import functional_call

import tograph as tg


class Affine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.v = torch.nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, x):
        return self.w * x + self.v


X = torch.tensor([[0.3, -0.5, 0.2], [1.0, 0.4, -0.7]])


def adapted(module):
    """The loss behind at most three steps, by parameters that may be the module's own."""

    def f(x, limit):
        params = dict(module.named_parameters())
        fast = params
        for _ in range(3):
            loss = functional_call(module, fast, (x,)).pow(2).sum()
            if loss < limit:
                break
            found = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), found)}
        return functional_call(module, fast, (x,)).pow(2).sum()

    return f


@pytest.mark.parametrize("limit", [1e-4, 1.0, 100.0])
@pytest.mark.parametrize("module", [Affine(), torch.nn.Linear(3, 2)], ids=["own", "linear"])
def test_steps_of_fast_weights_with_a_second_name(module, limit):
    f = adapted(module)
    g = tg.function(f)
    for x in (X, 0.5 * X):
        results = [run(x, torch.tensor(limit)) for run in (f, g)]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(
            *(torch.autograd.grad(r, list(module.parameters())) for r in results)
        )


def test_dicts_with_other_names():
    """The names that are missing are the module's own."""
    module = Affine()

    def f(x, c):
        named = {"w": x[0]}
        if c > 0:
            named = {"v": x[1]}
        return functional_call(module, named, (x,))

    g = tg.function(f)
    for c in (1.0, -1.0):
        torch.testing.assert_close(g(X, torch.tensor(c)), f(X, torch.tensor(c)))


class Growing(torch.nn.Module):
    """Its loop ends by what it computes, and it binds its buffer anew."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        y = self.layer(x)
        while y.norm() < 5:
            y = y * 1.5
            self.count = self.count + 1
        return y


@pytest.mark.parametrize("chosen", [False, True])
def test_a_module_with_a_loop_that_binds_its_buffer(chosen):
    """The dict gets the new buffer, the module keeps its own."""

    def f(module, x):
        named = {n: p * 0.5 for n, p in module.named_parameters()}
        named["count"] = torch.ones(())
        if chosen and x.sum() > 0:
            named = {n: p * 2 for n, p in named.items()}
        y = functional_call(module, named, (x,))
        return y, named["count"], module.count

    module = Growing()
    g = tg.function(f)
    for x in (X, -X):
        torch.testing.assert_close(g(module, x), f(module, x))
