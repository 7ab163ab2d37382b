"""A process that forks while another of its threads traces or compiles."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
import torch
import tograph as tg
from tograph.runtime.kernels import jit

@tg.function
def f(x):
    while x.sum() < 100:
        x = x * 2
    return x

f(torch.ones(4))

def trace():
    with f.traces.lock:
        started.set()
        time.sleep(60)

def compile_():
    with jit._lock:
        started.set()
        time.sleep(0.2)

for work in (trace, compile_):
    started = threading.Event()
    threading.Thread(target=work, daemon=True).start()
    started.wait()
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(f(torch.ones(3)).tolist() != [64.0] * 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_the_child_traces_and_compiles(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-W", "ignore", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "0"], done.stderr
