"""Strings that are one of many known ones, such as a token by its number: no branch for each of them.

What is asked of one alone is answered for each while tracing, so that the answer is one of a table, by the same number; beside other
strings of the run it becomes a string that is made when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..runtime.library.staged_string import METHODS, StagedString
from ..runtime.symbols.funcgraph import current_graph
from ..runtime.symbols.scalars import new_scalar
from ..runtime.values import facts
from ..runtime.values.joins import MANY_TEXTS
from ..runtime.values.structure import TaggedUnion, is_union
from . import union

_KNOWN = (str, int, bool, type(None))


def is_many(x: Any) -> bool:
    """Whether ``x`` is one of many known strings."""
    if not is_union(x) or len(x.options_) <= MANY_TEXTS:
        return False
    left = facts.possible(x)
    return len(left) > MANY_TEXTS and all(type(x.options_[i]) is str for i in left)


def as_text(x: Any) -> Any:
    """``x``, as a string that is made when the graph runs where it is one of many."""
    return union.as_text(x) if is_many(x) else x


def known(x: Any) -> bool:
    """Whether ``x`` is a constant that strings are asked with."""
    if type(x) is slice:
        return known((x.start, x.stop, x.step))
    return all(map(known, x)) if type(x) is tuple else type(x) in _KNOWN


def asked(function: Callable[[str], Any], x: TaggedUnion) -> Any:
    """``function``, which only computes, of the string that ``x`` is; of one that the run makes where it is no number or string for each."""
    answers = _answers(function, x)
    kinds = {type(a) for a in answers.values()}
    if not answers or len(kinds) > 1 or not kinds <= {bool, int, str}:
        return function(union.as_text(x))
    (kind,) = kinds
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    if kind is bool:
        return facts.is_one_of(x, [i for i, yes in answers.items() if yes])
    if kind is str:
        return one_of([answers.get(i, "") for i in range(len(x.options_))], x.tag_)
    return _chosen([answers.get(i, 0) for i in range(len(x.options_))], x.tag_)


def _answers(function: Callable[[str], Any], x: TaggedUnion) -> dict[int, Any]:
    """By option; none where one fails, which is the run's to say."""
    try:
        return {i: function(x.options_[i]) for i in facts.possible(x)}
    except (ValueError, IndexError, TypeError):
        return {}


def method(x: TaggedUnion, name: str) -> Callable[..., Any] | None:
    """The method of ``str`` of one of many strings, of those that strings of the run have, too; else None."""
    if name not in METHODS or not is_many(x):
        return None
    return lambda *args, **named: _called(
        name, x, *args, **named
    )  # partial's arguments would be distributed


def _getattr(self: TaggedUnion, name: str) -> Any:
    return method(self, name) or union.attribute(self, name)


setattr(TaggedUnion, "__getattr__", _getattr)  # noqa: B010  classes are told what they are asked in several modules


def _called(name: str, x: TaggedUnion, *args: Any, **named: Any) -> Any:
    def of(text: Any) -> Any:
        own = getattr(str, name) if type(text) is str else StagedString.method(name)
        return own(text, *map(as_text, args), **named)

    return asked(of, x) if known((*args, *named.values())) else of(union.as_text(x))


def both(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """A comparison, ``a in b`` or another question to two operands one of which is one of many strings; NotImplemented where that is no matter."""
    if is_many(a) and known(b):
        return asked(lambda text: function(text, b), a)
    if is_many(b) and known(a):
        return asked(lambda text: function(a, text), b)
    texts = (str, StagedString)
    if (is_many(a) and (is_many(b) or isinstance(b, texts))) or (
        is_many(b) and isinstance(a, texts)
    ):
        return function(as_text(a), as_text(b))
    return NotImplemented


def item(function: Callable[[Any, Any], Any], x: Any, key: Any) -> Any:
    """``x[key]`` of one of many strings; NotImplemented of anything else."""
    if not is_many(x) or is_union(key):
        return NotImplemented
    return asked(lambda text: function(text, key), x) if known(key) else function(as_text(x), key)


def one_of(texts: list[str], at: Any) -> Any:
    """The string at a valid place, as a union of the different ones: a choice by number, where a tree would be a branch for each."""
    options = list(dict.fromkeys(texts))
    if len(options) == 1:
        return options[0]
    if len(options) < len(texts):
        number = {t: i for i, t in enumerate(options)}
        at = _chosen([number[t] for t in texts], at)
    return TaggedUnion(at, options)


def _chosen(table: list[int], at: Any) -> Any:
    graph = current_graph()
    return new_scalar("tg.choose", (at.node.value(graph), table), int, graph)
