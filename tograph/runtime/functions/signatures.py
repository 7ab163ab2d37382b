"""Signatures of Python functions, and what ``input_signature`` says of their arguments."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import SignatureError
from ..values.specs import TensorSpec


def signature_of(f: Any) -> inspect.Signature:
    """The signature of a function, or of what its decorators made of it; one that takes anything for code of C, to which its own defaults may not be
    given by name."""
    if isinstance(
        getattr(type(f), "__call__", None), types.WrapperDescriptorType
    ) and not isinstance(f, _PYTHON):
        return _ANY
    try:
        return inspect.signature(f, follow_wrapped=_passes_on(f))
    except (TypeError, ValueError):
        return _ANY


# Modules whose decorators hand on what they are given: ``torch.no_grad()``, a manager of ``contextlib``, ``tg.do_not_convert``.
_FAITHFUL = ("torch", "contextlib", "tograph")


def _passes_on(f: Any) -> bool:
    """Whether what a decorator made of a function takes the arguments of that: any other one may give some itself, or look at keywords."""
    if not isinstance(f, _PYTHON):
        return True
    made = inspect.unwrap(f, stop=lambda g: not _is_faithful(g))
    return not hasattr(made, "__wrapped__")


def _is_faithful(f: Any) -> bool:
    home = getattr(getattr(f, "__func__", f), "__globals__", {}).get("__name__", "")
    return home.partition(".")[0] in _FAITHFUL


_PYTHON = (types.FunctionType, types.MethodType, functools.partial)
_ANY = inspect.signature(lambda *args, **kwargs: None)


def specified(
    f: Any, signature: inspect.Signature, specs: Sequence[Any]
) -> list[inspect.Parameter]:
    """The parameters that an ``input_signature`` has entries for, in order: all but the object of a method.

    A function in the body of a class is taken for a method by the name of its first parameter, or where all other parameters without
    a default have entries and that one has none; elsewhere by both. What a method that is bound already says of its parameters is
    without the object.
    """
    params = list(signature.parameters.values())
    if not params or not inspect.isfunction(f):
        return params
    around = f.__qualname__.rpartition(".")[0]
    in_class = bool(around) and not around.endswith("<locals>")
    named, fewer = params[0].name in _OBJECTS, len(specs) < len(params)
    is_method = (named or _is_one_short(params, specs)) if in_class else (named and fewer)
    return params[1:] if is_method else params


def _is_one_short(params: Sequence[inspect.Parameter], specs: Sequence[Any]) -> bool:
    """Whether the specs are those of all parameters without a default but one."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(specs) + 1 == sum(p.kind in kinds and p.default is p.empty for p in params)


_OBJECTS = ("self", "cls")


def check_count(params: Sequence[inspect.Parameter], specs: Sequence[Any]) -> None:
    """SignatureError for specs without a parameter, and for a parameter without a default that has no spec."""
    if len(specs) > len(params) and not any(p.kind is p.VAR_POSITIONAL for p in params):
        raise SignatureError(
            f"input_signature has {len(specs)} entries for {len(params)} parameters"
        )
    for p in params[len(specs) :]:
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise SignatureError(
                f"input_signature missing type constraint for parameter {p.name!r}"
            )


def _pairs(specs: Sequence[Any], params: Sequence[inspect.Parameter]) -> Iterator[tuple[str, Any]]:
    """The names of the parameters that ``input_signature`` speaks of, each with what it says."""
    for i, (p, spec) in enumerate(zip(params, specs)):
        if p.kind is p.VAR_POSITIONAL:
            yield p.name, tuple(specs[i:])
            return
        yield p.name, spec


def fit(
    bound: inspect.BoundArguments, specs: Sequence[Any], params: Sequence[inspect.Parameter]
) -> None:
    """Convert the bound arguments to what ``input_signature`` says; SignatureError where one does not fit."""
    for name, spec in _pairs(specs, params):
        bound.arguments[name] = _fit(bound.arguments[name], spec, name)


