"""Guards: what a trace depends on besides its arguments, checked before it is used again.

A container is compared by what was read of it, never by identity; a user's object by identity, weakly; a number or
string by type and value; a tensor by identity, since it is captured by reference (``reads`` says what is read).

All checks of a trace compile to one function without loops. Size guards are relations of dynamic sizes that torch had to
decide while tracing.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from ..symbols.journal import MISSING
from ..values.joins import same_number
from ..values.locations import kind_in_c
from . import size_relations
from .lookups import unheld
from .size_relations import evaluate
from .sources import Source, holder
from .tensor_facts import apart, clear, hooks_of, lying, same_array, same_content, unconnected

SEQUENCES = (list, tuple, deque)
MAPPINGS = (dict, OrderedDict, defaultdict)
CONTAINERS = (*SEQUENCES, *MAPPINGS, set, frozenset)
ATOMS = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    range,
    slice,
    enum.Enum,
    torch.dtype,
    torch.device,
    torch.Size,
)


_LOOKS = ("__iter__", "__len__", "__getitem__", "__contains__", "keys", "values", "items")


@functools.lru_cache(maxsize=4096)
def _is_container(kind: type) -> bool:
    own = any(isinstance(getattr(kind, n, None), types.FunctionType) for n in _LOOKS)
    return kind in CONTAINERS or (issubclass(kind, CONTAINERS) and not own)


@functools.lru_cache(maxsize=4096)
def is_named_tuple(kind: type) -> bool:
    """Whether objects of a class are tuples whose items have names, and nothing else: what they hold counts, as of a tuple."""
    named = issubclass(kind, tuple) and hasattr(kind, "_fields") and _is_container(kind)
    return named and kind.__dictoffset__ == 0


def is_container(x: Any) -> bool:
    """Whether what an object holds can be looked at: a container, also of a class that extends one and says nothing else of its items."""
    return _is_container(type(x))


def extends_container(x: Any) -> bool:
    """Whether an object is a container, also of a class that says itself what its items are: what C keeps of it can be looked at.

    Not one of the graph.
    """
    return issubclass(type(x), CONTAINERS) and not hasattr(type(x), "become")


def held_items(x: Any) -> list[Any]:
    """What C keeps of a container: keys and values, or items."""
    kind = kind_in_c(x)
    if issubclass(type(x), dict):
        return [*kind.keys(x), *kind.values(x)]
    return list(kind.__iter__(x))


def remembered(items: list[Any]) -> list[tuple[bool, Any]]:
    return [(True, x) if isinstance(x, ATOMS) or x is None else (False, holder(x)) for x in items]


def same_held(x: Any, old: list[tuple[bool, Any]]) -> bool:
    """Whether C keeps in a container what it did."""
    now = held_items(x)
    return len(now) == len(old) and all(
        same_atom(a, b) if plain else b() is a for a, (plain, b) in zip(now, old)
    )


def same_atom(a: Any, b: Any) -> bool:
    """Whether two plain values cannot be told apart."""
    if isinstance(a, (int, float)):
        return same_number(a, b)
    return type(a) is type(b) and bool(a == b)


def same_items(items: Any, old: list[Any]) -> bool:
    """Whether a long sequence or the keys of a mapping are what they were."""
    if len(items) != len(old):
        return False
    if all(map(operator.is_, items, old)):
        return True
    return all(
        a is b or (not isinstance(a, torch.Tensor) and same_atom(a, b)) for a, b in zip(items, old)
    )


def entry(items: dict[Any, Any], key: Any) -> Any:
    """What a dict holds under a key; ``items[key]`` would put something there in a ``defaultdict``."""
    found = dict.get(items, key, MISSING)
    if found is MISSING:
        raise KeyError(key)
    return found


def nth(items: Any, i: int) -> Any:
    """The value of the ``i``-th entry of a mapping."""
    return list(items.values())[i]


MANY = 100  # checks beside which one more call of Python does not count


class Guards:
    """The checks of a trace: ``hold(tensors)`` is True while the trace may be used."""

    def __init__(
        self,
        checks: list[Check],
        sizes: list[tuple[Any, Any]],
        grads: Sequence[tuple[Any, bool]] = (),
    ):
        """``grads``: tensors, or positions of arguments, with whether their ``.grad`` is missing."""
        self.checks, self.sizes, self.grads = checks, sizes, list(grads)

    @cached_property
    def hold_outside(self) -> Callable[..., bool]:
        """What runs the checks: made when it is asked for, since those of a large module take a while to compile."""
        return _compiled(self.checks)

    @cached_property
    def called(self) -> Callable[..., bool]:
        """``hold`` of the arguments themselves, not of a sequence of them."""
        if self.grads:
            return lambda *tensors: self.hold(tensors)
        if self.sizes:
            return self._sizes_too()
        if len(self.checks) > MANY:
            hold = self.hold_outside
            return lambda *tensors: hold(tensors)
        return _compiled(self.checks, "*tensors")

    def _sizes_too(self) -> Callable[..., bool]:
        sizes, hold = size_relations.compiled(self.sizes), self.hold_outside
        if not self.checks:
            return lambda *tensors: sizes(tensors)
        return lambda *tensors: hold(tensors) and sizes(tensors)

    @cached_property
    def beside_entry(self) -> Callable[..., bool] | None:
        """What else has to hold where machine code takes the arguments: those only that lie in order and overlap nothing that is written. None: nothing."""
        rest = Guards([c for c in self.checks if c.test not in (IN_ORDER, CLEAR)], self.sizes, self.grads)  # fmt: skip
        return None if rest.empty else rest.called

    @cached_property
    def of_arguments(self) -> Guards:
        """Those that look at the tensors of a call, and at what lies in their memory."""
        checks = [c for c in self.checks if c.source.root().kind == "tensor"]
        return Guards(checks, self.sizes, self.grads)

    def live(self, any_mode: bool) -> bool:
        """Whether what was read outside is what it was; what its own tensors require is for a call to tell, and its mode if ``any_mode``."""
        asked = {CLEAR, ANSWER} if any_mode else {CLEAR}
        return _compiled([c for c in self.checks if not (c.of_call() or c.test in asked)])()

    @property
    def objects(self) -> list[Any]:
        """The objects that have to be the same ones."""
        return [c.old() for c in self.checks if c.test == SAME]

    @property
    def empty(self) -> bool:
        """Whether the trace depends on its arguments only."""
        return not (self.checks or self.sizes or self.grads)

    def hold(self, tensors: Any = ()) -> bool:
        """Whether everything that was read is what it was, for arguments with these tensors."""
        if not self.sizes and not self.grads:
            self.hold = self.hold_outside  # for the calls from now on
            return self.hold_outside(tensors)
        if self._grad_changed(tensors) is not None:
            return False
        return self.hold_outside(tensors) and all(
            evaluate(expr, tensors) == wanted for expr, wanted in self.sizes
        )

    def change(self, tensors: Any = ()) -> str | None:
        """What has changed, in words; None when nothing has."""
        found = self.failed(tensors)
        if isinstance(found, Check):
            return f"{found.source.label} changed {found.words()}"
        return self._grad_changed(tensors)

    def failed(self, tensors: Any) -> Any:
        """What does not hold: a check, a size guard, or in words; None where all do."""
        for check in _first_changed(self.checks, tensors):
            return check
        wrong = (pair for pair in self.sizes if evaluate(pair[0], tensors) != pair[1])
        return next(wrong, None) or self._grad_changed(tensors)

    def _grad_changed(self, tensors: Any) -> str | None:
        for owner, missing in self.grads:
            tensor = tensors[owner] if isinstance(owner, int) else owner
            if (tensor.grad is None) is not missing:
                ways = "from None to a tensor" if missing else "from a tensor to None"
                return f".grad of a tensor of shape {list(tensor.shape)} changed {ways}"
        return None

    def replaced(self, tensors: Any = ()) -> set[str]:
        """The labels of the places that hold another tensor than the one that was captured, or another object of the same class."""
        found, places = set(), [c for c in self.checks if c.test in (SAME_TENSOR, SAME)]
        if _first_changed(places, tensors):  # else all hold what they held
            for check in places:
                try:
                    now = current_value(check.source)(tensors)
                except LOST:
                    continue
                old, tensor = check.old(), check.test == SAME_TENSOR
                alike = isinstance(now, torch.Tensor) if tensor else type(now) is type(old)
                if now is not old and (alike or (old is None and now is not None)):
                    found.add(check.source.label)
        return found


# ---- checks and their code


HOOKS, NO_HOOKS = "hooks_of({0}) == {1}", ((), ())
OF_TENSORS = ("{0}.requires_grad", "not {0}.requires_grad", "({0}.requires_grad and {0}.is_leaf) is True", "({0}.requires_grad and {0}.is_leaf) is False")  # fmt: skip


class Check:
    """One test of the value at a source: ``test`` is its expression, with ``{0}`` for the value and ``{1}`` for ``old``."""

    __slots__ = ("old", "source", "test", "text")

    def __init__(self, source: Source, test: str, old: Any = None, text: str = ""):
        self.source, self.test, self.old, self.text = source, test, old, text

    def of_call(self) -> bool:
        """Whether it is about a tensor of the arguments, and can be told without objects of the program (``call_checks.record``)."""
        known = self.test in _OF_CALLS or (self.test == HOOKS and self.old == NO_HOOKS)
        return self.source.kind == "tensor" and known

    def words(self) -> str:
        try:
            now = show(current_value(self.source)())
        except LOST:
            now = "nothing"
        return f"from {self.text} to {now}" if self.text and self.text != now else "its content"


def show(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"a tensor of shape {tuple(x.shape)}"
    base = next((c for c in CONTAINERS if isinstance(x, c)), None)
    if base is not None:
        return f"a {type(x).__name__} of {base.__len__(x)}"  # a user's class may refuse to have one
    text = repr(x) if isinstance(x, ATOMS) or x is None else f"a {type(x).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."


SAME = "{0} is not None and {0} is {1}()"  # an object, which ``old`` holds
# The items of a sequence or the keys of a mapping: most are the same objects, and most mappings of modules are empty.
SAME_ITEMS = "len({0}) == len({1}) and all(map(is_, {0}, {1})) or same_items({0}, {1})"
NO_ITEMS = "len({0}) == 0"
ANSWER = "{0}() is {1}"  # of a question that ``questions`` has
SAME_TENSOR = "{1}() is {0} is not None"  # a tensor that was captured
IN_ORDER = "{0}.is_contiguous()"
STRIDES, OFFSET = "{0}.stride() == {1}", "{0}.storage_offset() == {1}"
PARAMETER = {found: f"(type({{0}}) is {{1}}) is {found}" for found in (True, False)}
CAPTURED = "{0} is {1}()"  # an argument that is also a captured tensor
OTHER = "{0} is not {1}()"  # an argument that was compared with a captured tensor
APART = "apart({0}, tensors)"  # one that is written; the text stands in saved files
CLEAR = "clear(tensors, {1})"
_OF_CALLS = frozenset((*OF_TENSORS, IN_ORDER, STRIDES, OFFSET, *PARAMETER.values(), CAPTURED, OTHER, APART, CLEAR))  # fmt: skip


def _compiled(checks: list[Check], parameters: str = "tensors=()") -> Callable[..., bool]:
    """The function that runs some checks."""
    source, namespace = _write(checks, parameters)
    exec(compile(source, "<tograph guards>", "exec"), namespace)
    return namespace["hold"]


def _first_changed(checks: Sequence[Check], tensors: Any) -> list[Check]:
    """The first of some checks that does not hold, if there is one."""
    low, high = 0, len(checks)
    while low < high:
        program, namespace = _write(checks[low : (middle := (low + high + 1) // 2)])
        exec(compile(program, "<tograph guard>", "exec"), namespace)
        if namespace["hold"](tensors):
            low = middle
        elif middle == low + 1:
            return [checks[low]]
        else:
            high = middle
    return []


def current_value(source: Source) -> Callable[..., Any]:
    """A function that gives what is at a source now; it raises what following the source raises."""
    program, namespace = _write([Check(source, "True")])
    exec(compile(program, "<tograph slot>", "exec"), namespace)
    return namespace["now"]


LOST = (AttributeError, LookupError, ValueError, TypeError, RuntimeError, ReferenceError)


def _write(checks: list[Check], parameters: str = "tensors=()") -> tuple[str, dict[str, Any]]:
    """The text of ``hold``, which runs the checks, and of ``now``, the value at the last source."""
    namespace: dict[str, Any] = {"lost": LOST, "same_atom": same_atom, "same_items": same_items, "same_held": same_held, "entry": entry, "nth": nth,
                                 "same_array": same_array, "same_content": same_content, "lying": lying, "apart": apart, "clear": clear, "unconnected": unconnected, "hooks_of": hooks_of, "unheld": unheld, "is_": operator.is_}  # fmt: skip
    names: dict[int, str] = {}
    lines: list[str] = []

    def bind(x: Any) -> str:
        label = f"k{id(x)}"
        namespace[label] = x
        return label

    def follow(source: Source) -> str:
        if id(source) not in names:
            parent = "" if source.parent is None else follow(source.parent)
            text = source.write(parent, bind)
            names[id(source)] = f"v{len(names)}"
            lines.append(f"{names[id(source)]} = {text}")
        return names[id(source)]

    last = "None"
    if any(check.test == APART for check in checks):
        lines.append("alone = lying(tensors)")
    for check in checks:
        last = follow(check.source)
        test = NO_ITEMS if check.test == SAME_ITEMS and not check.old else check.test
        test = "apart({0}, alone)" if test == APART else test
        lines.append(f"if not ({test.format(last, bind(check.old))}): return False")
    body = "".join(f"        {line}\n" for line in lines)
    steps = "".join(f"    {line}\n" for line in lines if not line.startswith("if "))
    text = f"def hold({parameters}):\n    try:\n{body}        return True\n    except lost:\n        return False\n"
    return text + f"def now(tensors=()):\n{steps}    return {last}\n", namespace
