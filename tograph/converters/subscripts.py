"""Subscripts: ``x[i]`` reads, writes, updates and deletes, with staged indices.

``x[i]``  ->  ``ag__.getitem(x, i)``; ``x[i] = v``  ->  ``ag__.setitem(x, i, v)``; ``x[i] += v`` evaluates ``x`` and ``i`` once.
An index that is a staged number selects: in a tensor by the graph, in a Python list or tuple among its items.
"""

from __future__ import annotations

import operator
from collections import defaultdict, deque
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow, guards, journal, reads, unconverted
from ..runtime.funcgraph import user_location
from ..runtime.growing import StagedList, as_staged
from ..runtime.shapes import SYMBOLS
from ..runtime.structure import is_union
from ..runtime.symbolic import SymTensor, scalar_of
from ..transpiler.syntax import gast, walk
from ..transpiler.templates import constant
from . import members
from .attributes import augmented
from .call_rules import is_user_function
from .calls import call
from .context import OPERATORS, Converter
from .iterables import Indexed, StagedRange, StagedSequence, exact_dtype
from .keyed import dict_pop, dict_update, is_staged_key, lookup, no_key, set_staged, write_key
from .staging import is_staged
from .union import apply, distribute_missing, may_miss
from .user_operators import in_place

slice_ = slice


class Subscripts(Converter):
    def visit_Subscript(self, node):
        node = self.generic_visit(node)
        if not isinstance(node.ctx, gast.Load):
            return node
        return self.expression(
            f"{OPERATORS}.getitem(x_, key_)", node, x_=node.value, key_=self.key(node.slice)
        )

    def key(self, node):
        """An index expression as a value: slices become slice objects."""
        if isinstance(node, gast.Slice):
            parts = [
                p if p is not None else constant(None) for p in (node.lower, node.upper, node.step)
            ]
            return self.expression(f"{OPERATORS}.slice_(parts_)", node, parts_=parts)
        if isinstance(node, gast.Tuple) and any(isinstance(e, gast.Slice) for e in node.elts):
            return gast.copy_location(
                gast.Tuple([self.key(e) for e in node.elts], gast.Load()), node
            )
        return node

    def visit_Dict(self, node):
        node = self.generic_visit(node)
        if all(isinstance(k, gast.Constant) for k in node.keys):
            return node
        parts = [
            gast.Tuple([v] if k is None else [k, v], gast.Load())
            for k, v in zip(node.keys, node.values)
        ]
        for part, value in zip(parts, node.values):
            gast.copy_location(part, value)
        return self.expression(f"{OPERATORS}.new_dict(parts_)", node, parts_=parts)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        if isinstance(node.target, gast.Subscript) and node.value is not None:
            return self._store(node.target, node.value, node)
        return node

    def visit_Assign(self, node):
        node.value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], gast.Subscript):
            return self._store(node.targets[0], node.value, node)
        if not any(isinstance(n, gast.Subscript) for t in node.targets for n in walk(t)):
            return node
        temp = self.context.namer.fresh("value")
        out = self.fill("temp_ = value_", node, temp_=temp, value_=node.value)
        for target in node.targets:
            out += self._spread(
                target, gast.copy_location(gast.Name(temp, gast.Load(), None, None), node), node
            )
        return out

    def _spread(self, target, value, origin):
        if isinstance(target, gast.Subscript):
            return self._store(target, value, origin)
        after = []
        for child in list(walk(target)):
            found = getattr(child, "elts", None)
            if (
                isinstance(found, list)
                and isinstance(child, (gast.Tuple, gast.List))
                and isinstance(child.ctx, gast.Store)
            ):
                child.elts = [self._temporary(e, after, origin) for e in found]
            elif isinstance(child, gast.Starred) and isinstance(child.value, gast.Subscript):
                child.value = self._temporary(child.value, after, origin)
        return [gast.copy_location(gast.Assign([target], value, None), origin), *after]

    def _temporary(self, e, after, origin):
        if not isinstance(e, gast.Subscript):
            return e
        temp = self.context.namer.fresh("part")
        after += self._store(
            e, gast.copy_location(gast.Name(temp, gast.Load(), None, None), origin), origin
        )
        return gast.copy_location(gast.Name(temp, gast.Store(), None, None), origin)

    def _store(self, target, value, origin):
        holes = {
            "x_": self.visit(target.value),
            "key_": self.key(self.visit(target.slice)),
            "value_": value,
        }
        if isinstance(value, (gast.Name, gast.Constant)):
            return self.fill(f"{OPERATORS}.setitem(x_, key_, value_)", origin, **holes)
        temp = self.context.namer.fresh("value")
        first = self.fill("temp_ = value_", origin, temp_=temp, value_=holes.pop("value_"))
        return first + self.fill(
            f"{OPERATORS}.setitem(x_, key_, temp_)", origin, temp_=temp, **holes
        )

    def visit_AugAssign(self, node):
        node.value = self.visit(node.value)
        op = constant(augmented(node.op))
        if isinstance(node.target, gast.Name):
            read = gast.copy_location(gast.Name(node.target.id, gast.Load(), None, None), node)
            text = f"target_ = {OPERATORS}.augment(op_, read_, value_)"
            return self.fill(text, node, target_=node.target, op_=op, read_=read, value_=node.value)
        if not isinstance(node.target, gast.Subscript):
            return node
        x, key = self.context.namer.fresh("container"), self.context.namer.fresh("key")
        holes = {"x_": x, "key_": key, "base_": self.visit(node.target.value), "op_": op, "value_": node.value,
                 "index_": self.key(self.visit(node.target.slice))}  # fmt: skip
        text = (
            f"x_ = base_\nkey_ = index_\n"
            f"{OPERATORS}.setitem(x_, key_, {OPERATORS}.augment(op_, {OPERATORS}.getitem(x_, key_), value_))"
        )
        return self.fill(text, node, **holes)

    def visit_Delete(self, node):
        out = []
        for target in node.targets:
            if isinstance(target, gast.Subscript):
                holes = {"x_": self.visit(target.value), "key_": self.key(self.visit(target.slice))}
                out += self.fill(f"{OPERATORS}.delitem(x_, key_)", node, **holes)
            else:
                out.append(gast.copy_location(gast.Delete([target]), node))
        return out


