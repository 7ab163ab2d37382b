"""One trace of a function as JSON and graph text, and back.

The Python objects in a graph's arguments (``<py ...>`` in its text) are kept beside the text, in the order of the
nodes: exception classes, streams and containers can be kept, a callback cannot.
"""

from __future__ import annotations

from typing import Any

from ...errors import CorruptFileError, GraphSyntaxError, UnsavableError, VerifyError
from ..graph import ops, text
from ..graph.ir import Graph, Node, all_nodes
from ..graph.ops import OpaqueObject
from ..graph.text import python_objects
from ..graph.verification import verify
from ..guarding import call_checks, questions
from ..guarding.guards import Check, Guards
from ..symbols.journal import Location
from ..traces.call_effects import Finder, GradOf, no_places
from ..traces.commits import Plan
from ..traces.concrete import ConcreteFunction
from ..traces.identities import Identities
from ..traces.traces import Trace
from ..values.keys import describe_key
from .values import Decoder, Encoder

# Ops that reach files or memory outside of their arguments: no trace has them, and no file may.
_FORBIDDEN = (
    "aten.from_file",
    "aten.save",
    "aten.load",
    "aten.set_",
    "aten.set.",
    "aten.resize",
    "aten._resize",
)


def encode(trace: Trace, encoder: Encoder, label: str) -> tuple[dict, str]:
    """(record, graph text) of a trace; UnsavableError names what cannot be kept, and the line that made it."""
    concrete, captured = trace.concrete, trace.concrete.captured_inputs
    try:
        result = encoder.spec(concrete._result)
        effects = [encoder.spec(spec) for _, spec in concrete._effects]
    except UnsavableError as error:
        raise UnsavableError(f"tg.save: the result of {label!r}: {error}") from None
    record = {
        "key": _key(trace.key, encoder, label),
        "specs": [
            encoder.value(s.of_rank(v.type.shape)) for s, v in zip(trace.specs, concrete.inputs)
        ],
        "captured": [encoder.tensors.add(x) for x in captured],
        "result": result,
        "effects": effects,
        "identities": concrete.identities.record,
        "mode": concrete.mode,
        "made_leaves": list(concrete.made_leaves),
        "ended_leaves": list(concrete.ended_leaves),
        "where": [_place(i, at, encoder) for i, at in getattr(trace.finder, "where", [])],
        "grads": [[encoder.value(owner), missing] for owner, missing in trace.checks.grads],
        "given": [encoder.value(row) for row in call_checks.record(_given(trace), captured)],
        "late": [[i, encoder.value(owner)] for i, owner in concrete.late],
        "numbers": [encoder.value(x) for x in trace.numbers],
        "open_numbers": list(trace.open_numbers),
        "names": trace.names,
        "sizes": [encoder.value(pair) for pair in trace.checks.sizes],
        "objects": [_object(node, x, encoder, label) for node, x in python_objects(concrete.graph)],
    }
    shown = text.show(concrete.graph, over=True)
    _check_text(shown, label)
    return record, shown


def _key(key: Any, encoder: Encoder, label: str) -> Any:
    for name, part in key[0]:
        try:
            encoder.value(part)
        except UnsavableError as error:
            raise UnsavableError(
                f"tg.save: the argument {name!r} of {label!r} is {describe_key(part)}: {error}. Saved functions take tensors, "
                "numbers, strings, and containers of these."
            ) from None
    return encoder.value(key)


def _place(index: Any, at: Location, encoder: Encoder) -> list:
    """Where an effect goes: a gradient, or a container of the arguments and the key in it."""
    if isinstance(index, GradOf):
        return ["grad", encoder.value(index.owner)]
    return [index, at.key[0], at.name_key, at.name]


def check_places(trace: Trace, label: str) -> None:
    """UnsavableError for a trace that writes a Python variable which only this process has."""
    for index, at in getattr(trace.finder, "where", []):
        if index is None:
            raise UnsavableError(
                f"tg.save: {label!r} writes {at.name}, a Python variable outside of the function: the loaded function has none. "
                "Keep the state in a tensor or tg.Variable, or return it; `self.steps = self.steps + 1` puts another tensor there, `self.steps.add_(1)` does not."
            )


_ADVICE = {
    "tg.recursion": "it calls itself until a staged condition holds: write it as a loop",
    "tg.py_call": "tg.py_function calls Python code, which a saved file cannot hold",
    "tg.raise": "it raises an exception of a class that only your code has",
    "tg.assert": "it raises an exception of a class that only your code has",
    "Try": "it catches an exception of a class that only your code has",
}


