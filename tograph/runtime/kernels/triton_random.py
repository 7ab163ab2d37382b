"""Random numbers of torch's CUDA generator as Triton kernels, drawn from a seed and an offset in the device's memory.

The generator is Philox 4x32 with 10 rounds (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011). Its key is the seed; its counter is the offset over 4 in the low half and the number of a thread in the high half, and
one step gives four 32-bit words. Which element gets which word, and how it rounds, follows torch's CUDA kernels and cuRAND's headers, so
that a seed gives what it gives in eager PyTorch there (*not yet seen on a GPU*):

``grid``  ``threads`` threads take the elements in turn, four turns for each step of the generator, two of 64-bit floats
``runs``  each thread takes ``run`` elements that lie beside each other, 16 bytes or as many as divide their number: what dropout keeps. A run of 8 takes
          two steps, one of 2 takes the first two words of a step, and nobody the others. Chances that are a tensor: runs of 4, and as many
          threads as there are runs

A word ``w`` is the number ``w * 2**-32 + 2**-33`` of (0, 1]; two words are one of 53 bits for 64-bit floats; two numbers make two
normal ones (G. Box, M. Muller, 1958), with the device's fast sine and cosine, as cuRAND's. Halves are computed as 32-bit floats. An
op moves the offset on by ``words(...)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .loop_ir import INDEX_OUT_OF_RANGE
from .tiles import power_of_two
from .triton_ops import typed
from .triton_rows import ACTIVE
from .triton_text import ERROR, HEADER, Source, parameters

THREADS = 256  # of a block of torch's kernels
BLOCK = 256
_AT = "tl.load(offset) // 4"
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
    """What is drawn. ``kind``: uniform (of [low, high)), normal (mean, deviation), exponential (rate), bernoulli (p), kept (what dropout keeps, p),
    integers (of [low, high)), chances (a p for each element). ``of``: the type of the elements that are kept or not.
    """

    kind: str
    first: float = 0.0
    second: float = 1.0
    of: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The buffers of the kernel."""
        return ("p", "out") if self.kind == "chances" else ("out",)


