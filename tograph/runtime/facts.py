"""What a branch knows: which options of a tagged union are still possible where it is traced.

In the ``then`` of a condition that asks whether a value is None, the value is None, and in the ``orelse`` it is not. A
question about a tag (``is_option``) remembers what its answer means; ``staged_if`` enters the meaning when it
traces the branches. After an ``if`` whose one branch raises, the other answer holds for the rest of the region.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any

from .funcgraph import current_graph
from .ir import Value
from .scalars import new_scalar
from .structure import TaggedUnion


class _State(threading.local):
    def __init__(self) -> None:
        self.meaning: dict[Value, tuple[Value, frozenset[int]]] = {}
        self.known: list[dict[Value, frozenset[int]]] = []


_state = _State()


def _tag_value(x: TaggedUnion) -> Value:
    return x.tag_.node.ref.value


def possible(x: TaggedUnion) -> list[int]:
    """The options that ``x`` may be here, in order."""
    left = set(range(len(x.options_)))
    for known in _state.known:
        left &= known.get(_tag_value(x), left)
    return sorted(left) or [len(x.options_) - 1]


def is_option(x: TaggedUnion, i: int) -> Any:
    """The staged condition that ``x`` is its ``i``-th option."""
    return is_one_of(x, [i])


def is_one_of(x: TaggedUnion, options: list[int]) -> Any:
    """The staged condition that ``x`` is one of the options."""
    test: Any = None
    for i in options:
        one = x.tag_ == i
        test = one if test is None else test | one
    if test is None:
        graph = current_graph()
        test = new_scalar("py.constant", (False,), bool, graph)
    _state.meaning[test.node.ref.value] = (_tag_value(x), frozenset(options))
    return test


def negated(test: Any, result: Any) -> None:
    """``result`` is ``not test``: its meaning follows."""
    node, other = getattr(test, "node", None), getattr(result, "node", None)
    if (
        node is not None
        and node.ref is not None
        and node.ref.value in _state.meaning
        and other is not None
    ):
        tag, options = _state.meaning[node.ref.value]
        _state.meaning[other.ref.value] = (tag, frozenset(range(64)) - options)


def mark() -> int:
    """How much is known now: for ``forget``."""
    return len(_state.known)


def forget(mark: int) -> None:
    """Forget what was learned since."""
    del _state.known[mark:]


@contextmanager
def scope():
    """What is learned inside is forgotten at the end: a region of a graph."""
    before = mark()
    try:
        yield
    finally:
        forget(before)


def learn(test: Any, answer: bool) -> None:
    """From here to the end of the region ``test`` is known to have given ``answer``: the other way raises."""
    node = getattr(test, "node", None)
    meaning = (
        _state.meaning.get(node.ref.value) if node is not None and node.ref is not None else None
    )
    if meaning is not None:
        tag, options = meaning
        _state.known.append({tag: options if answer else frozenset(range(64)) - options})


@contextmanager
def assuming(test: Any, answer: bool):
    """Trace with the knowledge that ``test`` gave ``answer``."""
    with scope():
        learn(test, answer)
        yield
