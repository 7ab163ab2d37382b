"""What a program takes and gives: all that a call needs to know of its graph.

A form is plain data, so it can be kept on disk beside the code (``plans``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..graph.ir import Graph, Value
from ..graph.types import Type, is_static
from . import results
from .results import Steps, View
from .values import strides

# Inputs that are not contiguous, by position, with their strides.
Layout = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Form:
    """``inputs``, ``outputs``: of the code, which gives each value once and no input; ``strides`` of the inputs.

    ``results``: for each result of the graph its place among the inputs and outputs, ``views`` of which some results are made, each with the places of one result; ``direct``
    where the outputs are the results. ``assigned``: inputs that the code writes. ``private``: outputs that only other programs read. ``joined``: whether
    autograd gives those that leave a history.
    """

    name: str
    inputs: list[Type]
    outputs: list[Type]
    strides: list[tuple[int, ...]]
    results: list[int]
    views: list[tuple[list[int], Steps]]
    direct: bool
    assigned: list[int]
    private: frozenset[int]
    joined: bool


def form_of(
    whole: Graph,
    computed: Graph,
    visible: int | None,
    layout: Layout,
    views: Mapping[Value, View],
) -> Form:
    """The form of the code that ``computed`` becomes; the calls want the outputs of ``whole``, of which ``visible`` leave the library."""
    position = {v: i for i, v in enumerate(computed.inputs)}
    places = {v: i for i, v in enumerate([*computed.inputs, *computed.outputs])}
    given = [_dense(v.type) for v in computed.inputs]
    for i, stride in layout:
        given[i] = stride
    seen = set(results.without(whole.outputs[:visible], views))
    return Form(
        whole.name,
        [v.type for v in computed.inputs],
        [v.type for v in computed.outputs],
        given,
        [places[views[v].base if v in views else v] for v in whole.outputs],
        [
            ([i for i, o in enumerate(whole.outputs) if o is v], x.steps(places))
            for v, x in views.items()
        ],
        whole.outputs == computed.outputs,
        sorted({position[n.args[0]] for n in computed.nodes if n.op == "tg.assign"}),
        frozenset(i for i, v in enumerate(computed.outputs) if v not in seen),
        visible is not None,
    )


def _dense(kind: Type) -> tuple[int, ...]:
    known = is_static(kind)
    return strides(kind.shape) if known else ()
