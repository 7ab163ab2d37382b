"""How far down the C stack of the thread that runs may grow, as the system tells: threads have stacks of any size, which nothing says before the run.

The system is asked once for each thread, which takes 1 us, and 2 ms in the main one. The answer is kept in Python's dict of the thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...stacks import ATTRIBUTES, RESERVE

if TYPE_CHECKING:
    from .lower import Lowering

_SYSTEM = {
    "pthread_self": "i64 {}()", "pthread_getattr_np": "i32 {}(i64, ptr)",
    "pthread_attr_getstack": "i32 {}(ptr, ptr, ptr)", "pthread_attr_destroy": "i32 {}(ptr)",
}  # fmt: skip
_PYTHON = {
    "PyThreadState_GetDict": "ptr {}()", "PyDict_GetItemString": "ptr {}(ptr, ptr)",
    "PyDict_SetItemString": "i32 {}(ptr, ptr, ptr)", "PyLong_AsLongLong": "i64 {}(ptr)",
    "PyLong_FromLongLong": "ptr {}(i64)", "Py_DecRef": "void {}(ptr)", "PyErr_Clear": "void {}()",
}  # fmt: skip


def lowest(low: Lowering) -> str:
    """The register with the address below which no frame of this thread may lie."""
    low.globals["lowest"] = _LOWEST
    for name, signature in {**_SYSTEM, **_PYTHON}.items():
        low.code.declare(name, signature)
    return low.code.do("call i64 @lowest()")


_KEY = "tograph stack"
_LOWEST = f"""@lowest_key = private constant [{len(_KEY) + 1} x i8] c"{_KEY}\\00"
define internal i64 @lowest() noinline optnone {{
entry:
  %attributes = alloca [{ATTRIBUTES} x i8], align 16
  %base = alloca i64
  %size = alloca i64
  %dict = call ptr @PyThreadState_GetDict()
  %none = icmp eq ptr %dict, null
  br i1 %none, label %full, label %look
look:
  %kept = call ptr @PyDict_GetItemString(ptr %dict, ptr @lowest_key)
  %new = icmp eq ptr %kept, null
  br i1 %new, label %ask, label %have
have:
  %found = call i64 @PyLong_AsLongLong(ptr %kept)
  ret i64 %found
ask:
  %thread = call i64 @pthread_self()
  %failed = call i32 @pthread_getattr_np(i64 %thread, ptr %attributes)
  %wrong = icmp ne i32 %failed, 0
  br i1 %wrong, label %full, label %told
told:
  %_1 = call i32 @pthread_attr_getstack(ptr %attributes, ptr %base, ptr %size)
  %_2 = call i32 @pthread_attr_destroy(ptr %attributes)
  %bytes = load i64, ptr %size
  %half = lshr i64 %bytes, 1
  %large = icmp ugt i64 %half, {RESERVE}
  %reserve = select i1 %large, i64 {RESERVE}, i64 %half
  %end = load i64, ptr %base
  %lowest = add i64 %end, %reserve
  %number = call ptr @PyLong_FromLongLong(i64 %lowest)
  %gone = icmp eq ptr %number, null
  br i1 %gone, label %forget, label %keep
keep:
  %_3 = call i32 @PyDict_SetItemString(ptr %dict, ptr @lowest_key, ptr %number)
  call void @Py_DecRef(ptr %number)
  br label %forget
forget:
  call void @PyErr_Clear()
  ret i64 %lowest
full:
  ret i64 -1
}}
"""
