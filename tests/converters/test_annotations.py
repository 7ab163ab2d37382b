"""Annotations: those of variables go, those of classes declare fields."""

import dataclasses
import typing

import pytest
import torch

import tograph as tg


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
