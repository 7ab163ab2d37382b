"""Functions and modules of ``torch.compile`` in a graph: their code is part of it."""

import torch

import tograph as tg

X = torch.tensor([1.0, 2.0, 3.0])


def backend(module, inputs):
    raise AssertionError("torch.compile compiles nothing here")


def halve(x):
    while x.sum() > 4:
        x = x / 2
    return x


class Halve(torch.nn.Module):
    def forward(self, x):
        return halve(x) if x[0] > 0 else -x

    @torch.compile(backend=backend)
    def method(self, x):
        return halve(x) * 2


def test_what_was_compiled_becomes_part_of_the_graph():
    function = torch.compile(halve, backend=backend)
    module = torch.compile(torch.nn.Sequential(torch.nn.Identity(), Halve()), backend=backend)
    left_alone, instance = torch.compiler.disable(halve), Halve()

    def every(x):
        return function(x), module(x), left_alone(x), instance.method(x)

    converted = tg.function(every)
    for x in (X, -X):
        found = converted(x)
        wanted = halve(x), instance(x), halve(x), halve(x) * 2
        assert all(map(torch.equal, found, wanted))
    assert converted.trace_count == 1
    for entry in (function, module, left_alone):
        assert "While" in str(tg.function(entry).get_concrete_function(X).graph)
    assert tg.to_code(function) == tg.to_code(halve)
