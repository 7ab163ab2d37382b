"""Call forms: what stands before an entry whose calls have containers, constants or keywords, or give containers.

An entry (``native.entry``) takes tensors and gives a tensor or a tuple. A form is a Python function written for calls of one shape: as many
positional arguments, the same keywords in the same order. It takes the arguments apart, answers ``MISS`` where one is not of the structure
that the trace is for, hands the tensors to the entry, and puts the result together. ``shape`` tells machine code which calls it
may get (see ``native.caller``).

Invariant: a form goes on only for arguments that have the quick key (``keys.quick_key``) of those it was made for, but for dtypes and sizes, which the
entry looks at.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .exact import exact_keys
from .journal import MISSING
from .native.entry import MISS
from .pytrees import rebuild
from .structure import Choice, Const, Leaf, Spec, Tree

if TYPE_CHECKING:
    from .traces import Trace

USES = 3  # calls in a row after which a form is written, which costs as much as some hundred calls by the slower way
MOST = 64  # forms of a function


class Form(NamedTuple):
    call: Callable[..., Any]
    shape: tuple[str | None, ...]


class Forms:
    """The forms of a function, by trace, quick key and keywords. Calls that differ from one to the next get none."""

    def __init__(self) -> None:
        self._found: dict[Any, Form | None] = {}
        self._last: Any = None
        self._count = 0

    def clear(self) -> None:
        self._found.clear()
        self._last = None

    def of(
        self, quick: Any, trace: Trace, args: tuple, kwargs: dict, tensors: Sequence[Any]
    ) -> Form | None:
        """The form for a call like this one, or None. ``tensors``: those of the arguments, in the order of the trace."""
        key = (trace, quick, len(args), *kwargs)
        if key != self._last:
            self._last, self._count = key, 0
        self._count += 1
        if self._count < USES:
            return None
        if key not in self._found:
            if len(self._found) >= MOST:
                self._found.clear()
            self._found[key] = made(trace, args, kwargs, tensors)
        return self._found[key]


def made(trace: Trace, args: tuple, kwargs: dict, tensors: Sequence[Any]) -> Form | None:
    """The form of a trace for calls like this one; None where its graph has no entry, or its result is not of one structure."""
    concrete = trace.concrete
    entry = concrete.entry_of_parts
    writer = _Writer()
    result = writer.result(concrete.result_spec)
    if entry is None or result is None:
        return None
    values = [*args, *kwargs.values()]
    parameters = [writer.argument(x) for x in values]
    taken = ", ".join(writer.tensors[id(x)] for x in tensors)
    if not trace.checks.empty:
        writer.names["checks"] = trace.checks.called
        writer.refuse(f"checks({taken}) is not True")
    lines = [*writer.lines, f"r = entry({taken})"]
    if result != "r":
        lines += ["if r is miss:", "    return miss"]
    body = "\n    ".join([*lines, f"return {result}"])
    namespace = {
        **writer.names,
        "entry": entry,
        "miss": MISS,
        "rebuild": rebuild,
        "is_": operator.is_,
        "exact_keys": exact_keys,
    }
    exec(
        compile(f"def form({', '.join(parameters)}):\n    {body}\n", "<tograph call form>", "exec"),
        namespace,
    )
    return Form(namespace["form"], (*(None for _ in args), *kwargs))


class _Writer:
    """The text of a form. ``tensors``: the names of the tensors by identity; ``names``: the objects that the text refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tensors: dict[int, str] = {}
        self.names: dict[str, Any] = {}
        self._mutable: list[str] = []
        self._count, self._parts = itertools.count(), itertools.count()

    def refuse(self, condition: str) -> None:
        self.lines += [f"if {condition}:", "    return miss"]

    def argument(self, x: Any) -> str:
        """The name of an argument, or of a part of one; what it has to be is looked at in the lines."""
        name = f"a{next(self._count)}"
        kind = type(x)
        if isinstance(x, torch.Tensor):
            self.tensors[id(x)] = name
        elif isinstance(x, (list, tuple)):
            self.refuse(f"type({name}) is not {self._named(kind)} or len({name}) != {len(x)}")
            self._container(name, x, name)
        elif kind is dict:
            keys = self._named(tuple(x))
            self.refuse(f"type({name}) is not dict or len({name}) != {len(x)}")
            # Most keys are the same objects; others count as long as they are nothing but strings.
            self.refuse(f"not all(map(is_, {name}, {keys})) and exact_keys({name}) != {keys}")
            self._container(name, x.values(), f"{name}.values()")
        elif x is None or kind is bool:
            self.refuse(f"{name} is not {x}")
        elif kind is float and (x == 0 or math.isnan(x)):
            self.refuse(f"type({name}) is not float or repr({name}) != {repr(x)!r}")
        else:
            self.refuse(f"type({name}) is not {kind.__name__} or {name} != {self._named(x)}")
        return name

    def _container(self, name: str, items: Any, text: str) -> None:
        """Look at the items of a container. One that can change and is passed twice is another trace."""
        if not isinstance(items, tuple):
            for other in self._mutable:
                self.refuse(f"{name} is {other}")
            self._mutable.append(name)
        at = len(self.lines)
        parts = [self.argument(x) for x in items]
        if parts:
            self.lines.insert(at, f"{', '.join(parts)}, = {text}")

    def result(self, spec: Spec) -> str | None:
        """The expression that makes the result of what the entry gives, ``r``; None where a run decides its structure."""
        if isinstance(spec, Leaf):
            return "r" if not spec.fixed else self._named(spec.const)
        text = self._part(spec)
        return "r" if isinstance(spec, Tree) and _flat(spec) else text

    def _part(self, spec: Spec) -> str | None:
        if isinstance(spec, Leaf):
            return self._named(spec.const) if spec.fixed else f"r[{next(self._parts)}]"
        if isinstance(spec, Const):
            return self._named(spec.value)
        if isinstance(spec, Choice):
            return None
        found = [self._part(p) for p in spec.parts]
        parts = [p for p in found if p is not None]
        if len(parts) < len(found):
            return None
        return self._built(spec, parts)

    def _built(self, spec: Tree, parts: list[str]) -> str:
        if spec.cls is list:
            return f"[{', '.join(parts)}]"
        if spec.cls is tuple:
            return f"({''.join(p + ', ' for p in parts)})"
        if spec.cls is dict and not any(
            isinstance(p, Const) and p.value is MISSING for p in spec.parts
        ):
            keys = map(self._named, spec.aux[0])
            return "{" + ", ".join(f"{k}: {p}" for k, p in zip(keys, parts)) + "}"
        return f"rebuild({self._named(spec.cls)}, {self._named(spec.aux)}, [{', '.join(parts)}])"

    def _named(self, x: Any) -> str:
        """A name of an object in the text."""
        name = f"c{len(self.names)}"
        self.names[name] = x
        return name


def _flat(spec: Tree) -> bool:
    """Whether a result is a tuple of what the graph gives, as the entry makes it."""
    return spec.cls is tuple and all(isinstance(p, Leaf) and not p.fixed for p in spec.parts)