# ---- the operators


def _staged_parts(key) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(
        is_staged(p) or (isinstance(p, slice) and any(map(is_staged, (p.start, p.stop, p.step))))
        for p in parts
    )


def as_int(x):
    """An index as torch takes it: a staged number for a 0-d whole tensor."""
    if (
        isinstance(x, torch.Tensor)
        and x.dim() == 0
        and not x.dtype.is_floating_point
        and x.dtype != torch.bool
    ):
        return scalar_of(x) if is_staged(x) else x
    return x


def _check_float(x: Any, key: Any) -> None:
    """A staged float is no index: the error that Python or torch gives for a plain one."""
    kinds = (torch.Tensor, list, tuple, str)
    if isinstance(key, torch.SymFloat) and isinstance(x, kinds):
        plain: Any = next(k for k in kinds if isinstance(x, k))
        plain(torch.zeros(1) if plain is torch.Tensor else "0")[0.5]


def _listed(x, key):
    """The key of a tensor with lists that hold staged numbers, ``x[[i, j]]``, and staged bools, which are masks, as tensors."""
    if not isinstance(x, torch.Tensor):
        return key
    if isinstance(key, torch.SymBool):
        return torch.scalar_tensor(key, dtype=torch.bool)
    if isinstance(key, tuple):
        return tuple(_listed(x, k) for k in key)
    if not (isinstance(key, list) and any(isinstance(k, list) or is_staged(k) for k in key)):
        return key
    kinds = {type(k) for k in key}
    rows = [_listed(x, k) for k in key]
    if not any(isinstance(r, (torch.Tensor, *SYMBOLS)) for r in rows):
        return key
    dtype = torch.bool if kinds <= {bool, torch.SymBool} else torch.int64
    made = [r if isinstance(r, torch.Tensor) else torch.scalar_tensor(r, dtype=dtype) for r in rows]
    return torch.stack(made)


