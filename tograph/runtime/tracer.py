"""Tracing a Python function once, for one signature: arguments become inputs, effects on them outputs."""

from __future__ import annotations

import inspect
import logging
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import ConversionError, SharedMemoryError, TographError
from . import (
    arguments,
    commits,
    control_flow,
    creation,
    facts,
    families,
    grads,
    guards,
    host,
    interrupts,
    journal,
    reads,
    slots,
    transforms,
)
from .arguments import Flat
from .binding import binder
from .commits import Commits, Held, Target
from .concrete import ConcreteFunction, add_location, finish, late_inputs
from .funcgraph import FuncGraph, Ref, user_location
from .infer import meta_of, tensor_type
from .joins import same_number
from .journal import Location
from .keys import show_spec
from .outer_numbers import Opened
from .reach import reachable
from .scalars import ScalarNode, size_of, staged
from .shapes import contiguous
from .sources import Source
from .specs import TensorSpec
from .symbolic import Retrace, SymTensor, memory, placeholder, value_of
from .tracing import recording
from .types import ScalarType
from .variables import SymVariable, Variable

LOGGER = logging.getLogger("tograph")
_OWNED = ("cell", "key", "attr", "contents")  # the kinds of locations that are a part of an object


class Trace:
    """A concrete function with what must hold for it to be used."""

    def __init__(
        self,
        concrete: ConcreteFunction,
        key: Any,
        specs: list[TensorSpec],
        checks: guards.Guards,
        finder: Any,
        numbers: Sequence[Any] = (),
        open_numbers: tuple[int, ...] = (),
        names: Sequence[str] = (),
        written: frozenset[Any] = frozenset(),
    ):
        self.written = written  # the keys of the outer locations that the code changes
        self.concrete, self.key, self.specs, self.checks, self.finder = (
            concrete,
            key,
            specs,
            checks,
            finder,
        )
        self.numbers, self.open_numbers, self.names = list(numbers), open_numbers, list(names)

    @property
    def open(self) -> bool:
        """Whether calls of other sizes or numbers than the traced ones may use it."""
        return bool(self.open_numbers) or any(
            s.shape is None or None in s.shape for s in self.specs
        )

    def inputs(self, flat: Flat) -> list[Any]:
        """The tensors of a call: those of the arguments, then its open numbers."""
        return families.inputs_of(flat, self.open_numbers)

    def fits(self, key: Any, flat: Flat) -> bool:
        if len(flat.tensors) != len(self.specs):
            return False
        if key != self.key and not self._covers(flat):
            return False
        return self.checks.hold(self.inputs(flat))

    def _covers(self, flat: Flat) -> bool:
        for i, (new, old) in enumerate(zip(flat.numbers, self.numbers)):
            if i in self.open_numbers:
                if not families.storable(new):
                    return False
            elif not same_number(new, old):
                return False
        for x, spec in zip(flat.tensors, self.specs):
            if isinstance(x, TensorSpec):
                if x != spec:
                    return False
            elif not spec.accepts(x):
                return False
        return True

    def describe(self) -> str:
        """What is open in it, and its guards on sizes, for people; empty when there is neither."""
        names = self.names
        shown = [f"{n}: {show_spec(s)}" for n, s in zip(names, self.specs) if None in (s.shape or (None,))]  # fmt: skip
        shown += [f"{n}: {type(self.numbers[i]).__name__}" for n, i in zip(names[len(self.specs) :], self.open_numbers)]  # fmt: skip
        text = f"; takes {', '.join(shown)}" if shown else ""
        checks = [guards.describe_size(e, w, names) for e, w in self.checks.sizes]
        return text + (f"; only if {', '.join(checks)}" if checks else "")

    def places(self, bound: inspect.BoundArguments) -> list[Target]:
        return self.finder(bound)