def threads(count: int, most: int) -> int:
    """The threads of torch's kernel for ``count`` elements; ``most`` blocks fit on the device."""
    return THREADS * min(-(-count // THREADS), most)


def turns(draw: Draw, kind: str) -> int:
    """The elements of one step of the generator."""
    wide = kind == "fp64" and draw.kind in ("uniform", "normal", "exponential")
    return 2 if wide else 4


def words(draw: Draw, count: int, most: int, kind: str) -> int:
    """By how much the offset grows. For chances torch reserves 10 words, a multiple of 4."""
    if draw.kind == "chances":
        return 12 if count else 0
    per_step = turns(draw, kind)
    return ((count - 1) // (threads(count, most) * per_step) + 1) * 4 if count else 0


def run_of(draw: Draw, count: int) -> int:
    """How many elements beside each other a thread of torch's kernel takes; 1 for those in turn."""
    if draw.kind == "chances":
        return 4
    run = 16 // FLOATS[draw.of].itemsize if draw.of else 1
    while count % run:
        run //= 2
    return run


def render(name: str, draw: Draw, count: int, most: int, kind: str, given: str = "", comment: str = "") -> Source:  # fmt: skip
    """The kernel for ``count`` elements of type ``kind``, such as "fp32". Parameters: the draw's, seed, offset, and for chances, that may be
    none, an error cell. ``given``: the type of what it reads, if that is another one."""
    total, run = threads(count, most), run_of(draw, count)
    if draw.kind == "chances":
        total = max(-(-count // run), 1)
    each = min(run, 4) if run > 1 else turns(draw, kind)  # elements of a step
    steps = -(-count // each) if run > 1 else -(-count // (total * each)) * total
    block = min(power_of_two(max(steps, 1)), BLOCK)
    signature = {n: f"*{given or kind}" if n == "p" else f"*{kind}" for n in draw.arguments}
    signature |= {"seed": "*i64", "offset": "*i64"}
    signature |= {ERROR: "*i32"} if draw.kind == "chances" else {}
    lines = [
        "q = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)",
        *_thread(run, total),
        f"at = turn + {_AT}",
        "low = (at & 0xFFFFFFFF).to(tl.uint32)",
        "high = ((at >> 32) & 0xFFFFFFFF).to(tl.uint32)",
        "w0, w1, w2, w3 = tl.philox(tl.load(seed), low, high, thread.to(tl.uint32), (thread >> 32).to(tl.uint32))",
        *_numbers(draw, turns(draw, kind)),
    ]
    for j in range(each):
        i = f"q * {each} + {j}" if run > 1 else f"(turn * {each} + {j}) * {total} + thread"
        lines += [f"i = {i}", f"mask = i < {count}", *_value(draw, j, kind)]
    text = HEADER + _helpers(draw, turns(draw, kind))
    text += f"\n\n{comment}@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
    text += "".join(f"    {line}\n" for line in lines)
    return Source(name, text, signature, {"XBLOCK": block}, -(-steps // block), max(block // 64, 1))


def _thread(run: int, total: int) -> list[str]:
    """Lines that find the thread of torch's kernel that step ``q`` belongs to, and the how many-th of its steps it is."""
    if run <= 4:
        return [f"thread = q % {total}", f"turn = q // {total}"]
    parts = run // 4
    return [f"thread = q // {parts} % {total}", f"turn = q // {parts * total} * {parts} + q % {parts}"]  # fmt: skip


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


def _value(draw: Draw, j: int, kind: str) -> list[str]:
    """Lines that store number ``j``, rounded where torch's kernels round."""
    a, b = draw.first, draw.second
    if draw.kind == "integers":
        return [f"v = (w{j} % {int(b - a)}).to(tl.int64) + {int(a)}", f"tl.store(out + i, v{_through(kind)}.to(out.dtype.element_ty), mask)"]  # fmt: skip
    if draw.kind == "bernoulli":
        return [f"tl.store(out + i, (n{j} < {_constant(a, 'fp32')}){_through(kind)}.to(out.dtype.element_ty), mask)"]  # fmt: skip
    wide = "fp64" if kind == "fp64" else "fp32"
    if draw.kind == "chances":
        return [
            f"chance = tl.load(p + i, mask, other=0).to({_type(wide)})",
            "bad = mask & ~((chance >= 0) & (chance <= 1))",
            f"tl.store({ERROR} + 0 * bad.to(tl.int32), {INDEX_OUT_OF_RANGE}, bad)",
            f"tl.store(out + i, (n{j}.to({_type(wide)}) <= chance){_through(kind)}.to(out.dtype.element_ty), mask)",
        ]
    if draw.of:
        wide = wider(draw.of)
        return [f"tl.store(out + i, n{j}.to({_type(wide)}) < {_constant(rounded(1.0 - a, wide), wide)}, mask)"]  # fmt: skip
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


def _through(kind: str) -> str:
    """Integers become halves through f32, as in torch's kernels; Triton's interpreter does not know another way to bf16."""
    return ".to(tl.float32)" if kind in ("fp16", "bf16") else ""


def wider(kind: str) -> str:
    """What elements of a type are computed in."""
    return "fp64" if kind == "fp64" else "fp32"


def rounded(x: float, kind: str) -> float:
    """A number as the nearest one of a type."""
    return torch.tensor(x, dtype=torch.float64).to(FLOATS[kind]).item()


def _constant(x: float, kind: str) -> str:
    return typed(x, {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64"}[kind])


def _type(kind: str) -> str:
    return {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32", "fp64": "tl.float64"}[kind]  # fmt: skip


def shifted(source: Source, by: int) -> Source:
    """The kernel that draws behind as many words as the offset does not count yet; a multiple of 4."""
    return replace(source, text=source.text.replace(_AT, f"{_AT} + {by // 4}"))


def advance(name: str, by: int) -> Source:
    """The kernel that moves the offset on. Parameters: offset, active."""
    signature = {"offset": "*i64", ACTIVE: "*i1"}
    text = f"{HEADER}\n\n@triton.jit\ndef {name}({parameters(signature, {})}):\n"
    text += f"    go = (tl.load({ACTIVE}) != 0).to(tl.int64)\n"
    text += f"    tl.store(offset, tl.load(offset) + go * {by})\n"
    return Source(name, text, signature, {}, 1, 1)
