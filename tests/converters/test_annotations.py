"""Annotations: those of variables go, those of classes declare fields."""

import dataclasses
import typing

import pytest
import torch

import tograph as tg
from tests.converters import future_annotations


def test_classes_in_a_function_keep_their_fields():
    def f(x):
        steps: int = 0
        limit: float

        @dataclasses.dataclass
        class State:
            a: torch.Tensor
            b: torch.Tensor = None

            def twice(self):
                factor: int = 2
                return self.a * factor

        class Pair(typing.NamedTuple):
            u: torch.Tensor
            v: int = 4

        state, pair = State(x), Pair(x)
        limit = 10.0
        while state.a.sum() < limit:
            state = State(state.twice(), x)
            pair = Pair(pair.u + 1, pair.v + 1)
            steps += 1
        return state.a, state.b, *pair, steps, [n.name for n in dataclasses.fields(State)]

    x = torch.ones(3)
    actual, expected = tg.function(f)(x), f(x)
    assert actual[5] == expected[5] == ["a", "b"]
    for a, e in zip(actual[:5], expected[:5], strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(e))


OUTSIDE = 5


def test_declared_name_is_unbound():
    def declared():
        OUTSIDE: int
        return OUTSIDE  # noqa: F821

    def bound_in_a_branch(x):
        y: torch.Tensor
        if x > 0:
            z: int
            z = 3
            y = x + z
        else:
            y = x - 1
        return y

    with pytest.raises(UnboundLocalError):
        tg.function(declared)()
    assert tg.function(bound_in_a_branch)(torch.tensor(1)) == 4


@pytest.mark.parametrize("f", [future_annotations.inner_functions, future_annotations.classes])
def test_annotations_that_the_module_does_not_evaluate(f):
    for x in (torch.ones(2), torch.full((2,), -1.0)):
        if f is future_annotations.classes:
            x = x.abs()
        actual, expected = tg.function(f)(x), f(x)
        assert torch.equal(actual[0], expected[0])
        assert actual[1] == expected[1]
