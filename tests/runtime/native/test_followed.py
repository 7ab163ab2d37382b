"""A loop nest and the scans of the rows that it makes are one task of the threads, where that is right."""

import re
from types import SimpleNamespace

import pytest
import torch

from tests.runtime.native import checks
from tests.runtime.native.checks import r
from tests.runtime.native.test_joined import many_threads
from tograph.runtime.kernels import jit
from tograph.runtime.native import followed, joined, threading
from tograph.runtime.native.code import Code
from tograph.runtime.native.followed import Rows, Started

pytestmark = [
    pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite"),
    pytest.mark.skipif(not threading.available(), reason="needs threads that code can use"),
]
ROWS = 48


@pytest.fixture(autouse=True)
def small_products_are_joined(monkeypatch):
    monkeypatch.setattr(joined, "LEAST", 1 << 10)
    monkeypatch.setattr(threading, "PRODUCT", 1 << 10)


def gradients(g, x, w, alive):
    """What the gates of a recurrent cell give: parts of one matrix, rows of zeros where a sequence has ended."""
    g = torch.where(alive.unsqueeze(1), g, 0.0)
    gates = torch.cat([g * torch.tanh(x).exp(), g * torch.sigmoid(x).exp()], 1)
    return gates @ w, x.t() @ gates


def alive(*ended):
    out = torch.ones(ROWS, dtype=torch.bool)
    out[list(ended)] = False
    return out


def tasks(cf):
    """What threads run as one, by place of the code: nests, scans and products."""
    found = []
    for text in cf.scheduled.llvm.split("define "):
        if text.startswith("internal void @joint"):
            names = (line.partition("@")[2].partition("(")[0] for line in text.splitlines() if "call void @" in line)  # fmt: skip
            found.append([re.match("[a-z]+", n).group() for n in names])
    return found


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_scans_go_with_the_nest_that_makes_the_rows(threads):
    args = r(ROWS, 256), r(ROWS, 256, seed=1), r(512, 64)
    with many_threads(threads):
        cf = checks.compiled(gradients, *args, alive(3, 4, 47), calls=8, atol=1e-4, rtol=1e-4)
        first = tasks(cf)[0]
        assert first == ["k", "look", "look"]
        for ended in ([], range(ROWS), range(1, ROWS), range(0, ROWS, 2)):
            given = *args, alive(*ended)
            torch.testing.assert_close(tuple(cf(*given)), gradients(*given), atol=1e-4, rtol=1e-4)


def test_many_rows_are_scanned_apart():
    """Their flags are in the arena, where a nest may still read what was freed."""
    rows = 300

    def f(g, x, w, ended):
        return gradients(g, x, w, ~ended)

    args = r(rows, 256), r(rows, 256, seed=1), r(512, 64), torch.arange(rows) > 200
    cf = checks.compiled(f, *args, calls=4, atol=1e-3, rtol=1e-3)
    assert set(tasks(cf)[0]) == {"look"}


def started(code, *results, units=8):
    return Started(code, 0, "task", "%cell", units, 1, results)


@pytest.mark.parametrize(
    "begin, stride, nbytes, fits",
    [
        (0, 64, 64, True),  # the scanned rows
        (32, 64, 32, True),  # a part of each
        (0, 32, 32, False),  # two rows in one
        (32, 64, 64, False),  # a row and the begin of the next one
        (64, 64, 64, False),  # the row behind
        (-64, 64, 64, False),  # the row before
        (512, 64, 64, True),  # other memory, behind
        (-512, 64, 64, True),  # before
    ],
)
def test_a_unit_makes_the_row_of_its_number(begin, stride, nbytes, fits):
    code = Code()
    scanned = code.do("getelementptr i8, ptr %base, i64 1024")
    made = code.do(f"getelementptr inbounds float, ptr {scanned}, i64 {begin // 4}")
    low = SimpleNamespace(code=code, base="%base")
    nest = started(code, Rows(made, stride, nbytes))
    assert followed._fits(low, nest, Rows(scanned, 64, 64)) is fits


def test_results_elsewhere():
    """What begins in memory of a loop or of the caller may be anywhere."""
    code = Code()
    low = SimpleNamespace(code=code, base="%base")
    inside = code.do("getelementptr i8, ptr %base, i64 64")
    assert not followed._fits(low, started(code, Rows("%carry", 64, 64)), Rows(inside, 64, 64))
    assert followed._fits(low, started(code, Rows(inside, 64, 64)), Rows("%x", 64, 64))


@pytest.mark.parametrize(
    "line, fits",
    [
        ("store ptr %x, ptr %cell1", True),
        ("store ptr %x, ptr %x, align 8", False),
        ("call void @product()", False),
        ("br label %next", False),
    ],
)
def test_what_stands_between(line, fits):
    code = Code()
    code.line("call void @spread()")
    place = len(code.lines)
    code.do("getelementptr i8, ptr %x, i64 8")
    code.line(line)
    assert followed._only_addresses(code, place) is fits
