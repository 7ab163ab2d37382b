"""Functions of text that was given to ``exec`` or to the command line."""

import subprocess
import sys

import pytest
import torch

import tograph as tg

POSITIVE, NEGATIVE = torch.tensor(3), torch.tensor(-3)


def test_text_in_a_variable():
    text = "def f(x):\n    if x > 0:\n        return x\n    return g(x)\ndef g(x):\n    return x * (2 if x < -5 else 4)\n"
    names = {}
    exec(text, names)
    f = tg.function(names["f"])
    assert f(POSITIVE) == 3 and f(NEGATIVE) == -12


def decorated():
    names = {}
    exec("double = lambda x: x * 2 if x > 0 else x", names)
    return tg.function(names["double"])


def test_text_that_is_gone_when_the_function_is_called():
    f = decorated()
    assert f(POSITIVE) == 6 and f(NEGATIVE) == -3


def test_text_that_is_nowhere():
    names = {}
    exec("def f(x):\n    return x + {}\n".format(2), names)  # noqa: UP032
    with pytest.raises(tg.errors.SourceError, match=r"'f' was not found \(it says '<string>', line 1\)"):  # fmt: skip
        tg.function(names["f"])(POSITIVE)


def test_text_of_another_function_of_that_name():
    names = {}
    exec("def f(x):\n    return x + {}\n".format(2), names)  # noqa: UP032
    other = "def f(x):\n    return x + 3\n"
    with pytest.raises(tg.errors.SourceError):
        tg.function(names["f"])(POSITIVE)
    assert other


PROGRAM = """
import torch, tograph as tg
@tg.function
def f(x):
    while x < 10:
        x = x * 2
    return x
print(f(torch.tensor(3)))
"""


def test_command_line_and_standard_input(tmp_path):
    given = [sys.executable, "-c", PROGRAM]
    assert subprocess.run(given, capture_output=True, text=True).stdout == "tensor(12)\n"
    (tmp_path / "program.py").write_text(PROGRAM)
    with open(tmp_path / "program.py") as file:
        ran = subprocess.run([sys.executable], stdin=file, capture_output=True, text=True)
    assert ran.stdout == "tensor(12)\n"
