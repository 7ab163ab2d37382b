"""Texts in native code: what Python writes, measures, compares and cuts, also in loops, branches and lists, and in bounded memory."""

import math
import resource
import signal

import pytest
import torch

import tograph as tg
from tests.converters.both import run
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
WORDS = ["the", " cat", "##s", "##ing", " é", "", "🙂x", " on", ".", " mat", "##ly"]


def native(f, *args):
    """What ``f`` gives as native code, that never declines; the same as Python's."""
    g = tg.function(f)
    for _ in range(4):
        found = g(*args)
    assert found == f(*args)
    program = g.concrete_functions[-1].scheduled
    assert (program.level, program.reason, program.declined) == ("native", "", 0)
    return g


def letters(x):
    out = ""
    for i in range(len(x)):
        out += "abcdefghijk"[x[i]]
    return out


def runs(x):
    out, count = "", 1
    for i in range(1, len(x)):
        if x[i] == x[i - 1]:
            count += 1
        else:
            out += f"{count}x{int(x[i - 1])} "
            count = 1
    return out + f"{count}x{int(x[-1])}"


def pieces(x):
    out = ""
    for t in x:
        w = WORDS[int(t)]
        if w.startswith("##"):
            out += w[2:]
        elif w and w != ".":
            out += w.upper()
        else:
            out = out[1:-1] + "|" + w
    return out


def listed(x):
    parts, other = [], []
    for t in x:
        parts.append(WORDS[int(t)] + str(int(t)))
        if t > 5:
            other.append(parts[-1])
    return parts, "-".join(parts), other, parts[0] == other[0] if other else False


def measured(x):
    """A text that a loop measures, cuts, and looks into."""
    s, n = "", 0
    for t in x:
        s = WORDS[int(t)] + s
        if len(s) > 12:
            s = s[::-1][:5]
            n += 1
        if "a" in s and not s.endswith("t"):
            n += s.count("a") + s.find("a")
        if s > "m":
            n += 100
        n += ord((s + "z")[-1]) + ord((s + "y")[0])
    return s, n


def split(x):
    s = ""
    for t in x:
        s += f"{int(t)},"
    total, names = 0, []
    for part in s.rstrip(",").split(","):
        total += int(part)
        names.append(part * 2)
    return total, names, s


def steps(x):
    mode, seen = "idle", ""
    for t in x:
        if mode == "idle":
            mode = "run" if t > 5 else "idle"
        elif mode == "run":
            mode = f"wait{int(t)}" if t < 3 else mode
        else:
            mode = "idle"
        seen += mode[0]
    return mode, seen


def nested(x):
    out = ""
    for t in x:
        row = ""
        for j in range(int(t)):
            row += str(j)
        out = row + ";" + out
    return out


@pytest.mark.parametrize("f", [letters, runs, pieces, listed, measured, split, steps, nested])
def test_programs_of_texts_are_native(f):
    for n in (1, 2, 17):
        native(f, torch.randint(0, 11, (n,), generator=torch.Generator().manual_seed(n)))


VALUES = [0.0, -0.0, 1.0, -2.5, 1e-7, 1e22, 123456789.125, math.inf, -math.inf, math.nan, 0.1, 3.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])  # fmt: skip
def test_numbers_are_written_as_python_writes_them(dtype):
    def shown(x):
        out = []
        for v in x:
            out.append(
                f"{v}|{v.item()}|{v.item()!r}|{str(v.item())}|{v.item()!s:>12}|{v:>9}|{v:<8}|"
            )
        return out

    def floats(x):
        out = ""
        for v in x:
            out += f"{v:.3f} {v:8.2e} {v.item():+.1%} {v:g} {float(v):010.4f}\n"
        return out

    def ints(x):
        out = ""
        for v in x:
            out += f"{v:d} {v.item():x} {int(v):+05d} {v:,} {int(v):b}\n"
        return out

    numbers = torch.tensor(VALUES, dtype=torch.float64)
    x = numbers.to(dtype) if dtype.is_floating_point else torch.tensor([0, 1, 17, 100]).to(dtype)
    x = x if dtype.is_floating_point or dtype in (torch.bool, torch.uint8) else -x
    native(shown, x)
    if dtype.is_floating_point:
        native(floats, x)
    elif dtype is not torch.bool:
        native(ints, x)


