"""Random numbers of torch's CUDA generator as Triton kernels, drawn from a seed and an offset in the device's memory.

The generator is Philox 4x32 with 10 rounds (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011). Its key is the seed; its counter is the offset over 4 in the low half and the number of a thread in the high half, and
one step gives four 32-bit words. Which element gets which word follows torch's CUDA kernels, so that a seed gives what it
gives in eager PyTorch there (*not yet seen on a GPU*):

``grid``  ``threads`` threads take the elements in turn, four turns for each step of the generator
``runs``  each thread takes ``run`` (4 or 2) elements that lie beside each other: dropout of a multiple of that many elements

A word ``w`` is the number ``w * 2**-32 + 2**-33`` of (0, 1]; two words make two normal numbers (G. Box, M. Muller, 1958). An
op moves the offset on by ``words(...)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tiles import power_of_two
from .triton_rows import ACTIVE
from .triton_source import HEADER, Source, parameters

THREADS = 256  # of a block of torch's kernels
BLOCK = 256

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
    return s * libdevice.sin(angle), s * libdevice.cos(angle)
"""


@dataclass(frozen=True)
class Draw:
    """What is drawn. ``kind``: uniform (of [low, high)), normal (mean, deviation), bernoulli (p), dropout (p), integers (of [low, high))."""

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


def words(count: int, most: int) -> int:
    """By how much the offset grows."""
    return ((count - 1) // (threads(count, most) * 4) + 1) * 4 if count else 0


def run_of(draw: Draw, count: int) -> int:
    """How many elements beside each other a thread of torch's kernel takes; 1 for those in turn."""
    return 1 if draw.kind != "dropout" or count % 2 else 2 if count % 4 else 4


def render(name: str, draw: Draw, count: int, most: int, kind: str, comment: str = "") -> Source:
    """The kernel for ``count`` elements of type ``kind``, such as "fp32". Parameters: the draw's, seed, offset."""
    steps = -(-count // 4)
    total, run = threads(count, most), run_of(draw, count)
    if run == 1:
        steps = (-(-count // (total * 4))) * total
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
    ]
    if draw.kind == "normal":
        lines += ["n0, n1 = _normal(w0, w1)", "n2, n3 = _normal(w2, w3)"]
    for j in range(4):
        lines += [f"i = {_element(j, run, total)}", f"mask = i < {count}", *_value(draw, j)]
    text = HEADER + _UNIFORM * (draw.kind != "integers") + _NORMAL * (draw.kind == "normal")
    text += f"\n\n{comment}@triton.jit\ndef {name}({parameters(signature, {'XBLOCK': block})}):\n"
    text += "".join(f"    {line}\n" for line in lines)
    return Source(name, text, signature, {"XBLOCK": block}, -(-steps // block), max(block // 64, 1))


def _element(j: int, run: int, total: int) -> str:
    """The element that word ``j`` of a step is for."""
    if run == 4:
        return f"q * 4 + {j}"
    if run == 2:
        return f"((turn * 2 + {j // 2}) * {total} + thread) * 2 + {j % 2}"
    return f"(turn * 4 + {j}) * {total} + thread"


def _value(draw: Draw, j: int) -> list[str]:
    a, b = draw.first, draw.second
    if draw.kind == "uniform":
        # The end that belongs to the interval is the lower one.
        value = f"_uniform(w{j}) * {b - a!r} + {a!r}"
        return [f"v = {value}", f"tl.store(out + i, tl.where(v == {b!r}, {a!r}, v), mask)"]
    if draw.kind == "normal":
        return [f"tl.store(out + i, n{j} * {b!r} + {a!r}, mask)"]
    if draw.kind == "bernoulli":
        return [f"tl.store(out + i, (_uniform(w{j}) < {a!r}).to(out.dtype.element_ty), mask)"]
    if draw.kind == "integers":
        return [f"tl.store(out + i, (w{j} % {int(b - a)}).to(tl.int64) + {int(a)}, mask)"]
    keep = 1.0 - a
    return [
        f"k = _uniform(w{j}) < {keep!r}",
        f"tl.store(out + i, tl.load(x + i, mask, other=0) * k.to(tl.float32) * {1.0 / keep!r}, mask)",
        "tl.store(kept + i, k, mask)",
    ]


def advance(name: str, by: int) -> Source:
    """The kernel that moves the offset on. Parameters: offset, active."""
    signature = {"offset": "*i64", ACTIVE: "*i1"}
    text = f"{HEADER}\n\n@triton.jit\ndef {name}({parameters(signature, {})}):\n"
    text += f"    go = (tl.load({ACTIVE}) != 0).to(tl.int64)\n"
    text += f"    tl.store(offset, tl.load(offset) + go * {by})\n"
    return Source(name, text, signature, {}, 1, 1)
