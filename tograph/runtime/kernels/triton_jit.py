"""Triton source to GPU code, with or without a GPU. The only file that imports triton.

``available()``      why there is no usable triton, or an empty string.
``load(source)``     the function that the source defines, as Triton's.
``compiled(...)``    its code for an architecture, "sm_90" or "gfx942", with what it needs of the machine.

Importing triton takes 0.2 s, so it happens at first use. Triton keeps compiled code on disk itself. Contraction of products
and sums is switched off: arithmetic rounds once, and what may be fused is written as ``tl.fma``.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import importlib
import linecache
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...syntax_trees import undisturbed
from .loop_ir import Unsupported
from .triton_text import Source

MINIMUM = (3, 6)
COMPILERS = min(os.cpu_count() or 1, 8)  # kernels that are compiled at a time
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx942")  # what every kernel is compiled for in tests

NVIDIA = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")  # fmt: skip

# The beginnings of calls that AMD's library does not have, and what stands for them there.
PRECISE = {"fast_sinf(": "sin(", "fast_cosf(": "cos(", "fast_logf(": "log(",
           "sinpi(": "sin(3.141592653589793 * ", "cospi(": "cos(3.141592653589793 * "}  # fmt: skip


@dataclass(frozen=True)
class Resources:
    """What one program of a kernel takes: registers of a thread, shared memory in bytes, spilled bytes of a thread."""

    registers: int
    shared: int
    spills: int


@dataclass(frozen=True)
class Binary:
    """A kernel's code for one architecture. ``asm``: texts and images by kind ("ptx", "cubin", "ttir", "amdgcn", ...)."""

    name: str
    architecture: str
    asm: dict[str, Any]
    warps: int
    shared: int
    arguments: tuple[str, ...]
    scratch: tuple[int, int]
    signature: tuple[str, ...] = ()
    origin: Any = field(
        default=None, repr=False, compare=False
    )  # (source, metadata) as Triton has them

    @property
    def assembly(self) -> str:
        """NVIDIA's PTX, or AMD's text."""
        return self.asm["ptx"] if "ptx" in self.asm else self.asm["amdgcn"]

    @property
    def image(self) -> bytes:
        """What a driver loads."""
        return self.asm["cubin"] if "cubin" in self.asm else self.asm["hsaco"]

    @functools.cached_property
    def resources(self) -> Resources:
        """Registers, shared memory and spills, as the assembler reports them."""
        if "cubin" in self.asm:
            return _nvidia_resources(self.asm, self.architecture, self.shared)
        return _amd_resources(self.asm["amdgcn"], self.shared)


@functools.cache
def _triton() -> Any:
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        return str(error)


@functools.cache
def available() -> str:
    """Why kernels cannot be compiled for a GPU here; an empty string where they can."""
    found = _triton()
    if isinstance(found, str):
        return f"triton is not installed ({found})"
    if _release() < MINIMUM:
        return f"triton {found.__version__} is older than {MINIMUM[0]}.{MINIMUM[1]}"
    return ""


def version() -> str:
    """Triton's."""
    found = _triton()
    return "" if isinstance(found, str) else found.__version__


@functools.cache
def _release() -> tuple[int, ...]:
    return tuple(int(re.sub(r"\D.*", "", p) or 0) for p in version().split(".")[:2])


def load(source: Source, hip: bool = False) -> Any:
    """The function of a source, as Triton's own, for AMD's libraries or not; ``Unsupported`` where there is no triton."""
    if why := available():
        raise Unsupported(why)
    text = source.text
    for name, precise in PRECISE.items() if hip else ():
        text = text.replace(f"libdevice.{name}", f"libdevice.{precise}")
    return _load(source.name, text)


