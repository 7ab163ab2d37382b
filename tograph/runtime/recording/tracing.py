"""Tracing: Python code runs on symbolic tensors, and every ATen op becomes a node of a graph.

A ``TorchDispatchMode`` receives all ops below autograd, so gradients taken inside a function are recorded
like any other op. The mode says that it does not skip dynamo: torch would import ``torch._dynamo`` (a second)
at its first dispatch otherwise.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ...errors import UnsupportedOpError
from ..graph import ops
from ..graph.ir import Value
from ..inference.fitting import rare, unsure
from ..inference.infer import answer, facts_of, infer, tensor_type
from ..inference.layouts import is_sparse_product, taking_sparse
from ..inference.shapes import Meta, contiguous, same_shape
from ..symbols.assumptions import settled
from ..symbols.carrier import Carrier, dispatch_carrier
from ..symbols.descriptions import metas
from ..symbols.duals import level_open, may_agree
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, stack, user_location
from ..symbols.open_layouts import is_open
from ..symbols.packing import is_packing
from ..symbols.scalars import size_of
from ..symbols.symbolic import SymTensor, View, argument, as_symbolic, same, scalar_of, wrap
from ..writes import torn
from ..writes.mutation import write_in_place
from . import collectives, compared, foreach, masks, overflows, parts, ranges, strided, summed, ways
from .attention import by_formula
from .new_constants import lifted
from .schemas import asked_for, factory_options, of_default_generator


@contextmanager
def recording(graph: FuncGraph):
    """Record ops into ``graph``; the outermost one enters the dispatch mode."""
    outermost = not stack.graphs
    stack.graphs.append(graph)
    try:
        if outermost:
            # Gradients taken while tracing are recorded, so the engine has to run in this thread on any device.
            with _MODE, saving_plainly(), by_formula(), torch.autograd.set_multithreading_enabled(False):  # fmt: skip
                yield graph
        else:
            yield graph
    finally:
        stack.graphs.pop()


@contextmanager
def saving_plainly():
    """Inside, no hooks around the call see what autograd saves: those of a checkpoint would count symbolic tensors and keep them."""
    held, autograd = [], torch._C._autograd
    while (hooks := autograd._top_saved_tensors_default_hooks(True)) is not None:
        held.append(hooks)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        while held:
            autograd._push_saved_tensors_default_hooks(*held.pop())


@contextmanager
def suspended():
    """Run code outside of any trace (``tg.init_scope``)."""
    graphs, stack.graphs = stack.graphs, []
    try:
        with _disable_current_modes():
            yield
    finally:
        stack.graphs = graphs


class TraceMode(TorchDispatchMode):
    """Hands every ATen op to ``dispatch``."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if Carrier in types:
            return dispatch_carrier(func, args)
        if torch.is_inference_mode_enabled() and _is_made_of_others(func):
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return dispatch(func, args, kwargs or {})


_MODE = TraceMode()


