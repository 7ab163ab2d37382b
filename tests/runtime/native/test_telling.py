"""Prints in native code: the same text, once, also where the code declines behind a print."""

import contextlib
import io
import threading

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, run
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
N = torch.tensor(4)
PLACES = "%d %d"


def reports(x, n):
    total = torch.zeros(())
    for i in range(n):
        x = torch.tanh(x) * 1.1 + 0.25
        total = total + x.sum() * 2
        if i % 2 == 0:
            print("step", i, f"{total:.2f}", total > 0, sep=" | ")
    print(f"done after {n}: {x}", end="!\n")
    return x


def texts(x, n):
    name = f"x of {x.shape[0]}, first {x[0]:.1f}"
    i = 0
    while i < n:
        x = x * 2 - x.mean() + i
        text = "%d of %d" % (i, n)
        x = x - 1
        print(name, text, "{:.1f}/{a}".format(x[0], a=i))
        i += 1
    return x


def old_values(x, n):
    """What a text says is what was there when it was made, although the loop writes over it."""
    i = 0
    while i < n:
        text = f"before {x}"
        x = x * 3 + 1
        x[0] = i
        print(text, x)
        i += 1
    return x


def fails(x, n):
    i = 0
    while i < n + 3:
        print("at", i)
        x = torch.tanh(x) * 2 + x[i]
        i += 1
    return x


def divides(x, n):
    i = 2
    s = torch.zeros((), dtype=torch.int64)
    while i > -2:
        s = s + n // (n * 0 + i)
        print(i, "->", s)
        i -= 1
    return s


def bad_text(x, n):
    i = 0
    while i < n:
        x = x * 2 + x.sum() - 1
        print("now", i)
        text = PLACES % (i,)
        if x.sum() > 1e30:
            print(text)
        i += 1
    return x


def nested(x, n):
    for i in range(n):
        for j in range(i):
            x = x * 0.5 + j
            print(i, j, x.sum())
        print("row", i)
    return x


@pytest.mark.parametrize("f", [reports, texts, old_values, fails, divides, bad_text, nested])
def test_as_plain_python_prints(f):
    converted = tg.function(f)
    args = (torch.tensor([0.5, 1.0, -1.0, 2.0]), N)
    expected = run(f, args)
    for _ in range(3):
        found = run(converted, args)
        assert found.printed == expected.printed
        assert type(found.error) is type(expected.error)
        if expected.error is None:
            torch.testing.assert_close(found.value, expected.value)
    (cf,) = converted.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")


def test_a_file_and_one_that_fails():
    class Closing(io.StringIO):
        def write(self, text):
            if "2" in text:
                raise OSError("full")
            return super().write(text)

    for call in (nested_to, tg.function(nested_to)):
        file = Closing()
        for _ in range(2):
            with pytest.raises(OSError, match="full"):
                call(torch.ones(3), N, file)
        assert file.getvalue() == "0\n1\n0\n1\n"


def nested_to(x, n, file):
    for i in range(n):
        x = x * 0.5 + i + x.sum()
        print(i, file=file)
    return x


def test_prints_while_the_loop_runs():
    f, seen = tg.function(reports), []

    class Watching(io.StringIO):
        def write(self, text):
            seen.append(threading.get_ident())
            return super().write(text)

    with contextlib.redirect_stdout(Watching()):
        f(torch.ones(3), N)
        first = len(seen)
        f(torch.ones(3), N)
    assert len(seen) == 2 * first and set(seen) == {threading.get_ident()}


cases = Cases()


@cases((3,), (0,), (-2,))
def counted(x):
    y = x
    while y < 10:
        y = y + 3
        print(f"{y=}")
        if y == 4:
            print("four")
    return y


test_same = cases.test()


def sometimes_fails(x, n):
    i = 0
    while i < n:
        print("step", i)
        i += 1
    if n > 2:
        x = x + torch.tanh(x)
    try:
        if n * n > 30:
            raise ValueError("far")
        x = x * 2
    except ValueError:
        x = x - 1
    print("after", x)
    return x


def test_prints_of_calls_that_went_well_do_not_count():
    """A call that declines passes over its own prints, not over those of the calls before it."""
    staged = tg.function(sometimes_fails)
    for k in (1, 2, 0, 7, 3, 9, 8, 1):
        args = (torch.ones(4), torch.tensor(k))
        native, converted = run(sometimes_fails, args), run(staged, args)
        assert native.printed == converted.printed, k
        assert torch.equal(native.value, converted.value)
    assert staged.concrete_functions[0].scheduled.level == "native"


class _Asking(io.StringIO):
    """A stream that calls the function which prints to it, once for each call of that."""

    def __init__(self, call):
        super().__init__()
        self.call, self.inside, self.found = call, False, []

    def write(self, text):
        count = super().write(text)
        if not self.inside:
            self.inside = True
            self.found.append(self.call())
            self.inside = False
        return count


def test_prints_behind_an_entry():
    """Later calls are taken by the entry of the code, also where they print and then decline, or where a print calls the function."""
    staged = tg.function(sometimes_fails)
    for _ in range(4):
        run(staged, (torch.ones(4), torch.tensor(1)))
    native = staged.concrete_functions[0].scheduled.native
    assert native._whole is not None
    for k in (7, 2):
        streams = []
        for f in (sometimes_fails, staged):
            stream = _Asking(lambda f=f: f(torch.zeros(4), torch.tensor(1)))
            with contextlib.redirect_stdout(stream):
                value = f(torch.ones(4), torch.tensor(k))
            streams.append((stream.getvalue(), stream.found[0].tolist(), value.tolist()))
        assert streams[0] == streams[1], k


class Full:
    """A file of the program's own that takes so many texts."""

    def __init__(self):
        self.texts, self.room = [], 99

    def write(self, text):
        self.texts.append(text)
        self.room -= 1
        if self.room < 0:
            raise ValueError("full")


def told(x, file):
    x = x * 2
    print("sum", x.sum().item(), file=file)
    return x


def told_in_a_try(x, file):
    try:
        print("sum", x.sum().item(), file=file)
        x = x * 2
    except ValueError:
        x = x + 1
    return x


def told_in_a_loop(x, file):
    while x.sum() < 100:
        print(x.sum().item(), file=file)
        x = x * 2
    return x


@pytest.mark.parametrize("f", [told, told_in_a_try, told_in_a_loop])
def test_a_file_of_the_programs_that_raises(f):
    given, expected = Full(), Full()
    found = tg.function(lambda x: f(x, given))

    def outcome(run, x):
        try:
            return run(x)
        except ValueError as error:
            return str(error)

    for room in (99, 99, 99, 0, 99, 1, 5):
        given.texts, expected.texts = [], []
        given.room = expected.room = room
        assert str(outcome(found, torch.ones(2))) == str(
            outcome(lambda x: f(x, expected), torch.ones(2))
        )
        assert given.texts == expected.texts
