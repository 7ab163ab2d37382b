"""The texts of a program while it runs: records in one block of memory, and what native code does with them.

A text is the number of its record: four words, the texts that it joins (left, right), how many characters it has, and Python's string,
null until somebody needs one that is joined. So ``out += x`` copies nothing, and a string is written once, of all parts.
The first records are the texts that the code knows, number 0 the empty one; the others are dropped when the call ends, and in
loops (``text_sweep``), so that memory is bounded: by what is carried, and by ``text_records.MOST``, where the code declines.

A pool is five words: the records, how many there are, how many fit, their weight, how many stay. The arena's third word points to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from ..kernels import jit
from .text_records import FAULTS, FIRST, RECORDS

_PYTHON = {
    "PyUnicode_GetLength": "i64 {}(ptr)", "PyUnicode_Join": "ptr {}(ptr, ptr)", "PyUnicode_Compare": "i32 {}(ptr, ptr)",
    "PyUnicode_Substring": "ptr {}(ptr, i64, i64)", "PyList_New": "ptr {}(i64)", "PyList_Append": "i32 {}(ptr, ptr)",
    "PyList_GetItem": "ptr {}(ptr, i64)", "PyList_Size": "i64 {}(ptr)",
    "PyObject_Format": "ptr {}(ptr, ptr)", "PyObject_Str": "ptr {}(ptr)",
    "PyObject_CallMethodObjArgs": "ptr {}(ptr, ptr, ...)", "PyLong_FromLongLong": "ptr {}(i64)", "PyFloat_FromDouble": "ptr {}(double)",
    "PyBool_FromLong": "ptr {}(i64)", "PyLong_AsLongLong": "i64 {}(ptr)", "PyErr_Occurred": "ptr {}()", "PyErr_Clear": "void {}()", "PyErr_ExceptionMatches": "i32 {}(ptr)",
    "Py_IncRef": "void {}(ptr)", "Py_DecRef": "void {}(ptr)", "realloc": "ptr {}(ptr, i64)", "malloc": "ptr {}(i64)", "free": "void {}(ptr)",
}  # fmt: skip
DECLARES = {name: "declare " + kind.format("@" + name) for name, kind in _PYTHON.items()}
DECLARES |= FAULTS

TEXT = (
    RECORDS
    + """; The text of a number, whose reference it takes; of a spec where there is one.
define internal i64 @text_format(ptr %pool, ptr %number, ptr %spec) noinline {
entry:
  %none = icmp eq ptr %number, null
  br i1 %none, label %failed, label %look
look:
  %plain = icmp eq ptr %spec, null
  br i1 %plain, label %str, label %format
str:
  %simple = call ptr @PyObject_Str(ptr %number)
  br label %own
format:
  %full = call ptr @PyObject_Format(ptr %number, ptr %spec)
  br label %own
own:
  %made = phi ptr [%simple, %str], [%full, %format]
  call void @Py_DecRef(ptr %number)
  %i = call i64 @text_own(ptr %pool, ptr %made)
  ret i64 %i
failed:
  call void @text_forget()
  ret i64 -1
}
; An int that a method gave, whose reference this takes, to a place; whether it was one of 64 bits.
define internal i1 @text_int(ptr %object, ptr %place) noinline {
entry:
  %none = icmp eq ptr %object, null
  br i1 %none, label %failed, label %look
look:
  %n = call i64 @PyLong_AsLongLong(ptr %object)
  call void @Py_DecRef(ptr %object)
  store i64 %n, ptr %place
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %done, label %failed
done:
  ret i1 true
failed:
  call void @text_forget()
  ret i1 false
}
; The strings of a Python list, whose reference this takes, as new records; whether there was room.
define internal i1 @text_items(ptr %pool, ptr %list, ptr %place) noinline {
entry:
  %count = call i64 @PyList_Size(ptr %list)
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %stored]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %item = call ptr @PyList_GetItem(ptr %list, i64 %i)
  call void @Py_IncRef(ptr %item)
  %text = call i64 @text_own(ptr %pool, ptr %item)
  %full = icmp slt i64 %text, 0
  br i1 %full, label %failed, label %stored
stored:
  %at = getelementptr i64, ptr %place, i64 %i
  store i64 %text, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  call void @Py_DecRef(ptr %list)
  ret i1 true
failed:
  call void @Py_DecRef(ptr %list)
  ret i1 false
}
; The strings of texts, each with a reference for the caller, in the place of their numbers; whether there was memory.
define internal i1 @text_leave(ptr %pool, ptr %place, i64 %count) noinline {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %given]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr i64, ptr %place, i64 %i
  %text = load i64, ptr %at
  %string = call ptr @text_flat(ptr %pool, i64 %text)
  %lost = icmp eq ptr %string, null
  br i1 %lost, label %failed, label %given
given:
  call void @Py_IncRef(ptr %string)
  store ptr %string, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret i1 true
failed:
  ret i1 false
}
"""
)


class Pool:
    """The texts of one program, of which ``known`` stay."""

    def __init__(self, known: Sequence[str]):
        self._words = (ctypes.c_int64 * 5)()
        if not known:
            return
        room = max(FIRST, 2 * len(known))
        self._words[0], self._words[1] = _function("malloc", ctypes.c_void_p, ctypes.c_size_t)(32 * room), len(known)  # fmt: skip
        self._words[2], self._words[4] = room, len(known)
        records = (ctypes.c_int64 * (4 * len(known))).from_address(self._words[0])
        for i, text in enumerate(known):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(text))
            records[4 * i : 4 * i + 4] = [0, 0, len(text), id(text)]

    @property
    def address(self) -> int:
        """Where its words are."""
        return ctypes.addressof(self._words)

    def __del__(self) -> None:
        if not self._words[0]:
            return
        records = (ctypes.c_int64 * (4 * self._words[1])).from_address(self._words[0])
        for string in filter(None, records[3::4]):
            taken(string)
        _function("free", None, ctypes.c_void_p)(self._words[0])


def taken(string: int) -> str:
    """The string at an address, whose reference goes to the caller."""
    found = ctypes.cast(string, ctypes.py_object)
    text = found.value
    ctypes.pythonapi.Py_DecRef(found)
    return text


def _function(name: str, result: type | None, *kinds: type) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(result, *kinds)(jit.symbol(name))


def available() -> bool:
    """Whether there are the functions of C that a pool needs."""
    return jit.symbols("malloc", "realloc", "free") is not None
