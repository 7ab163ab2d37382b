"""Numbers outside that change from call to call go to the entry as they are, and what a call gives goes back into their places."""

import math

import pytest
import torch

import tograph as tg
from tograph.runtime.values import families

X = torch.arange(4.0)


class Plain:
    def __init__(self):
        self.n, self.total, self.tensor = 0, 0.0, torch.zeros(4)


class Slotted:
    __slots__ = ("__weakref__", "n", "tensor", "total")
    __init__ = Plain.__init__


class Watched(Plain):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.total = 0, 0.0
        self.register_buffer("tensor", torch.zeros(4))


def count(x, state):
    state.n += 1
    return x * state.n


def average(x, state):
    state.n += 1
    state.total += x.sum().item()
    return state.total / state.n


def buffer(x, state):
    state.tensor[state.n] = x.sum()
    state.n = (state.n + 1) % 4
    return state.tensor.sum()


def replace(x, state):
    state.n = state.n + 2
    state.tensor = state.tensor * 0.5 + x
    return state.n, [state.n, state.tensor.max()]


def branch(x, state):
    if x.sum() > 0:
        state.n += 1
    else:
        state.total -= 0.5
    return x + state.n + state.total


@pytest.mark.parametrize("kind", [Plain, Slotted, Watched, Module])
@pytest.mark.parametrize("f", [count, average, buffer, replace, branch])
def test_as_in_python(kind, f):
    ours, theirs = kind(), kind()
    g = tg.function(lambda x: f(x, ours))
    for i in range(20):
        x = X - 3 * (i % 2)
        found, expected = g(x), f(x, theirs)
        assert str(found) == str(expected)
        assert (ours.n, ours.total) == (theirs.n, theirs.total)
        assert (type(ours.n), type(ours.total)) == (int, float)
        assert torch.equal(ours.tensor, theirs.tensor)


def test_no_tensor_is_made_of_a_number(monkeypatch):
    state = Plain()
    g = tg.function(lambda x: average(x, state))
    for _ in range(10):
        g(X)
    monkeypatch.setattr(families, "number_tensor", lambda x: pytest.fail(f"a tensor of {x}"))
    assert g(X) == 6
    assert state.n == 11


@pytest.mark.parametrize(
    "value", [2**62, 2**64, -(2**64), 2.5, True, math.nan, math.inf, "text", None]
)
def test_a_number_that_becomes_something_else(value):
    ours, theirs = Plain(), Plain()
    g = tg.function(lambda x: count(x, ours))
    for _ in range(8):
        assert torch.equal(g(X), count(X, theirs))
    ours.n = theirs.n = value
    for _ in range(6):
        try:
            expected = count(X, theirs)
        except (TypeError, OverflowError, RuntimeError) as error:
            with pytest.raises(type(error)):
                g(X)
            continue
        torch.testing.assert_close(g(X), expected, equal_nan=True)
        assert type(ours.n) is type(theirs.n)
        assert str(ours.n) == str(theirs.n)
    ours.n = theirs.n = 3
    for _ in range(4):
        assert torch.equal(g(X), count(X, theirs))


def test_a_global(monkeypatch):
    monkeypatch.setitem(globals(), "_steps", 0)
    g = tg.function(_global)
    for i in range(12):
        assert torch.equal(g(X), X + i + 1)
    assert _steps == 12
    assert type(_steps) is int


_steps = 0


def _global(x):
    global _steps
    _steps += 1
    return x + _steps


def test_an_owner_that_is_gone():
    def call(x):
        state = holder[0]
        state.n += 1
        return x * state.n

    holder = [Plain()]
    g = tg.function(call)
    for i in range(8):
        assert torch.equal(g(X), X * (i + 1))
    holder[0] = Plain()
    for i in range(8):
        assert torch.equal(g(X), X * (i + 1))


def test_two_numbers_that_are_one_object():
    state, other = Plain(), Plain()

    def call(x):
        state.n += 1
        other.n += 1
        return x * state.n + other.n

    g = tg.function(call)
    for i in range(1, 12):
        assert torch.equal(g(X), X * i + i)
    assert (state.n, other.n) == (11, 11)
