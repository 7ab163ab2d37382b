"""Functions of a saved file: their signature and traces, and ``LoadedFunction``, which runs them without the user's code."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch

from ...errors import UnsavableError, UnsavedSignatureError
from ..functions.function import Function
from ..functions.trace_cache import TraceCache
from ..guarding import reads
from ..guarding.call_checks import WORDS
from ..guarding.guards import Guards
from ..symbols.funcgraph import is_tracing
from ..traces.binding import binder
from ..traces.call_effects import Finder, GradOf
from ..traces.concrete import ConcreteFunction
from ..traces.traces import Trace
from ..values.arguments import Flat
from ..values.keys import describe_key, without_sizes
from . import traces
from .inline import stage
from .values import Decoder, Encoder

_NONE = inspect.Parameter.empty


def encode(function: Function, encoder: Encoder, add_text: Callable[[str], str]) -> dict:
    """The record of a function; ``add_text`` puts a graph into the file and gives its part's name.

    Traces whose guards do not hold any more are left out: the function would not run them either.
    """
    label = function.label()
    made = list(function.traces)
    if not made and function.input_signature is not None:
        function.get_concrete_function()
        made = list(function.traces)
    for trace in made:
        traces.check_places(trace, label)
    live = [t for t in made if t.checks.live(any_mode=t.concrete.mode is not None)]
    for trace in [] if live else made:
        traces.encode(trace, encoder, label)  # what cannot be saved at all is said first
    rows = []
    for trace in live:
        record, shown = traces.encode(trace, encoder, label)
        rows.append({"graph": add_text(shown), **record})
    parameters = [_parameter(p, encoder) for p in function._signature.parameters.values()]
    given = function.input_signature
    return {
        "name": label, "doc": function.__doc__ or "", "parameters": parameters, "traces": rows,
        "input_signature": None if given is None else encoder.value(given),
    }  # fmt: skip


def _parameter(p: inspect.Parameter, encoder: Encoder) -> list:
    """Name, kind and default; a default that cannot be kept becomes a required argument."""
    if p.default is _NONE:
        return [p.name, p.kind.name]
    try:
        return [p.name, p.kind.name, encoder.value(p.default)]
    except UnsavableError:
        return [p.name, p.kind.name]


def decode(record: dict, decoder: Decoder, text_of: Callable[[str], str]) -> LoadedFunction:
    """The function of a record."""
    parameters = []
    for name, kind, *default in record["parameters"]:
        value = decoder.value(default[0]) if default else _NONE
        parameters.append(inspect.Parameter(name, inspect._ParameterKind[kind], default=value))
    name = record["name"]
    found = [traces.decode(t, text_of(t["graph"]), decoder, name) for t in record["traces"]]
    given = record["input_signature"]
    signature = None if given is None else decoder.value(given)
    return LoadedFunction(
        name, record["doc"], inspect.Signature(_ordered(parameters)), signature, found
    )


def _ordered(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Python wants no required parameter after one with a default: such ones become keywords."""
    seen, out = False, []
    for p in parameters:
        positional = p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        if positional and seen and p.default is _NONE:
            p = p.replace(kind=p.KEYWORD_ONLY)
        seen = seen or (positional and p.default is not _NONE)
        out.append(p)
    return sorted(out, key=lambda p: p.kind)


class _Saved:
    """Stands where the Python function of a ``Function`` is: it runs or stages the saved trace that fits."""

    def __init__(self, name: str, doc: str, signature: inspect.Signature):
        self.__name__ = self.__qualname__ = name
        self.__doc__, self.__signature__ = doc, signature
        self.owner: LoadedFunction | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert self.owner is not None
        if is_tracing() and any(t.concrete.mode is not None for t in self.owner.traces):
            reads.follow_grad_mode()
        trace, flat, bound = self.owner._find(args, kwargs)
        if is_tracing():
            return stage(trace.concrete, trace.inputs(flat), trace.places(bound))
        return trace.concrete.run(trace.inputs(flat), trace.places(bound))


class _SavedTraces(TraceCache):
    """All are kept, by family alone; of those that fit the nearest one is used."""

    def add(self, key: Any, trace: Trace) -> None:
        self._slots.setdefault(_family(key), []).append(trace)

    def find(self, key: Any, flat: Flat) -> Trace | None:
        fitting = [t for t in self.of(_family(key)) if t.fits(key, flat)]
        return min(fitting, key=lambda t: _distance(t, key), default=None)


def _family(key: Any) -> Any:
    return without_sizes(_any_class(key[0]))


