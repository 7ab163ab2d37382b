"""Running a recorded graph again under the tracer, with autograd on.

``replay`` records every node of a graph into the current graph, on objects. ATen ops go through torch, so that autograd sees
them, with the writes that in-place ops make in eager PyTorch; all else is recorded as it is, and connected by ``connect``. Ops that were recorded while gradients were off
are replayed with gradients off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ...errors import Location
from ..control_flow import recomputed
from ..gradients import determinants, open_sizes
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ops import OpaqueObject, lookup, overload, plain
from ..graph.rewrite import copied
from ..inference.shapes import SYMBOLS
from ..library import hooks
from ..recording import parts
from ..recording.tracing import dispatch
from ..symbols import library_ops
from ..symbols.funcgraph import current_graph
from ..symbols.plain_apply import within_transforms
from ..writes import saving
from ..writes.stale import bump, one_memory, region_writes
from . import leaf_copies, missing
from .objects import emit_many, plain_object, type_of, value_in


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of ``graph`` for objects, recorded into the current graph."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    outer = torch.is_grad_enabled()
    nodes = current_graph().graph.nodes
    for node in graph.nodes:
        mark = len(nodes)
        over = _overwrite(node.over, env, node.location)
        with torch.set_grad_enabled(outer and node.grad):
            made = _node(node, env)
        for new in nodes[mark:]:
            new.location = node.location
        if over and len(nodes) > mark:
            nodes[mark].over = over
        if over:  # what it takes as another operand too, eager PyTorch does not copy
            _overwrite(_taken_too(node, env), env, node.location)
        env.update(zip(node.outputs, made, strict=True))
        leaf_copies.replayed(node, made)
        if node.op == "tg.read":
            current_graph().reads.setdefault(nodes[-1].args[0], []).append(made[0])
        if node.regions:
            _overwrite_inside(nodes[mark:], [env.get(a) if isinstance(a, Value) else None for a in node.args])  # fmt: skip
    current_graph().graph.over += _overwrite(graph.over, env, None)
    return [env[v] for v in graph.outputs]


def _overwrite_inside(made: Sequence[Node], args: Sequence[Any]) -> None:
    """Let autograd know of the writes in the regions of a node that was recorded just now."""
    for node in made:
        if node.regions and len(node.args) == len(args):
            region_writes(node, current_graph(), args)


def _overwrite(over: Sequence[Value], env: dict[Value, Any], location: Location | None) -> tuple[Value, ...]:  # fmt: skip
    """Let autograd know that the op which follows writes: what it has saved of the old content it may not use any more.

    What the op itself saves of it, it saves after: eager PyTorch keeps a copy of that. Returns what is written as values of the new graph.
    """
    if not over:
        return ()
    graph, found = current_graph(), [x for v in over if isinstance(x := env.get(v), torch.Tensor)]
    for x in found:
        bump(x, graph, lambda: True, location)
    return tuple(v for x in found if isinstance(v := value_in(x, graph), Value))


def _taken_too(node: Node, env: dict[Value, Any]) -> list[Value]:
    """What an op writes over and takes as another operand as well, itself or by a tensor that shares its memory (``y.mul_(y.detach())``).

    A node may also tell of the writes of nodes that are gone, which it stands behind: of these it takes what was there before.
    """
    target = env.get(node.args[0]) if node.args and isinstance(node.args[0], Value) else None
    others = [x for v in node.inputs if v is not node.args[0] and isinstance(x := env.get(v), torch.Tensor)]  # fmt: skip
    return [
        v
        for v in node.over
        if isinstance(x := env.get(v), torch.Tensor) and one_memory(target, x)
        if node.inputs.count(v) > 1 or any(one_memory(x, y) for y in others)
    ]


def _node(node: Node, env: dict[Value, Any]) -> Sequence[Any]:
    args = map_values(env.__getitem__, node.args)
    kwargs = map_values(env.__getitem__, node.kwargs)
    special = _SPECIAL.get(node.op)
    if special is not None:
        found = special(*args, **kwargs)
        return found if isinstance(found, tuple) else [found]
    if node.op.startswith(("aten.", "op.")):
        return _torch(node, args, kwargs)
    regions = {name: copied(g, ordered=True) for name, g in node.regions.items()}
    for name, region in regions.items():
        leaf_copies.copied(node.regions[name], region)
    if node.kwargs.get("name") == hooks.NAME and "gradient" in node.regions:
        return [_hook(node, args, regions)]
    made = emit_many(node.op, args, kwargs, [v.type for v in node.outputs], regions=regions)
    if node.kwargs.get("saved"):
        saving.keep(made, [args[i] if i >= 0 else made[~i] for i in node.kwargs["saved"]])
    return made


def _hook(node: Node, args: tuple, regions: dict[str, Graph]) -> Any:
    """A gradient hook is one of torch's again, and a node for gradients of what is recorded now."""
    graph = current_graph()
    values = tuple(value_in(a, graph) for a in args)
    made = graph.add("Call", values, node.kwargs, [v.type for v in node.outputs], regions=regions)

    def gradient(g: Any) -> Any:
        region = copied(node.regions["gradient"], ordered=True)
        region.name = "function"
        kinds = [v.type for v in region.outputs]
        return emit_many(
            "Call", (*args, g), {"name": "gradient"}, kinds, regions={"function": region}
        )[0]

    return hooks.again(node, args[1], made.outputs[0], gradient)


