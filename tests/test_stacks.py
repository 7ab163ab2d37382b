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
said = []

def run():
    for n in (20, 900, 4000, 20):
        try:
            said.append(int(f(torch.tensor(n))))
        except RecursionError as error:
            said.append(str(error)[:31])

sys.setrecursionlimit(5000)
threading.stack_size(KILOBYTES << 10)
thread = threading.Thread(target=run)
thread.start()
threading.stack_size(0)  # that of others, from now on
thread.join()
print(said)
"""
TOO_DEEP = "maximum recursion depth exceede"


def in_thread(folder, kilobytes, **env):
    code = folder / "program.py"
    code.write_text(PROGRAM.replace("KILOBYTES", str(kilobytes)))
    run = subprocess.run(
        [sys.executable, code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_size_of_this_thread():
    found = []
    before = threading.stack_size(512 << 10)
    thread = threading.Thread(target=lambda: found.append(stacks.room()))
    thread.start()
    assert threading.stack_size(before) == 512 << 10  # it was not reset
    thread.join()
    assert found == [(512 << 10) - stacks.RESERVE]


@pytest.mark.parametrize("kilobytes", [64, 256])
def test_small_stacks(kilobytes, tmp_path):
    """In native code and on the host: what fits is computed, what does not is Python's error."""
    told = [20, TOO_DEEP, TOO_DEEP, 20]
    assert in_thread(tmp_path, kilobytes) in (str(told), str([20, 900, TOO_DEEP, 20]))
    assert in_thread(tmp_path, kilobytes, TOGRAPH_NOOPT="1") == str(told)


def test_large_stacks(tmp_path):
    assert in_thread(tmp_path, 64 << 10) == str([20, 900, 4000, 20])
