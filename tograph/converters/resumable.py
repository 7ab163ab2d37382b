"""A generator function whose items are asked for one by one: a function that goes on from where it stopped.

``next(gen)`` under or behind a staged condition cannot leave Python's own generator at a ``yield``. In this form the place is a number, and
the variables are those of a function around, so both may be state of any staged construct::

    def gen(xs):                   def gen(xs):
        for x in xs:                   place, result, items, index = 0, None, ...
            if x > 0:                  def resume(sent):
                yield x                    nonlocal ...
        return 1                           at, place = place, -1
                           ->              if at == 0:
                                               items, index = ag__.source_of(xs), 0
                                           while at != 0 or ag__.has_item(items, index):
                                               if at == 0:
                                                   x = ag__.item_at(items, index)
                                                   index += 1
                                               if at == 0:
                                                   taken = not not (x > 0)
                                               else:
                                                   taken = at <= 1
                                               if taken:
                                                   if at == 0:
                                                       item, place = x, 1
                                                       return
                                                   at = 0
                                           result = 1
                                           return
                                       return ag__.pulled(resume, ...)

Statements that hold no ``yield`` run where ``at`` is 0, which is to say that the code is not on its way to a place. A ``yield`` in a ``try``,
``with`` or ``match``, or one that is part of a larger expression, has no such form.
"""

from __future__ import annotations

from typing import Any

from ..transpiler.scope import names_of
from ..transpiler.syntax import gast
from ..transpiler.templates import constant, name
from .context import FUNCTIONS, OPERATORS, Converter, has_yield, is_docstring, own_nodes

_YIELDS = (gast.Yield, gast.YieldFrom)
_PLAIN = (gast.Expr, gast.Assign, gast.AugAssign, gast.AnnAssign)


def can_resume(tree: gast.FunctionDef) -> bool:
    """Whether every ``yield`` stands where this form can go on from it."""
    return _block_can(tree.body) and any(isinstance(n, _YIELDS) for n in own_nodes(tree))


def _block_can(block: list[gast.stmt]) -> bool:
    return all(map(_can, block))


def _can(s: gast.stmt) -> bool:
    if not has_yield(s) or isinstance(s, FUNCTIONS):
        return True
    if isinstance(s, gast.Return):
        return isinstance(s.value, gast.YieldFrom) and not has_yield(s.value)
    if isinstance(s, _PLAIN):
        return isinstance(s.value, _YIELDS) and not has_yield(s.value) and _simple(s)
    if isinstance(s, gast.If):
        return not has_yield(s.test) and _block_can(s.body) and _block_can(s.orelse)
    if isinstance(s, (gast.While, gast.For)):
        head = s.test if isinstance(s, gast.While) else s.iter
        return not has_yield(head) and _block_can(s.body) and not any(map(has_yield, s.orelse))
    return False


def own_end(converter: Converter, node: gast.Raise) -> Any:
    """A generator's own StopIteration is an error (PEP 479); that of the code which takes the items, and may run inside of it, is not."""
    raised = node.exc.func if isinstance(node.exc, gast.Call) else node.exc
    if raised is None or converter.context.resolve(raised) is not StopIteration:
        return node
    text = 'raise RuntimeError("generator raised StopIteration") from exc_'
    return converter.fill(text, node, exc_=node.exc)


def _simple(s: gast.stmt) -> bool:
    """Whether what is assigned is a variable: other targets are looked up before the ``yield``."""
    targets = s.targets if isinstance(s, gast.Assign) else [getattr(s, "target", None)]
    return isinstance(s, gast.Expr) or all(isinstance(t, gast.Name) for t in targets)


