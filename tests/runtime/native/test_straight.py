"""A choice among constants is a sum, a few selections or a table: branches in branches choose among more at each level."""

import torch

import tograph as tg
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.native.compiling import compile_graph


def choice(options, kind="int"):
    """The native code of a choice, and its text."""
    native = compile_graph(
        parse_graph(f"main(%i: int) {{\n  %1: {kind} = tg.choose(%i, {options})\n  return %1\n}}")
    )
    return native.low.text


def test_constants_in_a_row_are_a_sum():
    text = choice("[3, 4, 5, 6]")
    assert "add i64" in text and "select" not in text
    assert "add i64" not in choice("[0, 1, 2]")


def test_many_constants_are_a_table():
    text = choice(str([7] * 12 + [1]))
    assert text.count("select") == 1 and "constant [13 x i64]" in text
    assert choice("[1, 1, 1, 4, 1]").count("select") == 1


def test_rows_of_views():
    def row(x, k):
        if k == 0:
            y = x[0]
        elif k == 1:
            y = x[1]
        elif k == 2:
            y = x[0]
        elif k == 3:
            y = x[3]
        else:
            y = x[2]
        return y

    x, f = torch.randn(4, 3), tg.function(row)
    for k in (0, 1, 2, 3, 4, 0, 3):
        found = f(x, torch.tensor(k))
        assert found.equal(row(x, torch.tensor(k)))
        assert found.data_ptr() == row(x, torch.tensor(k)).data_ptr()