@functools.cache
def _is_made_of_others(func: Any) -> bool:
    """Whether torch computes an op by others above autograd, and calls them; not so in inference mode, which passes autograd over."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


# Questions about types, which have an answer while tracing.
_ANSWERS = frozenset(["aten::promote_types", "aten::result_type", "aten::can_cast"])


def dispatch(func, args: tuple, kwargs: dict) -> Any:
    """Record one ATen op and return symbolic outputs."""
    if "generator" in kwargs and kwargs["generator"] is None:
        func = of_default_generator(func)
        kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
    args = masks.spelled(func, args, record)
    special = SPECIAL.get(func)
    if special is not None:
        return special(*args, **kwargs)
    if func._opname.startswith(foreach.PREFIX):
        found = foreach.each(dispatch, func, args, kwargs)
        if found is not None:
            return found or None
    if func._schema.name in _ANSWERS:
        return answer(func, metas(args), {k: metas(v) for k, v in kwargs.items()})
    facts = facts_of(func)
    if facts.mutated:
        return write_in_place(func, facts, args, kwargs, record)
    if func.namespace == collectives.LIBRARY:
        return collectives.communicate(func, args, kwargs)
    if facts.unsupported:
        raise UnsupportedOpError(
            f"{func} has no functional form and cannot be part of a graph", user_location()
        )
    if is_sparse_product(func, args):
        with taking_sparse():
            return record(func, args, kwargs)
    return record(func, args, kwargs, view=facts.view)


def record(func, args: tuple, kwargs: dict, view: bool = False) -> Any:
    graph = current_graph()
    given = metas(args)
    if graph.assumed:
        given = _with_lengths(given)
    named = {k: metas(v) for k, v in kwargs.items()}
    found, proved, guarded = parts.inferred(func, given, named, graph)
    fails = overflows.is_checked(func) and overflows.check(func, args, kwargs, found)
    node_args = tuple([argument(graph, a) for a in args])
    node_kwargs = {
        k: argument(graph, a)
        for k, a in kwargs.items()
        if k != "pin_memory" and (a is not None or k in asked_for(func))
    }
    flat = found if isinstance(found, list) else [found]
    if any(isinstance(m, list) for m in flat):
        raise UnsupportedOpError(
            f"{func} gives several lists of tensors and cannot be part of a graph; an optimiser takes fused=False",
            user_location(),
        )
    if "dtype" in factory_options(func) and node_kwargs.get("dtype") is None:
        node_kwargs["dtype"] = flat[0].dtype  # the default dtype of now, not that of the run
    types = [tensor_type(m) for m in flat]
    doubt = guarded or fails or (not view and rare(found)) or unsure(func, given, named)
    node = graph.add(ops.overload_name(func), node_args, node_kwargs, types, unsure=doubt)
    node.unsure = guarded or (doubt and torch._C._current_autograd_node() is None)
    if graph.root.torn and not view:
        torn.read(args, graph)
    if not func._schema.returns:
        return None
    if view and isinstance(args[0], torch.Tensor):
        ways.results(node, graph)
        return _wrap_views(func, args, kwargs, found, node, graph, proved, guarded)
    values = ways.results(node, graph)
    outs = [wrap(v, _with_symbols(m, v, graph), graph) for v, m in zip(values, flat)]
    if func in _COPIES and isinstance(args[0], SymTensor):
        _note_copy(func, args[0], outs[0], kwargs)
    if isinstance(found, list):
        return outs if len(func._schema.returns) == 1 else tuple(outs)
    return outs[0] if outs else None


_COPIES = frozenset([torch.ops.aten.clone.default, torch.ops.aten._unsafe_view.default])


def _note_copy(func, x: SymTensor, made: SymTensor, options: dict) -> None:
    """``contiguous()`` and ``reshape()`` copy a tensor that lies in another way; what ``_unsafe_view`` shows lies where it was."""
    if func is not aten.clone.default:
        made.shows_ = weakref.ref(x)
    if func is aten.clone.default and "memory_format" in options:
        x.storage_.reshaped = True
        current_graph().root.laid_out |= current_graph().outer is not None
    made.storage_.reshaped = x.storage_.reshaped and (func is not aten.clone.default or "memory_format" in options)  # fmt: skip


def _with_symbols(meta: Meta, value: Value, graph: FuncGraph) -> Meta:
    """Sizes that are unknown (None) become staged numbers that the value itself tells."""
    if None not in meta.size:
        return meta
    size = [size_of(value, i, graph) if n is None else n for i, n in enumerate(meta.size)]
    return contiguous(meta.dtype, size, meta.device)


def _wrap_views(func, args, kwargs, found, node, graph, proved, guarded) -> Any:
    base = as_symbolic(args[0])
    flat = found if isinstance(found, list) else [found]
    outs = []
    for i, (value, meta) in enumerate(zip(node.outputs, flat)):
        meta = _with_symbols(meta, value, graph)
        unsure = func is aten.view.default and not same_shape(meta, base.meta) and is_open(base.chain, base.meta)  # fmt: skip
        step = View(func, args[1:], kwargs, i if isinstance(found, list) else None, base.meta, False, unsure, proved, guarded)  # fmt: skip
        made = SymTensor(meta, base.storage_, (*base.chain, step), Ref(value, graph))
        if func is aten.view.default and (len(meta.size) == 1 or not same_shape(meta, base.meta)):
            base.storage_.reshaped = True
        elif func is aten.as_strided.default and not base.chain:
            graph.root.laid_out = True
        if func is aten.view.default and base.storage_.strided() and not same_shape(meta, base.meta):  # fmt: skip
            base.storage_.unfollowed(made, "the result of reshape()")
        outs.append(made)
    return outs if isinstance(found, list) else outs[0]


# ---- ops with a meaning of their own


_BELOW_AUTOGRAD = torch._C.DispatchKey.ADInplaceOrView


def _detach(x):
    """torch detaches inside autograd as well, where it means an alias, and not as an op that autograd knows; ``SymTensor.apart`` is the user's.

    Of leaves, and of all real tensors, autograd keeps the tensors themselves: there it is the user's too.
    ``numpy()`` of a real tensor comes here as well, and takes the address of what it is given: there is none.
    """
    real = not isinstance(x, SymTensor)
    # asked first: of a view that was written since, torch would compute the history here, by other ops
    by_op = torch._C._dispatch_tls_local_exclude_set().has(_BELOW_AUTOGRAD)
    if is_packing():
        made = same(as_symbolic(x), SymTensor)
    elif real or by_op or (x.is_leaf and x.requires_grad):
        made = as_symbolic(x).apart()
    else:
        made = same(as_symbolic(x), SymTensor)
    if real:
        torch._C._set_throw_on_mutable_data_ptr(made)
    return made


def _local_scalar(x):
    return scalar_of(x)


def _conj(x):
    """A conjugate is computed: whether it is one is a bit that a symbolic tensor does not have. It is a view: what is written to it goes to ``x``."""
    # Torch's formulas pass a number of the code as a tensor, which comes as the number.
    if isinstance(x, complex):
        return record(aten.scalar_tensor.default, (x.conjugate(),), {"dtype": torch.complex128})
    return record(aten._conj_physical.default, (x,), {}, view=True)


def _zeros(size, **options):
    """``aten._efficientzerotensor``, by which torch's formulas say that a derivative is zero: a tensor without memory, which kernels cannot read.

    That of a Python number stays torch's own: its content is asked for.
    """
    if not len(size) and level_open():
        with _disable_current_modes():
            return aten._efficientzerotensor.default(size, **options)
    made = record(aten.zeros.default, (size,), options)
    made.nothing_ = True
    return made


def _unless_zero(func) -> Callable[..., Any]:
    """A product or quotient: of a derivative that is zero it is zero, whatever the other factor is."""

    def run(x, y):
        if getattr(x, "nothing_", False) or (func is not aten.div.Tensor and getattr(y, "nothing_", False)):  # fmt: skip
            found = infer(func, metas((x, y)), {})
            return _zeros(found.size, dtype=found.dtype, device=found.device)
        return record(func, (x, y), {})

    return run


def _negative(x):
    return record(aten.neg.default, (x,), {}, view=True)


def _in_known_layout(func) -> Callable[..., Any]:
    """A determinant factors a matrix or its transpose, depending on how it lies in memory, and its derivative uses the factors.

    A graph also runs for other layouts than that of the trace, so the matrix is copied to the one that was traced.
    """

    def run(x):
        def turned(a):
            return a if x.is_contiguous() else record(aten.transpose.int, (a, -2, -1), {})

        copy = record(aten.clone.default, (turned(x),), {"memory_format": torch.contiguous_format})
        return record(func, (turned(copy),), {})

    return run


def _nonzero(x):
    """``aten.nonzero`` lays out the indices along one dim after those along the one before, as the graph's types cannot say; so its result is a view here."""
    found = record(aten.nonzero.default, (x,), {})
    if len(x.shape) < 2:
        return found
    rows = record(aten.t.default, (found,), {}, view=True)
    rows = record(aten.clone.default, (rows,), {"memory_format": torch.contiguous_format})
    return record(aten.t.default, (rows,), {}, view=True)