class Tracer:
    """One run of the Python code on placeholders."""

    def __init__(
        self,
        function: Any,
        bound: inspect.BoundArguments,
        flat: Flat,
        specs: list[TensorSpec],
        open_numbers: tuple[int, ...] = (),
        tentative: bool = False,
        known: Retrace | None = None,
        outer: Iterable[Source] = (),
    ):
        self.opened = Opened(outer)
        self.function, self.bound, self.flat, self.specs = function, bound, flat, specs
        self.open_numbers, self.tentative = open_numbers, tentative
        self.root = FuncGraph(_graph_name(function.label()))
        self.inputs: list[SymTensor] = []
        self.failed: Exception | None = None
        self.undo: list[tuple[Location, Any]] = []
        self.done: Callable[[inspect.BoundArguments], list[Target]] = no_places
        self.reach: set[int] | None = None
        self.spares: list[tuple[Any, Any]] = []
        self.replaced: list[int] = []  # the tensors that outer places do not hold after the call
        self.watch = reads.Watch()
        self.commits = Commits(self._seen)
        root, known = self.root.root, known or Retrace()
        root.given, root.real, root.bases = flat.tensors, known.real, known.bases
        root.apart, root.iterated = known.apart is not None, known.iterated
        self.watch.given, self.watch.real = flat.tensors, known.real
        root.before_failure.append(self.commits)

    def trace(self, key: Any) -> Trace:
        try:
            with interrupts.noted(), transforms.suspended():
                return self._trace(key)
        except Exception as error:
            if error is self.failed and not self.tentative:
                try:
                    self._run_effects()
                except Exception as earlier:
                    _without(earlier, error)  # plain Python does not get as far as the later one
                    raise
            raise
        finally:
            journal.forget()

    def _run_effects(self) -> None:
        """The code raised while it was traced: what it did before is done, then the error goes on."""
        if (
            all(isinstance(x, torch.Tensor) for x in self.flat.tensors)
            and self.root.graph.control_outputs
        ):
            graph, captured, _, _ = finish(self.root, self.inputs, None, [])
            commits.calls.targets.append(self.done(self.bound))
            try:
                host.build(graph).run(*families.inputs_of(self.flat, self.open_numbers), *captured)
            except Exception as error:
                add_location(error, graph)
                raise
            finally:
                commits.calls.targets.pop()

    def _trace(self, key: Any) -> Trace:
        spares = self.spares
        with (
            recording(self.root),
            torch.enable_grad(),
            facts.scope(),
            reads.watching(self.watch),
        ):
            self._roots()
            self.inputs = inputs = [self._placeholder(i, s) for i, s in enumerate(self.specs)]
            numbers = {i: self._number(i, len(inputs) + j) for j, i in enumerate(self.open_numbers)}
            self.inputs = inputs = inputs + [x for x, _ in numbers.values()]
            take = _Taker(
                self.flat, inputs, {i: x for i, (_, x) in numbers.items()}, self.root.root.real
            )
            given = {
                n: arguments.replace_tensors(x, take, spares)
                for n, x in self.bound.arguments.items()
            }
            bound = inspect.BoundArguments(self.bound.signature, OrderedDict(given))
            result, changes = self._run(bound, spares)
        try:
            self._check_memory()
        except BaseException:
            changes.rollback()
            raise
        effects, finder = self._effects(changes, spares)
        graph, captured, spec, effect_specs = finish(self.root, inputs, result, effects)
        for location, old in reversed(self.undo):
            location._set(old)
        signature = (*self.specs, *(TensorSpec.of(families.number_tensor(self.flat.numbers[i])) for i in self.open_numbers))  # fmt: skip
        concrete = ConcreteFunction(
            self.function.label(),
            graph,
            captured,
            spec,
            effect_specs,
            signature,
            binder(self.function._signature, self.function.label(), key[0], self.specs),
            self.watch.owns,
        )
        concrete.open_numbers, concrete.late = self.open_numbers, late_inputs(self.root)
        concrete.look_up(
            slots.found(self.root, self.watch, self.replaced, self.function.replaced, concrete.name)
            | self.opened.slots(self.root)
        )
        concrete.made_leaves = tuple(
            i
            for i, (made, real) in enumerate(zip(inputs, self.flat.tensors))
            if isinstance(real, torch.Tensor)
            and made.is_leaf
            and made.requires_grad
            and not real.requires_grad
        )
        return Trace(
            concrete,
            key,
            self.specs,
            self.watch.guards(self.root, grads.slots_read(self.root)),
            finder,
            self.flat.numbers,
            self.open_numbers,
            [*self.flat.names, *(self.flat.number_names[i] for i in self.open_numbers)],
            frozenset(changes.entries),
        )

    def _roots(self) -> None:
        """The objects that the trace begins with."""
        names = {id(x): n for n, x in self.bound.arguments.items()}
        for x in self.flat.objects:
            self.watch.root(x, names.get(id(x), f"a {type(x).__name__}"))
        f = self.function.python_function
        bound_to = getattr(f, "bound_to", None)
        if bound_to is not None:
            self.watch.root(bound_to(), "self")
        elif isinstance(f, types.MethodType):
            self.watch.root(f.__self__, "self")
        elif not isinstance(f, types.FunctionType):
            self.watch.root(f, self.function.label())

    def _run(self, bound: inspect.BoundArguments, spares: list) -> tuple[Any, journal.Journal]:
        log = journal.push()
        try:
            self.opened.enter(self.root, self.watch)
            self.commits.holds(self.root, self.opened.entries)
            function = self.function.converted()
            try:
                result = function(*bound.args, **bound.kwargs)
            except control_flow.Unreachable:
                result = None
            if inspect.iscoroutine(result) or inspect.isasyncgen(result):
                raise ConversionError(
                    f"{self.function.label()!r} is an async function: these are not supported in a graph"
                )
            return result, log
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, TographError):
                self.failed = error
                self.commits(self.root)
                self.done = self._effects(log, spares)[1]
            journal.unwind(log)
            log.rollback()
            log = None
            raise
        finally:
            if log is not None:
                journal.pop(log)

    def _placeholder(self, index: int, spec: TensorSpec) -> SymTensor:
        x = self.flat.tensors[index]
        label = self.flat.names[index]
        label = label if label.isidentifier() else ""
        real = isinstance(x, torch.Tensor) and not isinstance(x, SymTensor)
        # Of a tensor of any rank there is a trace for each rank.
        shape = spec.shape if spec.shape is not None else (None,) * (x.dim() if real else 0)
        if None not in shape:
            meta = meta_of(x) if real else contiguous(spec.dtype, shape, spec.device)
            meta = meta._replace(offset=0)
            made = placeholder(
                self.root,
                meta,
                index,
                label,
                SymVariable if isinstance(x, Variable) else SymTensor,
            )
        else:
            made = self._dynamic(index, spec, shape, x if real else None, label)
        if real and x.requires_grad:
            made.requires_grad_(True)
            made.real_ = x
        return made

    def _number(self, i: int, place: int) -> tuple[SymTensor, Any]:
        """(input, staged number) for an argument that is an int or a float; its value is a hint."""
        x = self.flat.numbers[i]
        meta = meta_of(families.number_tensor(x))
        made = placeholder(self.root, meta, place, f"number{i}")
        kind = type(x)
        value = self.root.emit(f"py.{kind.__name__}", value_of(made, self.root), type=ScalarType(kind))  # fmt: skip
        return made, staged(ScalarNode(kind, Ref(value, self.root), hint=x, expr=("number", place)))

    def _dynamic(
        self, index: int, spec: TensorSpec, shape: Sequence[int | None], x: Any, label: str
    ) -> SymTensor:
        static = contiguous(spec.dtype, [n if n is not None else 0 for n in shape], spec.device)
        made = placeholder(self.root, static, index, label)
        value = self.root.captures[made.storage_]
        size = []
        for d, n in enumerate(shape):
            if n is None:
                hint = int(x.shape[d]) if x is not None else 7 + 4 * d + 2 * index
                size.append(size_of(value, d, self.root, hint, ("size", index, d)))
            else:
                size.append(n)
        meta = contiguous(spec.dtype, size, spec.device)
        storage = made.storage_
        storage.meta = meta
        value.type = tensor_type(meta)
        return SymTensor(meta, storage)

    def _effects(self, changes: journal.Journal, spares: list) -> tuple[list, Callable]:
        """Changes of what existed before happen at every call: (location, content) and how to find them.

        A container of the arguments was copied, and its content is part of the key. Of any other, either the changes
        are repeated, or, when they depend on what it held, that is guarded and it gets its new content.
        """
        copies = {id(made): i for i, (made, _) in enumerate(spares)}
        effects: list[Any] = []
        where: list[tuple[Any, Any]] = []
        order: dict[Any, int] = {}
        committed = {key for plan in self.commits.plans for key, _, _ in plan.parts}
        self._check_created(changes)
        if self._changes_created(changes):
            self.root.root.settled.clear()
        for location, old in changes.entries.values():
            if self.opened.same(location) and location.key not in committed:
                self.undo.append((location, old))
                continue
            if location.key[0] in ("contents", "key") and id(location.keep) in copies:
                effects.append((None, location.get()))
                where.append((copies[id(location.keep)], location))
            elif location.key in self.root.root.settled:
                self.watch.settle(location)
                continue
            elif self._is_outside(location):
                self.undo.append((location, old))
                self.replaced += slots.tensors_of(old)
                effects.append(self._outside_effect(changes, location, old))
                where.append((None, Held(location)))
            else:
                continue
            order[location.key] = len(where) - 1
        for slot in grads.effects_of(changes.entries):
            order[slot.location().key] = len(where)
            effects.append((None, slot.content))
            where.append((GradOf(slot.late), None))
        for plan in self.commits.plans:
            plan.resolve(order)
        if not effects:
            return [], no_places

        return effects, Finder(where)

    def _outside_effect(self, changes: journal.Journal, location: Location, old: Any) -> Any:
        """(names of steps, their arguments) of a container that is changed blindly, else (None, what a location holds)."""
        steps = changes.steps.get(location.key)
        if location.key[0] == "contents" and steps is not None:
            return [name for name, _ in steps], [list(args) for _, args in steps]
        kept = location.key in self.root.root.kept and location.key not in self.opened.entries
        if location.key[0] == "contents" or kept:
            self.watch.kept(location, old)
        return None, location.get()

    def _seen(self, location: Location) -> bool:
        """Whether a change, while tracing goes on, is of something that the caller sees."""
        kind = location.key[0]
        if kind in ("contents", "key") and any(made is location.keep for made, _ in self.spares):
            return True
        if kind == "cell":
            return location.key in self.watch.cells
        if kind == "grad":
            return location.keep.outside
        return kind in ("key", "attr", "contents") and (
            self.watch.source_of(location.keep) is not None
            or control_flow.is_module_globals(location)
        )

    def _check_memory(self) -> None:
        """Tensors that share memory, one of which is written, are views of one storage; an argument cannot be that."""
        root = self.root.root
        for i in root.real:
            self.watch.argument(i, root.given[i])
        if not root.assigned:
            return
        known = [*root.captured.values(), *(x.storage_ for x in self.inputs)]
        written = [s for s in known if id(s) in root.assigned]
        real = {id(s): self._real(s) for s in known if isinstance(self._real(s), torch.Tensor)}
        for s in written:
            if id(s) not in real:
                continue
            others = [
                o
                for o in known
                if o is not s and id(o) in real and self._shares(real[id(s)], real[id(o)])
            ]
            if s.argument is not None:
                self.watch.apart(s.argument)
            if not others:
                continue
            both = [real[id(s)], *(real[id(o)] for o in others)]
            if any(x.requires_grad or x.dtype != both[0].dtype for x in both) or any(
                o.argument is not None for o in [s, *others]
            ):
                raise SharedMemoryError(
                    "a tensor that is written shares memory with another one that the function uses, and one of them is an argument or "
                    "requires grad. Pass one of them, and make the view inside of the function.",
                    user_location(),
                )
            raise Retrace(bases=frozenset([memory(both[0])]))

    def _real(self, storage: Any) -> Any:
        return storage.external if storage.argument is None else self.flat.tensors[storage.argument]

    def _shares(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        return a is not b and memory(a) == memory(b) != 0

    def _check_created(self, changes: journal.Journal) -> None:
        """What was made has to be kept by something that the next call finds."""
        created = self.root.root.created
        if created:
            places = [p for p in changes.locations() if self._is_outside(p)]
            creation.check_reached(created, [p.get() for p in places])

    def _changes_created(self, changes: journal.Journal) -> bool:
        """Whether what was made is changed by the same call: the next one finds it in another state, so this trace is not for it."""
        created = [x for x, _ in self.root.root.created]
        if not created:
            return False
        inside = reachable(created)
        return any(id(p.keep) in inside for p in changes.locations() if p.key[0] in _OWNED)

    def _is_outside(self, location: Location) -> bool:
        """Whether something that existed before the call was changed: that happens at every call."""
        if location.key[0] not in _OWNED:
            return False
        return (
            control_flow.is_module_globals(location)
            or self.watch.source_of(location.keep) is not None
            or id(location.keep) in self._reach()
        )

    def _reach(self) -> set[int]:
        if self.reach is None:
            self.reach = reachable([self.function.python_function, *self.flat.objects])
        return self.reach


def _without(error: BaseException, other: BaseException) -> None:
    """Take ``other``, and what led to it, out of what is shown as the context of ``error``."""
    at = error
    while at.__context__ is not None:
        if at.__context__ is other:
            at.__context__ = None
            return
        at = at.__context__


@dataclass(frozen=True)
class GradOf:
    """The ``.grad`` field of a tensor: the one at a position among the arguments, or this one."""

    owner: Any


class Finder:
    """Finds, for a call, the locations that the effects of a trace go to.

    ``where``: pairs of a position among the containers of the arguments and a location in such a container; the position
    is None for a location outside of the arguments, a ``GradOf`` for the gradient of a tensor.
    """

    def __init__(self, where: list[tuple[Any, Any]]):
        self.where = where

    def __call__(self, bound: inspect.BoundArguments) -> list[Target]:
        real: list[tuple[Any, Any]] = []
        for x in bound.arguments.values():
            arguments.replace_tensors(x, lambda _: None, real)
        return [Target(_found(i, at, real, bound)) for i, at in self.where]


def _found(i: Any, at: Any, real: list[tuple[Any, Any]], bound: inspect.BoundArguments) -> Location:
    """Where an effect of a call goes: a container that was passed, a ``.grad`` field, or a place outside."""
    if not isinstance(i, GradOf):
        return at.here() if i is None else _same_place(at, real[i][1])
    if isinstance(i.owner, torch.Tensor):
        return grads.field_of(i.owner)
    flat = Flat()
    for name, x in bound.arguments.items():
        arguments.key_of(x, flat, name)
    return grads.field_of(flat.tensors[i.owner])


def _same_place(location: Location, container: Any) -> Location:
    """The location in the container that the caller passed."""
    if location.key[0] == "key":
        if isinstance(container, set):
            return journal.item_of(container, location.name_key)
        return journal.key_of(container, location.name_key, location.name)
    return journal.contents(container)


class _Taker:
    """The placeholder for each tensor of the arguments; numpy arrays and numbers come in order."""

    def __init__(
        self, flat: Flat, inputs: list[SymTensor], staged: dict[int, Any], real: frozenset[int]
    ):
        self.places, self.inputs, self.staged = flat.places, [*inputs], staged
        for i in real:
            self.inputs[i] = flat.tensors[i]
        self.arrays = iter(sorted(set(range(len(flat.tensors))) - set(flat.places.values())))
        self.numbers = 0

    def __call__(self, x: Any) -> Any:
        if type(x) in families.DTYPES:
            self.numbers += 1
            return self.staged.get(self.numbers - 1, x)
        place = self.places.get(id(x))
        return self.inputs[next(self.arrays) if place is None else place]


def no_places(bound: inspect.BoundArguments) -> list[Target]:
    return []


def _graph_name(label: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "main"
