"""Statements with bodies become calls of operators on local functions: the common half of ``if``, ``while``, ``for``, ``try``, ``with``.

A body turns into a nested function that declares the names it binds ``nonlocal``, so the variables stay those of the
user's function: an operator reads and writes them through the cells of the body, an unbound variable is an empty
cell, and a closure over a variable sees every later value, as in plain Python. A name that occurs in one body only, and
that no later iteration reads, stays a local of that body.

Names passed to an operator are the state: what the statement binds and something after it (or a next
iteration) may read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..transpiler.anno import Fact, get_fact
from ..transpiler.binders import binds
from ..transpiler.syntax import children, gast, walk
from ..transpiler.templates import names_tuple
from . import for_stmt, if_stmt, try_stmt, while_stmt, with_stmt
from .context import (
    FUNCTIONS,
    LOOPS,
    OPERATORS,
    Context,
    Converter,
    is_docstring,
    own_nodes,
    own_statements,
)

_EMPTY: frozenset[str] = frozenset()
_NONE: Mapping[gast.AST, Counter] = {}
_NAMED = frozenset(
    {gast.FunctionDef, gast.ClassDef, gast.ExceptHandler, gast.MatchAs, gast.MatchStar}
)


@dataclass
class Scope:
    """The user's function around: how often each name occurs in it, and which loops carry which names."""

    counts: Counter
    shared: frozenset[str]
    outer: frozenset[str]  # names of the functions around it
    globals: frozenset[str]
    keep_all: bool
    carried: list[frozenset[str]] = field(default_factory=list)


