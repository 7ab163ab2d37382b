"""Functions under what of torch records or compiles Python: ``torch.jit.trace`` and ``torch.compile``."""

import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import tograph as tg

SCALE = 2.0


def straight(x):
    return x.sin() * SCALE + 1


def doubled(x):
    while x.sum() < 10:
        x = x * 2
    return x


def warm(function, x):
    """A function with an entry in machine code."""
    staged = tg.function(function)
    for _ in range(3):
        staged(x)
    return staged


X = torch.tensor([0.3, 0.5, 1.0])


def test_jit_trace_records_the_ops_of_a_function():
    staged = warm(straight, X)
    recorded = torch.jit.trace(lambda x: staged(x) * 2, (X,))
    torch.testing.assert_close(recorded(X + 1), straight(X + 1) * 2)
    torch.testing.assert_close(staged(X + 1), straight(X + 1))


def test_jit_trace_of_a_loop_warns_as_for_plain_python():
    staged = warm(doubled, X)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        recorded = torch.jit.trace(staged, (X,))
    assert any(issubclass(w.category, torch.jit.TracerWarning) for w in seen)
    torch.testing.assert_close(recorded(X * 1.01), doubled(X * 1.01))


def test_make_fx_records_the_ops_of_a_function():
    staged = warm(straight, X)
    recorded = make_fx(lambda x: staged(x) * 2)(X)
    torch.testing.assert_close(recorded(X + 1), straight(X + 1) * 2)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(1.5))

    @tg.function
    def forward(self, x):
        while x.sum() < 10:
            x = x * self.weight
        return x


def test_torch_compile_breaks_its_graph_at_a_function():
    staged, layer = warm(doubled, X), Layer()
    layer(X)

    @torch.compile(backend="eager")
    def compiled(x):
        return staged(x + 1) * 2 + layer(x)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for i in range(3):
            x = X + i
            y = compiled(x)
            torch.testing.assert_close(y, doubled(x + 1) * 2 + layer(x))
            (found,) = torch.autograd.grad(y.sum(), layer.weight)
            torch.testing.assert_close(found, *torch.autograd.grad(layer(x).sum(), layer.weight))
    # Nothing of what its compiler says of code that it cannot look into.
    assert not [w for w in seen if "Dynamo" in str(w.message)]
    assert staged.trace_count == 1