@functools.lru_cache(maxsize=1024)
def _load(name: str, text: str) -> Any:
    """Triton reads the text of a function through ``inspect``: it is put where Python looks for lines."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = f"<tograph triton kernel {name} {digest}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": f"tograph_kernel_{digest}"}
    exec(compile(text, file, "exec"), namespace)
    return namespace[name]


def held(sources: Iterable[Source]) -> list[Any]:
    """The functions of sources. From Triton 3.9 on code is unloaded with the last reference to them, whatever CUDA graph has it."""
    return [] if available() else [load(s, hip=torch.version.hip is not None) for s in sources]


def named(architecture: str) -> str:
    """An architecture that a user asks for; ValueError for one that there is not, for which LLVM would end the process."""
    if available():  # the first thing to say
        return architecture
    target_of(architecture)
    made = set(NVIDIA)
    if torch.cuda.is_available() and torch.version.hip is None:
        made.add("sm_{}{}".format(*torch.cuda.get_device_capability()))
    if architecture.startswith("sm_") and architecture not in made:
        raise ValueError(f"no architecture {architecture!r}: NVIDIA's are {', '.join(NVIDIA)}")
    return architecture


def target_of(architecture: str) -> Any:
    """Triton's target for "sm_90" or "gfx942"."""
    backends = importlib.import_module("triton.backends.compiler")
    if architecture.startswith("sm_"):
        return backends.GPUTarget("cuda", int(re.sub(r"\D", "", architecture[3:])), 32)
    if architecture.startswith("gfx"):
        return backends.GPUTarget(
            "hip", architecture, 64 if architecture.startswith("gfx9") else 32
        )
    raise ValueError(f'no architecture {architecture!r}: write it as in "sm_90" or "gfx942"')


