"""Call forms: what stands before an entry whose calls have containers, constants or keywords, or give containers.

An entry (``native.entry``) takes tensors and gives a tensor or a tuple. A form is a Python function written for calls of one shape: as many
positional arguments, the same keywords in the same order. It takes the arguments apart, answers ``MISS`` where one is not of the structure
that the trace is for, hands the tensors to the entry, puts the result together, and
does the changes of places outside that the trace has. ``shape`` tells machine code which calls it
may get (see ``native.caller``).

Invariant: a form goes on only for arguments that have the quick key (``keys.QuickKey``) of those it was made for, but for dtypes and sizes, which the
entry looks at.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..guarding.outer_numbers import NumberSlot
from ..native.entry import MISS
from ..symbols.journal import MISSING
from ..values.exact import exact_keys
from ..values.growing import StagedList
from ..values.locations import set_plainly
from ..values.pytrees import rebuild
from ..values.structure import Again, Choice, Const, Leaf, Spec, Tree, leaf_types
from .commits import Held, Target
from .shared_objects import Outer, Passed

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
        self,
        quick: Any,
        trace: Trace,
        args: tuple,
        kwargs: dict,
        tensors: Sequence[Any],
        objects: Sequence[Any] = (),
        joined: Callable[..., Any] | None = None,
    ) -> Form | None:
        """The form for a call like this one, or None. ``tensors``: those of the arguments, in the order of the trace; ``objects``: its ``outers``;
        ``joined``: the entry of calls that are joined with autograd."""
        key = (trace, quick, joined, len(args), *kwargs)
        if key != self._last:
            self._last, self._count = key, 0
        self._count += 1
        if self._count < USES:
            return None
        if key not in self._found:
            if len(self._found) >= MOST:
                self._found.clear()
            self._found[key] = made(trace, args, kwargs, tensors, objects, joined)
        return self._found[key]


def made(
    trace: Trace,
    args: tuple,
    kwargs: dict,
    tensors: Sequence[Any],
    objects: Sequence[Any] = (),
    joined: Callable[..., Any] | None = None,
) -> Form | None:
    """The form of a trace for calls like this one; None where its graph has no entry, or its result is not of one structure."""
    writer = _Writer()
    parameters = [writer.argument(x) for x in (*args, *kwargs.values())]
    given = [writer.tensors[id(x)] for x in tensors]
    if not trace.checks.empty:
        writer.names["checks"] = trace.checks.called
        writer.refuse(f"checks({', '.join(given)}) is not True")
    if not writer.find(trace.concrete.outers, objects):
        return None
    if trace.stateful and joined is not None:
        return None
    written = (
        _stateful(writer, trace, given) if trace.stateful else _plain(writer, trace, given, joined)
    )
    if not written:
        return None
    body = "\n    ".join(writer.lines)
    namespace = {
        **writer.names,
        "miss": MISS,
        "rebuild": rebuild,
        "is_": operator.is_,
        "exact_keys": exact_keys,
    }
    text = f"def form({', '.join(parameters)}):\n    {body}\n"
    exec(compile(text, "<tograph call form>", "exec"), namespace)
    return Form(namespace["form"], (*(None for _ in args), *kwargs))


def _plain(writer: _Writer, trace: Trace, given: list[str], joined: Any) -> bool:
    """Run the entry, and put the result together. Whether that can be written."""
    entry = joined or trace.concrete.entry_of_parts
    result = writer.result(trace.concrete.result_spec)
    if entry is None or result is None:
        return False
    writer.run(entry, given, whole=result == "r")
    writer.lines.append(f"return {result}")
    return True


def _stateful(writer: _Writer, trace: Trace, given: list[str]) -> bool:
    """The same for a trace that looks tensors up outside, or changes places there."""
    concrete = trace.concrete
    entry, result = concrete.entry_of_all, writer.part(concrete.result_spec)
    contents = [writer.part(spec) for _, spec in concrete.effects]
    if entry is None or result is None or None in contents:
        return False
    held = concrete.captured_inputs
    looked_up = {i: f"{writer.named(_getter(slot))}()" for i, slot in concrete.slots.items()}
    captured = [looked_up.get(i) or writer.named(x) for i, x in enumerate(held)]
    writer.run(entry, [*given, *captured], whole=False)
    writer.lines.append(f"result = {result}")
    places = trace.outer_locations()
    owned = [
        isinstance(spec, Leaf) and names is None and isinstance(place, Held) and place.owned
        for place, (names, spec) in zip(places, concrete.effects, strict=True)
    ]
    for i, place in enumerate(places):  # all are found before one of them changes
        writer.lines.append(f"place{i} = {writer.named(place.owner if owned[i] else place.here)}()")
    for i, (content, (names, _)) in enumerate(zip(contents, concrete.effects, strict=True)):
        if owned[i]:
            change = f"{writer.named(set_plainly)}(place{i}, {places[i].attribute!r}, {content})"
            writer.lines += [f"if place{i} is not None:", f"    {change}"]
        elif names is None:
            writer.lines.append(f"place{i}._set({content})")
        else:
            writer.lines.append(f"{writer.named(Target)}(place{i}).apply({writer.named(names)}, {content})")  # fmt: skip
    writer.lines.append("return result")
    return True


def _getter(slot: Any) -> Callable[[], Any]:
    """What finds a captured input for the entry, which takes numbers as they are."""
    return slot.number if isinstance(slot, NumberSlot) else slot.now


class _Writer:
    """The text of a form. ``tensors``: the names of the tensors by identity; ``names``: the objects that the text refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tensors: dict[int, str] = {}
        self.containers: dict[int, str] = {}
        self.objects: list[str] = []
        self.names: dict[str, Any] = {}
        self._mutable: list[str] = []
        self._count, self._parts = itertools.count(), itertools.count()

    def refuse(self, condition: str) -> None:
        self.lines += [f"if {condition}:", "    return miss"]

    def run(self, entry: Callable[..., Any], tensors: list[str], *, whole: bool) -> None:
        """Call an entry; ``whole``: what it gives is the result, ``miss`` too."""
        self.names["entry"] = entry
        self.lines.append(f"r = entry({', '.join(tensors)})")
        if not whole:
            self.refuse("r is miss")

    def find(self, outers: Sequence[Outer], objects: Sequence[Any]) -> bool:
        """Name the containers from before the call that it gives, before anything changes. Whether all are found."""
        for i, (outer, x) in enumerate(zip(outers, objects, strict=True)):
            if isinstance(outer, Passed):
                if id(x) not in self.containers:
                    return False
                self.objects.append(self.containers[id(x)])
            else:
                self.objects.append(f"o{i}")
                self.lines.append(f"o{i} = {self.named(outer)}()")
                self.refuse(f"o{i} is None")
        return True

    def argument(self, x: Any) -> str:
        """The name of an argument, or of a part of one; what it has to be is looked at in the lines."""
        name = f"a{next(self._count)}"
        kind = type(x)
        self.containers[id(x)] = name
        if isinstance(x, torch.Tensor):
            self.tensors[id(x)] = name
        elif isinstance(x, (list, tuple)):
            self.refuse(f"type({name}) is not {self.named(kind)} or len({name}) != {len(x)}")
            self._container(name, x, name)
        elif kind is dict:
            keys = self.named(tuple(x))
            self.refuse(f"type({name}) is not dict or len({name}) != {len(x)}")
            # Most keys are the same objects; others count as long as they are nothing but strings.
            self.refuse(f"not all(map(is_, {name}, {keys})) and exact_keys({name}) != {keys}")
            self._container(name, x.values(), f"{name}.values()")
        elif x is None or kind is bool:
            self.refuse(f"{name} is not {x}")
        elif kind is float and (x == 0 or math.isnan(x)):
            self.refuse(f"type({name}) is not float or repr({name}) != {repr(x)!r}")
        else:
            self.refuse(f"type({name}) is not {kind.__name__} or {name} != {self.named(x)}")
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
            return "r" if not spec.fixed else self.named(spec.const)
        text = self.part(spec)
        return "r" if isinstance(spec, Tree) and _flat(spec) else text

    def part(self, spec: Spec) -> str | None:
        """The same of a part of the result, or of a change, from the next of the items of ``r`` on; None of an object that holds itself too."""
        if isinstance(spec, Leaf):
            return self.named(spec.const) if spec.fixed else f"r[{next(self._parts)}]"
        if isinstance(spec, Const):
            return self.named(spec.value)
        if isinstance(spec, Again):
            return f"t{spec.number}"
        if isinstance(spec, Choice):
            return self._chosen(spec)
        if spec.outer is not None:
            for _ in leaf_types(spec):
                next(self._parts)
            return self.objects[spec.outer]
        if spec.cyclic:
            return None
        found = [self.part(p) for p in spec.parts]
        parts = [p for p in found if p is not None]
        if len(parts) < len(found):
            return None
        text = self._built(spec, parts)
        return text if spec.number is None else f"(t{spec.number} := {text})"

    def _chosen(self, spec: Choice) -> str | None:
        """One of several parts, by the tag before them; None where an option is more than a tensor, number or constant."""
        if not all(isinstance(o, (Leaf, Const)) for o in spec.options):
            return None
        tag = f"r[{next(self._parts)}]"
        parts = [self.part(o) for o in spec.options]
        tests = [f"{part} if {tag} == {i} else " for i, part in enumerate(parts[:-1])]
        return f"({''.join(tests)}{parts[-1]})"

    def _built(self, spec: Tree, parts: list[str]) -> str:
        if spec.cls is list:
            return f"[{', '.join(parts)}]"
        if spec.cls is tuple:
            return f"({''.join(p + ', ' for p in parts)})"
        if spec.cls is StagedList and spec.aux == "staged":
            return f"[*{parts[0]}]"
        if spec.cls is dict and not any(map(_may_miss, spec.parts)):
            keys = map(self.named, spec.aux[0])
            return "{" + ", ".join(f"{k}: {p}" for k, p in zip(keys, parts)) + "}"
        return f"rebuild({self.named(spec.cls)}, {self.named(spec.aux)}, [{', '.join(parts)}])"

    def named(self, x: Any) -> str:
        """A name of an object in the text."""
        name = f"c{len(self.names)}"
        self.names[name] = x
        return name


def _may_miss(spec: Spec) -> bool:
    """Whether a key with that value is in a dict on some paths only, or on none."""
    if isinstance(spec, Choice):
        return any(map(_may_miss, spec.options))
    return isinstance(spec, Const) and spec.value is MISSING


def _flat(spec: Tree) -> bool:
    """Whether a result is a tuple of what the graph gives, as the entry makes it."""
    alone = spec.number is None and spec.outer is None
    return (
        alone and spec.cls is tuple and all(isinstance(p, Leaf) and not p.fixed for p in spec.parts)
    )
