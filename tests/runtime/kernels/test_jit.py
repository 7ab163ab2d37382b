"""The object cache and its failures, symbols, and missing llvmlite."""

import ctypes
import dataclasses
import subprocess
import sys
import warnings

import pytest
import torch

from tograph import disk
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

ADD = """define i64 @plus(i64 %a) {
  %b = add i64 %a, NUMBER
  ret i64 %b
}
"""


def call(text):
    address = jit.compile_module(text, ["plus"])["plus"]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    jit.host()  # what it stores is not counted
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "_warned", set())
    return tmp_path / "cache"


def test_a_module_that_cannot_be_linked_leaves_others_alone(cache, capfd):
    lost = "declare i64 @nowhere_at_all(i64)\n" + ADD.replace(
        "add i64 %a, NUMBER", "call i64 @nowhere_at_all(i64 %a)"
    )
    with pytest.raises(RuntimeError, match="nowhere_at_all|symbol"):
        call(lost)
    assert call(ADD.replace("NUMBER", "6")) == 7
    assert call(ADD.replace("NUMBER", "7")) == 8


def test_compiles_once(cache, monkeypatch):
    text = ADD.replace("NUMBER", "41")
    assert call(text) == 42
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(jit, "_compile", None)
    assert call(text) == 42


def test_text_decides_the_entry(cache):
    assert call(ADD.replace("NUMBER", "1")) == 2
    assert call(ADD.replace("NUMBER", "2")) == 3
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"x", None])
def test_damaged_entry_is_rebuilt(cache, damage):
    text = ADD.replace("NUMBER", "5")
    call(text)
    (entry,) = cache.iterdir()
    data = entry.read_bytes()
    entry.write_bytes(data[:-1] + b"?" if damage is None else damage)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert call(text) == 6
    assert entry.read_bytes() == data


def test_cache_that_cannot_be_written(cache):
    cache.write_text("a file, not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be"):
        assert call(ADD.replace("NUMBER", "7")) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(ADD.replace("NUMBER", "8")) == 9


def test_imports_by_address(cache):
    text = (
        "declare i64 @other(i64)\n"
        "define i64 @plus(i64 %a) {\n  %r = call i64 @other(i64 %a)\n  ret i64 %r\n}\n"
    )
    kept = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda a: a + 10)
    address = jit.compile_module(
        text, ["plus"], {"other": ctypes.cast(kept, ctypes.c_void_p).value}
    )["plus"]
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1) == 11


def test_symbols():
    assert jit.symbol("PyErr_CheckSignals")
    assert jit.symbol("no_such_function_anywhere") is None
    assert jit.symbols("PyErr_CheckSignals", "no_such_function_anywhere") is None


@pytest.mark.parametrize("missing", ["raise ImportError", "__version__ = '0.44.0'; binding = None"])
def test_without_a_usable_llvmlite(tmp_path, missing):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(missing)
    (tmp_path / "llvmlite" / "binding.py").write_text("")
    code = (
        "import warnings\n"
        "from tograph.runtime.kernels import jit\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    assert jit.host() is None and jit.host() is None\n"
        "assert len(seen) == 1 and 'llvmlite' in str(seen[0].message), seen\n"
    )
    path = ":".join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": ""}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [(jit.llvmlite, "__version__", "0.99.0"), (jit.torch, "__version__", "9.9.9"), (jit, "GENERATOR", "another")],
)  # fmt: skip
def test_an_object_of_another_version_is_not_taken(cache, monkeypatch, where, name, value):
    text = ADD.replace("NUMBER", "11")
    call(text)
    monkeypatch.setattr(where, name, value)
    call(text)
    assert len(list(cache.iterdir())) == 2


def test_an_object_of_another_cpu_is_not_taken(cache, monkeypatch):
    text, here = ADD.replace("NUMBER", "12"), jit.host()
    call(text)
    keys = {jit._digest(text, 2)}
    for other in (dataclasses.replace(here, name="another"), dataclasses.replace(here, features="+none")):  # fmt: skip
        monkeypatch.setattr(jit, "host", lambda other=other: other)
        keys.add(jit._digest(text, 2))
    assert len(keys) == 3
    assert keys >= {p.stem for p in cache.iterdir()}


def test_what_llvm_says_of_the_cpu_is_kept_until_the_machine_starts_anew(cache, monkeypatch):
    asked, host = [], jit.host.__wrapped__
    monkeypatch.setattr(jit, "_asked", lambda: asked.append(1) or jit.host())
    monkeypatch.setattr(jit, "_booted", lambda: "now")
    assert host() == host() == jit.host() and len(asked) == 1
    monkeypatch.setattr(jit, "_booted", lambda: "later")
    assert host() == jit.host() and len(asked) == 2
    monkeypatch.setattr(jit, "_booted", lambda: None)
    assert host() == host() == jit.host() and len(asked) == 4


def test_a_machine_that_goes_on_with_another_cpu_is_another(monkeypatch):
    booted = jit._booted()
    if booted is None:
        pytest.skip("LLVM is asked by every process here")
    found = {**torch.cpu.get_capabilities(), "avx512_f": "else"}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert jit._booted() != booted
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert jit._booted() is None


def test_a_cache_that_is_read_only(cache, monkeypatch):
    """The folder is there, but nothing can be made in it."""
    cache.mkdir()
    refused = OSError(30, "Read-only file system")
    monkeypatch.setattr(disk.tempfile, "mkstemp", lambda **_: raises(refused))
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        assert call(ADD.replace("NUMBER", "13")) == 14
    assert list(cache.iterdir()) == []


def test_an_object_that_cannot_be_read(cache):
    text = ADD.replace("NUMBER", "15")
    call(text)
    (entry,) = cache.iterdir()
    entry.unlink()
    entry.mkdir()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert call(text) == 16
    assert any("cannot be read" in str(w.message) for w in seen)


def raises(error):
    raise error


def test_text_that_only_the_verifier_refuses(cache):
    """LLVM's passes assert what its verifier reports: without it the process would end."""
    text = (
        "declare i64 @llvm.fma.i64(i64, i64, i64)\n"
        "define i64 @plus(i64 %a) {\n  %r = call i64 @llvm.fma.i64(i64 %a, i64 %a, i64 %a)\n  ret i64 %r\n}\n"
    )
    with pytest.raises(RuntimeError, match="llvm.fma"):
        call(text)
