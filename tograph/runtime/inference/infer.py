"""Memoised shape inference: metas in, metas out. See ``shapes`` for the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import GraphBoolError, TographError, UnknownSizeError, UnsupportedOpError
from ..graph.types import TensorType
from . import (
    data_shapes,
    index_shapes,
    layouts,
    library_shapes,
    linalg_shapes,
    maker_shapes,
    nn_shapes,
    part_shapes,
    refusals,
    shapes,
    special_shapes,
    stand_in,
)
from .meta_kernel import on_meta
from .shapes import Meta

_FILLED_BY = (
    data_shapes,
    index_shapes,
    linalg_shapes,
    maker_shapes,
    nn_shapes,
    part_shapes,
    special_shapes,
)  # rules of ``shapes.RULES``


def tensor_type(meta: Meta) -> TensorType:
    dims = tuple(n if type(n) is int else None for n in meta.size)
    return TensorType(meta.dtype, dims, str(meta.device))


def meta_of(x: torch.Tensor) -> Meta:
    layouts.check(x)
    return Meta(x.dtype, tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.device)


@dataclass(frozen=True)
class Facts:
    """``mutated``: positions or names of arguments written in place; ``view``: outputs alias the first argument."""

    mutated: tuple[Any, ...]
    view: bool
    unsupported: bool


_FACTS: dict[Any, Facts] = {}
_RESIZING = ("set_", "resize_", "resize_as_", "resize", "as_strided_", "t_", "transpose_", "squeeze_", "unsqueeze_",
             "swapaxes_", "swapdims_")  # fmt: skip


def facts_of(func) -> Facts:
    found = _FACTS.get(func)
    if found is None:
        schema = func._schema
        mutated = tuple(
            a.name if a.kwarg_only else i
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        )
        view = not mutated and any(r.alias_info is not None for r in schema.returns)
        name = schema.name.split("::")[-1]
        # Objects of C++ (the weights of quantized layers) are no values of a graph.
        of_objects = any("__torch__" in str(a.type) for a in schema.arguments)
        found = _FACTS[func] = Facts(mutated, view, name in _RESIZING or of_objects)
    return found


_MEMO: dict[Any, Any] = {}
_MOST = 1 << 16  # of them: a program may trace new constants for as long as it runs


def infer(func, args: tuple, kwargs: dict) -> Any:
    """The meta, or list of metas, of the outputs of an op whose tensor arguments are metas."""
    key = _key((args, kwargs))
    if key is not None:
        key = (func, key, torch.get_default_dtype())
        if key in _MEMO:
            return _MEMO[key]
    try:
        dtypes = refusals.dtypes(func, args, kwargs)
        out = _infer_fresh(func, args, kwargs)
        if _negative(out):
            raise RuntimeError("a size is negative")
    except (*_REFUSALS, AssertionError) as error:
        if not isinstance(error, TographError):
            _refused(func, args, kwargs)
        raise
    if dtypes is not None:
        out = _with_dtypes(out, dtypes)
    if key is not None:
        if len(_MEMO) >= _MOST:
            _MEMO.clear()
        _MEMO[key] = out
    return out


def _with_dtypes(out: Any, dtypes: tuple[torch.dtype, ...]) -> Any:
    """Metas with these dtypes: rules do not know all of torch's mixtures."""
    if isinstance(out, list):
        return [m if m.dtype is d else m._replace(dtype=d) for m, d in zip(out, dtypes)]
    return out if out.dtype is dtypes[0] else out._replace(dtype=dtypes[0])


_REFUSALS = (
    RuntimeError,
    LookupError,
    TypeError,
    ValueError,
)  # a meta kernel may look a dtype up that is not there


