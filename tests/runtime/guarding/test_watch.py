"""What a trace reads of partials and of the code of functions, and sees when it changes."""

import functools

import pytest
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


def by_name(x, *, by=1):
    return x + by


def test_defaults_by_name_of_a_function_that_is_called():
    f, x = tg.function(lambda x: by_name(x)), torch.tensor(5.0)
    assert f(x) == f(x) == 6
    by_name.__kwdefaults__["by"] = 3
    assert f(x) == f(x) == 8
    by_name.__kwdefaults__ = {"by": 1}
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


class Meta(type):
    def __getattr__(cls, name):
        raise AttributeError(name)


class Fallback(metaclass=Meta):
    def __init__(self):
        self.k = 3

    def __getattr__(self, name):
        if name == "given":
            return self.k
        raise AttributeError(name)


class Slotted:
    __slots__ = ("k",)
    __getattr__ = Fallback.__getattr__


def counted(s, x):
    if not hasattr(s, "v"):
        s.v = 0
    s.v += s.k
    return x * s.v


def scaled_by_it(s, x):
    return x * getattr(s, "scale", s.given)


def caught(s, x):
    try:
        return x * s.scale
    except AttributeError:
        return x


def of_a_class(s, x):
    return x * getattr(type(s), "scale", 1)


@pytest.mark.parametrize("f", [counted, scaled_by_it, caught, of_a_class])
def test_what_comes_to_hide_a_getattr(f):
    results = []
    for run in (f, tg.function(f)):
        kind = type("Kind", (Fallback,), {})
        s, x = kind(), torch.ones(1)
        found = [run(s, x).item(), run(s, x).item()]
        kind.scale = 7
        found.append(run(s, x).item())
        s.scale = 5
        found.append(run(s, x).item())
        del s.scale, kind.scale
        results.append([*found, run(s, x).item()])
    assert results[0] == results[1]


def test_what_comes_to_hide_a_getattr_of_an_object_with_slots():
    kind, x = type("Kind", (Slotted,), {"__slots__": ()}), torch.ones(1)
    s = kind()
    s.k = 3
    f = tg.function(scaled_by_it)
    assert f(s, x) == 3
    kind.scale = 7
    assert f(s, x) == 7


class Keeping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(1))

    def forward(self, x, c):
        if c > 0:
            self.b = x * 1
        return self.b

    def unread(self, x, c):
        while c > 0:
            self.b = x * c
            c = c - 1
        return x * 2


@pytest.mark.parametrize("name", ["forward", "unread"])
def test_a_buffer_that_one_path_assigns(name):
    plain, staged = Keeping(), Keeping()
    f = tg.function(getattr(staged, name))
    for i, c in enumerate((1.0, -1.0, -1.0, 1.0, -1.0)):
        x, c = torch.full((1,), i + 1.0), torch.tensor(c)
        assert f(x, c) == getattr(plain, name)(x, c)
        assert staged.b == plain.b


def test_a_method_that_a_module_gets_itself():
    class Doubled(torch.nn.Module):
        def before(self, x):
            return 2 * x

        def forward(self, x):
            return self.before(x) + 1

    module = Doubled()
    f, x = tg.function(module), torch.ones(2)
    assert f(x).tolist() == [3, 3]
    module.before = lambda x: x
    assert f(x).tolist() == [2, 2]
    del module.before
    assert f(x).tolist() == [3, 3]
    module.forward = lambda x: -x
    assert f(x).tolist() == [-1, -1]


def test_classes_that_a_trace_makes_hold_values_of_the_run():
    def f(a):
        class Made:
            text, items = f"{a}", [i for i in range(a)]
            size = len(items)

            def total(self):
                return self.size + sum(self.items)

        return Made.text, Made.items, Made().total(), Made.size

    g = tg.function(f)
    for n in (3, 1):
        made = g(torch.tensor(n))
        assert made == f(torch.tensor(n)) and type(made[0]) is str
    assert g.trace_count == 1
