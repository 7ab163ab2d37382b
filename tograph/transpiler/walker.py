"""A walk over code in evaluation order: what it does with the names of its function.

Model: a Walker visits code and collects what it does with the names of one function scope. A
comprehension's targets are hidden in it; every other name in it belongs to the function, which is
where its walrus binds. A class body runs at once but its names are its own; functions in it see
past it. A nested function contributes only its ``outward`` names, which ``scope_of`` tells.

Invariant: ``kills`` holds only names bound or unbound on every way through the piece (one part of
``and``, ``if``-``else``, a chained comparison or a comprehension may not run, and a name bound
there is in ``bound`` alone).

Not handled: annotations count as read even under ``from __future__ import annotations``; a name
that is mangled in a class body (``__x``) is taken as written; ``super()`` reads no ``__class__``.
"""

import functools
from collections.abc import Callable, Iterable

from .anno import Fact, set_fact
from .binders import parameters, target_names, type_params
from .syntax import gast

_FRAME_CALLS = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})
_LOOP_JUMPS = frozenset({"break", "continue"})
_NONE: frozenset[str] = frozenset()


class Walker:
    """What a piece of code does with the names of its function, visited in evaluation order."""

    def __init__(self, scope_of: Callable, record: bool = False, in_class: bool = False):
        self.scope_of, self.record, self.in_class = scope_of, record, in_class
        self.reads: set[str] = set()  # every name used by value
        self.exposed: set[str] = set()  # names whose value from before the piece may be used
        self.loads: list[gast.Name] = []  # the nodes behind `exposed`
        self.settled: list[gast.Name] = []  # nodes whose value the piece itself has bound
        self.bound: set[str] = set()  # names it may bind or unbind
        self.unbound: set[str] = set()  # names it may unbind
        self.kills: set[str] = set()  # names it has certainly bound or unbound so far
        self.inner: set[str] = set()  # names used by nested scopes
        self.apart: set[str] = (
            set()
        )  # the part of it that others use than functions made of comprehensions
        self.late: set[str] = set()  # those a nested scope may use after the piece
        self.foreign: set[str] = set()  # names that nested scopes declare global
        self.lost: set[str] = set()  # names that nested scopes may delete
        self.declared: set[str] = set()  # `x: int`
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.functions: list[gast.AST] = []  # nested functions, not those inside them
        self.jumps: frozenset[str] = _NONE
        self.has_yield = self.uses_frame = False
        self.hidden: frozenset[str] = _NONE  # comprehension targets around the visited node
        self.nested = self.lazy = False  # inside a comprehension; inside a generator expression

    def visit(self, node: gast.AST | None) -> None:
        """Visit one node, which may be missing."""
        if node is not None:
            _HANDLERS[node.__class__](self, node)

    def visit_all(self, nodes: Iterable[gast.AST | None]) -> None:
        """Visit nodes in order."""
        for node in nodes:
            if node is not None:
                _HANDLERS[node.__class__](self, node)

    def _children(self, node: gast.AST) -> None:
        for field in _fields(node.__class__):
            value = getattr(node, field, None)
            if value.__class__ is list:
                self.visit_all(value)
            elif value is not None:
                _HANDLERS[value.__class__](self, value)

    def _statement(self, node: gast.stmt) -> None:
        """Visit a statement and record what it and the statements in it do."""
        bound, jumps, has_yield = self.bound, self.jumps, self.has_yield
        self.bound, self.jumps, self.has_yield = set(), _NONE, False
        _STATEMENTS.get(node.__class__, Walker._children)(self, node)
        if self.record:
            set_fact(node, Fact.BOUND, frozenset(self.bound))
            set_fact(node, Fact.JUMPS, self.jumps)
            set_fact(node, Fact.HAS_YIELD, self.has_yield)
        bound |= self.bound
        self.bound, self.jumps = bound, jumps | self.jumps
        self.has_yield = has_yield or self.has_yield

    def _maybe(self, nodes: Iterable[gast.AST | None]) -> None:
        """Visit nodes of which only the first few may run."""
        kills = self.kills.copy()
        self.visit_all(nodes)
        self.kills = kills

    # Names

    def read(self, node: gast.Name) -> None:
        """The value of a name is used."""
        name = node.id
        self.reads.add(name)
        if self.nested:
            self.inner.add(name)
            self.apart.add(name)
            if self.lazy:
                self.late.add(name)
        if name in self.kills:
            self.settled.append(node)
        else:
            self.loads.append(node)
            self.exposed.add(name)

    def bind(self, name: str) -> None:
        """A name gets a value."""
        self.bound.add(name)
        self.kills.add(name)
        if self.nested:
            self.inner.add(name)
            self.apart.add(name)
            if self.lazy:
                self.late.add(name)

    def unbind(self, name: str) -> None:
        """A name loses its value."""
        self.bound.add(name)
        self.unbound.add(name)
        self.kills.add(name)

    def _name(self, node: gast.Name) -> None:
        if node.id in self.hidden:
            return
        if node.ctx.__class__ is gast.Load:
            self.read(node)
            used = getattr(node, "once", None)
            if used:  # the call of a function that a comprehension has become
                self.exposed |= used - self.kills
        elif node.ctx.__class__ is gast.Del:
            self.read(node)
            self.unbind(node.id)
        else:
            self.bind(node.id)

    # Expressions

    def _first_then_maybe(
        self, node: gast.BoolOp | gast.Compare | gast.IfExp | gast.Assert
    ) -> None:
        """Expressions whose later parts may not run; the two arms of IfExp exclude each other."""
        if node.__class__ is gast.BoolOp:
            self.visit(node.values[0])
            self._maybe(node.values[1:])
        elif node.__class__ is gast.Compare:
            self.visit(node.left)
            self.visit(node.comparators[0])
            self._maybe(node.comparators[1:])
        elif node.__class__ is gast.IfExp:
            self.visit(node.test)
            self._maybe([node.body])
            self._maybe([node.orelse])
        else:
            self.visit(node.test)
            self._maybe([node.msg])

    def _dict(self, node: gast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self.visit(key)
            self.visit(value)

    def _call(self, node: gast.Call) -> None:
        if node.func.__class__ is gast.Name and node.func.id in _FRAME_CALLS:
            self.uses_frame = True
        self._children(node)

    def _walrus(self, node: gast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def _yield(self, node: gast.Yield | gast.YieldFrom | gast.Await) -> None:
        self._children(node)
        self.has_yield = True

    def _comprehension(self, node: gast.AST) -> None:
        """Only the first iterable is evaluated outside; the result comes after the clauses."""
        self.visit(node.generators[0].iter)
        saved = self.hidden, self.nested, self.lazy, self.kills, self.has_yield
        targets = [name for clause in node.generators for name in target_names(clause.target)]
        self.hidden, self.nested, self.kills = self.hidden.union(targets), True, self.kills.copy()
        self.lazy = self.lazy or node.__class__ is gast.GeneratorExp
        for index, clause in enumerate(node.generators):
            if index:
                self.visit(clause.iter)
            self.visit(clause.target)
            self.visit_all(clause.ifs)
            self.has_yield = self.has_yield or bool(clause.is_async)
        is_dict = node.__class__ is gast.DictComp
        self.visit_all([node.key, node.value] if is_dict else [node.elt])
        own = self.has_yield and node.__class__ is not gast.GeneratorExp
        self.hidden, self.nested, self.lazy, self.kills, has_yield = saved
        self.has_yield = has_yield or own

    # Functions and classes

    def _function(self, node: gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda) -> None:
        """The definition of a nested function: it captures now, and uses later."""
        is_lambda = node.__class__ is gast.Lambda
        args = node.args
        if not is_lambda:
            self.visit_all(node.decorator_list)
        self.visit_all(args.defaults)
        self.visit_all(args.kw_defaults)
        hidden = self.hidden
        self.hidden = hidden.union(type_params(node))
        self.visit_all(p.annotation for p in parameters(args) if p.annotation is not None)
        self.visit(None if is_lambda else node.returns)
        scope = self.scope_of(node)
        names = scope.outward - self.hidden
        self.hidden = hidden
        self.functions.append(node)
        own = () if is_lambda or node.decorator_list else {node.name}  # not read before it is bound
        once = getattr(node, "once", False)
        self._capture(names, scope.late & names if once else names, names.difference(own))
        self.apart |= scope.late & names if once else names
        self.foreign |= scope.free - scope.outward
        self.lost |= scope.deletes_outward
        if not is_lambda:
            self.bind(node.name)

    def _class(self, node: gast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        self.visit_all(node.bases)
        self.visit_all(node.keywords)
        body = Walker(self.scope_of, self.record, in_class=True)
        body.visit_all(node.body)
        used = body.reads | body.bound
        shared = body.bound & body.nonlocals
        own = (body.bound | body.declared) - body.nonlocals
        hidden = self.hidden.union(type_params(node))
        names = ((used - own - body.globals) | body.inner) - hidden
        self._capture(names, (body.late | shared) - hidden, names)
        self.apart |= names
        self.foreign |= body.foreign | (used & body.globals)
        self.lost |= body.lost | (body.unbound & body.nonlocals)
        self.functions += body.functions
        self.uses_frame = self.uses_frame or body.uses_frame
        self.bind(node.name)

    def _capture(self, names: set[str], late: set[str], now: set[str]) -> None:
        """A nested scope uses ``names``: ``late`` ones possibly later, ``now`` at this point."""
        self.inner |= names
        self.late |= late
        self.exposed |= now - self.kills

    def _type_alias(self, node: gast.AST) -> None:
        """The value of a type alias is evaluated when it is asked for."""
        saved = self.hidden, self.nested, self.lazy
        self.hidden, self.nested, self.lazy = self.hidden.union(type_params(node)), True, True
        self.visit(node.value)
        self.hidden, self.nested, self.lazy = saved
        self.visit(node.name)

    # Statements

    def _assign(self, node: gast.Assign) -> None:
        self.visit(node.value)
        self.visit_all(node.targets)

    def _aug_assign(self, node: gast.AugAssign) -> None:
        if node.target.__class__ is gast.Name:
            self.read(node.target)
        self.visit(node.value)
        self.visit(node.target)

    def _ann_assign(self, node: gast.AnnAssign) -> None:
        self.visit(node.value)
        if node.value is None and node.target.__class__ is gast.Name:
            self.declared.add(node.target.id)
        else:
            self.visit(node.target)
        if self.in_class:
            self.visit(node.annotation)

    def _import(self, node: gast.Import | gast.ImportFrom) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name.split(".")[0])

    def _loop(self, node: gast.For | gast.AsyncFor | gast.While) -> None:
        if node.__class__ is gast.While:
            self.visit(node.test)
        else:
            self.visit(node.iter)
            self.visit(node.target)
            self.has_yield = self.has_yield or node.__class__ is gast.AsyncFor
        self.visit_all(node.body)
        self.jumps -= _LOOP_JUMPS
        self.visit_all(node.orelse)

    def _async_with(self, node: gast.AsyncWith) -> None:
        self._children(node)
        self.has_yield = True

    def _handler(self, node: gast.ExceptHandler) -> None:
        self.visit(node.type)
        if node.name is not None:
            self.bind(node.name.id)
            self.unbind(node.name.id)
        self.visit_all(node.body)

    def _pattern(self, node: gast.AST) -> None:
        """MatchAs, MatchStar and MatchMapping: sub-patterns first, then the captured name."""
        self._children(node)
        name = node.rest if node.__class__ is gast.MatchMapping else node.name
        if name is not None:
            self.bind(name)

    def _jump(self, node: gast.Break | gast.Continue | gast.Return) -> None:
        self._children(node)
        self.jumps |= {node.__class__.__name__.lower()}

    def _global(self, node: gast.Global) -> None:
        self.globals.update(node.names)

    def _nonlocal(self, node: gast.Nonlocal) -> None:
        self.nonlocals.update(node.names)


_STATEMENTS = {
    gast.Assert: Walker._first_then_maybe,
    gast.Assign: Walker._assign,
    gast.AugAssign: Walker._aug_assign,
    gast.AnnAssign: Walker._ann_assign,
    gast.Import: Walker._import,
    gast.ImportFrom: Walker._import,
    gast.For: Walker._loop,
    gast.AsyncFor: Walker._loop,
    gast.While: Walker._loop,
    gast.AsyncWith: Walker._async_with,
    gast.Break: Walker._jump,
    gast.Continue: Walker._jump,
    gast.Return: Walker._jump,
    gast.Global: Walker._global,
    gast.Nonlocal: Walker._nonlocal,
    gast.FunctionDef: Walker._function,
    gast.AsyncFunctionDef: Walker._function,
    gast.ClassDef: Walker._class,
    gast.TypeAlias: Walker._type_alias,
}
_EXPRESSIONS = {
    gast.Name: Walker._name,
    gast.BoolOp: Walker._first_then_maybe,
    gast.Compare: Walker._first_then_maybe,
    gast.IfExp: Walker._first_then_maybe,
    gast.Dict: Walker._dict,
    gast.Call: Walker._call,
    gast.NamedExpr: Walker._walrus,
    gast.Yield: Walker._yield,
    gast.YieldFrom: Walker._yield,
    gast.Await: Walker._yield,
    gast.ListComp: Walker._comprehension,
    gast.SetComp: Walker._comprehension,
    gast.DictComp: Walker._comprehension,
    gast.GeneratorExp: Walker._comprehension,
    gast.Lambda: Walker._function,
    gast.ExceptHandler: Walker._handler,
    gast.MatchAs: Walker._pattern,
    gast.MatchStar: Walker._pattern,
    gast.MatchMapping: Walker._pattern,
}


class _Handlers(dict):
    """Node class to Walker method; what has no method of its own is visited field by field."""

    def __missing__(self, cls: type) -> Callable:
        self[cls] = Walker._statement if issubclass(cls, gast.stmt) else Walker._children
        return self[cls]


_HANDLERS = _Handlers(_EXPRESSIONS)


@functools.cache
def _fields(cls: type[gast.AST]) -> tuple[str, ...]:
    """The fields that may hold nodes with names in them."""
    skipped = {"ctx", "op", "ops", "type_comment", "kind", "id", "attr", "name", "names", "asname"}
    skipped |= {"arg", "conversion", "level", "module", "rest", "kwd_attrs", "is_async", "str"}
    literal = (gast.Constant, gast.MatchSingleton)
    return tuple(
        f for f in cls._fields if f not in skipped and (f != "value" or cls not in literal)
    )
