"""LLVM IR text to machine code in this process, by llvmlite: by the C functions of its library (``llvm_library``), or where these are not known by its Python.

``host()``            what the machine can do, or None where there is no usable llvmlite.
``compile_module``    the addresses of a module's functions; objects are kept on disk.
``symbol``            the address of a C function of torch's libraries or of Python.

Model: a module is optimised, compiled to an object for this very CPU, kept in the cache, and put into memory by ``objects`` or, where
that knows too little, linked by LLJIT. A long one is several modules (``parts``), each compiled by a thread of its own. Code is never freed: a program may be called as long as the process lives. An object in the
cache is named by a digest of all that it depends on (text, CPU, features, versions of llvmlite, torch and this file) and carries a digest
of itself, so a file of another machine or version is never found and a damaged one is compiled anew. A cache that cannot be read
or written costs time, and one warning says so.

LLVM takes longer to load than many a trace takes: a process that finds all its objects never loads it. What LLVM says of the CPU is
kept as well, for as long as the machine runs and torch finds the same features (``_booted``).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ... import disk, forks
from ...disk import warn_once
from . import llvm_library, objects, parts
from .llvm_library import Library, llvm, llvmlite

GENERATOR = "4"  # part of every digest: raise it when the same text should give other code
MINIMUM = (0, 46)
MOST_THREADS = 8  # for one module
_lock = forks.held(threading.RLock())
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
    name = _host_file(version)
    kept = disk.load(name) if name is not None else None
    if kept is not None:
        return Host(**json.loads(kept))
    made = _asked()
    if name is not None:
        disk.store(name, json.dumps(asdict(made)).encode())
    return made


def _host_file(version: str) -> str | None:
    """The name of the file with what LLVM said of this CPU since the machine was started; None where it is not told apart from others."""
    booted = _booted()
    if booted is None:
        return None
    parts = (version, GENERATOR, booted, *Host.__annotations__)
    return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.cpu"


def _booted() -> str | None:
    """Which machine this is, from its start to its end, and what torch finds its CPU to have: one that was stopped may go on with another."""
    capabilities = getattr(torch.cpu, "get_capabilities", None)  # of newer torch
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return None
    return None if capabilities is None else f"{boot}{sorted(capabilities().items())}"


def _asked() -> Host:
    """The CPU, by LLVM."""
    if (library := _llvm()) is not None:
        name, found = library.cpu()
    else:
        _initialize()
        name, found = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    features = ",".join(f"{'+' if on else '-'}{k}" for k, on in sorted(found.items()))
    names = {k for k, on in found.items() if on}
    width = 64 if "avx512f" in names else 32 if "avx" in names else 16
    fma = "fma" in names or "neon" in names or "avx512f" in names
    return Host(name, features, width, fma, {"avx512f", "avx512dq"} <= names)


def _llvm() -> Library | None:
    """LLVM's functions without llvmlite's Python, where they are known."""
    return llvm_library.library(llvmlite.__version__)


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


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
def _linker() -> Any:
    return llvm.create_lljit_compiler(_new_machine())


def _new_machine(selection: int = 3) -> Any:
    _initialize()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = host()
    return target.create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=selection, jit=True, reloc="pic", codemodel="small"
    )


def compile_module(
    text: str,
    functions: list[str],
    imports: Mapping[str, int] | None = None,
    level: int = 2,
    selection: int = 3,
) -> dict[str, int]:
    """The addresses of ``functions`` of an LLVM module.

    ``imports`` are the addresses of what the module declares and does not define. ``level`` is LLVM's
    optimisation level, ``selection`` that of its choice of instructions. RuntimeError for text that LLVM does not accept: a defect of the caller.
    """
    if host() is None:
        raise RuntimeError("there is no LLVM in this process")
    with _lock:
        name = f"{_digest(text, level, selection)}.o"
        kept = disk.load(name)
        if kept is None:
            modules = parts.divided(text, _threads(), apart=level == 2 and _llvm() is not None)
            kept = _packed(_compiled(modules, level, selection))
            disk.store(name, kept)
        known = dict(imports or {})
        *others, (_, last) = _unpacked(kept)
        for names, image in others:
            known |= _link(image, names, known)
        return _link(last, functions, known)


def target() -> tuple[str, ...]:
    """What code depends on besides its text: the CPU, and the versions of all that makes it."""
    cpu = host()
    return (cpu.name, cpu.features, llvmlite.__version__, torch.__version__, GENERATOR, sys.platform)  # fmt: skip


def _digest(text: str, level: int, selection: int = 3) -> str:
    return hashlib.sha256("\0".join((text, f"{level} {selection}", *target())).encode()).hexdigest()


def _threads() -> int:
    """How many threads compile a module."""
    return min(torch.get_num_threads(), MOST_THREADS) if _llvm() is not None else 1


def _compiled(
    modules: list[parts.Part], level: int, selection: int = 3
) -> list[tuple[list[str], bytes]]:
    """What modules define for the ones behind them, and their objects, in order. Threads take one after the other, the longest first."""
    names, count = [m.names for m in modules], min(len(modules), _threads())
    if count == 1:
        images = [_compile(m.text, level, selection, m.finished) for m in modules]
        return list(zip(names, images, strict=True))
    longest = sorted(range(len(modules)), key=lambda i: len(modules[i].text), reverse=True)
    with ThreadPoolExecutor(count, "tograph compiler") as threads:
        started = {}
        for i in longest:
            module = modules[i]
            started[i] = threads.submit(_compile, module.text, level, selection, module.finished)
        return [(names[i], started[i].result()) for i in range(len(modules))]


def _compile(text: str, level: int, selection: int = 3, finished: bool = False) -> bytes:
    """The object of a module. ``finished``: its functions are (``parts``)."""
    if (library := _llvm()) is not None:
        cpu = host()
        return library.compile(text, level, cpu.name, cpu.features, selection, finished)
    machine = _new_machine(selection)
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()  # what LLVM only asserts later would end the process
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = level > 1
    options.loop_unrolling = False  # but for loops that ask for it
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _packed(objects: list[tuple[list[str], bytes]]) -> bytes:
    """Objects, and the names of the functions that they define for those behind them, as one file."""
    head = json.dumps([[names, len(image)] for names, image in objects]).encode()
    return b"\n".join((head, b"".join(image for _, image in objects)))


def _unpacked(pack: bytes) -> list[tuple[list[str], bytes]]:
    head, _, images = pack.partition(b"\n")
    table = json.loads(head)
    ends = itertools.accumulate((size for _, size in table), initial=0)
    return [
        (n, images[a:b]) for (n, _), (a, b) in zip(table, itertools.pairwise(ends), strict=True)
    ]


def _link(image: bytes, functions: list[str], imports: Mapping[str, int]) -> dict[str, int]:
    found = objects.load(image, imports)
    if found is not None:
        return {name: found[name] for name in functions}
    library = llvm.JITLibraryBuilder().add_object_img(image)
    for name, address in imports.items():
        library.import_symbol(name, address)
    library.add_current_process()
    for name in functions:
        library.export_symbol(name)
    tracker = library.link(_linker(), f"tograph{next(_names)}")
    _linked.append(tracker)
    return {name: tracker[name] for name in functions}
