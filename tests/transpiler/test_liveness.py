"""Live names as text (test_reaching.py checks them by execution, on its random programs)."""

import textwrap

import pytest

from tograph.transpiler import analysis
from tograph.transpiler.anno import Fact, get_fact, has_fact
from tograph.transpiler.syntax import gast, parse_statements


def facts(body, params="a, b, c"):
    """`line kind: live out | live at the head` for each statement, in source order."""
    source = f"def f({params}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    fn = parse_statements(source)[0]
    analysis.analyze_all(fn)
    found = []
    for stmt in gast.walk(fn):
        if has_fact(stmt, Fact.LIVE_OUT):
            text = f"{stmt.lineno - 1} {type(stmt).__name__}:"
            text += "".join(f" {name}" for name in sorted(get_fact(stmt, Fact.LIVE_OUT)))
            if has_fact(stmt, Fact.LIVE_IN_HEAD):
                text += " | " + " ".join(sorted(get_fact(stmt, Fact.LIVE_IN_HEAD)))
            found.append((stmt.lineno, stmt.col_offset, text))
    return "\n".join(text for _, _, text in sorted(found))


CASES = {
    "branch that returns": (
        """
        if a:
            x = 1
            return b
        x = 2
        return x + c
        """,
        """
        1 If: c
        2 Assign: b
        3 Return:
        4 Assign: c x
        5 Return:
        """,
    ),
    "loop with break, else": (
        """
        while a:
            x = b
            if x: break
            y = x
        else:
            x = c
        return x
        """,
        """
        1 While: x | a b c
        2 Assign: a b c x
        3 If: a b c x
        3 Break: x
        4 Assign: a b c
        6 Assign: x
        7 Return:
        """,
    ),
    "for carries": (
        """
        s = 0
        for i in a:
            t = s + i
            s = t
        return s, i
        """,
        """
        1 Assign: a i s
        2 For: i s | i s
        3 Assign: i t
        4 Assign: i s
        5 Return:
        """,
    ),
    "try and handler": (
        """
        x = 1
        try:
            x = a()
            x = b(x)
        except E as e:
            return x, e
        return c
        """,
        """
        1 Assign: a b c x
        2 Try: c
        3 Assign: b c x
        4 Assign: c x
        6 Return:
        7 Return:
        """,
    ),
    "return through finally": (
        """
        try:
            x = 1
            return a
        finally:
            c(x)
        """,
        """
        1 Try:
        2 Assign: a c x
        3 Return: c x
        5 Expr:
        """,
    ),
    "with may swallow": (
        """
        x = 1
        with a:
            x = b()
        return x
        """,
        """
        1 Assign: a b x
        2 With: x
        3 Assign: x
        4 Return:
        """,
    ),
    "del and walrus": (
        """
        del a
        if (x := b) and (y := c):
            return x
        y = 1
        """,
        """
        1 Delete: b c
        2 If:
        3 Return:
        4 Assign:
        """,
    ),
    "closures keep names alive, from their definition on": (
        """
        x = 1
        x = 2
        g = lambda: x
        x = 3
        y = [x for _ in a if b]
        return g
        """,
        """
        1 Assign: a b
        2 Assign: a b x
        3 Assign: a b g x
        4 Assign: a b g x
        5 Assign: g x
        6 Return: x
        """,
    ),
    "match": (
        """
        match a:
            case [x] if x: y = x
            case _: y = b
        return y
        """,
        """
        1 Match: y
        2 Assign: y
        3 Assign: y
        4 Return:
        """,
    ),
    "global": (
        """
        global g
        g = 1
        x = 2
        """,
        """
        1 Global: g
        2 Assign: g
        3 Assign: g
        """,
    ),
    "frame": (
        """
        x = 1
        return locals()
        """,
        """
        1 Assign: a b c x
        2 Return: a b c x
        """,
    ),
    "class body and nested function": (
        """
        class C(a):
            x = b
            def m(self, q):
                q = 1
                return c
        return 1
        """,
        """
        1 ClassDef: c
        4 Assign:
        5 Return:
        6 Return: c
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_live(name):
    body, expected = CASES[name]
    assert facts(body) == textwrap.dedent(expected).strip()
