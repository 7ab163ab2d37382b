"""Comprehensions become local functions with plain loops, which the other converters then convert.

``[f(x) for x in xs if c]`` turns into a call, in its place, of a function defined before the statement::

    def list_comp(items):
        result = []
        for x in items:
            if c:
                result.append(f(x))
        return result

The first iterable is evaluated outside, as Python does. ``any`` and ``all`` of a generator stop early; other
consumers of a whole generator (``sum``, ``list``, ...) take the list. The items of a ``tuple`` are taken one by one, so
that their number is known.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from typing import Any

from ..transpiler.binders import parameters
from ..transpiler.scope import names_of
from ..transpiler.syntax import gast, walk
from ..transpiler.templates import name
from .context import OPERATORS, Converter, has_walrus, has_yield, walrus_names
from .generators import other_forms

_COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)
_DEFAULT = "default__"  # the parameter for what ``next`` gives where there is no item
_INLINED = sys.version_info >= (
    3,
    12,
)  # list, set and dict comprehensions are part of the function around (PEP 709)
_CONSUMERS = ("sum", "list", "tuple", "set", "frozenset", "min", "max", "sorted", "dict")


class Comprehensions(Converter):
    globals: frozenset[str] = frozenset()  # what the function around declares global
    in_class = False  # whether this is the body of a class, whose names functions in it do not see

    def visit_FunctionDef(self, node):
        around = self.globals, self.in_class
        self.in_class = False
        if not getattr(node, "generated", False):
            self.globals = names_of(node).declared_global
        try:
            return self.generic_visit(node)
        finally:
            self.globals, self.in_class = around

    def visit_ClassDef(self, node):
        around, self.in_class = self.in_class, True
        try:
            return self.generic_visit(node)
        finally:
            self.in_class = around

    def visit_ListComp(self, node):
        return self._rewrite(
            node,
            "list_comp",
            f"{OPERATORS}.new_list()",
            "result_.append(value_)",
            {"value_": node.elt},
        )

    def visit_SetComp(self, node):
        return self._rewrite(node, "set_comp", "set()", "result_.add(value_)", {"value_": node.elt})

    def visit_DictComp(self, node):
        """The key is evaluated before the value, which an assignment to an item would do after it."""
        step, holes = "result_[key_] = value_", {"key_": node.key, "value_": node.value}
        if not _is_item(node.key, node.generators):
            step = f"key_ = k_\n{step}"
            holes |= {"key_": self.context.namer.fresh("key"), "k_": node.key}
        return self._rewrite(node, "dict_comp", "{}", step, holes)

    def visit_GeneratorExp(self, node):
        return self._function(
            node, "generator", "yield value_", {"value_": node.elt}, "pass", "pass"
        )

    def visit_Call(self, node):
        if (
            len(node.args) >= 1
            and isinstance(node.args[0], gast.GeneratorExp)
            and isinstance(node.func, gast.Name)
        ):
            found = self.context.resolve(node.func)
            if found in (any, all):
                return self._early_exit(node, found)
            if found is next and not node.keywords and len(node.args) < 3:
                return self._first(node)
            if found is tuple:
                first = node.args[0].generators[0]
                each = self.expression(f"{OPERATORS}.each(items_)", node, items_=first.iter)
                first.iter = each
            if node.func.id in _CONSUMERS and found is getattr(builtins, node.func.id):
                inner = node.args[0]
                node.args[0] = gast.copy_location(gast.ListComp(inner.elt, inner.generators), inner)
                node.args[0].of_generator = True
        return self.generic_visit(node)

    def visit_Lambda(self, node):
        """Its body becomes a function before the statement; defaults are evaluated where the lambda stands."""
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        if not _holds(node.body):
            return self.generic_visit(node)
        fresh = self.context.namer.fresh("lambda_function")
        definition = self.fill(
            "def name_():\n    return value_", node, name_=fresh, value_=node.body
        )[0]
        definition.generated = True
        if not defaults or self.in_class:
            definition.args = node.args
            self.prelude.append(self.visit(definition))
            return gast.copy_location(name(fresh), node)
        names = [p.id for p in parameters(node.args)]
        definition.args.args = [gast.copy_location(gast.Name(n, gast.Param(), None, None), node) for n in names]  # fmt: skip
        self.prelude.append(self.visit(definition))
        node.args = self.visit(node.args)
        node.body = self.expression(f"name_({', '.join(names)})", node.body, name_=fresh)
        return node

    def _early_exit(self, node, which):
        found, other = ("True", "False") if which is any else ("False", "True")
        test = "value_" if which is any else "not value_"
        inner = node.args[0]
        return self._function(inner, which.__name__ + "_comp", f"if {test}:\n    return {found}", {"value_": inner.elt},
                              "pass", f"return {other}")  # fmt: skip

    def _first(self, node):
        """``next(generator expression, default)``: the loop ends at the first item."""
        holes = {"value_": node.args[0].elt}
        end = "raise StopIteration" if len(node.args) == 1 else f"return {_DEFAULT}"
        default = [self.visit(d) for d in node.args[1:]]
        return self._function(
            node.args[0], "next_comp", "return value_", holes, "pass", end, default=default
        )

    def _rewrite(self, node, wish, start, step, holes):
        result = self.context.namer.fresh("result")
        return self._function(
            node,
            wish,
            step,
            {**holes, "result_": result},
            f"result_ = {start}",
            "return result_",
            result,
            inlined=_INLINED and not getattr(node, "of_generator", False),
        )

    def _function(
        self,
        node,
        wish: str,
        step: str,
        holes: dict[str, Any],
        first: str,
        last: str,
        result: str = "",
        default: Sequence[gast.expr] = (),
        inlined: bool = False,
    ):
        """The call of a function made of the comprehension: ``first``, the loops around ``step``, ``last``.

        ``default``: what ``last`` may return, if anything; it is evaluated before the items are. ``inlined``: whether Python has no function there.
        """
        if any(g.is_async for g in node.generators):
            raise self.context.error(node, "asynchronous comprehensions are not supported")
        fresh = self.context.namer.fresh(wish)
        items = self.context.namer.fresh("items")
        outer = {"result_": result} if result else {}
        body = self.fill(first, node, **outer)
        body += self._loops(node, self.fill(step, node, **holes), items)
        body += self.fill(last, node, **outer)
        definition = self._definition(node, fresh, [items, *[_DEFAULT for _ in default]], body)
        definition.inlined = inlined
        source = self.visit(node.generators[0].iter)
        if has_yield(definition) and wish != "generator":
            raise self.context.error(node, "yield inside a comprehension is not supported")
        definition = self.visit(definition)
        self.prelude.append(definition)
        if wish != "generator":
            given = [source, *default]
            call = self.expression("name_(given_)", node, name_=fresh, given_=given)
            definition.once, call.func.once = True, names_of(definition).outward
            return call
        made, (push, resume) = other_forms(self.context, definition, "generator")
        self.prelude += made
        text = f"{OPERATORS}.with_forms(name_, push_, resume_)(source_)"
        holes = {"push_": push, "resume_": resume, "source_": source}
        return self.expression(text, node, name_=fresh, **holes)

    def _loops(self, node, body, items: str):
        """``body`` in the loops and tests of a comprehension; the first loop is over the parameter ``items``."""
        for i, generator in reversed(list(enumerate(node.generators))):
            for test in reversed(generator.ifs):
                body = [gast.copy_location(gast.If(test, body, []), node)]
            source = generator.iter if i else gast.copy_location(name(items), node)
            loop = gast.For(generator.target, source, body, [], None)
            body = [gast.copy_location(loop, node)]
        return body

    def _definition(self, node, fresh: str, names: list[str], body):
        """``def fresh(names): body``; what ``:=`` binds belongs to the function around."""
        definition = self.fill("def name_():\n    pass", node, name_=fresh)[0]
        parameters = [gast.Name(n, gast.Param(), None, None) for n in names]
        definition.args.args = [gast.copy_location(p, node) for p in parameters]
        definition.body = [s for s in body if not isinstance(s, gast.Pass)]
        definition.generated = True
        bound = walrus_names(node) if has_walrus(node) else []
        outer = [n for n in bound if n not in self.globals]
        for kind, names_ in ((gast.Global, sorted(self.globals.intersection(bound))), (gast.Nonlocal, outer)):  # fmt: skip
            if names_:
                definition.body.insert(0, gast.copy_location(kind(names_), node))
        return definition


def _is_item(key: gast.expr, generators: list[gast.comprehension]) -> bool:
    """Whether a key is the same before and after the value is evaluated: a constant, or what a loop binds."""
    targets = (n for g in generators for n in walk(g.target) if isinstance(n, gast.Name))
    return isinstance(key, gast.Constant) or (
        isinstance(key, gast.Name) and key.id in {t.id for t in targets}
    )


def _holds(node: gast.AST) -> bool:
    """Whether there is a comprehension in an expression."""
    return any(isinstance(n, _COMPREHENSIONS) for n in walk(node))