def getitem(x, key):
    """``x[key]``"""
    if is_union(x) or is_union(key):
        return apply(getitem, x, key)
    key = _listed(x, key)
    if isinstance(x, StagedList) and x.handle is not None:
        return x[as_int(key)]
    if isinstance(x, StagedSequence):
        return _sequence_item(x, key)
    _check_float(x, key)
    if isinstance(x, torch.Tensor) and _staged_parts(key):
        return _tensor_item(x, key)
    if is_staged(key):
        reads.whole(x)
    if is_staged(key) and isinstance(x, range):
        return _sequence_item(StagedRange(x.start, x.stop, x.step), key)
    if is_staged(key) and isinstance(x, (list, tuple, str)):
        return _select(x, as_int(key))
    if isinstance(key, slice) and isinstance(x, (list, tuple)) and _staged_parts(key):
        return as_staged(StagedList(x))[
            slice(as_int(key.start), as_int(key.stop), as_int(key.step))
        ]
    if is_staged_key(key) and isinstance(x, dict):
        return lookup(x, key)  # tensors are keys by identity, as in Python
    return _plain_item(x, key)


def _plain_item(x, key):
    method = getattr(type(x), "__getitem__", None)
    if is_user_function(method):
        return call(method, x, key)
    found = _read_item(x, key)
    if may_miss(found):
        return distribute_missing(found, lambda: no_key(x, key))
    return found


def _read_item(x, key):
    """``x[key]``, noted when ``x`` is a container from outside."""
    watch = reads.current()
    if watch is None or type(x) not in guards.CONTAINERS:
        return x[key]
    if is_staged(key):
        watch.whole(x)
    # The state of an optimiser, by parameters, is made for good wherever the first step is.
    made_here = type(x) is defaultdict and x.default_factory is not None and key not in x
    if made_here and not isinstance(key, torch.Tensor):
        write_key(x, key, call(x.default_factory))
    try:
        found = x[key]
    except KeyError:
        watch.missing_key(x, key)
        raise
    except IndexError:
        watch.size(x)
        raise
    watch.item(x, key, found)
    return found


def _is_mask(key) -> bool:
    return isinstance(key, torch.Tensor) and key.dtype == torch.bool


def _rows(x, mask):
    """A tensor and a mask of at least one dimension: a 0-d mask selects the whole tensor or nothing of it."""
    return (x, mask) if mask.dim() else (x.unsqueeze(0), mask.reshape(1))


def _static(x) -> bool:
    """Whether all sizes are known; a number has none."""
    return not isinstance(x, torch.Tensor) or all(type(n) is int for n in x.shape)


def _bounds(p):
    """A slice with its bounds as torch takes them."""
    if not isinstance(p, slice):
        return p
    return slice(as_int(p.start), as_int(p.stop), as_int(p.step))


