"""What a call is traced as: its very sizes and numbers, or with some of them open.

With ``reduce_retracing`` those are open that differ between the calls of a family. Numbers of outer objects are inputs of the
graph where they were seen to change from call to call. An open trace is tentative: where the code needs the size or number itself,
the call is traced as it is.
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...errors import (
    AliasError,
    ConditionError,
    LastingChangeError,
    SharedMemoryError,
    StagingError,
)
from ..guarding import reads
from ..guarding.outer_numbers import OuterNumbers
from ..symbols.retrace import Retrace
from ..symbols.root import Root
from ..traces.tracer import Tracer
from ..traces.traces import Trace
from ..values.arguments import Flat
from ..values.families import Family, numbers_in
from ..values.keys import spec_from, without_sizes
from ..values.specs import TensorSpec
from . import signatures
from .opened_records import Unopened

if TYPE_CHECKING:
    from .function import Function


class Openings:
    """What was seen of the calls of one function: ``families`` of its arguments, ``outer`` numbers."""

    def __init__(self) -> None:
        self.families: dict[Any, Family] = {}
        self.outer = OuterNumbers()
        self.acts = False  # on what is outside of the program: a trace of it is for one call, and may not be made twice

    def trace(
        self,
        function: Function[..., Any],
        key: Any,
        bound: inspect.BoundArguments,
        flat: Flat,
        outlived: Trace | None = None,
    ) -> Trace:
        """A trace of ``function`` that serves this call, with long loops unrolled where it comes for one that is ``outlived``."""
        with reads.one_call():
            while True:
                try:
                    if outlived is not None:
                        return self._unrolled(function, key, bound, flat, outlived)
                    return self._found(function, key, bound, flat)
                except Retrace as again:
                    self.outer.open_now(again.opened)

    def _found(
        self, function: Function[..., Any], key: Any, bound: inspect.BoundArguments, flat: Flat
    ) -> Trace:
        """A trace with as much open as is known to change. Retrace: a staged construct changes a number outside that is not."""
        self.outer.forget_dead()
        if self.acts and flat.opened:
            raise Unopened
        may_open = function.reduce_retracing or bool(flat.opened)
        may_open = may_open and function.input_signature is None and not self.acts
        trace = self._opened(function, key, bound, flat) if may_open else None
        if trace is None and self.outer.open:
            trace = self._with_outer(function, key, bound, flat)
        if trace is None and flat.opened:
            trace = self._apart(function, key, bound, flat)
        if trace is None:
            trace = self._traced(function, key, bound, flat, exact_specs(function, bound, flat))
        return trace

    def _unrolled(
        self,
        function: Function[..., Any],
        key: Any,
        bound: inspect.BoundArguments,
        flat: Flat,
        outlived: Trace,
    ) -> Trace:
        """A trace like one that is there, with long loops unrolled; the one that is there where it cannot be made."""
        known = Retrace(straight=True)
        specs, numbers = outlived.specs, outlived.open_numbers
        try:
            trace = self._traced(function, key, bound, flat, specs, numbers, True, known)
        except Exception:  # whatever a second trace meets: nobody has asked for it
            outlived.concrete.unrolled = 0
            return outlived
        trace.concrete.scheduled.hurry()
        return trace

    def _apart(
        self, function: Function[..., Any], key: Any, bound: inspect.BoundArguments, flat: Flat
    ) -> Trace:
        """A trace that takes objects apart; Unopened where there is none."""
        specs = exact_specs(function, bound, flat)
        try:
            return self._traced(function, key, bound, flat, specs, tentative=True)
        except Retrace:  # a number outside becomes an input
            raise
        except Exception as error:  # whatever the code makes of a copy: it is traced with the object itself, and raises again then
            if self.acts and not isinstance(error, StagingError):
                raise
            raise Unopened from None

    def _opened(
        self, function: Function[..., Any], key: Any, bound: inspect.BoundArguments, flat: Flat
    ) -> Trace | None:
        """A trace with open sizes and numbers, where the call differs from earlier ones of its family in nothing else."""
        exact = exact_specs(function, bound, flat)
        family = self.families.get(without_sizes(key))
        if family is None:
            self.families[without_sizes(key)] = Family(exact, list(flat.numbers))
            return None
        family.widen(exact, flat.numbers)
        while not family.closed:
            specs = family.open_specs(exact)
            numbers = () if flat.closed else family.open_numbers(flat.numbers)
            if specs == exact and not numbers:
                return None
            try:
                trace = self._traced(function, key, bound, flat, specs, numbers, tentative=True)
            except Exception:  # whatever the code makes of something open: it is traced as it is, and raises again then
                family.closed = True
                return None
            needed = numbers_in(trace.checks.sizes, len(flat.tensors))
            if not needed:
                return trace
            family.needed.update(numbers[i] for i in needed)
        return None

    def _with_outer(
        self, function: Function[..., Any], key: Any, bound: inspect.BoundArguments, flat: Flat
    ) -> Trace | None:
        """A trace that takes numbers of outer objects as inputs; None where the code needs the numbers."""
        try:
            return self._traced(
                function, key, bound, flat, exact_specs(function, bound, flat), tentative=True
            )
        except Exception:  # whatever the code makes of a staged number: it is traced as it is, and raises again then
            self.outer.close()
            return None

    def _traced(
        self,
        function: Function[..., Any],
        key: Any,
        bound: inspect.BoundArguments,
        flat: Flat,
        specs: list[TensorSpec],
        numbers: tuple[int, ...] = (),
        tentative: bool = False,
        known: Retrace | None = None,
    ) -> Trace:
        """A trace; it begins again when tracing found out that tensors are one, or which containers have to be told apart.

        So does one that fails where gradients may be None, because a staged loop that gathers them may have no iteration, and one whose
        dicts do not fit in the graph.
        """
        known, unnested = known or Retrace(), False
        with ExitStack() as failed:
            while True:
                tracer = Tracer(
                    function,
                    bound,
                    flat,
                    specs,
                    numbers,
                    tentative,
                    known,
                    self.outer.beside(flat.opened),
                )
                tracer.watch.closed = self.outer.closed
                if tentative:  # where it fails, the call is traced as it is
                    failed.callback(tracer.take_back)
                try:
                    failed.callback(self._note, tracer.watch)
                    trace = tracer.trace(key)
                    failed.pop_all()
                    self._note(tracer.watch)
                    return trace
                except Retrace as again:
                    tracer.begins_again()
                    if again.opened:
                        raise
                    unnested = unnested or tracer.root.root.unnested
                    for state in again.stepped:
                        failed.callback(state.drop)
                        state.make()
                    known = known | again
                except ConditionError:
                    raise  # the program's own: its effects have happened
                except StagingError as error:
                    if tracer.watch.acted:  # another trace would do it again
                        raise
                    unnested = unnested or tracer.root.root.unnested
                    if known.leaving:  # a change that needs containers apart says so again
                        known = known | Retrace(merged=True)
                        known.apart, known.leaving = None, False
                    else:
                        known = _other_ways(known, tracer.root.root, error, unnested)
                    tracer.take_back()

    def _note(self, watch: reads.Watch) -> None:
        self.acts |= bool(watch.acted)


def _other_ways(known: Retrace, root: Root, error: StagingError, unnested: bool) -> Retrace:
    """What to know for another trace after one that failed; the error where there is no other way."""
    if error.grown and known.ungrown is None:
        return known | Retrace(ungrown=error)
    if error.stood is not None and known.untabled is None:
        return known | Retrace(stood=frozenset([error.stood]))
    if error.table is not None and known.untabled is None:
        return known | Retrace(tabled=frozenset([error.table]))
    if root.alike:  # where it is not what was concluded, it comes again
        return known | Retrace(alone=True)
    if root.gathered and not known.iterated:
        return known | Retrace(iterated=True)
    if not known.nested and not isinstance(error, LastingChangeError):
        known = known | Retrace(nested=known.apart or error)
        known.apart = None
        return known
    if (known.tabled or known.stood) and known.untabled is None:
        known = known | Retrace(untabled=error)
        known.tabled, known.stood, known.nested, known.apart = frozenset(), frozenset(), None, None
        return known
    about_names = (AliasError, SharedMemoryError) if unnested else AliasError
    if known.grown and known.ungrown is None:  # as it was before a list turned out to grow
        return Retrace(ungrown=error)
    first = known.untabled or known.apart or known.nested
    if known.untabled is None and (
        first is None or (isinstance(error, about_names) and (known.apart is not None or unnested))
    ):
        raise error
    raise first from None


def exact_specs(
    function: Function[..., Any], bound: inspect.BoundArguments, flat: Flat
) -> list[TensorSpec]:
    """What each tensor argument is traced as when nothing is known of other calls."""
    if function.input_signature is None:
        return [spec_from(x) for x in flat.tensors]
    known = signatures.told(bound, function.input_signature, function._specified)
    return [known.get(id(x)) or spec_from(x) for x in flat.tensors]