def compiled(source: Source, architecture: str, aligned: Iterable[str] | None = None) -> Binary:
    """The code of a source. ``aligned``: the buffers that start at a multiple of 16 bytes; all, unless told otherwise.

    ValueError for an unknown architecture; ``Unsupported`` where Triton or its assembler refuses.
    """
    target = target_of(architecture) if not available() else None
    pointers = [n for n, kind in source.signature.items() if kind.startswith("*")]
    aligned = frozenset(pointers if aligned is None else aligned)
    return _compiled(source.name, source.text, tuple(source.signature.items()), tuple(source.constants.items()),
                     source.warps, architecture, target, aligned)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _compiled(name: str, text: str, signature: tuple, constants: tuple, warps: int, architecture: str,
              target: Any, aligned: frozenset[str]) -> Binary:  # fmt: skip
    source_ = Source(name, text, dict(signature), dict(constants), 1, warps)
    function = load(source_, hip=getattr(target, "backend", "") == "hip")
    triton, compiler = _triton(), importlib.import_module("triton.compiler")
    # All as Triton's launcher has it, which then finds this code on disk.
    kinds = {n: "*u1" if k == "*i1" else k for n, k in signature} | {c: "constexpr" for c, _ in constants}  # fmt: skip
    silent = ("fp", "u1") if _release() >= (3, 9) else ("fp", "u1", "constexpr")
    told = (n for n in enumerate(kinds) if not kinds[n[1]].startswith(silent))
    attributes = {(i,): [["tt.divisibility", 16]] if n in aligned else [] for i, n in told}
    source = compiler.ASTSource(fn=function, signature=kinds, constexprs=dict(constants), attrs=attributes)  # fmt: skip
    options = {"num_warps": max(warps * 32 // target.warp_size, 1), "enable_fp_fusion": False}
    try:
        made = undisturbed(lambda: triton.compile(source, target=target, options=options))
    except (triton.errors.TritonError, RuntimeError) as error:
        raise Unsupported(f"Triton for {architecture}: {error}") from error
    asm = {k: v for k, v in made.asm.items() if k != "source"}
    scratch = tuple(getattr(made.metadata, k, 0) or 0 for k in ("global_scratch_size", "profile_scratch_size"))  # fmt: skip
    return Binary(name, architecture, asm, made.metadata.num_warps, made.metadata.shared, tuple(dict(signature)), scratch,
                  tuple(kinds.values()), (source, made.metadata))  # fmt: skip


def compile_all(jobs: Sequence[tuple[Source, str, Iterable[str] | None]], linked: bool = True) -> None:  # fmt: skip
    """``compiled`` for each, side by side, and what starts them, if Triton does (``linked``). What does not compile is left to its start, which says so."""
    if len(jobs) < 2 or available():
        return

    def one(job: tuple[Source, str, Iterable[str] | None]) -> Binary | None:
        with contextlib.suppress(Unsupported):
            return compiled(*job)
        return None

    with concurrent.futures.ThreadPoolExecutor(min(len(jobs), COMPILERS)) as pool:
        made = [b for b in pool.map(one, jobs) if b is not None]
        if linked and not launcher():
            list(pool.map(_linked, {b.signature: b for b in made}.values()))


_links: set[tuple[str, ...]] = set()  # signatures whose launcher has been built


def _linked(binary: Binary) -> None:
    """Have Triton build the launcher of a kernel: 3.6 compiles C code for every signature, half a second each, at its first start."""
    if binary.signature in _links:
        return
    _links.add(binary.signature)
    with contextlib.suppress(*BUILD):  # a start says what is wrong
        importlib.import_module("triton.runtime").driver.active.launcher_cls(*binary.origin)


@functools.cache
def launcher() -> str:
    """Why Triton cannot build its launcher here: it needs a C compiler, Python's headers and the driver's library. Empty where it can."""
    if not os.environ.get("CC") and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        return "there is no C compiler"
    try:
        importlib.import_module("triton.runtime").driver.active.get_current_device()
    except BUILD as error:
        return f"{type(error).__name__}: {error}"
    return ""


# What building and loading a launcher raises: a compiler that fails, a library that is not found, a module that does not load.
BUILD = (RuntimeError, OSError, AssertionError, ImportError, subprocess.SubprocessError)


def launch(source: Source, arguments: Sequence[Any]) -> None:
    """Compile at first use, and start on the current stream, by Triton's launcher, which needs a C compiler.

    ``Unsupported`` where the kernel does not compile, or the launcher cannot be built.
    """
    function = load(source, hip=torch.version.hip is not None)
    try:
        undisturbed(lambda: function[(source.programs,)](
            *arguments, **source.constants, num_warps=source.warps, enable_fp_fusion=False
        ))  # fmt: skip
    except (_triton().errors.TritonError, *BUILD) as error:
        raise Unsupported(f"Triton: {error}") from error


# ---- what code needs


def tool(name: str) -> Path:
    """A program that comes with triton: ptxas, ptxas-blackwell, cuobjdump, nvdisasm."""
    return Path(_triton().__file__).parent / "backends" / "nvidia" / "bin" / name


def _nvidia_resources(asm: dict[str, Any], architecture: str, shared: int) -> Resources:
    """From the image; where it uses a stack, the assembler tells how much of that is spilled registers."""
    text = _run_tool("cuobjdump", asm["cubin"], "-res-usage", "{file}")
    found = re.search(r"REG:(\d+).*?STACK:(\d+)", text)
    if found is None:
        raise RuntimeError(f"cuobjdump says nothing about resources: {text[:200]}")
    registers, stack = map(int, found.groups())
    return Resources(registers, shared, _spilled(asm["ptx"], architecture) if stack else 0)


def _spilled(ptx: str, architecture: str) -> int:
    target = re.search(r"\.target (\w+)", ptx)
    name = target.group(1) if target else architecture
    text = assemble(ptx, name)[1]
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", text)))


def assemble(ptx: str, architecture: str) -> tuple[bytes, str]:
    """(cubin, what the assembler reports) of PTX text. RuntimeError for text that it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "kernel.cubin"
        text = _run_tool(_assembler(architecture), ptx.encode(), "-v", "--fmad=false",
                         f"--gpu-name={architecture}", "{file}", "-o", str(image))  # fmt: skip
        return image.read_bytes(), text


def _assembler(architecture: str) -> str:
    """The path of the assembler that Triton itself takes: it comes with two, and not every one knows its version of PTX."""
    backend = importlib.import_module("triton.backends.nvidia.compiler")
    return backend.get_ptxas(int(re.sub(r"\D", "", architecture))).path


def _run_tool(name: str, content: bytes, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(content)
        file.flush()
        command = [str(tool(name)), *(o.format(file=file.name) for o in options)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {(done.stderr or done.stdout).strip()[:500]}")
    return done.stdout + done.stderr


def _amd_resources(text: str, shared: int) -> Resources:
    def number(key: str) -> int:
        found = re.search(rf"\.{key}:\s+(\d+)", text)
        return int(found.group(1)) if found else 0

    # What does not fit into scalar registers goes into lanes of vector registers, not to memory.
    return Resources(number("vgpr_count"), shared, 4 * number("vgpr_spill_count"))
