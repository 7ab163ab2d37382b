"""Comparison chains, ``in`` and ``is``. A single ``a < b`` stays as it is.

``a < g() < c``  ->  ``ag__.chain(a, ('<', lambda: g()), ('<', lambda: c))``: every operand is evaluated once, and only when
the comparison before it holds. ``x in xs`` over a tensor gives a staged answer; ``x is None`` of a value that is None
on some path does too.
"""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

import torch

from ..errors import AliasError, StagingError
from ..runtime import control_flow
from ..runtime.guarding import guards, reads
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString, text_op
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.journal import MISSING
from ..runtime.symbols.scalars import StagedBool
from ..runtime.symbols.symbolic import scalar_of
from ..runtime.values import conditional_items, locations
from ..runtime.values.growing import StagedList
from ..runtime.values.pytrees import is_value_class
from ..runtime.values.staged_tuples import StagedTuple
from ..runtime.values.structure import is_union, may_miss
from ..runtime.values.tables import is_table
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from . import growing_lists, members, staged_bytes, tables, tensor_keys, text_options
from .call_rules import DECIDING
from .calls import call
from .context import OPERATORS, Converter
from .iterables import StagedRange
from .iterators import from_outside
from .keyed import contains_key, same_key
from .logical import and_, not_, or_
from .registry import METHODS, handles
from .staged_class import StagedClass
from .staging import is_staged, is_staged_key
from .thunks import thunk
from .union import apply, distribute, test_options, truth
from .user_operators import defines_operators, eq, ge, gt, holds_staged, le, lt, method_of, ne

_SIGNS = {gast.Lt: "<", gast.LtE: "<=", gast.Gt: ">", gast.GtE: ">=", gast.Eq: "==", gast.NotEq: "!=", gast.In: "in",
          gast.NotIn: "not in", gast.Is: "is", gast.IsNot: "is not"}  # fmt: skip


_TEXT = (str, StagedString)


class Comparisons(Converter):
    def visit_Compare(self, node):
        signs = [_SIGNS[type(op)] for op in node.ops]
        if len(signs) > 1:
            links = [
                gast.copy_location(gast.Tuple([constant(s), thunk(self, c)], gast.Load()), node)
                for s, c in zip(signs, node.comparators)
            ]
            return self.expression(
                f"{OPERATORS}.chain(first_, links_)",
                node,
                first_=self.visit(node.left),
                links_=links,
            )
        node = self.generic_visit(node)
        if isinstance(node.left, gast.Constant) and isinstance(node.comparators[0], gast.Constant):
            return node
        text = f"{OPERATORS}.{_COMPARE[signs[0]].__name__}(left_, right_)"
        return self.expression(text, node, left_=node.left, right_=node.comparators[0])


def chain(first, *links):
    """``first < b < c``: each operand once."""
    (sign, operand), rest = links[0], links[1:]
    second = operand()
    held = _COMPARE[sign](first, second)
    if not rest:
        return held
    return and_(held, lambda: chain(second, *rest))


def contains(x, items):
    """``x in items``: a bool, plain or staged, also where tensors are compared."""
    if is_union(items) or is_union(x):
        found = text_options.both(contains, x, items)
        return apply(contains, x, items) if found is NotImplemented else found
    if isinstance(items, members.Listing) and items.kind == "keys":
        items = items.x
    items = from_outside(items)
    if type(x) is tuple:
        tensor_keys.identify(items, x)
    found = tables.contains(items, x) if is_table(items) else _contains(x, items)
    return scalar_of(found) if isinstance(found, torch.Tensor) else found


def _in_range(items: range | StagedRange, x: Any) -> Any:
    if x is None or isinstance(x, (str, StagedString, tuple, list, dict, set)):
        return False
    start, stop, step = items.start, items.stop, items.step
    up = and_(step > 0, lambda: start <= x, lambda: x < stop)
    inside = or_(up, lambda: and_(step < 0, lambda: stop < x, lambda: x <= start))
    return and_(inside, lambda: (x - start) % step == 0)


def _range_index(items: StagedRange, x: Any) -> Any:
    """``range.index``"""

    def absent() -> None:
        raise ValueError(f"{x} is not in range")

    def place() -> Any:
        return (x - items.start) // items.step

    found = contains(x, items)
    if not is_staged(found):
        return place() if found else absent()
    return control_flow.staged_if(found, place, absent)


def _range_count(items: StagedRange, x: Any) -> Any:
    """``range.count``"""
    return contains(x, items) * 1