def _torch(node: Node, args: tuple, kwargs: dict) -> Sequence[Any]:
    args, kwargs = _opened(args), _opened(kwargs)
    op = overload(node.op)
    if lookup(node.op).effects.random and any(isinstance(a, SYMBOLS) for a in args):
        result = dispatch(op, args, kwargs)  # torch's own entry takes plain numbers
    else:
        with _around(node, op):
            result = op(*args, **kwargs)
    if result is None:
        return []
    outs = list(result) if isinstance(result, (tuple, list)) else [result]
    if current_graph().searching and torch.is_grad_enabled():
        return missing.found(outs, args, node.location)
    return outs


def _around(node: Node, op: Any) -> AbstractContextManager[Any]:
    """What an op runs in: a slice has the size that it was recorded with, whatever can be proved here."""
    if node.op == "aten.slice.Tensor":
        return parts.sized_as(node.outputs[0].type.shape, node.unsure)
    return nullcontext() if node.op.startswith("aten.") else library_ops.called(op)


def _opened(x: Any) -> Any:
    """Arguments as torch takes them: generators and the like without their wrapping."""
    if isinstance(x, OpaqueObject):
        return plain(x)
    if type(x) in (list, tuple):
        return type(x)(map(_opened, x))
    if isinstance(x, dict):
        return {k: _opened(v) for k, v in x.items()}
    return x


def _detach(x: Any) -> Any:
    return x.detach()


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """``aten.copy`` has no formula of its own: it is a conversion and an expansion, and zeros for what is written over."""
    made = source.to(dtype=target.dtype, device=target.device).expand(tuple(target.shape)).clone()
    return _over(target, made) if target.requires_grad and torch.is_grad_enabled() else made


class _Over(torch.autograd.Function):
    """A tensor that was written over the whole of another one."""

    @staticmethod
    def forward(ctx: Any, target: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        graph = current_graph()
        values = [value_in(x, graph) for x in (target, made)]
        with torch.enable_grad():  # the node has a history
            value = graph.emit("aten.copy.default", *values, type=type_of(target))
        return plain_object(value, graph)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return torch.zeros_like(grad), grad

    @staticmethod
    def jvp(ctx: Any, target: Any, made: Any) -> Any:
        return made


_over = within_transforms(_Over)


def _zero(x: torch.Tensor) -> torch.Tensor:
    """``aten.zero``, whose formula is for real numbers only."""
    zero = torch.ops.aten.zero.default
    return torch.view_as_complex(zero(torch.view_as_real(x.resolve_conj()))) if x.is_complex() else zero(x)  # fmt: skip


def _view(x: torch.Tensor, size: Any) -> torch.Tensor:
    """Where strides do not allow a view the graph's op copies."""
    return x.reshape(size)


def _strided(x: torch.Tensor, size: Any, stride: Any, offset: Any = None) -> torch.Tensor:
    """The memory of an operand is in order, see ``recording.strided``, and what stands for one here may show another order."""
    return torch.as_strided(x.contiguous(), size, stride, offset)


def _scattered(op: Any) -> Callable[..., Any]:
    """torch has the formula for real numbers only: complex ones are pairs of these."""

    def run(x: torch.Tensor, source: torch.Tensor, dim: int = 0, *place: Any) -> torch.Tensor:
        if not x.is_complex():
            return op(x, source, dim, *place)
        pairs = [torch.view_as_real(t.to(x.dtype).resolve_conj()) for t in (x, source)]
        return torch.view_as_complex(op(*pairs, dim % x.dim(), *place))

    return run


def _leaking(*args: Any) -> Any:
    return lookup("aten.rrelu_with_noise_functional.default").run(*_opened(args))


_SPECIAL: dict[str, Callable[..., Any]] = {
    "aten.rrelu_with_noise_functional.default": _leaking,
    "aten._linalg_det.default": determinants.with_factors,
    **open_sizes.FORMS,
    "aten.detach.default": _detach,
    "aten.as_strided.default": _strided,
    "aten.copy.default": _copy,
    "aten.zero.default": _zero,
    "aten.select_scatter.default": _scattered(torch.ops.aten.select_scatter.default),
    "aten.slice_scatter.default": _scattered(torch.ops.aten.slice_scatter.default),
    "aten.view.default": _view,
    "aten._unsafe_view.default": _view,
}

recomputed.REPLAY = replay
