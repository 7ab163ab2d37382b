"""torch's own transforms around a call: ``torch.func`` (grad, jvp, vmap, ...) and forward-mode AD.

They wrap the tensors of a call and see its ops one by one, so the call runs the graph op by op. Under ``vmap`` a condition may
differ from example to example: then both branches run and each example takes its own result, and a loop runs until no example
goes on, those that have ended keeping their state. So branches and bodies must not have effects there. For the examples that do not take
part in them (``_taking_part``) no gradient leaves them, since formulas may give NaN for what such a branch was not made for, and nothing fails.

Numbers that differ between examples are 0-d tensors from then on.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from ...errors import UnsupportedOpError
from ..graph.interp import attempt
from ..graph.ir import Graph, Node, Value, all_nodes, map_values
from ..graph.ops import lookup, overload_packet, plain
from ..graph.ordering import graph_effects, node_effects
from .one_by_one import one_by_one
from .own_gradients import with_own_gradient

_functorch = torch._C._functorch
_are_active = torch._C._are_functorch_transforms_active
is_wrapped = _functorch.is_functorch_wrapped_tensor


def active() -> bool:
    """Whether a transform of ``torch.func``, or a forward-mode level, is open."""
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def open_inside() -> bool:
    """Whether the code that is traced has a transform of ``torch.func`` open; those around the call are put aside."""
    return _functorch.peek_interpreter_stack() is not None


def may_wrap(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a transform of ``torch.func`` is open, or one that has ended left its wrapper around a tensor."""
    return _are_active() or any(map(is_wrapped, tensors))


def mapping() -> bool:
    """Whether one of the open transforms is ``vmap``."""
    stack = _functorch.get_interpreter_stack()
    return bool(stack) and any(level.key() == _functorch.TransformType.Vmap for level in stack)


_OLDER_VMAP: Any = torch._C._parse_dispatch_key("Batched")


def is_mapped(x: Any) -> bool:
    """Whether a tensor is what a transform, or the older ``vmap`` of ``torch.autograd.grad(..., is_grads_batched=True)``, makes of many."""
    if not isinstance(x, torch.Tensor):
        return False
    return is_wrapped(x) or torch._C._dispatch_keys(x).has(_OLDER_VMAP)


@contextmanager
def suspended():
    """Inside, no transform of ``torch.func`` is open: a function is traced as if it were called plainly."""
    levels = []
    while _functorch.peek_interpreter_stack() is not None:
        levels.append(_functorch.pop_dynamic_layer_stack())
    try:
        yield
    finally:
        while levels:
            _functorch.push_dynamic_layer_stack(levels.pop())


