"""Objects put into memory without LLVM: every kind of address, and what is left to LLVM."""

import ctypes

import pytest

from tograph.runtime.kernels import jit, objects

pytestmark = [
    pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite"),
    pytest.mark.skipif(not objects._fits(), reason="objects of x86-64 on Linux"),
]

FORMS = {
    "constant": "define double @f(i64 %a) {\n  %x = sitofp i64 %a to double\n  %r = fmul double %x, 2.5\n  ret double %r\n}",
    "state": """@n = internal global i64 4
define double @f(i64 %a) {
  %o = load i64, ptr @n
  %s = add i64 %o, %a
  store i64 %s, ptr @n
  %r = sitofp i64 %s to double
  ret double %r
}""",
    "zeros": """@n = internal global [8 x i64] zeroinitializer, align 64
define double @f(i64 %a) {
  %p = getelementptr i64, ptr @n, i64 3
  %o = load volatile i64, ptr %p
  store volatile i64 7, ptr %p
  %s = add i64 %o, %a
  %r = sitofp i64 %s to double
  ret double %r
}""",
    "call": """declare i64 @other(i64)
define double @f(i64 %a) {
  %s = call i64 @other(i64 %a)
  %r = sitofp i64 %s to double
  ret double %r
}""",
    "table of addresses": """declare i64 @other(i64)
define internal i64 @near(i64 %a) noinline {
  %s = add i64 %a, 1
  ret i64 %s
}
@all = internal global [2 x ptr] [ptr @near, ptr @other]
define double @f(i64 %a) {
  %p = getelementptr ptr, ptr @all, i64 %a
  %g = load volatile ptr, ptr %p
  %s = call i64 %g(i64 %a)
  %r = sitofp i64 %s to double
  ret double %r
}""",
    "what others define": """@counted = external global i64
define double @f(i64 %a) {
  %o = load i64, ptr @counted
  %s = add i64 %o, %a
  %r = sitofp i64 %s to double
  ret double %r
}""",
    "function of the process": """declare double @llvm.sqrt.f64(double)
declare double @fmod(double, double)
define double @f(i64 %a) {
  %x = sitofp i64 %a to double
  %r = call double @fmod(double %x, double 4.0)
  ret double %r
}""",
}
WANT = {
    "constant": [2.5, 2.5],
    "state": [5.0, 6.0],
    "zeros": [1.0, 8.0],
    "call": [11.0, 11.0],
    "table of addresses": [11.0, 11.0],
    "what others define": [31.0, 31.0],
    "function of the process": [1.0, 1.0],
}
LEFT = {
    "thread-local": "@n = internal thread_local global i64 4\ndefine double @f(i64 %a) {\n  %o = load i64, ptr @n\n  store i64 %a, ptr @n\n  %r = sitofp i64 %o to double\n  ret double %r\n}",
    "a name that is nowhere": "declare double @nowhere_at_all()\ndefine double @f(i64 %a) {\n  %r = call double @nowhere_at_all()\n  ret double %r\n}",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_what_an_object_needs(name):
    other = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda a: a + 10)
    counted = ctypes.c_int64(30)
    imports = {"other": ctypes.cast(other, ctypes.c_void_p).value, "counted": ctypes.addressof(counted)}  # fmt: skip
    found = objects.load(jit._compile(FORMS[name], 0), imports)
    assert found is not None and list(found) == ["f"]
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(found["f"])
    assert [f(1), f(1)] == WANT[name]


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_llvm(name):
    assert objects.load(jit._compile(LEFT[name], 0), {}) is None


@pytest.mark.parametrize("change", [lambda o: o[:40], lambda o: b"\x7fELF\x01" + o[5:], lambda o: o[:18] + b"\xb7\0" + o[20:]])  # fmt: skip
def test_other_formats_and_machines_are_left_to_llvm(change):
    assert objects.load(change(jit._compile(FORMS["constant"], 0)), {}) is None
