"""Stacks of threads: a function that calls itself has as many calls as the thread that runs it has room for, whatever the size of others."""

import os
import runpy
import subprocess
import sys
import threading

import pytest
import torch

import tograph as tg
from tograph import stacks

pytestmark = pytest.mark.skipif(not stacks.tells(), reason="the system does not tell")

PROGRAM = """
import sys, threading, torch
import tograph as tg

def depth(n):
    return 0 if n <= 0 else 1 + depth(n - 1)

f = tg.function(depth)
for n in (3, 4, 5):
    assert f(torch.tensor(n)) == n

def run():
    for n in (20, 900, 4000, 20):
        try:
            said.append(int(f(torch.tensor(n))))
        except RecursionError as error:
            said.append(str(error)[:31])

sys.setrecursionlimit(5000)
for kilobytes in KILOBYTES:
    said = []
    threading.stack_size(kilobytes << 10)
    thread = threading.Thread(target=run)
    thread.start()
    threading.stack_size(0)  # that of others, from now on
    thread.join()
    print(said)
"""
TOO_DEEP = "maximum recursion depth exceede"


def in_threads(folder, *kilobytes, **env):
    """What threads with stacks of these sizes said, one after the other."""
    code = folder / "program.py"
    code.write_text(PROGRAM.replace("KILOBYTES", str(kilobytes)))
    run = subprocess.run(
        [sys.executable, code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_size_of_this_thread():
    found = []
    before = threading.stack_size(512 << 10)
    thread = threading.Thread(target=lambda: found.append(stacks.room()))
    thread.start()
    assert threading.stack_size(before) == 512 << 10  # it was not reset
    thread.join()
    assert found == [(512 << 10) - stacks.RESERVE]


def test_small_stacks_and_large_ones(tmp_path):
    """In native code and on the host: what fits is computed, what does not is Python's error."""
    least = str([20, TOO_DEEP, TOO_DEEP, 20])
    *small, large = in_threads(tmp_path, 64, 256, 64 << 10)
    assert set(small) <= {least, str([20, 900, TOO_DEEP, 20])} and len(small) == 2
    assert large == str([20, 900, 4000, 20])
    assert in_threads(tmp_path, 64, 256, TOGRAPH_NOOPT="1") == [least] * 2


def test_limits_that_nest():
    plain, limit = sys.getrecursionlimit(), stacks.Limit()
    with limit.raised(2):
        with limit.raised(frames=plain * 3), limit.growing():
            assert sys.getrecursionlimit() == plain * 3 and limit.now() == plain
            limit.need(10)  # what the user's limit has room for
            assert sys.getrecursionlimit() == plain * 3
        assert sys.getrecursionlimit() == plain * 2
        with limit.growing():
            limit.need(10_000)
            assert sys.getrecursionlimit() > plain * 3
    assert sys.getrecursionlimit() == plain == limit.now()


def test_branches_deep_in_each_other(tmp_path):
    """Each ``return`` of a chain puts what follows in a branch."""
    tests = "".join(f"    if x > {70 - i}:\n        return {i}\n" for i in range(70))
    code = tmp_path / "chain.py"
    code.write_text(f"def chain(x):\n{tests}    return -1\n")
    f = tg.function(runpy.run_path(str(code))["chain"])
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(500)  # not enough for 70 branches and what they are in
    try:
        assert [int(f(torch.tensor(x))) for x in (71, 50, 0)] == [0, 21, -1]
        assert sys.getrecursionlimit() == 500
    finally:
        sys.setrecursionlimit(before)
