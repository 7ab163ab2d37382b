"""Operations on a value that is one of several kinds: done on each kind, in the branches of an ``If`` on its tag.

A variable that is None on one path and a tensor on the other is a ``TaggedUnion``. Using it runs the operation on every
option under a staged condition; an option that fails (``None + 1``) raises when the graph runs and that is the one.
Where the tag is already known, in the branch of a condition that was asked of it, only the options that are
left count.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.graph.ops import ARITHMETIC, COMPARISONS
from ..runtime.library.staged_string import StagedString, made_string
from ..runtime.symbols.funcgraph import current_graph, user_location
from ..runtime.symbols.journal import MISSING, Location
from ..runtime.values import either, facts
from ..runtime.values.growing import StagedList
from ..runtime.values.joins import MANY_TEXTS
from ..runtime.values.structure import TaggedUnion, is_growing, is_union
from .call_rules import is_user_function
from .staging import PLAIN, is_staged


def distribute(
    function: Callable[[Any], Any],
    x: TaggedUnion,
    places: Sequence[Location] = (),
    error_of: Callable[[str | None], Exception] | None = None,
) -> Any:
    """``function`` of the option that ``x`` is; ``error_of`` gives the error where it is unbound, else Python's for a local variable."""
    left = facts.possible(x)

    def chain(options: list[int]) -> Any:
        i = options[0]
        if len(options) == 1:
            return function(_checked(x, i, error_of))
        test = facts.is_option(x, i)
        return control_flow.staged_if(
            test, lambda: function(_checked(x, i, error_of)), lambda: chain(options[1:]), places
        )

    return chain(left)


def _checked(
    x: TaggedUnion, i: int, error_of: Callable[[str | None], Exception] | None = None
) -> Any:
    if x.options_[i] is MISSING:
        raise (error_of or unbound)(x.name_)
    return x.options_[i]


def unbound(name: str | None = None) -> UnboundLocalError:
    """Python's error for a local variable without a value, by its name where that is known."""
    variable = "local variable" if name is None else f"local variable {name!r}"
    return UnboundLocalError(f"cannot access {variable} where it is not associated with a value")


def settled(x: Any) -> Any:
    """What ``x`` is where the conditions around leave one option of it; else ``x``."""
    if not is_union(x):
        return x
    left = facts.possible(x)
    return _checked(x, left[0]) if len(left) == 1 else x


def distribute_missing(
    x: TaggedUnion, absent: Callable[[], Any], present: Callable[[Any], Any] = lambda v: v
) -> Any:
    """``present`` of the option that ``x`` is, or ``absent()`` where it is none: an attribute or key set on some paths only."""

    def chain(options: list[int]) -> Any:
        i = options[0]
        missing = x.options_[i] is MISSING
        value = (lambda: absent()) if missing else (lambda: present(x.options_[i]))
        if len(options) == 1:
            return value()
        return control_flow.staged_if(facts.is_option(x, i), value, lambda: chain(options[1:]))

    return chain(facts.possible(x))


