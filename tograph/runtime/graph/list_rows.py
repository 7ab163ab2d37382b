"""Rows of lists, arrays and optionals: values, never changed in place."""

from __future__ import annotations

import torch

from ...errors import InvalidArgumentError, OutOfRangeError, StructureError
from .rows import MAY_FAIL, PURE, REPLAY, register


def list_index(items, i):
    """The place of an item that is read, from the start; Python's IndexError outside of the list."""
    return _inside(int(i), len(items), "list index out of range")


def written_index(items, i):
    """The place of an item that is written, as ``list_index``: Python has another text for it."""
    return _inside(int(i), len(items), "list assignment index out of range")


def _inside(i, n, text):
    if not -n <= i < n:
        raise IndexError(text)
    return i % n


def _list_set(items, i, v):
    i = written_index(items, i)
    return (*items[:i], v, *items[i + 1 :])


def _list_pop(items, i):
    if not items:
        raise IndexError("pop from empty list")
    if not -len(items) <= int(i) < len(items):
        raise IndexError("pop index out of range")
    i = int(i) % len(items)
    return items[:i] + items[i + 1 :], items[i]


def _list_insert(items, i, v):
    out = list(items)
    out.insert(int(i), v)
    return tuple(out)


def _as_tensor(v, dtype=None):
    return v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype)


def _list_stack(items, dtype, shape, device):
    if not items:
        return torch.empty((0, *(shape or ())), dtype=dtype, device=device)
    # Cotangents of arrays have cells that are not written.
    items = _cells(items, dtype, shape, device)
    return torch.stack([_as_tensor(v, dtype) for v in items])


def _list_concat(items, dtype, shape, device):
    if not items:
        return torch.empty((0, *(shape or ())), dtype=dtype, device=device)
    return torch.cat(list(items))


def _list_get(items, i):
    return items[list_index(items, i)]


def _list_slice(items, start, stop, step):
    return items[slice(start, stop, step)]


def array_index(i, limit):
    """The position of a cell to write; OutOfRangeError outside of an array of fixed size ``limit``."""
    i = int(i)
    if i < 0 or (limit is not None and i >= limit):
        raise OutOfRangeError(f"index {i} is out of range for a TensorArray of size {limit}")
    return i


def _array_write(items, i, v, limit):
    """Write a cell of a TensorArray; cells between the old end and ``i`` stay unwritten (None)."""
    i = array_index(i, limit)
    items = (*items, *(None,) * (i + 1 - len(items)))
    return (*items[:i], v, *items[i + 1 :])


def _array_read(items, i, dtype, shape, device):
    i = int(i)
    if not 0 <= i < len(items):
        raise OutOfRangeError(f"index {i} is out of range for a TensorArray of size {len(items)}")
    return _cells(items, dtype, shape, device)[i]


def _cells(items, dtype, shape, device):
    """The cells with unwritten ones as zeros."""
    if any(v is None for v in items):
        if shape is None or None in shape:
            shape = next((tuple(v.shape) for v in items if v is not None), None)
        if shape is None:
            raise StructureError("an unwritten cell of a TensorArray needs element_shape")
        zero = torch.zeros(shape, dtype=dtype, device=device)
        items = tuple(zero if v is None else v for v in items)
    return items


def _array_concat(items, dtype, shape, device):
    return _list_concat(_cells(items, dtype, shape, device), dtype, shape and shape[1:], device)


def _list_split(x, lengths):
    lengths = [int(n) for n in (lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths)]
    return tuple(torch.split(x, lengths))


def _optional_get(optional):
    if not optional:
        raise InvalidArgumentError("Optional has no value: test has_value() before get_value()")
    return optional[0]


def _handle_add(a, b):
    """The sum of two cotangents of one list or optional; an unwritten cell (None) counts as zeros."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, (tuple, list)):
        return tuple(_handle_add(x, y) for x, y in zip(a, b))
    return a + b


def _handle_zeros(x):
    """The zero cotangent of a list or optional: zeros that take no memory."""
    if isinstance(x, (tuple, list)):
        return tuple(map(_handle_zeros, x))
    if isinstance(x, torch.Tensor):
        return torch.zeros((), dtype=x.dtype, device=x.device).expand(x.shape)
    return x


def _handle_any(x):
    """Whether a number in a cotangent of a list or optional is not zero."""
    if isinstance(x, (tuple, list)):
        return any(map(_handle_any, x))
    return x is not None and bool(torch.as_tensor(x != 0).any())


def _list_spread(items, start, stop, step, values):
    """``items`` with ``values`` as its slice."""
    out = list(items)
    out[slice(start, stop, step)] = values
    return tuple(out)


def _list_split_like(x, items):
    """``x`` cut along its first dimension as ``torch.cat(items)`` put it together."""
    return tuple(torch.split(x, [v.shape[0] for v in items])) if items else ()


for _name, _run, _effects, _outputs in [
    ("handle_add", _handle_add, PURE, 1),
    ("handle_zeros", _handle_zeros, PURE, 1),
    ("handle_any", _handle_any, PURE, 1),
    ("list_spread", _list_spread, PURE, 1),
    ("list_split_like", _list_split_like, PURE, 1),
    ("list_new", lambda: (), PURE, 1),
    ("list_of", lambda *v: v, PURE, 1),
    ("list_push", lambda items, v: (*items, v), PURE, 1),
    ("list_pop", _list_pop, MAY_FAIL, 2),
    ("list_insert", _list_insert, PURE, 1),
    ("list_get", _list_get, MAY_FAIL, 1),
    ("list_set", _list_set, MAY_FAIL, 1),
    ("list_slice", _list_slice, PURE, 1),
    ("list_size", len, PURE, 1),
    ("list_extend", lambda a, b: (*a, *b), PURE, 1),
    ("list_stack", _list_stack, MAY_FAIL, 1),
    ("list_concat", _list_concat, MAY_FAIL, 1),
    ("list_split", _list_split, MAY_FAIL, 1),
    ("list_from_tensor", lambda x: tuple(x.unbind(0)), PURE, 1),
    ("list_reserve", lambda n: (None,) * int(n), PURE, 1),
    ("array_write", _array_write, MAY_FAIL, 1),
    ("array_read", _array_read, MAY_FAIL, 1),
    ("array_stack", _list_stack, MAY_FAIL, 1),
    ("array_concat", _array_concat, MAY_FAIL, 1),
    ("optional_some", lambda v: (v,), PURE, 1),
    ("optional_none", lambda: (), PURE, 1),
    ("optional_has", bool, PURE, 1),
    ("optional_get", _optional_get, MAY_FAIL, 1),
]:
    _copies = _name.endswith(("_stack", "_concat"))
    register(f"tg.{_name}", run=_run, effects=_effects, gradient=REPLAY, outputs=_outputs,
             aliases=not _copies)  # fmt: skip