for _name, _form in (("index", _range_index), ("count", _range_count)):
    setattr(StagedRange, _name, _form)


MANY = 8  # a longer range is compared with by its ends


def _contains(x, items):
    reads.identified(x)
    if isinstance(items, torch.Tensor) and is_staged(items):
        return (items == x).any()
    if isinstance(items, StagedRange) or (
        isinstance(items, range) and items[MANY:] and is_staged(x)
    ):
        return _in_range(items, x)
    if isinstance(items, StagedString):
        return items.contains(x)
    if isinstance(x, StagedString) and isinstance(items, str):
        return text_op("__contains__", bool, items, x)
    if isinstance(items, dict) and is_staged_key(x):
        reads.whole(items)
        return contains_key(items, x)
    staged = is_staged(x) or is_staged_key(x)
    own = method_of(items, "__contains__") is not None
    if isinstance(items, dict) and not (own or staged) and may_miss(held := dict.get(items, x)):
        return test_options(lambda v: v is not MISSING, held)
    if (
        type(items) is set
        and not staged
        and type(x).__hash__
        and x in conditional_items.conditional(items)
    ):
        return members.present(items, x)
    if growing_lists.is_growing(items):
        return growing_lists.contains(items, x)
    if staged:
        reads.whole(items)
    form = staged_bytes.within if staged and isinstance(items, (bytes, bytearray)) else _among
    return form(x, items)


def _by_method(items, x):
    """``items.__contains__(x)``, as classes write that are the keys of something; of C's where a class has its own, which calls it."""
    if method_of(items, "__contains__") is None or is_staged(x) or is_staged_key(x):
        return contains(x, items)
    _note(x, items)
    return _among(x, items, by_method=False)


handles(members.Listing.__contains__)(_by_method)
for _kind in (*guards.MAPPINGS, set, frozenset, list, StagedList, tuple, type({}.keys())):
    METHODS[_kind, "__contains__"] = _by_method

_VIEWS = (type({}.values()), type({}.items()))


def _among(x, items, by_method=True):
    if isinstance(items, _VIEWS) and holds_staged((x, *items)):
        items = list(items)
    if isinstance(items, (dict, set, frozenset)) and isinstance(x, torch.Tensor):
        # tensors are hashed by identity
        fixed = isinstance(items, frozenset)
        return tensor_keys.is_among(x, items, lambda item: fixed or members.present(items, item))
    if isinstance(items, (list, tuple, deque, dict, set, frozenset, range)) and (
        type(x) is StagedClass
        or is_staged(x)
        or is_staged_key(x)
        or (
            not isinstance(items, range)
            and any(
                is_staged(i) or is_staged_key(i) or is_union(i)
                for i in tensor_keys.equal_by_value(items)
            )
        )
        or (isinstance(items, (list, tuple, deque)) and holds_staged((x, *items)))
    ):
        found = False
        for item in tensor_keys.equal_by_value(items):
            if item is x:
                return True
            there = type(items) is not set or members.present(items, item)
            found = or_(found, lambda item=item, there=there: and_(there, lambda: _equal(item, x)))
            if found is True:
                return True
        return found
    if not by_method:
        if isinstance(items, (dict, set)):
            return members.present(items, x)
        return locations.kind_in_c(items).__contains__(items, x)
    return _object_contains(items, x)


def _object_contains(items, x):
    """What the ``__contains__`` of a user's class says, converted; Python's own of any other."""
    method = method_of(items, "__contains__")
    if method is None and _is_gone_over(items):
        return call(_is_among, items, x)
    if method is None:
        _note(x, items)
        return x in items
    found = truth(call(method, items, x), "in")
    return found if is_staged(found) else call(bool, found)


def _is_gone_over(x: Any) -> bool:
    """Whether the user's own code gives the items, and Python goes over them."""
    by_index = method_of(x, "__getitem__") is not None and not hasattr(type(x), "__iter__")
    return not hasattr(type(x), "__contains__") and (by_index or method_of(x, "__iter__") is not None)  # fmt: skip


def _is_among(items, x):
    for item in items:  # noqa: SIM110  a loop that stops
        if item is x or item == x:
            return True
    return False


DECIDING.add(_is_among)


def _note(x, items) -> None:
    watch = reads.current()
    if (
        watch is not None
        and isinstance(items, (dict, set, frozenset))
        and type(x).__hash__ is not None
    ):
        watch.missing_key(items, x)
    elif watch is not None:
        watch.whole(items)


