"""``break``, ``continue`` and early ``return`` become flags, and code that follows them is guarded.

First, code after an ``if`` whose one branch always leaves is moved into the other branch::

    if c:                     if c:
        continue                  pass
    s += x             ->     else:
                                  s += x

so most jumps stand last and need no flag. Of the rest, ``break`` sets a flag that the loop tests first; ``continue`` and
``return`` set flags under which the statements that follow do not run. A ``return`` that is not last also ends the
loops around it. Loop ``else`` runs when the break flag is not set.

Facts on nodes (``BOUND``, ``LIVE_OUT``, ``LIVE_IN_HEAD``) are those of the original control flow, and are kept up: the new
flags are added to the statements that bind them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..transpiler.anno import Fact, copy_facts, get_fact, set_fact
from ..transpiler.syntax import gast
from ..transpiler.templates import constant, name
from .context import (
    FUNCTIONS,
    LOOPS,
    OPERATORS,
    Context,
    Converter,
    has_yield,
    is_docstring,
    own_statements,
)

_EMPTY: frozenset[str] = frozenset()
_TRIES = (gast.Try, gast.TryStar)


def completes(block: list[gast.stmt]) -> bool:
    """Whether control can reach the end of a block."""
    return all(_completes(s) for s in block)


def _completes(s: gast.stmt) -> bool:
    if isinstance(s, (gast.Return, gast.Raise, gast.Break, gast.Continue)):
        return False
    if isinstance(s, gast.If):
        return completes(s.body) or completes(s.orelse)
    if isinstance(s, LOOPS):
        endless = (
            isinstance(s, gast.While) and isinstance(s.test, gast.Constant) and bool(s.test.value)
        )
        return _breaks(s.body) or (not endless and completes(s.orelse))
    if isinstance(s, _TRIES):
        after = completes(s.body) and completes(s.orelse)
        return completes(s.finalbody) and (after or any(completes(h.body) for h in s.handlers))
    return True


def _breaks(block: list[gast.stmt]) -> bool:
    """Whether a block holds a break of the loop around it."""
    for s in block:
        if isinstance(s, gast.Break):
            return True
        if isinstance(s, (*LOOPS, *FUNCTIONS, gast.ClassDef)):
            if isinstance(s, LOOPS) and _breaks(s.orelse):
                return True
            continue
        if any(_breaks(b) for b in blocks_of(s)):
            return True
    return False


def blocks_of(s: gast.stmt) -> list[list[gast.stmt]]:
    """The statement lists directly in a statement."""
    found = [
        getattr(s, f)
        for f in ("body", "orelse", "finalbody")
        if isinstance(getattr(s, f, None), list)
    ]
    return found + [h.body for h in getattr(s, "handlers", [])]


def tidy(block: list[gast.stmt]) -> list[gast.stmt]:
    """Move what follows a branch that always leaves into the other branch; drop what is never reached."""
    out: list[gast.stmt] = []
    for i, s in enumerate(block):
        way = _leaving(s) if isinstance(s, gast.If) and i + 1 < len(block) else ""
        if way and not _has_yield(rest := block[i + 1 :]):
            if way == "body":
                s.orelse = tidy(s.orelse + rest)
                s.body = tidy(s.body)
            else:
                s.body, s.orelse = tidy(s.body + rest), tidy(s.orelse)
            return [*out, _absorbed(s, rest)]
        if not isinstance(s, (*FUNCTIONS, gast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(s, field, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], gast.stmt):
                    setattr(s, field, tidy(inner))
            for handler in getattr(s, "handlers", []):
                handler.body = tidy(handler.body)
        out.append(s)
        if not _completes(s):
            # A ``yield`` makes the function a generator function wherever it stands.
            return out + [r for r in block[i + 1 :] if _has_yield([r])]
    return out


def _leaving(s: gast.If) -> str:
    """Which branch always leaves, where the other one does not."""
    if _leaves(s.body) and completes(s.orelse):
        return "body"
    return "orelse" if s.orelse and _leaves(s.orelse) and completes(s.body) else ""


def _leaves(block: list[gast.stmt]) -> bool:
    """Whether a block always leaves, and by a jump: an exception ends the graph where it is, and needs no guard."""
    jumps = (gast.Return, gast.Break, gast.Continue)
    return not completes(block) and any(
        isinstance(n, jumps) for s in block for n in [s, *own_statements(s)]
    )


def _has_yield(block: list[gast.stmt]) -> bool:
    return any(get_fact(s, Fact.HAS_YIELD, False) for s in block)


def _absorbed(s: gast.If, rest: list[gast.stmt]) -> gast.If:
    bound = get_fact(s, Fact.BOUND, _EMPTY).union(*(get_fact(r, Fact.BOUND, _EMPTY) for r in rest))
    set_fact(s, Fact.BOUND, frozenset(bound))
    live = get_fact(rest[-1], Fact.LIVE_OUT, _EMPTY)
    jumped = frozenset().union(*(_jump_live(b) for b in (s.body, s.orelse)))
    set_fact(s, Fact.LIVE_OUT, live | jumped)
    if get_fact(s, Fact.HAS_YIELD, None) is None:  # what was absorbed has none
        set_fact(s, Fact.HAS_YIELD, has_yield(s))
    return s


def _jump_live(block: list[gast.stmt]) -> frozenset[str]:
    """What is live where the jumps in a block go."""
    live: set[str] = set()
    for s in block:
        for n in [s, *own_statements(s)]:
            if isinstance(n, (gast.Break, gast.Continue)):
                live |= get_fact(n, Fact.LIVE_OUT, _EMPTY)
    return frozenset(live)


@dataclass
class _Loop:
    node: gast.stmt
    broken: str = ""
    skipped: str = ""


class Jumps(Converter):
    """Lowers the jumps of each function; needs the facts of ``analyze_all``."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.loops: list[_Loop] = []
        self.value = ""
        self.returned = ""

    def visit_FunctionDef(self, node):
        outer = self.loops, self.value, self.returned
        self.loops, self.value, self.returned = [], "", ""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.body = self._function_body(node)
        self.loops, self.value, self.returned = outer
        return node

    def visit_AsyncFunctionDef(self, node):
        """Asynchronous functions run as Python's own."""
        return node

    def _function_body(self, node) -> list[gast.stmt]:
        body = tidy(node.body)
        if all(isinstance(s, gast.Return) or not _holds_return(s) for s in body):
            return self.lower(body, tail=True, last=False)
        if completes(body):
            origin = body[-1]
            end = gast.copy_location(gast.Return(constant(None)), origin)
            gast.copy_location(end.value, origin)
            body = tidy([*body, end])
        self.value = self.context.namer.fresh("return_value")
        unset = self.fill(f"value_ = {OPERATORS}.UNSET", node, value_=self.value)
        for s in unset:
            set_fact(s, Fact.BOUND, frozenset([self.value]))
        lowered = self.lower(body, tail=True, last=False)
        first = [lowered.pop(0)] if is_docstring(lowered[0]) else []
        if self.returned:
            unset += self.fill("returned_ = False", node, returned_=self.returned)
        end = self.fill("return value_", body[-1], value_=self.value)
        return first + unset + lowered + end

    def lower(self, block: list[gast.stmt], tail: bool, last: bool) -> list[gast.stmt]:
        """Lower a block; ``tail`` says that the function ends after it, ``last`` that the iteration does."""
        out: list[gast.stmt] = []
        for i, s in enumerate(block):
            rest = block[i + 1 :]
            new, flags = self._statement(s, tail and not rest, last and not rest)
            out += new
            if flags and rest:
                return out + self._guarded(rest, flags, tail, last, s)
        return out or [gast.Pass()]

    def _guarded(self, rest, flags, tail, last, origin) -> list[gast.stmt]:
        body = self.lower(rest, tail, last)
        test = self._not(flags, origin)
        guard = gast.copy_location(gast.If(test, body, []), rest[0])
        bound = frozenset().union(*(get_fact(s, Fact.BOUND, _EMPTY) for s in body))
        set_fact(guard, Fact.BOUND, bound)
        live = get_fact(rest[-1], Fact.LIVE_OUT, _EMPTY).union(
            *(self._loop_live(loop) for loop in self.loops[-1:])
        )
        set_fact(guard, Fact.LIVE_OUT, live | self._flags() | flags)
        set_fact(guard, Fact.HAS_YIELD, has_yield(guard))
        return [guard]

    def _loop_live(self, loop: _Loop) -> frozenset[str]:
        return get_fact(loop.node, Fact.LIVE_IN_HEAD, _EMPTY) | get_fact(
            loop.node, Fact.LIVE_OUT, _EMPTY
        )

    def _flags(self) -> frozenset[str]:
        names = {self.value, self.returned}
        for loop in self.loops:
            names |= {loop.broken, loop.skipped}
        return frozenset(n for n in names if n)

    def _not(self, flags: frozenset[str], origin) -> gast.expr:
        nodes = [gast.copy_location(name(f), origin) for f in sorted(flags)]
        test = (
            nodes[0]
            if len(nodes) == 1
            else gast.copy_location(gast.BoolOp(gast.Or(), nodes), origin)
        )
        return gast.copy_location(gast.UnaryOp(gast.Not(), test), origin)

    def _statement(
        self, s: gast.stmt, tail: bool, last: bool
    ) -> tuple[list[gast.stmt], frozenset[str]]:
        """The lowered statement and the flags that it may set for what follows."""
        if isinstance(s, gast.Return):
            return self._return(s, tail)
        if isinstance(s, gast.Break):
            loop = self.loops[-1]
            loop.broken = loop.broken or self.context.namer.fresh("broken")
            return self._set(loop.broken, s), frozenset([loop.broken])
        if isinstance(s, gast.Continue):
            if last:
                return [gast.copy_location(gast.Pass(), s)], _EMPTY
            loop = self.loops[-1]
            loop.skipped = loop.skipped or self.context.namer.fresh("skipped")
            return self._set(loop.skipped, s), frozenset([loop.skipped])
        if isinstance(s, LOOPS):
            return self._loop(s, tail, last)
        if isinstance(s, (gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef)):
            return [self.visit(s)], _EMPTY
        return self._compound(s, tail, last)

    def _set(self, flag: str, origin) -> list[gast.stmt]:
        made = self.fill("flag_ = True", origin, flag_=flag)
        copy_facts(origin, made[0])
        set_fact(made[0], Fact.BOUND, frozenset([flag]))
        return made

    def _return(self, s: gast.Return, tail: bool):
        if not self.value:
            return [s], _EMPTY
        value = s.value or gast.copy_location(constant(None), s)
        made = self.fill("value_ = result_", s, value_=self.value, result_=value)
        set_fact(made[0], Fact.BOUND, frozenset([self.value]))
        if tail:
            return made, _EMPTY
        self.returned = self.returned or self.context.namer.fresh("returned")
        return made + self._set(self.returned, s), frozenset([self.returned])

    def _compound(self, s: gast.stmt, tail: bool, last: bool):
        if not blocks_of(s):
            return [self.generic_visit(s)], _EMPTY
        # The end of a try body or of a with body is not the end of the function: other code runs after it.
        tail, last = tail and isinstance(s, gast.If), last and isinstance(s, gast.If)
        flags: set[str] = set()
        bound = set(get_fact(s, Fact.BOUND, _EMPTY))
        taken: set[str] = set()  # jumps of a try body, with which its else does not run
        pending: set[str] = set()
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(s, field, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], gast.stmt):
                if field == "orelse" and taken:
                    lowered = self._guarded(inner, frozenset(taken), tail, last, s)
                else:
                    lowered = self.lower(inner, tail, last)
                if field == "body" and isinstance(s, _TRIES):
                    taken = self._set_flags(lowered)
                    pending = taken if _acts_late(inner) else set()
                setattr(s, field, lowered)
                flags |= self._set_flags(lowered)
                bound |= _bound(lowered)
        for handler in getattr(s, "handlers", []):
            handler.body = self._dropped(pending, handler) + self.lower(handler.body, tail, last)
            flags |= self._set_flags(handler.body)
            bound |= _bound(handler.body)
        set_fact(s, Fact.BOUND, frozenset(bound))
        set_fact(
            s,
            Fact.LIVE_OUT,
            get_fact(s, Fact.LIVE_OUT, _EMPTY) | (frozenset(bound) & self._flags()),
        )
        return [s], frozenset(flags)

    def _dropped(self, flags: set[str], origin) -> list[gast.stmt]:
        """Where a handler begins no jump of the body is on its way: an exception took its place."""
        made = []
        for flag in sorted(flags):
            made += self.fill("flag_ = False", origin, flag_=flag)
            set_fact(made[-1], Fact.BOUND, frozenset([flag]))
        return made

    def _set_flags(self, block: list[gast.stmt]) -> set[str]:
        """The jump flags, of the loop around and of the function, that a lowered block may set."""
        wanted = {self.returned} if self.returned else set()
        if self.loops:
            wanted |= {self.loops[-1].broken, self.loops[-1].skipped}
        return {n for n in _bound(block) & wanted if n}

    def _loop(self, s: gast.stmt, tail: bool, last: bool):
        loop = _Loop(s)
        self.loops.append(loop)
        body = self.lower(tidy(s.body), tail=False, last=True)
        self.loops.pop()
        returned = self.returned if self.returned and self.returned in _bound(body) else ""
        if loop.skipped:
            body = self.fill("flag_ = False", s, flag_=loop.skipped) + body
            set_fact(body[0], Fact.BOUND, frozenset([loop.skipped]))
        s.body = body
        stops = frozenset(n for n in (loop.broken, returned) if n)
        bound = get_fact(s, Fact.BOUND, _EMPTY) | _bound(body)
        set_fact(s, Fact.BOUND, frozenset(bound))
        value = frozenset([self.value]) if self.value in bound and self.value else _EMPTY
        set_fact(s, Fact.LIVE_IN_HEAD, get_fact(s, Fact.LIVE_IN_HEAD, _EMPTY) | stops | value)
        set_fact(s, Fact.LIVE_OUT, get_fact(s, Fact.LIVE_OUT, _EMPTY) | stops | value)
        self._add_stops(s, stops)
        before = self.fill("flag_ = False", s, flag_=loop.broken) if loop.broken else []
        for made in before:
            set_fact(made, Fact.BOUND, frozenset([loop.broken]))
        after = self._loop_else(s, stops, tail, last)
        return before + [s] + after, frozenset([returned] if returned else []) | self._set_flags(
            after
        )

    def _add_stops(self, s, stops: frozenset[str]) -> None:
        if not stops:
            return
        stop = self._not(stops, s)
        if isinstance(s, gast.For):
            s.extra_test = stop
        elif isinstance(s.test, gast.Constant) and s.test.value:
            s.test = stop
        else:
            s.test = gast.copy_location(gast.BoolOp(gast.And(), [stop, s.test]), s)

    def _loop_else(self, s, stops, tail, last) -> list[gast.stmt]:
        if not s.orelse:
            return []
        orelse, s.orelse = s.orelse, []
        if not stops:
            return self.lower(orelse, tail, last)
        return self._guarded(orelse, stops, tail, last, s)


def _acts_late(block: list[gast.stmt]) -> bool:
    """Whether code of a block may run, and fail, after a jump in it: a ``finally``, or the end of a ``with``."""
    inner = [n for s in block for n in [s, *own_statements(s)]]
    return any(isinstance(n, gast.With) or (isinstance(n, _TRIES) and n.finalbody) for n in inner)


def _bound(block: list[gast.stmt]) -> frozenset[str]:
    return frozenset().union(*(get_fact(s, Fact.BOUND, _EMPTY) for s in block))


def _holds_return(s: gast.stmt) -> bool:
    inner = isinstance(s, (*FUNCTIONS, gast.ClassDef))  # their returns are their own
    return not inner and any(isinstance(n, gast.Return) for n in own_statements(s))
