"""What counts as staged: a value that is known only when the graph runs."""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values.staged_tuples import StagedTuple
from ..runtime.values.structure import TaggedUnion

# The classes of values that are Python's own and hold no others: what operators do with these takes no look at what they are.
PLAIN = frozenset([bool, int, float, complex, str, bytes, type(None)])


def is_staged(x: Any) -> bool:
    """Whether a condition has to be decided by the graph. A real tensor counts while tracing: it is captured."""
    if type(x) in PLAIN:
        return False
    if isinstance(x, SYMBOLS):
        return True
    if isinstance(x, torch.Tensor):
        return isinstance(x, SymTensor) or is_tracing()
    return False


def is_symbolic(x: Any) -> bool:
    """Whether ``x`` has no value yet."""
    return isinstance(x, (SymTensor, TaggedUnion, *SYMBOLS))


def is_staged_key(key) -> bool:
    """Whether a key of a dict is known only when the graph runs: a staged number, string or tuple, or a tuple that holds one."""
    if type(key) is tuple:
        return any(type(part) is TaggedUnion or is_staged_key(part) for part in key)
    return isinstance(key, (StagedString, *SYMBOLS)) or type(key) is StagedTuple
