"""Random numbers of torch's CUDA generator as Triton kernels, drawn from a seed and an offset in the device's memory.

The generator is Philox 4x32 with 10 rounds (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011). Its key is the seed; its counter is the offset over 4 in the low half and the number of a thread in the high half, and
one step gives four 32-bit words. Which element gets which word, and how it rounds, follows torch's CUDA kernels and cuRAND's headers, so
that a seed gives what it gives in eager PyTorch there (*not yet seen on a GPU*):

``grid``  ``threads`` threads take the elements in turn, four turns for each step of the generator, two of 64-bit floats
``runs``  each thread takes ``run`` (4 or 2) elements that lie beside each other: dropout of a multiple of that many elements

A word ``w`` is the number ``w * 2**-32 + 2**-33`` of (0, 1]; two words are one of 53 bits for 64-bit floats; two numbers make two
normal ones (G. Box, M. Muller, 1958), with the device's fast sine and cosine, as cuRAND's. Halves are computed as 32-bit floats. An
op moves the offset on by ``words(...)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .tiles import power_of_two
from .triton_ops import typed
from .triton_rows import ACTIVE
from .triton_source import HEADER, Source, parameters

THREADS = 256  # of a block of torch's kernels
BLOCK = 256
FLOATS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}  # fmt: skip

_UNIFORM = """

@triton.jit
def _uniform(w):
    return tl.fma(w.to(tl.float32), 2.3283064365386963e-10, 1.1641532182693481e-10)
"""
_NORMAL = """

@triton.jit
def _normal(w, v):
    s = tl.sqrt_rn(-2.0 * libdevice.log(_uniform(w)))
    angle = tl.fma(v.to(tl.float32), 1.4629180792671596e-09, 7.314590396335798e-10)
    return s * libdevice.fast_sinf(angle), s * libdevice.fast_cosf(angle)
"""
_WIDE = """

@triton.jit
def _wide(w, v):
    z = w.to(tl.uint64) ^ (v.to(tl.uint64) << 21)
    return z.to(tl.float64) * 1.1102230246251565e-16
"""
_WIDE_NORMAL = """

@triton.jit
def _wide_normal(a, b):
    s = tl.sqrt(-2.0 * libdevice.log(a + 5.551115123125783e-17))
    angle = b * 2.0 + 1.1102230246251565e-16  # of half a turn
    return s * libdevice.sinpi(angle), s * libdevice.cospi(angle)
"""


@dataclass(frozen=True)
class Draw:
    """What is drawn. ``kind``: uniform (of [low, high)), normal (mean, deviation), exponential (rate), bernoulli (p), dropout (p),
    integers (of [low, high)).
    """

    kind: str
    first: float = 0.0
    second: float = 1.0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The buffers of the kernel."""
        return ("x", "out", "kept") if self.kind == "dropout" else ("out",)


