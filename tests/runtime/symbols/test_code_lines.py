"""Lines of frames, and answers and sets by the identity of code objects."""

import gc
import sys

import pytest

from tograph.runtime.symbols import code_lines
from tograph.runtime.symbols.code_lines import CodeSet, line_of, per_code


def places(text):
    """(line by the table, line by Python) of each call of ``note``."""
    found = []
    space = {"note": lambda: found.append((line_of(f := sys._getframe(1)), f.f_lineno))}
    exec(compile(text, "<places>", "exec"), space)
    space["f"]()
    return found


@pytest.mark.parametrize("long", [0, code_lines.LONG])
def test_lines_are_those_of_python(monkeypatch, long):
    monkeypatch.setattr(code_lines, "LONG", long)
    calls = "    for i in range(2):\n        (note(),\n         note())\n\n    if note() or note(): pass\n"
    found = places("def f():\n" + calls * 500)
    assert len(found) == 3000
    assert all(ours == theirs for ours, theirs in found)


def test_equal_code_of_two_functions_is_two():
    one, other = (eval("lambda: 1").__code__ for _ in range(2))
    codes, asked = CodeSet(), []
    codes.update([one])
    assert one == other
    assert one in codes
    assert other not in codes
    answer = per_code(lambda code: asked.append(code.co_name) or len(asked))
    assert [answer(one), answer(other), answer(one)] == [1, 2, 1]
    del one, other, codes
    gc.collect()
    assert answer(eval("lambda: 1").__code__) == 3
