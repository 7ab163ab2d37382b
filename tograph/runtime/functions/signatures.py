"""Signatures of Python functions, and what ``input_signature`` says of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...errors import SignatureError
from ..values.specs import TensorSpec


def signature_of(f: Any) -> inspect.Signature:
    """The signature of a function; of a built-in that does not tell, one that takes anything."""
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return _ANY


_ANY = inspect.signature(lambda *args, **kwargs: None)


def check_count(signature: inspect.Signature, specs: Sequence[Any]) -> None:
    """SignatureError for specs without a parameter, and for a parameter without a default that has no spec."""
    params = list(signature.parameters.values())
    if len(specs) > len(params) and not any(p.kind is p.VAR_POSITIONAL for p in params):
        raise SignatureError(
            f"input_signature has {len(specs)} entries for {len(params)} parameters"
        )
    for p in params[len(specs) :]:
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise SignatureError(
                f"input_signature missing type constraint for parameter {p.name!r}"
            )


def fit(bound: inspect.BoundArguments, specs: Sequence[Any], signature: inspect.Signature) -> None:
    """Convert the bound arguments to what ``input_signature`` says; SignatureError where one does not fit."""
    for i, (name, spec) in enumerate(zip(signature.parameters, specs)):
        rest = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        spec = tuple(specs[i:]) if rest else spec
        bound.arguments[name] = _fit(bound.arguments[name], spec, name)
        if rest:
            break


def _fit(x: Any, spec: Any, name: str) -> Any:
    if isinstance(spec, (list, tuple)):
        if not isinstance(x, (list, tuple)) or len(x) != len(spec):
            raise SignatureError(f"argument {name!r}: expected {len(spec)} items, found {x!r}")
        items = [_fit(v, s, f"{name}[{i}]") for i, (v, s) in enumerate(zip(x, spec))]
        return type(x)._make(items) if hasattr(x, "_make") else type(x)(items)
    if isinstance(spec, dict):
        if not isinstance(x, dict) or set(x) != set(spec):
            found = f"the keys {list(x)}" if isinstance(x, dict) else repr(x)
            raise SignatureError(
                f"argument {name!r}: expected a dict with the keys {list(spec)}, found {found}"
            )
        return {k: _fit(x[k], s, f"{name}[{k!r}]") for k, s in spec.items()}
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


def check_specs(given: Any) -> tuple[Any, ...]:
    """An ``input_signature`` as a tuple; SignatureError where it is not made of specs."""
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