def test_what_else_is_said_is_asked_of_python():
    def said(x):
        out = ""
        for i in range(3):
            x = x * 2
            out += f"{x} {x.shape[0]} " + "%d%%" % i + "{:>5}/{n}".format(i, n=x[0].item())  # noqa: UP031, UP032
            out += f"{out:>4}"[:2] + str(x > 0)
        return out

    native(said, torch.tensor([1.5, -2.0]))


def test_slices_and_items_are_those_of_python():
    text = "aé🙂d"

    def cut(a, b):
        s = text + str(int(a))
        return (
            s[int(a) :],
            s[: int(b)],
            s[int(a) : int(b)],
            s[1 : int(b)],
            s[-2:],
            s[int(a) : -1],
            s[::2],
        )

    def item(a):
        s = text + "x"
        return s[int(a)] + s[-1]

    for a in (-9, -5, -1, 0, 2, 5, 7):
        for b in (-6, -2, 0, 3, 9):
            native(cut, torch.tensor(a), torch.tensor(b))
    for a in (-5, -1, 0, 4):
        native(item, torch.tensor(a))
    for a in (-6, 5):
        with pytest.raises(IndexError, match="string index out of range"):
            tg.function(item)(torch.tensor(a))


def test_a_method_that_fails_raises_what_python_raises():
    def number(x):
        s = ""
        for v in x:
            s += f"{int(v)}"
        return int(s) + int(float(s))

    g = tg.function(number)
    assert [g(torch.tensor([1, 2, 3])) for _ in range(3)] == [246] * 3
    with pytest.raises(ValueError, match="invalid literal"):
        g(torch.tensor([1, -2, 3]))
    assert g(torch.tensor([1, 2, 4])) == 248


def test_texts_are_printed_and_said_by_errors():
    def says(x):
        s = ""
        for v in x:
            s += f"<{v:.1f}>"
            print(s, len(s), s + "!")
            if v > 3:
                raise ValueError(f"too large: {v.item()} after {s}")
        return s

    g = tg.function(says)
    for values in ([1.0, 2.0, -3.0], [1.0, 4.0, -3.0]):
        for _ in range(3):
            expected, found = (run(f, (torch.tensor(values),)) for f in (says, g))
            assert (found.value, found.printed) == (expected.value, expected.printed)
            assert repr(found.error) == repr(expected.error)
    assert g.concrete_functions[-1].scheduled.level == "native"


def test_texts_beside_an_object_of_another_kind_are_left_to_the_host():
    def says(x):
        for v in x:
            x = x + v
        words = ",".join(format(v, ".2f") for v in x.tolist())
        print(words, f"{x.tolist()}")

    g = tg.function(says)
    for _ in range(3):
        expected, found = (run(f, (torch.tensor([1.0, -2.0]),)) for f in (says, g))
        assert (found.error, found.printed) == (None, expected.printed)


def test_many_words_are_one_table():
    words = [f"w{i}" if i % 3 else f"##{i}" for i in range(500)]

    def asks(x, y):
        a, b = words[int(x)], words[int(y)]
        return a == b, a < b, a == "w80", a in ("w80", "##81"), len(a), a.upper(), a[1:], f"{a}{b}", a.startswith("##"), "8" in a  # fmt: skip

    g = tg.function(asks)
    for x, y in [(80, 80), (81, 499), (-1, 0), (3, 250)]:
        assert g(torch.tensor(x), torch.tensor(y)) == asks(torch.tensor(x), torch.tensor(y))
    assert len(str(g.concrete_functions[-1].graph).splitlines()) < 120


def test_memory_is_bounded():
    def replaces(n):
        s = ""
        for i in range(n):
            s = (s + f"{i}")[-30000:].replace("1", "2")
        return s

    def grows(n):
        s = ""
        for _ in range(n):
            s += "ab"
        return s

    g = native(grows, torch.tensor(1000))
    assert len(g(torch.tensor(1_000_000))) == 2_000_000
    g = native(replaces, torch.tensor(1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(g(torch.tensor(40_000))) == 30_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # 1.2 GB of texts


def test_a_text_that_doubles_fails_as_it_does_in_python():
    def doubles(x):
        s = "a"
        for v in x:
            s = s + s
        return len(s)

    native(doubles, torch.zeros(20))


def told(n):
    out, i = "", 0
    while n > i:
        out = f"{i}" * 20 + out[:10]
        i += 1
    return out


def test_a_handler_of_a_signal_raises_out_of_the_writing_of_numbers():
    f = native(told, torch.tensor(10))

    def stop(*_):
        raise TimeoutError("enough")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError, match="enough"):
            f(torch.tensor(2_000_000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert f(torch.tensor(30)) == told(30)
