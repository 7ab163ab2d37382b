"""``.grad`` while a function is traced, and ``backward()``.

The gradient field of a leaf is a ``Slot``: what code reads and writes while tracing is the slot, never the field of the real
tensor. A slot is a location like any other, so a write under a staged branch or loop becomes state, and at the end of the
trace its content becomes an effect: every call leaves ``.grad`` as eager would.

A tensor that a ``.grad`` field holds at the call is an input of the graph that is looked up at every call, through its
owner, so that gradients that are replaced between calls do not trace anew. Whether a field that the trace read is None is a guard.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ..errors import GradientError
from . import custom, flattening, freed, histories, optional_grads, reads, stale
from .engine import run_backward
from .funcgraph import FuncGraph, Root, Storage, current_graph, is_tracing, user_location
from .infer import meta_of
from .journal import Location
from .structure import is_union
from .symbolic import SymTensor, value_of


class Slot:
    """The gradient field of ``owner``; ``real`` is the tensor that the function was called with, or ``owner`` itself."""

    def __init__(self, owner: torch.Tensor, root: Root):
        self.owner = owner
        self.real = owner.__dict__.get("real_", owner) if isinstance(owner, SymTensor) else owner
        self.was_read = False
        self.fresh = True  # the content may be the one from before the call
        self.start = self.content = None if isinstance(self.real, SymTensor) else self.real.grad
        if self.content is not None:
            storage = Storage(meta_of(self.content), external=self.content, late=self.late)
            root.captured[id(self.content)] = storage
            root.keep.append(self.content)

    @property
    def late(self) -> Any:
        """How a call finds the owner: the position of an argument, or the tensor."""
        return self.owner.storage_.argument if isinstance(self.owner, SymTensor) else self.owner

    def location(self) -> Location:
        def set(content: Any) -> None:
            self.content, self.fresh = content, content is self.start

        return Location(("grad", id(self.owner)), "a gradient", lambda: self.content, set, self)

    @property
    def outside(self) -> bool:
        """Whether the owner was there before the function ran."""
        return not isinstance(self.real, SymTensor)


def slot(owner: torch.Tensor) -> Slot:
    root = current_graph().root
    if id(owner) not in root.slots:
        root.slots[id(owner)] = Slot(owner, root)
        root.keep.append(owner)
    return root.slots[id(owner)]


def read(owner: torch.Tensor) -> Any:
    """``owner.grad``"""
    if not is_tracing():
        return owner.grad
    histories.check_graded(owner)
    found = slot(owner)
    found.was_read |= found.fresh
    return found.content


def _check_size(size: Sequence[Any], expected: Sequence[Any]) -> None:
    """A gradient's size is that of its tensor; sizes that only the graph knows count as equal."""
    pairs = zip(size, expected) if len(size) == len(expected) else [(0, 1)]
    if any(type(n) is int and type(m) is int and n != m for n, m in pairs):
        raise RuntimeError(
            f"assigned grad has data of a different size: {tuple(size)} for {tuple(expected)}"
        )


def write(owner: torch.Tensor, value: Any) -> None:
    """``owner.grad = value``"""
    if not is_tracing():
        owner.grad = value
        return
    if value is not None and not isinstance(value, torch.Tensor) and not is_union(value):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
        )
    if isinstance(value, torch.Tensor):
        _check_size(value.shape, owner.shape)
    found = slot(owner)
    if _conditional(value):
        found.was_read |= found.fresh  # where this region does not run, what was there stays
    found.location().set(value)
    found.fresh = False


@contextmanager
def standing(contents: dict[torch.Tensor, Any]) -> Iterator[None]:
    """Inside, the gradients of these tensors are others: for code that is traced with what a part of the paths gives."""
    before = {p: slot(p).content for p in contents}
    for p, content in contents.items():
        slot(p).content = content
    try:
        yield
    finally:
        for p, content in before.items():
            slot(p).content = content


def _conditional(value: Any) -> bool:
    """Whether what a field holds before a write may stay. A loop that sets it to None is taken to have an iteration: one trace does."""
    graph: FuncGraph | None = current_graph()
    while graph is not None and graph.repeats and value is None:
        graph = graph.outer
    return graph is not None and graph.outer is not None


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
    leaves: bool = False,
) -> Any:
    """The engine, on what is recorded. ``keep``: what the graph saved may be used again; ``unused``: as of ``allow_unused``;
    ``leaves``: ``inputs`` are all that the history leads to.
    """
    if torch.is_anomaly_check_nan_enabled() and torch.is_anomaly_enabled():
        raise GradientError(
            "torch's anomaly detection looks at the values of gradients, which are known only when the graph runs. Use "
            "torch.autograd.set_detect_anomaly(True, check_nan=False), or look for NaN with an assert.",
            user_location(),
        )
    reads.history()
    _check_iterations(outputs, inputs, leaves)
    SEPARATE(outputs, inputs)
    nodes = freed.executed(outputs, inputs)
    stale.settle(nodes, False)
    found = run_backward(outputs, grads, inputs, create, unused)
    if not keep:
        freed.free(nodes, outputs)
    return found


