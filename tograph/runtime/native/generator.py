"""torch's CPU generators for native code: its functions by their C++ names, its lock, and which of torch's draws are known by formula.

A draw calls the generator's own ``random()``, so its state moves as in eager PyTorch, and what torch makes of the bits is written in LLVM
(``draws``). Both are private: the formulas are compared with torch's ops on a generator of our own, once in a process that
writes such code, and a kind of draw for which they differ (on some processors torch asks a library for them) is left to torch.
"""

from __future__ import annotations

import ctypes
import functools
import math
import platform
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.generators import address
from ..kernels import jit

DEFAULT = "_ZN2at6detail22getDefaultCPUGeneratorEv"
BITS = {32: "_ZN2at16CPUGeneratorImpl6randomEv", 64: "_ZN2at16CPUGeneratorImpl8random64Ev"}
KEPT = "_ZN2at16CPUGeneratorImpl25next_double_normal_sampleEv"
KEEP = "_ZN2at16CPUGeneratorImpl29set_next_double_normal_sampleESt8optionalIdE"
WIDE = 1 << 28  # a range from which on an integer takes 64 bits
SMALL = 16  # elements from which on normal numbers are made in another way
SEEDS = 6
_MUTEX = 40  # bytes, in glibc on x86-64


@functools.cache
def lock() -> int | None:
    """Where the generator's mutex is in it; None where generators do not look as expected.

    It is found by what follows it, the device and the dispatch keys, in a generator of our own: another thread may hold the default one's.
    """
    found = jit.symbols(DEFAULT, *BITS.values(), KEPT, KEEP)
    if found is None or platform.machine() != "x86_64" or platform.system() != "Linux":
        return None
    own = torch.Generator()
    content = ctypes.string_at(address(own), 96)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU).raw_repr()
    for at in range(_MUTEX + 8, 80, 8):
        follows = content[at : at + 2] == b"\0\xff" and content[at + 8 : at + 16] == keys.to_bytes(8, "little")  # fmt: skip
        if follows and not any(content[at - _MUTEX : at]):
            return at - _MUTEX
    return None


class _Emulated:
    """A generator of our own, and what the formulas make of its bits."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        impl = address(self.generator)
        found = jit.symbols(*BITS.values()) or {}
        kinds = {32: ctypes.c_uint32, 64: ctypes.c_uint64}
        ask = {n: ctypes.CFUNCTYPE(k, ctypes.c_void_p)(found[BITS[n]]) for n, k in kinds.items()}
        self.bits = {n: functools.partial(f, impl) for n, f in ask.items()}
        self.kept: float | None = None

    def uniform(self, dtype: torch.dtype) -> torch.Tensor:
        digits, bits = (24, 32) if dtype is torch.float32 else (53, 64)
        number = self.bits[bits]() & ((1 << digits) - 1)
        return torch.tensor(number * 2.0**-digits, dtype=dtype)

    def integer(self, low: int, high: int) -> int:
        return self.bits[64 if high - low >= WIDE else 32]() % (high - low) + low

    def normal(self) -> float:
        if self.kept is not None:
            found, self.kept = self.kept, None
            return found
        u, v = (self.uniform(torch.float64).item() for _ in range(2))
        radius, angle = math.sqrt(-2.0 * math.log1p(-v)), 2.0 * math.pi * u
        self.kept = radius * math.sin(angle)
        return radius * math.cos(angle)

    def order(self, n: int) -> list[int]:
        out = list(range(n))
        for i in range(n - 1):
            k = i + self.bits[32]() % (n - i)
            out[i], out[k] = out[k], out[i]
        return out


def _uniform(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    made = [torch.empty(3, dtype=t).uniform_(-0.3, 0.7, generator=g) for t in _REAL]
    return made, [torch.stack([e.uniform(t) * _span(t) + torch.tensor(-0.3, dtype=t) for _ in range(3)]) for t in _REAL]  # fmt: skip


def _span(t: torch.dtype) -> torch.Tensor:
    return torch.tensor(0.7, dtype=t) - torch.tensor(-0.3, dtype=t)


def _integer(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    rows = [(-5, 7), (0, WIDE - 1), (3, WIDE + 3), (0, 1 << 33), (-(1 << 62), 1 << 62)]
    made = [torch.randint(a, b, (3,), generator=g) for a, b in rows]
    return made, [torch.tensor([e.integer(a, b) for _ in range(3)]) for a, b in rows]


def _normal(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    rows = [(n, t) for n in (1, 5) for t in _REAL]
    made = [torch.empty(n, dtype=t).normal_(1.5, 0.3, generator=g) for n, t in rows]
    return made, [
        torch.tensor([_fused(e.normal(), 0.3, 1.5) for _ in range(n)], dtype=torch.float64).to(t)
        for n, t in rows
    ]


def _fused(a: float, b: float, c: float) -> float:
    """``a * b + c``, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


_CHANCES = (0.1, 0.5, 0.9, 0.3)


def _chosen(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    made = [torch.bernoulli(torch.tensor(_CHANCES, dtype=t), generator=g) for t in _REAL]
    return made, [torch.stack([(e.uniform(t) < torch.tensor(p, dtype=t)).to(t) for p in _CHANCES]) for t in _REAL]  # fmt: skip


def _flipped(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    made = [torch.empty(5, dtype=t).bernoulli_(0.4, generator=g) for t in _REAL]
    return made, [torch.stack([(e.uniform(torch.float64) < 0.4).to(t) for _ in range(5)]) for t in _REAL]  # fmt: skip


def _order(g: torch.Generator, e: _Emulated) -> tuple[Any, Any]:
    return [torch.randperm(7, generator=g)], [torch.tensor(e.order(7))]


_REAL = (torch.float32, torch.float64)
_KINDS: dict[str, Callable[[torch.Generator, _Emulated], tuple[Any, Any]]] = {
    "uniform": _uniform,
    "integer": _integer,
    "normal": _normal,
    "chosen": _chosen,
    "flipped": _flipped,
    "order": _order,
}


@functools.cache
def known(kind: str) -> bool:
    """Whether native code may draw in this way: "uniform", "integer", "normal", "chosen" (by a tensor of chances), "flipped" (by one), "order"."""
    if lock() is None:
        return False
    with _disable_current_modes(), torch.no_grad():
        return all(_agrees(_KINDS[kind], seed) for seed in range(SEEDS))


def _agrees(compare: Callable[[torch.Generator, _Emulated], tuple[Any, Any]], seed: int) -> bool:
    emulated, given = _Emulated(), torch.Generator()
    for g in (emulated.generator, given):
        g.manual_seed(seed)
    made, found = compare(given, emulated)
    return _equal(made, found)


def _equal(made: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(made, found, strict=True))