def _object(node: Node, x: OpaqueObject, encoder: Encoder, label: str) -> Any:
    why = _ADVICE.get(node.op, f"{node.op} has a Python object")
    if node.op in ("tg.py_call", "tg.recursion"):
        raise UnsavableError(f"tg.save: {label!r}: {why}: {x.label}", node.location)
    try:
        if isinstance(x.value, Plan):
            parts = zip(x.value.parts, x.value.places)
            return [[place, list(names or ()), names is not None, encoder.spec(spec)] for (_, names, spec), place in parts]  # fmt: skip
        return encoder.value(x.value)
    except UnsavableError as error:
        raise UnsavableError(f"tg.save: {label!r}: {why}: {error}", node.location) from None


def _check_text(shown: str, label: str) -> None:
    """The text must say all there is: a constant without a text is found now, not at load."""
    try:
        again = text.show(text.parse_graph(shown), over=True)
    except GraphSyntaxError as error:
        raise UnsavableError(f"tg.save: {label!r} has a constant without a text: {error}") from None
    if again != shown:
        raise UnsavableError(f"tg.save: the text of {label!r} does not read back as it was written")


# ---- back


def decode(record: dict, shown: str, decoder: Decoder, name: str) -> Trace:
    """The trace of a record."""
    graph = _graph(shown, record["objects"], decoder)
    specs = [decoder.value(s) for s in record["specs"]]
    effects = [(None, decoder.spec(s)) for s in record["effects"]]
    captured = [decoder.tensors[i] for i in record["captured"]]
    numbers, opened = [decoder.value(x) for x in record["numbers"]], tuple(record["open_numbers"])
    if len(graph.inputs) != len(specs) + len(opened) + len(captured):
        raise CorruptFileError(f"a graph of {name!r} does not fit its record")
    concrete = ConcreteFunction(
        name, graph, captured, decoder.spec(record["result"]), effects, tuple(specs)
    )
    if "identities" in record:  # older files have none, nor the next
        concrete.identities = Identities.of_record(record["identities"])
    concrete.mode, concrete.made_leaves = record.get("mode"), tuple(record.get("made_leaves", ()))
    concrete.ended_leaves = tuple(record.get("ended_leaves", ()))
    where = [_location(place, decoder) for place in record["where"]]
    missing = [(decoder.value(owner), missing) for owner, missing in record["grads"]]
    given = [_asked(row, decoder, len(specs)) for row in record.get("given", ())]
    checks = Guards(
        [*given, *mode_checks(concrete)], [decoder.value(pair) for pair in record["sizes"]], missing
    )
    key = decoder.value(record["key"])
    concrete.open_numbers = opened
    concrete.late = [(i, decoder.value(owner)) for i, owner in record["late"]]
    finder = Finder(where) if where else no_places
    return Trace(concrete, key, specs, checks, finder, numbers, opened, record["names"])


def _given(trace: Trace) -> list[Check]:
    return [c for c in trace.checks.checks if c.of_call()]


def _asked(row: Any, decoder: Decoder, count: int) -> Check:
    """What a trace asks of a tensor of a call."""
    if isinstance(row, list) and len(row) == 2:  # of an older file
        row = (*row, None)
    else:
        row = decoder.value(row)
    found = call_checks.of_record(*row, count) if isinstance(row, tuple) and len(row) == 3 else None
    if found is None:
        raise CorruptFileError(f"not a test of a tensor: {row!r}")
    return found


def mode_checks(concrete: ConcreteFunction) -> list[Check]:
    """What a loaded trace asks of a call: the gradient mode that it was made in, where its code turns gradients on."""
    return [] if concrete.mode is None else [questions.grad_mode(concrete.mode)]


def _location(place: list, decoder: Decoder) -> tuple[Any, Any]:
    if place[0] == "grad":
        return GradOf(decoder.value(place[1])), None
    index, kind, key, name = place
    made = Location((kind,), name, lambda: None, lambda x: None)
    made.name_key = key
    return index, made


def _graph(shown: str, objects: list, decoder: Decoder) -> Graph:
    try:
        graph = text.parse_graph(shown)
        verify(graph)
    except (GraphSyntaxError, VerifyError) as error:
        raise CorruptFileError(f"a graph of the file is not valid: {error}") from None
    for (node, place), x in zip(python_objects(graph), objects, strict=True):
        place.value = _plan(x, decoder) if node.op == "tg.commit" else decoder.value(x)
    _check_ops(graph)
    return graph


def _plan(record: list, decoder: Decoder) -> Plan:
    """What a ``tg.commit`` does; locations are known by their positions among the effects."""
    plan = Plan(
        [(None, names if steps else None, decoder.spec(spec)) for _, names, steps, spec in record]
    )
    plan.places = [place for place, _, _, _ in record]
    return plan


def _check_ops(graph: Graph) -> None:
    for node in all_nodes(graph):
        if node.op.startswith(_FORBIDDEN) or _writes(node.op):
            raise CorruptFileError(f"no graph of tg.save has the op {node.op}")


def _writes(op: str) -> bool:
    """Whether an op of torch's own writes into its arguments; a graph has the functional form."""
    if not op.startswith("aten."):
        return False
    return ops.overload(op)._schema.is_mutable
