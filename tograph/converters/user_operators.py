"""Operators on objects of a user's class: ``a + b``, ``-a``, ``a < b``, ``a += b`` run the class's converted methods.

``a + b``  ->  ``ag__.add(a, b)``. Where neither class defines an operator in Python, it is Python's own ``+``; otherwise the rules of
the data model choose the method: the left one, then the reflected one, the reflected one first when the right class is
a proper subclass that overrides it. Of two constants nothing is rewritten.
"""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from ..errors import ConditionError
from ..runtime import control_flow
from ..runtime.guarding import reads, unconverted
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols.scalars import StagedBool, own
from ..runtime.values.dict_views import SET_VIEWS
from ..runtime.values.structure import is_growing, is_union
from ..runtime.values.tables import StagedItems, StagedKeys, StagedTable, View, is_table
from ..transpiler.syntax import gast
from . import members, powers, set_relations, text_options
from .call_rules import is_user_function
from .calls import call
from .context import OPERATORS, Converter
from .keyed import merged
from .logical import and_, not_
from .operator_methods import tried
from .registry import handles
from .staging import PLAIN, is_staged
from .strings import percent
from .union import apply, resolved

# operator class: (name in ag__, function of ``operator``, method, sign)
_BINARY = {
    gast.Add: ("add", "add", "add", "+"), gast.Sub: ("sub", "sub", "sub", "-"), gast.Mult: ("mul", "mul", "mul", "*"),
    gast.MatMult: ("matmul", "matmul", "matmul", "@"), gast.Div: ("truediv", "truediv", "truediv", "/"),
    gast.FloorDiv: ("floordiv", "floordiv", "floordiv", "//"), gast.Mod: ("mod", "mod", "mod", "%"),
    gast.Pow: ("power", "pow", "pow", "** or pow()"), gast.LShift: ("lshift", "lshift", "lshift", "<<"),
    gast.RShift: ("rshift", "rshift", "rshift", ">>"), gast.BitOr: ("bit_or", "or_", "or", "|"),
    gast.BitXor: ("bit_xor", "xor", "xor", "^"), gast.BitAnd: ("bit_and", "and_", "and", "&"),
}  # fmt: skip
_UNARY = {gast.USub: "neg", gast.UAdd: "pos", gast.Invert: "invert"}
_COMPARISONS = {"lt": ("gt", "<"), "le": ("ge", "<="), "gt": ("lt", ">"), "ge": ("le", ">="), "eq": ("eq", "=="),
                "ne": ("ne", "!=")}  # fmt: skip
_METHODS = (*(f"__{p}{m}__" for _, _, m, _ in _BINARY.values() for p in ("", "r", "i")),
            *(f"__{n}__" for n in (*_UNARY.values(), *_COMPARISONS)))  # fmt: skip


class UserOperators(Converter):
    def visit_BinOp(self, node):
        node = self.generic_visit(node)
        if isinstance(node.left, gast.Constant) and isinstance(node.right, gast.Constant):
            return node
        text = f"{OPERATORS}.{_BINARY[type(node.op)][0]}(left_, right_)"
        return self.expression(text, node, left_=node.left, right_=node.right)

    def visit_UnaryOp(self, node):
        node = self.generic_visit(node)
        if isinstance(node.operand, gast.Constant) or type(node.op) not in _UNARY:
            return node
        return self.expression(
            f"{OPERATORS}.{_UNARY[type(node.op)]}(value_)", node, value_=node.operand
        )


@functools.lru_cache(maxsize=4096)
def defines_operators(cls: type) -> bool:
    """Whether a class has an operator that is a user's function."""
    if issubclass(cls, torch.Tensor):
        return False
    return any(is_user_function(getattr(cls, m, None)) for m in _METHODS)


def method_of(x: Any, name: str) -> Any:
    """The user's function that is a special method of an object, or None."""
    found = getattr(type(x), name, None)
    return found if is_user_function(found) else None