def apply(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """``function(*args)`` with every union among the arguments resolved."""
    for i, a in enumerate(args):
        if is_union(a):
            return distribute(
                lambda v, i=i: apply(function, *args[:i], v, *args[i + 1 :], **kwargs), a
            )
    for k, a in kwargs.items():
        if is_union(a):
            return distribute(lambda v, k=k: apply(function, *args, **{**kwargs, k: v}), a)
    return function(*args, **kwargs)


def apply_to_items(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """``function`` of arguments that hold unions as items of a list or tuple: ``torch.stack([x, y])``."""
    for place, a in (*enumerate(args), *kwargs.items()):
        if holds_unions(a):

            def given(*items: Any, place: Any = place) -> Any:
                if isinstance(place, str):
                    return apply_to_items(function, *args, **{**kwargs, place: items})
                return apply_to_items(function, *args[:place], items, *args[place + 1 :], **kwargs)

            return _settled(given, a)
    return function(*args, **kwargs)


def holds_unions(x: Any) -> bool:
    """Whether a list or tuple whose items are known here has unions among them; of a subclass, another would not be one."""
    known = type(x) in (list, tuple) or (type(x) is StagedList and x.handle is None)
    return known and any(map(is_union, x))


def _settled(function: Callable[..., Any], items: Sequence[Any]) -> Any:
    """``function(*items)`` with every union resolved.

    One whose options are one kind of value where they exist (a variable that is not bound on some path) becomes that
    value first, so that many of these are as many branches; only the others multiply.
    """
    items = [distribute(lambda v: v, v) if is_union(v) else v for v in items]
    return apply(function, *items)


_ALIKE = frozenset(("add", "sub", "mul", "truediv", *COMPARISONS))


def resolved(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The operands of an operator, with a number or tensor beside a tensor as a tensor where that makes no difference."""
    if name in _ALIKE and is_union(a) is not is_union(b):
        one, other = (a, b) if is_union(a) else (b, a)
        found = either.beside(one, other) if isinstance(other, torch.Tensor) else None
        if found is not None:
            return (found, b) if one is a else (a, found)
    if name == "add" and (is_union(a) or is_union(b)) and _many_texts(a, b):
        return as_text(a), as_text(b)
    return a, b


def _many_texts(a: Any, b: Any) -> bool:
    """Whether ``a + b`` is one of so many strings that they are made when the graph runs: each ``+`` would multiply them."""
    counts = [1, 1]
    for i, x in enumerate((a, b)):
        options = [x.options_[k] for k in facts.possible(x)] if is_union(x) else [x]
        if not all(type(o) in (str, StagedString) for o in options):
            return False
        counts[i] = len(options)
    return counts[0] * counts[1] > MANY_TEXTS


def as_text(x: Any) -> Any:
    """A union of strings as one that is made when the graph runs."""
    graph = current_graph()
    return made_string(control_flow.outside_value(x, graph), graph) if is_union(x) else x


def updated(name: str, x: Any, value: Any) -> tuple[Any, Any]:
    """``x`` and ``value`` of ``x += value``: strings that would be too many as one that is made when the graph runs.

    A number that may be a tensor is not resolved as beside operators: Python makes a new object of the number and changes
    the tensor, which another name may hold, with the number's value where that name has the number (``b = 0; a = b; a += x``).
    """
    if name == "iadd" and (is_union(x) or is_union(value)) and _many_texts(x, value):
        return as_text(x), as_text(value)
    return x, value


def holds_union(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    return any(map(is_union, args)) or any(map(is_union, kwargs.values()))


def each(form: Callable[..., Any]) -> Callable[..., Any]:
    """``form``, where a union among the arguments is taken option by option."""

    @functools.wraps(form)
    def run(*args: Any, **kwargs: Any) -> Any:
        if holds_union(args, kwargs):
            return apply(run, *args, **kwargs)
        return form(*args, **kwargs)

    return run


def test_options(question: Callable[[Any], Any], x: TaggedUnion) -> Any:
    """A yes-or-no question whose answer for each option is known now: no branches, a test of the tag."""
    answers = {i: bool(question(_checked_quiet(x, i))) for i in facts.possible(x)}
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    return facts.is_one_of(x, [i for i, yes in answers.items() if yes])


def _checked_quiet(x: TaggedUnion, i: int) -> Any:
    return x.options_[i]


_call: list[Callable[..., Any]] = []
_is_conditional: list[Callable[[Any], bool]] = []


def set_call(call: Callable[..., Any]) -> None:
    """The operator that converts what it calls, which imports this module."""
    _call[:] = [call]


def set_is_conditional(test: Callable[[Any], bool]) -> None:
    """Whether items of a set or dict depend on a staged condition: ``members``, which imports this module, tells."""
    _is_conditional[:] = [test]


def _object_truth(x: Any, what: str) -> Any:
    """An object of a user's class is as true as its converted ``__bool__`` or ``__len__`` says."""
    if hasattr(type(x), "__tograph_len__") and not isinstance(x, list):
        return x.__tograph_len__() > 0
    if isinstance(x, (dict, set)) and _is_conditional[0](x):
        return _call[0](len, x) > 0
    for name in ("__bool__", "__len__"):
        method = getattr(type(x), name, None)
        if method is None:
            continue
        if not is_user_function(method):
            return x
        found = _call[0](method, x)
        if name == "__bool__" and not isinstance(found, (bool, torch.SymBool)):
            raise TypeError(f"__bool__ should return bool, returned {type(found).__name__}")
        return truth(found, what)
    return x


def truth(x: Any, what: str) -> Any:
    """A condition that may be of several kinds as one bool or staged condition."""
    if type(x) in PLAIN:
        return x
    if is_growing(x):
        return x.length() > 0
    if is_union(x):
        found = either.tensor_of(x)
        x = x if found is None else found
    if not is_union(x):
        if what != "while":  # a loop that begins by a known condition is staged all the same
            x = facts.known(x)
        return x if is_staged(x) else _object_truth(x, what)
    found = distribute(
        lambda v: control_flow.predicate(v, what) if is_staged(v) else _bool(truth(v, what)), x
    )
    if is_union(found):  # a bool on one path, a tensor on another
        one = either.tensor_of(found)
        found = distribute(control_flow.truth_number, found) if one is None else one
    return found


def _bool(x: Any) -> Any:
    return x if is_staged(x) else bool(x)


def _method(name: str):
    function = getattr(operator, name)

    def method(self, *args):
        return apply(function, self, *args)

    return method


def _reflected(name: str):
    function = getattr(operator, name)
    return lambda self, other: apply(function, other, self)


for _name in (*ARITHMETIC, "matmul"):
    setattr(TaggedUnion, f"__{_name.rstrip('_')}__", _method(_name))
    setattr(TaggedUnion, f"__r{_name.rstrip('_')}__", _reflected(_name))
for _name in [*COMPARISONS, "neg", "pos", "abs", "invert", "getitem"]:
    setattr(TaggedUnion, f"__{_name}__", _method(_name))


def attribute(self: TaggedUnion, name: str) -> Any:
    """An attribute of the option that ``self`` is."""
    if name.startswith("__") and name.endswith("__") and name != "__contains__":
        raise AttributeError(name)
    return distribute(lambda v: getattr(v, name), self)


def _torch_function(cls, func, types, args=(), kwargs=None):
    kwargs = kwargs or {}
    if holds_union(args, kwargs):
        return apply(func, *args, **kwargs)
    return apply_to_items(func, *args, **kwargs)


def _truth_of(self) -> bool:
    """What code that is not converted asks."""
    raise StagingError(
        "a value that is one thing or another depending on a staged condition is a condition of code that is not converted: test it in a function "
        "that is",
        user_location(),
    )


def _iter(self):
    """The items, where every option that has any has equally many; Python would ask by index until there are none."""
    items = distribute(list, self)
    if is_union(items):
        raise StagingError(
            "iterating over a value that has a different number of items by a staged condition is not possible here: take it apart in the "
            "branches",
            user_location(),
        )
    return iter(items)


_SPECIAL = {
    "__bool__": _truth_of,
    "__iter__": _iter,
    "__getattr__": attribute,
    "__torch_function__": classmethod(_torch_function),
}
for _name, _form in _SPECIAL.items():
    setattr(TaggedUnion, _name, _form)
