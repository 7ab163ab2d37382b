"""The graph of a trace that was recorded: its outputs are the result and the effects, its inputs the arguments and what it captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import autodiff, passes
from ..control_flow import doubles
from ..graph.ir import Graph
from ..graph.ordering import set_control_inputs
from ..guarding import reads
from ..library import hooks
from ..passes.forward import forward_reads
from ..recording.tracing import recording
from ..symbols.funcgraph import FuncGraph, Storage
from ..symbols.symbolic import SymTensor, value_of
from ..values.flattening import flatten
from ..values.joins import opened
from ..values.structure import Spec, spec_of
from ..writes import freed, hooked
from .identities import Identities
from .made_tensors import Computed, MadeLeaf
from .rebuilding import Rebuilt
from .results import Forms, Shown, leaving
from .shared_objects import marked


def finish(
    root: FuncGraph,
    arguments: Sequence[SymTensor],
    result: Any,
    effects: Sequence[tuple[Any, Any]],
    watch: reads.Watch,
    moves: Callable[[torch.Tensor], bool],
    outer: Callable[[Any], int | None] = lambda x: None,
) -> tuple[Graph, list[Any], Spec, list[tuple[Any, Spec]], Identities]:
    """(graph, captured tensors, result spec, effects, which outputs are the caller's) of a root graph that was recorded.

    ``watch`` tells what is no object of the call's own; ``outer`` gives such a container a number;
    ``moves``: which tensors of the caller's are looked up at every call.
    """
    shown = Shown({}, {})
    seen: Forms = {}
    own = autodiff.OwnLeaves(root)
    with recording(root), reads.watching(watch):
        doubles.check((result, *(content for _, content in effects)))
        effects = [
            (names, leaving(content, root, shown, seen, moves, own)) for names, content in effects
        ]
        result = leaving(result, root, shown, seen, moves, own)
    spec, specs = _specs(result, effects, seen, outer)
    with recording(root):
        outputs = flatten(result, spec, root)
        for (_, inner), (_, content) in zip(specs, effects):
            outputs += flatten(content, inner, root)
        identities = Identities(outputs, shown)
        hooked.check(root, outputs)
        hooks.check_given(root, outputs)
        outputs = freed.leaving(root, outputs)
    graph = root.graph
    identities.made = _made_leaves(seen, root, outputs)
    graph.outputs = [*outputs, *identities.indices]
    captured = _ordered_inputs(root, arguments)
    identities.settle(root)
    forward_reads(graph)
    passes.prune(graph, writers=True)
    set_control_inputs(graph)
    root.closed = True
    return graph, captured, spec, specs, identities


def _made_leaves(seen: Forms, root: FuncGraph, outputs: Sequence[Any]) -> list[autodiff.Made]:
    """The leaves that the code made and that leave, as far as their content follows from what it was when they became leaves."""
    found = []
    for x, form in seen.values():
        form = form.parts[0] if isinstance(form, Rebuilt) and form.parts else form
        form = form.x if isinstance(form, Computed) else form
        if isinstance(form, MadeLeaf) and form.made is True and isinstance(x, SymTensor):
            end, storage = value_of(x, root), x.storage_
            begin = x.became_ or (None if storage.first is None else (storage.first.value, None))
            if begin is not None and end in outputs and (begin[0] is end or not x.chain):
                parameter = isinstance(x, torch.nn.Parameter)
                found.append(autodiff.Made(begin[0], begin[1], outputs.index(end), parameter))
    return found


def _specs(
    result: Any, effects: Sequence[tuple[Any, Any]], seen: Forms, outer: Callable[[Any], int | None]
) -> tuple[Spec, list[tuple[Any, Spec]]]:
    """The specs of what leaves a trace, with marks on what is one object."""
    before = {id(made): x for x, made in seen.values()}
    values = [result, *(content for _, content in effects)]
    spec, *specs = marked(
        values,
        [opened(spec_of(x)) for x in values],
        lambda x: outer(before.get(id(x), x)),
    )
    return spec, [(names, found) for (names, _), found in zip(effects, specs)]


def _ordered_inputs(root: FuncGraph, arguments: Sequence[SymTensor]) -> list[Any]:
    """The captured tensors; their values follow those of the arguments among the graph's inputs."""
    held = {k: v for k, v in root.captures.items() if isinstance(k, Storage) and k.external is not None}  # fmt: skip
    graph = root.graph
    names = dict(zip(graph.inputs, graph.input_names))
    graph.inputs = [*(root.captures[a.storage_] for a in arguments), *held.values()]
    graph.input_names = [names.get(v, "") for v in graph.inputs]
    return [k.external for k in held]


def late_inputs(root: FuncGraph) -> list[tuple[int, Any]]:
    """The captured inputs that are looked up at every call, with the owner of each."""
    captured = [k for k in root.captures if isinstance(k, Storage) and k.external is not None]
    return [(i, k.late) for i, k in enumerate(captured) if k.late is not None]
