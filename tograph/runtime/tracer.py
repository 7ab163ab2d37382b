"""Tracing a Python function once, for one signature: arguments become inputs, effects on them outputs."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import ConversionError, TographError
from . import (
    arguments,
    control_flow,
    facts,
    families,
    grads,
    guards,
    host,
    interrupts,
    journal,
    transforms,
)
from .arguments import Flat
from .concrete import ConcreteFunction, finish, late_inputs
from .funcgraph import FuncGraph, Ref
from .infer import meta_of, tensor_type
from .journal import Location
from .keys import show_spec
from .reach import reachable
from .scalars import ScalarNode, size_of, staged
from .shapes import contiguous
from .specs import TensorSpec
from .structure import same_number
from .symbolic import SymTensor, placeholder, value_of
from .tracing import recording
from .types import ScalarType

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
        numbers: Sequence[Any] = (),
        open_numbers: tuple[int, ...] = (),
        names: Sequence[str] = (),
    ):
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
        return bool(self.open_numbers) or any(None in (s.shape or (None,)) for s in self.specs)

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

    def places(self, bound: inspect.BoundArguments) -> list[Location]:
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
    ):
        self.function, self.bound, self.flat, self.specs = function, bound, flat, specs
        self.open_numbers, self.tentative = open_numbers, tentative
        self.root = FuncGraph(_graph_name(function.label()))
        self.inputs: list[SymTensor] = []
        self.failed: Exception | None = None
        self.outside: list[tuple[Location, Any]] = []
        self.reach: set[int] | None = None

    def trace(self, key: Any) -> Trace:
        try:
            with interrupts.noted(), transforms.suspended():
                return self._trace(key)
        except Exception as error:
            if error is self.failed and not self.tentative:
                self._run_effects()
            raise

    def _run_effects(self) -> None:
        """The code raised while it was traced: what it did before is done, then the error goes on."""
        if (
            all(isinstance(x, torch.Tensor) for x in self.flat.tensors)
            and self.root.graph.control_outputs
        ):
            graph, captured, _, _ = finish(self.root, self.inputs, None, [])
            host.build(graph).run(*self.flat.tensors, *captured)

    def _trace(self, key: Any) -> Trace:
        spares: list[tuple[Any, Any]] = []
        with (
            recording(self.root),
            torch.enable_grad(),
            facts.scope(),
            guards.watching(self.root) as watch,
        ):
            self.inputs = inputs = [self._placeholder(i, s) for i, s in enumerate(self.specs)]
            numbers = {i: self._number(i, len(inputs) + j) for j, i in enumerate(self.open_numbers)}
            self.inputs = inputs = inputs + [x for x, _ in numbers.values()]
            take = _Taker(self.flat, inputs, {i: x for i, (_, x) in numbers.items()})
            given = {
                n: arguments.replace_tensors(x, take, spares)
                for n, x in self.bound.arguments.items()
            }
            bound = inspect.BoundArguments(self.bound.signature, OrderedDict(given))
            result, changes = self._run(bound, spares)
        effects, finder = self._effects(changes, spares)
        graph, captured, spec, effect_specs = finish(self.root, inputs, result, effects)
        signature = (*self.specs, *(TensorSpec.of(families.number_tensor(self.flat.numbers[i])) for i in self.open_numbers))  # fmt: skip
        concrete = ConcreteFunction(
            self.function.label(),
            graph,
            captured,
            spec,
            effect_specs,
            signature,
            binder(self.function),
        )
        concrete.open_numbers, concrete.late = self.open_numbers, late_inputs(self.root)
        return Trace(
            concrete,
            key,
            self.specs,
            watch.guards(self.root, self.outside, grads.slots_read(self.root)),
            finder,
            self.flat.numbers,
            self.open_numbers,
            [*self.flat.names, *(self.flat.number_names[i] for i in self.open_numbers)],
        )

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
            if not self.tentative:
                self._keep_argument_changes(spares)
            journal.unwind(log)
            log.rollback()
            log = None
            if isinstance(error, Exception) and not isinstance(error, TographError):
                self.failed = error
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
            made = placeholder(self.root, meta, index, label)
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
        """Changes of containers that came as arguments happen at every call: (location, content) and how to find them."""
        copies = {id(made): i for i, (made, _) in enumerate(spares)}
        effects: list[Any] = []
        where: list[Any] = []
        for location, old in changes.entries.values():
            if location.key[0] in ("contents", "key") and id(location.keep) in copies:
                effects.append((location, location.get()))
                where.append((copies[id(location.keep)], location))
            elif self._is_outside(location):
                effects.append((location, location.get()))
                where.append((None, location))
                self.outside.append((location, old))
            elif (
                location.key[0] == "contents"
                and id(location.keep) in self._reach()
                and not control_flow.unmoved(location.get(), old)
            ):
                _warn_mutation(location, self.function.python_function)
        for slot in grads.effects_of(changes.entries):
            effects.append((slot.location(), slot.content))
            where.append((GradOf(slot.late), None))
        for location, old in self.outside:
            location._set(old)
        if not effects:
            return [], no_places

        return effects, Finder(where)

    def _is_outside(self, location: Location) -> bool:
        """Whether a variable or attribute that existed before the call was rebound: that happens at every call."""
        return location.key[0] in ("cell", "key", "attr") and (
            id(location.keep) in self._reach() or control_flow.is_module_globals(location)
        )

    def _reach(self) -> set[int]:
        if self.reach is None:
            self.reach = reachable([self.function.python_function, *self.flat.objects])
        return self.reach

    def _keep_argument_changes(self, spares: list[tuple[Any, Any]]) -> None:
        """The code raised: what it did to container arguments before stays done."""
        for made, real in spares:
            if (
                isinstance(made, list)
                and getattr(made, "handle", None) is None
                and not any(map(_symbolic, made))
            ):
                real[:] = made


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

    def __call__(self, bound: inspect.BoundArguments) -> list[Location]:
        real: list[tuple[Any, Any]] = []
        for x in bound.arguments.values():
            arguments.replace_tensors(x, lambda _: None, real)
        return [_found(i, at, real, bound) for i, at in self.where]


def _found(i: Any, at: Any, real: list[tuple[Any, Any]], bound: inspect.BoundArguments) -> Location:
    """Where an effect of a call goes: a container that was passed, a ``.grad`` field, or a place outside."""
    if not isinstance(i, GradOf):
        return at if i is None else _same_place(at, real[i][1])
    if isinstance(i.owner, torch.Tensor):
        return grads.field_of(i.owner)
    flat = Flat()
    for name, x in bound.arguments.items():
        arguments.key_of(x, flat, name)
    return grads.field_of(flat.tensors[i.owner])


def _symbolic(x: Any) -> bool:
    return isinstance(x, (SymTensor, torch.SymInt, torch.SymFloat, torch.SymBool))


def _same_place(location: Location, container: Any) -> Location:
    """The location in the container that the caller passed."""
    if location.key[0] == "key":
        return journal.key_of(container, location.name_key, location.name)
    return journal.contents(container)


def _name_of(x: Any, function: Any) -> str:
    """What a function calls an object of its closure or its module."""
    code = getattr(function, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or ()
    ):
        if cell.cell_contents is x:
            return name
    return next((n for n in getattr(code, "co_names", ()) if function.__globals__.get(n) is x), "")


def _warn_mutation(location: Location, function: Any) -> None:
    where, name = location.where, _name_of(location.keep, function)
    place = f" at {where[0]}, line {where[1]}" if where else ""
    warnings.warn(
        f"{name and repr(name) + ', '}{location.name} that existed before the call is changed{place}: this acts while tracing only, not at every call. Pass "
        "it as an argument, or return the change.",
        UserWarning,
        stacklevel=2,
    )


class _Taker:
    """The placeholder for each tensor of the arguments; numpy arrays and numbers come in order."""

    def __init__(self, flat: Flat, inputs: list[SymTensor], staged: dict[int, Any]):
        self.places, self.inputs, self.staged = flat.places, inputs, staged
        self.arrays = iter(sorted(set(range(len(flat.tensors))) - set(flat.places.values())))
        self.numbers = 0

    def __call__(self, x: Any) -> Any:
        if type(x) in families.DTYPES:
            self.numbers += 1
            return self.staged.get(self.numbers - 1, x)
        place = self.places.get(id(x))
        return self.inputs[next(self.arrays) if place is None else place]


def no_places(bound: inspect.BoundArguments) -> list[Location]:
    return []


def _graph_name(label: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "main"


def binder(function: Any) -> Callable[..., Any]:
    """How a concrete function of ``function`` takes the tensors from its arguments; it does not need the function."""
    signature, label = function._signature, function.label()

    def bind(concrete: ConcreteFunction, args: tuple, kwargs: dict) -> tuple[list[Any], tuple]:
        bound, flat = arguments.bind(signature, args, kwargs, label), Flat()
        for name, x in bound.arguments.items():
            arguments.key_of(x, flat, name)
        return families.inputs_of(flat, concrete.open_numbers), ()

    return bind
