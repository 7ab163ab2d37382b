"""Control flow graphs as text: `index kind line reads writes -> successors !exceptional`."""

import textwrap

import pytest

from tograph.transpiler import cfg
from tograph.transpiler.syntax import parse_statements


def text(body, params="a, b, c"):
    source = f"def f({params}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    return cfg.build(parse_statements(source)[0]).text()


CASES = {
    "if": """
    if a:
        x = 1
    elif b: return
    c
    """,
    "while with else, break, continue": """
    while a:
        if b: break
        if c: continue
        x
    else:
        y
    z
    """,
    "while True": """
    while True:
        if a: break
    b
    """,
    "for": """
    for i, j in a:
        b
    else:
        c
    """,
    "try, handlers, else": """
    try:
        x = a
        b
    except E as e:
        y
    except:
        raise
    else:
        z
    """,
    "finally with return": """
    for i in a:
        try:
            if b: return c
            continue
        finally:
            x = 1
    y
    """,
    "with": """
    with a as x, b as (y, z):
        c
    d
    """,
    "match": """
    match a:
        case [x, *y] if b: c
        case {'k': K.v} | 1: d
        case z: e
    """,
    "conditional binding": """
    if (x := a) and (y := x):
        del x, y
    z = [(w := v) for v in x]
    """,
    "nested functions": """
    def g(x=a): return g(x + b)
    class C(c):
        def m(self): return h
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_graph(name):
    assert text(CASES[name]) == EXPECTED[name].strip()


def test_unreachable_code_is_last():
    graph = text("return a\nx = b")
    assert graph.splitlines()[-1] == "3 assign L3 reads(b) writes(x) -> 2"


def test_except_star_may_run_several_handlers():
    body = "try: a\nexcept* E: b\nexcept* F: c\nd"
    lines = text(body).splitlines()
    assert any("rest" in line for line in lines)


def test_predecessors_mirror_successors():
    body = "for i in a:\n    try:\n        b\n    finally:\n        c"
    graph = cfg.build(parse_statements(f"def f():\n{textwrap.indent(body, '    ')}")[0])
    forward = {(n.index, s.index) for n in graph.nodes for s in n.succ + n.exc}
    assert forward == {(p.index, n.index) for n in graph.nodes for p in n.pred}


EXPECTED = {
    "if": """
0 entry writes(a b c) -> 1
1 if L2 reads(a) -> 2 3
2 assign L3 writes(x) -> 5
3 if L4 reads(b) -> 4 5
4 return L4 -> 6
5 expr L5 reads(c) -> 6
6 exit L1
""",
    "while with else, break, continue": """
0 entry writes(a b c) -> 1
1 while L2 reads(a) -> 2 7
2 if L3 reads(b) -> 3 4
3 break L3 -> 8
4 if L4 reads(c) -> 5 6
5 continue L4 -> 1
6 expr L5 reads(x) -> 1
7 expr L7 reads(y) -> 8
8 expr L8 reads(z) -> 9
9 exit L1
""",
    "while True": """
0 entry writes(a b c) -> 1
1 while L2 -> 2
2 if L3 reads(a) -> 3 1
3 break L3 -> 4
4 expr L4 reads(b) -> 5
5 exit L1
""",
    "for": """
0 entry writes(a b c) -> 1
1 iter L2 reads(a) -> 2
2 for L2 -> 3 5
3 target L2 writes(i j) -> 4
4 expr L3 reads(b) -> 2
5 expr L5 reads(c) -> 6
6 exit L1
""",
    "try, handlers, else": """
0 entry writes(a b c) -> 1
1 assign L3 reads(a) writes(x) -> 2 !4
2 expr L4 reads(b) -> 3 !4
3 expr L10 reads(z) -> 11
4 except L5 reads(E) -> 5 9
5 as L5 writes(e) -> 6
6 expr L6 reads(y) -> 7 !8
7 unbind L5 deletes(e) -> 11
8 unbind L5 deletes(e) -> 11
9 except L7 -> 10
10 raise L8 -> 11
11 exit L1
""",
    "finally with return": """
0 entry writes(a b c) -> 1
1 iter L2 reads(a) -> 2
2 for L2 -> 3 10
3 target L2 writes(i) -> 4
4 if L4 reads(b) -> 5 7 !9
5 return L4 reads(c) -> 6 !9
6 assign L7 writes(x) -> 11
7 continue L5 -> 8
8 assign L7 writes(x) -> 2
9 assign L7 writes(x) -> 11
10 expr L8 reads(y) -> 11
11 exit L1
12 assign L7 writes(x) -> 2
""",
    "with": """
0 entry writes(a b c) -> 1
1 with L2 reads(a) writes(x) -> 2
2 with L2 reads(b) writes(y z) -> 3 !4
3 expr L3 reads(c) -> 5 !4
4 swallow L2 -> 5 6
5 expr L4 reads(d) -> 6
6 exit L1
""",
    "match": """
0 entry writes(a b c) -> 1
1 match L2 reads(a) -> 2
2 case L3 -> 3 6
3 capture L3 writes(x y) -> 4
4 guard L3 reads(b) -> 5 6
5 expr L3 reads(c) -> 11
6 case L4 reads(K) -> 7 8
7 expr L4 reads(d) -> 11
8 case L5 -> 9
9 capture L5 writes(z) -> 10
10 expr L5 reads(e) -> 11
11 exit L1
""",
    "conditional binding": """
0 entry writes(a b c) -> 1
1 if L2 reads(a) writes(x y) maybe(y) -> 2 4
2 delete L3 reads(x) deletes(x) -> 3
3 delete L3 reads(y) deletes(y) -> 4
4 assign L4 reads(x) writes(w z) maybe(w) -> 5
5 exit L1
""",
    "nested functions": """
0 entry writes(a b c) -> 1
1 functiondef L2 reads(a b) writes(g) late(b g) -> 2
2 classdef L3 reads(c h) writes(C) late(h) -> 3
3 exit L1
""",
}
