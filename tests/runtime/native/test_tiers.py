"""Code of the call path is made twice: fast at first, well once it has run often. Calls do not notice."""

import ctypes
import threading

import pytest
import torch

import tograph as tg
from tograph import settings
from tograph.runtime.native import entry, layout, tiers

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)
made = entry._method.__wrapped__  # definitions of their own


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """The definition of entries that are compiled anew, whose code is made better at the third call."""
    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiers, "_left", ctypes.c_int64(3))
    monkeypatch.setattr(tiers, "_waiting", [])
    found = made()
    monkeypatch.setattr(entry, "_method", lambda: found)
    return found[0]


def settle():
    for thread in threading.enumerate():
        if thread.name == tiers.THREAD:
            thread.join()


def test_calls_that_are_many_get_better_code_and_the_same_results(counted):
    f = tg.function(lambda x, y: (x * y + 1, x - y))
    x, y = torch.arange(4.0), torch.ones(4)
    first, seen = counted.function, []
    for _ in range(12):
        seen.append(f(x, y))
        settle()
    assert counted.function != first
    assert tiers._left.value == 0  # the better code does not count
    for pair in seen:
        assert list(map(torch.Tensor.tolist, pair)) == [[1, 2, 3, 4], [-1, 0, 1, 2]]


def test_better_code_on_the_disk_is_taken_at_once(counted):
    tiers._improve()
    assert made()[0].function is not None
    assert tiers._waiting == []


def test_an_exception_as_better_code_begins_is_one_of_the_call(counted, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(tiers, "_begin", interrupted)
    found = made()
    monkeypatch.setattr(entry, "_method", lambda: found)
    f, x, raised = tg.function(lambda x: x + 1), torch.ones(4), 0
    for _ in range(12):
        try:
            assert f(x).tolist() == [2.0] * 4
        except KeyboardInterrupt:
            raised += 1
    assert raised == 1