def _equal(a, b):
    if is_union(a) or is_union(b):
        found = text_options.both(_equal, a, b)
        return apply(_equal, a, b) if found is NotImplemented else found
    if type(b) is StagedClass:
        return b.exactly(a)
    if type(a) is tuple and type(b) is tuple and (is_staged_key(a) or is_staged_key(b)):
        same = same_key(a, b) if is_staged_key(b) else same_key(b, a)
        return control_flow.predicate(same, "in") if is_staged(same) else same
    if isinstance(a, StagedString) or isinstance(b, StagedString):
        return (
            control_flow.predicate(a == b, "in")
            if isinstance(a, _TEXT) and isinstance(b, _TEXT)
            else False
        )
    if not (
        isinstance(a, (torch.Tensor, int, float, *SYMBOLS))
        and isinstance(b, (torch.Tensor, int, float, *SYMBOLS))
    ):
        if not any(defines_operators(type(v)) or isinstance(v, (list, tuple, dict)) for v in (a, b)):  # fmt: skip
            return not (is_staged(a) or is_staged(b)) and (a is b or bool(a == b))
        same = truth(eq(a, b), "in")
        return control_flow.predicate(same, "in") if is_staged(same) else bool(same)
    same = a == b
    return control_flow.predicate(same, "in") if is_staged(same) else same


def not_contains(x, items):
    return not_(contains(x, items))


def is_(a, b):
    """``a is b``"""
    if is_union(a):
        flags = type(b) is bool or isinstance(b, StagedBool)
        if is_union(b) or flags or isinstance(b, torch.Tensor):
            return distribute(lambda v: is_(v, b), a)
        return test_options(lambda v: _is_one(v, b), a)
    if is_union(b):
        return is_(b, a)
    if isinstance(a, StagedBool) or isinstance(b, StagedBool):
        # Python has two bools
        flags = all(type(x) is bool or isinstance(x, StagedBool) for x in (a, b))
        return flags and (a == b)
    if type(a) is StagedClass:
        return a.exactly(b)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        reads.compared(a, b)
        return control_flow.same_tensor(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        reads.told_apart(a, b)
    if a is not None and b is not None:
        reads.identified(a, b)
    same = _is_one(a, b)
    if not same and is_tracing():
        _may_be_one(a, b)
    return b.exactly(a) if type(b) is StagedClass else same


def _is_one(a, b) -> bool:
    """Whether two values are one object; AliasError, or a trace that knows it, for two that a construct made of what may be one."""
    refuse = journal.guarded(a)
    if refuse is not None and a is not b and journal.guarded(b) is not None:
        refuse()
    return a is b


def _may_be_one(a, b) -> None:
    """StagingError for two containers, one of them read from a list or dict of the graph: each reading gives a new object.

    So does each staged construct that a tuple goes through, and each call that it is an argument of. AliasError for what is an argument and was found elsewhere, too.
    """
    _are_lent(a, b)
    read = current_graph().root.read_items
    if not (id(a) in read or id(b) in read) or a.__class__ is not b.__class__:
        return
    if is_value_class(type(a)) or isinstance(a, tuple):
        known = isinstance(a, tuple) and StagedTuple not in (type(a), type(b))
        if not (known and len(a) != len(b)):
            raise StagingError(
                f"whether these objects of {a.__class__.__name__} are one is not known here: one is an argument, or comes from a staged branch or "
                "loop; use ==",
                user_location(),
            )
    else:
        raise StagingError(
            f"a {a.__class__.__name__} that is read from a list or dict whose content is known only when the graph runs may be this one or an equal one: "
            "use == , or compare their indices or keys",
            user_location(),
        )


def _are_lent(a, b) -> None:
    """AliasError where one is the copy that a trace has of the other, an argument that the code also found elsewhere."""
    for made, real in current_graph().root.lent:
        if (made is a and real is b) or (made is b and real is a):
            source = reads.current().source_of(real)
            other = "another place" if source is None else source.label
            raise AliasError(
                f"{other} and an argument are one {type(real).__name__}, and are compared by `is`: whether they are one is not known in other calls. Use ==, or use "
                "it by one of the two",
                user_location(),
            )


def is_not(a, b):
    return not_(is_(a, b))


handles(operator.is_)(is_)
handles(operator.is_not)(is_not)
handles(operator.contains)(lambda items, x: contains(x, items))

_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne, "in": contains, "not in": not_contains, "is": is_, "is not": is_not}  # fmt: skip
