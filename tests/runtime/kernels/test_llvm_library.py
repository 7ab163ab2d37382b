"""LLVM's C functions are those that llvmlite declares, and give what llvmlite's Python gives."""

import subprocess
import sys

import pytest

from tograph.runtime.kernels import jit, llvm_library
from tograph.runtime.native.versions import TEXT

pytestmark = pytest.mark.skipif(
    jit._llvm() is None, reason="needs an llvmlite whose functions are known"
)

MODULE = (
    TEXT
    + """
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.umin.i64(i64, i64)
define i32 @run(ptr %p, i64 %n) {
  br label %again
again:
  %i = phi i64 [0, %0], [%next, %again]
  %next = add i64 %i, 1
  call void @stop(ptr %p, i1 false, i64 %i, i64 %n)
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %end
end:
  ret i32 0
}
"""
)


def test_they_are_declared_as_llvmlite_declares_them():
    assert llvm_library._alike()


def test_others_than_those_are_noticed(monkeypatch):
    name = "buildPerModuleDefaultPipeline"  # took the level of size as well, once
    gives, takes = llvm_library._FUNCTIONS[name]
    monkeypatch.setitem(llvm_library._FUNCTIONS, name, (gives, [*takes, takes[-1]]))
    assert not llvm_library._alike()


def test_a_version_that_is_not_known_is_compared(monkeypatch):
    monkeypatch.setattr(llvm_library, "_alike", lambda: False)
    assert llvm_library.library.__wrapped__("0.99.0") is None
    monkeypatch.setattr(llvm_library, "_alike", lambda: True)
    assert llvm_library.library.__wrapped__("0.99.0") is not None


def test_a_choice_of_instructions_that_does_not_optimise_gives_other_code():
    cpu, library = jit.host(), jit._llvm()
    given = MODULE, 0, cpu.name, cpu.features
    assert library.compile(*given, selection=3) == library.compile(*given)
    assert library.compile(*given, selection=0) != library.compile(*given)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_code_and_the_processor_are_those_of_llvmlite(monkeypatch, level):
    ours, cpu = jit._compile(MODULE, level), jit._asked()
    monkeypatch.setattr(jit, "_llvm", lambda: None)
    assert (jit._compile(MODULE, level), jit._asked()) == (ours, cpu)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("define i32 @run( {", "LLVM IR parsing error\n.*expected type"),
        ("define i32 @run() {\na:\n br label %b\nb:\n %c = phi i32 [0, %a], [1, %b]\n ret i32 0\n}", "one entry for each predecessor"),
    ],
)  # fmt: skip
def test_what_llvm_does_not_accept(text, says):
    with pytest.raises(RuntimeError, match=says):
        jit._compile(text, 2)


def test_a_first_call_does_not_import_what_declares_all_of_llvm(tmp_path):
    code = (
        "import sys, torch, tograph as tg\n"
        "def f(n):\n"
        "    i = torch.zeros_like(n)\n"
        "    while i < n:\n"
        "        i = i + 1\n"
        "    return i\n"
        "assert tg.function(f)(torch.tensor(5)) == 5\n"
        "assert 'llvmlite' in sys.modules and 'llvmlite.binding' not in sys.modules\n"
    )
    (tmp_path / "program.py").write_text(code)
    path = ":".join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={"PYTHONPATH": path, "PATH": "", "TOGRAPH_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