class ControlFlow(Converter):
    """Rewrites If, While, For, Try and With, innermost first; needs the facts as the jump pass left them."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.scopes: list[Scope] = []
        # Of each body that was made: nothing changes it any more, and bodies may be deep in one another.
        self.counted: dict[gast.AST, Counter] = {}

    def visit_FunctionDef(self, node):
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        facts = get_fact(node, Fact.SCOPE)
        declared = frozenset(facts.declared_global)
        scope = Scope(
            occurrences(node),
            frozenset(facts.captured_apart) | facts.declared_nonlocal,
            facts.outward - facts.declared_nonlocal,
            declared,
            facts.uses_frame,
        )
        self.scopes.append(scope)
        node.body = self.block(node.body)
        self.scopes.pop()
        return node

    def visit_AsyncFunctionDef(self, node):
        return node

    def visit_ClassDef(self, node):
        """Statements of a class body run once, where they stand; the methods are functions of their own."""
        for i, statement in enumerate(node.body):
            if isinstance(statement, (gast.FunctionDef, gast.ClassDef)):
                node.body[i] = self.visit(statement)
        node.decorator_list.append(self.expression(f"{OPERATORS}.made_class", node))
        return node

    def visit_If(self, node):
        if get_fact(node, Fact.HAS_YIELD, False):
            return self.generic_visit(node)
        return if_stmt.rewrite(self, node)

    def visit_While(self, node):
        with_head = get_fact(node, Fact.LIVE_IN_HEAD, _EMPTY)
        self.scopes[-1].carried.append(with_head)
        try:
            if get_fact(node, Fact.HAS_YIELD, False):
                return self.generic_visit(node)
            return while_stmt.rewrite(self, node)
        finally:
            self.scopes[-1].carried.pop()

    def visit_For(self, node):
        self.scopes[-1].carried.append(get_fact(node, Fact.LIVE_IN_HEAD, _EMPTY))
        try:
            if get_fact(node, Fact.HAS_YIELD, False):
                self.generic_visit(node)
                text = f"{OPERATORS}.from_outside(items_)"
                node.iter = self.expression(text, node.iter, items_=node.iter)
                extra = getattr(node, "extra_test", None)
                if extra is not None:
                    # At the end, so that no item is taken that Python leaves in the iterator.
                    node.body += self.fill("if not test_:\n    break", node, test_=extra)
                return node
            return for_stmt.rewrite(self, node)
        finally:
            self.scopes[-1].carried.pop()

    def visit_Try(self, node):
        if get_fact(node, Fact.HAS_YIELD, False):
            return self.generic_visit(node)
        return try_stmt.rewrite(self, node)

    def visit_With(self, node):
        if get_fact(node, Fact.HAS_YIELD, False):
            return self.generic_visit(node)
        return with_stmt.rewrite(self, node)

    # ---- what the constructs use

    def state_of(self, node: gast.stmt, *facts: Fact) -> frozenset[str]:
        """The names that the statement binds and that are live where the facts say."""
        bound = get_fact(node, Fact.BOUND, _EMPTY)
        shared, outer = self.scopes[-1].shared, self.scopes[-1].outer
        if shared or outer:
            bound |= (shared | outer) & declared_inside(node)
        live: frozenset[str] = frozenset()
        for fact in facts:
            live |= get_fact(node, fact, _EMPTY)
        return bound & (live | self.scopes[-1].globals | shared | outer)

    def body_function(
        self,
        wish: str,
        body: list[gast.stmt],
        origin: gast.AST,
        params: tuple[str, ...] = (),
        shared: frozenset = _EMPTY,
    ) -> gast.FunctionDef:
        """``body`` as a local function; names in ``shared`` are never its own."""
        scope = self.scopes[-1]
        made = self.fill(
            "def name_():\n    body_", origin, name_=self.context.namer.fresh(wish), body_=body
        )[0]
        made.generated = True
        made.args.args = [
            gast.copy_location(gast.Name(p, gast.Param(), None, None), origin) for p in params
        ]
        bound, counts = bound_names(body) - set(params), occurrences(made, self.counted)
        outer = sorted(bound - scope.globals - self._only_in(counts, bound - shared))
        if outer:
            made.body.insert(0, gast.copy_location(gast.Nonlocal(outer), origin))
        inner = sorted(bound & scope.globals)
        if inner:
            made.body.insert(0, gast.copy_location(gast.Global(inner), origin))
            counts.update(inner)
        self.counted[made] = counts
        return made

    def _only_in(self, inside: Counter, names: set[str]) -> set[str]:
        """The names that the function around uses nowhere but ``inside`` a body: they may be its own."""
        scope = self.scopes[-1]
        if scope.keep_all:
            return set()
        free = names.difference(scope.shared, scope.globals, *scope.carried)
        return {n for n in free if inside[n] == scope.counts[n]}

    def names_node(self, names: frozenset[str], origin: gast.AST) -> gast.expr:
        node = names_tuple(names)
        for child in walk(node):
            gast.copy_location(child, origin)
        return node


def occurrences(root: gast.AST, counted: Mapping[gast.AST, Counter] = _NONE) -> Counter:
    """How often each name stands in a tree, nested functions included. ``counted``: what is known of functions in it."""
    counts: Counter = Counter()
    todo = [root]
    while todo:
        node = todo.pop()
        if node in counted:
            counts.update(counted[node])
            continue
        todo += children(node)
        if node.__class__ in LOOPS:
            todo += _hidden(node)
        elif node.__class__ is gast.Global:
            counts.update(node.names)
        elif (found := _name_of(node)) is not None:
            counts[found] += 1
    return counts


def _hidden(loop: gast.AST) -> list[gast.AST]:
    """The expressions of a loop that are no fields of its node."""
    found = (getattr(loop, name, None) for name in ("extra_test", "directive"))
    return [x for x in found if x is not None]


def _name_of(node: gast.AST) -> str | None:
    """The name that stands in a node itself."""
    kind = node.__class__
    if kind is gast.Name:
        return node.id
    if kind is gast.alias:
        return (node.asname or node.name).partition(".")[0]
    found = getattr(node, "name", None) if kind in _NAMED else None
    return found if isinstance(found, str) else None


def declared_inside(node: gast.AST) -> frozenset[str]:
    """The names outside of a statement that functions defined in it declare nonlocal: calling them there binds these."""
    if isinstance(node, gast.Nonlocal):
        return frozenset(node.names)
    found = _EMPTY.union(*map(declared_inside, children(node)))
    scope = get_fact(node, Fact.SCOPE, None) if found and isinstance(node, FUNCTIONS) else None
    return found if scope is None else found - scope.locals


def bound_names(body: list[gast.stmt]) -> set[str]:
    """The names that statements bind in their own function, through generated bodies as well."""
    bound: set[str] = set()
    todo: list[gast.AST] = list(body)
    while todo:
        node = todo.pop()
        if not getattr(node, "generated", False):
            bound.update(binds(node))
        if not isinstance(node, (*FUNCTIONS, gast.ClassDef)):
            todo += children(node)
            continue
        if getattr(
            node, "generated", False
        ):  # what a function of the user's declares may be of one around
            bound.update(n for d in own_statements(node) if isinstance(d, gast.Nonlocal) for n in d.names)  # fmt: skip
        todo += getattr(node, "decorator_list", [])
    return bound


class Declarations:
    """Makes every name that nested bodies declare nonlocal a local of the function that owns it: ``x: ag__.local``."""

    def __init__(self, context: Context):
        self.context = context

    def convert(self, tree: gast.AST) -> gast.AST:
        for node in reversed([n for n in walk(tree) if isinstance(n, gast.FunctionDef)]):
            self._declare(node)
        return tree

    def _declare(self, node: gast.FunctionDef) -> None:
        inner = list(own_nodes(node))
        wanted = _declared_by_generated(inner) - self.free
        user = get_fact(node, Fact.SCOPE, None)
        if user is not None:
            wanted -= user.declared_nonlocal
        if not wanted:
            return
        missing = sorted(wanted - _own_names(inner))
        if not missing:
            return
        at = 1 if is_docstring(node.body[0]) else 0
        while at < len(node.body) and isinstance(node.body[at], (gast.Global, gast.Nonlocal)):
            at += 1
        node.body[at:at] = [_local(n, node.body[at]) for n in missing]

    free: frozenset[str] = frozenset()


def _declared_by_generated(nodes: list[gast.AST]) -> set[str]:
    """The names that generated functions among the nodes of a function take from it. What the user's own declare is bound where the user bound it."""
    made = [n for n in nodes if isinstance(n, gast.FunctionDef) and getattr(n, "generated", False)]
    inner = [n for f in made for n in own_statements(f) if isinstance(n, gast.Nonlocal)]
    return {name for n in inner for name in n.names}


def _own_names(nodes: list[gast.AST]) -> set[str]:
    """The names that a function of these nodes binds, or declares to be those of others."""
    own: set[str] = set()
    for inner in nodes:
        if isinstance(inner, (gast.Global, gast.Nonlocal)):
            own.update(inner.names)
        else:
            own.update(binds(inner))
    return own


def _local(name: str, place: gast.stmt) -> gast.AnnAssign:
    """A statement that makes a name one of its function, and does nothing else."""
    operators = gast.Name(OPERATORS, gast.Load(), None, None)
    annotation = gast.Attribute(operators, "local", gast.Load())
    made = gast.AnnAssign(gast.Name(name, gast.Store(), None, None), annotation, None, 1)
    for child in walk(made):
        gast.copy_location(child, place)
    return made