def _tensor_item(x, key):
    """A tensor indexed with staged numbers: one dimension after the other; the rest is torch's own indexing."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(p, slice) and is_staged(p.step) for p in parts):
        raise StagingError(
            "a slice with a step that is known only when the graph runs can be written, not read: use x[torch.arange(start, stop, step)]",
            user_location(),
        )
    if _is_mask(key) and (key.dim() == 0 or not _static(x)):
        x, key = _rows(x, key)
        return torch.ops.aten.index.Tensor(x, [key])
    if not any(isinstance(as_int(p), SYMBOLS) for p in parts):
        bounds = [_bounds(p) for p in parts]
        return x[tuple(bounds) if isinstance(key, tuple) else bounds[0]]
    if any(map(_is_list, parts)):
        out, rest = _selected(x, parts)
        return out[rest]
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    dim, out = 0, x
    for p in parts:
        p = as_int(p)
        if isinstance(p, SYMBOLS):
            out = torch.select(out, dim, p)
        elif p is Ellipsis:
            dim += x.dim() - taken
        else:
            p = _bounds(p)
            before = out.dim()
            out = out[(slice(None),) * dim + (p,)]
            dim += 1 - (before - out.dim() if p is not None else 0)
    return out


def _is_list(p) -> bool:
    """Whether a part of a key is a tensor or list of places, not one place."""
    return isinstance(p, (torch.Tensor, list)) and not isinstance(as_int(p), SYMBOLS)


def _selected(x, parts):
    """``x`` at the staged numbers of a key, and the rest of the key: numbers are taken first, as in torch's own indexing."""
    taken = sum(map(_dims, parts))
    dim, out, rest = 0, x, []
    for p in parts:
        if isinstance(as_int(p), SYMBOLS):
            out = torch.select(out, dim, as_int(p))
            continue
        rest.append(_bounds(p))
        dim += x.dim() - taken if p is Ellipsis else _dims(p)
    return out, tuple(rest)


def _dims(p) -> int:
    """How many dimensions of a tensor a part of a key speaks of."""
    if p is None or p is Ellipsis or isinstance(p, bool):
        return 0
    return p.dim() if _is_mask(p) else 1


def _sequence_item(x, key):
    """An item of a range whose bounds are known only when the graph runs."""
    if isinstance(x, Indexed):
        return x.item(key)
    if not isinstance(x, StagedRange):
        kind = type(x).__name__
        raise TypeError(f"{_PYTHON.get(kind, kind)!r} object is not subscriptable")
    if isinstance(key, slice_):
        raise StagingError(
            "a slice of a range whose bounds are known only when the graph runs is not supported: make the range with other bounds",
            user_location(),
        )
    n, at = x.length(), as_int(key)

    def outside():
        raise IndexError("range object index out of range")

    inside = (at >= -n) & (at < n)
    return control_flow.staged_if(inside, lambda: x.item(at % n), outside)


_PYTHON = {"Zipped": "zip", "Mapped": "map", "Enumerated": "enumerate", "Reversed": "reversed"}


def _select(items, index):
    """An item of a Python sequence by a staged index: numbers from a table, others in a balanced tree of branches."""
    n = len(items)
    table = exact_dtype(items) if n > 2 else None
    if table is not None:
        return scalar_of(torch.select(torch.tensor(items, dtype=table), 0, index))
    kind = "list" if isinstance(items, list) else type(items).__name__
    at = index % n if n else index

    def tree(low: int, high: int):
        if high - low == 1:
            return items[low]
        middle = (low + high) // 2
        return control_flow.staged_if(
            at < middle, lambda: tree(low, middle), lambda: tree(middle, high)
        )

    def outside():
        raise IndexError(f"{kind} index out of range")

    inside = (index >= -n) & (index < n)
    return control_flow.staged_if(inside, lambda: tree(0, n), outside) if n else outside()


def setitem(x, key, value) -> None:
    """``x[key] = value``"""
    if is_union(x) or is_union(key):
        apply(lambda a, k: setitem(a, k, value), x, key)
        return
    if is_staged_key(key) and isinstance(x, dict):
        set_staged(x, key, value)
        return
    if isinstance(x, torch.Tensor):
        if is_union(value):
            apply(lambda v: setitem(x, key, v), value)
            return
        _set_tensor(x, _listed(x, key), value)
        return
    if is_staged(key) and isinstance(x, list) and getattr(x, "handle", None) is None:
        _set_list(x, as_int(key), value)
        return
    if isinstance(x, dict):
        write_key(x, key, value)
        return
    if isinstance(x, list) and journal.active():
        watch = reads.current()
        if watch is not None:
            watch.size(x)
        journal.record(journal.contents(x), ("__setitem__", (key, value)))
    method = getattr(type(x), "__setitem__", None)
    if is_user_function(method):
        call(method, x, key, value)
        return
    unconverted.run(operator.setitem, (x, key, value), {})


