"""The control flow graph of one function: the ways through it, one node per evaluated piece.

Model: a node is a test, an iterable, a loop target, a with item, a handler entry, a pattern or a
simple statement. ``succ`` are the nodes that may run next; ``exc`` those that run if this node is
cut short, so along such an edge the node's writes may or may not have happened. The graph is built
backward: each construct is given the node that follows it and the nodes its jumps lead to.

Invariants: a ``finally`` body is built once for each way of entering it (its end, an exception,
and each kind of jump through it), so one statement may own several nodes; facts on it are the
union. A handler's ``as`` name is unbound the same way. A loop that tests a true constant is not
left by its test. A with block may swallow any exception, so what follows the block may run after
any part of it. Only nodes inside try or with have ``exc`` edges; elsewhere an exception leaves the
function. Code that no path reaches has nodes, and no predecessors outside itself.

Nested functions are one node, which reads their free variables (``reads``) and keeps the captured
ones alive from then on (``late``): when they run is not tracked, nor are writes through nonlocal.
"""

from collections.abc import Iterable, Iterator

from .anno import Fact, get_fact, has_fact
from .scope import FunctionScope, Walker, analyze
from .syntax import gast

__all__ = ["Graph", "Node", "build", "build_all"]

_CANNOT_FAIL = (gast.Pass, gast.Break, gast.Continue, gast.Global, gast.Nonlocal)
_NO_NAMES = Walker(lambda fn: get_fact(fn, Fact.SCOPE))


class Node:
    """One piece of a function, and what it does with names (see Walker)."""

    def __init__(self, kind: str, tree: gast.AST, uses: Walker = _NO_NAMES):
        self.index = -1
        self.kind, self.ast = kind, tree
        self.reads, self.writes = uses.exposed, uses.bound - uses.unbound
        self.deletes, self.kills, self.late = uses.unbound, uses.kills, uses.late
        self.inner = uses.inner
        self.loads, self.settled = uses.loads, uses.settled
        self.succ: list[Node] = []
        self.exc: list[Node] = []
        self.pred: list[Node] = []

    def __str__(self) -> str:
        line = getattr(self.ast, "lineno", None)
        text = f"{self.index} {self.kind}" + (f" L{line}" if line and self.kind != "entry" else "")
        sets = {"reads": self.reads, "writes": self.writes, "deletes": self.deletes}
        sets |= {"maybe": (self.writes | self.deletes) - self.kills, "late": self.late}
        text += "".join(f" {name}({' '.join(sorted(s))})" for name, s in sets.items() if s)
        text += " ->" + "".join(f" {node.index}" for node in self.succ) if self.succ else ""
        return text + "".join(f" !{node.index}" for node in self.exc)


class Graph:
    """The nodes of one function; numbered along the flow, unreachable ones last."""

    def __init__(self, fn: gast.AST, scope: FunctionScope):
        self.fn, self.scope = fn, scope
        self.nodes: list[Node] = []
        self.entry, self.exit = Node("entry", fn), Node("exit", fn)
        self.entry.writes = self.entry.kills = set(scope.params)
        self.leaving: list[tuple[gast.stmt, list[Node]]] = []  # where control may go after each
        self.heads: list[
            tuple[gast.stmt, Node]
        ] = []  # the tests of the loops, the bodies of ``while``, and their else
        self.functions: list[gast.AST] = []  # nested functions, not those inside them

    def text(self) -> str:
        """One node a line: reads, writes, deletes, successors, ``!`` where an exception goes."""
        return "\n".join(map(str, self.nodes))

    def finish(self, made: list[Node]) -> None:
        """Number the nodes in reverse postorder from the entry, and fill in predecessors."""
        order: list[Node] = []
        seen: set[Node] = set()
        for root in [self.entry, *reversed(made)]:
            if root not in seen:
                order += reversed(_postorder(root, seen))
        if self.exit not in seen:
            order.append(self.exit)
        for index, node in enumerate(order):
            node.index = index
            for after in dict.fromkeys(node.succ + node.exc):
                after.pred.append(node)
        self.nodes = order
        self.functions = list(dict.fromkeys(self.functions))  # a finally body is built repeatedly

    def release(self) -> None:
        """Nobody asks for the ways through the function any more: nodes that name each other would keep its tree until the next collection."""
        for node in self.nodes:
            node.succ = node.exc = node.pred = []


