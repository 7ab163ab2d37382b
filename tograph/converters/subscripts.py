"""Subscripts: ``x[i]`` reads, writes, updates and deletes, with staged indices.

``x[i]``  ->  ``ag__.getitem(x, i)``; ``x[i] = v``  ->  ``ag__.setitem(x, i, v)``, ``x[i] = f(v)``  ->  ``ag__.store(ag__.call(f, v), x, i)``; ``x[i] += v`` evaluates ``x`` and ``i`` once.
An index that is a staged number selects: in a tensor by the graph, in a Python list or tuple among its items.
"""

from __future__ import annotations

import operator
from collections import defaultdict, deque

import torch

from ..runtime.guarding import guards, outer_lists, reads, unconverted
from ..runtime.symbols import journal
from ..runtime.symbols.required import require
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values import inner_lists, locations
from ..runtime.values.growing import StagedList, as_staged
from ..runtime.values.reserved import shrinks
from ..runtime.values.structure import is_growing, is_union, may_miss
from ..runtime.values.tables import is_table
from ..transpiler.anno import Fact, get_fact
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from . import members, table_algebra, tables, tensor_keys, text_options
from .attributes import augmented
from .call_rules import is_user_function, missing_method
from .calls import call
from .context import OPERATORS, Converter
from .index_objects import numbered
from .iterables import StagedRange, StagedSequence
from .iterators import from_outside
from .keyed import dict_pop, lookup, no_key, set_staged, write_key
from .keyed import update as dict_update
from .list_keys import listed
from .list_slices import set_slice, sliced, takes_slice
from .lists import new_list
from .logical import and_
from .powers import times
from .sequence_index import select, sequence_item, set_list, takes_place
from .staging import is_staged, is_staged_key
from .tensor_index import (
    as_place,
    check_float,
    plain_bounds,
    set_tensor,
    staged_parts,
    tensor_item,
)
from .union import apply, distribute_missing, updated
from .union_keys import each_key, holds_union
from .user_operators import BY_NAME, in_place

slice_ = slice
_SLICED = (list, tuple, str, bytes, bytearray)


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
        parts = [
            gast.Tuple([v] if k is None else [k, v], gast.Load())
            for k, v in zip(node.keys, node.values)
        ]
        for part, value in zip(parts, node.values):
            gast.copy_location(part, value)
        return self.expression(f"{OPERATORS}.new_dict(parts_)", node, parts_=parts)

    def visit_Set(self, node):
        node = self.generic_visit(node)
        return self.expression(f"{OPERATORS}.new_set(items_)", node, items_=node.elts)

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
        return node

    def _store(self, target, value, origin):
        holes = {
            "x_": self.visit(target.value),
            "key_": self.key(self.visit(target.slice)),
            "value_": value,
        }
        if isinstance(value, (gast.Name, gast.Constant)):
            return self.fill(f"{OPERATORS}.setitem(x_, key_, value_)", origin, **holes)
        # The value comes first, in Python too, and no name holds it.
        return self.fill(f"{OPERATORS}.store(value_, x_, key_)", origin, **holes)

    def visit_AugAssign(self, node):
        node.value = self.visit(node.value)
        op = constant(augmented(node.op))
        if isinstance(node.target, gast.Name):
            read = gast.copy_location(gast.Name(node.target.id, gast.Load(), None, None), node)
            if get_fact(node.target, Fact.MAYBE_UNBOUND, False):
                holes = {"read_": read, "key_": constant(node.target.id)}
                read = self.expression(f"{OPERATORS}.ld(lambda: read_, key_)", node, **holes)
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


def getitem(x, key):
    """``x[key]``"""
    if is_table(x) and x.handle is not None and is_union(key):
        return tables.getitem(x, key)  # one place, not one in each branch: a list there is changed
    if is_union(x) or holds_union(x, key):
        found = text_options.item(getitem, x, key)
        return each_key(getitem, x, key) if found is NotImplemented else found
    key = listed(x, key)
    tensor_keys.identify(x, key)
    if is_table(x) and x.handle is not None:
        return tables.getitem(x, key)
    if isinstance(x, StagedSequence):
        return sequence_item(x, key)
    return _at_place(x, key)


