"""What a branch knows: which options of a tagged union are still possible where it is traced.

In the ``then`` of a condition that asks whether a value is None, the value is None, and in the ``orelse`` it is not. A
question about a tag (``is_option``) remembers what its answer means; ``staged_if`` enters the meaning when it
traces the branches. After an ``if`` whose one branch raises, the other answer holds for the rest of the region.

A staged bool is a tag of its own: 0 or 1. A tag that an ``if`` made of its condition alone (``follows``) tells what the
condition gave, and the other way round, so that two variables which one ``if`` set are None together.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..graph.ir import Value
from ..symbols import number_facts
from ..symbols.funcgraph import current_graph
from ..symbols.scalars import StagedBool, StagedInt, new_scalar
from .structure import TaggedUnion


class _State(threading.local):
    def __init__(self) -> None:
        self.meaning: dict[Value, tuple[Value, frozenset[int]]] = {}
        self.known: list[dict[Value, frozenset[int]]] = []
        # tag -> the tag that it follows from, and its own possible values for each of that one's
        self.source: dict[Value, tuple[Value, Callable[[int], frozenset[int]]]] = {}
        self.sizes: dict[
            Value, tuple[Any, tuple[Any, Any]]
        ] = {}  # (condition, sizes by its answer)
        self.numbers: dict[Value, tuple[Any, tuple[int, int]]] = {}  # the same of numbers
        self.depth = 0
        self.all = frozenset(range(64))  # what a tag may be of which nothing is known


_state = _State()
FEW = 4  # options up to which a test of several is one of each


def _make_room(x: TaggedUnion) -> None:
    """Let the numbers of all options of ``x`` be among those that tags have."""
    if len(x.options_) > len(_state.all):
        _state.all = frozenset(range(2 * len(x.options_)))


def _tag_value(x: TaggedUnion) -> Value:
    return x.tag_.node.ref.value


def possible(x: TaggedUnion) -> list[int]:
    """The options that ``x`` may be here, in order."""
    _make_room(x)
    left = _left(_tag_value(x)) & frozenset(range(len(x.options_)))
    return sorted(left) or [len(x.options_) - 1]


def _left(tag: Value) -> frozenset[int]:
    """What a tag may be here, by what is known of it and of the one that it follows from."""
    left = _state.all
    for known in _state.known:
        left &= known.get(tag, left)
    if tag in _state.source:
        source, of = _state.source[tag]
        left &= frozenset[int]().union(*(of(i) for i in _left(source)))
    return left


def answer(test: Any) -> bool | None:
    """What a staged bool is known to be here."""
    meaning = _meaning(test)
    if meaning is None:
        return None
    tag, options = meaning
    left = _left(tag)
    return None if left & options and left - options else bool(left & options)


def _meaning(test: Any) -> tuple[Value, frozenset[int]] | None:
    """The tag that a staged condition asks about, and for which of its values it is true."""
    if isinstance(test, torch.Tensor):
        value = _value(test)
    else:
        ref = getattr(getattr(test, "node", None), "ref", None)
        value = None if ref is None else ref.value
    return None if value is None else _state.meaning.get(value, (value, frozenset([1])))


def follows(x: TaggedUnion, test: Any, then: int, orelse: int, either: bool | None = None) -> None:
    """``x`` is option ``then`` where ``test`` was true, else ``orelse``; one of the two where it was ``either``."""
    meaning = _meaning(test)
    if meaning is not None and then != orelse:
        tag, options = meaning
        both = frozenset([then, orelse])
        if_true = both if either is True else frozenset([then])
        if_false = both if either is False else frozenset([orelse])
        _state.source[_tag_value(x)] = tag, lambda i: if_true if i in options else if_false


def is_option(x: TaggedUnion, i: int) -> Any:
    """The staged condition that ``x`` is its ``i``-th option."""
    return is_one_of(x, [i])


def is_one_of(x: TaggedUnion, options: list[int]) -> Any:
    """The staged condition that ``x`` is one of the options."""
    _make_room(x)
    test: Any = None
    if len(options) > FEW:
        table = [i in options for i in range(len(x.options_))]
        graph = current_graph()
        test = new_scalar("tg.choose", (x.tag_.node.value(graph), table), bool, graph)
    else:
        for i in options:
            one = x.tag_ == i
            test = one if test is None else test | one
    if test is None:
        graph = current_graph()
        test = new_scalar("py.constant", (False,), bool, graph)
    _state.meaning[test.node.ref.value] = (_tag_value(x), frozenset(options))
    return test


def sized(x: torch.Tensor, test: Any, then: Any, orelse: Any) -> None:
    """A tensor has the sizes ``then`` where ``test`` was true, else ``orelse``."""
    value = _value(x)
    if value is not None and (_meaning(test) is not None):
        _state.sizes[value] = test, (orelse, then)


def counted(x: StagedInt, test: Any, then: int, orelse: int) -> None:
    """A number is ``then`` where ``test`` was true, else ``orelse``."""
    if x.node.ref is not None and _meaning(test) is not None:
        _state.numbers[x.node.ref.value] = test, (orelse, then)


def _numbers(value: Value) -> tuple[Any, tuple[int, int]] | None:
    """What decides on a number, and what it is by the answer: one that an ``if`` chose, or a sum with such a one."""
    node = value.node
    if value in _state.numbers or node is None or node.op not in _SUMS:
        return _state.numbers.get(value)
    parts = [_numbers(a) if isinstance(a, Value) else a for a in node.args]
    tests = [p[0] for p in parts if isinstance(p, tuple)]
    if None in parts or any(t is not tests[0] for t in tests):
        return None
    given = ([p[1][i] if isinstance(p, tuple) else p for p in parts] for i in (0, 1))
    low, high = (_SUMS[node.op](*row) for row in given)
    return tests[0], (low, high)


_SUMS = {"py.add": operator.add, "py.sub": operator.sub, "py.neg": operator.neg}


def _decided(x: Any) -> tuple[Any, tuple[Any, Any]] | None:
    """The condition that decides on a size or a number, and what it is by the answer."""
    if type(x) is StagedInt:
        return _numbers(x.node.ref.value) if _state.numbers and x.node.ref is not None else None
    if not _state.sizes or not isinstance(x, torch.Tensor):
        return None
    return _state.sizes.get(_value(x))


def as_known(x: Any) -> Any:
    """A tensor of unknown size as one of the size that it is known to have here, a number as the one that it is."""
    if not _state.known:
        return x
    test, kinds = _decided(x) or (None, ())
    found = None if test is None else answer(test)
    if found is None:
        return x
    known = kinds[found]
    if isinstance(x, torch.Tensor):
        return x if any(type(n) is not int for n in known) else x.view(known)
    return known


def undecided(x: Any) -> Any:
    """The condition that decides on the size of a tensor, or on a number; None where it is known, or nothing is known of it."""
    test, _ = _decided(x) or (None, ())
    return None if test is None or answer(test) is not None else test


def _value(x: Any) -> Value | None:
    """The value of a symbolic tensor that is no view."""
    storage = getattr(x, "storage_", None)
    return None if storage is None or x.chain or storage.ref is None else storage.ref.value


def negated(test: Any, result: Any) -> None:
    """``result`` is ``not test``: its meaning follows."""
    _mean(test, result, lambda options: _state.all - options)


def same(test: Any, result: Any) -> None:
    """``result`` is true where ``test`` is."""
    _mean(test, result, lambda options: options)


def _mean(test: Any, result: Any, of: Callable[[frozenset[int]], frozenset[int]]) -> None:
    meaning, ref = _meaning(test), getattr(getattr(result, "node", None), "ref", None)
    if meaning is not None and ref is not None:
        _state.meaning[ref.value] = (meaning[0], of(meaning[1]))


def known(x: Any) -> Any:
    """``x``, or the plain bool that it is known to be here."""
    found = answer(x) if isinstance(x, StagedBool) else None
    return x if found is None else found


def conditions() -> Iterator[tuple[Value, bool]]:
    """The conditions whose answer is known here."""
    for tag in dict.fromkeys(tag for known in _state.known for tag in known):
        left = _left(tag) & frozenset([0, 1]) if number_facts.is_truth(tag.type) else ()
        if len(left) == 1:
            yield tag, 1 in left


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
    _state.depth += 1
    try:
        yield
    finally:
        forget(before)
        _state.depth -= 1
        if not _state.depth:  # the trace has ended
            _state.meaning.clear()
            _state.source.clear()
            _state.sizes.clear()
            _state.numbers.clear()


def learn(test: Any, answer: bool) -> None:
    """From here to the end of the region ``test`` is known to have given ``answer``: the other way raises."""
    meaning = _meaning(test)
    if meaning is None:
        return
    tag, options = meaning
    known = {tag: options if answer else _state.all - options}
    while tag in _state.source:
        source, of = _state.source[tag]
        known[source] = frozenset(i for i in _state.all if of(i) & known[tag])
        tag = source
    _state.known.append(known)


@contextmanager
def assuming(test: Any, answer: bool):
    """Trace with the knowledge that ``test`` gave ``answer``."""
    with scope():
        learn(test, answer)
        yield