def _binary(function: Any, plain: Any, method: str, sign: str) -> Any:
    """``plain``: the same of numbers and texts."""

    def run(a, b):
        if type(a) in PLAIN and type(b) in PLAIN:
            return plain(a, b)
        a, b = resolved(method, a, b)
        if is_union(a) or is_union(b):
            return apply(run, a, b)
        text = function is percent and type(a) is str  # which takes any object
        if text or not (defines_operators(type(a)) or defines_operators(type(b))):
            return _of_numbers(function, a, b)
        result = tried(a, b, f"__{method}__", f"__r{method}__", False, BY_NAME)
        if result is NotImplemented:
            raise TypeError(
                f"unsupported operand type(s) for {sign}: {type(a).__name__!r} and {type(b).__name__!r}"
            )
        return result

    run.__name__ = function.__name__
    return run


def _unary(name: str) -> Any:
    function = getattr(operator, name)

    def run(a):
        if type(a) in PLAIN:
            return function(a)
        if is_union(a):
            return apply(run, a)
        method = method_of(a, f"__{name}__") if defines_operators(type(a)) else None
        if is_table(a) and (found := TABLES_OPERATOR[1](name, a)) is not NotImplemented:
            return found
        if method is None:
            return function(own(a) if name == "invert" else a)
        return call(method, a)

    return run


def _of_numbers(function: Any, a: Any, b: Any) -> Any:
    """``function`` of what no class of the user's answers for. Sizes of torch's class stay of it beside whole numbers: as sizes and ranges they are known as such."""
    if type(a) is torch.SymInt and isinstance(b, _NOT_WHOLE):
        a = own(a)
    elif type(b) is torch.SymInt and isinstance(a, _NOT_WHOLE):
        b = own(b)
    made = function(a, b)
    return own(made) if type(made) in (torch.SymFloat, torch.SymBool) else made


_NOT_WHOLE = (float, bool, torch.SymFloat, torch.SymBool)


def _conditional(a: Any, b: Any) -> bool:
    kinds = next(
        (k for k in (dict, (set, frozenset)) if isinstance(a, k) and isinstance(b, k)), None
    )
    return kinds is not None and (members.is_conditional(a) or members.is_conditional(b))


def _compared(name: str, a: Any, b: Any) -> Any:
    """A comparison of dicts or sets whose items depend on a staged condition."""
    if name not in ("eq", "ne"):
        if (order := set_relations.ordered(name, a, b)) is not NotImplemented:
            return order
        unconverted.check_keys(a)
        unconverted.check_keys(b)
    same = members.equal(a, b, lambda v, w: as_bool(eq(v, w)))
    return same if name == "eq" else not_(same)


_STAGED_VIEWS = (StagedKeys, StagedItems)


def _views_as_sets(a: Any, b: Any) -> tuple[Any, Any]:
    """The keys or items of a dict of the graph, and those of another dict beside them, as the sets that comparisons take them for."""
    if type(a) not in _STAGED_VIEWS and type(b) not in _STAGED_VIEWS:
        return a, b
    first, second = (call(set, x) if isinstance(x, SET_VIEWS) else x for x in (a, b))
    return first, second


def _comparison(name: str) -> Any:
    function, (reflected, sign) = getattr(operator, name), _COMPARISONS[name]

    def run(a, b):
        if type(a) in PLAIN and type(b) in PLAIN:
            return function(a, b)
        a, b = resolved(name, a, b)
        if is_union(a) or is_union(b):
            found = text_options.both(function, a, b)
            return apply(run, a, b) if found is NotImplemented else found
        a, b = _views_as_sets(*members.as_sets(a, b, compared=True))
        if _conditional(a, b):
            return _compared(name, a, b)
        if name in ("eq", "ne") and (same := _containers(a, b)) is not None:
            return same if name == "eq" else not_(same)
        if name in _ORDERS and (order := _ordered(name, a, b)) is not None:
            return order
        if not (defines_operators(type(a)) or defines_operators(type(b))):
            reads.identified(a, b)
            return _of_numbers(function, a, b)
        result = tried(a, b, f"__{name}__", f"__{reflected}__", True, BY_NAME)
        if result is not NotImplemented:
            return result
        if name in ("eq", "ne"):
            return (a is b) if name == "eq" else (a is not b)
        raise TypeError(
            f"{sign!r} not supported between instances of {type(a).__name__!r} and {type(b).__name__!r}"
        )

    run.__name__ = name
    return run


