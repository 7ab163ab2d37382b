"""Trying something while tracing in a way that can be undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from ...errors import TographError
from ..graph.ir import Node
from ..graph.ordering import node_effects
from ..graph.rewrite import count_nodes
from ..guarding import reads
from ..symbols import journal
from ..symbols.funcgraph import current_graph
from ..symbols.journal import MISSING
from ..symbols.journal import Location as Place
from ..values import conditional_items, facts
from .regions import is_module_globals, with_ambient


class Attempt:
    """Run something while tracing in a way that can be undone: graph nodes, variables and recorded changes."""

    def __init__(self, places: Sequence[Place]):
        self.graph = current_graph()
        self.before = list(self.graph.graph.nodes)
        self.known = dict(self.graph.known)
        self.created = len(self.graph.root.created)
        self.facts = facts.mark()
        self.marks = [(c, c.mark()) for c in self.graph.root.before_failure]
        self.settled = set(self.graph.root.settled)
        self.assumed = set(self.graph.assumed)
        self.freed = dict(self.graph.root.freed)
        self.freed_by = dict(self.graph.root.freed_by)
        self.unordered = conditional_items.unordered()
        self.guards = journal.guards()
        self.error: BaseException | None = None  # what ended it
        self.log = journal.push(tried=True)
        for place in with_ambient(places):
            journal.record(place)

    @property
    def mark(self) -> int:
        """Where its nodes begin. Those that it has put in front of, or that earlier ones take by now, stand before."""
        nodes = self.graph.graph.nodes
        return next((nodes.index(n) + 1 for n in reversed(self.before) if n in nodes), 0)

    def run(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BaseException:
            self.commit()
            raise

    def size(self) -> int:
        """How many nodes it recorded so far, with those of regions."""
        return sum(map(_size, self.graph.graph.nodes[self.mark :]))

    def may_fail(self) -> bool:
        """Whether something that it recorded may raise when the graph runs."""
        return any(node_effects(n).may_fail for n in self.graph.graph.nodes[self.mark :])

    def makes_state(self) -> bool:
        """Whether it gave an object from outside a key or attribute that was not there: whatever follows finds it."""
        return any(
            p.key[0] in ("key", "attr")
            and (old is None or old is MISSING)
            and not is_module_globals(p)
            and reads.is_outside(p.keep)
            and p.get() is not old
            for p, old in self.log.entries.values()
        )

    def lasts(self) -> bool:
        """Whether it did what cannot be undone: what has come to its end may be kept, as an iteration in front of a staged loop."""
        return self.log.lasting is not None

    def commit(self) -> None:
        """Keep what was done."""
        journal.pop(self.log)
        journal.adopt(self.log)

    def keep_failed(self) -> bool:
        """Keep what was done up to an exception of the program, which ``fail`` raises again: whether it is one.

        What tograph refuses here may be right where nothing has to be undone: that is to be tried again.
        """
        if (
            self.error is None
            or isinstance(self.error, TographError)
            or not journal.is_last(self.log)
        ):
            return False
        self.commit()
        return True

    def fail(self) -> NoReturn:
        """Raise the exception that ended it."""
        assert self.error is not None
        raise self.error

    def undo(self) -> None:
        """Put everything back, and what an exception left open in it. LastingChangeError where that cannot be."""
        journal.unwind(self.log, undone=True)
        self.log.rollback()
        for back in reversed(self.log.backs):
            back()
        nodes, mark = self.graph.graph.nodes, self.mark
        self.graph.undone.update(value for node in nodes[mark:] for value in node.outputs)
        del nodes[mark:]
        self.graph.known = self.known
        self.graph.assumed = self.assumed
        self.graph.root.freed = self.freed
        self.graph.root.freed_by = self.freed_by
        journal.guard_only(self.guards)
        facts.forget(self.facts)
        conditional_items.reorder(self.unordered)
        for callback, mark in self.marks:
            callback.back(mark)
        del self.graph.root.created[self.created :]
        self.graph.root.settled.clear()
        self.graph.root.settled.update(self.settled)
        if self.log.lasting is not None:
            raise self.log.lasting


def _size(node: Node) -> int:
    return 1 + sum(map(count_nodes, node.regions.values()))


class _Alternatives(threading.local):
    count = 0


_alternatives = _Alternatives()


@contextmanager
def alternative() -> Iterator[None]:
    """Inside, what cannot be staged exactly raises StagingError: there is another way, which is then taken."""
    _alternatives.count += 1
    try:
        yield
    finally:
        _alternatives.count -= 1


def has_alternative() -> bool:
    """Whether a StagingError leads to another way of doing it, so that an error when the graph runs is the worse one."""
    return _alternatives.count > 0
