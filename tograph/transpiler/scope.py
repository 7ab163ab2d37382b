"""Names: which ones a function binds, reads, and shares with the functions inside it.

Model: the scope of a function is what a Walker collected over its body, its parameters and
declarations taken into account. A nested function is a scope of its own and contributes only its
``outward`` names. The cfg uses the same Walker on one piece of code at a time, so both agree on
what a piece reads.

Invariant: ``x: int`` without a value makes ``x`` local and binds nothing: it is in
``FunctionScope.bound``, not in ``Fact.BOUND``.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields

from .anno import Fact, set_fact
from .binders import parameters, type_params
from .syntax import gast
from .walker import Walker

__all__ = [
    "FunctionScope",
    "Walker",
    "analyze",
    "names_bound",
    "names_of",
    "names_read",
]


@dataclass(frozen=True)
class FunctionScope:
    """The names of one function. Sets are unordered: sort them where they reach output."""

    params: tuple[str, ...]  # in the order of the signature
    bound: frozenset[str]  # bound, deleted or declared anywhere in the own scope, with params
    declared_global: frozenset[str]
    declared_nonlocal: frozenset[str]
    read: frozenset[str]  # names loaded, in comprehensions too
    free: frozenset[str]  # used here or in nested functions, not local here; globals included
    captured_by_inner: frozenset[str]  # own locals used by nested code, comprehensions included
    has_yield: bool
    uses_frame: bool
    captured_apart: frozenset[
        str
    ]  # the part of captured_by_inner that others use than functions made of comprehensions
    captured_late: frozenset[str]  # the part of captured_by_inner that is used after its definition
    late: frozenset[str]  # names, own or free, that nested code may use after its definition
    outward: frozenset[str]  # the part of free that may be a local of an enclosing function
    deletes_outward: frozenset[str]  # names of enclosing functions that this one may delete
    deleted_by_inner: frozenset[str]  # own locals that nested code may delete

    @property
    def locals(self) -> frozenset[str]:
        """The names whose home is this function."""
        return self.bound - self.declared_global - self.declared_nonlocal

    def __str__(self) -> str:
        """One line for each part that is not empty, its names sorted (params in order)."""
        parts = [(part.name, getattr(self, part.name)) for part in fields(self)]
        shown = [(name, value if name == "params" else _sorted(value)) for name, value in parts]
        return "\n".join(f"{name}: {' '.join(value)}" for name, value in shown if value)


def _sorted(value: frozenset[str] | bool) -> list[str]:
    """The names of a set in order; the word yes for a flag that is set."""
    return ["yes"] * value if isinstance(value, bool) else sorted(value)


def _scope(fn: gast.AST, record: bool) -> FunctionScope:
    """The scope of a function, from its tree alone; with ``record``, facts on everything in it."""
    walker = Walker(functools.partial(_scope, record=record), record)
    walker.visit_all(fn.body if isinstance(fn.body, list) else [fn.body])
    params = tuple(param.id for param in parameters(fn.args))
    bound = walker.bound.union(params, walker.declared)
    own = bound - walker.globals - walker.nonlocals
    used = walker.reads | bound | walker.inner
    outward = (used - own - walker.globals).difference(type_params(fn))
    scope = FunctionScope(
        params=params,
        bound=frozenset(bound),
        declared_global=frozenset(walker.globals),
        declared_nonlocal=frozenset(walker.nonlocals),
        read=frozenset(walker.reads),
        free=frozenset(outward | (used & walker.globals) | (walker.foreign - own)),
        captured_by_inner=frozenset(walker.inner & own),
        has_yield=walker.has_yield,
        uses_frame=walker.uses_frame,
        captured_apart=frozenset(walker.apart & own),
        captured_late=frozenset(walker.late & own),
        late=frozenset(walker.late),
        outward=frozenset(outward),
        deletes_outward=frozenset((walker.unbound & walker.nonlocals) | (walker.lost - own)),
        deleted_by_inner=frozenset(walker.lost & own),
    )
    if record:
        set_fact(fn, Fact.SCOPE, scope)
    return scope


def analyze(fn: gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda) -> FunctionScope:
    """Record SCOPE, BOUND, JUMPS and HAS_YIELD on a function and on everything nested in it."""
    return _scope(fn, record=True)


def names_of(fn: gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda) -> FunctionScope:
    """The names of a function; records nothing."""
    return _scope(fn, record=False)


def _walk(nodes: Iterable[gast.AST]) -> Walker:
    """Visit code without recording, computing the scopes of nested functions anew."""
    walker = Walker(functools.partial(_scope, record=False))
    walker.visit_all(nodes)
    return walker


def names_bound(stmts: list[gast.stmt]) -> frozenset[str]:
    """The names the statements may bind or delete in their own function; records nothing."""
    return frozenset(_walk(stmts).bound)


def names_read(node: gast.AST | list[gast.AST]) -> frozenset[str]:
    """The names code may read in its own scope, free names of nested functions included."""
    walker = _walk(node if isinstance(node, list) else [node])
    return frozenset(walker.reads | walker.inner)