def told(
    bound: inspect.BoundArguments, specs: Sequence[Any], params: Sequence[inspect.Parameter]
) -> dict[int, TensorSpec]:
    """The spec of each tensor of arguments that fit, by its id; the first one of a tensor that is passed twice."""
    found: dict[int, TensorSpec] = {}
    for name, spec in _pairs(specs, params):
        for tensor, of_it in _leaves(bound.arguments[name], spec):
            found.setdefault(id(tensor), of_it)
    return found


def _leaves(x: Any, spec: Any) -> Iterator[tuple[Any, TensorSpec]]:
    """The tensors of an argument that fits, each with its spec."""
    if isinstance(spec, TensorSpec):
        yield x, spec
        return
    for key in spec if isinstance(spec, dict) else range(len(spec)):
        yield from _leaves(x[key], spec[key])


def _fit(x: Any, spec: Any, name: str) -> Any:
    """An argument as its spec says; a container that holds what fits is itself, so that changes of it are the caller's."""
    if isinstance(spec, (list, tuple)):
        return _fit_items(x, spec, name)
    if isinstance(spec, dict):
        return _fit_values(x, spec, name)
    if isinstance(x, (bool, int, float, complex, list, tuple, np.ndarray, np.generic)):
        x = _as_tensor(x, spec, name)
    if isinstance(x, TensorSpec):
        return x
    if not isinstance(x, torch.Tensor) or not spec.accepts(x):
        found = (
            f"{x.dtype} tensor of shape {tuple(x.shape)}"
            if isinstance(x, torch.Tensor)
            else repr(x)
        )
        raise SignatureError(
            f"argument {name!r}: found {found}, which does not fit {spec} of the input_signature"
        )
    return x


def _fit_items(x: Any, spec: Sequence[Any], name: str) -> Any:
    if not isinstance(x, (list, tuple)) or len(x) != len(spec):
        raise SignatureError(f"argument {name!r}: expected {len(spec)} items, found {x!r}")
    items = [_fit(v, s, f"{name}[{i}]") for i, (v, s) in enumerate(zip(x, spec))]
    if all(map(operator.is_, items, x)):
        return x
    return type(x)._make(items) if hasattr(x, "_make") else type(x)(items)


def _fit_values(x: Any, spec: dict[Any, Any], name: str) -> Any:
    if not isinstance(x, dict) or set(x) != set(spec):
        found = f"the keys {list(x)}" if isinstance(x, dict) else repr(x)
        raise SignatureError(
            f"argument {name!r}: expected a dict with the keys {list(spec)}, found {found}"
        )
    values = {k: _fit(v, spec[k], f"{name}[{k!r}]") for k, v in x.items()}
    return x if all(values[k] is v for k, v in x.items()) else values


def _as_tensor(x: Any, spec: TensorSpec, name: str) -> Any:
    """Python numbers and arrays as a tensor of the dtype of the spec; as they are where that would lose something."""
    try:
        made = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SignatureError(
            f"argument {name!r}: found {x!r}, which is no tensor: {error}"
        ) from None
    if made.numel() and not torch.can_cast(made.dtype, spec.dtype):
        return made
    return torch.as_tensor(x, dtype=spec.dtype)


def check_specs(given: Any) -> tuple[Any, ...] | None:
    """An ``input_signature`` as a tuple, None without one; SignatureError where it is not made of specs."""
    if given is None:
        return None
    if not isinstance(given, (list, tuple)):
        advice = ": write [spec] for one parameter" if isinstance(given, TensorSpec) else ""
        raise SignatureError(
            f"input_signature must be a list or tuple with an entry for each parameter, not {given!r}{advice}"
        )
    for i, spec in enumerate(given):
        _check_spec(spec, f"input_signature[{i}]")
    return tuple(given)


def _check_spec(spec: Any, name: str) -> None:
    if isinstance(spec, TensorSpec):
        return
    if not isinstance(spec, (list, tuple, dict)):
        raise SignatureError(
            f"{name} is {spec!r}: each entry is a tg.TensorSpec, or a list, tuple or dict of these"
        )
    pairs = spec.items() if isinstance(spec, dict) else enumerate(spec)
    for key, part in pairs:
        _check_spec(part, f"{name}[{key!r}]")