def _set_list(items: list, index, value) -> None:
    """Write an item of a Python list by a staged index: every item is the new value or its old one."""
    n = len(items)
    inside = (index >= -n) & (index < n)
    control_flow.staged_if(inside, lambda: None, lambda: _out_of_range())
    journal.record(journal.contents(items))
    for i in range(n):
        here = (index == i) | (index == i - n)
        items[i] = control_flow.staged_if(here, lambda: value, lambda i=i: items[i])


def _out_of_range():
    raise IndexError("list assignment index out of range")


def _stepped(x, key):
    """A key with the places that it names where it has a slice with a staged step, which torch does not take."""
    parts = key if isinstance(key, tuple) else (key,)
    out = list(parts)
    for dim, p in enumerate(parts):
        if p is None or p is Ellipsis:
            break
        if isinstance(p, slice) and is_staged(p.step):
            step = as_int(p.step)
            control_flow.staged_if(step > 0, _nothing, _no_step)
            rows = getitem(torch.arange(x.shape[dim]), slice(p.start, p.stop))
            out[dim] = rows[torch.arange(rows.shape[0]) % step == 0]
    return tuple(out) if isinstance(key, tuple) else out[0]


def _nothing():
    return None


def _no_step():
    raise ValueError("step must be greater than zero")


def _set_tensor(x, key, value) -> None:
    if isinstance(x, SymTensor) or is_staged(x):
        key = _stepped(x, key)
        if isinstance(value, SYMBOLS):
            value = torch.scalar_tensor(value, dtype=x.dtype)
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(as_int(p), SYMBOLS) for p in parts):
            if any(map(_is_list, parts)):
                target, rest = _selected(x, parts)
                target[rest] = value
                return
            target = _tensor_item(x, key)
            target.copy_(torch.as_tensor(value) if not isinstance(value, torch.Tensor) else value)
            return
        if _is_mask(key) and (key.dim() == 0 or not (_static(x) and _static(value))):
            # x[key] = value would compare sizes that are not known yet
            x, key = _rows(x, key)
            value = value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value)
            torch.ops.aten.index_put_(x, [key], value.to(x.dtype))
            return
        key = tuple(map(_bounds, key)) if isinstance(key, tuple) else _bounds(key)
    x[key] = value


def delitem(x, key) -> None:
    """``del x[key]``"""
    if is_union(x) or is_union(key):
        apply(delitem, x, key)
        return
    if isinstance(x, dict) and dict_pop(x, key) is not NotImplemented:
        return
    if isinstance(x, (dict, list, deque)) and journal.active():
        journal.record(journal.contents(x))
    if isinstance(x, StagedList) and (x.handle is not None or is_staged(key)):
        x.become(as_staged(x))
        x.take(as_int(key))
        return
    del x[key]


_SETS = ("ior", "iand", "isub", "ixor")


def augment(op: str, x, value):
    """``x op= value``, as an expression."""
    if is_union(x) or is_union(value):
        return apply(lambda a, b: augment(op, a, b), x, value)
    if op == "ior" and isinstance(x, dict) and dict_update(x, value) is not NotImplemented:
        return x
    if isinstance(x, set) and op in _SETS and members.operator(op, x, value) is not NotImplemented:
        return x
    if isinstance(x, (list, dict, set, bytearray, deque)) and journal.active():
        journal.record(journal.contents(x))
    if op == "iadd" and isinstance(x, list) and is_staged(value):
        x.extend(value)
        return x
    return in_place(op, x, value)
