"""``Function.__call__`` in machine code: it hands a call to the entry of one of the traces that ran last, else to Python.

``install(cls, slots, miss)`` replaces ``cls.__call__``. Objects of the class have three slots for each entry: for an entry (see ``entry``) or None, for a
function of the same arguments that says whether the entry may be used (the guards of a trace), or None, and for the
calls that the entry takes. That is None for all calls without keywords; or a tuple for calls of one shape (see ``forms``), which has None for each
positional argument, then the keywords in their order: the entry gets all values by position. The entries are asked in turn, so that calls whose sizes
alternate stay here. Where there is no entry or the call is another one, where the function says False, where the entry answers ``miss``, while a torch profiler
runs or while ``EAGER`` is set, the method that was there before gets the call unchanged. So the fast path of a call has no Python in it
but the guards and the forms.

The method is an ordinary method descriptor (``PyDescr_NewMethod``). Where a slot is in an object is found by looking.
Without the interpreter lock, or where something is missing, ``install`` changes nothing and returns False.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from ..kernels import jit

EAGER = ctypes.c_int8(0)  # not 0: every call goes to Python
_kept: list[Any] = []  # what the code refers to lives as long as the process

_TEXT = """@eager = external global i8
@none = external global i8
@missed = external global i8
@python_call = external global i8
declare zeroext i1 @profiled()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
@true = external global i8
declare i64 @PyTuple_Size(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; What an entry gives, or @missed, which nobody has to let go of.
define internal ptr @attempt(ptr %self, ptr %args, i64 %count, ptr %names, i64 %entry_at, i64 %checks_at, i64 %shape_at) {{
  %place = getelementptr i8, ptr %self, i64 %entry_at
  %entry = load ptr, ptr %place
  %unset = icmp eq ptr %entry, null
  %empty = icmp eq ptr %entry, @none
  %named = icmp ne ptr %names, null
  %flag = load i8, ptr @eager
  %eagerly = icmp ne i8 %flag, 0
  %no1 = or i1 %unset, %empty
  %no = or i1 %no1, %eagerly
  br i1 %no, label %no_entry, label %which
which:
  %shape_place = getelementptr i8, ptr %self, i64 %shape_at
  %shape = load ptr, ptr %shape_place
  %no_shape1 = icmp eq ptr %shape, null
  %no_shape2 = icmp eq ptr %shape, @none
  %no_shape = or i1 %no_shape1, %no_shape2
  br i1 %no_shape, label %free, label %shaped
free:
  br i1 %named, label %no_entry, label %watched
shaped:
  br i1 %named, label %keyed, label %counted
keyed:
  %keys = call i64 @PyTuple_Size(ptr %names)
  br label %counted
counted:
  %keyed_count = phi i64 [0, %shaped], [%keys, %keyed]
  %total = add i64 %count, %keyed_count
  %expected = call i64 @PyTuple_Size(ptr %shape)
  %complete = icmp eq i64 %total, %expected
  br i1 %complete, label %positional, label %no_entry
positional:
  %shape_items = getelementptr i8, ptr %shape, i64 {items}
  %key_items = getelementptr ptr, ptr %shape_items, i64 %count
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %last, label %next_key
last:
  %last_place = getelementptr ptr, ptr %key_items, i64 -1
  %last_item = load ptr, ptr %last_place
  %by_position = icmp eq ptr %last_item, @none
  br i1 %by_position, label %next_key, label %no_entry
next_key:
  %k = phi i64 [0, %positional], [0, %last], [%k1, %key]
  %unseen = icmp slt i64 %k, %keyed_count
  br i1 %unseen, label %key, label %watched
key:
  %k1 = add i64 %k, 1
  %name_items = getelementptr i8, ptr %names, i64 {items}
  %name_place = getelementptr ptr, ptr %name_items, i64 %k
  %name = load ptr, ptr %name_place
  %key_place = getelementptr ptr, ptr %key_items, i64 %k
  %wanted = load ptr, ptr %key_place
  %same_key = icmp eq ptr %name, %wanted
  br i1 %same_key, label %next_key, label %no_entry
watched:
  %passed = phi i64 [%count, %free], [%total, %next_key]
  %profile = call zeroext i1 @profiled()
  br i1 %profile, label %no_entry, label %checked
checked:
  %checks_place = getelementptr i8, ptr %self, i64 %checks_at
  %checks = load ptr, ptr %checks_place
  %no_checks1 = icmp eq ptr %checks, null
  %no_checks2 = icmp eq ptr %checks, @none
  %no_checks = or i1 %no_checks1, %no_checks2
  br i1 %no_checks, label %direct, label %check
check:
  call void @Py_IncRef(ptr %checks)
  call void @Py_IncRef(ptr %entry) ; the check may replace it
  %held = call ptr @PyObject_Vectorcall(ptr %checks, ptr %args, i64 %passed, ptr null)
  call void @Py_DecRef(ptr %checks)
  %raised = icmp eq ptr %held, null
  br i1 %raised, label %failed, label %answered
failed:
  call void @Py_DecRef(ptr %entry)
  ret ptr null
answered:
  call void @Py_DecRef(ptr %held)
  %holds = icmp eq ptr %held, @true
  br i1 %holds, label %take, label %changed
changed:
  call void @Py_DecRef(ptr %entry)
  br label %no_entry
direct:
  call void @Py_IncRef(ptr %entry)
  br label %take
take:
  %result = call ptr @PyObject_Vectorcall(ptr %entry, ptr %args, i64 %passed, ptr null)
  call void @Py_DecRef(ptr %entry)
  %miss = icmp eq ptr %result, @missed
  br i1 %miss, label %other, label %done
done:
  ret ptr %result
other:
  call void @Py_DecRef(ptr %result)
  br label %no_entry
no_entry:
  ret ptr @missed
}}
define ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) {{
  %named = icmp ne ptr %names, null
  br label %attempt0
{attempts}
found:
  %found_result = phi ptr {found}
  ret ptr %found_result
python:
  br i1 %named, label %keywords, label %all
keywords:
  %more = call i64 @PyTuple_Size(ptr %names)
  br label %all
all:
  %extra = phi i64 [0, %python], [%more, %keywords]
  %values = add i64 %count, %extra
  %size = add i64 %values, 1
  %block = alloca ptr, i64 %size
  store ptr %self, ptr %block
  %rest = getelementptr ptr, ptr %block, i64 1
  %bytes = shl i64 %values, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %self_too = add i64 %count, 1
  %answer = call ptr @PyObject_Vectorcall(ptr @python_call, ptr %block, i64 %self_too, ptr %names)
  ret ptr %answer
}}
"""
_ATTEMPT = """attempt{k}:
  %r{k} = call ptr @attempt(ptr %self, ptr %args, i64 %count, ptr %names, i64 {entry}, i64 {checks}, i64 {shape})
  %miss{k} = icmp eq ptr %r{k}, @missed
  br i1 %miss{k}, label %{following}, label %found
