"""What every test begins with."""

import gc
import signal
from pathlib import Path

import pytest

from tograph.runtime.kernels import jit
from tograph.runtime.native import compiling, plans

# Tests of what is compiled: with all optimisations, as for users. In others a third of the time of a first run would be LLVM's.
OPTIMISED = ("runtime/native/", "runtime/kernels/", "test_differential.py", "test_state_differential.py",
             "test_gradient_programs.py", "test_programs.py", "test_class_programs.py", "test_samples.py",
             "test_bench.py", "test_docs.py", "test_readme.py")  # fmt: skip

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets jobs in the background ignore Ctrl-C: a loop that a test means to interrupt would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_lowered(monkeypatch):
    """Tests change what lowering does: each lowers its own graphs."""
    compiling._lowered.clear()
    monkeypatch.setattr(plans, "load", lambda name: None)


@pytest.fixture(autouse=True)
def quickly_compiled(request, monkeypatch):
    """But for tests of ``OPTIMISED`` LLVM does not optimise, and what it makes has names of its own on disk."""
    place = str(request.path.relative_to(Path(__file__).parent))
    if place.startswith(OPTIMISED) or jit.host() is None or jit._llvm() is None:
        return
    cpu, library = jit.host(), jit._llvm()
    monkeypatch.setattr(jit, "GENERATOR", f"{jit.GENERATOR} unoptimised")
    monkeypatch.setattr(
        jit,
        "_compile",
        lambda text, level: library.compile(text, 0, cpu.name, cpu.features, selection=0),
    )


def pytest_collection_finish(session):
    """What importing all tests has made stays: a full collection, which many tests ask for, need not look at its two million objects each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
