"""Memory that grows while native code runs: lists, and tensors whose length only the run knows.

A program has a fixed number of buffers. A buffer is two words in the program's table: where its block is, and the block's
capacity in bytes. A block that was outgrown stays until the call ends where tensors that are still needed are in it; the table's
first word heads the chain of these. Blocks are kept for the next call. One that leaves as the memory of a result comes back when
the result is dropped: a loop that trains neither allocates nor touches fresh pages.

The text names no address: the arena's second word points to the table.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch

from ..kernels import jit
from .code import RARE
from .values import Decline, Mem

if TYPE_CHECKING:
    from .lower import Lowering

KEPT = 2  # blocks of dropped results that a buffer keeps
COPIED = 1 << 17  # bytes of a result that are copied sooner than a block is handed over
WASTE = 4  # times what a result needs that its block may have
LEAST = 4096  # bytes of the first block of a buffer
HEADER = 128  # bytes in front of a block: where it was allocated, and the next outgrown one

# A block is aligned to 64 bytes; 16 bytes before it is the address to free, 8 bytes before it the next in the chain.
TEXT = f"""define internal ptr @room(ptr %table, ptr %place, i64 %used, i64 %need, i1 %stays) #0 {{
  %data = load ptr, ptr %place
  %capacity_place = getelementptr i8, ptr %place, i64 8
  %capacity = load i64, ptr %capacity_place
  %fits = icmp ule i64 %need, %capacity
  %there = icmp ne ptr %data, null
  %enough = and i1 %fits, %there
  br i1 %enough, label %done, label %more, !prof !8
more:
  %new = call ptr @grow(ptr %table, ptr %place, i64 %used, i64 %need, i1 %stays)
  br label %done
done:
  %result = phi ptr [%data, %0], [%new, %more]
  ret ptr %result
}}
define internal ptr @grow(ptr %table, ptr %place, i64 %used, i64 %need, i1 %stays) {RARE} {{
  %data = load ptr, ptr %place
  %capacity_place = getelementptr i8, ptr %place, i64 8
  %capacity = load i64, ptr %capacity_place
  %twice = shl i64 %capacity, 1
  %larger = call i64 @llvm.umax.i64(i64 %twice, i64 %need)
  %bytes = call i64 @llvm.umax.i64(i64 %larger, i64 {LEAST})
  %all = add i64 %bytes, {HEADER}
  %first = icmp eq ptr %data, null
  %apart = or i1 %first, %stays
  br i1 %apart, label %new_block, label %larger_block
larger_block:
  %own_place = getelementptr i8, ptr %data, i64 -16
  %own = load ptr, ptr %own_place
  %own_address = ptrtoint ptr %own to i64
  %data_address = ptrtoint ptr %data to i64
  %offset = sub i64 %data_address, %own_address
  %grown = call ptr @realloc(ptr %own, i64 %all)
  %kept = icmp eq ptr %grown, null
  br i1 %kept, label %none, label %moved
moved:
  %grown_address = ptrtoint ptr %grown to i64
  %grown_behind = add i64 %grown_address, {HEADER - 1}
  %grown_aligned = and i64 %grown_behind, -64
  %to = inttoptr i64 %grown_aligned to ptr
  %from = getelementptr i8, ptr %grown, i64 %offset
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %used, i1 false)
  %grown_place = getelementptr i8, ptr %to, i64 -16
  store ptr %grown, ptr %grown_place
  store ptr %to, ptr %place
  store i64 %bytes, ptr %capacity_place
  ret ptr %to
new_block:
  %raw = call ptr @malloc(i64 %all)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %none, label %made
made:
  %address = ptrtoint ptr %raw to i64
  %behind = add i64 %address, {HEADER - 1}
  %aligned = and i64 %behind, -64
  %new = inttoptr i64 %aligned to ptr
  %raw_place = getelementptr i8, ptr %new, i64 -16
  store ptr %raw, ptr %raw_place
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %used, i1 false)
  store ptr %new, ptr %place
  store i64 %bytes, ptr %capacity_place
  br i1 %first, label %ready, label %outgrown
