"""Whether a node has the arguments and results that its op takes and gives: asked of text that is read, which people write.

The ops of torch say so by their schemas, those of Python numbers by their kind, and others by the parameters of what runs them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .ops import ARITHMETIC, COMPARISONS, lookup, overload

_OF_TWO = frozenset(f"py.{name}" for name in (*ARITHMETIC, *COMPARISONS, "min", "max"))
_OF_ONE = frozenset(f"py.{name}" for name in ("neg", "pos", "abs", "not", "invert", "int", "float", "bool", "trunc", "ceil", "floor", "str"))  # fmt: skip


def misfit(op: str, args: Sequence[Any], kwargs: Iterable[str], outputs: int) -> str | None:
    """What is wrong with the number of arguments or results, or with a keyword; None where it fits, or nothing is known."""
    if op.startswith(("aten.", "op.")):
        return _misfit_of_torch(op, len(args), set(kwargs), outputs)
    least, most = _parameters(op)
    if len(args) < least or (most is not None and len(args) > most):
        return f"{op} takes {_count(least, most)}, not {len(args)}"
    return None


def _misfit_of_torch(op: str, count: int, kwargs: set[str], outputs: int) -> str | None:
    schema = overload(op)._schema
    named = {a.name for a in schema.arguments}
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if unknown := sorted(kwargs - named):
        return f"{op} has no argument {unknown[0]!r}"
    if count > len(positional):
        return f"{op} takes {_count(0, len(positional))}, not {count}"
    missing = [a.name for i, a in enumerate(schema.arguments) if (a.kwarg_only or i >= count) and not a.has_default_value() and a.name not in kwargs]  # fmt: skip
    if missing:
        return f"{op} needs its argument {missing[0]!r}"
    given = [r.type for r in schema.returns]
    tensors = all(isinstance(t, torch.TensorType) for t in given)
    if tensors and outputs != len(given):
        return f"{op} gives {len(given)} result{'' if len(given) == 1 else 's'}, not {outputs}"
    return None


def _count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} argument{'' if least == 1 else 's'}"
    many = str(most) if least in (0, most) else f"{least} to {most}"
    return f"{'at most ' if not least and most else ''}{many} argument{'' if most == 1 else 's'}"


@functools.cache
def _parameters(op: str) -> tuple[int, int | None]:
    """The least and the most positional arguments of an op of ours; no most where any number will do."""
    if op in _OF_TWO:
        return 2, 2
    if op in _OF_ONE:
        return 1, 1
    try:
        found = inspect.signature(lookup(op).run).parameters.values()
    except (KeyError, TypeError, ValueError):  # an op with regions, or code that does not tell
        return 0, None
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in found):
        return len([p for p in plain if p.default is p.empty]), None
    return len([p for p in plain if p.default is p.empty]), len(plain)