# Whether two lists, one of them of the graph, are equal: set by ``growing_lists``, which needs this module.
GROWING_EQUAL: list[Any] = []
GROWING_ORDERED: list[Any] = []  # the same for ``a < b`` and its kind
# Whether two dicts or sets are equal, and ``a | b`` and its kind of them, one of them of the graph: set by ``tables``.
TABLES_EQUAL: list[Any] = []
TABLES_OPERATOR: list[Any] = []
TABLES_ORDERED: list[Any] = []  # ``a <= b`` and its kind: set by ``builtin.set_methods``


def _containers(a: Any, b: Any) -> Any:
    """Whether two containers with staged items are equal; None for anything else."""
    reads.compared_by_value(a, b)
    if is_table(a) or is_table(b):
        return TABLES_EQUAL[0](a, b)
    if not isinstance(a, (list, tuple, dict)) or not isinstance(b, (list, tuple, dict)):
        # Of Python's lists and tuples, none is equal to such.
        apart = any(isinstance(x, _SINGLE) and not _answers(x) for x in (a, b))
        return False if apart and (is_growing(a) or is_growing(b)) else None
    if isinstance(a, deque) is not isinstance(b, deque):
        return False
    if is_growing(a) or is_growing(b):
        return GROWING_EQUAL[0](a, b)
    if _answers(a) or _answers(b) or not (holds_staged(a) or holds_staged(b)):
        return None
    kinds = [next(k for k in (list, tuple, dict) if isinstance(x, k)) for x in (a, b)]
    if kinds[0] is not kinds[1] or len(a) != len(b):
        return False
    if kinds[0] is dict:
        if a.keys() != b.keys():
            return False
        pairs = [(v, b[k]) for k, v in a.items()]
    else:
        pairs = list(zip(a, b))
    tests = [(lambda x=x, y=y: True if x is y else as_bool(eq(x, y))) for x, y in pairs]
    return and_(tests[0](), *tests[1:]) if tests else True


_SINGLE = (*PLAIN, *SYMBOLS, set, frozenset, range, StagedString)


def _answers(x: Any) -> bool:
    """Whether the class of a container says itself what it is equal to."""
    return any(method_of(x, name) is not None for name in ("__eq__", "__ne__"))


_ORDERS = ("lt", "le", "gt", "ge")


def _growing_ordered(name: str, a: Any, b: Any) -> Any:
    """The order of two lists or tuples, or of two sets, one of them of the graph; None where a user's class answers."""
    if is_table(a) or is_table(b):
        return TABLES_ORDERED[0](name, a, b)
    if a.__class__ is b.__class__:
        return GROWING_ORDERED[0](name, a, b)
    if any(defines_operators(type(x)) for x in (a, b)):
        return None
    kinds = f"{a.__class__.__name__!r} and {b.__class__.__name__!r}"
    raise TypeError(f"{_COMPARISONS[name][1]!r} not supported between instances of {kinds}")


def _ordered(name: str, a: Any, b: Any) -> Any:
    """The order of two lists or tuples with staged items, by the first items that differ; None for anything else."""
    if any(is_growing(x) for x in (a, b)):
        return _growing_ordered(name, a, b)
    if not any(isinstance(a, k) and isinstance(b, k) for k in (list, tuple)):
        return None
    if not (holds_staged(a) or holds_staged(b)):
        return None
    order = BY_NAME[name]
    failed: list[Any] = []  # where they are equal so far, what is raised as no more can be compared

    def from_item(i: int, alike: Any) -> Any:
        if i == len(a) or i == len(b):
            return order(len(a), len(b))
        try:
            same = True if a[i] is b[i] else as_bool(eq(a[i], b[i]))
            if not is_staged(same):
                return from_item(i + 1, alike) if same else order(a[i], b[i])
            found = order(a[i], b[i])
        except (TypeError, ConditionError) as error:  # fmt: skip  # Python asks only where those before are equal
            if alike is True:
                raise
            failed.append((alike, error))
            return False
        return _by_first(same, found, from_item(i + 1, _all(alike, same)))

    result = from_item(0, True)
    for alike, error in failed:
        _raise_where(alike, error)
    return result