"""
_FASTCALL_KEYWORDS = 0x80 | 0x02


class Method(ctypes.Structure):
    """A ``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def install(cls: type, slots: Sequence[tuple[str, str, str]], miss: object) -> bool:
    """Give ``cls`` a ``__call__`` in machine code; ``slots`` names those of each entry, its check and its calls. Whether it was done."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or jit.host() is None:
        return False
    found, places = _symbols(), [tuple(slot_offset(cls, s) for s in names) for names in slots]
    if found is None or any(None in p for p in places):
        return False
    python = cls.__call__
    _kept.extend((cls, python, miss))
    imports = {
        **found,
        "eager": ctypes.addressof(EAGER),
        "none": id(None),
        "true": id(True),
        "missed": id(miss),
        "python_call": id(python),
    }
    try:
        code = jit.compile_module(
            _text(places),
            ["call"],
            imports,
            level=0,
        )["call"]
    except RuntimeError as error:
        jit.warn_once(f"tograph: the call path does not compile, calls take the slower one: {error}")  # fmt: skip
        return False
    method = Method(b"__call__", code, _FASTCALL_KEYWORDS, None)
    _kept.append(method)
    new = ctypes.pythonapi.PyDescr_NewMethod
    new.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    cls.__call__ = new(cls, ctypes.addressof(method))
    return True


def _text(places: Sequence[tuple[int | None, ...]]) -> str:
    """The module for entries at these places, which are asked in turn."""
    attempts = [
        _ATTEMPT.format(k=k, entry=entry, checks=checks, shape=shape, following=f"attempt{k + 1}" if k + 1 < len(places) else "python")
        for k, (entry, checks, shape) in enumerate(places)
    ]  # fmt: skip
    found = ", ".join(f"[%r{k}, %attempt{k}]" for k in range(len(places)))
    return _TEXT.format(attempts="".join(attempts), found=found, items=tuple.__basicsize__)


def slot_offset(cls: type, slot: str) -> int | None:
    """Where a slot is in the objects of a class: the only word that changes with it."""
    x, marks = cls.__new__(cls), (object(), object())  # type: ignore[call-overload]
    words = cls.__basicsize__ // ctypes.sizeof(ctypes.c_void_p)
    seen = []
    for mark in marks:
        setattr(x, slot, mark)
        memory = (ctypes.c_size_t * words).from_address(id(x))
        seen.append({i for i in range(words) if memory[i] == id(mark)})
    both = seen[0] & seen[1]
    return 8 * both.pop() if len(both) == 1 else None


def _symbols() -> dict[str, int] | None:
    found = jit.symbols("_ZN5torch8profiler4impl15profilerEnabledEv", "Py_IncRef", "Py_DecRef", "PyTuple_Size", "PyObject_Vectorcall")  # fmt: skip
    if found is not None:
        found["profiled"] = found.pop("_ZN5torch8profiler4impl15profilerEnabledEv")
    return found
