"""Tensors that were returned and that nobody has any more: the call path returns them again instead of making new ones.

Making a small tensor and its Python object, and giving both back, is most of the time of a short call. So an entry keeps its
latest small results. One that only the entry refers to, and that is still in the state in which it was made, cannot be told
from a new one. That is decided by comparing: of the Python object all words but the reference count, of the C++ tensor and of its storage
all words up to the last that matters, reference counts included, and the version. An attribute, a weak reference, a view, a saved tensor of autograd, a hook,
another shape or storage, a write in place: each changes one of these.

``offsets()`` finds where the parts are, and ``noticed`` makes all these changes to see that the code notices each. Where it does
not, or anything is not as expected, every result is new.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from .layout import SAMPLES, layout

SMALL = 4096  # bytes: what an entry keeps
KEPT = 2  # for each result: a loop ``x = f(x)`` holds one while it makes the next
_STORAGE = 56  # bytes of a storage that matter: reference counts, data, deleter, device, size
_MANAGED = 1 << 4 | 1 << 3  # flags of a type whose objects have a dict or weak references in front
_INLINE = 1 << 2  # and of one whose objects have attributes behind


@dataclass(frozen=True)
class Offsets:
    """Bytes: ``front`` of what is before the Python object, its ``body`` behind the reference count, ``tensor`` of the C++ tensor; where the
    C++ tensor refers to its ``storage`` and ``counter``, and where that has the ``version``."""

    front: int
    body: int
    tensor: int
    storage: int
    counter: int
    version: int

    @property
    def size(self) -> int:
        """Bytes of a snapshot."""
        return (self.front + self.body + self.tensor + _STORAGE + 4 + 15) // 16 * 16


def text(at: Offsets, handle: int) -> str:
    """LLVM functions: ``note`` writes a snapshot of a tensor's Python object, ``untouched`` compares with it; ``handle``: where the
    object refers to the C++ tensor."""
    parts = (("object", -32, at.front), ("object", 8, at.body), ("tensor", 0, at.tensor), ("storage", 0, _STORAGE), ("counter", at.version, 4))  # fmt: skip
    find = (
        f"  %handle = getelementptr i8, ptr %object, i64 {handle}\n  %tensor = load ptr, ptr %handle\n"
        f"  %held = getelementptr i8, ptr %tensor, i64 {at.storage}\n  %storage = load ptr, ptr %held\n"
        f"  %counted = getelementptr i8, ptr %tensor, i64 {at.counter}\n  %counter = load ptr, ptr %counted\n"
    )
    copies, compares, place = "", "", 0
    for k, (base, start, size) in enumerate(parts):
        if size:
            ends = f"  %a{k} = getelementptr i8, ptr %{base}, i64 {start}\n  %b{k} = getelementptr i8, ptr %snapshot, i64 {place}\n"
            copies += ends + f"  call void @llvm.memcpy.p0.p0.i64(ptr %b{k}, ptr %a{k}, i64 {size}, i1 false)\n"  # fmt: skip
            # The parts that follow are looked for only in an object that is the same so far.
            compares += (find if base == "tensor" else "") + ends
            compares += f"  %c{k} = call i32 @memcmp(ptr %a{k}, ptr %b{k}, i64 {size})\n  %same{k} = icmp eq i32 %c{k}, 0\n"
            compares += f"  br i1 %same{k}, label %on{k}, label %touched\non{k}:\n"
        place += size
    return f"""declare i32 @memcmp(ptr, ptr, i64)
