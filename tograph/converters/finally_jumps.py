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

A jump in the ``try`` itself that the one in ``finally`` would replace is a ConversionError.
"""

from __future__ import annotations

from ..transpiler.syntax import gast
from .context import FUNCTIONS, Converter
from .jumps import blocks_of, completes

_LOOPS = (gast.For, gast.While)


class FinallyJumps(Converter):
    def visit_Try(self, node):
        node = self.generic_visit(node)
        if not any(map(jumps, node.finalbody)):
            return node
        if any(map(jumps, [*node.body, *node.orelse, *(s for h in node.handlers for s in h.body)])):
            text = "a `finally` that leaves by return, break or continue, after a `try` that does: which of them counts is not converted; "
            raise self.context.error(node, text + "set a variable in the `try` and jump after it")
        final, node.finalbody = node.finalbody, []
        body = [node] if node.handlers else node.body + node.orelse
        if completes(final):
            return self._reraised(node, body, final)
        made = self.fill("try:\n    body_\nexcept BaseException:\n    pass", node, body_=body)
        return [*made, *final]

    def _reraised(self, node, body, final):
        pending, caught = (self.context.namer.fresh(n) for n in ("pending", "caught"))
        text = "pending_ = None\ntry:\n    body_\nexcept BaseException as caught_:\n    pending_ = caught_"
        made = self.fill(text, node, body_=body, pending_=pending, caught_=caught)
        end = self.fill("if pending_ is not None:\n    raise pending_", node, pending_=pending)
        return [*made, *final, *end]


def jumps(s: gast.stmt, in_loop: bool = False) -> bool:
    """Whether a statement leaves the block that it is in by ``return``, ``break`` or ``continue``."""
    if isinstance(s, gast.Return):
        return True
    if isinstance(s, (gast.Break, gast.Continue)):
        return not in_loop
    if isinstance(s, (*FUNCTIONS, gast.ClassDef)):
        return False
    inside = in_loop or isinstance(s, _LOOPS)
    return any(jumps(inner, inside) for block in blocks_of(s) for inner in block)
