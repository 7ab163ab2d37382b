"""Reads, updates and assigns of one resource become updates of it."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.write_through import write_through


def body(*lines, result="%x"):
    text = "\n  ".join(lines)
    return (
        f"main(%x: f32[2], %r: f32[2,2], %s: f32[2,2], %i: int) {{\n  {text}\n  return {result}\n}}"
    )


READ = "%0: f32[2,2] = tg.read(%r)"
WRITE = "%1: f32[2,2] = aten.select_scatter.default(%0, %x, 0, %i)"
ASSIGN = "!2 = tg.assign(%r, %1)"
UPDATE = "!1 = update.aten.select_scatter.default(%r, %x, 0, %i)"


def test_a_row():
    same(write_through, body(READ, WRITE, ASSIGN), body(READ, UPDATE))


def test_later_uses_read_again():
    use = "!3 = tg.print(%1)"
    same(
        write_through,
        body(READ, WRITE, ASSIGN, use),
        body(READ, UPDATE, "%5: f32[2,2] = tg.read(%r)", "!3 = tg.print(%5)"),
    )


def test_a_chain():
    same(
        write_through,
        body(
            READ,
            "%1: f32[2,2] = aten.mul.Tensor(%0, 2)",
            "%3: f32[2,2] = aten.add.Tensor(%1, %x, alpha=3)",
            "!2 = tg.assign(%r, %3)",
        ),
        body(
            READ,
            "!1 = update.aten.mul.Tensor(%r, 2)",
            "!3 = update.aten.add.Tensor(%r, %x, alpha=3)",
        ),
    )


@pytest.mark.parametrize(
    "lines",
    [
        [READ, WRITE, "!3 = tg.print(%x)", ASSIGN],  # the index would be checked too late
        [READ, WRITE, "%3: int = py.floordiv(%i, %i)", ASSIGN],
        [READ, WRITE, "!3 = tg.assign(%r, %s)", ASSIGN],
        [READ, "!3 = tg.assign(%r, %s)", WRITE, ASSIGN],
        [READ, "%3: object = tg.py_call(<py f>, [], 0)", WRITE, ASSIGN],
        [READ, WRITE, "%3: f32[2,2] = aten.neg.default(%1)", ASSIGN],
        [READ, WRITE, "!2 = tg.assign(%s, %1)"],
        [READ, "%1: f32[2,2] = aten.exp.default(%0)", ASSIGN],
        [READ, "%1: f32[2,2] = aten.mul.Tensor(2, %0)", ASSIGN],
        [
            READ,
            WRITE,
            "%4: f32[2,2] = aten.select_scatter.default(%1, %x, 0, %i)",
            "!2 = tg.assign(%r, %4)",
        ],
    ],
)
def test_stays(lines):
    same(write_through, body(*lines))