class LoadedFunction(Function):
    """A function that ``tg.load`` gave. It has the traces that were saved and makes no new ones.

    A call runs the trace that was made for these very sizes, else one whose sizes are open; UnsavedSignatureError tells which
    there are when none fits. ``variables``: the tensors that it reads or writes by reference.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        signature: inspect.Signature,
        input_signature: Any,
        found: list[Trace],
    ):
        saved = _Saved(name, doc, signature)
        super().__init__(saved, None, input_signature, name=name)
        saved.owner = self
        self.traces = _SavedTraces()
        for trace in found:
            trace.concrete._bind = binder(
                self._signature, name, _any_class(trace.key[0]), trace.specs, _any_class
            )
            self.traces.add(trace.key, trace)

    @property
    def variables(self) -> list[torch.Tensor]:
        """The tensors that the function reads or writes by reference, each once."""
        found = [x for cf in self.concrete_functions for x in cf.captured_inputs]
        return list({id(x): x for x in found}.values())

    def parameters(self) -> list[torch.Tensor]:
        """The variables that gradients are taken of: what an optimiser steps."""
        return [x for x in self.variables if x.requires_grad]

    def clear_cache(self) -> None:
        """Nothing: saved traces cannot be made again."""

    def _key(self, bound: inspect.BoundArguments, flat: Flat) -> Any:
        parts, settings = super()._key(bound, flat)
        return _any_class(parts), settings

    def _trace(self, key: Any, bound: inspect.BoundArguments, flat: Flat) -> Trace:
        rows = [
            f"  {i}. {_described(t.key)}{_mode(t)}{_requires(t)}"
            for i, t in enumerate(self.traces, 1)
        ]
        raise UnsavedSignatureError(
            f"Could not find matching concrete function of {self.label()!r} for ({_described(key)}). The saved file has "
            + (f"{len(rows)}:\n" + "\n".join(rows) if rows else "none: it was never traced.")
        )

    def __reduce__(self):
        raise UnsavableError(f"a loaded function cannot be pickled: save {self.label()!r} again with tg.save")  # fmt: skip

    def __deepcopy__(self, memo: dict) -> LoadedFunction:
        found = [_copied(t, memo) for t in self.traces]
        made = LoadedFunction(
            self.label(), self.__doc__ or "", self._signature, self.input_signature, found
        )
        memo[id(self)] = made
        return made


def _distance(trace: Trace, key: Any) -> tuple[bool, bool, int]:
    """How far a trace that fits is from a call: other sizes, other settings of torch, open dimensions."""
    opened = sum((s.shape or ()).count(None) for s in trace.specs) + len(trace.open_numbers)
    return trace.key[0] != key[0], trace.key[1] != key[1], opened


def _any_class(key: Any) -> Any:
    """A key that does not tell Parameters, Variables and symbolic tensors apart: a graph takes them all."""
    if isinstance(key, tuple):
        if len(key) == 6 and key[0] == "tensor":
            return (*key[:4], None, key[5])
        return tuple(map(_any_class, key))
    return key


def _described(key: Any) -> str:
    return ", ".join(f"{name}: {describe_key(part)}" for name, part in key[0])


def _mode(trace: Trace) -> str:
    mode = trace.concrete.mode
    return "" if mode is None else f", called with gradients {'on' if mode else 'off'}"


def _requires(trace: Trace) -> str:
    """What the tensors have to be besides their kinds."""
    found = [(c.source.key, WORDS[c.test]) for c in trace.checks.checks if c.test in WORDS]
    return "".join(f", where tensor {i} {words}" for i, words in found)


def _copied(trace: Trace, memo: dict) -> Trace:
    """The trace over copies of its tensors."""
    old = trace.concrete
    captured = copy.deepcopy(old.captured_inputs, memo)
    concrete = ConcreteFunction(
        old.name, old.graph, captured, old._result, old._effects, old.structured_input_signature
    )
    concrete.open_numbers, concrete.identities = trace.open_numbers, old.identities
    concrete.mode = old.mode
    concrete.made_leaves, concrete.ended_leaves = old.made_leaves, old.ended_leaves
    concrete.late = [(i, copy.deepcopy(owner, memo)) for i, owner in old.late]
    missing = [(copy.deepcopy(owner, memo), missing) for owner, missing in trace.checks.grads]
    given = [c for c in trace.checks.checks if c.of_call()]
    checks = Guards([*given, *traces.mode_checks(concrete)], trace.checks.sizes, missing)
    where = [(GradOf(copy.deepcopy(i.owner, memo)) if isinstance(i, GradOf) else i, at) for i, at in getattr(trace.finder, "where", [])]  # fmt: skip
    finder = Finder(where) if where else trace.finder
    return Trace(concrete, trace.key, trace.specs, checks, finder, trace.numbers, trace.open_numbers, trace.names)  # fmt: skip
