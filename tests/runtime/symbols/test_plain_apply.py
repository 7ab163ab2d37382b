"""The shorter ``apply``, and the public one where torch has no other."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import nodes
from tograph.runtime.symbols.plain_apply import inner_apply, plain_apply, works


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Nothing:
    """Stands for a torch that refuses what it is asked."""

    def __init__(self, error):
        self.error = error

    def __call__(self, *args):
        raise self.error


def missing(function):
    return None


@pytest.mark.parametrize("found", [inner_apply, missing])
def test_gives_a_node(found):
    x = torch.tensor(2.0, requires_grad=True)
    y = plain_apply(Cube, found)(x)
    y.backward()
    assert y.item() == 8 and x.grad.item() == 12


@pytest.mark.parametrize(
    "found",
    [
        missing,
        lambda function: Nothing(TypeError("no such arguments")),
        lambda function: Nothing(RuntimeError("not here")),
        lambda function: lambda x: x.detach() + x.detach(),  # no node
    ],
)
def test_falls_back_to_the_public_one(found):
    assert not works(found)
    assert plain_apply(Cube, found) == Cube.apply


def test_this_torch_has_it():
    assert works(inner_apply)


def test_also_while_no_gradient_is_recorded():
    with torch.no_grad():
        assert works(inner_apply)


def test_gradients_of_a_function_with_the_public_one(monkeypatch):
    @tg.function
    def f(x):
        while x.sum() < 10:
            x = x * x
        return x

    monkeypatch.setattr(nodes, "_applied", plain_apply(nodes._Apply, missing))
    x = torch.tensor([2.0, 1.5], requires_grad=True)
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert torch.allclose(g, 4 * x**3) and g.requires_grad
