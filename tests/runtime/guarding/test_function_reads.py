"""Variables that have no value yet, and get one later, where only the run meets them."""

import torch

import tograph as tg


def _outcome(f):
    try:
        return f(torch.ones(2)).tolist()
    except NameError:
        return NameError


def test_a_variable_of_a_closure():
    def make():
        def f(x):
            while x.sum() < 5:
                x = x + later  # noqa: F821
            return x

        def put(value):
            nonlocal later
            later = value

        def take_away():
            nonlocal later
            del later

        later = 0
        del later
        return f, put, take_away

    f, put, take_away = make()
    g = tg.function(f)
    for step in (lambda: None, lambda: put(1), take_away, lambda: put(2)):
        step()
        assert _outcome(g) == _outcome(f)


def test_a_global(monkeypatch):
    def f(x):
        while x.sum() < 5:
            x = x + LATER  # noqa: F821
        return x

    g = tg.function(f)
    assert _outcome(g) is NameError
    monkeypatch.setitem(globals(), "LATER", 2.5)
    assert _outcome(g) == _outcome(f) == [3.5, 3.5]
    monkeypatch.delitem(globals(), "LATER")
    assert _outcome(g) is NameError
