"""The folder of compiled code: what is stored is found, what is old goes when there is too much."""

import os
import subprocess
import sys
import time
import warnings

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


def test_a_file_under_the_name_of_another_is_none(folder):
    disk.store("a.o", b"code of a")
    disk.store("b.o", b"code of b")
    os.replace(folder / "b.o", folder / "a.o")
    disk._warned.clear()
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert disk.load("a.o") is None


def test_a_file_of_another_format_is_none(folder):
    disk.store("a.o", b"code")
    file = folder / "a.o"
    file.write_bytes(file.read_bytes().replace(b"tograph-object-2", b"tograph-object-1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk.load("a.o") is None


def name_of(i):
    return f"{i:064x}.o"


def test_the_longest_unused_go_first(folder):
    names = [name_of(i) for i in range(4)]
    for i, name in enumerate(names):
        disk.store(name, bytes(1000))
        aged(folder / name, OLD - i)
    assert disk.load(names[0]) is not None  # used today
    disk.sweep(folder, most=1 << 20)
    assert all((folder / name).exists() for name in names)
    disk.sweep(folder, most=4000)
    assert [(folder / name).exists() for name in names] == [True, False, False, False]


def test_what_is_not_ours_stays(folder):
    others = ["thesis.bin", name_of(1), "0001.o", "notes"]
    for name in others:
        (folder / name).write_bytes(bytes(5000))
    (folder / (name_of(2) + ".d")).mkdir()
    disk.store(name_of(3), bytes(5000))
    for path in folder.iterdir():
        aged(path, OLD)
    disk.sweep(folder, most=0)
    assert all((folder / name).exists() for name in others)
    assert not (folder / name_of(3)).exists()


def test_a_folder_that_is_not_there(folder):
    disk.sweep(folder / "nowhere", most=0)
    assert not (folder / "nowhere").exists()


# The module without the package around it, which imports torch.
ALONE = f"""
import sys, types
sys.modules["tograph"] = types.ModuleType("tograph")
sys.modules["tograph"].__path__ = [{os.path.dirname(disk.__file__)!r}]
"""
PROGRAM = """
import os
from tograph import disk
disk.sweep.__defaults__ = (10_000,)
for i in range(COUNT):
    disk.store(f"{i:064x}.o", bytes([i, 255 - i]))
os.chdir("..")
"""


@pytest.mark.parametrize("count", [1, 256])
def test_a_process_that_has_stored_much_looks(folder, count):
    """In the folder that it has stored into, wherever it is at its end."""
    cache, other = folder / "in" / "cache", folder / "cache"
    names = [name_of(1000 + i) for i in range(3)]
    for place in (cache, other):
        place.mkdir(parents=True)
        for name in names:
            (place / name).write_bytes(disk._MAGIC + bytes(5000))
            aged(place / name, OLD)
    program = PROGRAM.replace("COUNT", str(count))
    path = os.pathsep.join(p for p in sys.path if p)
    env = {**os.environ, "TOGRAPH_CACHE_DIR": "cache", "PYTHONPATH": path}
    command = [sys.executable, "-c", ALONE + program]
    subprocess.run(command, env=env, cwd=folder / "in", check=True)
    assert [(cache / name).exists() for name in names] == [count == 1] * 3
    assert all((other / name).exists() for name in names)


def test_the_folder_may_begin_with_the_home_folder(folder):
    env = {**os.environ, "HOME": str(folder), "TOGRAPH_CACHE_DIR": "~/code"}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    program = "from tograph import disk; print(disk.cache_dir())"
    command = [sys.executable, "-c", ALONE + program]
    done = subprocess.run(command, env=env, check=True, capture_output=True)
    assert done.stdout.decode().strip() == str(folder / "code")
