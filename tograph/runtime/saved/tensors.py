"""Tensors of a saved file: one safetensors part, and a row for each tensor. The only importer of safetensors.

Tensors that share memory share it again after loading: a storage that several tensors see is kept once, as bytes, and
each row says where its tensor lies in it. A storage that one tensor sees is kept as that tensor, under its name.
"""

from __future__ import annotations

import json
from typing import Any

import safetensors.torch
import torch

from ...errors import CorruptFileError, UnsavableError
from ..graph.types import DTYPE_NAMES, DTYPES
from ..recording.variables import Variable

_CLASSES = {torch.Tensor: "tensor", torch.nn.Parameter: "parameter", Variable: "variable"}
_PAIRS = (torch.complex32, torch.complex128)


class TensorTable:
    """The tensors to save, in the order in which they were met. ``wishes``: names for tensors, by id."""

    def __init__(self, wishes: dict[int, str]):
        self.wishes = wishes
        self.places: dict[int, int] = {}
        self.tensors: list[torch.Tensor] = []
        self.names: list[str] = []

    def add(self, x: torch.Tensor) -> int:
        """The position of a tensor."""
        if id(x) not in self.places:
            name = self.wishes.get(id(x)) or getattr(x, "name_", None) or ""
            _check(x, name)
            self.places[id(x)] = len(self.tensors)
            self.tensors.append(x)
            self.names.append(self._unique(name or "captured"))
        return self.places[id(x)]

    def _unique(self, name: str) -> str:
        made, n = name, 1
        while made in self.names:
            n += 1
            made = f"{name}.{n}"
        return made

    def part(self) -> bytes:
        """The safetensors part."""
        kept: dict[str, torch.Tensor] = {}
        for members in self._storages().values():
            x = self.tensors[members[0]].detach()
            kept[self.names[members[0]]] = _packed(x) if len(members) == 1 else _bytes_of(x).cpu()
        return safetensors.torch.save(kept)

    def rows(self) -> list[dict[str, Any]]:
        """What is needed to make each tensor again."""
        rows: list[dict[str, Any]] = [{} for _ in self.tensors]
        for members in self._storages().values():
            for i in members:
                x = self.tensors[i]
                shared = len(members) > 1
                rows[i] = {
                    "name": self.names[i], "class": _CLASSES[type(x)], "dtype": DTYPE_NAMES[x.dtype], "shape": list(x.shape),
                    "stride": list(x.stride()), "device": str(x.device), "requires_grad": x.requires_grad,
                    "in": self.names[members[0]], "offset": x.storage_offset() if shared else None,
                }  # fmt: skip
        return rows

    def _storages(self) -> dict[tuple[str, int], list[int]]:
        """The positions of tensors by the memory that they share; empty ones share nothing."""
        found: dict[tuple[str, int], list[int]] = {}
        for i, x in enumerate(self.tensors):
            pointer = x.untyped_storage().data_ptr()
            alone = not pointer or x.is_conj() or x.is_neg()
            key = ("", i) if alone else (str(x.device), pointer)
            found.setdefault(key, []).append(i)
        return found


def _check(x: torch.Tensor, name: str) -> None:
    what = f"the tensor {name!r}" if name else "a captured tensor"
    if type(x) not in _CLASSES:
        raise UnsavableError(f"{what} is a {type(x).__name__}, which a saved file cannot hold")
    if x.layout != torch.strided or x.dtype not in DTYPE_NAMES or x.is_quantized:
        raise UnsavableError(f"{what} is {x.dtype} {x.layout}, which a saved file cannot hold")
    if x.device.type == "meta":
        raise UnsavableError(f"{what} is on the meta device: it has no content")


def _packed(x: torch.Tensor) -> torch.Tensor:
    """The elements in order; complex numbers that safetensors does not know are pairs of real ones."""
    x = x.resolve_conj().resolve_neg().contiguous().cpu()
    return torch.view_as_real(x) if x.dtype in _PAIRS else x


def _bytes_of(x: torch.Tensor) -> torch.Tensor:
    storage = x.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(storage)


def restore(rows: list[dict[str, Any]], part: bytes, path: str) -> list[torch.Tensor]:
    """The tensors of a file, each on the device that it was saved from; CorruptFileError where a row does not fit."""
    try:
        kept = safetensors.torch.load(part)
    except (safetensors.SafetensorError, ValueError, KeyError, json.JSONDecodeError) as error:
        raise CorruptFileError(f"{path}: its tensors cannot be read: {error}") from None
    moved: dict[tuple[str, str], torch.Tensor] = {}
    return [_restored(row, kept, moved) for row in rows]


def _restored(row: dict, kept: dict, moved: dict) -> torch.Tensor:
    device = torch.device(row["device"])
    shape, stride = row["shape"], row["stride"]
    if row["offset"] is None:
        x = kept[row["in"]].to(device)
        x = torch.view_as_complex(x) if DTYPES[row["dtype"]] in _PAIRS else x
        if list(x.shape) != shape or x.dtype != DTYPES[row["dtype"]]:
            raise CorruptFileError(f"the tensor {row['name']!r} is not what the file says")
        x = _with_strides(x, stride)
    else:
        key = (row["in"], row["device"])
        if key not in moved:
            moved[key] = kept[row["in"]].to(device)
        x = _placed(moved[key], row)
    return _of_class(x, row)


def _with_strides(x: torch.Tensor, stride: list[int]) -> torch.Tensor:
    """The tensor in the memory order it had; one that overlapped itself or had gaps is packed."""
    dense = sorted((s, n) for s, n in zip(stride, x.shape) if n != 1)
    step = 1
    for s, n in dense:
        if s != step:
            return x.contiguous()
        step *= n
    if list(x.stride()) == stride or not x.numel():
        return x
    return torch.empty_strided(x.shape, stride, dtype=x.dtype, device=x.device).copy_(x)


def _placed(storage: torch.Tensor, row: dict) -> torch.Tensor:
    """A tensor inside a storage that others see as well."""
    dtype = DTYPES[row["dtype"]]
    last = sum((n - 1) * s for n, s in zip(row["shape"], row["stride"])) + row["offset"]
    numbers = [*row["shape"], *row["stride"], row["offset"]]
    if min(numbers, default=0) < 0 or (last + 1) * dtype.itemsize > storage.numel():
        raise CorruptFileError(f"the tensor {row['name']!r} lies outside of the file")
    return torch.empty(0, dtype=dtype, device=storage.device).set_(
        storage.untyped_storage(), row["offset"], row["shape"], row["stride"]
    )


def _of_class(x: torch.Tensor, row: dict) -> torch.Tensor:
    grad = row["requires_grad"]
    if row["class"] == "parameter":
        return torch.nn.Parameter(x, requires_grad=grad)
    if row["class"] == "variable":
        made = torch.Tensor._make_subclass(Variable, x, grad)
        made.name_ = row["name"]
        return made
    return x.requires_grad_(grad)
