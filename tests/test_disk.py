"""The folder of compiled code: what is stored is found, what is old goes when there is too much."""

import os
import subprocess
import sys
import time

import pytest

from tograph import disk, settings

OLD = 10 * disk.DAY


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    return tmp_path


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_what_is_stored_is_loaded():
    assert disk.load("a.o") is None
    disk.store("a.o", b"code")
    assert disk.load("a.o") == b"code"


def test_a_damaged_file_is_none(folder):
    disk.store("a.o", b"code")
    (folder / "a.o").write_bytes((folder / "a.o").read_bytes()[:-1] + b"?")
    disk._warned.clear()
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert disk.load("a.o") is None


def test_the_longest_unused_go_first(folder):
    for i, name in enumerate("abcd"):
        disk.store(name, bytes(1000))
        aged(folder / name, OLD - i)
    assert disk.load("a") is not None  # used today
    disk.sweep(folder, most=1 << 20)
    assert all((folder / name).exists() for name in "abcd")
    disk.sweep(folder, most=4000)
    assert [name for name in "abcd" if (folder / name).exists()] == ["a"]


def test_a_folder_that_is_not_there(folder):
    disk.sweep(folder / "nowhere", most=0)


PROGRAM = """
from tograph import disk
disk.sweep.__defaults__ = (10_000,)
for i in range(COUNT):
    disk.store(f"new{i}", bytes([i, 255 - i]))
"""


@pytest.mark.parametrize("count", [1, 256])
def test_a_process_that_has_stored_much_looks(folder, count):
    for name in "abc":
        (folder / name).write_bytes(bytes(5000))
        aged(folder / name, OLD)
    program = PROGRAM.replace("COUNT", str(count))
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "TOGRAPH_CACHE_DIR": str(folder)}, check=True)  # fmt: skip
    assert [(folder / name).exists() for name in "abc"] == [count == 1] * 3
