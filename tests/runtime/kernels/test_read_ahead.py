"""LLVM's file is read ahead where it is not in memory, and nothing else happens."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tograph.runtime.kernels import jit, read_ahead

pytestmark = [
    pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite"),
    pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="needs Linux"),
]


@pytest.fixture
def read(monkeypatch):
    """The bytes that are read ahead, once the threads that do it have ended."""
    counts, send = [], os.sendfile

    def noted(*args):
        counts.append(send(*args))
        return counts[-1]

    monkeypatch.setattr(os, "sendfile", noted)

    def total():
        for thread in threading.enumerate():
            if thread.name == "tograph read-ahead":
                thread.join()
        return sum(counts)

    return total


def told(monkeypatch, answer):
    def preadv(*_):
        if isinstance(answer, Exception):
            raise answer
        return 1

    monkeypatch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("answer", [BlockingIOError(11, "not yet"), OSError(95, "not supported")])
def test_a_file_that_is_not_known_to_be_in_memory(monkeypatch, tmp_path, read, answer):
    path = tmp_path / "library.so"
    path.write_bytes(b"x" * 100_000)
    monkeypatch.setattr(read_ahead, "library_file", lambda: str(path))
    told(monkeypatch, answer)
    read_ahead.read_ahead()
    assert read() == 100_000


def test_a_file_that_is_in_memory_is_left_alone(monkeypatch, read):
    told(monkeypatch, None)
    read_ahead.read_ahead()
    assert read() == 0


@pytest.mark.parametrize("path", [None, "/no/such/file"])
def test_a_file_that_is_not_there(monkeypatch, read, path):
    monkeypatch.setattr(read_ahead, "library_file", lambda: path)
    read_ahead.read_ahead()
    assert read() == 0


def test_it_is_the_file_that_llvmlite_loads():
    assert jit.llvm.get_process_triple()
    assert os.path.realpath(read_ahead.library_file()) in Path("/proc/self/maps").read_text()


def test_it_is_loaded_by_a_thread_and_found_by_others():
    code = (
        "import threading\n"
        "from pathlib import Path\n"
        "from tograph.runtime.kernels import jit, read_ahead\n"
        "maps = lambda: read_ahead.library_file() in Path('/proc/self/maps').read_text()\n"
        "assert not maps()\n"
        "for _ in range(2):\n"
        "    read_ahead.load_ahead()\n"
        "threads = [t for t in threading.enumerate() if t.name == 'tograph load-ahead']\n"
        "assert len(threads) < 2\n"
        "for t in threads:\n"
        "    t.join()\n"
        "assert maps() or len(__import__('os').sched_getaffinity(0)) == 1\n"
        "assert jit.host().name\n"
    )
    path = ":".join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": ""}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
