"""What a trace reads of partials and of the code of functions, and sees when it changes."""

import functools

import torch

import tograph as tg


def scaled(config, x, by=1.0):
    return x * config["lr"] * by


def test_what_a_partial_holds():
    config, more = {"lr": 1.0}, {"lr": 2.0}
    held = functools.partial(scaled, config, by=3.0)
    inner = tg.function(lambda x: held(x) + functools.partial(scaled, more)(x))
    outer, x = tg.function(held), torch.ones(1)
    for lr in (1.0, 0.5, 0.5, 2.0):
        config["lr"] = more["lr"] = lr
        assert outer(x) == held(x) and inner(x) == held(x) + scaled(more, x)


def helper(x, by=1):
    return x + by


def other(x, by=1):
    return x * by


def test_code_and_defaults_of_a_function_that_is_called():
    f, x = tg.function(lambda x: helper(x)), torch.tensor(5.0)
    old, defaults = helper.__code__, helper.__defaults__
    try:
        assert f(x) == f(x) == 6
        helper.__code__ = other.__code__
        assert f(x) == f(x) == 5
        helper.__defaults__ = (3,)
        assert f(x) == f(x) == 15
    finally:
        helper.__code__, helper.__defaults__ = old, defaults
    assert f(x) == 6


class Lazily:
    def __init__(self):
        self.x = torch.zeros(())

    @functools.cached_property
    def doubled(self):
        return self.x * 2


def test_checks_compute_no_cached_property():
    held = Lazily()

    @tg.function
    def f(x):
        held.x = x
        return held.doubled

    for value, expected in ((1.0, 2.0), (2.0, 2.0), (3.0, 6.0), (4.0, 6.0)):
        if value == 3:
            held = Lazily()
        assert f(torch.tensor(value)) == held.doubled == expected
    del held.doubled
    assert f(torch.tensor(5.0)) == 10