def threads(count: int, most: int) -> int:
    """The threads of torch's kernel for ``count`` elements; ``most`` blocks fit on the device."""
    return THREADS * min(-(-count // THREADS), most)


def turns(draw: Draw, kind: str) -> int:
    """The elements of one step of the generator."""
    wide = kind == "fp64" and draw.kind in ("uniform", "normal", "exponential")
    return 2 if wide else 4


def words(count: int, most: int, per_step: int = 4) -> int:
    """By how much the offset grows."""
    return ((count - 1) // (threads(count, most) * per_step) + 1) * 4 if count else 0


def run_of(draw: Draw, count: int) -> int:
    """How many elements beside each other a thread of torch's kernel takes; 1 for those in turn."""
    return 1 if draw.kind != "dropout" or count % 2 else 2 if count % 4 else 4


def render(name: str, draw: Draw, count: int, most: int, kind: str, comment: str = "") -> Source:
    """The kernel for ``count`` elements of type ``kind``, such as "fp32". Parameters: the draw's, seed, offset."""
    total, run, per_step = threads(count, most), run_of(draw, count), turns(draw, kind)
    steps = -(-count // 4) if run > 1 else -(-count // (total * per_step)) * total
    block = min(power_of_two(max(steps, 1)), BLOCK)
    signature = {n: "*i1" if n == "kept" else f"*{kind}" for n in draw.arguments}
    signature |= {"seed": "*i64", "offset": "*i64"}
    lines = [
        "q = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)",
        f"thread = q % {total}",
        f"turn = q // {total}",
        "at = turn + tl.load(offset) // 4",
        "low = (at & 0xFFFFFFFF).to(tl.uint32)",
        "high = ((at >> 32) & 0xFFFFFFFF).to(tl.uint32)",
        "w0, w1, w2, w3 = tl.philox(tl.load(seed), low, high, thread.to(tl.uint32), (thread >> 32).to(tl.uint32))",
        *_numbers(draw, per_step),
    ]
    for j in range(per_step):
        lines += [f"i = {_element(j, run, total, per_step)}", f"mask = i < {count}", *_value(draw, j, kind)]  # fmt: skip
    text = HEADER + _helpers(draw, per_step)
    text += f"\n\n{comment}@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
    text += "".join(f"    {line}\n" for line in lines)
    return Source(name, text, signature, {"XBLOCK": block}, -(-steps // block), max(block // 64, 1))


def _helpers(draw: Draw, per_step: int) -> str:
    """The functions that a kernel calls."""
    if draw.kind == "integers":
        return ""
    if per_step == 2:
        return _WIDE + _WIDE_NORMAL * (draw.kind == "normal")
    return _UNIFORM + _NORMAL * (draw.kind == "normal")


def _numbers(draw: Draw, per_step: int) -> list[str]:
    """Lines that make numbers ``n0``, ``n1``, ... of the words: uniform or normal ones."""
    normal = draw.kind == "normal"
    if draw.kind == "integers":
        return []
    if per_step == 2:
        pair = ["n0 = _wide(w0, w1)", "n1 = _wide(w2, w3)"]
        half = "5.551115123125783e-17"
        return [*pair, "n0, n1 = _wide_normal(n0, n1)"] if normal else [f"{line} + {half}" for line in pair]  # fmt: skip
    if normal:
        return ["n0, n1 = _normal(w0, w1)", "n2, n3 = _normal(w2, w3)"]
    return [f"n{j} = _uniform(w{j})" for j in range(4)]


def _element(j: int, run: int, total: int, per_step: int) -> str:
    """The element that number ``j`` of a step is for."""
    if run == 4:
        return f"q * 4 + {j}"
    if run == 2:
        return f"((turn * 2 + {j // 2}) * {total} + thread) * 2 + {j % 2}"
    return f"(turn * {per_step} + {j}) * {total} + thread"


def _value(draw: Draw, j: int, kind: str) -> list[str]:
    """Lines that store number ``j``, rounded where torch's kernels round."""
    a, b = draw.first, draw.second
    if draw.kind == "integers":
        return [f"tl.store(out + i, ((w{j} % {int(b - a)}).to(tl.int64) + {int(a)}).to(out.dtype.element_ty), mask)"]  # fmt: skip
    if draw.kind == "bernoulli":
        return [f"tl.store(out + i, (n{j} < {_constant(a, 'fp32')}).to(out.dtype.element_ty), mask)"]  # fmt: skip
    if draw.kind == "dropout":
        keep = rounded(1.0 - a, "fp32")
        return [
            f"k = n{j} < {_constant(keep, 'fp32')}",
            f"tl.store(out + i, tl.load(x + i, mask, other=0) * k.to(tl.float32) * {_constant(1.0 / keep, 'fp32')}, mask)",
            "tl.store(kept + i, k, mask)",
        ]
    return _real(draw, j, kind)


def _real(draw: Draw, j: int, kind: str) -> list[str]:
    """Uniform, normal and exponential numbers."""
    a, b, wide = draw.first, draw.second, "fp64" if kind == "fp64" else "fp32"
    store = f"tl.store(out + i, v.to({_type(kind)}), mask)"
    if draw.kind == "uniform":
        low, high = rounded(a, kind), rounded(b, kind)
        size, end, start = rounded(high - low, kind), _constant(high, kind), _constant(low, kind)
        # The end that belongs to the interval is the lower one.
        return [
            f"v = tl.fma(n{j}, {_constant(size, wide)}, {_constant(low, wide)}).to({_type(kind)})",
            f"tl.store(out + i, tl.where(v == {end}, {start}, v), mask)",
        ]
    if draw.kind == "normal":
        return [f"v = tl.fma(n{j}, {_constant(b, wide)}, {_constant(a, wide)})", store]
    small = 2.0**-24 if wide == "fp32" else 2.0**-53  # half of epsilon
    rate = rounded(-1.0 / rounded(a, wide), wide)
    log = f"libdevice.fast_logf(n{j})" if wide == "fp32" else f"libdevice.log(n{j})"
    near = f"n{j} >= {_constant(1 - small, wide)}"
    return [f"v = tl.where({near}, {_constant(-small, wide)}, {log}) * {_constant(rate, wide)}", store]  # fmt: skip


def rounded(x: float, kind: str) -> float:
    """A number as the nearest one of a type."""
    return torch.tensor(x, dtype=torch.float64).to(FLOATS[kind]).item()


def _constant(x: float, kind: str) -> str:
    return typed(x, {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64"}[kind])


def _type(kind: str) -> str:
    return {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32", "fp64": "tl.float64"}[kind]  # fmt: skip


def advance(name: str, by: int) -> Source:
    """The kernel that moves the offset on. Parameters: offset, active."""
    signature = {"offset": "*i64", ACTIVE: "*i1"}
    text = f"{HEADER}\n\n@triton.jit\ndef {name}({parameters(signature, {})}):\n"
    text += f"    go = (tl.load({ACTIVE}) != 0).to(tl.int64)\n"
    text += f"    tl.store(offset, tl.load(offset) + go * {by})\n"
    return Source(name, text, signature, {}, 1, 1)
