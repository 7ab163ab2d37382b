"""Conversions that later processes find: only where nothing that they depend on has changed."""

import importlib.util
import linecache
import subprocess
import sys
import types

import pytest
import torch

import tograph as tg
from tograph import disk
from tograph.converters import kept, pipeline

TEXT = """
import math

import torch

SCALE = 3


def f(x):
    s = 0.0
    if x.sum() > 1:
        s = math.sqrt(x.sum().item()) * SCALE
    return s
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, which the converted functions of other tests are not in."""
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "_warned", set())
    return tmp_path / "cache"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A module with this text, as a new process would load it."""
    # Python would take the bytecode of an older text of the same length and second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "program.py"

    def load(text=TEXT):
        path.write_text(text)
        linecache.clearcache()
        pipeline.clear()
        spec = importlib.util.spec_from_file_location("program", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def passes(monkeypatch):
    """The names of the functions that went through the passes."""
    seen = []
    convert = pipeline.convert_tree

    def noted(parsed, *args):
        seen.append(parsed.name)
        return convert(parsed, *args)

    monkeypatch.setattr(pipeline, "convert_tree", noted)
    return seen


def test_llvm_is_loaded_beside_the_passes_only(cache, load, passes, monkeypatch):
    calls = []
    monkeypatch.setattr(pipeline, "load_ahead", lambda: calls.append(len(passes)))
    for _ in range(2):  # the second time the conversion is found
        pipeline.conversion(load().f)
    assert (calls, passes) == ([0], ["f"])


def test_found_again(cache, load, passes):
    x = torch.tensor([1.0, 3.0])
    assert tg.function(load().f)(x) == load().f(x) == 6.0
    shown = tg.to_code(load().f)
    assert passes == ["f"]
    assert tg.function(load().f)(x) == 6.0 and tg.function(load().f)(x * 0) == 0.0
    assert passes == ["f"]
    assert tg.to_code(load().f) == shown


def test_errors_show_the_user_s_line(cache, load, passes):
    text = TEXT.replace("* SCALE", "* [][SCALE]")
    lines = []
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            tg.function(load(text).f)(torch.ones(3))
        lines.append(str(caught.value.__notes__))
    assert passes == ["f"]
    assert lines[0] == lines[1] and "line 12" in lines[0]


@pytest.mark.parametrize("old, new", [("* SCALE", "+ SCALE"), ("s = 0.0", "s = 0.5"), ("\nSCALE = 3", "SCALE = 3")])  # fmt: skip
def test_a_change_of_the_source(cache, load, passes, old, new):
    x = torch.tensor([1.0, 3.0])
    tg.function(load().f)(x)
    module = load(TEXT.replace(old, new))
    for v in (x, x * 0):
        assert tg.function(module.f)(v) == module.f(v)
    assert passes == ["f", "f"]


def test_a_name_that_stands_for_something_else(cache, load, passes):
    """The passes leave attributes of modules alone, not those of objects."""
    x = torch.tensor([1.0, 3.0])
    tg.function(load().f)(x)
    module = load()
    module.SCALE = 5
    assert tg.function(module.f)(x) == 10.0
    assert passes == ["f"]
    module = load()
    module.math = types.SimpleNamespace(sqrt=abs)
    assert tg.function(module.f)(x) == module.f(x) == 12.0
    assert passes == ["f", "f"]


def test_what_tells_objects_apart():
    def len(x):
        return 3

    assert kept.what(len) != kept.what(__builtins__["len"] if isinstance(__builtins__, dict) else __builtins__.len)  # fmt: skip
    assert kept.what(3) == kept.what(4) != kept.what(int)
    fake = types.FunctionType(tg.to_code.__code__, {}, "to_code")
    fake.__module__, fake.__qualname__ = tg.to_code.__module__, tg.to_code.__qualname__
    assert kept.what(fake) != kept.what(tg.to_code)


@pytest.mark.parametrize("damage", [b"", b"x", None])
def test_a_damaged_file(cache, load, passes, damage):
    x = torch.tensor([1.0, 3.0])
    tg.function(load().f)(x)
    for entry in cache.glob("*.py"):
        data = entry.read_bytes()
        entry.write_bytes(data[:-1] + b"?" if damage is None else damage)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert tg.function(load().f)(x) == 6.0
    assert passes == ["f", "f"]


def test_a_folder_that_cannot_be_written(cache, load, passes):
    cache.write_text("a file, not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be"):
        assert tg.function(load().f)(torch.tensor([1.0, 3.0])) == 6.0


def test_functions_without_a_file_are_not_kept(cache):
    name = "<somewhere>"
    linecache.cache[name] = (len(TEXT), None, TEXT.splitlines(keepends=True), name)
    module = {}
    exec(compile(TEXT, name, "exec"), module)
    tg.to_code(module["f"])
    assert not list(cache.glob("*.py"))


def test_the_name_is_the_same_in_every_process(load):
    load()
    text = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport program\n"
        "from tograph.converters import kept\nprint(kept.name_of(program.f, False))"
    )
    sys.path.insert(0, (folder := str(load.__closure__[0].cell_contents.parent)))
    try:
        sys.modules.pop("program", None)
        own = kept.name_of(importlib.import_module("program").f, False)
    finally:
        sys.path.remove(folder)
        sys.modules.pop("program", None)
    done = subprocess.run([sys.executable, "-c", text, folder], capture_output=True, text=True)
    assert done.stdout.strip() == own, done.stderr