def _at_place(x, key):
    """An item of what is no list of keys, nor counted in the graph."""
    key = numbered(x, key)
    check_float(x, key)
    if is_growing(x):
        return x[plain_bounds(as_place(key))]
    if isinstance(x, torch.Tensor) and staged_parts(key):
        return tensor_item(x, key)
    if is_staged(key) and not _by_identity(x, key):
        reads.whole(x)
    if isinstance(x, range) and staged_parts(key):
        return sequence_item(StagedRange(x.start, x.stop, x.step), key)
    if is_staged(key) and (isinstance(x, (*_SLICED, deque)) or takes_place(x)):
        return select(x, as_place(key))
    if isinstance(key, slice) and isinstance(x, _SLICED) and staged_parts(key):
        return sliced(x, plain_bounds(key))
    if is_staged_key(key) and isinstance(x, dict):
        return lookup(x, key)  # tensors are keys by identity, as in Python
    found = _plain_item(x, key)
    return new_list(*found) if type(x) is list and type(key) is slice else found


def _plain_item(x, key):
    method = getattr(type(x), "__getitem__", None)
    if is_user_function(method):
        return call(method, x, key)
    if missing_method(x, key):
        reads.whole(x)
        return no_key(x, key)
    found = _read_item(x, key)
    if may_miss(found):
        return distribute_missing(found, lambda: no_key(x, key))
    return found


def _read_item(x, key):
    """``x[key]``, noted when ``x`` is a container from outside."""
    watch = reads.current()
    if watch is None or not guards.is_container(x):
        reads.whole(x)
        return x[key]
    if is_staged(key) and not _by_identity(x, key):
        watch.whole(x)
    # The state of an optimiser, by parameters, is made for good wherever the first step is.
    made_here = type(x) is defaultdict and x.default_factory is not None and key not in x
    if made_here and not isinstance(key, torch.Tensor):
        watch.missing_key(x, key)
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


def _by_identity(x, key) -> bool:
    """Whether a dict is asked for a tensor from outside, such as the parameters by which an optimiser keeps its state: one key, which is known."""
    return isinstance(x, dict) and isinstance(key, torch.Tensor) and not isinstance(key, SymTensor)


def store(value, x, key) -> None:
    """``x[key] = value`` of a value that is computed before ``x`` and ``key`` are."""
    setitem(x, key, value)


def setitem(x, key, value) -> None:
    """``x[key] = value``"""
    if is_union(x) or holds_union(x, key):
        each_key(lambda a, k: setitem(a, k, value), x, key)
        return
    if is_table(x):
        if isinstance(x, set):
            raise TypeError("'set' object does not support item assignment")
        tables.setitem(x, key, value)
        return
    tensor_keys.identify(x, key)
    key = numbered(x, key)
    check_float(x, key)
    method = _users(x, "__setitem__")
    if method is not None:
        call(method, x, key, value)
        return
    if is_staged_key(key) and isinstance(x, dict):
        set_staged(x, key, value)
        return
    if isinstance(x, torch.Tensor):
        if is_union(value):
            apply(lambda v: setitem(x, key, v), value)
            return
        set_tensor(x, listed(x, key), value)
        return
    if takes_slice(x, key, value):
        set_slice(x, key, value)
        return
    if isinstance(x, dict):
        write_key(x, key, value)
        return
    _set_plain(x, key, value)


def _set_plain(x, key, value) -> None:
    """``x[key] = value`` of a list, or of an object."""
    value = from_outside(value) if type(key) is slice else value
    if is_staged(key) and isinstance(x, (list, deque)) and not is_growing(x):
        set_list(x, as_place(key), value)
        return
    if isinstance(x, (list, deque, bytearray)) and journal.active():
        watch = reads.current()
        if watch is not None:
            watch.size(x)
        journal.record(locations.contents(x), ("__setitem__", (key, value)))
    if isinstance(x, StagedList):
        x[key] = value  # it tells the list that it is in
        return
    unconverted.run(operator.setitem, (x, key, value), {})


