"""In-place ops become functional: a new value for the storage, through the chain of views that was written.

``x.add_(y)`` is recorded as ``add``; ``x[1].mul_(2)`` computes the new row and scatters it back into the base value,
view by view, outwards. Other views of the same storage see it because they replay their chain on the new base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import UnsupportedOpError
from ..graph.ir import Node, Value
from ..graph.ops import NONE, REGION_OPS, exists, lookup, overload, overload_name, overload_packet
from ..inference.infer import Facts, facts_of, tensor_type
from ..inference.shapes import RULES, same_shape
from ..symbols import open_layouts, switched
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph, Ref, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor, apply_view, argument, as_symbolic, value_of, wrap
from . import histories, out_arguments, overlap, stale, torn, turned, twins
from .view_writes import scatter, scatter_by_index, steps

aten = torch.ops.aten

# In-place ops whose functional form has another name.
LEAF_WRITTEN = (
    "a leaf Variable that requires grad is being used in an in-place operation."  # torch's words
)

_FUNCTIONAL = {
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.bernoulli_.float": "aten.bernoulli.p",
    "aten.native_batch_norm.default": "aten._native_batch_norm_legit_functional.default",
    "aten._native_batch_norm_legit.default": "aten._native_batch_norm_legit_functional.default",
    "aten._fused_sgd_.default": "aten._fused_sgd.default",
    "aten.rrelu_with_noise.default": "aten.rrelu_with_noise_functional.default",
}


# What computes in the type of the tensor that it writes; the functional form takes another one.
_IN_THEIR_TYPE = frozenset([aten.cumsum_.default, aten.cumprod_.default])


def functional_form(func) -> Any:
    """The overload that computes what ``func`` writes; UnsupportedOpError when there is none."""
    name = overload_name(func)
    if name in _FUNCTIONAL:
        return overload(_FUNCTIONAL[name])
    library, base, variant = name.rsplit(".", 2)
    candidates, base = [], base.removesuffix("_") if not base.endswith("__") else base
    if base.startswith("__i"):
        base = "__" + base[3:]
    if "out" in variant:
        stem = variant.removesuffix("_out").removesuffix("out") or "default"
        candidates += [f"{library}.{base}.{stem}"]
    candidates += [f"{library}.{base}.{variant}"]
    packet = overload_packet(f"{library}.{base}")
    candidates += (
        [f"{library}.{base}.{v}" for v in packet.overloads()] if packet is not None else []
    )
    for candidate in candidates:
        if exists(candidate) and _computes(overload(candidate), func):
            return overload(candidate)
    raise UnsupportedOpError(
        f"{func} writes in place and has no functional form, so it cannot be part of a graph",
        user_location(),
    )


def _computes(form, func) -> bool:
    """Whether ``form`` writes nothing and takes the arguments of ``func`` but for those that only receive results."""
    if any(a.alias_info is not None and a.alias_info.is_write for a in form._schema.arguments):
        return False
    given = [
        a
        for a in func._schema.arguments
        if not (a.is_out or (a.kwarg_only and a.alias_info is not None))
    ]
    needed = [a for a in form._schema.arguments if not out_arguments.told_by_out(a, func)]
    return [str(a.type) for a in needed] == [str(a.type) for a in given]


def write_in_place(
    func, facts: Facts, args: tuple, kwargs: dict, record: Callable[..., Any]
) -> Any:
    """Record an in-place or ``out=`` op and write its results to the tensors it mutates."""
    if facts.unsupported and not _keeps_size(func, args):
        return _reshape(func, args, kwargs, record)
    args = turned.operands(func, args, record)
    form = functional_form(func)
    places, targets = _targets(facts, args, kwargs)
    overlap.check(func, targets, (*args, *kwargs.values()))
    if func is aten.abs_.default and args[0].is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")  # torch's words
    names = {m for m in facts.mutated if isinstance(m, str)}
    out_variant = bool(names) and names.isdisjoint(a.name for a in form._schema.arguments)
    rest = out_arguments.left(form, func, kwargs) if out_variant else _typed(func, args, kwargs)
    nodes = current_graph().graph.nodes
    twins.part(targets, (*args, *kwargs.values()))
    mark = len(nodes)
    # those with another name write what belongs to them, without a word to autograd
    seen = overload_name(func) not in _FUNCTIONAL
    over = stale.replaced(targets) if seen else ()
    results = _recorded(func, form, _with_defaults(func, form, args, rest), rest, record)
    made = _made(nodes[mark:], overload_name(form))
    if func is aten.copy_.default and made is not None and turned.is_turned(*args[:2]):
        made.args = (*made.args[:2], *turned.KEPT)
    if over and made is not None:
        made.over, current_graph().root.wrote = over, True
    flat = list(results) if isinstance(results, (list, tuple)) else [results]
    written = flat[-len(targets) :] if len(flat) > len(targets) and not out_variant else flat
    if out_variant:
        out_arguments.check_dtypes(func, args, kwargs, targets, written)
    for target, result in zip(targets, written, strict=False):
        if target is not None:
            if out_variant:
                out_arguments.fit(target, result, record)
            _give(target, result, seen, (*args, *kwargs.values()), record)
    returns = func._schema.returns
    if out_variant or (len(returns) == len(targets) and all(r.alias_info is not None for r in returns)):  # fmt: skip
        lone = len(targets) == 1 and not isinstance(places[0], (list, tuple))
        return targets[0] if lone else tuple(targets)
    kept = flat[: len(returns)]
    return kept[0] if len(kept) == 1 else tuple(kept) if kept else None


def _typed(func, args: tuple, kwargs: dict) -> dict:
    """What an in-place op is given by name, with the type in which it computes where that is told."""
    own = func in _IN_THEIR_TYPE and kwargs.get("dtype") is None
    return {**kwargs, "dtype": args[0].dtype} if own else kwargs


def _made(nodes: list[Node], op: str) -> Node | None:
    """What an in-place op was recorded as, behind reads and views of its operands: the node of its functional form, or the first of others."""
    others = (n for n in nodes if n.op != "tg.read")
    return next((n for n in nodes if n.op == op), None) or next(others, None)


def _give(target: Any, result: Any, seen: bool, operands: tuple, record: Callable[..., Any]) -> None:  # fmt: skip
    """Write what an op has computed; ``seen``: autograd sees it."""
    write(target, result)
    _write_shown(target, result, record)
    last = current_graph().graph.nodes[-1]
    if seen and last.op == "tg.assign":
        last.over, current_graph().root.wrote = last.args[:1], True
    if seen:
        stale.shown(target, result)
        torn.tear(target, operands)


def _write_shown(x: torch.Tensor, result: torch.Tensor, record: Callable[..., Any]) -> None:
    """``torch.kron(a, b, out=y)`` writes ``y`` by way of ``_unsafe_view``."""
    shown = x.shows_() if isinstance(x, SymTensor) and x.shows_ is not None else None
    if shown is not None:
        write(shown, record(aten.reshape.default, (result, list(shown.shape)), {}))


def _targets(facts: Facts, args: tuple, kwargs: dict) -> tuple[list[Any], list[Any]]:
    """The arguments that an op writes, and the tensors that they are or hold."""
    places = [args[m] if isinstance(m, int) and m < len(args) else kwargs.get(m) for m in facts.mutated]  # fmt: skip
    targets: list[Any] = []
    for place in places:
        targets += list(place) if isinstance(place, (list, tuple)) else [place]
    return places, targets


# In-place ops that make a tensor another view of the same storage.
_VIEWS = {"aten.transpose_.default": "aten.transpose.int", "aten.t_.default": "aten.t.default",
          "aten.squeeze_.default": "aten.squeeze.default", "aten.squeeze_.dim": "aten.squeeze.dim",
          "aten.squeeze_.dims": "aten.squeeze.dims", "aten.unsqueeze_.default": "aten.unsqueeze.default",
          "aten.swapaxes_.default": "aten.transpose.int", "aten.swapdims_.default": "aten.transpose.int",
          "aten.as_strided_.default": "aten.as_strided.default"}  # fmt: skip


def _reshape(func, args: tuple, kwargs: dict, record: Callable[..., Any]) -> Any:
    """An op that changes the shape of a tensor in place, where that is another view of it."""
    view = _VIEWS.get(overload_name(func))
    if view is not None:
        return _become_view(func, overload(view), args, kwargs, record)
    if func is aten.resize_.default and out_arguments.resize(args[0], args[1], record):
        return args[0]
    raise UnsupportedOpError(
        f"{func} changes the shape of a tensor in place, which a graph cannot do: assign a new tensor instead, such as "
        "`y = y.t()` or `y = y.reshape(n)`",
        user_location(),
    )


def _become_view(func, view, args: tuple, kwargs: dict, record: Callable[..., Any]) -> Any:
    """``x.transpose_(0, 1)``: the same object shows its storage in another way from here on."""
    x = args[0]
    whole = not isinstance(x, SymTensor) or (x.storage_.external is not None or x.storage_.argument is not None)  # fmt: skip
    made_here = isinstance(x, SymTensor) and x.ref is not None and x.ref.graph is current_graph()
    if not made_here or (whole and not x.chain):
        raise UnsupportedOpError(
            f"{func} changes the shape of a tensor that was made before the function, branch or loop body that this line is "
            f"in; use {overload_name(view).split('.')[1]}, which returns a new view",
            user_location(),
        )
    out_arguments.become(x, record(view, args, kwargs, view=True))
    return x


def _keeps_size(func, args: tuple) -> bool:
    """Whether a ``resize_``, ``resize_as_`` or ``squeeze_`` leaves the shape as it is."""
    size = tuple(args[0].shape)
    name = func._schema.name.split("::")[-1]
    if name == "resize_":
        return tuple(args[1]) == size
    if name == "resize_as_":
        return tuple(args[1].shape) == size
    if name == "squeeze_" and len(args) > 1:  # others may be known to the run only
        dims = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        size = tuple(size[d] for d in dims if -len(size) <= d < len(size))
    return name == "squeeze_" and 1 not in size


def _with_defaults(func, form, args: tuple, kwargs: dict) -> tuple:
    """The positional arguments with those defaults of the in-place op that its functional form does not have."""
    needed = {a.name for a in form._schema.arguments if not a.has_default_value()}
    out = list(args)
    for a in func._schema.arguments[len(args) :]:
        if a.kwarg_only or a.name in kwargs or a.name not in needed or not a.has_default_value():
            break
        out.append(a.default_value)
    return tuple(out)


def _recorded(func, form, args: tuple, kwargs: dict, record: Callable[..., Any]) -> Any:
    """Record the functional form; a random fill of strided memory draws in the order in which eager fills it."""
    x = args[0] if args and isinstance(args[0], torch.Tensor) else None
    fills = torch.Tag.nondeterministic_seeded in func.tags and facts_of(func).mutated == (0,)
    if not fills or x is None or not as_symbolic(x).meta.static or torch.Tensor.is_contiguous(x):
        return record(form, args, kwargs)
    graph, meta = current_graph(), as_symbolic(x).meta
    place = (list(meta.size), list(meta.stride), meta.dtype, meta.device)
    rest = tuple(argument(graph, a) for a in args[1:])
    options = {k: argument(graph, v) for k, v in kwargs.items() if v is not None}
    made = graph.emit(
        "tg.random_fill", overload_name(func), *place, *rest, type=tensor_type(meta), **options
    )
    return wrap(made, meta._replace(offset=0), graph)


def write(target: torch.Tensor, result: torch.Tensor) -> None:
    """Give ``target`` the content of ``result``, which has its shape or broadcasts to it."""
    graph = current_graph()
    x = as_symbolic(target)
    open_layouts.check(x.chain, "changed in place")
    y = as_symbolic(result)
    value = value_of(y, graph)
    if (
        y.meta.dtype != x.meta.dtype
        or not same_shape(x.meta, y.meta)
        or turned.lies_otherwise(x, y)
    ):
        value = _converted(graph, x, y, value)
    if x.storage_.reshaped:
        graph.root.laid_out = True
    bases = [graph.current(x.storage_)] if x.chain else []
    for view in x.chain[:-1]:
        bases.append(apply_view(graph, view, bases[-1]))
    single = steps(x.chain)
    if single < len(x.chain):
        value = scatter_by_index(graph, x.chain[single:], bases[single], value)
    for view, base in zip(reversed(x.chain[:single]), reversed(bases[:single]), strict=True):
        value = scatter(graph, view, base, value)
    histories.note(x.storage_, target)
    if not _unseen(x):
        x.storage_.refuse_leaf(graph, bool(x.chain))
        REFUSE(target)
        x.storage_.shown = True
    elif _may_have_history(x.storage_, graph) or _has_gradient(value):
        old = graph.current(x.storage_)
        value = graph.emit("tg.written", old, value, type=old.type)
    graph.assign(x.storage_, value)
    if id(x.storage_) in graph.root.assigned and not _unseen(x):
        # a captured one that the function itself writes is asked at each call, see ``autodiff.rewritten``
        asked = graph.outer is not None or x.storage_.argument is not None
        graph.root.assigned[id(x.storage_)] |= asked
    twins.follow(x.storage_, value, graph)
    if x.storage_.derived and not x.chain:
        x.ref, x.version = Ref(value, graph), x.storage_.version  # known without asking which it is


def REFUSE(target: torch.Tensor) -> None:
    """An error of the run where a write that autograd sees is one to a leaf which the code made. Set by ``library``."""


def _unseen(x: SymTensor) -> bool:
    """Whether autograd does not see a write to ``x``, so that the tensors of its storage keep the history that they have."""
    if not x.meta.dtype.is_floating_point and not x.meta.dtype.is_complex:
        return False
    if not torch.is_grad_enabled() or any(v.func is aten.detach.default for v in x.chain):
        return True
    root, external = current_graph().root, x.storage_.external
    whole = external if external is not None else x
    return bool(root.switched) and switched.is_off(whole, root)


def _may_have_history(storage: Storage, graph: FuncGraph) -> bool:
    """Whether the content of a storage may have a gradient, here or in a call whose arguments require one."""
    if storage.external is not None:
        return storage.external.requires_grad or isinstance(storage.external, torch.nn.Parameter)
    if storage.argument is not None or storage.derived or storage.ref is None:
        return True
    made_leaf = storage.owner is not None and storage.owner.requires_grad
    return made_leaf or storage.ref.graph is not graph or _has_gradient(storage.ref.value)


def _has_gradient(value: Value) -> bool:
    """Whether a value may have a gradient in a call whose arguments require one."""
    node = value.node
    if node is None or node.op in REGION_OPS:
        return True
    return (
        node.grad
        and lookup(node.op).gradient != NONE
        and any(map(differentiable, (v.type for v in node.inputs)))
    )


_DETACH = torch.ops.aten.detach.default


def replace_data(x: torch.Tensor, value: torch.Tensor) -> None:
    """``x.data = value``: ``x`` takes the content, where nothing else can show that the two share memory from then on."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    made = as_symbolic(value)
    one, two = as_symbolic(x).meta, made.meta
    storage = made.storage_
    if storage is as_symbolic(x).storage_ and all(v.func is _DETACH for v in (*as_symbolic(x).chain, *made.chain)):  # fmt: skip
        return  # ``x.data -= y``: it has that memory
    if (one.dtype, tuple(one.size), one.device) != (two.dtype, tuple(two.size), two.device):
        _become_other(x, made)
        return
    if as_symbolic(x).chain:
        raise UnsupportedOpError(
            "x.data = y of a view gives it memory of its own, which a graph cannot do: write x.data.copy_(y), or assign a new tensor to the name",
            user_location(),
        )
    if storage.external is not None or storage.argument is not None or storage.derived:
        if storage is not as_symbolic(x).storage_:
            raise UnsupportedOpError(
                "x.data = y makes x share the memory of a tensor from outside, which a graph cannot do: write x.data.copy_(y)",
                user_location(),
            )
    else:
        storage.listed = user_location() or ("", 0)  # a later write to it would be seen in both
    with torch.no_grad():
        x.detach().copy_(value.detach())


