"""Looks at what has changed are at what has changed since, and find all of it."""

import torch

import tograph as tg
from tograph.runtime.traces.call_effects import CallEffects


def looks(count: int, monkeypatch) -> int:
    """How often a change is looked at in a function with ``count`` of them, and as many ops that may fail."""
    state, found = {}, []
    seen = CallEffects.seen
    monkeypatch.setattr(CallEffects, "seen", lambda *args: found.append(1) or seen(*args))

    @tg.function
    def note(x):
        for i in range(count):
            state[i] = x
            x = x + 1 / x.sum().item()
        return x

    note(torch.ones(2))
    assert list(state) == list(range(count))
    monkeypatch.undo()
    return len(found)


def test_looks_grow_with_the_number_of_changes(monkeypatch):
    assert looks(40, monkeypatch) < 3 * looks(20, monkeypatch)


def test_what_changed_before_a_failure_is_there():
    state, log = {"n": 0}, []

    def step(x, xs):
        for i in range(3):
            state[f"a{i}"] = x + i
            log.append(i)
            state["n"] = state["n"] + 1
            x = x + 1 / x.sum().item()
        state["late"] = x
        del state["a1"]
        x = x + xs[x.sum().long()]  # out of range
        state["never"] = x
        return x

    def left(f):
        state.clear()
        state["n"] = 0
        log.clear()
        try:
            f(torch.ones(1), torch.ones(2))
        except IndexError:
            return [(k, float(v)) for k, v in state.items()], list(log)

    assert left(step) == left(tg.function(step)) is not None


def test_changes_of_an_object_that_is_found_later():
    class Owner:
        def __init__(self):
            self.held = {"a": torch.zeros(1)}

    owner = Owner()

    def step(x, other):
        held = vars(owner)["held"]
        held["b"] = x
        x = x + x.sum().item()
        owner.held["c"] = x
        return x + other[x.sum().long()]

    def left(f):
        owner.held = {"a": torch.zeros(1)}
        try:
            f(torch.ones(1), torch.ones(2))
        except IndexError:
            return [(k, float(v)) for k, v in owner.held.items()]

    assert left(step) == left(tg.function(step)) is not None


def test_a_dict_by_tensors_is_guarded_by_the_keys_that_are_read():
    p, q = torch.ones(2), torch.zeros(2)
    scale = {p: 2.0, q: 3.0}

    @tg.function
    def f(x):
        return x * scale[p]

    x = torch.ones(2)
    assert torch.equal(f(x), x * 2)
    scale[q] = 4.0
    assert torch.equal(f(x), x * 2) and f.trace_count == 1
    scale[p] = 5.0
    assert torch.equal(f(x), x * 5) and f.trace_count == 2
    del scale[p]
    try:
        f(x)
    except KeyError:
        return
    raise AssertionError("a key that is not there any more")
