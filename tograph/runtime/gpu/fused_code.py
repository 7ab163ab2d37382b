"""The code of a kernel that sets handles: Triton's, with calls of ``cudaGraphSetConditional`` written into its PTX.

Triton has no word for an external function without a result, nor for one thread. So the source gets a line of inline assembly for each
handle, behind a barrier at its end: a comment that names registers. Triton compiles that as it compiles any kernel; then
each comment is replaced by what ``setter`` does, done by one thread, and the text is assembled, with the function's name
left undefined, as in the setter. The barrier makes what the program has stored visible to that thread. No such line, or one line
too many, is an error, and the setter stays a kernel of its own.

Such a kernel must not run outside of a CUDA graph: there is no handle then. It is loaded ahead of a capture, not started.
"""

from __future__ import annotations

import concurrent.futures
import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..kernels import driver, images, setter, triton_jit
from ..kernels.loop_ir import Unsupported
from ..kernels.triton_text import ERROR, Source, parameters
from .fusing import fused
from .plan import Plan, Setting

MARK = "tograph sets a handle:"
_LINE = re.compile(rf"^\s*// {MARK} (\w+) (\d+) (%\w+) (%\w+)(?: (%\w+))?\s*$", re.M)
_ADDRESS_SIZE = re.compile(r"^\.address_size 64$", re.M)


def source_of(step: Setting) -> Source:
    """The kernel's source with a mark for each handle; parameters ``handle0``, ``handle1``, ... come behind its own."""
    plain = step.source
    extra = {f"handle{i}": "i64" for i, _ in enumerate(step.told)}
    if ERROR in step.arguments and ERROR not in plain.signature:
        extra[ERROR] = "*i32"
    signature = plain.signature | extra
    head = f"def {plain.name}({{}}):\n"
    old, new = (head.format(parameters(s, plain.constants)) for s in (plain.signature, signature))
    if plain.text.count(old) != 1 or not plain.text.endswith("\n"):
        raise Unsupported(f"the text of {plain.name} is of another form")
    lines = ["    tl.debug_barrier()\n"]
    for i, t in enumerate(step.told):
        pointers = [f"handle{i}", *(f"{n}.to(tl.int64)" for n in (t.parameter, ERROR) if n in signature)]  # fmt: skip
        used = " ".join(f"${k + 1}" for k, _ in enumerate(pointers))
        text = f"// {MARK} {t.how} {t.last} {used}\\nmov.u32 $0, 0;"
        lines.append(f'    tl.inline_asm_elementwise("{text}", "=r{",l" * len(pointers)}", [{", ".join(pointers)}], dtype=tl.int32, is_pure=False, pack=1)\n')  # fmt: skip
    return replace(plain, text=plain.text.replace(old, new) + "".join(lines), signature=signature)


def spliced(ptx: str, count: int) -> str:
    """PTX text with calls where the marks are. ``Unsupported`` where there are not ``count`` of them."""
    found = len(_LINE.findall(ptx))
    if found != count or len(_ADDRESS_SIZE.findall(ptx)) != 1:
        raise Unsupported(f"{found} marks of handles in the PTX where {count} were expected")
    numbers = iter(range(count))
    text = _LINE.sub(lambda m: setter.inline(next(numbers), *m.groups()), ptx)
    return _ADDRESS_SIZE.sub(lambda m: f"{m.group()}\n{setter.EXTERN}", text)


@functools.lru_cache(maxsize=1024)
def _image(name: str, text: str, signature: tuple, constants: tuple, warps: int, architecture: str, aligned: frozenset[str], count: int) -> tuple[tuple[bytes, bytes], int, int]:  # fmt: skip
    source = Source(name, text, dict(signature), dict(constants), 1, warps)
    binary = triton_jit.compiled(source, architecture, aligned)
    if any(binary.scratch):
        raise Unsupported("a kernel that needs scratch memory")
    ptx = spliced(binary.asm["ptx"], count)
    target = re.search(r"^\.target (\w+)", ptx, re.M)
    try:
        image, _ = triton_jit.assemble(ptx, target.group(1) if target else architecture)
    except RuntimeError as error:
        raise Unsupported(str(error)) from error
    return (image, ptx.encode() + b"\0"), binary.shared, binary.warps


def image(source: Source, architecture: str, aligned: frozenset[str], count: int) -> tuple[tuple[bytes, bytes], int, int]:  # fmt: skip
    """(the machine code and its PTX, shared memory in bytes, warps) of a source with ``count`` marks; ``Unsupported`` where there is none."""
    return _image(source.name, source.text, tuple(source.signature.items()), tuple(source.constants.items()),
                  source.warps, architecture, aligned, count)  # fmt: skip


def fused_for(plan: Plan, kept: Collection[Any] = ()) -> Plan:
    """A plan whose kernels set handles, where there is code for that on its device (``fusing``)."""
    place = images.architecture(torch.device(plan.device).index or 0)

    def works(step: Setting) -> bool:
        try:
            _code(step, place)
        except Unsupported:
            return False
        return True

    wanted = [s for s, _ in fused(plan, kept=kept).walk() if isinstance(s, Setting)]
    with concurrent.futures.ThreadPoolExecutor(triton_jit.COMPILERS) as pool:
        list(pool.map(works, wanted))  # side by side; what is found is kept
    return fused(plan, works, kept)


def _code(step: Setting, place: str, misaligned: Collection[str] = ()) -> tuple[Source, tuple[bytes, bytes], int, int]:  # fmt: skip
    source = source_of(step)
    pointers = {n for n, kind in source.signature.items() if kind.startswith("*")}
    return source, *image(source, place, frozenset(pointers - {*misaligned}), len(step.told))


class Kernel:
    """A ``Setting`` on a device: loaded when it is made, for memory that is aligned as ``given``, its arguments by name."""

    def __init__(self, step: Setting, given: Mapping[str, torch.Tensor]):
        device = next(iter(given.values())).device
        self.misaligned = _misaligned(given)
        place = images.architecture(device.index or 0)
        self.source, code, shared, self.warps = _code(step, place, self.misaligned)
        try:
            self.function = self._loaded(code[0], shared)
        # One that binds the undefined name only in what it assembles itself; with lazy loading it says so late.
        except driver.DriverError:
            self.function = self._loaded(code[1], shared)

    def _loaded(self, image: bytes, shared: int) -> driver.Function:
        made = driver.Function(image, self.source.name, shared)
        made.expect(images.sizes(self.source))
        made.finish()
        return made

    def start(self, given: Mapping[str, torch.Tensor], handles: Mapping[str, int], stream: int) -> None:  # fmt: skip
        """Start it on a stream that captures. ``handles``: by the name of their parameter."""
        if _misaligned(given) - self.misaligned:
            raise driver.DriverError("memory that is not aligned as expected")
        packed = images.pack(self.source, {**given, **handles})
        self.function.start(self.source.programs, 32 * self.warps, packed, stream)


def _misaligned(given: Mapping[str, torch.Tensor]) -> frozenset[str]:
    return frozenset(n for n, x in given.items() if x.data_ptr() % images.ALIGNMENT)
