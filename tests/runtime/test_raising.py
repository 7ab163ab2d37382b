"""Exceptions that are no ``Exception``, and those that Python itself raises too, where a staged condition decides."""

import sys

import pytest
import torch

import tograph as tg

X = torch.tensor([1.0, 2.0])


class Stop(BaseException):
    pass


def exits(x):
    if x.sum() > 0:
        sys.exit("bad")
    return x


def raises_exit(x):
    if x.sum() > 0:
        raise SystemExit(3)
    return x


def raises_interrupt(x):
    if x.sum() > 0:
        raise KeyboardInterrupt
    return x


def raises_own(x):
    if x.sum() > 0:
        raise Stop(x)
    return x


def raises_recursion(x):
    if x.sum() > 0:
        raise RecursionError("deep")
    return x


def raises_memory(x):
    if x.sum() > 0:
        raise MemoryError(f"{x.sum()}")
    return x


def in_a_loop(x):
    n = torch.tensor(0)
    while n < 4:
        n = n + 1
        print(n)
        if n == 2 and x.sum() > 0:
            sys.exit(int(n))
    return n


def passes_handlers(x):
    try:
        if x.sum() > 0:
            sys.exit(4)
    except Exception:
        return x * 2
    finally:
        print("left")
    return x


def caught(x):
    try:
        if x.sum() > 0:
            sys.exit(4)
        x = x + 1
    except SystemExit:
        return x * 2
    return x


def after_a_print(x):
    print(x.sum())
    sys.exit(2)


FUNCTIONS = [exits, raises_exit, raises_interrupt, raises_own, raises_recursion, raises_memory, in_a_loop, passes_handlers,
             caught, after_a_print]  # fmt: skip


def outcome(f, x, capsys):
    try:
        value = f(x).tolist()
    except BaseException as e:  # what is tested here are exceptions of any class
        value = type(e), str(e)
    return value, capsys.readouterr().out


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_same(f, capsys):
    staged = tg.function(f)
    for x in (-X, X, -X, X):
        assert outcome(f, x, capsys) == outcome(staged, x, capsys)
