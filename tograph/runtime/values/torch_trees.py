"""Trees of libraries take a list of converted code for the list, tuple or deque that it stands for.

Libraries take arguments apart by torch's trees (``torch.utils._pytree``): ``tree_map``, ``vmap``, checkpoints. They look a node's class up
by ``type(x)``, which finds no ``StagedList``: the list would count as one leaf. They ask one function for the class of a node, which here
knows it. The trees of ``optree`` (torch's ``_cxx_pytree``) do so in C: their functions are given the lists themselves (``exact``).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

from torch.utils import _pytree

from .growing import StagedList

_of_others = _pytree._get_node_type


def _class_of_node(x: Any) -> Any:
    return x.__class__ if issubclass(type(x), StagedList) else _of_others(x)


_pytree._get_node_type = _class_of_node


def given(f: Any, args: tuple) -> tuple:
    """The arguments of a function that is not converted, as it takes them: ``exact`` where it is one of optree's in C."""
    ours = str(getattr(f, "__module__", None)).partition(".")[0] == "optree"
    return tuple(map(exact, args)) if ours else args


def exact(x: Any) -> Any:
    """``x`` with plain lists and deques in the place of those of converted code, which is an equal one where it holds such."""
    kind = type(x)
    if issubclass(kind, StagedList):
        if x.handle is not None:
            x.given_to("optree")
        held = [exact(v) for v in x]
        return deque(held, x.maxlen) if x.__class__ is deque else x.__class__(held)
    if kind in (dict, OrderedDict, defaultdict):
        held = {k: exact(v) for k, v in x.items()}
        if all(held[k] is v for k, v in x.items()):
            return x
        made = x.copy()
        made.update(held)
        return made
    if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        held = [exact(v) for v in x]
        if all(a is b for a, b in zip(held, x, strict=True)):
            return x
        return kind(*held) if hasattr(kind, "_fields") else kind(held)
    return x