def _size(x, dim=None):
    """torch's code asks for sizes as plain numbers: a staged one must have a hint, and becomes a guard."""
    sizes = [n if type(n) is int else n.node.guard_int("", 0) for n in x.shape]
    return sizes if dim is None else sizes[dim]


def _with_lengths(given: tuple) -> tuple:
    """Metas with the lengths of parts that the graph has checked."""

    def length(n: Any) -> Any:
        found = None if type(n) is int else settled(n.node.ref.value) if n.node.ref else None
        return n if found is None else found

    return tuple(
        m._replace(size=tuple(map(length, m.size))) if isinstance(m, Meta) and not m.static else m
        for m in given
    )


def _untraced(func) -> Callable[..., Any]:
    """An op that runs as it is while tracing, such as a profiler's mark."""

    def run(*args):
        with _disable_current_modes():
            return func(*args)

    return run


def _unscale(grads, found_inf, inv_scale):
    """How ``torch.amp.GradScaler`` multiplies gradients and looks for one that is not finite: an op that writes a list and a tensor."""
    for g in grads:
        zero = record(aten.eq.Scalar, (record(aten.sub.Tensor, (g, g), {}), 0), {})
        bad = record(aten.logical_not.default, (record(aten.all.default, (zero,), {}),), {})
        bad = record(aten._to_copy.default, (bad,), {"dtype": found_inf.dtype})
        dispatch(aten.copy_.default, (found_inf, record(aten.maximum.default, (found_inf, bad), {})), {})  # fmt: skip
        dispatch(aten.mul_.Tensor, (g, inv_scale), {})


