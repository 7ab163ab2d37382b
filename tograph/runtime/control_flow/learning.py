"""What an ``If`` tells of its condition by what it gives: a bool that is True in one branch only, a value of one kind in each.
A ``Try`` has no condition; such a bool, as a ``break`` in a handler sets one, stands for it.

A later question about the one is then a question about the other (``facts``): after ``if c: a = b = None`` the value ``b`` is
None where ``a`` is, and a call that takes both is traced for two cases, not four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..symbols.scalars import StagedBool, StagedInt
from ..values import facts, joins, pytrees, structure
from ..values.structure import Choice, Spec, Tree
from .regions import Region, replayed


def learn_outcome(
    op: str,
    heads: Sequence[Any],
    x: Any,
    spec: Spec,
    contents: Sequence[Any],
    live: Sequence[Region],
) -> None:
    """``x``, of ``spec``, is what a region op joined of what its regions ``live`` leave."""
    if op == "If" and len(contents) == 2:
        _learn(heads[0], x, spec, contents, live)


def learn_by_flag(
    op: str, joined: Sequence[tuple[Any, Spec, Sequence[Any]]], live: Sequence[Region]
) -> None:
    """A node without a condition, such as a ``Try``: a bool that one of its two regions sets tells of what else they leave.

    ``joined``: (what was joined, its spec, what the regions leave). Where the other region leaves the bool as it was, only the other
    answer tells which region ran.
    """
    if op == "If" or len(live) != 2:
        return
    for flag, _, left in joined:
        plain = [i for i, c in enumerate(left) if type(c) is bool]
        if not isinstance(flag, StagedBool) or not plain or left[0] is left[1]:
            continue
        first = plain[0] if left[plain[0]] else 1 - plain[0]  # the region of True
        either = bool(left[plain[0]]) if len(plain) == 1 else None
        ordered = [live[first], live[1 - first]]
        for x, spec, contents in joined:
            if x is not flag:
                _learn(flag, x, spec, (contents[first], contents[1 - first]), ordered, either)
        return


def _learn(
    test: Any,
    x: Any,
    spec: Spec,
    contents: Sequence[Any],
    live: Sequence[Region],
    either: bool | None = None,
) -> None:
    """``x`` is the first of ``contents`` where ``test`` is true, else the second; one of them where it is ``either``.

    What a container or object holds at the end of a region is seen while that is replayed.
    """
    if any(isinstance(c, structure.Identity) for c in contents):
        return
    if isinstance(spec, Tree) and spec.aux != "staged":
        _parts(test, x, spec, contents, live, either)
    elif structure.is_union(x) and isinstance(spec, Choice):
        if not any(map(structure.is_union, contents)):
            then, orelse = _each(lambda c: joins.option_for(c, spec), contents, live)
            facts.follows(x, test, then, orelse, either)
    elif either is not None:
        return
    elif isinstance(x, StagedBool) and {True, False} == {c for c in contents if type(c) is bool}:
        (facts.same if contents[0] else facts.negated)(test, x)
    elif type(x) is StagedInt and all(type(c) is int for c in contents):
        facts.counted(x, test, contents[0], contents[1])
    elif _is_unsized(x) and all(isinstance(c, torch.Tensor) for c in contents):
        facts.sized(x, test, contents[0].shape, contents[1].shape)


def _each(
    function: Callable[[Any], Any], contents: Sequence[Any], live: Sequence[Region]
) -> list[Any]:
    """``function`` of each content, as its region left it."""
    found = []
    for content, region in zip(contents, live, strict=True):
        with replayed(region):
            found.append(function(content))
    return found


def _parts(
    test: Any,
    x: Any,
    spec: Tree,
    contents: Sequence[Any],
    live: Sequence[Region],
    either: bool | None,
) -> None:
    found = [pytrees.parts_of(x), *_each(pytrees.parts_of, contents, live)]
    rows = [f[1] for f in found if f is not None and len(f[1]) == len(spec.parts)]
    if len(rows) == 3:
        for part, one, then, orelse in zip(spec.parts, *rows):
            _learn(test, one, part, (then, orelse), live, either)


def _is_unsized(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and any(type(n) is not int for n in x.shape)
