"""A generator of torch in machine code: its bits, and the numbers that torch makes of them, under its lock.

It is torch's default one, or one that the program gives (``generator=g``): these are in a table whose address is in the arena, so
that the text of the code has no address in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..graph.generators import address, generator_of
from ..graph.ir import Node
from . import generator
from .code import REGISTER, literal

if TYPE_CHECKING:
    from .callees import Call
    from .lower import Lowering

UNIFORM = {
    "f32": ("uniform32", 32, (1 << 24) - 1, 2.0**-24),
    "f64": ("uniform64", 64, (1 << 53) - 1, 2.0**-53),
}

_NORMAL = f"""define internal double @normal(ptr %generator) noinline nounwind {{
  %kept = call {{double, i8}} @{generator.KEPT}(ptr %generator)
  %flag = extractvalue {{double, i8}} %kept, 1
  %low = and i8 %flag, 1
  %have = icmp ne i8 %low, 0
  br i1 %have, label %take, label %make
take:
  %old = extractvalue {{double, i8}} %kept, 0
  call void @{generator.KEEP}(ptr %generator, double 0.0, i64 0)
  ret double %old
make:
  %u = call double @uniform64(ptr %generator)
  %v = call double @uniform64(ptr %generator)
  %minus = fneg double %v
  %log = call double @log1p(double %minus)
  %square = fmul double %log, -2.0
  %radius = call double @llvm.sqrt.f64(double %square)
  %angle = fmul double %u, 0x401921FB54442D18
  %sine = call double @sin(double %angle)
  %next = fmul double %radius, %sine
  call void @{generator.KEEP}(ptr %generator, double %next, i64 1)
  %cosine = call double @cos(double %angle)
  %made = fmul double %radius, %cosine
  ret double %made
}}
"""
_PURE = "double {}(double) nounwind willreturn memory(none)"
_OTHERS = {"llvm.sqrt.f64": "double {}(double)", "log1p": _PURE, "sin": _PURE, "cos": _PURE}


def draws(text: str) -> bool:
    """Whether the code of a module draws by itself."""
    return generator.DEFAULT in text


@dataclass
class Drawing:
    """Writes draws from ``generator``, which is locked."""

    low: Lowering
    generator: str

    def bits(self, n: int) -> str:
        name = self.low.code.declare(generator.BITS[n], f"i{n} {{}}(ptr) nounwind")
        return self.low.code.do(f"call i{n} {name}(ptr {self.generator})")

    def uniform(self, dtype: str) -> str:
        """A number in [0, 1)."""
        self._need_uniform(dtype)
        return self.low.code.do(
            f"call {REGISTER[dtype]} @{UNIFORM[dtype][0]}(ptr {self.generator})"
        )

    def _need_uniform(self, dtype: str) -> None:
        name, bits, mask, step = UNIFORM[dtype]
        kind = REGISTER[dtype]
        ask = self.low.code.declare(generator.BITS[bits], f"i{bits} {{}}(ptr) nounwind")
        self.low.globals[name] = (
            f"define internal {kind} @{name}(ptr %generator) nounwind {{\n"
            f"  %bits = call i{bits} {ask}(ptr %generator)\n"
            f"  %kept = and i{bits} %bits, {mask}\n"
            f"  %number = uitofp i{bits} %kept to {kind}\n"
            f"  %made = fmul {kind} %number, {literal(step, dtype)}\n"
            f"  ret {kind} %made\n}}\n"
        )

    def normal(self) -> str:
        """A number of the standard normal distribution, as f64."""
        code = self.low.code
        self._need_uniform("f64")
        self.low.globals["normal"] = _NORMAL
        code.declare(generator.KEPT, "{{double, i8}} {}(ptr) nounwind")
        code.declare(generator.KEEP, "void {}(ptr, double, i64) nounwind")
        for name, signature in _OTHERS.items():
            code.declare(name, signature)
        return code.do(f"call double @normal(ptr {self.generator})")

    def below(self, count: str, wide: str) -> str:
        """An i64 below ``count``: of 64 bits where ``wide``."""
        code, name = self.low.code, "below"
        asks = [code.declare(generator.BITS[n], f"i{n} {{}}(ptr) nounwind") for n in (32, 64)]
        self.low.globals[name] = (
            f"define internal i64 @{name}(ptr %generator, i64 %count, i1 %wide) nounwind {{\n"
            "  br i1 %wide, label %long, label %short\n"
            f"short:\n  %few = call i32 {asks[0]}(ptr %generator)\n  %most = trunc i64 %count to i32\n"
            "  %rest = urem i32 %few, %most\n  %found = zext i32 %rest to i64\n  ret i64 %found\n"
            f"long:\n  %many = call i64 {asks[1]}(ptr %generator)\n  %left = urem i64 %many, %count\n  ret i64 %left\n}}\n"
        )
        return code.do(f"call i64 @{name}(ptr {self.generator}, i64 {count}, i1 {wide})")


def drawn_from(
    given: Sequence[torch.Generator], calls: Sequence[Call], text: str
) -> tuple[list[torch.Generator], bool]:
    """The generators of the program that a module draws from, itself or in ``calls``, and whether it draws from torch's default one."""
    named = (*given, *(c.generator for c in calls if c.generator is not None))
    default = draws(text) or any(c.random and c.generator is None for c in calls)
    return list({address(g): g for g in named}.values()), default


def of_host(node: Node) -> bool:
    """Whether a node draws from a generator of the CPU."""
    found = generator_of(node)
    return found is None or found.device.type == "cpu"


def _address(low: Lowering, own: torch.Generator | None) -> str:
    code = low.code
    if own is None:
        default = code.declare(generator.DEFAULT, "ptr {}() nounwind")
        return code.do(f"load ptr, ptr {code.do(f'call ptr {default}()')}")
    known = list(map(address, low.generators))
    if address(own) not in known:
        low.generators.append(own)
        known.append(address(own))
    table = code.do(f"load ptr, ptr {code.do(f'getelementptr i8, ptr {low.base}, i64 24')}")
    return code.do(
        f"load ptr, ptr {code.do(f'getelementptr ptr, ptr {table}, i64 {known.index(address(own))}')}"
    )


@contextmanager
def locked(low: Lowering, own: torch.Generator | None) -> Iterator[Drawing]:
    """The generator, or torch's default one, locked; what is written inside does not fail."""
    code = low.code
    at = _address(low, own)
    names = [code.declare(f"pthread_mutex_{n}", "i32 {}(ptr) nounwind") for n in ("lock", "unlock")]
    mutex = code.do(f"getelementptr i8, ptr {at}, i64 {generator.lock()}")
    code.do(f"call i32 {names[0]}(ptr {mutex})")
    yield Drawing(low, at)
    code.do(f"call i32 {names[1]}(ptr {mutex})")


Draw = Callable[[Drawing, str], str]  # (where from, the number of the element) -> the value
