"""Scopes as text: a function in, one line a fact out."""

import copy
import textwrap

import pytest

from tograph.transpiler import scope
from tograph.transpiler.anno import Fact, copy_facts, drop_fact, get_fact, has_fact, set_fact
from tograph.transpiler.syntax import gast, parse_expression, parse_statements, to_ast


def parse(source):
    return parse_statements(textwrap.dedent(source))[0]


def names(source, *parts):
    """The chosen parts of the scope, as `part: sorted names` lines."""
    shown = str(scope.analyze(parse(source))).splitlines()
    return [line for line in shown if line.split(":")[0] in parts]


BINDINGS = """
    def f(a, /, b, *c, d=D, **e):
        g = h.x = 1
        i += 1
        j: int = 2
        k: int
        for l, (m, *n) in []: pass
        with o as p, q as (r, s): pass
        try: pass
        except E as t: pass
        import u.v, w as x
        from y import z
        def aa(): bb = 1
        class cc: dd = 1
        del ee
        (ff := [(gg := hh) for hh in ii])
        match jj:
            case {"k": kk, **ll}: pass
            case [mm, *nn] as oo: pass
            case C(pp, q=qq): pass
"""


def test_every_binding_form():
    got = names(BINDINGS, "params", "bound", "free")
    assert got == [
        "params: a b c d e",
        "bound: a aa b c cc d e ee ff g gg i j k kk l ll m mm n nn oo p pp qq r s t u x z",
        "free: C E h ii jj o q",
    ]


def test_bound_of_statements():
    fn = parse(BINDINGS)
    scope.analyze(fn)
    got = [" ".join(sorted(get_fact(stmt, Fact.BOUND))) for stmt in fn.body]
    assert got == [
        *("g", "i", "j", "", "l m n", "p r s", "t", "u x", "z", "aa", "cc", "ee", "ff gg"),
        "kk ll mm nn oo pp qq",
    ]


def test_captured_and_free():
    source = """
    def f(a, b, c, d, k):
        def g(x=a):
            nonlocal d
            global w
            d = w = b
            return lambda: c + free + x
        return sum(k for _ in g)
    """
    got = names(source, "captured_by_inner", "captured_late", "free", "outward")
    assert got == [
        "free: free sum w",
        "captured_by_inner: b c d k",
        "captured_late: b c d k",
        "outward: free sum",
    ]
    inner = parse(source)
    scope.analyze(inner)
    assert str(get_fact(inner.body[0], Fact.SCOPE)).splitlines() == [
        "params: x",
        "bound: d w x",
        "declared_global: w",
        "declared_nonlocal: d",
        "read: b",
        "free: b c d free w",
        "captured_by_inner: x",
        "captured_apart: x",
        "captured_late: x",
        "late: c free x",
        "outward: b c d free",
    ]


def test_explicit_global_below_is_not_a_capture():
    source = """
    def f(x):
        def g():
            global x
            return x
        return g
    """
    assert names(source, "captured_by_inner") == []


@pytest.mark.parametrize(
    ("expression", "read", "captured", "late"),
    [
        ("[v + a for v in b if c]", "a b c", "a c", ""),
        ("{v: a for v in b for w in v + c}", "a b c", "a c", ""),
        ("(v + a for v in b)", "a b", "a", "a"),
        ("[lambda: v + a for v in b]", "b", "a", "a"),
        ("[[a for v in c] for v in b]", "a b c", "a c", ""),
        ("[v for v in v]", "v", "", ""),
        ("lambda v: v + a", "", "a", "a"),
        ("lambda v=a: v", "a", "", ""),
    ],
)
def test_comprehensions_and_lambdas(expression, read, captured, late):
    got = scope.analyze(parse(f"def f(a, b, c, v): return {expression}"))
    assert " ".join(sorted(got.read)) == read
    assert " ".join(sorted(got.captured_by_inner)) == captured
    assert " ".join(sorted(got.captured_late)) == late


def test_class_body():
    source = """
    def f(a, b, c, d, e):
        class C(a):
            b = 1
            d = c + b
            def m(self): return b + e
            n = [d for _ in c]
        return C
    """
    got = names(source, "bound", "captured_by_inner", "captured_late", "read")
    assert got == [
        "bound: C a b c d e",
        "read: C a",
        "captured_by_inner: b c d e",
        "captured_late: b e",
    ]


def test_nonlocal_in_class_and_deleting_inner():
    source = """
    def f():
        x = y = 1
        class C:
            nonlocal x
            x = 2
        def g():
            nonlocal y
            del y
    """
    got = names(source, "captured_late", "deleted_by_inner")
    assert got == ["captured_late: x y", "deleted_by_inner: y"]


@pytest.mark.parametrize(
    ("body", "has_yield", "uses_frame"),
    [
        ("yield 1", True, False),
        ("x = lambda: (yield)", False, False),
        ("x = [(await y) for y in z]", True, False),
        ("async with a: pass", True, False),
        ("async for a in b: pass", True, False),
        ("def g(): yield; locals()", False, False),
        ("return locals()['x']", False, True),
        ("return self.eval(x)", False, False),
    ],
)
def test_yield_and_frame(body, has_yield, uses_frame):
    fn = parse(f"async def f():\n {body}")
    got = scope.analyze(fn)
    assert (got.has_yield, got.uses_frame) == (has_yield, uses_frame)
    assert get_fact(fn.body[0], Fact.HAS_YIELD) == has_yield


def test_jumps():
    source = """
    def f():
        for x in y:
            while x:
                if a: break
                else: continue
            else:
                break
            try:
                if b: return
            finally:
                continue
    """
    fn = parse(source)
    scope.analyze(fn)
    got = [
        f"{stmt.lineno - 1} {type(stmt).__name__} {' '.join(sorted(get_fact(stmt, Fact.JUMPS)))}"
        for stmt in gast.walk(fn)
        if isinstance(stmt, gast.For | gast.While | gast.If | gast.Try)
    ]
    assert sorted(got) == [
        "2 For return",
        "3 While break",
        "4 If break continue",
        "8 Try continue return",
        "9 If return",
    ]


def test_names_of_pieces():
    stmts = parse_statements("a = b\nif c:\n    del d\ndef g(x=e): return x + h\n[i for i in j]")
    assert sorted(scope.names_bound(stmts)) == ["a", "d", "g"]
    assert sorted(scope.names_read(stmts)) == ["b", "c", "d", "e", "h", "j"]
    assert sorted(scope.names_read(parse_expression("x + [y for _ in z][w]"))) == list("wxyz")
    assert not any(has_fact(node, fact) for node in gast.walk(stmts[2]) for fact in Fact)


def test_facts_survive_deepcopy_and_are_no_fields():
    fn = parse("def f(a): return a")
    plain = gast.dump(fn)
    scope.analyze(fn)
    other = copy.deepcopy(fn)
    assert get_fact(other, Fact.SCOPE) is get_fact(fn, Fact.SCOPE)
    set_fact(other, Fact.SCOPE, None)
    assert get_fact(fn, Fact.SCOPE) is not None
    copy_facts(fn, other)
    drop_fact(fn, Fact.SCOPE)
    assert has_fact(other, Fact.SCOPE) and get_fact(fn, Fact.SCOPE, default=3) == 3
    with pytest.raises(KeyError, match="FunctionDef node has no fact SCOPE"):
        get_fact(fn, Fact.SCOPE)
    assert gast.dump(other) == plain
    assert "facts" not in repr(vars(to_ast(other)))