def _postorder(root: Node, seen: set[Node]) -> list[Node]:
    """The nodes reached from ``root`` and not seen yet; the first successor is finished last."""
    seen.add(root)
    order: list[Node] = []
    stack: list[tuple[Node, Iterator[Node]]] = [(root, iter(root.exc + root.succ[::-1]))]
    while stack:
        node, rest = stack[-1]
        for after in rest:
            if after not in seen:
                seen.add(after)
                stack.append((after, iter(after.exc + after.succ[::-1])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


Exits = dict[str, Node]  # 'break', 'continue', 'return' and 'raise' to where they lead


class _Builder:
    """Builds backward: a method takes the following node and returns the node to enter by."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.made: list[Node] = []

    def node(self, kind: str, tree: gast.AST, exits: Exits, pieces: Iterable = ()) -> Node:
        """A node that evaluates ``pieces`` in order."""
        uses = Walker(_known_scope)
        uses.visit_all(pieces)
        node = Node(kind, tree, uses)
        self.graph.functions += uses.functions
        if exits["raise"] is not self.graph.exit:
            node.exc.append(exits["raise"])
        self.made.append(node)
        return node

    def join(self, kind: str, tree: gast.AST, *succ: Node) -> Node:
        """A node that evaluates nothing."""
        node = Node(kind, tree)
        node.succ += succ
        self.made.append(node)
        return node

    def block(self, stmts: list[gast.stmt], follow: Node, exits: Exits) -> Node:
        """Statements in a row."""
        for stmt in reversed(stmts):
            follow = self.statement(stmt, follow, exits)
        return follow

    def statement(self, stmt: gast.stmt, follow: Node, exits: Exits) -> Node:
        """One statement; also notes where control may be after it."""
        jump = isinstance(stmt, gast.Break | gast.Continue | gast.Return | gast.Raise)
        ways = [] if jump else [follow]
        ways += [exits[kind] for kind in get_fact(stmt, Fact.JUMPS)]
        if isinstance(stmt, gast.Raise) or not (jump or exits["raise"] is self.graph.exit):
            ways.append(exits["raise"])
        self.graph.leaving.append((stmt, ways))
        return _BUILD.get(stmt.__class__, _Builder.simple)(self, stmt, follow, exits)

    def simple(self, stmt: gast.stmt, follow: Node, exits: Exits) -> Node:
        """A statement without blocks: to what follows, or to where the jump leads."""
        kind = stmt.__class__.__name__.lower()
        node = self.node(kind, stmt, exits, [stmt])
        if isinstance(stmt, _CANNOT_FAIL):
            node.exc.clear()
        node.succ.append(exits.get(kind, follow))
        return node

    def delete(self, stmt: gast.Delete, follow: Node, exits: Exits) -> Node:
        """One node for each target, as deleting may stop at any of them."""
        for target in reversed(stmt.targets):
            node = self.node("delete", stmt, exits, [target])
            node.succ.append(follow)
            follow = node
        return follow

    def if_(self, stmt: gast.If, follow: Node, exits: Exits) -> Node:
        """The test leads to either branch."""
        test = self.node("if", stmt, exits, [stmt.test])
        test.succ.append(self.block(stmt.body, follow, exits))
        test.succ.append(self.block(stmt.orelse, follow, exits))
        return test

    def while_(self, stmt: gast.While, follow: Node, exits: Exits) -> Node:
        """The test leads to the body, which leads back, or through the else."""
        test = self.node("while", stmt, exits, [stmt.test])
        self.graph.heads.append((stmt, test))
        orelse = self.block(stmt.orelse, follow, exits)
        if stmt.orelse:  # it may read what the test alone binds (``:=``)
            self.graph.heads.append((stmt, orelse))
        inside = {**exits, "break": follow, "continue": test}
        body = self.block(stmt.body, test, inside)
        self.graph.heads.append((stmt, body))  # so may the body
        test.succ.append(body)
        if not (isinstance(stmt.test, gast.Constant) and stmt.test.value):
            test.succ.append(orelse)
        return test

    def for_(self, stmt: gast.For | gast.AsyncFor, follow: Node, exits: Exits) -> Node:
        """The iterable once; then the head either ends or gives the target its next value."""
        head = self.node("for", stmt, exits)
        self.graph.heads.append((stmt, head))
        target = self.node("target", stmt, exits, [stmt.target])
        orelse = self.block(stmt.orelse, follow, exits)
        inside = {**exits, "break": follow, "continue": head}
        target.succ.append(self.block(stmt.body, head, inside))
        head.succ += [target, orelse]
        first = self.node("iter", stmt, exits, [stmt.iter])
        first.succ.append(head)
        return first

    def with_(self, stmt: gast.With | gast.AsyncWith, follow: Node, exits: Exits) -> Node:
        """Items in order; an exception in the block is swallowed or goes on."""
        swallow = self.join("swallow", stmt, follow, exits["raise"])
        inside = {**exits, "raise": swallow}
        entry = self.block(stmt.body, follow, inside)
        for index, item in reversed(list(enumerate(stmt.items))):
            node = self.node("with", item.context_expr, inside if index else exits, [item])
            node.succ.append(entry)
            if not index and not isinstance(item.optional_vars, gast.Name | type(None)):
                node.exc.append(swallow)  # only unpacking can fail once the block is entered
            entry = node
        return entry

    def try_(self, stmt: gast.Try, follow: Node, exits: Exits) -> Node:
        """The body may stop anywhere for the handlers; whatever leaves passes the finally."""
        parts = [stmt.body, stmt.orelse, *(handler.body for handler in stmt.handlers)]
        outer = exits
        if stmt.finalbody:
            exits = self.through(
                exits, _jumps(parts), lambda after: self.block(stmt.finalbody, after, outer)
            )
            follow = self.block(stmt.finalbody, follow, outer)
        caught = exits["raise"]
        for handler in reversed(stmt.handlers):
            caught = self.handler(stmt, handler, caught, follow, exits)
        orelse = self.block(stmt.orelse, follow, exits)
        return self.block(stmt.body, orelse, {**exits, "raise": caught})

    def handler(
        self, stmt: gast.Try, handler: gast.ExceptHandler, other: Node, follow: Node, exits: Exits
    ) -> Node:
        """One except clause; ``other`` is entered if it does not match. Its name goes last."""
        node = self.node("except", handler, exits, [handler.type])
        if isinstance(stmt, gast.TryStar):  # the next clause may catch the rest of the group
            follow = self.join("rest", handler, other, follow)
            exits = {**exits, "raise": self.join("rest", handler, other, exits["raise"])}
        if handler.name is None:
            entry = self.block(handler.body, follow, exits)
        else:
            inside = self.through(
                exits, _jumps([handler.body]), lambda at: self.unbind(handler, at)
            )
            body = self.block(handler.body, self.unbind(handler, follow), inside)
            entry = self.node("as", handler, exits, [handler.name])
            entry.succ.append(body)
        node.succ.append(entry)
        if handler.type is not None:
            node.succ.append(other)
        return node

    def through(self, exits: Exits, jumps: Iterable[str], cleanup) -> Exits:
        """Exits that pass a copy of some cleanup first, one for each jump that is made."""
        return {**exits, **{kind: cleanup(exits[kind]) for kind in sorted({"raise", *jumps})}}

    def unbind(self, handler: gast.ExceptHandler, follow: Node) -> Node:
        """The end of ``except ... as name``, which unbinds the name whether bound or not."""
        node = self.join("unbind", handler, follow)
        node.deletes = node.kills = {handler.name.id}
        return node

    def match(self, stmt: gast.Match, follow: Node, exits: Exits) -> Node:
        """Cases in order; names are captured once the whole pattern fits, before the guard."""
        entry = follow
        for case in reversed(stmt.cases):
            other, entry = entry, self.block(case.body, follow, exits)
            if case.guard is not None:
                guard = self.node("guard", case.guard, exits, [case.guard])
                guard.succ += [entry, other]
                entry = guard
            tree = case.pattern
            pattern = self.node("case", tree, exits, [tree])
            captured, pattern.writes, pattern.kills = pattern.writes, set(), set()
            if captured:
                capture = self.join("capture", tree, entry)
                capture.writes = capture.kills = captured
                entry = capture
            pattern.succ += [entry] if _irrefutable(tree) else [entry, other]
            entry = pattern
        subject = self.node("match", stmt, exits, [stmt.subject])
        subject.succ.append(entry)
        return subject


_BUILD = {
    gast.Delete: _Builder.delete,
    gast.If: _Builder.if_,
    gast.While: _Builder.while_,
    gast.For: _Builder.for_,
    gast.AsyncFor: _Builder.for_,
    gast.With: _Builder.with_,
    gast.AsyncWith: _Builder.with_,
    gast.Try: _Builder.try_,
    gast.TryStar: _Builder.try_,
    gast.Match: _Builder.match,
}


def _known_scope(fn: gast.AST) -> FunctionScope:
    """The scope that the scope analysis has recorded."""
    return get_fact(fn, Fact.SCOPE)


def _jumps(blocks: Iterable[list[gast.stmt]]) -> set[str]:
    """The kinds of jumps that leave any of the blocks."""
    return {kind for block in blocks for stmt in block for kind in get_fact(stmt, Fact.JUMPS)}


def _irrefutable(pattern: gast.AST) -> bool:
    """Whether a pattern fits anything."""
    if isinstance(pattern, gast.MatchAs):
        return pattern.pattern is None or _irrefutable(pattern.pattern)
    return isinstance(pattern, gast.MatchOr) and _irrefutable(pattern.patterns[-1])


def build(fn: gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda) -> Graph:
    """The graph of one function; its scope is analysed first if that is not recorded yet."""
    scope = get_fact(fn, Fact.SCOPE) if has_fact(fn, Fact.SCOPE) else analyze(fn)
    graph = Graph(fn, scope)
    builder = _Builder(graph)
    end = graph.exit
    exits = {"return": end, "raise": end}
    if isinstance(fn.body, list):
        first = builder.block(fn.body, end, exits)
    else:
        first = builder.node("return", fn.body, exits, [fn.body])
        first.succ.append(end)
    graph.entry.succ.append(first)
    graph.finish(builder.made)
    return graph


def build_all(fn: gast.AST) -> list[Graph]:
    """The graphs of a function and of every function nested in it, outer ones first."""
    graphs = [build(fn)]
    for graph in graphs:
        graphs += map(build, graph.functions)
    return graphs