outgrown:
  %head = load ptr, ptr %table
  %next_place = getelementptr i8, ptr %data, i64 -8
  store ptr %head, ptr %next_place
  store ptr %data, ptr %table
  br label %ready
ready:
  ret ptr %new
none:
  ret ptr null
}}
define internal void @sweep(ptr %table) {RARE} {{
  br label %look
look:
  %block = load ptr, ptr %table
  %end = icmp eq ptr %block, null
  br i1 %end, label %done, label %drop
drop:
  %next_place = getelementptr i8, ptr %block, i64 -8
  %next = load ptr, ptr %next_place
  store ptr %next, ptr %table
  %raw_place = getelementptr i8, ptr %block, i64 -16
  %raw = load ptr, ptr %raw_place
  call void @free(ptr %raw)
  br label %look
done:
  ret void
}}
!8 = !{{!"branch_weights", i32 1000, i32 1}}
"""


def available() -> bool:
    """Whether there are the functions of C that buffers need."""
    return jit.symbols("malloc", "realloc", "free") is not None


class Plan:
    """The buffers of one function while it is written. Each has an owner, which stands for what is in it."""

    def __init__(self, low: Lowering):
        self.low, self.count = low, 0
        self._free: list[int] = []
        self._number: dict[int, int] = {}

    def new(self) -> tuple[str, int]:
        """(the place of a buffer, its owner), which nobody holds yet."""
        low = self.low
        if not self.count:
            _use(low)
        for owner, number in list(self._number.items()):
            if not low.arena.exists(owner):
                self._free.append(number)
                del self._number[owner]
        if self._free:
            number = self._free.pop()
        else:
            number, self.count = self.count, self.count + 1
        owner = low.arena.mark()
        self._number[owner] = number
        return low.code.do(f"getelementptr i64, ptr {self.table()}, i64 {1 + 2 * number}"), owner

    def table(self) -> str:
        """The table of buffers."""
        code = self.low.code
        return code.do(f"load ptr, ptr {code.do(f'getelementptr i8, ptr {self.low.base}, i64 8')}")

    def room(self, place: str, used: str, need: str, owners: frozenset[int]) -> str:
        """The block of a buffer, with room for ``need`` bytes, the first ``used`` of them as they were.

        ``owners``: those of what is in it; while there is a tensor of theirs a block that was outgrown stays. Without, it stays.
        """
        code, stays = self.low.code, "true" if self.stays(owners) else "false"
        given = f"ptr {self.table()}, ptr {place}, i64 {used}, i64 {need}, i1 {stays}"
        data = code.do(f"call ptr @room({given})")
        self.low.fail(code.do(f"icmp eq ptr {data}, null"))
        return data

    def stays(self, owners: frozenset[int]) -> bool:
        """Whether a block that is outgrown stays, whose content has these owners."""
        values = [*self.low.env.values(), *self.low.written.values()]
        return not owners or any(
            isinstance(x, Mem) and not x.owners.isdisjoint(owners) for x in values
        )

    def sweep(self) -> str:
        """The instructions that free outgrown blocks; empty where there are no buffers."""
        if not self.count:
            return ""
        code = self.low.code
        at, table = (f"%{code.fresh('swept')}" for _ in range(2))
        return (
            f"{at} = getelementptr i8, ptr {self.low.base}, i64 8\n  {table} = load ptr, ptr {at}\n"
            f"  call void @sweep(ptr {table})"
        )


def _use(low: Lowering) -> None:
    if not available():
        raise Decline("malloc is not at hand")
    low.globals["buffers"] = TEXT
    declares = low.code.declares
    declares["realloc"] = "declare ptr @realloc(ptr, i64)"
    declares["llvm.memmove.p0.p0.i64"] = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)"
    declares["malloc"] = "declare ptr @malloc(i64)"
    declares["free"] = "declare void @free(ptr)"
    declares["llvm.umax.i64"] = "declare i64 @llvm.umax.i64(i64, i64)"
    declares["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


class _Block:
    """The memory of a result: it goes back to its buffer when the last tensor in it is dropped."""

    def __init__(self, buffers: Buffers, place: int, data: int, capacity: int):
        self.buffers, self.place, self.data, self.capacity = buffers, place, data, capacity

    def __del__(self) -> None:
        self.buffers.back(self.place, self.data, self.capacity)


class Left:
    """Elements that a call left at the start of a block: a tensor when somebody asks for it, which only other native code may never do."""

    __slots__ = ("block", "dtype", "shape")

    def __init__(self, block: _Block, dtype: torch.dtype, shape: tuple[int, ...]):
        self.block, self.dtype, self.shape = block, dtype, shape

    def __len__(self) -> int:
        return self.shape[0]

    def data_ptr(self) -> int:
        """Where they are."""
        return self.block.data

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def tensor(self) -> torch.Tensor:
        """A tensor that owns the block."""
        block = self.block
        return tensor_over(block, block.data, block.capacity, self.dtype, self.shape)


def tensor_over(
    owner: object, data: int, capacity: int, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor:
    """A tensor of what stands at the start of a block; it keeps ``owner`` alive."""
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    memory: Any = (ctypes.c_char * capacity).from_address(data)
    memory.owner = owner
    count = torch.Size(shape).numel()
    return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)


class Buffers:
    """The table of one program's buffers, and the blocks of results that were dropped."""

    def __init__(self, count: int):
        self._table = (ctypes.c_int64 * (1 + 2 * count))()
        self._kept: dict[int, list[tuple[int, int]]] = {}
        self._empty: set[int] = set()
        self._release = _free()

    @property
    def address(self) -> int:
        """Where the table is."""
        return ctypes.addressof(self._table)

    def refill(self) -> None:
        """Give back kept blocks to the buffers whose blocks left; not while the code runs."""
        for place in list(self._empty):
            at, kept = (place - self.address) // 8, self._kept.get(place)
            if not self._table[at] and kept:
                self._table[at], self._table[at + 1] = kept.pop()
            if self._table[at]:  # that, or a block that a call has allocated
                self._empty.discard(place)

    def read(self, place: int, nbytes: int) -> bytes:
        """What stands at the start of a buffer."""
        return ctypes.string_at(self._table[(place - self.address) // 8], nbytes) if nbytes else b""

    def take(self, place: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """The elements at the start of a buffer as a tensor that owns the block."""
        found = self.left(place, dtype, shape)
        return found.tensor() if isinstance(found, Left) else found

    def left(self, place: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Left | torch.Tensor:
        """The same, where it need not be a tensor yet."""
        at = (place - self.address) // 8
        data, capacity = self._table[at], self._table[at + 1]
        if 0 in shape or not data:
            return torch.empty(shape, dtype=dtype)
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        # An earlier call needed much more.
        if nbytes <= COPIED or capacity > WASTE * max(nbytes, LEAST):
            made = torch.empty(shape, dtype=dtype)
            ctypes.memmove(made.data_ptr(), data, nbytes)
            return made
        self.give(place)
        return Left(_Block(self, place, data, capacity), dtype, shape)

    def give(self, place: int) -> tuple[int, int]:
        """The block of a buffer, and its capacity; it belongs to the caller now."""
        at = (place - self.address) // 8
        data, capacity = self._table[at], self._table[at + 1]
        self._table[at] = self._table[at + 1] = 0
        self._empty.add(place)
        self.refill()
        return data, capacity

    def back(self, place: int, data: int, capacity: int) -> None:
        """Take a block back from a result that was dropped."""
        kept = self._kept.setdefault(place, [])
        if len(kept) < KEPT:
            kept.append((data, capacity))
        else:
            self.drop(data)

    def drop(self, data: int) -> None:
        """Free a block."""
        self._release(ctypes.c_int64.from_address(data - 16).value)

    def __del__(self) -> None:
        blocks = [data for kept in self._kept.values() for data, _ in kept]
        blocks += [data for data in self._table[1::2] if data]
        outgrown = self._table[0]
        while outgrown:
            blocks.append(outgrown)
            outgrown = ctypes.c_int64.from_address(outgrown - 8).value
        for data in blocks:
            self.drop(data)


def _free() -> Any:
    address = jit.symbol("free")
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address) if address else None
