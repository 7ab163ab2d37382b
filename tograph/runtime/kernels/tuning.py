"""Block sizes and splits that are measured on the device and kept on disk.

``options(loops)`` are the ways to run one kernel of the loop IR: a tile, or two kernels that fold a long row in parts. The first is
the estimate, which is taken where there is no device. ``Tuner(...)`` measures the others on it, when a kernel of a *shape class* is
planned for the first time: sizes and strides count by their power of two, and by whether they are multiples of a vector. A choice is kept
in the cache folder, by the kernel's text, its shape class, the device and Triton's version.

Kernels are measured on memory of their own, full of zeros, so that nothing is done twice; never while the caller captures a CUDA graph.
A plan spends at most ``LAUNCHES`` starts and ``SECONDS`` on that; what is left over takes the estimate, and is measured by a later
plan. Launches are timed in a CUDA graph of their own, so that the host does not count. Small data stays in the device's cache
from one launch to the next. Not yet seen on a GPU.

The order in which a fold adds follows from the choice. Where torch is told to be deterministic, folds take the estimate.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ... import disk
from ..graph.types import DTYPES
from . import driver, triton_jit
from .loop_ir import ITEM_SIZES, Affine, Kernel, Unsupported
from .planning import number
from .recording import Pool
from .split_rows import LONG, MOST_PARTS, PART, Split, down, split
from .stages import Stages, staged
from .tiles import MOST_WARPS, Tile, product, tiles
from .triton_source import VECTOR, render
from .triton_text import ERROR, Source

MOST = 7  # options of one kernel
LAUNCHES = 256
SECONDS = 0.4
TIMES = 8  # launches that one measurement takes
SMALLEST = 1 << 22  # bytes of a kernel that is worth it: a shorter one takes as long as its launch
SHARE = 4  # the part of free memory that a measurement may take
CLEARLY = 0.97  # of the estimate's time: noise changes nothing

Launch = Callable[[Source, dict[str, Any]], None]


@dataclass(frozen=True)
class Option:
    """Kernels that run one after another, each with its tile. ``between``: memory that the first writes for the second."""

    parts: tuple[tuple[Kernel, Tile], ...]
    between: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", then ".join(_shown(kernel, tile) for kernel, tile in self.parts)

    def sources(self, pointers: bool) -> list[Source]:
        return [render(kernel, tile, pointers) for kernel, tile in self.parts]


@dataclass(frozen=True)
class Choice:
    """``option``, and in words how it was found: "estimated", or how long it takes."""

    option: Option
    how: str = "estimated"

    def __str__(self) -> str:
        return f"{self.option} ({self.how})"


def _shown(kernel: Kernel, tile: Tile) -> str:
    row = "" if not (kernel.row or tile.across) else f" x {tile.row}"
    walked = "" if tile.whole else " walked"
    parts = "".join(f" of {d.size} parts" for d in kernel.outer if d.name == "part")
    return f"{tile.points}{row} points{walked}{parts}, {tile.warps} warps"


# ---- what there is to choose from


def estimate(loops: Kernel) -> Choice:
    """The choice without a device."""
    return Choice(_of(loops, split(loops) or staged(loops)))


def _of(loops: Kernel, parts: Split | Stages | None) -> Option:
    if parts is None:
        return Option(((loops, tiles(loops)[0]),))
    return Option(tuple((k, tiles(k)[0]) for k in parts.kernels), parts.between)


def options(loops: Kernel) -> list[Option]:
    """The ways to run a kernel, the estimate first; every one is right."""
    found = {str(o): o for o in itertools.chain([estimate(loops).option], _others(loops))}
    return list(found.values())[:MOST]


def _others(loops: Kernel) -> Iterator[Option]:
    cut = [s for n in _counts(loops) if (s := split(loops, n) or staged(loops, n)) is not None]
    for parts in cut[:2]:
        yield _of(loops, parts)
    for tile in _around(tiles(loops)[0]):
        yield Option(((loops, tile),))
    for parts in cut[2:]:
        yield _of(loops, parts)


def _counts(loops: Kernel) -> list[int]:
    """Numbers of parts for a row that may be worth a second kernel."""
    if not loops.row:
        return []
    if columns := down(loops):
        return [max(columns // 2, 2), columns * 2]
    if product(loops.row) < LONG // 4:
        return []
    length = product(loops.row)
    return sorted({max(2, min(MOST_PARTS, length // (PART * k // 4))) for k in (1, 4, 16)})


def _around(tile: Tile) -> Iterator[Tile]:
    """A tile, and its neighbours: what a program holds, rows of a program, points of a walked row, warps."""
    yield tile
    if tile.across:
        side = tile.points * 2 if tile.points < 64 else tile.points // 2
        yield replace(tile, points=side, row=side, warps=max(side * side // 512, 1))
        yield replace(tile, points=tile.points // 2, warps=max(tile.warps // 2, 1))
    elif tile.row == 1:
        for by in (2, 4):
            yield replace(tile, points=tile.points * by, warps=min(tile.warps * by // 2, 8))
        yield replace(tile, points=max(tile.points // 2, 1))
    elif tile.whole:
        for points in (tile.points * 2, tile.points // 2):
            if points:
                yield replace(tile, points=points)
        if tile.row >= 2048:
            yield replace(tile, points=1, row=tile.row // 2, whole=False)
    else:
        yield replace(tile, row=tile.row // 2)
        yield replace(tile, row=tile.row * 2, warps=min(tile.warps * 2, MOST_WARPS))
    for warps in (tile.warps * 2, tile.warps // 2):
        if 1 <= warps <= MOST_WARPS:
            yield replace(tile, warps=warps)


# ---- measuring


class Clock:
    """Times starts on a CUDA device."""

    now = staticmethod(time.perf_counter)

    def seconds(self, start: Callable[[], None], times: int) -> float:
        """Of one start, after one that does not count, by a CUDA graph of ``times`` of them."""
        pool, graph = (
            Pool(torch.device("cuda", torch.cuda.current_device())),
            torch.cuda.CUDAGraph(),
        )
        stream = pool.stream(0)
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start()
        with pool.recording(graph, stream):
            for _ in range(times):
                start()
        with torch.cuda.stream(stream):
            graph.replay()
            before.record()
            graph.replay()
            after.record()
        after.synchronize()
        return before.elapsed_time(after) / 1e3 / times


class Tuner:
    """``tuner(loops, pointers)`` is the choice for a kernel on a device; it spends the budget of one plan."""

    def __init__(
        self,
        device: str,
        launch: Launch,
        architecture: Callable[[], str] | None = None,
        clock: Any = None,
    ):
        """``architecture``: what options are compiled for, side by side, before the first is measured."""
        self.device, self.launch, self.clock = torch.device(device), launch, clock or Clock()
        self.architecture = architecture
        self._cuda = self.device.type == "cuda"
        self._launches = LAUNCHES
        self._end: float | None = None

    def __call__(self, loops: Kernel, pointers: bool = True) -> Choice:
        first = estimate(loops)
        if moved(loops) < SMALLEST or self._busy() or _ordered(loops):
            return first
        every = options(loops)
        name = self._name(loops, pointers)
        known = _kept(name, {str(o): o for o in every})
        return known or self._measured(loops, pointers, every, name) or first

    def _busy(self) -> bool:
        """Whether the caller captures what it does."""
        return self._cuda and torch.cuda.is_current_stream_capturing()

    def _name(self, loops: Kernel, pointers: bool) -> str:
        parts = (text(loops), str(pointers), device_name(self.device), triton_jit.version())
        return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.tile"

    def _measured(
        self, loops: Kernel, pointers: bool, every: list[Option], name: str
    ) -> Choice | None:
        """The fastest option; None where there is no time, or no memory, for any."""
        if self.architecture is not None:
            sources, here = [s for o in every for s in o.sources(pointers)], self.architecture()
            triton_jit.compile_all([(s, here, None) for s in sources], linked=bool(driver.loadable()))  # fmt: skip
        if self._end is None:
            self._end = self.clock.now() + SECONDS
        found: dict[str, float] = {}
        complete = True
        for option in every:
            if self._launches < TIMES or self.clock.now() > self._end:
                complete = False
                break
            try:
                with torch.cuda.device(self.device) if self._cuda else contextlib.nullcontext():
                    found[str(option)] = self._seconds(loops, option, pointers)
            except Unsupported:  # such as more shared memory than there is
                continue
            # Too little memory, or a driver that cannot do it: a plan does not need this.
            except Exception:
                self._launches = 0
                return None
        if not found:
            return None
        first, best = next(iter(found.items())), min(found.items(), key=lambda pair: pair[1])
        if best[1] > CLEARLY * first[1]:
            best = first
        if complete:
            disk.store(name, json.dumps({"option": best[0], "seconds": best[1], "all": found}).encode())  # fmt: skip
        return Choice(next(o for o in every if str(o) == best[0]), _how(best[1]))

    def _seconds(self, loops: Kernel, option: Option, pointers: bool) -> float:
        starts = [(s, self._scratch(loops, option, s)) for s in option.sources(pointers)]
        self._launches -= TIMES * len(starts)

        def start() -> None:
            for source, arguments in starts:
                self.launch(source, arguments)

        return self.clock.seconds(start, TIMES)

    def _scratch(self, loops: Kernel, option: Option, source: Source) -> dict[str, Any]:
        """Memory for the parameters of a kernel that belongs to nobody."""
        spaces = _spaces(loops) | {n: (d, size) for n, (d, size) in option.between.items()}
        spaces |= {s.name: (s.dtype, 1) for s in loops.scalars} | {ERROR: ("i32", 1)}
        wanted = {n: spaces[n] for n in source.signature}
        if sum(ITEM_SIZES[d] * size for d, size in wanted.values()) > _free(self.device) // SHARE:
            raise torch.OutOfMemoryError("not enough memory to measure a kernel")
        made = {n: torch.zeros(size, dtype=DTYPES[d], device=self.device) for n, (d, size) in wanted.items()}  # fmt: skip
        return {n: made[n] if source.signature[n].startswith("*") else _zero(spaces[n][0]) for n in wanted}  # fmt: skip


def _how(seconds: float) -> str:
    return f"measured, {seconds * 1e6:.1f} us"


def _zero(dtype: str) -> Any:
    return False if dtype == "bool" else 0.0 if dtype.startswith("f") else 0


def _free(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 1 << 40


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _ordered(loops: Kernel) -> bool:
    """Whether the order of a fold has been asked to be always the same."""
    folds = any(e.op in ("reduce", "scan") for e in loops.body)
    return folds and torch.are_deterministic_algorithms_enabled()


def moved(loops: Kernel) -> int:
    """Bytes that a kernel reads and writes, each once."""
    return sum(ITEM_SIZES[dtype] * size for dtype, size in _spaces(loops).values())


def _spaces(loops: Kernel) -> dict[str, tuple[str, int]]:
    """dtype and number of elements of each buffer, as far as a kernel that is given zeros may reach."""
    sizes = {d.name: number(d.size) for d in (*loops.outer, *loops.row)}
    reach = {b.name: 1 for b in loops.buffers}
    places = [(e.name, e.address) for e in loops.body if e.op == "load" and e.address is not None]
    for name, at in (*places, *((s.buffer, s.address) for s in loops.stores)):
        last = at.offset + sum(max(0, number(f)) * (sizes[n] - 1) for n, f in at.terms)
        reach[name] = max(reach[name], last + 1)
    return {b.name: (b.dtype, reach[b.name]) for b in loops.buffers}


# ---- what is kept


def _kept(name: str, every: Mapping[str, Option]) -> Choice | None:
    """The choice in a file; None where there is none, or a file of something else."""
    data = disk.load(name)
    try:
        found = json.loads(data) if data is not None else {}
        return Choice(every[found["option"]], _how(float(found["seconds"])))
    except (ValueError, KeyError, TypeError):
        return None


def text(loops: Kernel) -> str:
    """A kernel without its name, with sizes and strides by their class."""
    dims = [f"{d.name}<{_class(number(d.size))}" for d in (*loops.outer, *loops.row)]
    buffers = [f"{b.name}: {b.dtype}" for b in loops.buffers]
    body = [_expression(e) for e in loops.body]
    stores = [f"{s.buffer}[{_address(s.address)}] = %{s.value.number}" for s in loops.stores]
    return "\n".join([*dims, f"row {len(loops.row)}", *buffers, *body, *stores])


def _expression(e: Any) -> str:
    at = "" if e.address is None else f"[{_address(e.address)}]"
    args = " ".join(f"%{a.number}" for a in e.args)
    return f"%{e.number}: {e.dtype} = {e.op} {e.name}{at} {e.value!r} {args}"


def _address(at: Affine) -> str:
    terms = [f"{_class(number(f))}*{n}" for n, f in at.terms]
    terms += [f"{_class(number(f))}*%{e.number}" for e, f in at.gathers]
    return " + ".join([*terms, str(at.offset % VECTOR)])


def _class(n: int) -> str:
    """The class of a size or stride."""
    if abs(n) <= VECTOR:
        return str(n)
    power = 1 << (abs(n) - 1).bit_length()
    kind = "" if abs(n) == power else "v" if n % VECTOR == 0 else "r"
    return f"{'-' if n < 0 else ''}{power}{kind}"