def _opened(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """(the tensor inside the wrappers of all transforms, whether one of them is a batch)"""
    batched = False
    while is_wrapped(x):
        batched |= _functorch.is_batchedtensor(x)
        x = _functorch.get_unwrapped(x)
    return x, batched


def _differs(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and _opened(x)[1]


class _ApartError(UnsupportedOpError):
    """All examples at once cannot run what differs between them."""


def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, for all examples at once where ``vmap`` is open; else one by one, where it only computes."""
    try:
        return _run(graph, inputs)
    except _ApartError as error:
        if not all(map(_only_computes, all_nodes(graph))):
            raise error.__cause__ or UnsupportedOpError(str(error)) from None
        return one_by_one(functools.partial(_run, graph), inputs)


def _only_computes(node: Node) -> bool:
    """Whether a node may run for one example after the other: it computes, or is part of what catches exceptions."""
    effects = node_effects(node)
    acts = effects.io or effects.writes or effects.random
    return not acts or bool(node.regions) or node.op in ("tg.cell_new", "tg.caught", "tg.reraise")


def as_tensors(outputs: Sequence[Any]) -> list[Any]:
    """Results under ``vmap``, which takes tensors only: a number of the run may be the same in all examples, or not."""
    return [torch.tensor(x, dtype=_DTYPES[type(x)]) if type(x) in _DTYPES else x for x in outputs]


def _run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=False))
    for node in graph.nodes:
        with torch.set_grad_enabled(torch.is_grad_enabled() and node.grad):
            env.update(zip(node.outputs, _node(node, env), strict=False))
    return [env[v] for v in graph.outputs]


def _node(node: Node, env: dict[Value, Any]) -> Sequence[Any]:
    args = map_values(env.__getitem__, node.args)
    if node.op in _REGIONS:
        return _REGIONS[node.op](node, args)
    kwargs = map_values(env.__getitem__, node.kwargs)
    if node.op.startswith("py.") and any(map(_differs, args)):
        return (_number(node, args),)
    row = lookup(node.op)
    if node.op in ("tg.assert", "tg.raise"):
        _checked(node, row, args, kwargs)
        return ()
    if node.op.startswith(("aten.", "op.")):
        result = _torch(node, row, args, kwargs)
        return result if isinstance(result, (tuple, list)) else (result,)
    result = row.run(*args, **kwargs)
    return result if row.outputs != 1 and isinstance(result, tuple) else (result,)


def _torch(node: Node, row: Any, args: tuple, kwargs: dict) -> Any:
    if node.op == "aten.select.int" and _differs(args[2]):
        at = torch.remainder(args[2], args[0].size(args[1])).reshape(1)
        return torch.index_select(args[0], args[1], at).squeeze(args[1])
    if node.op == "aten.select_scatter.default":
        return _select_scatter(*args)
    if node.op == "aten.scalar_tensor.default" and isinstance(args[0], torch.Tensor):
        return args[0].to(kwargs.get("dtype"))
    try:
        return row.run(*args, **kwargs)
    except (TypeError, RuntimeError) as error:
        if not any(map(_differs, pytree.tree_leaves((args, kwargs)))):
            raise
        return _otherwise(node, args, kwargs, error)


def _otherwise(node: Node, args: tuple, kwargs: dict, error: Exception) -> Any:
    """What torch did not compute for all examples at once: as an op of tensors where a number differs, else one by one."""
    numbers = [v for v, a in zip(node.args, args) if isinstance(v, Value) and not hasattr(v.type, "shape")]  # fmt: skip
    if numbers:
        try:
            return overload_packet(node.op.rpartition(".")[0])(*args, **kwargs)
        except (TypeError, RuntimeError) as other:
            error = other
    raise _ApartError(f"vmap cannot run {node.op} here: {error}", node.location) from error


def _select_scatter(x: torch.Tensor, item: torch.Tensor, dim: int, index: Any) -> torch.Tensor:
    """The second derivative of torch's own is wrong where ``vmap`` maps a forward derivative (``jacrev(jacfwd(f))``)."""
    size = x.size(dim)
    if not isinstance(index, torch.Tensor):
        at = index % size
        return torch.slice_scatter(x, item.unsqueeze(dim), dim, at, at + 1)
    shape = [size if i == dim % x.ndim else 1 for i in range(x.ndim)]
    there = torch.arange(size, device=x.device) == torch.remainder(index, size)
    return torch.where(there.reshape(shape), item.unsqueeze(dim), x)


_NUMBERS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
    "mod": operator.mod, "pow": operator.pow, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "neg": operator.neg, "pos": operator.pos, "abs": operator.abs,
    "and_": operator.and_, "or_": operator.or_, "xor": operator.xor, "not": torch.logical_not, "min": torch.minimum,
    "max": torch.maximum, "constant": lambda x: x, "int": lambda x: x.to(torch.int64), "float": lambda x: x.to(torch.float64),
    "bool": lambda x: x.to(torch.bool), "select": torch.where,
    "range_length": lambda a, b, c: torch.clamp(-((a - b) // c), min=0),
}  # fmt: skip


def _number(node: Node, args: tuple) -> Any:
    """A Python number that differs from example to example."""
    name = node.op.removeprefix("py.")
    form = _NUMBERS.get(name) or getattr(torch, name.removeprefix("math."), None)
    if form is None:
        raise _ApartError(
            f"{node.op} of a number that differs between examples of vmap", node.location
        )
    if name in ("min", "max", "select"):
        args = tuple(a if isinstance(a, torch.Tensor) else torch.tensor(a) for a in args)
    return form(*(plain(a) for a in args))


# ---- regions


def _choice(
    node: Node, names: Sequence[str], conditions: Sequence[Any], args: tuple
) -> Sequence[Any]:
    """The results of the first region whose condition holds, example by example; the last region is for the rest."""
    for name in names:
        _require_pure(node, name)
    others = ~functools.reduce(operator.or_, conditions)
    results = []
    for name, condition in zip(names, [*conditions, others]):
        with _taking_part(condition):
            results.append(_run(node.regions[name], [_gated(condition, a) for a in args]))
    out = results[-1]
    for condition, result in zip(reversed(conditions), reversed(results[:-1])):
        out = [_merge(condition, a, b, node) for a, b in zip(result, out)]
    return out


class _Live(threading.local):
    """Which examples take part in what runs, innermost last: of them, those that take part in what is around it."""

    def __init__(self) -> None:
        self.masks: list[torch.Tensor] = []


_live = _Live()


@contextmanager
def _taking_part(condition: torch.Tensor) -> Iterator[None]:
    _live.masks.append(condition & _live.masks[-1] if _live.masks else condition)
    try:
        yield
    finally:
        _live.masks.pop()


def _gated(condition: torch.Tensor, x: Any) -> Any:
    """A value that gets gradients from the examples for which a condition holds only."""
    if isinstance(x, tuple):
        return tuple(_gated(condition, v) for v in x)
    if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
        return x
    return torch.where(condition, x, x.detach())


def _checked(node: Node, row: Any, args: tuple, kwargs: dict) -> None:
    """An assertion, or an error that is raised: it fails where it does for an example that takes part."""
    fails = torch.tensor(True)
    if node.op == "tg.assert":
        holds, *rest = args
        fails = ~_truth(holds) if _differs(holds) else torch.tensor(not _truth(holds))
        args = (False, *rest)
    if _live.masks:
        fails = fails & _live.masks[-1]
    if bool(_opened(fails)[0].any()):
        row.run(*args, **kwargs)


def _require_pure(node: Node, name: str) -> None:
    effects = graph_effects(node.regions[name])
    if effects.io or effects.writes:
        raise UnsupportedOpError(
            f"under vmap the condition of this `{node.op}` differs between examples, and its {name} has effects",
            node.location,
        )


def _merge(condition: Any, a: Any, b: Any, node: Node) -> Any:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_merge(condition, x, y, node) for x, y in zip(a, b))
    if a is b or (type(a) is type(b) and not isinstance(a, (torch.Tensor, tuple)) and a == b):
        return a
    if all(isinstance(x, (torch.Tensor, bool, int, float)) for x in (a, b)):
        a, b = (
            x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=_DTYPES[type(x)])
            for x in (a, b)
        )
        if a.shape == b.shape:
            return torch.where(condition, a, b)
    raise _ApartError(
        f"under vmap the condition of this `{node.op}` differs between examples, and so does the size or kind of a result",
        node.location,
    )


_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _truth(x: Any) -> Any:
    """A condition: a bool, or a tensor where it differs between examples."""
    if not isinstance(x, torch.Tensor):
        return bool(x)
    inside, batched = _opened(x)
    return x.to(torch.bool).reshape(()) if batched else bool(inside)


def _if(node: Node, args: tuple) -> Sequence[Any]:
    test = _truth(args[0])
    if isinstance(test, bool):
        return _run(node.regions["then" if test else "orelse"], args[1:])
    return _choice(node, ["then", "orelse"], [test], args[1:])


def _case(node: Node, args: tuple) -> Sequence[Any]:
    names, index = list(node.regions), args[0]
    if not _differs(index):
        i = int(index)
        return _run(node.regions[names[i] if 0 <= i < len(names) else names[-1]], args[1:])
    return _choice(node, names, [index == i for i in range(len(names) - 1)], args[1:])


def _while(node: Node, args: tuple) -> Sequence[Any]:
    carried = node.kwargs["carried"]
    state, rest = list(args[:carried]), args[carried:]
    going: Any = _live.masks[-1] if _live.masks else True
    while True:
        test = _truth(_run(node.regions["cond"], [*state, *rest])[0])
        going = test if going is True else going & test
        if going is False or (
            isinstance(going, torch.Tensor) and not bool(_opened(going)[0].any())
        ):
            return state
        if going is True:
            state = list(_run(node.regions["body"], [*state, *rest]))
            continue
        _require_pure(node, "body")
        with _taking_part(going):
            new = _run(node.regions["body"], [_gated(going, a) for a in [*state, *rest]])
        state = [_merge(going, a, b, node) for a, b in zip(new, state)]


def _call(node: Node, args: tuple) -> Sequence[Any]:
    if "gradient" in node.regions:
        return with_own_gradient(_run, node, args)
    return _run(node.regions["function"], args)


def _try(node: Node, args: tuple) -> Sequence[Any]:
    if any(map(_differs, pytree.tree_leaves(args))):
        raise _ApartError("under vmap what this `try` fails of differs between examples, in a graph with effects", node.location)  # fmt: skip
    return attempt(node, args, _run)


_REGIONS = {"If": _if, "Case": _case, "While": _while, "Call": _call, "Try": _try}