define void @note(ptr %object, ptr %snapshot) {{
{find}{copies}  ret void
}}
define i1 @untouched(ptr %object, ptr %snapshot) {{
  %count = load i32, ptr %object
  %ours = icmp eq i32 %count, 1
  br i1 %ours, label %on, label %touched
on:
{compares}  ret i1 true
touched:
  ret i1 false
}}
"""


def offsets() -> Offsets | None:
    """Where this torch and this Python keep what may change, or None."""
    found = layout()
    if found is None or "free-threading" in sys.version:
        return None
    try:
        with torch.inference_mode(False):  # versions count
            return _probe(max(found.keys, found.dtype) + 8)
    except LookupError:
        return None


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _probe(tensor: int) -> Offsets:
    flags, size = torch.Tensor.__flags__, torch.Tensor.__basicsize__
    storage, counter, x = _pointers(tensor // 8)
    return Offsets(
        16 if flags & _MANAGED else 0, size - 8 + (8 if flags & _INLINE else 0), tensor, 8 * storage, 8 * counter,
        _version(x, _words(x._cdata, counter + 1)[counter]),
    )  # fmt: skip


def _pointers(words: int) -> tuple[int, int, torch.Tensor]:
    """The one word that refers to the storage, the one to the version counter, and a tensor.

    An alias has its base's counter and no other tensor has it. Padding holds what was in the memory before; all the tensors live at once, and
    the aliases are made in another order, so that it does not look the same by chance.
    """
    made = [torch.empty(3) for _ in range(SAMPLES)]
    aliases = [x.detach() for x in reversed(made)][::-1]
    mine, same = (list(zip(*(_words(x._cdata, words) for x in xs))) for xs in (made, aliases))
    held = tuple(x.untyped_storage()._cdata for x in made)
    storages = [i for i, seen in enumerate(mine) if seen == held]
    counters = [i for i, seen in enumerate(mine) if seen == same[i] != held and len(set(seen)) == SAMPLES]  # fmt: skip
    if len(storages) != 1 or len(counters) != 1:
        raise LookupError("the storage or the version of a tensor was not found")
    return storages[0], counters[0], made[0]


def _version(x: torch.Tensor, counter: int) -> int:
    """The one place behind the reference counts of a version counter that counts."""
    places = {8, 12, 16, 20}
    for _ in range(3):
        x.zero_()
        places &= {p for p in places if ctypes.c_uint32.from_address(counter + p).value == x._version}  # fmt: skip
    if len(places) != 1:
        raise LookupError("the version of a tensor was not found")
    return places.pop()


with torch.inference_mode(False):
    _weight = torch.ones((), requires_grad=True)

# What may be done to a result; what an action returns is held while the result is looked at.
CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "name": lambda x: x,
    "attribute": lambda x: setattr(x, "_tograph_probe", 1),
    "weak reference": weakref.ref,
    "view": lambda x: x[1:],
    "alias": torch.Tensor.detach,
    "storage": torch.Tensor.untyped_storage,
    "saved by autograd": lambda x: x * _weight,
    "wants a gradient": torch.Tensor.requires_grad_,
    "gradient": lambda x: setattr(x, "grad", torch.ones_like(x)),
    "write": torch.Tensor.zero_,
    "shape": lambda x: x.unsqueeze_(0),
    "strides": lambda x: x.resize_(2),
    "other memory": lambda x: x.set_(torch.ones(3)),  # type: ignore[call-overload]
    "data": lambda x: setattr(x, "data", torch.ones(3)),
    "more memory": lambda x: x.untyped_storage().resize_(64),
    "capsule": torch.utils.dlpack.to_dlpack,
    "array": torch.Tensor.numpy,
}


def noticed(at: Offsets, code: Mapping[str, int]) -> bool:
    """Whether a tensor that was left alone is recognised, and every change noticed. ``code``: the addresses of the functions of ``text``."""
    note = ctypes.PYFUNCTYPE(None, ctypes.c_size_t, ctypes.c_void_p)(code["note"])
    untouched = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p)(code["untouched"])  # fmt: skip
    snapshot = (ctypes.c_char * at.size)()

    def seen(change: Callable[[torch.Tensor], object] | None) -> bool:
        kept = [torch.empty(3)]
        address = id(kept[0])
        note(address, snapshot)
        held = change(kept[0]) if change is not None else None
        same = untouched(address, snapshot)
        del held
        return not same

    # A thread has gradients on, and none of the caller's modes and hooks: a checkpoint counts what is saved.
    with ThreadPoolExecutor(1, "tograph probe") as thread:
        return thread.submit(lambda: not seen(None) and all(map(seen, CHANGES.values()))).result()
