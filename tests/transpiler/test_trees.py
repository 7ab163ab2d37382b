"""Trees go from Python's form to gast's and back as by gast's own translators, with the same positions."""

import ast
import dataclasses
import typing
from pathlib import Path

import gast
import pytest

from tograph.transpiler import syntax
from tograph.transpiler.syntax import children, from_ast, to_ast
from tograph.transpiler.templates import fill_expression

EVERYTHING = '''
import os.path as p, sys
from . import a as b
@deco(1)
class C(Base, metaclass=M):
    x: int = 1
    y: "str"
    def f(self, a, /, b: int, *rest: str, c=1, d, **more: dict) -> None:
        """Says what."""
        global g
        nonlocal_ = lambda q, *w, e=2, **r: (q, *w, r)
        try:
            yield from [i async for i in x if i]
        except (ValueError, KeyError) as error:
            raise X from error
        except:
            pass
        else:
            del a.b, c[0], d[1:2, ::3]
        finally:
            return
    async def g(self):
        async with a as b, c: await d
        async for x in y: continue
        else: x @= 3
while not x < y <= z is not None: break
else: assert (y := f(x)), f"{x!r:>{width}} {y}"
with open("f") as f, g: print(f"{f=}", end=...)
match x:
    case [1, *rest] | {"k": v, **more} if v: pass
    case C(1, a=2) as c: pass
    case None | _: pass
x, *y = {**a, "b": 1}, {1, 2}, {k: v for k, v in z}, {i for i in z}, (j for j in z)
z = a if b else c or d and not e
s = 1j + 0xFF ** -2.5 // ~3, "text", b"bytes", u"u"
'''


@pytest.mark.parametrize("source", [EVERYTHING, dataclasses, typing], ids=["all", "dataclasses", "typing"])  # fmt: skip
def test_both_ways(source):
    tree = ast.parse(source if isinstance(source, str) else Path(source.__file__).read_text())
    there, wanted = from_ast(tree), gast.ast_to_gast(tree)
    assert gast.dump(there, include_attributes=True) == gast.dump(wanted, include_attributes=True)
    for node in gast.walk(wanted):
        if isinstance(node, (gast.Call, gast.Name, gast.Attribute)):  # as what templates make
            for field in node._attributes:
                delattr(node, field) if isinstance(node, gast.Call) else setattr(node, field, None)
    back, own = to_ast(wanted), ast.fix_missing_locations(gast.gast_to_ast(wanted))
    assert ast.dump(back, include_attributes=True) == ast.dump(own, include_attributes=True)


def test_what_fills_a_hole_is_placed_once(monkeypatch):
    """Templates in templates, as of a long sum: each part gets its position by its own template, and is not looked through by those around it."""
    looked = []
    monkeypatch.setattr(syntax, "children", lambda node: looked.append(node) or children(node))
    origin = syntax.parse_expression("x + y")
    made = fill_expression("x", origin)
    for _ in range(200):
        made = fill_expression("f(a_, b)", origin, a_=made)
    assert len(looked) < 200 * 5
    nodes = list(syntax.walk(made))
    assert len(nodes) == 1 + 200 * 3
    assert {(n.lineno, n.end_col_offset) for n in nodes} == {(1, 5)}