def _refused(func: Any, args: tuple, kwargs: dict) -> None:
    """Raise torch's own error for arguments that an op does not take: rules and meta kernels give up in other words and by other classes."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        stand_in.run_on_ones(func, args, kwargs)


def _negative(out: Any) -> bool:
    """Whether a rule took a negative size for one: torch has the words."""
    return any(
        type(n) is int and n < 0 for m in (out if isinstance(out, list) else [out]) for n in m.size
    )


_ATOMS = frozenset([int, float, bool, str, torch.dtype, torch.device])


def _key(x: Any) -> Any:
    """A hashable form that tells 1, True and 1.0 apart, or None when something is symbolic."""
    kind = type(x)
    if kind is Meta:
        return x if x.placed else None
    if kind in _ATOMS:  # most arguments: the rest of the tests is slow
        return (kind, x)
    if isinstance(x, (list, tuple)):
        parts = []
        for a in x:
            part = _key(a)
            if part is None:
                return None
            parts.append(part)
        return (kind is tuple, *parts)
    if isinstance(x, dict):
        return _key(tuple(x.items()))
    if isinstance(x, (*shapes.SYMBOLS, torch.Generator)):
        return None
    if x is None:
        return "None"
    return (type(x), x)


def _infer_fresh(func, args: tuple, kwargs: dict) -> Any:
    if not stand_in.is_symbolic((args, kwargs)):
        return _infer_static(func, args, kwargs)
    if not facts_of(func).view or _symbolic_view(func, args):
        try:
            out = _by_rule(func, args, kwargs)
        except UnknownSizeError:
            raise
        except GraphBoolError:
            out = None  # a rule that compares sizes
        if out is not None:
            return out
    out = stand_in.on_numbers(infer, func, args, kwargs)
    return _on_symbols(func, args, kwargs) if out is None else out


def _on_symbols(func, args: tuple, kwargs: dict) -> Any:
    """What torch's kernel makes of the symbols themselves; UnknownSizeError for one that knows of numbers only."""
    try:
        return _meta_kernel(func, args, kwargs)
    except RuntimeError as error:
        if isinstance(error, TographError) or not any(text in str(error) for text in _OF_NUMBERS):
            raise
        name = func._schema.name.split("::")[-1]
        raise UnknownSizeError(
            f"{name}() of a tensor whose size is known only when the graph runs is not supported: torch has no rule for the size of its result. Write "
            "it with other operations, pad to a known size, or call it in tg.py_function."
        ) from None


# What torch says where its code takes a size that is no number yet.
_OF_NUMBERS = (
    "concrete integers",
    "symbolic sizes/strides",
    "INTERNAL ASSERT",
    "with Meta tensors",
)


def _infer_static(func, args: tuple, kwargs: dict) -> Any:
    if not facts_of(func).view:
        out = _by_rule(func, args, kwargs)
        if out is not None:
            return out
    try:
        return _meta_kernel(func, args, kwargs)
    except UnsupportedOpError:
        raise
    except NotImplementedError:
        found = stand_in.on_ones(func, args, kwargs)
        if found is None:
            raise UnsupportedOpError(
                f"{func} is not supported for these arguments: torch has no rule for the sizes of its results. Write it with other operations, or call it in tg.py_function."
            ) from None
        return _described(found[0], found[1], func)


def _by_rule(func, args: tuple, kwargs: dict) -> Any:
    found = shapes.RULES.get(func._schema.name.split("::")[-1])
    return found(*args, **kwargs) if found is not None and func.namespace == "aten" else None


def _symbolic_view(func, args: tuple) -> bool:
    """A selection by a staged number: its result does not depend on the number's value."""
    base = func._schema.name.split("::")[-1]
    given = [v for a in args[1:] for v in (a if isinstance(a, (list, tuple)) else (a,))]
    if base in ("select", "slice") and any(isinstance(v, shapes.SYMBOLS) for v in given):
        return True
    symbolic = not args[0].static or any(isinstance(v, shapes.SYMBOLS) for v in given)
    return base in _SYMBOLIC_VIEWS and symbolic


_SYMBOLIC_VIEWS = frozenset(
    ["slice", "view", "_unsafe_view", "expand", "squeeze", "unbind", "split", "split_with_sizes"]
)


def _meta_kernel(func, args: tuple, kwargs: dict) -> Any:
    def described(rule: Callable[..., Any] | None = None) -> Any:
        out, device = on_meta(func, args, kwargs, rule)
        return _described(out, device, func)

    rule = library_shapes.rule_of(func)
    return described() if rule is None else library_shapes.described(described, rule)


def answer(func, args: tuple, kwargs: dict) -> Any:
    """What an op says that gives no tensor, such as ``torch.promote_types``; its tensor arguments are metas."""
    return on_meta(func, args, kwargs)[0]


def _described(out: Any, where: torch.device, func: Any = None) -> Any:
    """The meta or metas of what an op returned."""
    if isinstance(out, torch.Tensor):
        return meta_of(out)._replace(device=where)
    if out is None:
        return []
    if not isinstance(out, (list, tuple)):
        raise UnsupportedOpError(
            f"{func} tells of a tensor in memory, and gives a {type(out).__name__}, which a graph cannot hold: ask outside of the "
            "function"
        )
    if beside := [type(o).__name__ for o in out if not isinstance(o, (torch.Tensor, list, tuple, type(None)))]:  # fmt: skip
        raise UnsupportedOpError(
            f"{func} gives a {beside[0]} beside tensors, which a graph cannot hold"
        )
    # An output that an output_mask switches off is None: nobody reads it.
    none = shapes.contiguous(torch.get_default_dtype(), (0,), where)
    return [
        none if o is None
        else _described(o, where) if isinstance(o, (list, tuple))
        else meta_of(o)._replace(device=where)
        for o in out
    ]  # fmt: skip
