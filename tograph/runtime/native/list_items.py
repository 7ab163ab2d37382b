"""What lists and optionals may hold in native code, and in how many buffers it stands.

Items: tensors, numbers, and lists and optionals of such items. A tensor one size of which only the run knows is, as an item, the list of
its parts along that dimension. Anything else declines.
"""

from __future__ import annotations

from ..graph.types import DTYPE_NAMES, ListType, OptionalType, ScalarType, TensorType, Type, is_open
from .code import SIZE
from .extents import unknown
from .values import Decline, numel

PAIR = 16  # bytes of an item that is a list: where its items begin and end


def listed(kind: Type) -> bool:
    """Whether values of a type are lists here."""
    return isinstance(kind, (ListType, OptionalType))


def paired(kind: Type) -> bool:
    """Whether items of a type have what is in them in the buffers behind the first one."""
    return listed(kind) or is_open(kind)


def inside(kind: Type) -> Type:
    """The type of what is in such an item."""
    if not isinstance(kind, TensorType):
        return kind.element
    d = unknown(kind)
    return TensorType(kind.dtype, kind.shape[:d] + kind.shape[d + 1 :], kind.device)


def item_bytes(kind: Type) -> int:
    """Bytes of an item in the first buffer of its list."""
    if paired(kind):
        return PAIR
    if isinstance(kind, ScalarType):
        return SIZE[DTYPE_NAMES[kind.dtype]]
    if not isinstance(kind, TensorType) or None in kind.shape or kind.device != "cpu":
        raise Decline(f"a list of {kind}")
    dtype = DTYPE_NAMES[kind.dtype]
    if dtype not in SIZE or not numel(kind.shape):
        raise Decline(f"a list of {kind}")
    return numel(kind.shape) * SIZE[dtype]


def depth(kind: Type) -> int:
    """How many buffers a list of such items has."""
    item_bytes(kind)
    return 1 if not paired(kind) else 1 + depth(inside(kind))


def part(kind: TensorType) -> Type:
    """The type of one part of a tensor of a size without a bound."""
    found = inside(kind)
    item_bytes(found)
    return found
