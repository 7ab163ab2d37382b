"""Stacks of threads: a function that calls itself has as many calls as the thread that runs it has room for, whatever the size of others."""

import os
import subprocess
import sys
import threading

import pytest

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
