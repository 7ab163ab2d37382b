"""The call path in machine code: a built-in function that takes the tensors and returns the result.

``make_entry(native, ...)`` writes a ``METH_FASTCALL`` function in LLVM IR. It checks that nothing stands between Python and plain
tensors (torch modes, transforms, autocast, gradients), that each argument has the type, dtype, sizes and strides that
the program was made for, allocates the outputs and runs the program. Where a check fails, or the program declines, it
returns ``MISS`` and has done nothing; the caller then takes the Python path. Tensors that the program writes must share no
memory with another one, and get a new version as every in-place op gives them; a program that draws random numbers and declines
leaves the generator as it was. Both ask torch's own Python functions.

Private interfaces of torch: the layout of a tensor (``layout``), ``THPVariable_Wrap``, the thread's dispatch keys,
``torch_function_mode_enabled`` and ``GradMode::is_enabled`` by their C++ names. Where one is missing there is no entry.
The text names no address of this process, so that its object in the cache serves the next one.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..kernels import jit
from ..types import ScalarType, TensorType
from ..variables import Variable
from .caller import Method
from .layout import DTYPES, MAX_RANK, layout
from .values import numel, strides

MISS = object()
MOST = 16  # arguments of a function with an entry
MOST_PAIRS = 256  # tensors that are written, times tensors that they may overlap
_kept: list[Any] = []  # method definitions live as long as the functions made of them
_numbers = itertools.count()

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
    "PyObject_CallNoArgs": "PyObject_CallNoArgs",
    "PyObject_CallOneArg": "PyObject_CallOneArg",
    "PyTuple_New": "PyTuple_New",
    "PyTuple_SetItem": "PyTuple_SetItem",
    "Py_IncRef": "Py_IncRef",
    "Py_DecRef": "Py_DecRef",
}
_DECLARES = """declare zeroext i1 @function_mode()
declare zeroext i1 @key_included(i16)
declare zeroext i1 @key_excluded(i16)
declare zeroext i1 @grad_enabled()
declare zeroext i1 @requires_grad(ptr)
declare i8 @default_dtype()
declare ptr @wrap(ptr)
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @program(ptr)
@miss_object = external global i8
@tensor_class = external global i8
@parameter_class = external global i8
@variable_class = external global i8
@random_state = external global i8
@set_random_state = external global i8
@new_version = external global i8
@arena = external global i8
@busy = external global i64
"""


_FASTCALL = 0x80
_kept += [torch.get_rng_state, torch.set_rng_state, torch.autograd.graph.increment_version]
_FUNCTIONS = dict(zip(("random_state", "set_random_state", "new_version"), map(id, _kept)))


def make_entry(
    address: int,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    captured: Sequence[torch.Tensor],
    single: bool,
    arena: int,
    busy: int,
    owner: Any,
    written: Sequence[int] = (),
    random: bool = False,
    given: Sequence[tuple[int, ...]] = (),
) -> Callable[..., Any] | None:
    """The built-in function of a program, or None.

    ``address``: of the program. ``inputs``, ``outputs``: types. ``captured``: the tensors of the last inputs. ``single``:
    whether the one output is returned as it is, not in a tuple. ``busy``: the address of the program's lock, 8 bytes.
    ``owner`` is kept alive by the function: it must hold the program and its captured tensors. ``written``: the inputs that
    the program writes into. ``random``: whether it draws random numbers. ``given``: the strides of the inputs, of contiguous
    ones where it is left out.
    """
    found, symbols = layout(), _symbols()
    if found is None or symbols is None or not all(map(_plain, [*inputs, *outputs])):
        return None
    if not all(isinstance(t, TensorType) for t in inputs):
        return None
    if len(written) * len(inputs) > MOST_PAIRS:
        return None
    packed = [strides(t.shape) for t in inputs]
    text = _Entry(
        found, inputs, outputs, len(captured), single, written, random, given or packed
    ).text()
    name = f"tograph_entry{next(_numbers)}"
    known = {"miss_object": id(MISS), "tensor_class": id(torch.Tensor), "parameter_class": id(torch.nn.Parameter),
             "variable_class": id(Variable), **_FUNCTIONS, "program": address, "arena": arena, "busy": busy}  # fmt: skip
    known |= {f"captured{i}": id(x) for i, x in enumerate(captured)}
    code = jit.compile_module(text, ["call"], {**symbols, **known}, level=0)[
        "call"
    ]  # calls and checks: nothing to optimise
    method = Method(name.encode(), code, _FASTCALL, None)
    _kept.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]  # fmt: skip
    return new(ctypes.addressof(method), (owner, *captured), None)


def _nbytes(kind: TensorType) -> int:
    return numel(kind.shape) * kind.dtype.itemsize


def _plain(kind: Any) -> bool:
    if isinstance(kind, ScalarType):
        return True
    return kind.dtype in DTYPES and len(kind.shape) <= MAX_RANK


def _symbols() -> dict[str, int] | None:
    found = {k: a for k, v in _SYMBOLS.items() if (a := jit.symbol(v)) is not None}
    return found if len(found) == len(_SYMBOLS) else None


def _key(name: str) -> int:
    return int(getattr(torch._C.DispatchKey, name))


class _Entry:
    """The text of one entry."""

    def __init__(
        self, layout, inputs, outputs, captured: int, single, written, random: bool, given
    ):
        self.at, self.inputs, self.outputs, self.captured = layout, inputs, outputs, captured
        self.single, self.written, self.random, self.given = single, written, random, given
        self.lines: list[str] = []
        self.undo: list[str] = []
        self.globals = [f"@captured{i} = external global i8" for i in range(captured)]
        self.count = itertools.count()

    def do(self, text: str) -> str:
        name = f"%e{next(self.count)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def need(self, condition: str, otherwise: str = "miss") -> None:
        """Go on where the condition holds."""
        label = f"on{next(self.count)}"
        self.lines.append(f"  br i1 {condition}, label %{label}, label %{otherwise}")
        self.lines.append(f"{label}:")

    def load(self, kind: str, base: str, offset: int) -> str:
        place = self.do(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.do(f"load {kind}, ptr {place}")

    def text(self) -> str:
        given = len(self.inputs) - self.captured
        self.need(self.do(f"icmp eq i64 %count, {given}"))
        self._nothing_between()
        slots = len(self.inputs) + len(self.outputs) + 1
        head = [f"  %slots = alloca [{slots} x i64], align 16", "  %handle = alloca ptr"]
        head.append(f"  %handles = alloca [{max(len(self.outputs), 1)} x ptr]")
        grad = self.do("call zeroext i1 @grad_enabled()")
        for i, kind in enumerate(self.inputs):
            item = self._item(i)
            if i < given:
                self._check_type(item)
            self._tensor(i, item, kind, grad)
        self._distinct(given)
        self._apart()
        self._run()
        body = "\n".join([*head, *self.lines])
        return (
            f"define ptr @call(ptr %self, ptr %args, i64 %count) {{\nentry:\n{body}\n"
            + "".join(self.undo)
            + "failed:\n  ret ptr null\n"
            + "miss:\n  call void @Py_IncRef(ptr @miss_object)\n  ret ptr @miss_object\n}\n"
            + "\n".join(self.globals)
            + "\n"
            + _DECLARES
        )

    def _nothing_between(self) -> None:
        for name in ("Python", "FuncTorchDynamicLayerFrontMode"):
            on = self.do(f"call zeroext i1 @key_included(i16 {_key(name)})")
            self.need(self.do(f"xor i1 {on}, true"))
        self.need(self.do(f"call zeroext i1 @key_excluded(i16 {_key('AutocastCPU')})"))
        self.need(self.do("xor i1 " + self.do("call zeroext i1 @function_mode()") + ", true"))
        dtype = self.do("call i8 @default_dtype()")
        self.need(self.do(f"icmp eq i8 {dtype}, {DTYPES[torch.get_default_dtype()]}"))

    def _distinct(self, given: int) -> None:
        """One tensor given twice is another trace."""
        items = [self.load("ptr", "%args", 8 * i) for i in range(given)]
        total = "true"
        for a, b in itertools.combinations(items, 2):
            total = self.do(f"and i1 {total}, {self.do(f'icmp ne ptr {a}, {b}')}")
        self.need(total)

    def _item(self, i: int) -> str:
        """The Python object of an input."""
        given = len(self.inputs) - self.captured
        return self.load("ptr", "%args", 8 * i) if i < given else f"@captured{i - given}"

    def _apart(self) -> None:
        """What is written shares no memory with another tensor."""
        starts = {i: self.do(f"load i64, ptr {self.slot(i)}") for i in range(len(self.inputs))} if self.written else {}  # fmt: skip
        total = "true"
        for i in self.written:
            for j in starts:
                if j == i or (j in self.written and j < i):
                    continue
                ends = [self.do(f"add i64 {starts[k]}, {_nbytes(self.inputs[k])}") for k in (i, j)]
                before = self.do(f"icmp ule i64 {ends[0]}, {starts[j]}")
                behind = self.do(f"icmp ule i64 {ends[1]}, {starts[i]}")
                total = self.do(f"and i1 {total}, {self.do(f'or i1 {before}, {behind}')}")
        self.need(total)

    def _check_type(self, item: str) -> None:
        kind = self.load("ptr", item, 8)
        total = "false"
        for name in ("tensor", "parameter", "variable"):
            total = self.do(f"or i1 {total}, {self.do(f'icmp eq ptr {kind}, @{name}_class')}")
        self.need(total)

    def _tensor(self, i: int, item: str, kind: TensorType, grad: str) -> None:
        """Check one tensor and put its data pointer into its slot."""
        at, shape = self.at, kind.shape
        handle = self.do(f"getelementptr i8, ptr {item}, i64 {at.tensor}")
        impl = self.do(f"load ptr, ptr {handle}")
        self.need(self.do(f"icmp ne ptr {impl}, null"))
        checks = [self.do(f"icmp eq i64 {self.load('i64', impl, at.keys)}, {at.plain}")]
        checks.append(self.do(f"icmp eq i16 {self.load('i16', impl, at.dtype)}, {DTYPES[kind.dtype]}"))  # fmt: skip
        checks.append(self.do(f"icmp eq i64 {self.load('i64', impl, at.sizes - 8)}, {len(shape)}"))
        for d, (n, s) in enumerate(zip(shape, self.given[i])):
            checks.append(self.do(f"icmp eq i64 {self.load('i64', impl, at.sizes + 8 * d)}, {n}"))
            if n > 1:
                checks.append(self.do(f"icmp eq i64 {self.load('i64', impl, at.strides + 8 * d)}, {s}"))  # fmt: skip
        watched = self.do(f"call zeroext i1 @requires_grad(ptr {impl})")
        watched = self.do(f"and i1 {watched}, {grad}")
        checks.append(self.do(f"xor i1 {watched}, true"))
        total = checks[0]
        for c in checks[1:]:
            total = self.do(f"and i1 {total}, {c}")
        self.need(total)
        self.do(f"call i32 @aoti_torch_get_data_ptr(ptr {handle}, ptr %handle)")
        data = self.do("load ptr, ptr %handle")
        self.lines.append(f"  store ptr {data}, ptr {self.slot(i)}")

    def slot(self, i: int) -> str:
        return self.do(f"getelementptr i64, ptr %slots, i64 {i}")

    def _run(self) -> None:
        first, state = len(self.inputs), "null"
        if self.random:
            state = self.do("call ptr @PyObject_CallNoArgs(ptr @random_state)")
            self.need(self.do(f"icmp ne ptr {state}, null"), "failed")
        taken = self.do("load i64, ptr @busy")
        undo = (
            "miss"  # where an allocation failed: the ones before are given back, and Python raises
        )
        if self.random:
            undo = "forget"
            self.undo.append(f"forget:\n  call void @Py_DecRef(ptr {state})\n  br label %miss\n")
        self.need(self.do(f"icmp eq i64 {taken}, 0"), undo)
        for i, kind in enumerate(self.outputs):
            if isinstance(kind, TensorType):
                self._allocate(i, kind, first, undo)
                undo = f"undo{i}"
        self.lines.append(f"  store ptr @arena, ptr {self.slot(first + len(self.outputs))}")
        self.lines.append("  store i64 1, ptr @busy")
        code = self.do("call i32 @program(ptr %slots)")
        self.lines.append("  store i64 0, ptr @busy")
        self.need(self.do(f"icmp eq i32 {code}, 0"), "notdone")
        if self.random:
            self.lines.append(f"  call void @Py_DecRef(ptr {state})")
        self._versions()
        made = [self._result(i, kind, first) for i, kind in enumerate(self.outputs)]
        self._delete()
        if self.single:
            self.lines.append(f"  ret ptr {made[0]}")
        else:
            self._tuple(made)
        self.lines.append("notdone:")
        self._delete()
        stopped = self.do(f"icmp eq i32 {code}, 2")
        self.lines.append(f"  br i1 {stopped}, label %raise, label %declined\nraise:")
        self.lines += [f"  call void @Py_DecRef(ptr {state})"] * self.random + ["  ret ptr null"]
        self.lines.append("declined:")
        if self.random:
            got = self.do(f"call ptr @PyObject_CallOneArg(ptr @set_random_state, ptr {state})")
            for x in (got, state):
                self.lines.append(f"  call void @Py_DecRef(ptr {x})")
            self.need(self.do(f"icmp ne ptr {got}, null"), "failed")
        self.lines.append("  br label %miss")

    def _versions(self) -> None:
        """New versions for what was written."""
        done = "true"
        for i in self.written:
            got = self.do(f"call ptr @PyObject_CallOneArg(ptr @new_version, ptr {self._item(i)})")
            done = self.do(f"and i1 {done}, {self.do(f'icmp ne ptr {got}, null')}")
            self.lines.append(f"  call void @Py_DecRef(ptr {got})")
        if self.written:
            self.need(done, "unversioned")
            self.undo.append("unversioned:\n" + "".join(
                f"  %at{i} = getelementptr ptr, ptr %handles, i64 {i}\n  %made{i} = load ptr, ptr %at{i}\n"
                f"  call i32 @aoti_torch_delete_tensor_object(ptr %made{i})\n"
                for i, kind in enumerate(self.outputs) if isinstance(kind, TensorType)
            ) + "  ret ptr null\n")  # fmt: skip

    def _allocate(self, i: int, kind: TensorType, first: int, undo: str) -> None:
        self.undo.append(f"undo{i}:\n  %back{i} = getelementptr ptr, ptr %handles, i64 {i}\n  %drop{i} = load ptr, ptr %back{i}\n"
                         f"  call i32 @aoti_torch_delete_tensor_object(ptr %drop{i})\n  br label %{undo}\n")  # fmt: skip
        shape = kind.shape
        n = len(shape)
        for name, numbers in (("size", shape), ("stride", strides(shape))):
            content = ", ".join(f"i64 {x}" for x in numbers) or "i64 0"
            self.globals.append(f"@{name}{i} = private constant [{max(n, 1)} x i64] [{content}]")
        at = self.do(f"getelementptr ptr, ptr %handles, i64 {i}")
        code = self.do(f"call i32 @aoti_torch_empty_strided(i64 {n}, ptr @size{i}, ptr @stride{i}, i32 {DTYPES[kind.dtype]}, i32 0, i32 0, ptr {at})")  # fmt: skip
        self.need(self.do(f"icmp eq i32 {code}, 0"), undo)
        handle = self.do(f"load ptr, ptr {at}")
        self.do(f"call i32 @aoti_torch_get_data_ptr(ptr {handle}, ptr %handle)")
        data = self.do("load ptr, ptr %handle")
        self.lines.append(f"  store ptr {data}, ptr {self.slot(first + i)}")

    def _result(self, i: int, kind: Any, first: int) -> str:
        if isinstance(kind, TensorType):
            at = self.do(f"getelementptr ptr, ptr %handles, i64 {i}")
            return self.do(f"call ptr @wrap(ptr {self.do(f'load ptr, ptr {at}')})")
        place = self.slot(first + i)
        if kind.kind is float:
            return self.do(f"call ptr @PyFloat_FromDouble(double {self.do(f'load double, ptr {place}')})")  # fmt: skip
        if kind.kind is bool:
            got = self.do(f"load i8, ptr {place}")
            return self.do(f"call ptr @PyBool_FromLong(i64 {self.do(f'zext i8 {got} to i64')})")
        return self.do(f"call ptr @PyLong_FromLongLong(i64 {self.do(f'load i64, ptr {place}')})")

    def _delete(self) -> None:
        for i, kind in enumerate(self.outputs):
            if isinstance(kind, TensorType):
                at = self.do(f"getelementptr ptr, ptr %handles, i64 {i}")
                self.do(f"call i32 @aoti_torch_delete_tensor_object(ptr {self.do(f'load ptr, ptr {at}')})")  # fmt: skip

    def _tuple(self, made: list[str]) -> None:
        out = self.do(f"call ptr @PyTuple_New(i64 {len(made)})")
        for i, x in enumerate(made):
            self.do(f"call i32 @PyTuple_SetItem(ptr {out}, i64 {i}, ptr {x})")
        self.lines.append(f"  ret ptr {out}")
