"""A jump in ``finally`` drops the exception that is on its way: ``try`` ... ``finally`` becomes a handler and what follows it.

::

    try:                              pending = None
        a()                           try:
    finally:                              a()
        if c:              ->         except BaseException as caught:
            break                         pending = caught
                                      if c:
                                          break
                                      if pending is not None:
                                          raise pending

A jump in the ``try`` itself is kept for what comes after the ``finally``, which may replace it: the body becomes a function that gives the
way by which it was left, and the value of a ``return``::

    try:                              def body():
        if a: return 1                    if a: return (1, 1)
    finally:                              return (0, None)
        if c:                         way, value = 0, None
            break          ->         try: way, value = body()
                                      except BaseException as caught: pending = caught
                                      ...
                                      if way == 1: return value
"""

from __future__ import annotations

from ..transpiler.scope import names_bound
from ..transpiler.syntax import gast
from .context import FUNCTIONS, LOOPS, Converter, has_yield, own_nodes
from .jumps import blocks_of, completes


class FinallyJumps(Converter):
    def visit_Try(self, node):
        node = self.generic_visit(node)
        if not any(map(jumps, node.finalbody)):
            return node
        final, node.finalbody = node.finalbody, []
        body = [node] if node.handlers else node.body + node.orelse
        before: list[gast.stmt] = []
        after: list[gast.stmt] = []
        if any(map(jumps, body)):
            before, body, after = self._apart(node, body)
        if completes(final):
            return [*before, *self._reraised(node, body, final), *after]
        made = self.fill("try:\n    body_\nexcept BaseException:\n    pass", node, body_=body)
        return [*before, *made, *final]

    visit_TryStar = visit_Try

    def _apart(self, node, body):
        """A body with jumps: what stands before it, a body without them, and the jumps that it wants to make."""
        if any(map(has_yield, body)):
            text = "a `finally` that leaves by return, break or continue, after a `try` with a yield that does: which of them counts is not converted; "
            raise self.context.error(node, text + "set a variable in the `try` and jump after it")
        wanted = [n for n in (1, 2, 3) if n == 1 or _holds(body, _JUMPS[n])]
        names = {f"{n}_": self.context.namer.fresh(n) for n in ("body", "way", "value")}
        made = self.fill("def body_():\n    inner_\n    return 0, None", node, body_=names["body_"], inner_=_Ways(self.context).block(body))  # fmt: skip
        made[0].generated = True
        bound = names_bound(body)
        for kind, declared in ((gast.Global, bound & self.globals), (gast.Nonlocal, bound - self.globals)):  # fmt: skip
            if declared:
                made[0].body.insert(0, gast.copy_location(kind(sorted(declared)), node))
        way = {"way_": names["way_"]}
        value = {"value_": names["value_"]}
        before = [*made, *self.fill("way_ = 0\nvalue_ = None", node, **way, **value)]
        called = self.fill("way_, value_ = body_()", node, **names)
        after = []
        for number, jump in ((1, "return value_"), (2, "break"), (3, "continue")):
            if number in wanted:
                holes = {**way, **(value if number == 1 else {})}
                after += self.fill(f"if way_ == {number}:\n    {jump}", node, **holes)
        return before, called, after

    def visit_FunctionDef(self, node):
        outer = self.globals
        declared = (n for n in own_nodes(node) if isinstance(n, gast.Global))
        self.globals = frozenset(name for n in declared for name in n.names)
        node = self.generic_visit(node)
        self.globals = outer
        return node

    globals: frozenset[str] = frozenset()

    def _reraised(self, node, body, final):
        pending, caught = (self.context.namer.fresh(n) for n in ("pending", "caught"))
        text = "pending_ = None\ntry:\n    body_\nexcept BaseException as caught_:\n    pending_ = caught_"
        made = self.fill(text, node, body_=body, pending_=pending, caught_=caught)
        end = self.fill("if pending_ is not None:\n    raise pending_", node, pending_=pending)
        return [*made, *final, *end]


class _Ways(Converter):
    """The jumps that leave a block as ``return way, value``."""

    depth = 0  # of loops in the block

    def visit_Return(self, node):
        value = node.value or gast.copy_location(gast.Constant(None, None), node)
        return self.fill("return 1, value_", node, value_=value)

    def visit_Break(self, node):
        return node if self.depth else self.fill("return 2, None", node)

    def visit_Continue(self, node):
        return node if self.depth else self.fill("return 3, None", node)

    def visit_For(self, node):
        self.depth += 1
        node.body = self.block(node.body)
        self.depth -= 1
        node.orelse = self.block(node.orelse)
        return node

    visit_While = visit_For

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef


_JUMPS = {2: gast.Break, 3: gast.Continue}


def _holds(block: list[gast.stmt], kind: type) -> bool:
    """Whether a block leaves by a ``break`` or ``continue`` of the loop around it."""
    return any(
        isinstance(s, kind)
        or (
            not isinstance(s, (*FUNCTIONS, gast.ClassDef))
            and any(
                _holds(b, kind) for b in (blocks_of(s) if not isinstance(s, LOOPS) else [s.orelse])
            )
        )
        for s in block
    )


def jumps(s: gast.stmt, in_loop: bool = False) -> bool:
    """Whether a statement leaves the block that it is in by ``return``, ``break`` or ``continue``."""
    if isinstance(s, gast.Return):
        return True
    if isinstance(s, (gast.Break, gast.Continue)):
        return not in_loop
    if isinstance(s, (*FUNCTIONS, gast.ClassDef)):
        return False
    inside = in_loop or isinstance(s, LOOPS)
    return any(jumps(inner, inside) for block in blocks_of(s) for inner in block)