def _by_first(same: Any, found: Any, rest: Any) -> Any:
    """The order of two sequences: that of the ``rest`` where their first items are the ``same``, else what was ``found`` for these, as it is."""
    if isinstance(found, (bool, StagedBool)) and isinstance(rest, (bool, StagedBool)):
        return _any(_all(not_(same), found), _all(same, rest))
    alike = control_flow.predicate(same, "order")
    return control_flow.staged_if(alike, lambda: rest, lambda: found)


def _all(x: Any, y: Any) -> Any:
    """``x and y`` of bools that are there, known or staged: no branch is worth it."""
    if isinstance(x, bool):
        return y if x else False
    return (x if y else False) if isinstance(y, bool) else x & y


def _any(x: Any, y: Any) -> Any:
    """``x or y`` of such."""
    return not_(_all(not_(x), not_(y))) if isinstance(x, bool) or isinstance(y, bool) else x | y


def _raise_where(alike: Any, error: Exception) -> None:
    """Raise when the graph runs where two sequences turn out equal up to items that cannot be compared."""
    raised = RuntimeError(error.plain) if isinstance(error, ConditionError) else TypeError(str(error))  # fmt: skip

    def fail() -> None:
        raise raised

    control_flow.staged_if(control_flow.predicate(alike, "order"), fail, lambda: None)


def holds_staged(x: Any) -> bool:
    if is_table(x) or is_growing(x):
        return True
    items = x.values() if isinstance(x, dict) else x
    return any(
        is_staged(i)
        or is_union(i)
        or isinstance(i, StagedString)
        or defines_operators(type(i))
        or (isinstance(i, (list, tuple, dict)) and holds_staged(i))
        for i in items
    )


def as_bool(x: Any) -> Any:
    """A condition as Python's ``bool`` would see it: staged, or plain."""
    return not_(not_(x))


_TABLES = (StagedTable, View)


def _of_containers(name: str, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator that dicts or sets have, where what they hold depends on a staged condition."""

    def form(a: Any, b: Any) -> Any:
        if issubclass(type(a), _TABLES) or issubclass(type(b), _TABLES):
            found = TABLES_OPERATOR[0](name, a, b)
            return plain(a, b) if found is NotImplemented else found
        a, b = members.as_sets(a, b)
        if not isinstance(a, (dict, set)):
            if isinstance(a, frozenset) and members.is_conditional(b):
                members.Listing(b, "keys").refuse()  # no frozenset has items with conditions
            return plain(a, b)
        made = merged(a, b) if name == "or" else NotImplemented
        if made is NotImplemented:
            made = members.operator(name, a, b)
        return plain(a, b) if made is NotImplemented else made

    return form


_PLAIN = {f: getattr(operator, f) for _, f, _, _ in _BINARY.values()}
_PLAIN |= {"pow": powers.power, "mul": powers.times, "mod": percent}
_FORMS = _PLAIN | {
    f: _of_containers(f.rstrip("_"), _PLAIN[f]) for f in ("or_", "and_", "sub", "xor", "add")
}


add, sub, mul, matmul, truediv, floordiv, mod, power, lshift, rshift, bit_or, bit_xor, bit_and = (
    _binary(_FORMS[f], _PLAIN[f], method, sign) for _, f, method, sign in _BINARY.values()
)  # fmt: skip
neg, pos, invert = map(_unary, _UNARY.values())
lt, le, gt, ge, eq, ne = map(_comparison, _COMPARISONS)

BY_NAME = {name: globals()[made] for made, name, _, _ in _BINARY.values()}
BY_NAME |= {n: globals()[n] for n in (*_UNARY.values(), *_COMPARISONS)}
for _name, _form in BY_NAME.items():
    handles(getattr(operator, _name))(_form)


def in_place(name: str, a: Any, b: Any) -> Any:
    """``a op= b``, where ``name`` is that of the function of ``operator``, such as "iadd"."""
    method = name.removeprefix("i").rstrip("_")
    found = method_of(a, f"__i{method}__") if defines_operators(type(a)) else None
    if found is not None:
        result = call(found, a, b)
        if result is not NotImplemented:
            return result
    text = name == "imod" and isinstance(a, (str, StagedString))
    if found is None and not (text or defines_operators(type(a)) or defines_operators(type(b))):
        return unconverted.run(getattr(operator, name), (a, b), {})
    return BY_NAME[{"or": "or_", "and": "and_"}.get(method, method)](a, b)
