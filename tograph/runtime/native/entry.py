"""The call path in machine code: a built-in function that takes the tensors and returns the result.

``make_entry`` gives a ``METH_FASTCALL`` function. It checks that nothing stands between Python and plain
tensors (torch modes, transforms, dual levels, autocast, gradients), that each argument is a number of the type, or has the dtype, sizes and strides, that
the program was made for, makes room for the outputs and runs the program. Where a check fails, or the program declines, it
returns ``MISS`` and has done nothing; the caller then takes the Python path. Tensors that the program writes must share no
memory with another one, and get a new version as every in-place op gives them; a program that draws random numbers and declines
leaves the generator as it was. A small result is a tensor of an earlier call, if nobody has it any more (``recycling``).

All entries are the same machine code (``entry_text``), which reads what is particular to a program from a table; the text
names no address of this process, so that its object in the cache serves the next one.

Private interfaces of torch: the layout of a tensor (``layout``), ``THPVariable_Wrap``, the thread's dispatch keys,
``torch_function_mode_enabled`` and ``GradMode::is_enabled`` by their C++ names, ``forward_ad._current_level``. Where one is missing there is no entry.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from ..graph.types import ListType, ScalarType, TensorType, Type, is_static
from ..kernels import jit
from ..recording.variables import Variable
from . import entry_text, pool, recycling, rows
from .caller import Method
from .entry_text import ANY, BLOCK, HEAD, KINDS, LEFT, NONE, RECORD, RESULT, THOSE, WATCHED, WORDS
from .form import Form
from .layout import DTYPES, MAX_RANK, layout
from .list_items import inside, listed
from .pool import Pool
from .values import extent, numel, strides

MISS = object()
MOST = 512  # arguments of a function with an entry
MOST_PAIRS = 1 << 21  # tensors that are written, times tensors that they may overlap
_FASTCALL = 0x80
_kept: list[Method] = []  # functions refer to it as long as they live

_SYMBOLS = {
    "function_mode": "_ZN2at4impl27torch_function_mode_enabledEv",
    "key_included": "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE",
    "key_excluded": "_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE",
    "grad_enabled": "_ZN3c108GradMode10is_enabledEv",
    "requires_grad": "_ZNK3c1010TensorImpl13requires_gradEv",
    "default_dtype": "_ZN3c1031get_default_dtype_as_scalartypeEv",
    "wrap": "_Z16THPVariable_WrapRKN2at10TensorBaseE",
    "aoti_torch_get_data_ptr": "aoti_torch_get_data_ptr",
    "aoti_torch_empty_strided": "aoti_torch_empty_strided",
    "aoti_torch_delete_tensor_object": "aoti_torch_delete_tensor_object",
    "PyLong_FromLongLong": "PyLong_FromLongLong",
    "PyFloat_FromDouble": "PyFloat_FromDouble",
    "PyBool_FromLong": "PyBool_FromLong",
    "PyLong_AsLongLongAndOverflow": "PyLong_AsLongLongAndOverflow",
    "PyFloat_AsDouble": "PyFloat_AsDouble",
    "PyObject_CallNoArgs": "PyObject_CallNoArgs",
    "PyObject_CallOneArg": "PyObject_CallOneArg",
    "PyObject_Vectorcall": "PyObject_Vectorcall",
    "PyTuple_New": "PyTuple_New",
    "PyTuple_SetItem": "PyTuple_SetItem",
    "PyDict_GetItemWithError": "PyDict_GetItemWithError",
    "Py_IncRef": "Py_IncRef",
    "Py_DecRef": "Py_DecRef",
}
# Python keeps one object for a small number and one for a name.
_LEVEL, _NO_LEVEL = sys.intern("_current_level"), -1
# What the text names of this process's objects; they live as long as it does.
_OBJECTS = {
    "miss_object": MISS, "tensor_class": torch.Tensor, "parameter_class": torch.nn.Parameter, "variable_class": Variable,
    "rows_class": rows.Rows, "int_class": int, "float_class": float, "bool_class": bool, "true_object": True,
    "random_state": torch.get_rng_state, "set_random_state": torch.set_rng_state, "new_version": torch.autograd.graph.increment_version,
    "forward_names": vars(forward_ad), "level_name": _LEVEL, "no_level": _NO_LEVEL,
}  # fmt: skip


class Wanted(NamedTuple):
    """What an entry gives of a graph's outputs: the first ``count``, the one of them as it is with ``single``, else a tuple.

    ``chosen``: outputs that may be inputs, each with the output that is an index, and the input for each number of it (None: the output itself).
    """

    count: int
    chosen: Mapping[int, tuple[int, Sequence[int | None]]]
    single: bool


class Results(NamedTuple):
    """The same of a program: ``places`` among its inputs and, after them, outputs; of outputs each is there once."""

    places: Sequence[int]
    chosen: Mapping[int, tuple[int, Sequence[int | None]]]
    single: bool

    def table(self, start: int) -> list[int]:
        """Its words in the table, from word ``start`` on (``entry_text``)."""
        head, options = list[int](), list[int]()
        first = start + RESULT * len(self.places)
        for i, place in enumerate(self.places):
            at, found = self.chosen.get(i, (-1, ()))
            head += [place, at + 1, first + len(options)]
            options += [-1 if o is None else o for o in found]
        return head + options


class Code(NamedTuple):
    """Addresses of a program: of its function, its temporaries and its lock (8 bytes, and 8 that count the calls that succeed); ``random``: whether it draws random numbers;
    ``left``: for outputs in buffers, where the block is that tells of them, and what makes the result (``rows``)."""

    run: int
    arena: int
    busy: int
    random: bool
    left: Mapping[int, tuple[int, Callable[[], Any]]]


def make_entry(
    code: Code,
    form: Form,
    results: Results,
    captured: Sequence[torch.Tensor],
    owner: Any,
    repeats: bool,
    numbers: Collection[int],
    unrecorded: bool = False,
) -> Callable[..., Any] | None:
    """The built-in function of a program, or None.

    ``captured``: the tensors of the last inputs. ``owner`` is kept alive by the function: it must hold the program and its captured
    tensors and all in ``code``. ``repeats``: whether it takes one tensor as two arguments, which is another trace of a function.
    ``numbers``: the inputs without dims for which it takes a number of Python. ``unrecorded``: whether autograd has no part in calls, whatever the tensors require.
    """
    inputs, outputs, written = form.inputs, form.outputs, form.assigned
    kinds = [kind for i, kind in enumerate(outputs) if i not in code.left]
    lists = pool.offsets() is not None
    others = [kind for kind in inputs if not opened(kind) and not (lists and pool.fits(kind))]
    if not _checkable(others) or not all(map(_plain, [*kinds, *filter(opened, inputs)])):
        return None
    found = _method() if len(written) * len(inputs) <= MOST_PAIRS else None
    if found is None:
        return None
    method, kept = found
    first = HEAD + len(written)
    items, snapshots = _room(outputs, kept)
    words = {
        "given": len(inputs) - len(captured), "inputs": len(inputs), "outputs": len(outputs), "single": results.single,
        "random": code.random, "program": code.run, "arena": code.arena, "busy": code.busy, "default": DTYPES[torch.get_default_dtype()],
        "written": len(written), "first_input": first, "first_output": first + RECORD * len(inputs), "items": _pointer(items, _LIST_ITEMS),
        "snapshots": ctypes.addressof(ctypes.c_char.from_buffer(snapshots)), "host": 0,
        "repeats": repeats, "results": len(results.places), "first_result": first + RECORD * (len(inputs) + len(outputs)),
        "leaves": bool(code.left), "watch": ANY if unrecorded else NONE,
    }  # fmt: skip
    table = [int(words[name]) for name in WORDS] + list(written)
    table += _inputs(inputs, captured, form.strides, numbers)
    table += _outputs(code, form, kept is not None)
    table += results.table(len(table))
    return _built_in(method, table, (owner, *captured, items, snapshots))


def _outputs(code: Code, form: Form, recycles: bool) -> list[int]:
    """The records of the outputs."""
    table: list[int] = []
    for i, kind in enumerate(form.outputs):
        if i in code.left:
            table += _left(kind, i in form.private, *code.left[i])
        else:
            small = recycles and _nbytes(kind) <= recycling.SMALL
            # What gets a history is no more as it was made, and holds all that its gradient needs: a kept result would hold it too.
            table += _record(kind, 0, small and (not form.joined or i in form.private))
    return table


def _room(outputs: Sequence[Any], kept: recycling.Offsets | None) -> tuple[list[None], bytearray]:
    """Places for results that are kept, and for what they are recognised by."""
    items = [None] * (recycling.KEPT * len(outputs))
    noted = len(items) * kept.size + 8 * len(outputs) if kept is not None else 0
    return items, bytearray(1 + noted)


def make_host_entry(
    call: Callable[..., Any],
    inputs: Sequence[Any],
    captured: Sequence[torch.Tensor],
    watched: Collection[int] = (),
) -> Callable[..., Any] | None:
    """The built-in function of a program that Python runs: ``call`` gets the tensors that fit ``inputs``; None where there is none.

    ``watched``: the inputs that require a gradient, and no other does, where ``call`` joins with autograd.
    """
    known = [kind for kind in inputs if not opened(kind)]
    found = _method() if _checkable(known) and all(map(_plain, filter(opened, inputs))) else None
    if found is None:
        return None
    words = dict.fromkeys(WORDS, 0) | {
        "given": len(inputs) - len(captured), "inputs": len(inputs), "default": DTYPES[torch.get_default_dtype()],
        "first_input": HEAD, "host": id(call), "watch": THOSE if watched else NONE,
    }  # fmt: skip
    table = [int(words[name]) for name in WORDS] + _inputs(inputs, captured, (), ())
    for i in watched:
        table[HEAD + RECORD * i + WATCHED] = 1
    return _built_in(found[0], table, (call, *captured))


def _checkable(inputs: Sequence[Any]) -> bool:
    """Whether an entry can tell if arguments fit."""
    return all(isinstance(t, ScalarType) or is_static(t) for t in inputs) and all(
        map(_plain, inputs)
    )


def opened(kind: Type) -> bool:
    """Whether values of a type are tensors of which only the run knows sizes. They lie in memory row by row."""
    return isinstance(kind, TensorType) and None in kind.shape


def _inputs(
    inputs: Sequence[Any],
    captured: Sequence[torch.Tensor],
    given: Sequence[tuple[int, ...]],
    numbers: Collection[int],
) -> list[int]:
    """The records of the inputs, of which the last are ``captured``."""
    table, taken = [], len(inputs) - len(captured)
    for i, kind in enumerate(inputs):
        held = id(captured[i - taken]) if i >= taken else 0
        if isinstance(kind, ScalarType):
            table += [0, entry_text.number(kind.kind)] + [0] * (RECORD - 2)
        elif listed(kind):
            table += [0, entry_text.LISTED, id(rows.known(inside(kind)))] + [0] * (RECORD - 3)
        elif i in numbers:
            rank = entry_text.number(float if kind.dtype.is_floating_point else int, True)
            table += [0, rank, 0, _nbytes(kind)] + [0] * (RECORD - 4)
        elif opened(kind):
            table += _open_record(kind, held)
        else:
            steps = given[i] if given else strides(kind.shape)
            table += _record(kind, held, extent(kind.shape, steps) * kind.dtype.itemsize, steps)
    return table


def _built_in(method: Method, table: list[int], keeps: tuple) -> Callable[..., Any]:
    """The built-in function that reads ``table``; it keeps ``keeps`` alive."""
    content = bytes((ctypes.c_int64 * len(table))(*table))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]  # fmt: skip
    return new(ctypes.addressof(method), content, keeps)


_LIST_ITEMS = object.__basicsize__ + 8  # where a list refers to its items: behind its length


def _pointer(x: Any, offset: int) -> int:
    return ctypes.c_size_t.from_address(id(x) + offset).value


def _record(kind: Any, first: int, last: int, stride: Sequence[int] | None = None) -> list[int]:
    """The words of an input or output, see ``entry_text``."""
    if isinstance(kind, ScalarType):
        return [KINDS[kind.kind]] + [0] * (RECORD - 1)
    shape, rest = kind.shape, [0] * (MAX_RANK - len(kind.shape))
    steps = strides(shape) if stride is None else stride
    return [first, len(shape), DTYPES[kind.dtype], int(last), *shape, *rest, *steps, *rest, 0, 0, 0]


def _open_record(kind: TensorType, first: int) -> list[int]:
    """The words of an input some of whose sizes may be any."""
    last = max(d for d, n in enumerate(kind.shape) if n is None)
    inner = strides((1, *kind.shape[last + 1 :]))
    steps = [entry_text.OPEN] * last + list(inner)
    record = _record(_marked(kind), first, _known_bytes(kind), steps)
    record[BLOCK] = kind.shape.count(None)
    return record


def _marked(kind: TensorType) -> TensorType:
    """A type with what stands for sizes that only the run knows."""
    return replace(kind, shape=tuple(entry_text.OPEN if n is None else n for n in kind.shape))


def _known_bytes(kind: TensorType) -> int:
    """The bytes of such a tensor if those sizes were all 1."""
    return numel(tuple(n for n in kind.shape if n is not None)) * kind.dtype.itemsize


def _left(kind: Type, private: bool, block: int, make: Callable[[], Any]) -> list[int]:
    """The words of an output that a call leaves in buffers; a ``private`` list stays there."""
    head, row = [LEFT["object"], *[0] * (BLOCK - 1)], 0
    if isinstance(make, Pool):
        head[0], head[2], row = LEFT["listed"], make.depth, make.address
    elif (
        isinstance(kind, ListType) and getattr(kind.element, "kind", None) in KINDS and not private
    ):
        head[0], head[2] = LEFT["numbers"], KINDS[kind.element.kind]
    elif isinstance(kind, TensorType) and opened(kind) and _plain(kind):
        head, row = _record(_marked(kind), LEFT["rows"], kind.shape.count(None))[:BLOCK], _known_bytes(kind)  # fmt: skip
    return [*head, block, id(make), row]


def _nbytes(kind: Any) -> int:
    return numel(kind.shape) * kind.dtype.itemsize if isinstance(kind, TensorType) else 0


def _plain(kind: Any) -> bool:
    if isinstance(kind, ScalarType):
        return kind.kind in KINDS
    return kind.dtype in DTYPES and len(kind.shape) <= MAX_RANK


@functools.cache
def _method() -> tuple[Method, recycling.Offsets | None] | None:
    """The definition of the function that all entries are, and how kept results are recognised; None where torch has another layout or
    lacks a symbol."""
    found, symbols = layout(), _symbols()
    if found is None or symbols is None:
        return None
    known = {**symbols, **{name: id(x) for name, x in _OBJECTS.items()}}
    kept, lists = recycling.offsets(), pool.offsets() or (0, 0)
    try:
        if kept is not None:
            code = jit.compile_module(entry_text.text(found, kept, lists), ["call", "note", "untouched"], known, 0)  # fmt: skip
            kept = kept if recycling.noticed(kept, code) else None
        if kept is None:
            code = jit.compile_module(entry_text.text(found, None, lists), ["call"], known, 0)
    except RuntimeError as error:
        jit.warn_once(f"tograph: entries do not compile, calls take the slower path: {error}")
        return None
    _kept.append(Method(b"tograph_entry", code["call"], _FASTCALL, None))
    return _kept[-1], kept


def _symbols() -> dict[str, int] | None:
    found = {k: a for k, v in _SYMBOLS.items() if (a := jit.symbol(v)) is not None}
    return found if len(found) == len(_SYMBOLS) else None
