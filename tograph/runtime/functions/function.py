"""``tg.function``: a Python function with a cache of traces.

A call binds its arguments, computes the trace key, and runs the concrete function of that key; when there is none,
it traces one. ``convert`` (given by the layer above) rewrites the Python function before it is traced.

Guards. While tracing, every converted function notes the globals and closure cells that its code names. Their values
are compared by identity before a trace is used again, so a changed Python value traces anew instead of going stale.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ... import collector, stacks
from ...errors import NotAFunctionError, SignatureError
from ...lazy import lazy_module
from .. import control_flow
from ..diagnosis import shown
from ..display import artifacts
from ..execution.probes import profiled
from ..native.caller import EAGER, install
from ..native.entry import MISS
from ..recording import outer_tracers
from ..symbols.funcgraph import is_tracing
from ..symbols.misuse import check_flag
from ..traces.concrete import ConcreteFunction
from ..traces.forms import Forms
from ..traces.traces import Trace
from ..values import arguments
from ..values.arguments import Flat
from ..values.keys import QuickKey, context, is_usual
from . import latest, signatures
from .methods import BoundFunction, HeldMethod, WeakMethod, can_be_weak
from .opened_records import OpenedRecords, Unopened
from .openings import Openings
from .rebinding import copy_function, deepcopy_function, reduce_function, refuse_scripting
from .retraces import UNROLLED, Retraces
from .stand_ins import StandIns, call_with_stand_ins
from .trace_cache import SIZE, TraceCache

notebook = lazy_module("..display.notebook", __package__)
proxied = lazy_module(".proxied", __package__)


def run_functions_eagerly(flag: bool) -> None:
    """While True, every ``tg.function`` runs as plain Python: no conversion, no tracing.

    Example: ``tg.run_functions_eagerly(True)`` before a look at what a step does in a debugger.
    """
    check_flag(flag, "run_functions_eagerly", "flag")
    EAGER.value = flag


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class Function(Generic[P, R]):
    """A Python function that runs as a graph. Made by ``tg.function``.

    ``trace_count``: how often the Python code was traced. ``concrete_functions``: the traces, oldest first.
    ``python_function``: the plain function. ``traces``: with all that tells when they hold.
    """

    __slots__ = ("__dict__", "__weakref__", *itertools.chain(*latest.SLOTS))
    __tograph_callable__ = True

    def __init__(
        self,
        python_function: Callable[P, R],
        convert: Callable[[Any], Any] | None,
        input_signature: Sequence[Any] | None = None,
        reduce_retracing: bool = False,
        name: str | None = None,
    ):
        if isinstance(python_function, Function):
            python_function = python_function.python_function
        if isinstance(python_function, type) or not callable(python_function):
            raise NotAFunctionError(f"tg.function takes a function, not {python_function!r}")
        self.python_function = python_function
        self.input_signature = specs = signatures.check_specs(input_signature)
        if not isinstance(name, str | None):
            raise SignatureError(f"'name' of tg.function must be a str, not {name!r}")
        self.reduce_retracing = reduce_retracing
        self._convert, self._name = convert, name
        self.traces = TraceCache()
        self._quick: dict[Any, Trace] = {}
        self._entry: Callable[..., Any] | None
        self._checks: Callable[..., bool] | None
        self._shape: tuple[str | None, ...] | None
        latest.forget(self)
        self._forms = Forms()
        self._openings, self._retraces, self.stand_ins = Openings(), Retraces(), StandIns()
        self.records = OpenedRecords()
        self.replaced: set[str] = set()  # places outside whose tensor was replaced between calls
        self._methods: dict[int, tuple[Any, Function]] = {}
        self.trace_count = 0
        functools.update_wrapper(self, python_function, updated=())
        self.__wrapped__ = python_function
        self._signature = signatures.signature_of(python_function)
        self._names = arguments.plain_names(self._signature)
        self._defaults = arguments.named_defaults(self._signature)
        self._most = arguments.most_by_position(self._signature)
        self._plain = all(
            arguments.is_fixed(p.default) for p in self._signature.parameters.values()
        )
        if specs is not None:
            self._specified = signatures.specified(python_function, self._signature, specs)
            signatures.check_count(self._specified, specs)

    # ---- as a decorator on methods

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Function[P, R]: ...

    @overload
    def __get__(
        self: Function[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> BoundFunction[Q, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if not can_be_weak(instance):
            return BoundFunction(HeldMethod(self, instance), instance, self)
        key = id(instance)
        found = self._methods.get(key)
        if found is None or found[0]() is not instance:
            bound = Function(WeakMethod(self.python_function, instance), self._convert, self.input_signature,
                             self.reduce_retracing, self._name)  # fmt: skip
            methods = self._methods
            found = self._methods[key] = (
                weakref.ref(instance, lambda _: methods.pop(key, None)),
                bound,
            )
        return BoundFunction(found[1], instance, self)

    def __repr__(self) -> str:
        return f"<tg.function {self.label()}>"

    def __reduce__(self):
        return reduce_function(self)

    def __copy__(self):
        return copy_function(self)

    def __deepcopy__(self, memo):
        return deepcopy_function(self, memo)

    __prepare_scriptable__ = refuse_scripting

    def _repr_html_(self) -> str:
        return notebook.function_html(self)

    def label(self) -> str:
        """The name in messages and graphs."""
        return self._name or getattr(
            self.python_function, "__name__", type(self.python_function).__name__
        )

    # ---- calling

    @outer_tracers.opaque
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if EAGER.value or outer_tracers.recorded() is not None:
            return self.python_function(*args, **kwargs)
        given = args, kwargs
        if kwargs:
            args, kwargs = arguments.by_position(args, kwargs, self._names)
        if not kwargs and self._entry is not None and not _call_in_machine_code():
            result = self._by_entry(args)
            if result is not MISS:
                return result
        if is_tracing():
            return self._call_in_trace(args, kwargs)
        try:
            return self._result(args, kwargs, given)
        except Exception as error:
            __tracebackhide__ = True
            raise shown(error)  # noqa: B904  the same object

    def _result(self, args: tuple, kwargs: dict, given: tuple[tuple, dict]) -> Any:
        """What a call gives that no entry takes. ``given``: the arguments as they were passed."""
        if outer_tracers.watching():
            return proxied.call(self, args, kwargs)
        values = arguments.values_of(args, kwargs, self._most, self._defaults)
        quick = (
            None if values is None or not self._plain else QuickKey(values, self.records.classes)
        )
        result = MISS if quick is None or quick.key is None else self._run_quick(quick, given)
        result = call_with_stand_ins(self, args, kwargs) if result is MISS else result
        if result is not MISS:
            return result
        trace, flat, bound = self._find(args, kwargs)
        if quick is not None and trace.places_known and len(flat.tensors) == len(quick.tensors):
            if len(self._quick) > SIZE:
                self._quick.clear()
            self._quick[quick.without_numbers() if trace.open_numbers else quick.key] = trace
        return trace.concrete.run(trace.inputs(flat), trace.places(bound), trace.objects(bound))

    def _run_quick(self, quick: QuickKey, given: tuple[tuple, dict]) -> Any:
        """Run a trace of these very numbers, or of others that are open in it; ``MISS`` where none is known."""
        result = self._run_known(self._quick.get(quick.key), quick.tensors, quick.key, given)
        if result is not MISS or not quick.numbers:
            return result
        trace = self._quick.get(quick.without_numbers())
        if trace is None or not trace.takes(quick.numbers):
            return MISS
        return self._run_known(trace, trace.inputs(quick), None, given)

    def _by_entry(self, args: tuple) -> Any:
        """The result of the entry, or ``MISS``."""
        entry, checks = self._entry, self._checks
        # Another thread has replaced both.
        if entry is None or entry is not self._entry or self._shape is not None:
            return MISS
        if profiled() or not (checks is None or checks(*args)):
            return MISS
        return entry(*args)

    def _run_known(
        self, trace: Trace | None, tensors: list[Any], quick: Any, given: tuple[tuple, dict]
    ) -> Any:
        """Run a trace of the ``quick`` key (None: it has open numbers), by its entry, if it has one; ``MISS`` where it does not fit.

        ``given``: the arguments as they were passed.
        """
        if trace is None or not trace.checks.hold(tensors):
            return MISS
        concrete = trace.concrete
        if concrete.settled and not profiled() and concrete.entry is not None:
            result = concrete.entry(*tensors)
            if result is not MISS:
                self._note(trace, tensors, quick, *given)
                return result
        if concrete.outlived or not concrete.fits_captured():
            return MISS
        objects = trace.objects(self._bound(*given)) if concrete.outers else []
        result = concrete.run(tensors, trace.outer_places(), objects)
        self._note(trace, tensors, quick, *given, objects)
        return result

    def _note(self, trace: Trace, tensors: list[Any], quick: Any, args: tuple, kwargs: dict, objects: Sequence[Any] = ()) -> None:  # fmt: skip
        """From the next call on go straight to the entry of a trace, where it takes the arguments as they are, or to a form."""
        if quick is None or self.records.classes:
            return
        concrete = trace.concrete
        joined = concrete.joined_entry if concrete.by_autograd else None
        if joined is None and (concrete.by_autograd or not concrete.settled):
            if concrete.by_autograd:  # the guards would be asked in vain
                latest.forget(self)
            return
        entry, checks, shape = None, None, None
        called = None if trace.checks.empty else trace.checks.called
        if not kwargs and len(tensors) == len(args) and all(map(operator.is_, tensors, args)):
            entry = concrete.entry if joined is None else joined if concrete.is_flat else None
            by_host = joined is not None or not concrete.scheduled.native
            checks = called if by_host else trace.checks.beside_entry
        if entry is None:
            form = self._forms.of(quick, trace, args, kwargs, tensors, objects, joined)
            if form is None:
                return
            (entry, shape), checks = form, None
        if not is_usual():  # an entry is for calls without
            return
        _call_in_machine_code()
        if entry is not self._entry or checks is not self._checks or shape is not self._shape:
            with self.traces.lock:
                latest.put(self, entry, checks, shape)

    def get_concrete_function(self, /, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for arguments or ``TensorSpec``s; the same signature gives the same object."""
        if self.has_specs() and not args and not kwargs:
            args = tuple(self.input_signature or ())
        try:
            return self._find(args, kwargs, closed=True)[0].concrete
        except Exception as error:
            if is_tracing():
                raise
            __tracebackhide__ = True
            raise shown(error)  # noqa: B904  the same object

    def has_specs(self) -> bool:
        """Whether ``input_signature`` tells all arguments of a trace; of a method it does not tell the object."""
        if self.input_signature is None:
            return False
        return len(self._specified) == len(self._signature.parameters)

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        """The traces so far, oldest first."""
        return [t.concrete for t in self.traces]

    def clear_cache(self) -> None:
        """Forget all traces."""
        with self.traces.lock:
            self.traces.clear()
            self._quick.clear()
            self._forms.clear()
            latest.forget(self)
            self._openings.families.clear()
            self._retraces.recent.clear()

    def explain_retraces(self) -> str:
        """One line for each trace: why the traces before it did not fit."""
        return self._retraces.explained(self.trace_count)

    def _call_in_trace(self, args: tuple, kwargs: dict) -> Any:
        """A call inside a trace: a ``Call`` of a graph of its own."""
        bound = self._bound(args, kwargs)
        function = self.converted()
        region = control_flow.trace_region(
            "function",
            lambda: function(*bound.args, **bound.kwargs),
            stage_errors=False,
            called=True,
        )
        return control_flow.join_regions("Call", [], {"function": region}, name=self.label())

    def _bound(self, args: tuple, kwargs: dict) -> inspect.BoundArguments:
        bound = arguments.bind(self._signature, args, kwargs, self.label(), self._names)
        if self.input_signature is not None:
            signatures.fit(bound, self.input_signature, self._specified)
        return bound

    def fitted(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments as the trace takes them: all parameters, of an ``input_signature`` as tensors."""
        bound = self._bound(args, kwargs)
        return bound.args, bound.kwargs

    def _find(self, args: tuple, kwargs: dict, closed: bool = False, constant: bool = False) -> tuple[Trace, Flat, inspect.BoundArguments]:  # fmt: skip
        bound = self._bound(args, kwargs)
        flat = Flat(opened=frozenset() if constant else self.records.classes, closed=closed)
        key = self._key(bound, flat)
        if flat.changed:
            self.records.refuse()
            return self._find(args, kwargs, closed)
        found = self.traces.find(key, flat)
        if found is None:
            with self.traces.lock:
                found = self.traces.find(key, flat)
                if found is None and not constant and self.records.learn(flat.objects):
                    return self._find(args, kwargs, closed)
                with suppress(Unopened):
                    found = found or self._trace(key, bound, flat)
                if (
                    found is None
                ):  # with the objects themselves the code raises again, or the copies were why
                    made = self._find(args, kwargs, closed, constant=True)
                    self.records.refuse()
                    return made
        else:
            self._retraces.recent.append(False)
        return found, flat, bound

    def _key(self, bound: inspect.BoundArguments, flat: Flat) -> Any:
        parts = tuple((n, arguments.key_of(x, flat, n)) for n, x in bound.arguments.items())
        return parts, context()

    # ---- tracing

    def converted(self) -> Callable[..., Any]:
        """The function that tracing runs."""
        return self._convert(self.python_function) if self._convert else self.python_function

    def _trace(self, key: Any, bound: inspect.BoundArguments, flat: Flat) -> Trace:
        fitting = self.traces.of(key)
        outlived = self.traces.outlived(key, flat)
        why = UNROLLED if outlived is not None else self._retraces.why(key, flat, fitting)
        for known in fitting[:1]:
            self.replaced |= known.checks.replaced(known.inputs(flat))
            self._openings.outer.learn(known.checks, known.written, known.inputs(flat))
        start = time.perf_counter()
        with artifacts.progress(f"tracing {self.label()!r}"), collector.seldom(), stacks.LIMIT.growing():  # fmt: skip
            trace = self._openings.trace(self, key, bound, flat, outlived)
        if trace is outlived:
            return trace
        self.trace_count += 1
        self.traces.add(key, trace)
        self._retraces.made.append((key, why, trace))
        trace.concrete.retraces = weakref.WeakMethod(self.explain_retraces)
        artifacts.traced(trace.concrete, why, time.perf_counter() - start)
        self._retraces.warn(why, self.label(), self.reduce_retracing)
        return trace


@functools.cache
def _call_in_machine_code() -> bool:
    """Whether calls begin in machine code, from the first one on that has an entry."""
    return install(Function, latest.SLOTS, MISS)
