"""``backward()`` and ``torch.autograd.grad`` while a function is traced: torch's engine runs on what is recorded.

The gradients of leaves are added to their ``.grad`` as the trace sees it (``grad_fields``).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch

from ...errors import GradientError
from ..gradients import broadcasts, grad_fields, optional_grads, outer_gradients
from ..guarding import reads
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.symbolic import SymTensor, value_of
from ..writes import freed, hooked, iterations, stale, torn
from . import outer_histories, rising
from .accumulated import accumulate, run_hooks, spread
from .beside import NONE, Beside, together, told


class _Transforms(threading.local):
    depth = 0


_transforms = _Transforms()
_TRANSFORMED = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead or call "
    "backward() outside of functorch transforms."
)


@contextmanager
def transforming() -> Iterator[None]:
    """Inside, a function is differentiated by ``torch.func``."""
    _transforms.depth += 1
    try:
        yield
    finally:
        _transforms.depth -= 1


def engine(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    keep: bool,
    create: bool,
    unused: bool,
    every: bool = False,
    seen: Mapping[int, torch.Tensor] = MappingProxyType({}),
) -> Any:
    """The gradients, as of ``followed``."""
    return followed(outputs, grads, inputs, keep, create, unused, every, seen)[0]


def followed(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    keep: bool,
    create: bool,
    unused: bool,
    every: bool = False,
    seen: Mapping[int, torch.Tensor] = MappingProxyType({}),
) -> tuple[list[Any], Beside]:
    """The engine, on what is recorded: the gradients, and the tensors by which more came to them.

    ``keep``: what the graph saved may be used again; ``unused``: as of ``allow_unused``;
    ``every``: ``inputs`` are all that the history leads to; ``seen``: by ``id``, what hooks leave of the gradients.
    """
    if torch.is_anomaly_check_nan_enabled() and torch.is_anomaly_enabled():
        raise GradientError(
            "torch's anomaly detection looks at the values of gradients, which are known only when the graph runs. Use "
            "torch.autograd.set_detect_anomaly(True, check_nan=False), or look for NaN with an assert.",
            user_location(),
        )
    reads.history()
    if not _transforms.depth:
        reads.follow_grad_mode()
    torn.check(current_graph())
    current_graph().note_gradient()
    current_graph().root.took = True
    if not every:
        outer_histories.check_grad(lambda: leaves(outputs), inputs)
    outer_histories.take_hooks(inputs)
    SEPARATE(outputs, inputs, every)
    here = current_graph()
    if any(graph.hooked for graph in here.root.graphs):
        hooked.check_gradient(here, [value_of(x, here) for x in outputs])
    visited = freed.visited(outputs, inputs)
    nodes = freed.reached(visited, outputs)
    again = freed.AGAIN(outputs, inputs, nodes) if here.root.freed else ()
    if create and here.root.unrolled:
        rising.check_unrolled(nodes, here)
    stale.settle(nodes, False)
    if len(visited) > len(nodes):
        # No gradient comes to the others, and the engine looks at what they saved.
        comes = set(nodes)
        stale.settle((n for n in visited if n not in comes), True)
    beside = Beside(PASSING(outputs, inputs), TOKENS(inputs))
    some = unused or any(beside)
    with broadcasts.checked(nodes), freed.ARRIVING(nodes, outputs, again) as arrived:
        found = outer_gradients.run(outputs, grads, [*inputs, *beside.tensors], create, some)
    beside = beside._replace(told=told(found[len(inputs) + len(beside.passed) :]))
    found[: len(inputs)] = [seen.get(id(x), g) for x, g in zip(inputs, found)]
    found = together(inputs, found, beside, create)
    missing = [i for i, g in enumerate(found) if g is None]
    if missing and not unused:
        raise RuntimeError(optional_grads.UNUSED.format(missing[0]))
    for g, x in zip(found, inputs):
        broadcasts.same_size(g, x)
    if not keep:
        freed.free(nodes, outputs, arrived)
    return found, beside


def _several(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)


def _start(output: torch.Tensor, grad: Any) -> Any:
    """The cotangent that a gradient starts from."""
    if grad is not None:
        if tuple(grad.shape) != tuple(output.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output has a shape of {grad.shape} and output has a shape of {output.shape}."
            )
        return grad
    reads.history()
    if not output.requires_grad:
        return None
    if output.dim() and any(type(n) is not int or n != 1 for n in output.shape):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return torch.ones_like(output)


def _cotangents(outs: tuple[Any, ...], given: Any) -> list[Any]:
    starts = _several(given) if given is not None else (None,) * len(outs)
    return [_start(o, g) for o, g in zip(outs, starts, strict=True)]


_ONLY_INPUTS = (
    "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the graph, please use "
    "torch.autograd.backward."
)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """``torch.autograd.grad`` while tracing."""
    outs, wrt = _several(outputs), _several(inputs)
    if not only_inputs:
        warnings.warn(_ONLY_INPUTS, FutureWarning, stacklevel=2)
    if is_grads_batched and all(isinstance(x, torch.Tensor) for x in (*outs, *wrt)):
        return _batched(outs, wrt, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)  # fmt: skip
    if not all(isinstance(x, torch.Tensor) for x in (*outs, *wrt)):
        return torch.autograd.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, True, allow_unused, is_grads_batched, materialize_grads
        )  # fmt: skip
    if not wrt:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    cotangents = _cotangents(outs, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    unused = bool(allow_unused) or materialize_grads
    found, beside = followed(outs, cotangents, wrt, keep, create_graph, unused)
    if materialize_grads:
        optional_grads.check(WAYS(outs, wrt, beside)[0], "RuntimeError", optional_grads.UNREACHED)
        pairs = zip(found, wrt)
        return tuple(torch.zeros_like(x, requires_grad=create_graph) if g is None else g for g, x in pairs)  # fmt: skip
    some, ways = WAYS(outs, wrt, beside)
    optional_grads.check(some, "RuntimeError", optional_grads.UNREACHED)
    BY_ITEMS(outs, wrt, found, ways)
    return _by_ways(found, ways, unused)


def _batched(outs, wrt, starts, retain_graph, create_graph, allow_unused, materialize_grads):
    """The gradients for every row of ``starts``, one after the other, as rows: ``is_grads_batched``."""
    starts = _several(starts)
    given = [s for s in starts if s is not None]
    sizes = [g.shape[0] if isinstance(g, torch.Tensor) and g.dim() else None for g in given]
    if any(isinstance(n, torch.SymInt) for n in sizes):
        raise GradientError(
            "the number of gradients that is_grads_batched=True asks for is known only when the graph runs",
            user_location(),
        )
    if len(set(sizes)) != 1 or None in sizes:
        raise ValueError("is_grads_batched=True takes grad_outputs with one first dimension of the same size")  # fmt: skip
    size = sizes[0]
    keep = create_graph if retain_graph is None else retain_graph
    rows = []
    for i in range(size):
        row = [None if s is None else s[i] for s in starts]
        kept = keep or i + 1 < size
        rows.append(grad(outs, wrt, row, kept, create_graph, True, allow_unused, False, materialize_grads))  # fmt: skip
    return tuple(None if column[0] is None else torch.stack(column) for column in zip(*rows))


def _by_ways(found: Sequence[Any], ways: Sequence[Any], unused: bool) -> tuple[Any, ...]:
    """Gradients that a run may not have: None there, or eager's error where ``unused`` does not allow it."""
    if unused:
        return tuple(None if g is None else optional_grads.optional(g, w) for g, w in zip(found, ways))  # fmt: skip
    first = {way: i for i, way in reversed(list(enumerate(ways)))}
    for way, i in reversed(first.items()):
        optional_grads.check(way, "RuntimeError", optional_grads.UNUSED.format(i))
    return tuple(found)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """``torch.autograd.backward`` while tracing: the gradients of the leaves are added to their slots.

    Hooks that wait for them (``register_post_accumulate_grad_hook``) run then.
    """
    if _transforms.depth:
        raise RuntimeError(_TRANSFORMED)
    outs = _several(tensors)
    cotangents = _cotangents(outs, grad_tensors)
    wrt = leaves(outs) if inputs is None else list(_several(inputs))
    grad_fields.note_named(iterations.named(outs) if inputs is None else wrt)
    if inputs is None:
        outer_histories.check_backward(wrt)
    if inputs is not None and not wrt:
        raise RuntimeError("'inputs' argument to 'backward' cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    reads.history()
    for o in outs:
        CHECK_OWN(o)
    if inputs is None:
        NOTE_LISTS(outs)
    if not any(o.requires_grad for o in outs):
        current_graph().note_gradient()  # in a loop, they may where its state is known
        _backward_of_own(outs)
        return
    every = inputs is None
    with _behind_hooks([x for x in wrt if every and not iterations.is_leaf(x)]) as retained:
        found, beside = followed(outs, cotangents, wrt, keep, create_graph, True, every, retained) if wrt else ([], NONE)  # fmt: skip
    some, ways = WAYS(outs, wrt, beside, every)
    optional_grads.check(some, "RuntimeError", optional_grads.UNREACHED)
    BY_ITEMS(outs, wrt, found, ways)
    for leaf, g, way in zip(wrt, found, ways):
        if g is not None:
            if not every or any(x is leaf for x, _ in current_graph().root.joined):
                spread(leaf, g, create_graph, way, wrt)
            else:
                accumulate(leaf, g, create_graph, way)
            run_hooks(leaf, way)


def _backward_of_own(outs: Sequence[torch.Tensor]) -> None:
    """Of what has no history here: it may have been computed of leaves that regions made and did not give, whose gradients nobody sees."""
    ways = [OWN(o) for o in outs if isinstance(o, SymTensor)]
    if all(way is False for way in ways):
        raise RuntimeError(optional_grads.UNREACHED)
    for way in ways if True not in ways else ():
        optional_grads.check(way, "RuntimeError", optional_grads.UNREACHED)


@contextmanager
def _behind_hooks(xs: Sequence[torch.Tensor]) -> Iterator[dict[int, torch.Tensor]]:
    """What gradients that are taken inside leave of tensors with ``retain_grad``, by ``id``: what is there behind all hooks.

    The engine gives of a tensor from which it goes on what comes to it, as for ``torch.autograd.grad``.
    """
    seen: dict[int, torch.Tensor] = {}
    here = current_graph()

    def hook_of(x: torch.Tensor) -> Any:
        def hook(g: Any) -> None:
            # None: of nodes of a staged construct. What a run takes in some iterations only is a value of the branch.
            if g is not None and current_graph() is here:
                seen[id(x)] = g

        return torch.Tensor.register_hook(x, hook)

    handles = [hook_of(x) for x in xs]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def SEPARATE(outputs: Sequence[Any], inputs: Sequence[Any], every: bool) -> None:
    """An error where a staged construct computed what is differentiated from what it is differentiated by. Set by ``autodiff``."""


def PASSING(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[tuple[int, Any, Any, bool]]:
    """The tensors that ``inputs`` may be in a run and ``outputs`` were computed from by themselves. Set by ``autodiff``."""
    return []


def TOKENS(inputs: Sequence[Any]) -> list[tuple[int, Any, Any]]:
    """What stands for leaves that a staged construct made, in what it computed of them. Set by ``autodiff``."""
    return []


def WAYS(
    outputs: Sequence[Any], inputs: Sequence[Any], beside: Beside = NONE, fields: bool = False
) -> tuple[Any, list[Any]]:
    """Whether a gradient leads anywhere in a run, and to which inputs, which the tensors ``beside`` stand for, too; or to their ``.grad`` ``fields``. Set by ``autodiff``."""
    return True, [True] * len(inputs)


def BY_ITEMS(outputs: Sequence[Any], inputs: Sequence[Any], found: Sequence[Any], ways: Sequence[Any]) -> None:  # fmt: skip
    """An error of a run in which a gradient that is zeros may be None, by what a list holds. Set by ``autodiff``."""


def OWN(x: Any) -> Any:
    """Whether a tensor without a history here was computed of leaves that regions made, or is one. Set by ``autodiff``."""
    return False


def OWN_LEAF(x: Any) -> Any:
    """Whether it is one. Set by ``autodiff``."""
    return False


def CHECK_OWN(x: Any) -> None:
    """An error where a gradient by it would come to a leaf that is given. Set by ``autodiff``."""


def NOTE_LISTS(outs: Sequence[Any]) -> None:
    """Note a gradient that may come to leaves which regions made by way of lists. Set by ``autodiff``."""


def _retain(x: torch.Tensor) -> None:
    _RETAIN(x)
    if is_tracing() and not x.is_leaf:
        current_graph().root.retained.append(x)


def staged(out: torch.Tensor) -> bool:
    """Whether a staged construct, or another op that is not torch's own, is in the history of a tensor."""
    return any(
        isinstance(n, torch.autograd.function.BackwardCFunction) for n in iterations.behind([out])
    )


def leaves(outs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves, and tensors with ``retain_grad``, that the history of ``outs`` leads to, in order."""
    found: dict[int, torch.Tensor] = {id(o): o for o in outs if o.requires_grad and o.is_leaf}
    seen = iterations.behind(outs)
    for node in seen:
        leaf = getattr(node, "variable", None)
        token = getattr(leaf, "token_", None)
        if token is not None:
            found.update(
                (id(x), x) for x, v in current_graph().root.joined if (v.node, v.index) == token
            )
        elif leaf is not None:
            leaf = getattr(leaf, "shown_", leaf)
            found[id(leaf)] = leaf
    found.update((id(x), x) for x in iterations.leaves_led_to(seen))
    found.update((id(x), x) for x in current_graph().root.retained if x.grad_fn in seen)
    grad_fields.unfollow(seen)
    return list(found.values())


def _method(
    self: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    backward([self], [gradient], retain_graph, create_graph, inputs=inputs)


_RETAIN = torch.Tensor.retain_grad
SymTensor.retain_grad = _retain
SymTensor.backward = _method
