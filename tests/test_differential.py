"""Random programs: converted, each returns, prints, raises and mutates as natively.

`TOGRAPH_TEST_PROGRAMS=1200` in the environment runs that many instead of the 600 of every run.
"""

import os

import pytest
import torch

from tests.program_generator import Program, generate
from tests.program_runner import Outcome, compare, mismatch, run_native, shrink_program

CHUNK = 50  # a few seconds: what runs last on one of several workers is short
COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "600"))
SHOWN = 3


# Every second part is of optimised code.
PARTS = [pytest.param(k, marks=[pytest.mark.unoptimised] * (k // CHUNK % 2)) for k in range(0, COUNT, CHUNK)]  # fmt: skip


@pytest.mark.parametrize("first", PARTS)
def test_native_against_converted(first):
    found = []
    for seed in range(first, first + CHUNK):
        program = generate(seed)
        if difference := mismatch(program):
            found.append(f"seed {seed}, {difference}\nargs {program.args}\n{program.source}")
    report = "\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {CHUNK} programs differ\n{report}"


def test_generator_is_deterministic():
    for seed in range(50):
        one, two = generate(seed), generate(seed)
        assert one.source == two.source
        assert repr(one.args) == repr(two.args)


def test_native_runs_agree_with_themselves():
    outcomes = []
    for seed in range(100):
        program = generate(seed)
        outcomes.append(run_native(program))
        assert compare(outcomes[-1], run_native(program)) is None
    assert sum(outcome.error is None for outcome in outcomes) >= 60


def outcome(value=None, error=None, printed="", args=()):
    return Outcome(value, error, printed, args)


@pytest.mark.parametrize(
    ("native", "converted", "start"),
    [
        (outcome(3), outcome(torch.tensor(3)), None),
        (outcome((1, 2.0)), outcome((1, torch.tensor(2.0))), None),
        (outcome((1, 2)), outcome([1, 2]), "structure"),
        (outcome(3), outcome(4), "value"),
        (outcome(torch.tensor(3)), outcome(torch.tensor(3.0)), "dtype"),
        (outcome(torch.ones(3)), outcome(torch.ones(1)), "shape"),
        (outcome(None), outcome(0), "value"),
        (outcome(printed="tensor(1.5000) x\n"), outcome(printed="1.5 x\n"), None),
        (outcome(printed="tensor(3)\n"), outcome(printed="tensor(4)\n"), "print"),
        (outcome(printed="1\n2\n"), outcome(printed="1 2\n"), "print"),
        (outcome(error=KeyError("k")), outcome(error=KeyError("k")), None),
        (outcome(error=KeyError("k")), outcome(error=LookupError("k")), None),
        (outcome(error=KeyError("k")), outcome(error=ValueError("k")), "error"),
        (outcome(error=KeyError("k")), outcome(1), "error"),
        (outcome(1, args=(torch.ones(2),)), outcome(1, args=(torch.zeros(2),)), "argument"),
    ],
)
def test_compare(native, converted, start):
    difference = compare(native, converted)
    assert difference is None if start is None else difference.startswith(start)


def test_shrinking_keeps_the_difference_only():
    body = ["i1 = 1", "if n > 0:", "    i2 = 2", "    print(n)", "return i1"]
    source = "def f(a, b, n):\n" + "".join(f"    {line}\n" for line in body)

    def prints(program):
        return "print: " if run_native(program).printed else None

    small = shrink_program(Program(source, (0, 0, 3), "f"), prints)
    assert small.source == "def f(a, b, n):\n    print(n)\n"
