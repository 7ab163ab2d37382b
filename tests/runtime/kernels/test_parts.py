"""Modules of LLVM in parts: what goes where, and that the parts do what the whole does."""

import ctypes
import re

import pytest
import torch

from tograph import disk
from tograph.runtime.kernels import jit, parts

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


STEPS = 700  # of a long function


def long_function(name, first, extra=""):
    """A function that is never inlined: a long chain of operations on a number."""
    lines = [f"define internal i64 @{name}(i64 %x) noinline #0 {{", f"  %v0 = add i64 %x, {first}"]
    lines += [f"  %v{i} = xor i64 %v{i - 1}, {i * first}" for i in range(1, STEPS)]
    return "\n".join([*lines, extra, f"  ret i64 %v{STEPS - 1}", "}", ""])


CALLS = """define i64 @run(i64 %x) {
  %a = call i64 @first(i64 %x)
  %b = call i64 @second(i64 %a)
  %c = call i64 @small(i64 %b)
  ret i64 %c
}
define internal i64 @small(i64 %x) #0 {
  %y = load i64, ptr @number
  %z = add i64 %x, %y
  ret i64 %z
}
"""
ENDS = """@number = internal constant i64 5
declare i64 @labs(i64)
attributes #0 = { nounwind }
"""
TEXT = CALLS + long_function("first", 3) + long_function("second", 7) + ENDS


def defined(text):
    return re.findall(r"^define [^\n]*@(\w+)\(", text, re.MULTILINE)


def test_functions_that_stand_alone_go_apart_and_are_declared():
    one, last = parts.divided(TEXT, 2)
    assert one.names == ["second"] == defined(one.text) and not last.names
    assert defined(last.text) == ["run", "small", "first"]
    assert "declare i64 @second(i64 %x) noinline #0\n" in last.text
    assert "@number" not in one.text and "attributes #0" in one.text
    assert [p.names for p in parts.divided(TEXT, 8)] == [["second"], ["first"], []]


def test_short_texts_and_one_thread_give_the_text_itself():
    short = CALLS + long_function("first", 3)[: parts.LEAST // 4] + "\n}\n" + ENDS
    assert parts.divided(short, 4) == [parts.Part(short, [])]
    assert parts.divided(TEXT, 1) == [parts.Part(TEXT, [])]


@pytest.mark.parametrize("extra", ["  %n = load i64, ptr @number", "  %n = call i64 @small(i64 1)"])
def test_functions_that_name_others_stay(extra):
    text = CALLS + long_function("first", 3, extra) + long_function("second", 7) + ENDS
    assert [p.names for p in parts.divided(text, 2)] == [["second"], []]


FINISHED = TEXT.replace("@first(i64 %x) noinline", f"@first(i64 %x) noinline {parts.FINISHED}")


def test_finished_functions_have_parts_of_their_own_also_for_one_thread():
    one, last = parts.divided(FINISHED, 1)
    assert one.finished and one.names == ["first"] == defined(one.text)
    assert not last.finished and defined(last.text) == ["run", "small", "second"]
    kinds = [(p.finished, p.names) for p in parts.divided(FINISHED, 2)]
    assert kinds == [(True, ["first"]), (False, [])]
    assert parts.divided(FINISHED, 1, apart=False) == [parts.Part(FINISHED, [])]


def test_few_finished_functions_stay(monkeypatch):
    monkeypatch.setattr(parts, "FEW", len(FINISHED))
    assert parts.divided(FINISHED, 1) == [parts.Part(FINISHED, [])]


@pytest.mark.parametrize("threads", [1, 2])
def test_finished_functions_compute_what_others_compute(threads, tmp_path, monkeypatch):
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    values = [run(jit.compile_module(t, ["run"])["run"])(11) for t in (TEXT, FINISHED)]
    assert values[0] == values[1]


@pytest.mark.parametrize("locked", [False, True])
def test_parts_compute_what_the_whole_computes(locked, tmp_path, monkeypatch):
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path))
    number, run = [], ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    if locked:
        monkeypatch.setattr(jit, "_llvm", lambda: None)
    compiled = jit._compile
    monkeypatch.setattr(jit, "_compile", lambda t, *n: number.append(1) or compiled(t, *n))
    expected = 11
    for first in (3, 7):
        expected += first
        for i in range(1, STEPS):
            expected ^= i * first
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for _ in range(2):  # the second time from the cache
        assert run(jit.compile_module(TEXT, ["run"])["run"])(11) == expected + 5
        assert len(number) == (1 if locked else 2)


def test_an_error_of_any_part_is_the_error_of_the_module(tmp_path, monkeypatch):
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        jit.compile_module(TEXT.replace("xor i64 %v9,", "xor i64 %lost,"), ["run"])


def test_threads_give_the_objects_that_one_thread_gives():
    modules = [p.text for p in parts.divided(TEXT, 3)] * 4
    together = jit._compiled([parts.Part(m, []) for m in modules], 2)
    assert [image for _, image in together] == [jit._compile(m, 2) for m in modules]
