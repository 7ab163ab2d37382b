"""Special methods by name, and what ``operator`` has beside the operators, over staged values.

``x.__getitem__(i)``, ``(3).__lt__`` as a filter, ``int.__add__``, ``operator.getitem`` and ``operator.itemgetter(i)`` do what the operator
does. A method of a number knows no wider kind, as in Python: ``(3).__lt__(2.5)`` is NotImplemented.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.valueless import Valueless
from ...runtime.values.growing import StagedList
from ..calls import call
from ..comparisons import contains
from ..registry import GETTERS, GROWING, METHODS, SPECIAL_METHODS, handles
from ..subscripts import augment, delitem, getitem, setitem
from ..user_operators import BY_NAME

handles(operator.getitem)(getitem)
handles(operator.setitem)(setitem)
handles(operator.delitem)(delitem)


@handles(operator.countOf)
def count_of(items: Any, x: Any) -> Any:
    return call(list.count, call(list, items), x)


@handles(operator.indexOf)
def index_of(items: Any, x: Any) -> Any:
    try:
        return call(list.index, call(list, items), x)
    except ValueError:
        raise ValueError("sequence.index(x): x not in sequence") from None


_IN_PLACE = ("iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift", "ior", "ixor", "iand")  # fmt: skip
for _name in _IN_PLACE:
    handles(getattr(operator, _name))(functools.partial(augment, _name))

_WIDTHS = {bool: 0, int: 0, float: 1, complex: 2}  # which numbers a number's methods take


def _kind(x: Any) -> Any:
    return x.node.kind if isinstance(x, SYMBOLS) else type(x)


def _known(owner: Any, other: Any) -> bool:
    """Whether the method of ``owner`` takes ``other``."""
    width = _WIDTHS.get(_kind(owner))
    return width is None or _WIDTHS.get(_kind(other), 3) <= width


def _binary(form: Callable[[Any, Any], Any], turned: bool = False) -> Callable[..., Any]:
    def method(owner: Any, other: Any) -> Any:
        if not _known(owner, other):
            return NotImplemented
        return form(other, owner) if turned else form(owner, other)

    return method


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: call(function, *args)


for _name, _form in BY_NAME.items():
    _method = _name.strip("_")
    if _method in ("neg", "pos", "invert"):
        SPECIAL_METHODS[f"__{_method}__"] = _form
    else:
        SPECIAL_METHODS[f"__{_method}__"] = _binary(_form)
        SPECIAL_METHODS[f"__r{_method}__"] = _binary(_form, turned=True)

for _method, _function in (
    ("__len__", len), ("__bool__", bool), ("__int__", int), ("__float__", float), ("__index__", operator.index), ("__abs__", abs),
    ("__str__", str), ("__repr__", repr), ("__iter__", iter), ("__next__", next), ("__reversed__", reversed), ("__round__", round),
    ("__divmod__", divmod),
):  # fmt: skip
    SPECIAL_METHODS[_method] = _called(_function)

SPECIAL_METHODS["__getitem__"] = getitem
SPECIAL_METHODS["__setitem__"] = setitem
SPECIAL_METHODS["__delitem__"] = delitem
SPECIAL_METHODS["__contains__"] = lambda items, x: contains(x, items)


# Lists and tensors of a trace have such methods of their own.
for _method in ("__getitem__", "__setitem__", "__delitem__", "__len__"):
    METHODS[StagedList, _method] = GROWING[_method] = SPECIAL_METHODS[_method]
for _method in ("__bool__", "__int__", "__float__", "__index__"):
    handles(getattr(Valueless, _method))(SPECIAL_METHODS[_method])


def _items(getter: Any, x: Any) -> Any:
    _, keys = getter.__reduce__()
    found = tuple(getitem(x, key) for key in keys)
    return found if len(found) > 1 else found[0]


def _attributes(getter: Any, x: Any) -> Any:
    _, names = getter.__reduce__()
    found = tuple(_attribute(x, name) for name in names)
    return found if len(found) > 1 else found[0]


def _attribute(x: Any, path: str) -> Any:
    for name in path.split("."):
        x = call(getattr, x, name)
    return x


def _method_of(caller: Any, x: Any) -> Any:
    made, given = caller.__reduce__()
    if made is operator.methodcaller:
        name, *args = given
        return call(call(getattr, x, name), *args)
    return call(
        call(getattr, x, *made.args), *given, **made.keywords
    )  # a ``partial`` with keywords


GETTERS.update({operator.itemgetter: _items, operator.attrgetter: _attributes, operator.methodcaller: _method_of})  # fmt: skip