def _users(x, name):
    """The method that a user's class has for a subscript; None for tensors, and where Python's own writes it."""
    method = getattr(type(x), name, None)
    return method if is_user_function(method) and not isinstance(x, torch.Tensor) else None


def delitem(x, key) -> None:
    """``del x[key]``"""
    if is_union(x) or holds_union(x, key):
        each_key(delitem, x, key)
        return
    if is_table(x):
        if isinstance(x, set):
            raise TypeError("'set' object doesn't support item deletion")
        tables.delitem(x, key)
        return
    tensor_keys.identify(x, key)
    key = numbered(x, key)
    check_float(x, key)
    method = _users(x, "__delitem__")
    if method is not None:
        call(method, x, key)
        return
    if isinstance(x, dict) and dict_pop(x, key) is not NotImplemented:
        return
    if takes_slice(x, key):
        set_slice(x, key, ())
        return
    if isinstance(x, (dict, list, deque, bytearray)) and journal.active():
        shrinks(x)
        journal.record(locations.contents(x))
    if isinstance(x, StagedList) and x.handle is None and not x and is_staged(key):
        raise IndexError("list assignment index out of range")
    if isinstance(x, StagedList) and not x.frozen and (x.handle is not None or is_staged(key)):
        x.become(as_staged(x))
        at, n = as_place(key), x.length()
        holds = and_(at >= -n, lambda: at < n)
        require(holds, IndexError("list assignment index out of range"))
        x.take(at)
        return
    del x[key]


_SETS = {"ior": "or_", "iand": "and_", "isub": "sub", "ixor": "xor"}


def _extends(x: list, value) -> bool:
    """Whether ``x += value`` is ``x.extend(value)`` although Python would ask the class of ``value`` first (a list that the function made), or does in
    vain (a generator)."""
    own = type(x).__iadd__ in (list.__iadd__, StagedList.__iadd__)
    if isinstance(value, StagedList):
        return own
    return own and not isinstance(value, (list, tuple)) and not hasattr(type(value), "__radd__")


def augment(op: str, x, value):
    """``x op= value``, as an expression."""
    grown = outer_lists.additions(x, reads.current()) if op == "iadd" and type(x) is list else None
    if grown is not None:
        outer_lists.check_kinds(x, value, reads.current())
        call(grown.extend, value)
        return x
    x, value = updated(op, x, value)
    if is_union(x) or is_union(value):
        return apply(lambda a, b: augment(op, a, b), x, value)
    if (is_table(x) or is_table(value)) and table_algebra.operator(
        op, x, value
    ) is not NotImplemented:
        return x
    if op in _SETS and not isinstance(x, dict) and members.of_listings(x, value):
        return BY_NAME[_SETS[op]](x, value)  # ``s -= d.keys()`` gives a new set
    if op == "ior" and isinstance(x, dict) and dict_update(x, value) is not NotImplemented:
        return x
    if isinstance(x, set) and op in _SETS and members.operator(op, x, value) is not NotImplemented:
        return x
    if isinstance(x, (list, dict, set, bytearray, deque)) and journal.active():
        return inner_lists.changing(x, lambda: _recorded(op, x, value))
    return _augmented(op, x, value)


def _recorded(op: str, x, value):
    journal.record(locations.contents(x))
    return _augmented(op, x, value)


def _augmented(op: str, x, value):
    if (
        op == "iadd"
        and isinstance(x, list)
        and not is_table(x)
        and (is_staged(value) or _extends(x, value))
    ):
        call(x.extend, value)
        return x
    if op == "imul" and isinstance(x, StagedList) and not (x.frozen or is_table(x)):
        x.replace(times(x, value))
        return x
    return in_place(op, x, value)