def _become_other(x: torch.Tensor, value: SymTensor) -> None:
    """``x.data = value`` of another shape, dtype or device: ``layer.double()``, where the function has made the layer."""
    outer = value.storage_.external is not None or value.storage_.argument is not None
    if not isinstance(x, SymTensor) or not _is_made_here(x) or outer or value.chain:
        raise UnsupportedOpError(
            "x.data = y with another shape, dtype or device is not possible in a graph where x is not made in the same function, branch or loop body, or y is a view "
            "or from outside: make a new tensor or parameter",
            user_location(),
        )
    out_arguments.become(x, value)
    if x.asked_:
        x.begin_leaf()


def _is_made_here(x: SymTensor) -> bool:
    """Whether this body made a tensor, as no view."""
    own = x.storage_.external is None and x.storage_.argument is None and not x.chain
    return own and x.ref is not None and x.ref.graph is current_graph()


# What stands for a ``tg.Variable``: set by ``variables``.
VARIABLE: list[type[SymTensor]] = [SymTensor]


# What torch's C++ code calls them in its errors.
_SCALAR_TYPES = {
    torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float", torch.float64: "Double",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


def _converted(graph: FuncGraph, x: SymTensor, y: SymTensor, value: Value) -> Value:
    if y.meta.dtype != x.meta.dtype and not torch.can_cast(y.meta.dtype, x.meta.dtype):
        names = [_SCALAR_TYPES.get(m.meta.dtype, str(m.meta.dtype)) for m in (y, x)]
        raise RuntimeError(
            f"result type {names[0]} can't be cast to the desired output type {names[1]}"
        )
    RULES["copy"](x.meta, y.meta)  # raises where it does not fit, also where nobody reads it
    kind = tensor_type(x.meta)
    kept = turned.KEPT if turned.lies_otherwise(x, y) else ()
    return graph.emit("aten.copy.default", value_of(x, graph), value, *kept, type=kind)
