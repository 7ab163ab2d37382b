"""What every test begins with."""

import gc
import signal

import pytest

from tograph.runtime.native import compiling, plans

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets jobs in the background ignore Ctrl-C: a loop that a test means to interrupt would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_lowered(monkeypatch):
    """Tests change what lowering does: each lowers its own graphs."""
    compiling._lowered.clear()
    monkeypatch.setattr(plans, "load", lambda name: None)


def pytest_collection_finish(session):
    """What importing all tests has made stays: a full collection, which many tests ask for, need not look at its two million objects each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
