"""LLVM's compiler by the C functions of llvmlite's library, without llvmlite's Python. The only file that imports llvmlite.

``library(version)``  the functions, loaded once; None where this llvmlite may have them in another form.
``Library.cpu()``     the name and the features of this CPU.
``Library.compile``   the object of a module.

``import llvmlite.binding`` declares all of LLVM, and that takes more than twice as long as to load the library: it was a seventh of the first
call of a small function. What is called here are two dozen functions. Those of ``KNOWN`` versions were compared with what
llvmlite itself declares; of another version they are compared when it is met (``_alike``), and where they differ ``jit`` asks llvmlite.
No lock is taken: llvmlite's own would have threads compile in turn, and LLVM asks for none between threads that share no context.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from ...lazy import lazy_module
from .read_ahead import library_file

llvmlite, llvm = lazy_module("llvmlite"), lazy_module("llvmlite.binding")

KNOWN = ("0.48.0", "0.49.0", "0.50.0")
_TEXT = POINTER(c_char_p)  # a text that the library gives
# What each function gives and takes; None where llvmlite declares nothing.
_FUNCTIONS: dict[str, tuple[Any, list[Any] | None]] = {
    "InitializeNativeTarget": (c_int, None),
    "InitializeNativeAsmPrinter": (c_int, None),
    "DisposeString": (c_int, None),
    "GetHostCPUFeatures": (c_int, [_TEXT]),
    "GetHostCPUName": (c_int, [_TEXT]),
    "GetProcessTriple": (c_int, [_TEXT]),
    "GetTargetFromTriple": (c_void_p, [c_char_p, _TEXT]),
    "CreateTargetMachine": (
        c_void_p,
        [c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p],
    ),
    "DisposeTargetMachine": (c_int, [c_void_p]),
    "CreateTargetMachineData": (c_void_p, [c_void_p]),
    "CopyStringRepOfTargetData": (c_int, [c_void_p, _TEXT]),
    "DisposeTargetData": (c_int, [c_void_p]),
    "ContextCreate": (c_void_p, None),
    "ContextDispose": (c_int, [c_void_p]),
    "ParseAssembly": (c_void_p, [c_void_p, c_char_p, _TEXT]),
    "DisposeModule": (c_int, [c_void_p]),
    "VerifyModule": (c_bool, [c_void_p, _TEXT]),
    "SetTarget": (c_int, [c_void_p, c_char_p]),
    "SetDataLayout": (c_int, [c_void_p, c_char_p]),
    "CreatePipelineTuningOptions": (c_void_p, None),
    "PTOSetLoopVectorization": (c_int, [c_void_p, c_bool]),
    "PTOSetLoopUnrolling": (c_int, [c_void_p, c_bool]),
    "PTOSetSLPVectorization": (c_int, [c_void_p, c_bool]),
    "DisposePipelineTuningOptions": (c_int, [c_void_p]),
    "CreatePassBuilder": (c_void_p, [c_void_p, c_void_p]),
    "DisposePassBuilder": (c_int, [c_void_p]),
    "buildPerModuleDefaultPipeline": (c_void_p, [c_void_p, c_int]),
    "CreateNewModulePassManager": (c_void_p, None),
    "module_AddLoopUnrollPass": (c_int, [c_void_p]),
    "RunNewModulePassManager": (c_int, [c_void_p, c_void_p, c_void_p]),
    "DisposeNewModulePassManger": (c_int, [c_void_p]),
    "TargetMachineEmitToMemory": (c_void_p, [c_void_p, c_void_p, c_int, _TEXT]),
    "GetBufferStart": (c_void_p, [c_void_p]),
    "GetBufferSize": (c_size_t, [c_void_p]),
    "DisposeMemoryBuffer": (c_int, [c_void_p]),
}


@functools.cache
def library(version: str) -> Library | None:
    """The functions of llvmlite ``version``; None where they are not known to be those that are called here."""
    path = library_file()
    if path is None or (version not in KNOWN and not _alike()):
        return None
    try:
        return Library(path)
    except (OSError, AttributeError):  # another file than llvmlite's own
        return None


def _alike() -> bool:
    """Whether llvmlite declares the functions as they are declared here."""
    for name, (gives, takes) in _FUNCTIONS.items():
        try:
            found = getattr(llvm.ffi.lib, f"LLVMPY_{name}")
        except (AttributeError, ImportError):
            return False
        declared = None if found.argtypes is None else list(map(_plain, found.argtypes))
        if _plain(found.restype) is not gives or declared != takes:
            return False
    return True


def _plain(kind: Any) -> Any:
    """The type of a parameter, without what a pointer points to."""
    pointer = isinstance(kind, type(_TEXT)) and kind is not _TEXT
    return c_void_p if pointer else kind


class Library:
    """LLVM, made ready for this machine."""

    def __init__(self, path: str):
        file = ctypes.CDLL(path)
        for name, (gives, takes) in _FUNCTIONS.items():
            function = file[f"LLVMPY_{name}"]  # an object of its own: llvmlite's are left alone
            function.restype = gives
            function.argtypes = takes
            setattr(self, name, function)
        self.InitializeNativeTarget()
        self.InitializeNativeAsmPrinter()
        self._triple = self._text(self.GetProcessTriple)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _text(self, function: Callable[..., Any], *args: Any) -> bytes:
        """The text that a function gives by its last parameter."""
        out = c_char_p()
        function(*args, ctypes.byref(out))
        return self._taken(out)

    def _taken(self, out: c_char_p) -> bytes:
        found = out.value or b""
        if out:
            self.DisposeString(out)
        return found

    def cpu(self) -> tuple[str, dict[str, bool]]:
        """The name of this CPU, and which features it has and has not."""
        listed = self._text(self.GetHostCPUFeatures).decode().split(",")
        features = {item[1:]: item[0] == "+" for item in listed if item}
        return self._text(self.GetHostCPUName).decode(), features

    def compile(self, text: str, level: int, cpu: str, features: str, selection: int = 3, finished: bool = False) -> bytes:  # fmt: skip
        """The object of a module. RuntimeError says what LLVM does not accept of the text.

        ``level``: how much the passes optimise; ``finished``: not at all, but that loops are unrolled which ask for it. ``selection``: how much the
        choice of instructions does; with 0 and 0 an object takes a twentieth of the time.
        """
        with ExitStack() as kept:
            machine = self._machine(cpu, features, selection, kept)
            context = self.ContextCreate()
            kept.callback(self.ContextDispose, context)
            module = self._module(text, context, machine, kept)
            self._optimize(module, machine, level, finished, kept)
            return self._object(module, machine)

    def _machine(self, cpu: str, features: str, selection: int, kept: ExitStack) -> int:
        out = c_char_p()
        target = self.GetTargetFromTriple(self._triple, ctypes.byref(out))
        if not target:
            raise RuntimeError(self._taken(out).decode())
        given = cpu.encode(), features.encode(), selection, b"pic", b"small", 0, 1, b""
        made = self.CreateTargetMachine(target, self._triple, *given)
        if not made:
            raise RuntimeError("Cannot create target machine")
        kept.callback(self.DisposeTargetMachine, made)
        return made

    def _module(self, text: str, context: int, machine: int, kept: ExitStack) -> int:
        out = c_char_p()
        module = self.ParseAssembly(context, text.encode(), ctypes.byref(out))
        if module:
            kept.callback(self.DisposeModule, module)
        if said := self._taken(out):
            raise RuntimeError(f"LLVM IR parsing error\n{said.decode()}")
        failed = self.VerifyModule(module, ctypes.byref(out))
        said = self._taken(out)
        if failed:  # what LLVM only asserts later would end the process
            raise RuntimeError(said.decode())
        data = self.CreateTargetMachineData(machine)
        kept.callback(self.DisposeTargetData, data)
        self.SetTarget(module, self._triple)
        self.SetDataLayout(module, self._text(self.CopyStringRepOfTargetData, data))
        return module

    def _optimize(self, module: int, machine: int, level: int, finished: bool, kept: ExitStack) -> None:  # fmt: skip
        options = self.CreatePipelineTuningOptions()
        kept.callback(self.DisposePipelineTuningOptions, options)
        self.PTOSetLoopVectorization(options, level > 1)
        self.PTOSetLoopUnrolling(options, False)  # but for loops that ask for it
        self.PTOSetSLPVectorization(options, False)
        builder = self.CreatePassBuilder(machine, options)
        kept.callback(self.DisposePassBuilder, builder)
        if finished:
            passes = self.CreateNewModulePassManager()
            self.module_AddLoopUnrollPass(passes)
        else:
            passes = self.buildPerModuleDefaultPipeline(builder, level)
        kept.callback(self.DisposeNewModulePassManger, passes)
        self.RunNewModulePassManager(passes, module, builder)

    def _object(self, module: int, machine: int) -> bytes:
        out = c_char_p()
        memory = self.TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(out))
        said = self._taken(out)
        if not memory:
            raise RuntimeError(said.decode())
        try:
            return ctypes.string_at(self.GetBufferStart(memory), self.GetBufferSize(memory))
        finally:
            self.DisposeMemoryBuffer(memory)
