"""Tracing a Python function once, for one signature: arguments become inputs, effects on them outputs."""

from __future__ import annotations

import inspect
import logging
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import ConversionError, ScopeError, SharedMemoryError, TographError
from . import (
    arguments,
    commits,
    control_flow,
    creation,
    grads,
    guards,
    host,
    interrupts,
    journal,
    reads,
)
from .arguments import Flat
from .commits import Commits, Held, Target
from .concrete import ConcreteFunction, finish, late_inputs
from .funcgraph import FuncGraph, user_location
from .infer import meta_of, tensor_type
from .journal import Location
from .reach import reachable
from .scalars import size_of
from .shapes import contiguous
from .specs import TensorSpec
from .symbolic import Retrace, SymTensor, memory, placeholder
from .tracing import recording
from .variables import SymVariable, Variable

LOGGER = logging.getLogger("tograph")


class Trace:
    """A concrete function with what must hold for it to be used."""

    def __init__(
        self,
        concrete: ConcreteFunction,
        key: Any,
        specs: list[TensorSpec],
        checks: guards.Guards,
        finder: Any,
    ):
        self.concrete, self.key, self.specs, self.checks, self.finder = (
            concrete,
            key,
            specs,
            checks,
            finder,
        )

    def fits(self, key: Any, flat: Flat) -> bool:
        if len(flat.tensors) != len(self.specs):
            return False
        if key != self.key and not self._covers(flat):
            return False
        return self.checks.hold(flat.tensors)

    def _covers(self, flat: Flat) -> bool:
        for x, spec in zip(flat.tensors, self.specs):
            if isinstance(x, TensorSpec):
                if x != spec:
                    return False
            elif not spec.accepts(x):
                return False
        return True

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
        known: Retrace,
    ):
        self.function, self.bound, self.flat, self.specs = function, bound, flat, specs
        self.root = FuncGraph(_graph_name(function.label()))
        self.inputs: list[SymTensor] = []
        self.failed: Exception | None = None
        self.undo: list[tuple[Location, Any]] = []
        self.done: Callable[[inspect.BoundArguments], list[Target]] = no_places
        self.reach: set[int] | None = None
        self.watch = reads.Watch()
        self.root.root.given = flat.tensors
        self.root.root.real, self.root.root.bases = known.real, known.bases
        self.watch.given, self.watch.real = flat.tensors, known.real
        self.spares: list[tuple[Any, Any]] = []
        self.commits = Commits(self._seen)
        self.root.root.before_failure.append(self.commits)

    def trace(self, key: Any) -> Trace:
        try:
            with interrupts.noted():
                return self._trace(key)
        except Exception as error:
            if error is self.failed:
                self._run_effects()
            raise

    def _run_effects(self) -> None:
        """The code raised while it was traced: what it did before is done, then the error goes on."""
        if (
            all(isinstance(x, torch.Tensor) for x in self.flat.tensors)
            and self.root.graph.control_outputs
        ):
            graph, captured, _, _ = finish(self.root, self.inputs, None, [])
            commits.calls.targets.append(self.done(self.bound))
            try:
                host.build(graph).run(*self.flat.tensors, *captured)
            finally:
                commits.calls.targets.pop()

    def _trace(self, key: Any) -> Trace:
        spares = self.spares
        with recording(self.root), torch.enable_grad(), reads.watching(self.watch):
            self._roots()
            self.inputs = inputs = [self._placeholder(i, s) for i, s in enumerate(self.specs)]
            take = _Taker(self.flat, inputs, self.root.root.real)
            given = {
                n: arguments.replace_tensors(x, take, spares)
                for n, x in self.bound.arguments.items()
            }
            bound = inspect.BoundArguments(self.bound.signature, OrderedDict(given))
            result, changes = self._run(bound, spares)
        self._check_memory()
        effects, finder = self._effects(changes, spares)
        graph, captured, spec, effect_specs = finish(self.root, inputs, result, effects)
        for location, old in reversed(self.undo):
            location._set(old)
        signature = tuple(self.specs)
        concrete = ConcreteFunction(
            self.function.label(),
            graph,
            captured,
            spec,
            effect_specs,
            signature,
            self._binder(),
            self.watch.owns,
        )
        concrete.late = late_inputs(self.root)
        return Trace(
            concrete,
            key,
            self.specs,
            self.watch.guards(self.root, grads.slots_read(self.root)),
            finder,
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

    def _binder(self):
        function = weakref.ref(self.function)

        def bind(concrete, args, kwargs):
            owner = function()
            if owner is None:
                raise ScopeError("the function of this trace does not exist any more")
            bound = _bind_concrete(owner, concrete, args, kwargs)
            flat = Flat()
            owner._key(bound, flat)
            return flat.tensors, ()

        return bind

    def _run(self, bound: inspect.BoundArguments, spares: list) -> tuple[Any, journal.Journal]:
        log = journal.push()
        try:
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
        shape = spec.shape if spec.shape is not None else tuple(x.shape) if real else ()
        if None not in shape:
            meta = meta_of(x) if real else contiguous(spec.dtype, shape, spec.device)
            meta = meta._replace(offset=0)
            made = placeholder(
                self.root, meta, index, label, SymVariable if isinstance(x, Variable) else SymTensor
            )
        else:
            made = self._dynamic(index, spec, shape, x if real else None, label)
        if real and x.requires_grad:
            made.requires_grad_(True)
            made.real_ = x
        return made

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
        where: list[tuple[int | None, Any]] = []
        order: dict[Any, int] = {}
        self._check_created(changes)
        for location, old in changes.entries.values():
            if location.key[0] in ("contents", "key") and id(location.keep) in copies:
                effects.append((None, location.get()))
                where.append((copies[id(location.keep)], location))
            elif location.key in self.root.root.settled:
                self.watch.settle(location)
                continue
            elif self._is_outside(location):
                self.undo.append((location, old))
                effects.append(self._outside_effect(changes, location, old))
                where.append((None, Held(location)))
            else:
                continue
            order[location.key] = len(where) - 1
        for slot in grads.effects_of(changes.entries):
            effects.append((None, slot.content))
            where.append((slot, None))
        for plan in self.commits.plans:
            plan.resolve(order)
        if not effects:
            return [], no_places

        def find(bound: inspect.BoundArguments) -> list[Target]:
            real: list[tuple[Any, Any]] = []
            for x in bound.arguments.values():
                arguments.replace_tensors(x, lambda _: None, real)
            return [Target(_found(i, at, real, bound)) for i, at in where]

        return effects, find

    def _outside_effect(self, changes: journal.Journal, location: Location, old: Any) -> Any:
        """(names of steps, their arguments) of a container that is changed blindly, else (None, what a location holds)."""
        steps = changes.steps.get(location.key)
        if location.key[0] == "contents" and steps is not None:
            return [name for name, _ in steps], [list(args) for _, args in steps]
        if location.key[0] == "contents" or location.key in self.root.root.kept:
            self.watch.kept(location, old)
        return None, location.get()

    def _seen(self, location: Location) -> bool:
        """Whether a change, while tracing goes on, is of something that the caller sees."""
        kind = location.key[0]
        if kind in ("contents", "key") and any(made is location.keep for made, _ in self.spares):
            return True
        if kind == "cell":
            return location.key in self.watch.cells
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

    def _is_outside(self, location: Location) -> bool:
        """Whether something that existed before the call was changed: that happens at every call."""
        if location.key[0] not in ("cell", "key", "attr", "contents"):
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


def _found(i: Any, at: Any, real: list[tuple[Any, Any]], bound: inspect.BoundArguments) -> Location:
    """Where an effect of a call goes: a container that was passed, a ``.grad`` field, or a place outside."""
    if not isinstance(i, grads.Slot):
        return at.here() if i is None else _same_place(at, real[i][1])
    if isinstance(i.late, torch.Tensor):
        return grads.field_of(i.late)
    flat = Flat()
    for name, x in bound.arguments.items():
        arguments.key_of(x, flat, name)
    return grads.field_of(flat.tensors[i.late])


def _same_place(location: Location, container: Any) -> Location:
    """The location in the container that the caller passed."""
    if location.key[0] == "key":
        return journal.key_of(container, location.name_key, location.name)
    return journal.contents(container)


class _Taker:
    """The placeholder for each tensor of the arguments; numpy arrays come in order."""

    def __init__(self, flat: Flat, inputs: list[SymTensor], real: frozenset[int]):
        self.places, self.inputs = flat.places, [*inputs]
        for i in real:
            self.inputs[i] = flat.tensors[i]
        self.arrays = iter(sorted(set(range(len(inputs))) - set(flat.places.values())))

    def __call__(self, x: Any) -> SymTensor:
        place = self.places.get(id(x))
        return self.inputs[next(self.arrays) if place is None else place]


def no_places(bound: inspect.BoundArguments) -> list[Target]:
    return []


def _graph_name(label: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "main"


def _bind_concrete(
    owner: Any, concrete: ConcreteFunction, args: tuple, kwargs: dict
) -> inspect.BoundArguments:
    return arguments.bind(owner._signature, args, kwargs, owner.label())
