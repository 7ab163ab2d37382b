"""torch's trees (``torch.utils._pytree``) take a list of converted code for the list, tuple or deque that it stands for.

Libraries take arguments apart by them: ``tree_map``, ``vmap``, checkpoints. They look a node's class up by ``type(x)``, which finds no
``StagedList``: the list would count as one leaf. They ask one function for the class of a node, which here knows it.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree

from .growing import StagedList

_of_others = _pytree._get_node_type


def _class_of_node(x: Any) -> Any:
    return x.__class__ if issubclass(type(x), StagedList) else _of_others(x)


_pytree._get_node_type = _class_of_node
