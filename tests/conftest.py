"""What every test begins with."""

import gc
import os
import signal
from pathlib import Path

import pytest

# Before torch is imported: threads of OpenMP that wait do so asleep. Else they take milliseconds from another worker's test at each op of theirs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from tograph.runtime.kernels import jit  # noqa: E402
from tograph.runtime.native import compiling, plans  # noqa: E402

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
    """But for tests of ``OPTIMISED`` LLVM does not optimise, what it makes has names of its own on disk, and nothing is kept of lowering.

    Nor does it for parts of these tests that are marked, such as every second part of the random programs.
    """
    place = str(request.path.relative_to(Path(__file__).parent))
    marked = request.node.get_closest_marker("unoptimised") is not None
    if (place.startswith(OPTIMISED) and not marked) or jit.host() is None or jit._llvm() is None:
        return
    monkeypatch.setattr(plans, "name_of", lambda graph, visible: None)
    cpu, library = jit.host(), jit._llvm()
    monkeypatch.setattr(jit, "GENERATOR", f"{jit.GENERATOR} unoptimised")
    monkeypatch.setattr(
        jit,
        "_compile",
        lambda text, *levels: library.compile(text, 0, cpu.name, cpu.features, selection=0),
    )


def pytest_collection_finish(session):
    """What importing all tests has made stays: a full collection, which many tests ask for, need not look at its two million objects each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