class Resumable(Converter):
    """Rewrites one generator function for which ``can_resume`` holds."""

    tried = False  # whether the code stands in a ``try``

    def convert(self, tree):
        fresh = self.context.namer.fresh
        self.place, self.at, self.item = fresh("place"), fresh("at"), fresh("item")
        self.result, self.sent = fresh("result"), fresh("sent")
        self.inner: list[
            tuple[int, str]
        ] = []  # the places of ``yield from``, and what each goes over
        self.yields, self.kept = 0, [self.place, self.item, self.result]
        scope = names_of(tree)
        made = {n.name for n in own_nodes(tree) if getattr(n, "generated", False)}
        first = [tree.body[0]] if is_docstring(tree.body[0]) else []
        body = self._block(self.block(tree.body[len(first) :]))
        self.kept += sorted(scope.locals - made - set(scope.params))
        resume = self._resume(tree, body, scope)
        tree.body = first + self._declared(tree) + self._around(tree, resume)
        return tree

    def _resume(self, tree, body, scope):
        made = self.fill(
            "def resume_(sent_):\n    at_ = place_\n    place_ = -1\n    body_",
            tree,
            resume_=self.context.namer.fresh("resume"),
            sent_=self.sent,
            at_=self.at,
            place_=self.place,
            body_=body,
        )[0]
        shared = sorted({*self.kept, *scope.params, *scope.declared_nonlocal})
        heads: list[gast.stmt] = [gast.Nonlocal(shared)]
        if scope.declared_global:
            heads.append(gast.Global(sorted(scope.declared_global)))
        made.body[:0] = [gast.copy_location(h, tree) for h in heads]
        return made

    def _declared(self, tree) -> list[gast.stmt]:
        """The variables that ``resume`` keeps between its calls; those of the generator are unbound at first."""
        made = self.fill("place_ = 0\nresult_ = None", tree, place_=self.place, result_=self.result)
        for n in self.kept:
            if n not in (self.place, self.result):
                made += self.fill("name_ = None\ndel name_", tree, name_=n)
        return made

    def _around(self, tree, resume):
        fresh = self.context.namer.fresh
        text = (
            "def ended_():\n    return place_ < 0\n"
            "def current_():\n    return item_\n"
            "def value_():\n    return result_\n"
            "def begun_():\n    return place_ != 0\n"
            "def end_():\n    place_ = -1\n"
            "def inner_():\n    return None\n"
            f"return {OPERATORS}.pulled(resume_, begun_, ended_, current_, value_, end_, inner_)"
        )
        names = {f"{n}_": fresh(n) for n in ("begun", "ended", "current", "value", "end", "inner")}
        holes = {"place_": self.place, "item_": self.item, "result_": self.result}
        made = self.fill(text, tree, resume_=resume.name, **names, **holes)
        made[-3].body.insert(0, gast.copy_location(gast.Nonlocal([self.place]), tree))
        for number, items in self.inner:
            text = "if place_ == number_:\n    return items_"
            numbered: dict[str, Any] = {"number_": constant(number), "items_": items}
            made[-2].body[-1:-1] = self.fill(text, tree, place_=self.place, **numbered)
        return [resume, *made]

    # ---- before: what is returned and raised, and declarations

    def visit_Raise(self, node):
        return node if self.tried else own_end(self, node)

    def visit_Try(self, node):
        """What is raised in it may be caught in it."""
        around, self.tried = self.tried, True
        node = self.generic_visit(node)
        self.tried = around
        return node

    def visit_Return(self, node):
        value = node.value or gast.copy_location(constant(None), node)
        made = self.fill("result_ = value_\nreturn", node, result_=self.result, value_=value)
        return made

    def visit_Global(self, node):
        return gast.copy_location(gast.Pass(), node)

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    # ---- blocks

    def _block(self, block: list[gast.stmt]) -> list[gast.stmt]:
        held = [i for i, s in enumerate(block) if has_yield(s) and not isinstance(s, FUNCTIONS)]
        if not held:
            return block
        out: list[gast.stmt] = []
        plain: list[gast.stmt] = []
        for i, s in enumerate(block):
            if i not in held:
                # What a comprehension became is called where it stands and does nothing itself.
                made_here = getattr(s, "generated", False)
                (plain if i < held[-1] and not made_here else out).append(s)
                continue
            if plain:
                out += self._afresh(plain, plain[0])
                plain = []
            made = self._stepping(s)
            whole = i == held[-1] or isinstance(s, (gast.While, gast.For))
            out += made if whole else self._up_to_here(made, s)
        return out

    def _afresh(self, body, origin) -> list[gast.stmt]:
        return self.fill("if at_ == 0:\n    body_", origin, at_=self.at, body_=body)

    def _up_to_here(self, body, origin) -> list[gast.stmt]:
        """``body``, unless the place is behind it."""
        last = constant(self.yields)
        return self.fill("if at_ <= last_:\n    body_", origin, at_=self.at, last_=last, body_=body)

    def _stepping(self, s: gast.stmt) -> list[gast.stmt]:
        if isinstance(s, gast.If):
            return self._if(s)
        if isinstance(s, gast.While):
            s.body = self._block(s.body)
            s.test = self._resuming_or(s.test)
            return [s]
        if isinstance(s, gast.For):
            return self._for(s)[1]
        return self._yield(s) if isinstance(s.value, gast.Yield) else self._yield_from(s)

    def _if(self, s) -> list[gast.stmt]:
        body = self._block(s.body)
        last = constant(self.yields)
        orelse = self._block(s.orelse) or [gast.copy_location(gast.Pass(), s)]
        text = (
            "if at_ == 0:\n    taken_ = not not test_\nelse:\n    taken_ = at_ <= last_\n"
            "if taken_:\n    body_\nelse:\n    orelse_"
        )
        holes: dict[str, Any] = {"test_": s.test, "last_": last, "body_": body, "orelse_": orelse}
        taken = self.context.namer.fresh("taken")
        return self.fill(text, s, at_=self.at, taken_=taken, **holes)

    def _resuming_or(self, test: gast.expr) -> gast.expr:
        """The test of a loop that may be gone on with, unless the place is behind it."""
        last = constant(self.yields)
        text = "at_ <= last_ and (at_ != 0 or test_)"
        return self.expression(text, test, at_=self.at, last_=last, test_=test)

    def _for(self, s, delegates: bool = False) -> tuple[str, list[gast.stmt]]:
        """The name of what is gone over, and the loop; ``delegates``: what is sent goes on to it."""
        items, index = self.context.namer.fresh("items"), self.context.namer.fresh("index")
        self.kept += [items, index]
        holes: dict[str, Any] = {"items_": items, "index_": index}
        text = f"items_ = {OPERATORS}.source_of(iter_)\nindex_ = 0"
        begin = self._afresh(self.fill(text, s.iter, iter_=s.iter, **holes), s)
        text = f"t_ = {OPERATORS}.item_at(items_, index_)\nindex_ += 1"
        step = self.fill(text, s.target, t_="t", **holes)
        step[0].targets = [s.target]
        text = f"{OPERATORS}.has_item(items_, index_)"
        if delegates:
            text, holes["sent_"] = f"{OPERATORS}.has_item(items_, index_, sent_)", self.sent
        more = self.expression(text, s.iter, **holes)
        body = self._afresh(step, s) + self._block(s.body)
        # After the yields in it are counted.
        loop = gast.While(self._resuming_or(more), body, s.orelse)
        return items, [*begin, gast.copy_location(loop, s)]

    def _yield(self, s) -> list[gast.stmt]:
        self.yields += 1
        value = s.value.value or gast.copy_location(constant(None), s)
        text = "if at_ == 0:\n    item_ = value_\n    place_ = number_\n    return\nat_ = 0"
        holes: dict[str, Any] = {"value_": value, "number_": constant(self.yields)}
        made = self.fill(text, s, at_=self.at, item_=self.item, place_=self.place, **holes)
        if isinstance(s, gast.Expr):
            return made
        s.value = gast.copy_location(name(self.sent), s)
        return [*made, s]

    def _yield_from(self, s) -> list[gast.stmt]:
        each = self.context.namer.fresh("item")
        loop = self.fill("for t_ in iter_:\n    yield t_", s, t_=each, iter_=s.value.value)[0]
        self.kept.append(each)
        items, made = self._for(loop, delegates=True)
        self.inner.append((self.yields, items))
        if isinstance(s, gast.Expr):
            return made
        s.value = self.expression(f"{OPERATORS}.result_of(items_)", s, items_=items)
        return [*made, s]