aten = torch.ops.aten


def _converted(x: Any, **kwargs: Any) -> Any:
    """``aten._to_copy``; of a number, as ``vmap`` in ``vmap`` calls it."""
    if isinstance(x, torch.Tensor):
        return record(aten._to_copy.default, (x,), kwargs)
    return torch.scalar_tensor(x, dtype=kwargs.get("dtype"), device=kwargs.get("device"))


SPECIAL: dict[Any, Callable[..., Any]] = {
    aten._to_copy.default: _converted,
    aten._has_same_storage_numel.default: may_agree,
    aten.detach.default: _detach,
    aten.detach_.default: lambda x: x,
    aten.lift_fresh.default: lifted,
    aten._local_scalar_dense.default: _local_scalar,
    aten.nonzero.default: _nonzero,
    aten.argwhere.default: _nonzero,
    aten.is_same_size.default: may_agree,
    aten.equal.default: compared.equal(record),
    aten.allclose.default: compared.allclose(record),
    aten._conj.default: _conj,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _unscale,
    aten._neg_view.default: _negative,
    aten._efficientzerotensor.default: _zeros,
    torch.ops.prim.device.default: lambda x: x.device,
    aten.size.default: _size,
    aten.as_strided.default: strided.of_memory(record),
    aten.as_strided_scatter.default: strided.written(record),
    aten.view.default: summed.viewed(record),
}
SPECIAL |= {o: ranges.counted(record, o) for o in (aten.arange.start, aten.arange.start_step)}
for _overload in (aten.mul.Tensor, aten.div.Tensor, aten.dot.default, aten.vdot.default):
    SPECIAL[_overload] = _unless_zero(_overload)
for _overload in (aten._linalg_det.default, aten._linalg_slogdet.default):
    SPECIAL[_overload] = _in_known_layout(_overload)
for _name in ("_record_function_enter_new", "_record_function_enter", "_record_function_exit"):
    _packet = getattr(torch.ops.profiler, _name)
    for _overload in _packet.overloads():
        SPECIAL[getattr(_packet, _overload)] = _untraced(getattr(_packet, _overload))