def _check_iterations(outputs: Sequence[Any], inputs: Sequence[Any], leaves: bool) -> None:
    graph: FuncGraph | None = current_graph()
    graph.note_gradient()
    while graph is not None and not graph.repeats:
        graph = graph.outer
    if graph is not None:
        histories.check(histories.behind(outputs), inputs, leaves)


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


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """``torch.autograd.grad`` while tracing."""
    outs, wrt = _several(outputs), _several(inputs)
    if is_grads_batched or not all(isinstance(x, torch.Tensor) for x in (*outs, *wrt)):
        return torch.autograd.grad(
            outputs,
            inputs,
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
    if not wrt:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    starts = _several(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    cotangents = [_start(o, g) for o, g in zip(outs, starts, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    found = engine(
        outs, cotangents, wrt, keep, create_graph, bool(allow_unused) or materialize_grads
    )
    if materialize_grads:
        return tuple(
            torch.zeros_like(x, requires_grad=create_graph) if g is None else g
            for g, x in zip(found, wrt)
        )
    _, ways = WAYS(outs, wrt)
    if allow_unused:
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
    starts = _several(grad_tensors) if grad_tensors is not None else (None,) * len(outs)
    cotangents = [_start(o, g) for o, g in zip(outs, starts, strict=True)]
    wrt = leaves(outs) if inputs is None else list(_several(inputs))
    if inputs is not None and not wrt:
        raise RuntimeError("'inputs' argument to 'backward' cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    reads.history()
    if not any(o.requires_grad for o in outs):
        raise RuntimeError(optional_grads.UNREACHED)
    every = inputs is None
    found = engine(outs, cotangents, wrt, keep, create_graph, True, every) if wrt else ()
    some, ways = WAYS(outs, wrt)
    optional_grads.check(some, "RuntimeError", optional_grads.UNREACHED)
    for leaf, g, way in zip(wrt, found, ways):
        if g is not None:
            _accumulate(leaf, g, create_graph, way)
            _run_hooks(leaf, way)


def SEPARATE(outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """An error where a staged construct computed what is differentiated from what it is differentiated by. Set by ``autodiff``."""


def WAYS(outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Whether a gradient leads anywhere in a run, and to which inputs. Set by ``autodiff``."""
    return True, [True] * len(inputs)


def _run_hooks(leaf: torch.Tensor, way: Any) -> None:
    for hook in list((leaf._post_accumulate_grad_hooks or {}).values()):
        if way is not True:
            raise GradientError(
                "whether a tensor with a post-accumulate-grad hook has a gradient depends on a staged condition",
                user_location(),
            )
        if custom.CONVERT(hook)(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _retain(x: torch.Tensor) -> None:
    _RETAIN(x)
    if is_tracing() and not x.is_leaf:
        current_graph().root.retained.append(x)


def staged(out: torch.Tensor) -> bool:
    """Whether a staged construct, or another op that is not torch's own, is in the history of a tensor."""
    return any(
        isinstance(n, torch.autograd.function.BackwardCFunction) for n in histories.behind([out])
    )


def leaves(outs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves, and tensors with ``retain_grad``, that the history of ``outs`` leads to, in order."""
    found: dict[int, torch.Tensor] = {id(o): o for o in outs if o.requires_grad and o.is_leaf}
    seen = histories.behind(outs)
    for node in seen:
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaf = getattr(leaf, "shown_", leaf)
            found[id(leaf)] = leaf
    found.update((id(x), x) for x in current_graph().root.retained if x.grad_fn in seen)
    return list(found.values())


def _accumulate(leaf: torch.Tensor, g: Any, create: bool, way: Any) -> None:
    histories.check_graded(leaf)
    old = read(leaf)
    if is_union(old):
        write(leaf, optional_grads.added(old, g, way))
    elif old is None:
        g = _laid_out(g, leaf)
        write(leaf, optional_grads.optional(g if create else own(g), way))
    elif create:
        write(leaf, old + g)
    else:
        with torch.no_grad():
            old.add_(g)
        slot(leaf).location().set(old)


def _laid_out(g: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout of its leaf, which torch gives it: that of a sum, for one, comes as one number expanded."""
    if not all(type(n) is int for x in (g, leaf) for n in (*x.shape, *x.stride())):
        return g
    wanted = torch.empty_like(leaf, device="meta").stride()
    if all(a == b for n, a, b in zip(g.shape, g.stride(), wanted) if n > 1):
        return g
    if leaf.is_contiguous():
        return g.clone(memory_format=torch.contiguous_format)
    return torch.empty_like(leaf, requires_grad=False).copy_(g)


def own(g: torch.Tensor) -> torch.Tensor:
    """A gradient as a tensor of its own: what is written to it in place is seen nowhere else."""
    graph = current_graph()
    return flattening.symbolic(value_of(g, graph), graph, connected=False)


def slots_read(graph: FuncGraph) -> list[Slot]:
    """The slots of a trace whose first content mattered: code has read it, or it is a tensor that the graph takes."""
    taken = {id(k.external) for k in graph.captures if isinstance(k, Storage)}
    slots = [s for s in graph.root.slots.values() if s.outside]
    return [s for s in slots if s.was_read or (s.start is not None and id(s.start) in taken)]


def effects_of(entries: dict[Any, tuple[Location, Any]]) -> list[Slot]:
    """The slots that a trace wrote and whose owners outlive it; a tensor that was only written in place stays."""
    slots = [place.keep for key, (place, _) in entries.items() if key[0] == "grad"]
    return [s for s in slots if s.outside and (s.content is None or s.content is not s.start)]


def field_of(owner: torch.Tensor) -> Location:
    """The real ``.grad`` field of a tensor."""

    def set(value: Any) -> None:
        owner.grad = value

    return Location(("attr", id(owner), "grad"), "a gradient", lambda: owner.grad, set, owner)


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
SymTensor.grad = property(read, write)
