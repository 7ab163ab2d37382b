"""Whole calls on a simulated device, beside plain Python: values, prints and errors, and what is seen before an error."""

import pytest
import torch

import tograph as tg
from tests.program_generator import generate
from tests.program_runner import mismatch
from tests.runtime.gpu.fake_driver import forget
from tests.runtime.gpu.simulated import simulate
from tograph.runtime.gpu import capture

pytest.importorskip("triton")


@pytest.fixture
def simulated(monkeypatch):
    yield simulate(monkeypatch)
    monkeypatch.undo()
    forget(capture.probed)


def printed(fn, args, capsys):
    """(what a call gives, or the type of its error; what it prints)."""
    try:
        found = fn(*args)
    except Exception as error:
        found = type(error)
    return found, capsys.readouterr().out


def a_branch_then_a_print(x, n):
    if n * 3 != 2:
        print("odd", n + 1)
    print(x)
    return n + 2


def a_failure_then_a_print(x, n):
    share = 12 // n.item()
    print(x)
    return share


@pytest.mark.parametrize("fn", [a_branch_then_a_print, a_failure_then_a_print])
def test_what_is_seen_comes_in_order(fn, simulated, capsys):
    staged = tg.function(fn)
    for n in (2, 0, 4):
        given = torch.ones(2), torch.tensor(n)
        got, want = (printed(f, given, capsys) for f in (staged, fn))
        assert got == want
    assert {(level, tier) for _, level, tier, _ in simulated.levels} == {("device", 1)}


@pytest.mark.parametrize("seed", [392, 1048])
def test_a_generated_program_does_what_it_does_natively(seed, simulated):
    assert mismatch(generate(seed)) is None
    assert simulated.levels[0][1:3] == ("device", 1)
