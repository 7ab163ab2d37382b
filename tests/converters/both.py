"""Runs small functions natively and through tg.function, on Python values and on tensors.

    cases = Cases()

    @cases((1,), (-1,))
    def sign(x): ...

    test_same = cases.test()

Each case gives the value, the printed text, the arguments as they were left and the exception of
the plain function, for every row of arguments; each row is called twice, so that the trace is used
again. A Python number and a 0-d tensor of the same value are equal; the types of the exception
and of its cause are in the mro of the converted ones.
"""

import contextlib
import copy
import dataclasses
import io
import math
import traceback

import pytest
import torch

import tograph as tg


@dataclasses.dataclass
class Outcome:
    value: object
    printed: str
    args: tuple
    error: BaseException | None

    def __str__(self):
        if self.error is None:
            return f"{self.value!r}, printed {self.printed!r}, arguments {self.args!r}"
        text = "".join(traceback.format_exception(self.error)[-6:])
        return f"printed {self.printed!r}, arguments {self.args!r}\n{text}"


def run(function, args):
    args = copy.deepcopy(args)
    value = error = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            value = function(*args)
        except Exception as raised:
            error = raised
    return Outcome(value, out.getvalue(), args, error)


def as_tensors(x):
    """The same with a tensor in place of each number."""
    if isinstance(x, bool | int | float):
        return torch.tensor(x)
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(map(as_tensors, x))
    return {k: as_tensors(v) for k, v in x.items()} if isinstance(x, dict) else x


ROUNDING = 2.0**-22  # of an f32 near one: what is left of numbers that cancel out


def same(x, y):
    """Whether two values are equal, where a number equals a 0-d tensor of the same value."""
    if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
        if not isinstance(x, torch.Tensor) and not isinstance(x, bool | int | float):
            return False
        if not isinstance(y, torch.Tensor) and not isinstance(y, bool | int | float):
            return False
        both_tensors = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        if x.shape != y.shape or (both_tensors and x.dtype != y.dtype):
            return False
        return torch.allclose(x.double(), y.double(), equal_nan=True)
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return math.isclose(x, y, rel_tol=1e-6, abs_tol=ROUNDING) or (x != x and y != y)
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[k], y[k]) for k in x)
    if hasattr(x, "__dict__") and not callable(x):
        return same(vars(x), vars(y))
    return x == y


def check(native, converted):
    """Raises AssertionError where two outcomes differ."""
    one, two = native.error, converted.error

    def holds(fact, otherwise):
        assert fact, f"{otherwise}\nnative:    {native}\nconverted: {converted}"

    if one is None:
        holds(two is None, "an error where there is none natively")
    else:
        holds(two is not None and type(one) in type(two).__mro__, "another error")
        holds(type(one.__cause__) in type(two.__cause__).__mro__, "another cause")
    holds(same(native.value, converted.value), "another value")
    holds(native.printed == converted.printed, "another output")
    holds(same(native.args, converted.args), "other changes of the arguments")


def compare(function, *rows):
    staged = tg.function(function)
    for args in rows:
        native = run(function, args)
        for _ in range(2):
            check(native, run(staged, args))


class Cases:
    """The decorator that collects the cases of a file."""

    def __init__(self):
        self.found = []

    def __call__(self, *rows, kinds=("python", "tensor")):
        def add(function):
            name = function.__name__
            for kind in kinds:
                made = tuple(map(as_tensors, rows)) if kind == "tensor" else rows
                self.found.append(pytest.param(function, made, id=f"{name}-{kind}"))
            return function

        return add

    def tensors(self, *rows):
        """Cases whose arguments are given as tensors."""
        return self(*rows, kinds=("tensor",))

    def test(self):
        @pytest.mark.parametrize(("function", "rows"), self.found)
        def test_same(function, rows):
            compare(function, *rows)

        return test_same
