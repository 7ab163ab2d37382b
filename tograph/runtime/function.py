"""``tg.function``: a Python function with a cache of traces.

A call binds its arguments, computes the trace key, and runs the concrete function of that key; when there is none,
it traces one. ``convert`` (given by the layer above) rewrites the Python function before it is traced.

Guards. While tracing, every converted function notes the globals and closure cells that its code names. Their values
are compared by identity before a trace is used again, so a changed Python value traces anew instead of going stale.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import ConversionError, NotAFunctionError, ScopeError, SignatureError, TographError
from . import arguments, control_flow, guards, host, interrupts, journal
from .arguments import Flat
from .concrete import ConcreteFunction, finish
from .funcgraph import FuncGraph, is_tracing
from .infer import meta_of, tensor_type
from .journal import Location
from .reach import reachable
from .scalars import size_of
from .shapes import contiguous
from .specs import TensorSpec
from .symbolic import SymTensor, placeholder
from .tracing import recording

LOGGER = logging.getLogger("tograph")
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
        self._cache: OrderedDict[Any, list[_Trace]] = OrderedDict()
        self._quick: dict[Any, _Trace] = {}
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
        return f"<tg.function {self._label()}>"

    def __reduce__(self):
        return _by_name, (self.python_function.__module__, self.python_function.__qualname__)

    def __deepcopy__(self, memo):
        return self

    def _label(self) -> str:
        return self._name or getattr(
            self.python_function, "__name__", type(self.python_function).__name__
        )

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _eager[0]:
            return self.python_function(*args, **kwargs)
        if is_tracing():
            return self._call_in_trace(args, kwargs)
        quick = None if kwargs else _quick_key(args)
        if quick is not None:
            known = self._quick.get(quick)
            if known is not None and known.checks.hold(args):
                return known.concrete.run([x for x in args if isinstance(x, torch.Tensor)])
        trace, flat, bound = self._find(args, kwargs)
        if (
            quick is not None
            and trace.finder is _no_places
            and len(flat.tensors) == _count_tensors(args)
        ):
            if len(self._quick) > CACHE_SIZE:
                self._quick.clear()
            self._quick[quick] = trace
        return trace.concrete.run(flat.tensors, trace.places(bound))

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for arguments or ``TensorSpec``s; the same signature gives the same object."""
        if self.input_signature is not None and not args and not kwargs:
            args = self.input_signature
        return self._find(args, kwargs)[0].concrete

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        return [t.concrete for ts in self._cache.values() for t in ts]

    def clear_cache(self) -> None:
        """Forget all traces."""
        with self._lock:
            self._cache.clear()
            self._quick.clear()
            self._recent.clear()

    def explain_retraces(self) -> str:
        """One line for each trace: why the traces before it did not fit."""
        return (
            "\n".join(f"trace {i}: {why}" for i, (_, why) in enumerate(self._history, 1))
            or "no traces yet"
        )

    def _call_in_trace(self, args: tuple, kwargs: dict) -> Any:
        """A call inside a trace: a ``Call`` of a graph of its own."""
        bound = arguments.bind(self._signature, args, kwargs, self._label())
        if self.input_signature is not None:
            arguments.check_signature(
                self._spec_names(), bound, self.input_signature, self._signature
            )
        function = self._converted()
        region = control_flow.trace_region(
            "function", lambda: function(*bound.args, **bound.kwargs), stage_errors=False
        )
        return control_flow.join_regions("Call", [], {"function": region}, name=self._label())

    def _find(self, args: tuple, kwargs: dict) -> tuple[_Trace, Flat, inspect.BoundArguments]:
        bound = arguments.bind(self._signature, args, kwargs, self._label())
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
        ), _context()

    def _lookup(self, key: Any, flat: Flat) -> _Trace | None:
        for trace in self._cache.get(self._slot(key), ()):
            if trace.fits(key, flat):
                return trace
        return None

    def _slot(self, key: Any) -> Any:
        """The part of a key that every trace in a slot shares: all but sizes."""
        if self.input_signature is not None:
            return _without_sizes(key)
        return _without_sizes(key) if self.reduce_retracing else key

    # ---- tracing

    def _converted(self) -> Callable[..., Any]:
        return self._convert(self.python_function) if self._convert else self.python_function

    def _trace(self, key: Any, bound: inspect.BoundArguments, flat: Flat) -> _Trace:
        slot = self._slot(key)
        specs = self._specs(key, slot, flat)
        why = self._why(key)
        trace = _Tracer(self, bound, flat, specs).trace(key)
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
            given = _flat_specs(self.input_signature)
            return given + [_spec(x) for x in flat.tensors[len(given) :]]
        specs = [_spec(x) for x in flat.tensors]
        if self.reduce_retracing and slot in self._cache:
            for trace in self._cache[slot]:
                specs = [_relax(s, old) for s, old in zip(specs, trace.specs)]
        return specs

    def _why(self, key: Any) -> str:
        if not self._history:
            return "first call"
        old, new = dict(self._history[-1][0][0]), dict(key[0])
        for name in new:
            if name not in old:
                return f"argument {name!r} is new"
            if old[name] != new[name]:
                return f"argument {name!r} changed from {_describe(old[name])} to {_describe(new[name])}"
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
                self._label(),
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


def _context() -> tuple:
    """The settings of torch that a trace depends on."""
    device = str(torch.get_default_device()) if _function_modes() else None
    return torch.get_default_dtype(), device, torch.is_autocast_enabled()


