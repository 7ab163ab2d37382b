"""LLVM IR text to machine code in this process, by llvmlite. The only file that imports llvmlite.

``host()``            what the machine can do, or None where there is no usable llvmlite.
``compile_module``    the addresses of a module's functions; objects are kept on disk.
``symbol``            the address of a C function of torch's libraries or of Python.

Model: a module is optimised, compiled to an object for this very CPU, kept in the cache, and linked by LLJIT. Code is
never freed: a program may be called as long as the process lives. An object in the cache is named by a digest of all
that it depends on (text, CPU, features, versions of llvmlite, torch and this file) and carries a digest of itself, so
a file of another machine or version is never found and a damaged one is compiled anew. A cache that cannot be read
or written costs time, and one warning says so.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ... import disk
from ...disk import warn_once
from ...lazy import lazy_module

llvmlite, llvm = lazy_module("llvmlite"), lazy_module("llvmlite.binding")

GENERATOR = "2"  # part of every digest: raise it when the same text should give other code
MINIMUM = (0, 46)
_lock = threading.RLock()
_linked: list[Any] = []  # resource trackers: dropping one frees its code
_names = itertools.count()  # of libraries: one that could not be linked keeps its own


@dataclass(frozen=True)
class Host:
    """The CPU: LLVM's name and feature string, vector register width in bytes, whether it fuses multiply-add."""

    name: str
    features: str
    vector_bytes: int
    fma: bool
    avx512: bool


@functools.cache
def host() -> Host | None:
    """The CPU as LLVM sees it; None, with one warning, where llvmlite is missing or too old."""
    try:
        version = llvmlite.__version__
    except ImportError:
        warn_once("tograph: llvmlite is not installed: graphs run op by op, without compiled code")
        return None
    if _version(version) < MINIMUM:
        warn_once(
            f"tograph: llvmlite {version} is older than {MINIMUM[0]}.{MINIMUM[1]}: "
            "graphs run op by op, without compiled code"
        )
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    found = llvm.get_host_cpu_features()
    names = {k for k, on in found.items() if on}
    width = 64 if "avx512f" in names else 32 if "avx" in names else 16
    fma = "fma" in names or "neon" in names or "avx512f" in names
    return Host(
        llvm.get_host_cpu_name(), found.flatten(), width, fma, {"avx512f", "avx512dq"} <= names
    )


def _version(text: str) -> tuple[int, ...]:
    parts = text.split("+")[0].split(".")[:2]
    return tuple(int("".join(filter(str.isdigit, p)) or 0) for p in parts)


# ---- C functions that generated code calls


@functools.cache
def _library(name: str) -> ctypes.CDLL | None:
    path = Path(torch.__file__).parent / "lib" / name
    try:
        return ctypes.CDLL(str(path)) if path.exists() else None
    except OSError:
        return None


_LIBRARIES = ("libtorch_cpu.so", "libc10.so", "libtorch_python.so", "libgomp.so.1")


@functools.cache
def symbol(name: str) -> int | None:
    """The address of a C function of torch's libraries or of Python itself; None when there is none."""
    if name.startswith("Py") and (found := getattr(ctypes.pythonapi, name, None)) is not None:
        return ctypes.cast(found, ctypes.c_void_p).value
    for library in map(_library, _LIBRARIES):
        found = getattr(library, name, None) if library is not None else None
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value
    return None


def symbols(*names: str) -> dict[str, int] | None:
    """The addresses of several C functions; None unless all are there."""
    found = {n: a for n in names if (a := symbol(n)) is not None}
    return found if len(found) == len(names) else None


# ---- compiling


@functools.cache
def _machine() -> Any:
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = host()
    return target.create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=3, jit=True, reloc="pic", codemodel="small"
    )


@functools.cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(_machine())


def compile_module(
    text: str, functions: list[str], imports: Mapping[str, int] | None = None, level: int = 2
) -> dict[str, int]:
    """The addresses of ``functions`` of an LLVM module.

    ``imports`` are the addresses of what the module declares and does not define. ``level`` is LLVM's
    optimisation level. RuntimeError for text that LLVM does not accept: a defect of the caller.
    """
    if host() is None:
        raise RuntimeError("there is no LLVM in this process")
    with _lock:
        key = _digest(text, level)
        image = disk.load(f"{key}.o")
        if image is None:
            image = _compile(text, level)
            disk.store(f"{key}.o", image)
        return _link(image, functions, imports or {})


def target() -> tuple[str, ...]:
    """What code depends on besides its text: the CPU, and the versions of all that makes it."""
    cpu = host()
    return (cpu.name, cpu.features, llvmlite.__version__, torch.__version__, GENERATOR, sys.platform)  # fmt: skip


def _digest(text: str, level: int) -> str:
    return hashlib.sha256("\0".join((text, str(level), *target())).encode()).hexdigest()


def _compile(text: str, level: int) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()  # what LLVM only asserts later would end the process
    machine = _machine()
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = level > 1
    options.loop_unrolling = False  # but for loops that ask for it
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _link(image: bytes, functions: list[str], imports: Mapping[str, int]) -> dict[str, int]:
    library = llvm.JITLibraryBuilder().add_object_img(image)
    for name, address in imports.items():
        library.import_symbol(name, address)
    library.add_current_process()
    for name in functions:
        library.export_symbol(name)
    tracker = library.link(_linker(), f"tograph{next(_names)}")
    _linked.append(tracker)
    return {name: tracker[name] for name in functions}
