"""Reads of variables that may be unbound, and ``locals()`` and ``eval`` in functions whose variables moved.

A name that some path leaves unbound is read through ``ag__.ld(lambda: x, 'x')``, one of a function around through ``ag__.ld_free``: unbound, plain Python raises in place; bound on some
staged paths only, the read checks when the graph runs that one of these was taken.
"""

from __future__ import annotations

import builtins

from ..runtime.symbols import journal
from ..runtime.values.structure import UNSET, is_union
from ..transpiler.anno import Fact, copy_facts, get_fact
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter, own_nodes
from .union import distribute, unbound

local = object  # the annotation of a variable that only nested bodies bind


class Reads(Converter):
    """Marks the reads that the analysis found to be perhaps unbound. Runs on the analysed tree."""

    def __init__(self, context):
        super().__init__(context)
        self.own: list[frozenset[str] | set[str]] = []  # the variables of the functions around

    def visit_FunctionDef(self, node):
        scope = get_fact(node, Fact.SCOPE, None)
        own = frozenset() if scope is None else scope.locals
        self.own.append(own | self.own[-1] if getattr(node, "inlined", False) and self.own else own)
        node = self.generic_visit(node)
        self.own.pop()
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Name(self, node):
        if isinstance(node.ctx, gast.Load) and get_fact(node, Fact.MAYBE_UNBOUND, False):
            return self._checked(node)
        return node

    def _checked(self, node):
        """A read of a variable that may be unbound."""
        inner = gast.copy_location(gast.Name(node.id, gast.Load(), None, None), node)
        key = gast.copy_location(gast.Constant(node.id, None), node)
        how = "ld_free" if self.own and node.id not in self.own[-1] else "ld"
        return self.expression(
            f"{OPERATORS}.{how}(lambda: name_, key_)", node, name_=inner, key_=key
        )

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Delete(self, node):
        """``del`` of a variable that may be unbound looks at it first, each in its turn. What stands for the statement has its facts: it may end a block."""
        out = list[gast.stmt]()
        for target in node.targets:
            if isinstance(target, gast.Name) and get_fact(target, Fact.MAYBE_UNBOUND, False):
                out.append(gast.copy_location(gast.Expr(self._checked(target)), node))
            out.append(gast.copy_location(gast.Delete([target]), node))
        for made in out:
            copy_facts(node, made)
        return out


class Frames(Converter):
    """``locals()``, ``vars()``, ``dir()`` and ``eval(source)`` see the variables of the user's function."""

    free: frozenset[str] = frozenset()  # of the function that is converted

    def __init__(self, context):
        super().__init__(context)
        self.names: list[list[str]] = []
        self.around: list[frozenset[str]] = []  # variables of the functions around

    def visit_FunctionDef(self, node):
        scope = get_fact(node, Fact.SCOPE, None)
        own = frozenset() if scope is None else scope.locals
        found = list[str]()
        if scope is not None and scope.uses_frame:
            outer = sorted(self.free.union(*self.around) & scope.outward)
            found = [
                n for n in [*_in_order(node, scope), *outer] if n not in self.context.namer.made
            ]
        self.names.append(found)
        self.around.append(own)
        node = self.generic_visit(node)
        self.names.pop()
        self.around.pop()
        return node

    def visit_Call(self, node):
        node = self.generic_visit(node)
        if not (isinstance(node.func, gast.Name) and self.names):
            return node
        word = node.func.id
        if word not in ("locals", "vars", "dir", "eval", "exec") or self.context.resolve(
            node.func
        ) is not getattr(builtins, word):
            return node
        if word in ("locals", "vars", "dir") and not node.args:
            found = self._variables(node)
            return found if word != "dir" else self.expression("sorted(found_)", node, found_=found)
        if word in ("eval", "exec") and len(node.args) == 1:
            node.args += [self.expression("globals()", node), self._variables(node)]
        return node

    def _variables(self, node):
        keywords = []
        for n in self.names[-1]:
            read = gast.copy_location(gast.Name(n, gast.Load(), None, None), node)
            keywords.append(gast.keyword(n, self.expression("lambda: read_", node, read_=read)))
        made = self.expression(f"{OPERATORS}.variables()", node)
        made.keywords = keywords
        return made


def _in_order(node, scope) -> list[str]:
    """The variables of a function: parameters, others by where they stand first, then those that inner functions share, as Python orders them.

    Last the names that only an ``import``, ``def`` or ``except`` binds.
    """
    stored = [n for n in own_nodes(node) if isinstance(n, gast.Name) and hasattr(n, "lineno")]
    stored.sort(key=lambda n: (n.lineno, n.col_offset))
    first = [
        n for n in dict.fromkeys((*scope.params, *(n.id for n in stored))) if n in scope.locals
    ]
    shared = scope.captured_by_inner - set(scope.params)
    named = [n for n in first if n not in shared]
    rest = scope.locals - set(named)
    return [*named, *sorted(rest & shared), *sorted(rest - shared)]


def ld(read, name, error_of=unbound):
    """The value of a variable that may be unbound on some path; UnboundLocalError where it is."""
    try:
        x = read()
    except NameError as error:
        if error.name != name or isinstance(error, UnboundLocalError):
            raise
        # In a nested body Python calls it a free variable.
        raise error_of(name) from None
    if is_union(x) and any(o is journal.MISSING for o in x.options_):
        return distribute(lambda v: v, x, error_of=error_of)
    if x is UNSET:
        raise error_of()
    return x


def ld_free(read, name):
    """The same of a variable of a function around; NameError where it is unbound."""
    return ld(read, name, lambda known=None: _unbound_free(name))


def _unbound_free(name):
    return NameError(
        f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope",
        name=name,
    )


def variables(**reads):
    """A dict of the variables that are bound: ``locals()``."""
    found = {}
    for name, read in reads.items():
        try:
            found[name] = read()
        except NameError:
            continue
    return found
