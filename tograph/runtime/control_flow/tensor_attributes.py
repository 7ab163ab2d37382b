"""Attributes that code gives to tensors (``y.name = "y"``), behind a staged construct that makes the tensors anew.

Where all that a tensor may be have the same one, it has it too; of others, which one it is is not known while tracing: an error where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..symbols.descriptions import given_attributes
from ..symbols.funcgraph import current_graph
from ..symbols.journal import MISSING
from ..symbols.symbolic import SymTensor
from ..values.structure import Spec
from .leaves import Among, leaf_objects


def carry(made: Sequence[Any], outcomes: Sequence[Any], spec: Spec) -> None:
    """Give the objects that were ``made`` of a spec, in order, the attributes of what they are in each of the ``outcomes``."""
    if not current_graph().root.tagged:
        return
    rows = [leaf_objects(x, spec) for x in outcomes]
    for x, column in zip(made, zip(*rows, strict=True), strict=True):
        if isinstance(x, SymTensor):
            _join(x, [o for entry in column if entry is not None for o in _options(entry)])


def forget(made: Sequence[Any], outcome: Any, spec: Spec) -> None:
    """At the beginning of an iteration: what a tensor of the state had before the loop is not known of it."""
    if not current_graph().root.tagged:
        return
    for x, found in zip(made, leaf_objects(outcome, spec), strict=True):
        if isinstance(x, SymTensor) and found is not None:
            names = {n for o in _options(found) for n in _attributes(o)}
            x.unknown_ = frozenset(names) - frozenset(given_attributes(x))


def _join(x: SymTensor, objects: Sequence[Any]) -> None:
    unknown = set()
    for name in dict.fromkeys(n for o in objects for n in _attributes(o)):
        first, *others = [_attributes(o).get(name, MISSING) for o in objects]
        if all(_same(first, v) for v in others):
            x.__dict__[name] = first
        else:
            unknown.add(name)
    for o in objects:
        unknown |= getattr(o, "unknown_", frozenset())
    x.unknown_ = frozenset(unknown)


def _options(x: Any) -> Sequence[Any]:
    return [o for option in x.options for o in _options(option)] if isinstance(x, Among) else [x]


def _attributes(x: Any) -> dict[str, Any]:
    return given_attributes(x) if isinstance(x, torch.Tensor) else {}


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    # ``repr`` tells 0.0 from -0.0
    return type(a) is type(b) and isinstance(a, (str, int, float)) and a == b and repr(a) == repr(b)