# A default device is a function mode; where torch does not tell how many are open, it is always asked.
_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)
_NUMBERS = frozenset((int, bool, str, type(None)))


def _quick_key(args: tuple) -> Any:
    """A key of positional arguments that are plain tensors and constants; None for anything else."""
    parts: list[Any] = []
    seen: list[int] = []
    for x in args:
        kind = type(x)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            if id(x) in seen:
                return None
            seen.append(id(x))
            parts += (x.dtype, x.shape, x.device)
        elif kind in _NUMBERS:
            parts += (kind, x)
        elif kind is float:
            parts += (kind, repr(x))
        else:
            return None
    return (*parts, *_context())


def _count_tensors(args: tuple) -> int:
    return sum(isinstance(x, torch.Tensor) for x in args)


def _spec(x: Any) -> TensorSpec:
    return x if isinstance(x, TensorSpec) else TensorSpec.of(x)


def _flat_specs(signature: Any) -> list[TensorSpec]:
    if isinstance(signature, TensorSpec):
        return [signature]
    if isinstance(signature, dict):
        return [
            s
            for _, v in sorted(signature.items(), key=lambda i: repr(i[0]))
            for s in _flat_specs(v)
        ]
    if isinstance(signature, (list, tuple)):
        return [s for v in signature for s in _flat_specs(v)]
    return []


def _relax(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a
    return TensorSpec(
        [x if x == y else None for x, y in zip(a.shape, b.shape)], a.dtype, a.name, a.device
    )


def _without_sizes(key: Any) -> Any:
    if isinstance(key, tuple):
        if len(key) == 6 and key[0] == "tensor":
            return ("tensor", key[1], None if key[2] is None else len(key[2]), *key[3:])
        return tuple(map(_without_sizes, key))
    return key


def _describe(key: Any) -> str:
    if isinstance(key, tuple) and key and key[0] == "tensor":
        return (
            f"{str(key[1]).removeprefix('torch.')}{list(key[2]) if key[2] is not None else '[...]'}"
        )
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], type):
        return repr(key[1])
    return str(key)


class _Trace:
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

    def places(self, bound: inspect.BoundArguments) -> list[Location]:
        return self.finder(bound)


class _Tracer:
    """One run of the Python code on placeholders."""

    def __init__(
        self, function: Function, bound: inspect.BoundArguments, flat: Flat, specs: list[TensorSpec]
    ):
        self.function, self.bound, self.flat, self.specs = function, bound, flat, specs
        self.root = FuncGraph(_graph_name(function._label()))
        self.inputs: list[SymTensor] = []
        self.failed: Exception | None = None
        self.outside: list[tuple[Location, Any]] = []
        self.reach: set[int] | None = None

    def trace(self, key: Any) -> _Trace:
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
            host.build(graph).run(*self.flat.tensors, *captured)

    def _trace(self, key: Any) -> _Trace:
        spares: list[tuple[Any, Any]] = []
        with recording(self.root), torch.enable_grad(), guards.watching(self.root) as watch:
            self.inputs = inputs = [self._placeholder(i, s) for i, s in enumerate(self.specs)]
            take = _Taker(self.flat, inputs)
            given = {
                n: arguments.replace_tensors(x, take, spares)
                for n, x in self.bound.arguments.items()
            }
            bound = inspect.BoundArguments(self.bound.signature, OrderedDict(given))
            result, changes = self._run(bound, spares)
        effects, finder = self._effects(changes, spares)
        graph, captured, spec, effect_specs = finish(self.root, inputs, result, effects)
        signature = tuple(self.specs)
        concrete = ConcreteFunction(
            self.function._label(), graph, captured, spec, effect_specs, signature, self._binder()
        )
        return _Trace(concrete, key, self.specs, watch.guards(self.root, self.outside), finder)

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
            function = self.function._converted()
            try:
                result = function(*bound.args, **bound.kwargs)
            except control_flow.Unreachable:
                result = None
            if inspect.iscoroutine(result) or inspect.isasyncgen(result):
                raise ConversionError(
                    f"{self.function._label()!r} is an async function: these are not supported in a graph"
                )
            return result, log
        except BaseException as error:
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
        for location, old in self.outside:
            location._set(old)
        if not effects:
            return [], _no_places

        def find(bound: inspect.BoundArguments) -> list[Location]:
            real: list[tuple[Any, Any]] = []
            for x in bound.arguments.values():
                arguments.replace_tensors(x, lambda _: None, real)
            return [at if i is None else _same_place(at, real[i][1]) for i, at in where]

        return effects, find

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
    """The placeholder for each tensor of the arguments; numpy arrays come in order."""

    def __init__(self, flat: Flat, inputs: list[SymTensor]):
        self.places, self.inputs = flat.places, inputs
        self.arrays = iter(sorted(set(range(len(inputs))) - set(flat.places.values())))

    def __call__(self, x: Any) -> SymTensor:
        place = self.places.get(id(x))
        return self.inputs[next(self.arrays) if place is None else place]


def _no_places(bound: inspect.BoundArguments) -> list[Location]:
    return []


def _graph_name(label: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "main"


def _bind_concrete(
    owner: Function, concrete: ConcreteFunction, args: tuple, kwargs: dict
) -> inspect.BoundArguments:
    return arguments.bind(owner._signature, args, kwargs, owner._label())
