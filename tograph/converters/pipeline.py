"""The conversion of a function: the passes, in order, and the cache of what they made.

A function is parsed, rewritten by the passes of ``PIPELINE``, compiled under the user's file name, and bound to the
original's globals, cells and defaults. The code object is cached by the original's code object, weakly, so functions
made from the same ``def`` share one conversion; only the binding to cells is done again.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .. import collector, forks, stacks
from ..errors import AsyncFunctionError
from ..lazy import lazy_module
from ..runtime.display import artifacts
from ..runtime.guarding.reads import watched
from ..runtime.kernels.read_ahead import load_ahead
from ..runtime.symbols.funcgraph import USER_CODE
from ..transpiler import loader
from ..transpiler.analysis import analyze_all
from ..transpiler.binders import binds
from ..transpiler.names import Namer
from ..transpiler.parsing import Parsed, parse_function
from ..transpiler.printing import Printed, print_tree
from ..transpiler.syntax import gast, walk
from ..transpiler.writing import deep_recursion
from . import clashes, kept, operators
from .annotations import Annotations
from .asserts import Asserts
from .attributes import Attributes
from .call_rules import CONVERTED_CODE
from .calls import Calls
from .class_scopes import ClassScopes
from .comparisons import Comparisons
from .comprehensions import Comprehensions
from .conditional_expression import ConditionalExpressions
from .context import OPERATORS, Context
from .context_managers import ContextManagers
from .conversion import set_converter
from .directives import Directives
from .displays import Displays
from .escapes import Escapes
from .exception_groups import ExceptionGroups
from .finally_jumps import FinallyJumps
from .functional import ControlFlow, Declarations
from .generators import HandOver, NestedGenerators, can_hand_over
from .jumps import Jumps
from .lists import Lists
from .logical import Logical
from .match_stmt import MatchStatements
from .raise_stmt import Reraises
from .recursion import TailCalls
from .resumable import Resumable, can_resume
from .strings import Strings
from .subscripts import Subscripts
from .unpacking import Unpackings
from .user_operators import UserOperators
from .variables import Frames, Reads

_HERE = os.path.dirname(os.path.abspath(__file__))
_report = lazy_module("..runtime.report.collect", __package__)

# Before the analyses: constructs that become plainer Python.
PLAINER = (
    TailCalls,
    Annotations,
    Directives,
    Comprehensions,
    MatchStatements,
    FinallyJumps,
    Reraises,
)
# After them: reads are marked and variables located while the facts still fit; then statements; then expressions.
PIPELINE = (Escapes, Reads, Frames, Displays, Lists, Jumps, ControlFlow, ClassScopes, Asserts, Unpackings, Calls, ContextManagers, ExceptionGroups, Attributes, Subscripts, Strings, UserOperators, Comparisons, Logical,
            ConditionalExpressions, Declarations)  # fmt: skip


class Conversion:
    """A converted function: its code, and what it looks like."""

    def __init__(self, code: types.CodeType, printed: Callable[[], Printed]):
        self.code, self._print, self.levels = code, printed, loader.levels(code)

    @functools.cached_property
    def printed(self) -> Printed:
        """The rewritten Python with its line map."""
        made = self._print()
        self._print = lambda: made  # the other one holds the tree
        return made

    @property
    def source(self) -> str:
        """The rewritten Python."""
        return self.printed.source


_lock = forks.held(threading.RLock())
# By file and code object: equal code of two files, such as a notebook cell that runs again, is one key.
_Of = weakref.WeakKeyDictionary[types.CodeType, Any]
_generators: dict[Any, _Of] = {}  # by the form, too
_cache: dict[Any, _Of] = {}


def _of(known: dict[Any, _Of], key: Any) -> _Of:
    """What is known for a key; those whose code is gone, such as cells of a notebook, go with the next that comes."""
    if key not in known:
        for gone in [k for k, found in known.items() if not found]:
            del known[gone]
        known[key] = weakref.WeakKeyDictionary()
    return known[key]


def conversion(function: types.FunctionType) -> Conversion:
    """The conversion of a function, made once for its code object."""
    code = function.__code__
    with _lock:
        cache = _of(_cache, code.co_filename)
        # under the code that was asked for last: an equal one, of a module that was loaded before, may go
        found = cache.pop(code, None)
        cache[code] = found = found or _convert(function)
        return found


_FORMS = {"push": (can_hand_over, HandOver), "resume": (can_resume, Resumable)}


def convert_generator(function: types.FunctionType, form: str) -> types.FunctionType | None:
    """A form of a generator function, by its name in ``_FORMS``; None where it has none."""
    code = function.__code__
    with _lock:
        cache = _of(_generators, (form, code.co_filename))
        if code not in cache:
            tree = _as_def(parse_function(function))
            cache[code] = _convert(function, form) if _FORMS[form][0](tree) else None
        found = cache[code]
    if found is None:
        return None
    watched(function)
    return _bound(found.code, function)


def _bound(code: types.CodeType, function: types.FunctionType) -> types.FunctionType:
    unspelled = clashes.UNSPELLED in code.co_freevars
    return loader.instantiate(
        code, function, clashes.UNSPELLED if unspelled else OPERATORS, operators
    )


def convert_function(function: types.FunctionType) -> types.FunctionType:
    """The converted form of a Python function; functions that are converted already come back as they are."""
    if function.__code__ in CONVERTED_CODE:
        return function
    watched(function)
    made = conversion(function)
    stacks.LIMIT.need(made.levels)
    return _bound(made.code, function)


set_converter(convert_function, convert_generator)


def converted_in(file: str) -> Iterator[tuple[int, int, str, str, dict[int, int]]]:
    """The functions of a file that were converted: first and last line, name, rewritten Python and its line map."""
    for code, made in list(_cache.get(file, {}).items()):
        printed = made.printed
        first, last = code.co_firstlineno, _report.last_line(file, code.co_firstlineno)
        name = code.co_qualname.replace(".<locals>", "")
        yield first, last, name, printed.source, printed.line_map


artifacts.CONVERTED.append(converted_in)


@deep_recursion()
def _convert(function: types.FunctionType, form: str = "") -> Conversion:
    with collector.seldom():
        name = kept.name_of(function, form)
        found = kept.load(function, name) if name is not None else None
        if found is not None:
            made = Conversion(found.code, lambda: found.printed)
        else:
            made = _convert_anew(function, form, name)
    codes = loader.nested_codes(made.code)
    CONVERTED_CODE.update(codes)
    if not made.code.co_filename.startswith(_HERE):  # forms of built-ins that are written in Python
        USER_CODE.update(codes)
    artifacts.converted(made.code.co_qualname, lambda: made.source)
    return made


def _convert_anew(function: types.FunctionType, form: str, name: str | None) -> Conversion:
    """The conversion by the passes; it is kept under ``name``."""
    facts: kept.Facts = {}
    if name is not None:
        load_ahead()
    parsed, own = clashes.apart(parse_function(function), function)
    tree = convert_tree(parsed, function, form, facts)
    code, rewritten = loader.load(tree, parsed.file, parsed.freevars, OPERATORS, function.__code__)
    if own is not None:
        code = clashes.restored(code, own)
    made = Conversion(code, lambda: print_tree(rewritten))
    if name is not None:
        kept.store(name, code, made.printed, facts)
    return made


def convert_tree(
    parsed: Parsed, function: types.FunctionType, form: str, facts: kept.Facts
) -> gast.FunctionDef:
    """Run the passes over a parsed function; ``facts`` gets what they ask of names."""
    tree = _as_def(parsed)
    if isinstance(tree, gast.AsyncFunctionDef):
        raise AsyncFunctionError(parsed.name, (parsed.file, tree.lineno))
    tree.decorator_list = []
    tree.returns = None
    params = _params(tree)
    namer = Namer(tree, (OPERATORS, *parsed.freevars, *function.__code__.co_names))
    context = Context(
        parsed.file, namer, resolver(function, tree, facts), params[0] if params else None
    )
    tree = NestedGenerators(context).convert(tree)
    if form:
        tree = _FORMS[form][1](context).convert(tree)
    for make in PLAINER:
        tree = make(context).convert(tree)
    analyze_all(tree)
    for make in PIPELINE:
        pass_ = make(context)
        if make in (Declarations, Frames):
            pass_.free = frozenset(parsed.freevars)
        tree = pass_.convert(tree)
    return tree


def _as_def(parsed: Parsed) -> Any:
    node = parsed.node
    if not isinstance(node, gast.Lambda):
        return node
    ret = gast.copy_location(gast.Return(node.body), node.body)
    extra = {"type_params": []} if "type_params" in gast.FunctionDef._fields else {}
    made = gast.FunctionDef("lambda_", node.args, [ret], [], None, None, **extra)
    return gast.copy_location(made, node)


def _params(tree: gast.FunctionDef) -> list[str]:
    return [a.id for a in (*tree.args.posonlyargs, *tree.args.args)]


def resolver(
    function: types.FunctionType, tree: gast.AST, facts: kept.Facts
) -> Callable[[gast.AST], Any]:
    """Gives the object behind a global, built-in or closure name, or a dotted path of modules; None for locals.

    ``facts`` gets what is found.
    """
    scope_locals = {name for n in walk(tree) if n is not tree for name in binds(n)}

    def resolve(node: gast.AST) -> Any:
        path = _path(node)
        if path is None or path.partition(".")[0] in scope_locals:
            return None
        found = kept.look_up(function, path)
        facts[path] = kept.what(found)
        return found

    return resolve


def _path(node: gast.AST) -> str | None:
    """A name, or names with dots between them."""
    if isinstance(node, gast.Attribute):
        owner = _path(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return node.id if isinstance(node, gast.Name) else None


def clear() -> None:
    """Forget all conversions."""
    with _lock:
        _cache.clear()
