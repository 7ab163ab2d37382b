"""Tracing a Python function once, for one signature: arguments become inputs, effects on them outputs."""

from __future__ import annotations

import inspect
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from ...errors import ConversionError, StagingError, TographError, refused
from .. import control_flow
from ..execution import host
from ..gradients import grad_fields, transforms, wrapped
from ..graph.ir import Graph
from ..graph.ordering import control_outputs
from ..guarding import followed_objects, guards, questions, reads, slots, unconverted
from ..guarding.outer_numbers import Opened
from ..guarding.outer_tables import Stood
from ..guarding.shared_memory import SharedMemory
from ..guarding.sources import Source
from ..library.unconverted_functions import recorded
from ..recording import interrupts
from ..recording.tracing import recording
from ..symbols import journal, switched
from ..symbols.funcgraph import FuncGraph, is_tracing
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor
from ..values import arguments, conditional_items, facts, families, keys, structure
from ..values.arguments import Flat
from ..values.specs import TensorSpec
from ..writes import histories
from . import commits, failures
from .binding import binder
from .call_effects import CallEffects, no_places
from .commits import Target
from .concrete import ConcreteFunction
from .entries import add_location
from .finishing import finish, late_inputs
from .identities import Identities
from .placeholders import inputs_of
from .shared_objects import Found, Outer, Outside, passed
from .traces import Trace

if TYPE_CHECKING:
    from ..functions.function import Function


