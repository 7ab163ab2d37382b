"""``tg.function``: a Python function with a cache of traces.

A call binds its arguments, computes the trace key, and runs the concrete function of that key; when there is none,
it traces one. ``convert`` (given by the layer above) rewrites the Python function before it is traced.

Guards. While tracing, every converted function notes the globals and closure cells that its code names. Their values
are compared by identity before a trace is used again, so a changed Python value traces anew instead of going stale.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import NotAFunctionError, ScopeError, SignatureError
from . import arguments, control_flow
from .arguments import Flat
from .concrete import ConcreteFunction
from .diagnosis import shown
from .funcgraph import is_tracing
from .keys import (
    context,
    count_tensors,
    describe_key,
    flat_specs,
    quick_key,
    relaxed,
    spec_from,
    without_sizes,
)
from .native.entry import MISS
from .specs import TensorSpec
from .tracer import LOGGER, Trace, Tracer, no_places

CACHE_SIZE = 256


_eager = [False]


def run_functions_eagerly(flag: bool) -> None:
    """While True, every ``tg.function`` runs as plain Python: no conversion, no tracing."""
    _eager[0] = bool(flag)


class Function:
    """A Python function that runs as a graph. Made by ``tg.function``.

    ``trace_count``: how often the Python code was traced. ``concrete_functions``: the traces, oldest first.
    ``python_function``: the plain function.
    """

    __tograph_callable__ = True

    def __init__(
        self,
        python_function: Callable[..., Any],
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
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self.reduce_retracing = reduce_retracing
        self._convert, self._name = convert, name
        self._lock = threading.RLock()
        self._cache: OrderedDict[Any, list[Trace]] = OrderedDict()
        self._quick: dict[Any, Trace] = {}
        self._fast: Callable[..., Any] | None = None
        self._fast_checks: Any = None
        self._recent: deque[bool] = deque(maxlen=10)
        self._warnings = 0
        self._methods: dict[int, tuple[Any, Function]] = {}
        self._history: list[tuple[Any, str]] = []
        self.trace_count = 0
        functools.update_wrapper(self, python_function, updated=())
        self.__wrapped__ = python_function
        self._signature = _signature(python_function)
        self._check_signature()

    # ---- as a decorator on methods

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        key = id(instance)
        found = self._methods.get(key)
        if found is None or found[0]() is not instance:
            bound = Function(_WeakMethod(self.python_function, instance), self._convert, self.input_signature,
                             self.reduce_retracing, self._name)  # fmt: skip
            methods = self._methods
            found = self._methods[key] = (
                weakref.ref(instance, lambda _: methods.pop(key, None)),
                bound,
            )
        return _BoundFunction(found[1], instance)

    def __repr__(self) -> str:
        return f"<tg.function {self.label()}>"

    def __reduce__(self):
        return _by_name, (self.python_function.__module__, self.python_function.__qualname__)

    def __deepcopy__(self, memo):
        return self

    def label(self) -> str:
        return self._name or getattr(
            self.python_function, "__name__", type(self.python_function).__name__
        )

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _eager[0]:
            return self.python_function(*args, **kwargs)
        fast = self._fast
        checks = self._fast_checks
        if fast is not None and not kwargs and (checks is None or checks.hold(args)):
            result = fast(*args)
            if result is not MISS:
                return result
        if is_tracing():
            return self._call_in_trace(args, kwargs)
        try:
            quick = None if kwargs else quick_key(args)
            if quick is not None:
                known = self._quick.get(quick)
                if known is not None and known.checks.hold(args):
                    return self._run_known(known, args)
            trace, flat, bound = self._find(args, kwargs)
            if (
                quick is not None
                and trace.finder is no_places
                and len(flat.tensors) == count_tensors(args)
            ):
                if len(self._quick) > CACHE_SIZE:
                    self._quick.clear()
                self._quick[quick] = trace
            return trace.concrete.run(flat.tensors, trace.places(bound))
        except Exception as error:
            __tracebackhide__ = True
            raise shown(error)  # noqa: B904  the same object

    def _run_known(self, trace: Trace, args: tuple) -> Any:
        """Run a trace that fits; from the next call on by its entry, if it has one."""
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        result = trace.concrete.run(tensors)
        if trace.concrete.scheduled.native is not None and len(tensors) == len(args):
            self._fast_checks = None if trace.checks.empty else trace.checks
            self._fast = trace.concrete.entry
        return result

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for arguments or ``TensorSpec``s; the same signature gives the same object."""
        if self.input_signature is not None and not args and not kwargs:
            args = self.input_signature
        if is_tracing():
            return self._find(args, kwargs)[0].concrete
        try:
            return self._find(args, kwargs)[0].concrete
        except Exception as error:
            __tracebackhide__ = True
            raise shown(error)  # noqa: B904  the same object

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        return [t.concrete for ts in self._cache.values() for t in ts]

    def clear_cache(self) -> None:
        """Forget all traces."""
        with self._lock:
            self._cache.clear()
            self._quick.clear()
            self._fast = None
            self._recent.clear()

    def explain_retraces(self) -> str:
        """One line for each trace: why the traces before it did not fit."""
        return (
            "\n".join(f"trace {i}: {why}" for i, (_, why) in enumerate(self._history, 1))
            or "no traces yet"
        )

    def _call_in_trace(self, args: tuple, kwargs: dict) -> Any:
        """A call inside a trace: a ``Call`` of a graph of its own."""
        bound = arguments.bind(self._signature, args, kwargs, self.label())
        if self.input_signature is not None:
            arguments.check_signature(
                self._spec_names(), bound, self.input_signature, self._signature
            )
        function = self.converted()
        region = control_flow.trace_region(
            "function", lambda: function(*bound.args, **bound.kwargs), stage_errors=False
        )
        return control_flow.join_regions("Call", [], {"function": region}, name=self.label())

    def _find(self, args: tuple, kwargs: dict) -> tuple[Trace, Flat, inspect.BoundArguments]:
        bound = arguments.bind(self._signature, args, kwargs, self.label())
        if self.input_signature is not None:
            arguments.check_signature(
                self._spec_names(), bound, self.input_signature, self._signature
            )
        flat = Flat()
        key = self._key(bound, flat)
        found = self._lookup(key, flat)
        if found is None:
            with self._lock:
                found = self._lookup(key, flat) or self._trace(key, bound, flat)
        else:
            self._recent.append(False)
        return found, flat, bound

    def _key(self, bound: inspect.BoundArguments, flat: Flat) -> Any:
        return tuple(
            (n, arguments.key_of(x, flat, n)) for n, x in bound.arguments.items()
        ), context()

    def _lookup(self, key: Any, flat: Flat) -> Trace | None:
        for trace in self._cache.get(self._slot(key), ()):
            if trace.fits(key, flat):
                return trace
        return None

    def _slot(self, key: Any) -> Any:
        """The part of a key that every trace in a slot shares: all but sizes."""
        if self.input_signature is not None:
            return without_sizes(key)
        return without_sizes(key) if self.reduce_retracing else key

    # ---- tracing

    def converted(self) -> Callable[..., Any]:
        return self._convert(self.python_function) if self._convert else self.python_function

    def _trace(self, key: Any, bound: inspect.BoundArguments, flat: Flat) -> Trace:
        slot = self._slot(key)
        specs = self._specs(key, slot, flat)
        why = self._why(key)
        trace = Tracer(self, bound, flat, specs).trace(key)
        self.trace_count += 1
        traces = self._cache.setdefault(slot, [])
        traces.insert(0, trace)
        self._cache.move_to_end(slot)
        while len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)
        self._history.append((key, why))
        self._warn(why)
        return trace

    def _specs(self, key: Any, slot: Any, flat: Flat) -> list[TensorSpec]:
        """What each tensor argument is traced as."""
        if self.input_signature is not None:
            given = flat_specs(self.input_signature)
            return given + [spec_from(x) for x in flat.tensors[len(given) :]]
        specs = [spec_from(x) for x in flat.tensors]
        if self.reduce_retracing and slot in self._cache:
            for trace in self._cache[slot]:
                specs = [relaxed(s, old) for s, old in zip(specs, trace.specs)]
        return specs

    def _why(self, key: Any) -> str:
        if not self._history:
            return "first call"
        old, new = dict(self._history[-1][0][0]), dict(key[0])
        for name in new:
            if name not in old:
                return f"argument {name!r} is new"
            if old[name] != new[name]:
                return f"argument {name!r} changed from {describe_key(old[name])} to {describe_key(new[name])}"
        if self._history[-1][0][1] != key[1]:
            return "the default dtype, the default device or autocast changed"
        return "a global, closure variable or size that the trace depends on changed"

    def _warn(self, why: str) -> None:
        self._recent.append(True)
        if sum(self._recent) >= 5 and self._warnings < 2:
            self._warnings += 1
            self._recent.clear()
            LOGGER.warning(
                "%d of the last 10 calls to %r triggered tg.function retracing. Tracing is expensive; the last one because %s. "
                "Pass tensors instead of Python numbers that change, use reduce_retracing=True for sizes that change, or "
                "create the function outside of a loop.",
                5,
                self.label(),
                why,
            )

    # ---- signatures

    def _spec_names(self) -> list[str]:
        return list(self._signature.parameters)[: len(self.input_signature or ())]

    def _check_signature(self) -> None:
        if self.input_signature is None:
            return
        params = list(self._signature.parameters.values())
        if len(self.input_signature) > len(params) and not any(
            p.kind is p.VAR_POSITIONAL for p in params
        ):
            raise SignatureError(
                f"input_signature has {len(self.input_signature)} entries for {len(params)} parameters"
            )
        for p in params[len(self.input_signature) :]:
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                self._signature_error = (
                    f"input_signature missing type constraint for parameter {p.name!r}"
                )
                raise SignatureError(self._signature_error)


def _signature(f: Any) -> inspect.Signature:
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        raise NotAFunctionError(
            f"tg.function needs a Python function; {f!r} is a built-in"
        ) from None


class _WeakMethod:
    """A method of an object that it does not keep alive."""

    def __init__(self, function: Callable[..., Any], instance: Any):
        self.function, self.instance = function, weakref.ref(instance)
        functools.update_wrapper(self, function, updated=())
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, *args, **kwargs):
        return self.function(self.bound_to(), *args, **kwargs)

    def bound_to(self) -> Any:
        instance = self.instance()
        if instance is None:
            raise ScopeError(
                f"the object whose method {self.function.__name__!r} is called does not exist any more"
            )
        return instance


class _BoundFunction:
    """A ``Function`` of a method together with the object, which it keeps alive for the time of the call."""

    __tograph_callable__ = True

    def __init__(self, function: Function, instance: Any):
        self._function, self.__self__ = function, instance
        functools.update_wrapper(self, function.python_function, updated=())

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._function, name)

    def __repr__(self):
        return f"<bound {self._function!r} of {self.__self__!r}>"


def _by_name(module: str, qualname: str) -> Any:
    found: Any = __import__(module, fromlist=["_"])
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
