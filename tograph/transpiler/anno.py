"""Facts on syntax nodes: what the analyses know, kept beside the tree and not inside it.

Model: a node carries at most one table of facts, in a private attribute that is in no ``_fields``;
visitors, ``gast.dump`` and ``gast_to_ast`` do not see it. Invariants: a fact's value is immutable
and holds no node, so that a deep copy of a tree copies the tables and shares the values; a fact
describes the tree as it was analysed, and whoever changes the tree analyses it again.
"""

import enum
from typing import Any

from .syntax import gast

__all__ = ["Fact", "copy_facts", "drop_fact", "get_fact", "has_fact", "set_fact"]

_TABLE = "_tograph_facts"
_MISSING = object()


class Fact(enum.Enum):
    """The kinds of facts; the value of a member is its documentation."""

    LIVE_OUT = "Of a statement: the names live after it, by whichever way control leaves it."
    LIVE_IN_HEAD = "Of a While or For: the names live at its test, for a next iteration or after, at its else, and at the body of a While."
    BOUND = "Of a statement: the names it may bind or delete in its own function, nested included."
    MAYBE_UNBOUND = "Of a Name that is read: True if the name may have no value there."
    SCOPE = "Of a function or lambda: its FunctionScope."
    JUMPS = "Of a statement: which of 'break', 'continue' and 'return' may leave it."
    HAS_YIELD = "Of a statement: whether it contains a yield or an await of its own function."


class _Table(dict):
    """The facts of one node; a deep copy shares the (immutable) values."""

    def __deepcopy__(self, memo: dict) -> "_Table":
        return _Table(self)


def set_fact(node: gast.AST, fact: Fact, value: Any) -> None:
    """Record a fact, in place of an earlier one of the same kind."""
    table = node.__dict__.get(_TABLE)
    if table is None:
        table = node.__dict__[_TABLE] = _Table()
    table[fact] = value


def get_fact(node: gast.AST, fact: Fact, default: Any = _MISSING) -> Any:
    """The value of a fact; without a default, a missing fact is a KeyError."""
    value = node.__dict__.get(_TABLE, {}).get(fact, default)
    if value is _MISSING:
        raise KeyError(f"{type(node).__name__} node has no fact {fact.name}: {fact.value}")
    return value


def has_fact(node: gast.AST, fact: Fact) -> bool:
    """Whether the fact is recorded on this node."""
    return fact in node.__dict__.get(_TABLE, ())


def drop_fact(node: gast.AST, fact: Fact) -> None:
    """Forget a fact; nothing happens where it is not recorded."""
    node.__dict__.get(_TABLE, {}).pop(fact, None)


def copy_facts(src: gast.AST, dst: gast.AST) -> None:
    """Give ``dst`` every fact of ``src``; facts that only ``dst`` has stay."""
    for fact, value in src.__dict__.get(_TABLE, {}).items():
        set_fact(dst, fact, value)