class Tracer:
    """One run of the Python code on placeholders."""

    def __init__(
        self,
        function: Function[..., Any],
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
        self.leaves: set[int] = set()
        self.ended: tuple[int, ...] = ()
        self.failed: BaseException | None = None
        self.done: Callable[[inspect.BoundArguments], list[Target]] = no_places
        self.watch = reads.Watch()
        objects = [function.python_function, *flat.objects]
        self.stood = Stood(known.stood if known is not None else ())
        self.effects = CallEffects(
            self.root, self.watch, self.opened, self.stood, objects, flat.opened
        )
        root, known = self.root.root, known or Retrace()
        root.given, root.real, root.bases = flat.tensors, known.real, known.bases
        root.apart, root.iterated = known.apart is not None, known.iterated
        root.alone, root.nested, root.mixed = known.alone, known.nested is not None, known.mixed
        root.drawn, root.pointwise = known.drawn, known.pointwise
        root.looped, root.unreserved = known.looped, known.unreserved
        root.recursive, root.stepped = known.recursive, known.stepped
        root.switched = dict.fromkeys(known.switched, False)
        root.shared, root.straight, root.merged = known.shared, known.straight, known.merged
        root.tabled, root.untabled = known.tabled, known.untabled
        root.ungrown, root.grew = known.ungrown, known.grown
        root.grown = known.grown if known.ungrown is None else frozenset()
        self.watch.given, self.watch.real, self.watch.quiet = flat.tensors, known.real, known.quiet
        if known.quiet:
            questions.at_the_start(torch.is_grad_enabled, self.watch.began, self.watch)
        root.before_failure.append(self.effects.commits)

    def trace(self, key: Any) -> Trace:
        self.root.root.base = id(sys._getframe())
        try:
            with interrupts.noted(), wrapped.standing_in(), transforms.suspended(), structure.unions_of_a_trace(is_tracing()), recorded():  # fmt: skip
                return self._trace(key)
        except BaseException as error:
            again = self._again(error)
            if again is not None or isinstance(error, Retrace) or refused(error):
                self.watch.draws.put_back()
                self.root.root.put_back_draws()
            if again is not None:
                raise again from None
            if error is self.failed and not self.tentative:
                try:
                    self._run_effects()
                except Exception as earlier:
                    # plain Python does not get as far as the later one
                    failures.without(earlier, error)
                    raise
            raise
        finally:
            self.opened.leave()
            self.root.root.release()
            conditional_items.forget()

    def _again(self, error: BaseException) -> Retrace | None:
        """What another trace is to know, of which the error may not come."""
        if self.root.root.repeated and isinstance(error, Exception) and not self.watch.acted:
            return Retrace(straight=True)
        return Retrace(drawn=True) if self._drawn_too_late(error) else None

    def _drawn_too_late(self, error: BaseException) -> bool:
        """Whether code that takes no staged numbers (numpy's own) may have asked for one that numpy's generators draw when the graph runs."""
        root = self.root.root
        return isinstance(error, TypeError) and root.draws and not root.drawn

    def begins_again(self) -> None:
        """Tracing begins again: StagingError where the code has acted on what is outside of the program."""
        self.take_back()
        if self.watch.acted:
            raise StagingError(
                f"{self.watch.acted}() has acted while tracing, and this function has to be traced a second time in one call: "
                "call it outside of the function, or by tg.py_function"
            ) from None

    def take_back(self) -> None:
        """Another trace follows, which does again what code that is not converted has done in this one."""
        unconverted.undo(self.watch.acts)

    def _run_effects(self) -> None:
        """The code raised while it was traced: what it did before is done, then the error goes on."""
        if all(isinstance(x, torch.Tensor) for x in self.flat.tensors) and control_outputs(
            self.root.graph
        ):
            graph, captured, *_ = finish(self.root, self.inputs, None, [], self.watch, self._moves)
            commits.calls.targets.append(self.done(self.bound))
            try:
                host.build(graph).run(*families.inputs_of(self.flat, self.open_numbers), *captured)
            except Exception as error:
                add_location(error, graph)
                raise
            finally:
                commits.calls.targets.pop()

    def _trace(self, key: Any) -> Trace:
        result, changes = self._recorded()
        try:
            self.watch.draws.check(self.watch, self.root.root)
            self.watch.left()
            SharedMemory(self.root.root, self.watch, self.inputs, self.flat.tensors).check()
            self._leaves()
            effects, finder = self.effects.of(changes)
            graph, captured, spec, effect_specs, identities = finish(
                self.root,
                self.inputs,
                result,
                effects,
                self.watch,
                self._moves,
                outer := Found(self._place),
            )
            self._keep_unseen(graph, captured)
        except BaseException:
            changes.rollback()
            raise
        if self.root.root.laid_out:
            self.watch.layout()
        changed = [p.keep for p in changes.locations() if not self.opened.same(p)]
        for location, old in reversed(self.effects.undo):
            location._set(old)
        left = [spec, *(inner for _, inner in effect_specs)]
        followed_objects.follow(graph, self.watch, self.function.replaced, changed, left)
        made = graph, captured, spec, effect_specs
        concrete = self._concrete(key, made, identities, outer.outers)
        return Trace(
            concrete,
            key,
            self.specs,
            self.watch.guards(self.root, grad_fields.slots_read(self.root)),
            finder,
            self.flat.numbers,
            self.open_numbers,
            [*self.flat.names, *(self.flat.number_names[i] for i in self.open_numbers)],
            frozenset(changes.entries),
        )

    def _keep_unseen(self, graph: Graph, captured: list[Any]) -> None:
        if self.root.root.repeated:
            tensors = [x for x in (*self.flat.tensors, *captured) if isinstance(x, torch.Tensor)]
            grads = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
            if control_flow.asks_for_python(graph, grads):
                raise Retrace(straight=True)

    def _leaves(self) -> None:
        root = self.root.root
        self.leaves, self.ended = self._switched()
        if True in root.assigned.values():
            known = [*root.captured.values(), *(x.storage_ for x in self.inputs)]
            self.watch.leaves(root.assigned, known)

    def _concrete(
        self, key: Any, made: tuple, identities: Identities, outers: Any
    ) -> ConcreteFunction:
        graph, captured, spec, effect_specs = made
        concrete = ConcreteFunction(
            self.function.label(),
            graph,
            captured,
            spec,
            effect_specs,
            self._structured(),
            binder(
                self.function._signature,
                self.function.label(),
                key[0],
                self.specs,
                opened=self.flat.opened,
            ),
            self.watch.owns,
        )
        concrete.identities, concrete.outers = identities, outers
        concrete.mode = not self.watch.quiet if self.root.root.enabled else None
        concrete.unrolled = self.root.root.spared
        self._describe_inputs(concrete, captured)
        self.watch.captured(captured)
        return concrete

    def _place(self, x: Any) -> Outer | None:
        """How a call finds a container that existed before it; None for one that the code made."""
        for made, real in self.effects.spares:
            if made is x:
                return passed(real, self.bound.arguments, self.flat.opened)
        source = self.watch.read_at(x)
        return None if source is None else Outside(guards.current_value(source))

    def _recorded(self) -> tuple[Any, journal.Journal]:
        """(what the function returned, its changes), with its operations in the root graph."""
        try:
            return self._record()
        finally:
            histories.released(self.root.root.outside, self.root.root.before)

    def _record(self) -> tuple[Any, journal.Journal]:
        with (
            recording(self.root),
            torch.set_grad_enabled(not self.watch.quiet),
            facts.scope(),
            reads.watching(self.watch),
            keys.uncached_casts(),
        ):
            self._roots()
            self.inputs, take = inputs_of(self.root, self.flat, self.specs, self.open_numbers)
            for i in (self.flat.places or {}).values():
                self.watch.stand_in(take.inputs[i], i)
            given = {
                n: arguments.replace_tensors(
                    x, take, self.effects.spares, self.stood.lent, self.flat.opened
                )
                for n, x in self.bound.arguments.items()
            }
            self.root.root.lent = list(self.effects.spares)
            self.effects.copied(self.root.root.lent)
            self.root.root.read_items.update(arguments.tuples_in(given))
            began, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
            found = self._run(inspect.BoundArguments(self.bound.signature, OrderedDict(given)))
            if torch.is_grad_enabled() != began:
                raise StagingError(
                    f"{self.function.label()!r} turns gradients {'off' if began else 'on'} and leaves them so: that would last beyond its calls, in "
                    "which its graph runs. Use a `with` statement, such as torch.no_grad(), or change it outside of the function"
                )
            if torch.get_default_dtype() is not dtype:
                left = torch.get_default_dtype()
                torch.set_default_dtype(dtype)
                raise StagingError(
                    f"{self.function.label()!r} sets torch's default dtype to {left} and leaves it so: that would last beyond its calls, in which its graph "
                    "runs. Set it back before the function ends, or outside of it"
                )
            return found

    def _structured(self) -> tuple[TensorSpec, ...]:
        """The specs of the inputs: tensors, then open numbers."""
        numbers = [families.number_tensor(self.flat.numbers[i]) for i in self.open_numbers]
        return (*self.specs, *map(TensorSpec.of, numbers))

    def _describe_inputs(self, concrete: ConcreteFunction, captured: list[Any]) -> None:
        """Which inputs are numbers, are looked up at every call, or get ``requires_grad_()`` in the code."""
        concrete.open_numbers, concrete.late = self.open_numbers, late_inputs(self.root)
        replaced, before = self.effects.replaced, self.function.replaced
        concrete.look_up(
            slots.found(self.root, self.watch, replaced, before, concrete.name)
            | self.opened.slots(self.root)
        )
        first = len(self.inputs)
        places = [i for i, x in enumerate(captured) if id(x) in self.leaves]
        concrete.made_leaves = (
            *(i for i, x in enumerate(self.inputs) if id(x) in self.leaves),
            *(first + i for i in places),
        )
        concrete.ended_leaves = self.ended

    def _switched(self) -> tuple[set[int], tuple[int, ...]]:
        """By identity what requires a gradient when the code ends, and did not before; and the places of arguments that require none any more."""
        root = self.root.root
        made, ended = set(), []
        for i, (x, real) in enumerate(zip(self.inputs, self.flat.tensors)):
            if isinstance(real, torch.Tensor) and x.is_leaf and x.requires_grad is not real.requires_grad:  # fmt: skip
                made.add(id(x)) if x.requires_grad else ended.append(i)
        for x, *_ in root.outside:
            if switched.became(x, root):
                made.add(id(x))
        root.switched = {}  # what leaves is a tensor itself
        return made, tuple(ended)

    def _moves(self, x: torch.Tensor) -> bool:
        """Whether a tensor of the caller's is looked up at every call."""
        hints = self.function.replaced
        return slots.moves(x, self.root, self.watch, self.effects.replaced, hints)

    def _roots(self) -> None:
        """The objects that the trace begins with."""
        names = {id(x): n for n, x in self.bound.arguments.items()}
        f = self.function.python_function
        code = getattr(
            getattr(f, "function", f), "__code__", None
        )  # of a ``WeakMethod`` that of its function
        for x in self.flat.objects:
            name = names.get(id(x))
            self.watch.root(x, name or f"a {type(x).__name__}", code if name else None)
        bound_to = getattr(f, "bound_to", None)
        if bound_to is not None:
            self.watch.root(bound_to(), "self", code)
        elif isinstance(f, types.MethodType):
            self.watch.root(f.__self__, "self", code)
        elif not isinstance(f, types.FunctionType):
            self.watch.root(f, self.function.label())

    def _run(self, bound: inspect.BoundArguments) -> tuple[Any, journal.Journal]:
        log = journal.push()
        try:
            self.opened.enter(self.root, self.watch)
            self.stood.enter(self.watch)
            self.effects.commits.holds(self.root, self.opened.entries | self.stood.entries)
            function = self.function.converted()
            try:
                result = function(*bound.args, **bound.kwargs)
            except control_flow.Unreachable:
                result = None
            except Exception as error:  # of the user's code, of any class
                histories.check(error)
                if control_flow.is_leaf_error(error):
                    reads.leaf_written()
                if isinstance(error, TographError) or not failures.tells_staged(error):
                    raise
                control_flow.emit_raise(error)  # with what its arguments are when the graph runs
                result = None
            conditional_items.given_out(result)
            if inspect.iscoroutine(result) or inspect.isasyncgen(result):
                raise ConversionError(
                    f"{self.function.label()!r} is an async function: these are not supported in a graph"
                )
            return result, log
        except BaseException as error:
            if failures.is_own(error) or (
                not isinstance(error, Exception) and control_flow.ends(error)
            ):
                self.failed = error
                self.effects.commits(self.root)
                self.done = self.effects.of(log)[1]
            journal.unwind(log, undone=error is not self.failed)
            told = failures.told(error, log, self.watch) if error is self.failed else []
            log.rollback()
            failures.put_again(told)
            log = None
            raise
        finally:
            if log is not None:
                journal.pop(log)


def _graph_name(label: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "main"
