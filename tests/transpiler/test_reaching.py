"""Unbound uses and definitions as text; random programs check both, and liveness, by running."""

import contextlib
import copy
import os
import random
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tograph.transpiler import analysis, reaching
from tograph.transpiler.anno import Fact, get_fact, has_fact
from tograph.transpiler.syntax import gast, parse_expression, parse_statements, to_ast


def parse(body, params="a, b, c"):
    source = f"def f({params}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    fn = parse_statements(source)[0]
    analysis.analyze_all(fn)
    return fn


def unbound(body):
    """`line:name` of each use that may be unbound, in source order."""
    marked = [n for n in gast.walk(parse(body)) if has_fact(n, Fact.MAYBE_UNBOUND)]
    marked.sort(key=lambda name: (name.lineno, name.col_offset))
    return " ".join(f"{name.lineno - 1}:{name.id}" for name in marked)


CASES = {
    "one branch": ("if a: x = 1\nx", "2:x"),
    "both branches": ("if a: x = 1\nelse: x = 2\nx", ""),
    "other branch leaves": ("if a: x = 1\nelse: return\nx", ""),
    "loop may not run": ("for i in a: x = i\ni, x", "2:i 2:x"),
    "loop else": ("for i in a:\n  if i: break\nelse: i = 0\ni", ""),
    "while": ("while a: x = 1\nx", "2:x"),
    "while true": ("while True:\n  x = 1\n  if a: break\nx", ""),
    "carried": ("for i in a:\n  if i: x\n  x = 1", "2:x"),
    "del": ("del a\na", "2:a"),
    "del twice": ("del a, a", "1:a"),
    "del in branch": ("if b: del a\na = a", "2:a"),
    "augmented": ("if a: x = 1\nx += 1\nx", "2:x"),
    "try stops anywhere": ("try:\n  x = b()\n  y = 1\nexcept E: x, y\nx", "4:x 4:y 5:x"),
    "try handler leaves": ("try: x = b()\nexcept E: return\nx", ""),
    "try else": ("try: x = b()\nexcept E: pass\nelse: x", ""),
    "finally": ("try: x = b()\nfinally: x\nx", "2:x"),
    "except name": ("try: b\nexcept E as e: e\ne", "3:e"),
    "except name shadows": ("e = 1\ntry: b\nexcept E as e: e\ne", "4:e"),
    "with may swallow": ("with a as x: y = b()\nx, y", "2:y"),
    "match": ("match a:\n  case [x]: y = 1\n  case x: y = x\nx, y", ""),
    "match may not fit": ("match a:\n  case [x]: y = 1\nx, y", "3:x 3:y"),
    "walrus": ("if (x := a) and x.y: x\nx", ""),
    "walrus that may not run": ("if a and (x := b): pass\nx", "2:x"),
    "walrus in chain": ("a < (x := b) < (y := c) < y + x\nx, y", "2:y"),
    "walrus in comprehension": ("[y for x in a if (y := x)]\ny", "2:y"),
    "conditional expression": ("(x := 1) if a else (y := 2)\nx, y", "2:x 2:y"),
    "order of dict items": ("{(x := 1): x, (y): (y := 2)}", "1:y"),
    "comprehension reads": ("if a: w = 1\n[w for v in b], (w for v in b)", "2:w 2:w"),
    "generator and del": ("w = 1\ng = (w for v in b)\ndel w", "2:w"),
    "inner function may delete": ("x = 1\ndef g():\n  nonlocal x\n  del x\nx", "5:x"),
    "inner function is analysed": ("def g():\n  if a: x = 1\n  return x", "3:x"),
    "unreachable": ("return\nx\nx = 1", ""),
    "globals are not locals": ("global x\nif a: x = 1\nx", ""),
    "raise": ("if a: x = 1\nelse: raise E\nx", ""),
    "class body": ("if a: x = 1\nclass C: y = x\nC", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_maybe_unbound(name):
    body, expected = CASES[name]
    assert unbound(body) == expected


def test_definitions():
    fn = parse("""
        x = 1
        for i in a:
            if i: x = x + 1
            else: a = x
        del x
        return a, (x := i) + x
    """)
    found = reaching.definitions(fn)
    lines = [
        f"{use.lineno - 1}:{use.id} {sorted(f'{n.kind}@{n.ast.lineno - 1}' for n in nodes)}"
        for use, nodes in sorted(found.items(), key=lambda p: (p[0].lineno, p[0].col_offset))
    ]
    assert (
        "\n".join(lines).replace("'", "")
        == textwrap.dedent("""
        2:a [entry@0]
        3:i [target@2]
        3:x [assign@1, assign@3]
        4:x [assign@1, assign@3]
        5:x [assign@1, assign@3]
        6:a [assign@4, entry@0]
        6:i [target@2]
        6:x [return@6]
    """).strip()
    )


# Random programs: a tape of small integers decides every test and failure, so a program does the
# same thing each time. A test that finds the tape at its end stops the program.

EXAMPLES = int(os.environ.get("TOGRAPH_TEST_EXAMPLES", 100))
VARS = ("u", "v", "w")


class Exhausted(BaseException):
    """The tape has ended."""


class Wrong(BaseException):
    """A use that was called bound found nothing."""


POISON = object()


def plain(value):
    """A value in a form that is equal between runs."""
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value if isinstance(value, int) else type(value).__name__


def outcome(code, tape):
    """What a program does: everything it traced, and how it ended."""
    trace, left = [], iter(tape)

    def choose():
        value = next(left, None)
        if value is None:
            raise Exhausted
        return value % 2

    def risky(value=0):
        if choose():
            raise ValueError
        return value

    def sure(load):
        try:
            return load()
        except NameError as error:
            raise Wrong from error

    def show(value):
        trace.append(plain(value))
        return value

    space = {"c": choose, "r": risky, "t": show, "sure": sure, "POISON": POISON}
    space["suppress"] = contextlib.suppress
    exec(code, space)
    try:
        show(space["f"](1))
        return trace, "value"
    except (Exception, Exhausted) as error:
        return trace, type(error)


def block(rng, depth, places):
    """The lines of a block; ``places`` says which jumps are allowed."""
    count = rng.randint(1, 4 if depth else 2)
    return [line for _ in range(count) for line in statement(rng, depth, places)]


def indented(header, lines):
    return [header, *("    " + line for line in lines)]


def simple(rng, places):
    x, y, z = (rng.choice(VARS) for _ in range(3))
    choices = [
        *(f"{x} = {y}", f"{x} = 1", f"{x} = r({y})", f"{x} += 1", f"t({x})", f"del {x}"),
        *(f"{x}, {y} = {y}, {z}", f"t(c() and ({x} := 2))", f"t(({x} := c()) or {x} or {y})"),
        *(f"t([{x} for i in range(c()) if ({y} := 1)])", f"t([i for i in range({x})])"),
        *(f"t(({x} := 3) if c() else {y})", f"g = lambda: {x}", "t(g())", f"del {x}, {y}"),
        *(f"g = ({x} for i in (1, 2))", "t(list(g))", "raise ValueError", f"{x}: int"),
        *(f"return {x}", *(places if rng.random() < 0.5 else ())),
    ]
    return [rng.choice((choices))]


def statement(rng, depth, places):
    """The lines of one statement."""
    kinds = "simple simple simple if loop true try finally with match def class".split()
    kind = rng.choice(kinds) if depth else "simple"
    x, y = rng.choice(VARS), rng.choice(VARS)
    if kind == "simple":
        return simple(rng, places)
    body, more = block(rng, depth - 1, places), block(rng, depth - 1, places)
    if kind == "if":
        test = rng.choice(["c()", f"({x} := c())", f"c() and ({x} := 1)", f"{x} == 1"])
        return indented(f"if {test}:", body) + (indented("else:", more) if more[1:] else [])
    if kind in ("loop", "true"):
        inside = block(rng, depth - 1, ("break", "continue"))
        if kind == "true":
            return indented("while True:", ["c()", *inside])
        header = rng.choice(["while c():", f"for {x} in (1, 2):"])
        return indented(header, inside) + (indented("else:", more) if rng.random() < 0.5 else [])
    if kind == "try":
        header = rng.choice(["except ValueError:", f"except Exception as {x}:"])
        lines = indented("try:", body) + indented(header, more)
        return lines + (
            indented("else:", block(rng, depth - 1, places)) if rng.random() < 0.5 else []
        )
    if kind == "finally":  # no continue: it could hide the end of the tape for ever
        last = block(rng, depth - 1, tuple(p for p in places if p != "continue"))
        return indented("try:", body) + indented("finally:", last)
    if kind == "with":
        return indented(f"with suppress(Exception) as {x}:", body)
    if kind == "match":
        arms = indented(f"case {y} if c():", body) + indented("case 1:", more)
        return indented(f"match {x}:", arms)
    if kind == "class":
        return indented("class g:", [f"{x} = {y}", f"t({x})"])
    change = rng.choice([f"{x} = 5", f"{x} += 1", f"del {x}"])
    local = rng.choice([[f"nonlocal {x}", change], [f"{x} = 1"], []])
    return indented("def g():", [*local, f"return {x}"])


def program(seed):
    """The source of a function f(u) over the names u, v, w and g."""
    declare = [
        "if c() or c() or c():",
        *(f"    {name} = 0" for name in VARS),
    ]  # makes every name local
    return "\n".join(indented("def f(u):", declare + block(random.Random(seed), 3, ())))


programs = st.integers(0, 2**32).map(program)
tapes = st.lists(st.integers(0, 5), min_size=5, max_size=40)


class Checked(gast.NodeTransformer):
    """Loads every use that is not marked by way of ``sure``; other scopes stay as they are."""

    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        if not isinstance(node.ctx, gast.Load) or node.id not in self.names:
            return node
        if get_fact(node, Fact.MAYBE_UNBOUND, False):
            return node
        return parse_expression(f"sure(lambda: {node.id})")

    def visit_FunctionDef(self, node):
        return node

    visit_ClassDef = visit_Lambda = visit_FunctionDef

    def visit_AugAssign(self, node):
        return self.before(node, [node.target])

    def visit_Delete(self, node):
        return self.before(node, node.targets)

    def before(self, node, targets):
        sure = [t for t in targets if not get_fact(t, Fact.MAYBE_UNBOUND, False)]
        checks = "".join(f"sure(lambda: {t.id})\n" for t in sure)
        return [*parse_statements(checks), self.generic_visit(node)]


@given(programs, tapes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_what_is_called_bound_is_bound(source, tape):
    fn = parse_statements(source)[0]
    checked = Checked(analysis.analyze_all(fn).locals)
    fn.body = [part for s in fn.body for part in as_list(checked.visit(s))]
    module = to_ast(gast.Module(body=[fn], type_ignores=[]))
    assert outcome(compile(module, "checked", "exec"), tape) == outcome(source, tape)


def as_list(result):
    return result if isinstance(result, list) else [result]


class Poison(gast.NodeTransformer):
    """Gives every name that is dead after a statement, or at a loop test, a poisoned value."""

    def __init__(self, names):
        self.names = names

    def poison(self, live):
        dead = sorted(self.names - live)
        return parse_statements("".join(f"{name} = POISON\n" for name in dead))

    def block(self, stmts):
        out = []
        for stmt in stmts:
            out.append(self.visit(stmt))
            if not isinstance(stmt, gast.Nonlocal | gast.Global):
                out += self.poison(get_fact(stmt, Fact.LIVE_OUT))
        return out

    def generic_visit(self, node):
        bound = {node.target.id} if isinstance(node, gast.For) else set()
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            old = getattr(node, field, None)
            if isinstance(old, list) and old:
                nested = field in ("handlers", "cases")
                new = [self.visit(part) for part in old] if nested else self.block(old)
                if isinstance(node, gast.For | gast.While) and field == "body":
                    new = self.poison(get_fact(node, Fact.LIVE_IN_HEAD) | bound) + new
                setattr(node, field, new)
        return node

    def visit_FunctionDef(self, node):
        return node

    visit_ClassDef = visit_FunctionDef


@given(programs, tapes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_killing_dead_names_changes_nothing(source, tape):
    fn = parse_statements(source)[0]
    names = analysis.analyze_all(fn).locals - {"e"}  # the handlers' name unbinds itself
    poisoned = copy.deepcopy(fn)
    poisoned.body = Poison(names).block(poisoned.body)
    module = to_ast(gast.Module(body=[poisoned], type_ignores=[]))
    assert outcome(compile(module, "poisoned", "exec"), tape) == outcome(source, tape)
