"""``match`` becomes a chain of ``if``; the patterns become data that an operator matches.

::

    case Point(x, 0) if x > 1: body

turns into ``found = ag__.match_case(subject, pattern)``, ``if found.matched:`` binding of the captures, then the
guard, then the body; the next case is in the ``else``. The patterns are those of ``patterns``.
"""

from __future__ import annotations

from ..transpiler.syntax import gast, walk
from ..transpiler.templates import constant
from .context import OPERATORS, Converter


class MatchStatements(Converter):
    def visit_Match(self, node):
        namer = self.context.namer
        subject = namer.fresh("subject")
        first = self.fill(
            "subject_ = value_", node, subject_=subject, value_=self.visit(node.subject)
        )
        chain: list[gast.stmt] = []
        for case in reversed(node.cases):
            chain = self._case(case, subject, chain)
        return first + chain

    def _case(self, case, subject, rest):
        found = self.context.namer.fresh("found")
        pattern = self._pattern(case.pattern)
        head = self.fill("found_ = ag.match_case(subject_, pattern_)".replace("ag.", OPERATORS + "."), case.pattern,
                         found_=found, subject_=subject, pattern_=pattern)  # fmt: skip
        names = _captures(case.pattern)
        binding = [
            self.fill(
                f"name_ = {OPERATORS}.match_captured(found_, key_)",
                case.pattern,
                name_=n,
                found_=found,
                key_=constant(n),
            )[0]
            for n in names
        ]
        body = self.block(case.body)
        if case.guard is None:
            text = "if found_.matched:\n    body_\nelse:\n    rest_"
            made = self.fill(
                text, case.pattern, found_=found, body_=binding + body, rest_=rest or [gast.Pass()]
            )
        else:
            passed = self.context.namer.fresh("passed")
            text = (
                "passed_ = False\nif found_.matched:\n    binding_\n    passed_ = guard_\n"
                "if passed_:\n    body_\nelse:\n    rest_"
            )
            made = self.fill(text, case.pattern, found_=found, passed_=passed, binding_=binding,
                             guard_=self.visit(case.guard), body_=body, rest_=rest or [gast.Pass()])  # fmt: skip
        last = made[-1]
        if not rest:
            last.orelse = []
        return head + made

    def _pattern(self, p) -> gast.expr:
        build = getattr(self, "_" + type(p).__name__)
        return build(p)

    def _op(self, p, text, **holes):
        return self.expression(f"{OPERATORS}.{text}", p, **holes)

    def _MatchValue(self, p):
        return self._op(p, "match_value(value_)", value_=p.value)

    def _MatchSingleton(self, p):
        return self._op(p, "match_singleton(value_)", value_=constant(p.value))

    def _MatchAs(self, p):
        if p.pattern is None:
            return self._op(p, "match_capture(name_)", name_=constant(p.name))
        return self._op(
            p,
            "match_as(pattern_, name_)",
            pattern_=self._pattern(p.pattern),
            name_=constant(p.name),
        )

    def _MatchOr(self, p):
        return self._op(p, "match_or(patterns_)", patterns_=[self._pattern(x) for x in p.patterns])

    def _MatchStar(self, p):
        return self._op(p, "match_star(name_)", name_=constant(p.name))

    def _MatchSequence(self, p):
        return self._op(
            p, "match_sequence(patterns_)", patterns_=[self._pattern(x) for x in p.patterns]
        )

    def _MatchMapping(self, p):
        patterns = gast.Tuple([self._pattern(x) for x in p.patterns], gast.Load())
        keys = gast.Tuple(list(p.keys), gast.Load())
        return self._op(
            p,
            "match_mapping(keys_, patterns_, rest_)",
            keys_=keys,
            patterns_=patterns,
            rest_=constant(p.rest),
        )

    def _MatchClass(self, p):
        patterns = gast.Tuple([self._pattern(x) for x in p.patterns], gast.Load())
        names = gast.Tuple([constant(n) for n in p.kwd_attrs], gast.Load())
        kwd = gast.Tuple([self._pattern(x) for x in p.kwd_patterns], gast.Load())
        return self._op(
            p,
            "match_class(cls_, patterns_, names_, kwd_)",
            cls_=p.cls,
            patterns_=patterns,
            names_=names,
            kwd_=kwd,
        )


def _captures(pattern) -> list[str]:
    names: list[str] = []
    for p in walk(pattern):
        found = getattr(p, "name", None) or getattr(p, "rest", None)
        if isinstance(found, str) and found not in names:
            names.append(found)
    return names
