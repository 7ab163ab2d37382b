"""Exceptions that are no ``Exception``, and those that Python itself raises too, where a staged condition decides."""

import sys

import pytest
import torch

import tograph as tg

X = torch.tensor([1.0, 2.0])


class Stop(BaseException):
    pass


class Diverged(ArithmeticError):
    def __init__(self, step, loss, **more):
        super().__init__(f"diverged at {step}: {loss:.2f}")
        self.step, self.losses, self.more = step, [loss, loss.item()], more
        if loss > 3:
            self.much = True


class Numbered(ValueError):
    def __new__(cls, x):
        made = super().__new__(cls, x)
        made.number = x.max() + 1
        return made


class Told(Exception):
    def __init__(self, x):
        self.x = x

    def __str__(self):
        return f"told {self.x.sum().item()}"


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


def raises_diverged(x):
    for i in range(3):
        x = x * 1.5
        if x.sum() > 5:
            raise Diverged(i, x.sum(), last=x)
    raise Diverged(4, x.max())


def handles_diverged(x):
    try:
        if x.sum() > 0:
            raise Diverged(1, x.sum())
    except Diverged as error:
        print(error)
        raise Numbered(x) from error
    return x


def raises_told(x):
    if x.sum() > 0:
        raise Told(x * 2) from Numbered(x)
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


class Counted(Exception):
    made = []

    def __init__(self, rows):
        self.rows, self.by = [], {}
        for i in range(rows):
            self.rows.append(i)
        self.by["all"] = rows
        self.made = Counted.made


def raises_what_holds_no_tensor(x):
    """Known while tracing: what the exception holds outlasts the trace."""
    y = x * 2
    Counted.made.append(len(y))
    try:
        raise Counted(3)
    except Counted as error:
        raise Numbered(torch.ones(1)) if len(x) > 2 else Counted(2) from error


FUNCTIONS = [exits, raises_exit, raises_interrupt, raises_own, raises_diverged, handles_diverged, raises_told, raises_recursion, raises_memory, in_a_loop, passes_handlers,
             caught, after_a_print, raises_what_holds_no_tensor]  # fmt: skip


def told(e):
    """What an exception and its cause hold; torch and the converter add notes."""
    held = {name: x for name, x in sorted(vars(e).items()) if not name.startswith("__")}
    return e and (
        type(e),
        str(e),
        str(e.args),
        str(held),
        told(e.__cause__) if e.__cause__ else None,
    )


def outcome(f, x, capsys):
    try:
        value = f(x).tolist()
    except BaseException as e:  # what is tested here are exceptions of any class
        value = told(e)
    return value, capsys.readouterr().out


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_same(f, capsys):
    staged = tg.function(f)
    rows = []
    for g in (f, staged):
        Counted.made.clear()
        rows.append([outcome(g, x, capsys) for x in (-X, X, -X, X)])
    assert rows[0] == rows[1]
