"""Each thing is computed once, where that cannot be seen."""

import pytest

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.cse import cse

HEAD = "main(%x: f32[2], %r: f32[2], %p: bool, %i: int) {\n"


def body(*lines, result="%9"):
    return HEAD + "\n".join(f"  {line}" for line in lines) + f"\n  return {result}\n}}"


@pytest.mark.parametrize(
    "twice",
    [
        "f32[2] = aten.neg.default(%x)",
        "f32[2] = tg.read(%r)",
        "f32[] = aten.select.int(%x, 0, %i)",
        "f32[2] = aten.add.Tensor(%x, %x, alpha=2)",
    ],
)
def test_equal_nodes(twice):
    kind = twice.split(" ")[0]
    same(
        cse,
        body(f"%0: {twice}", f"%1: {twice}", f"%9: {kind} = aten.mul.Tensor(%0, %1)"),
        body(f"%0: {twice}", f"%9: {kind} = aten.mul.Tensor(%0, %0)"),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("aten.mul.Tensor(%x, 1)", "aten.mul.Tensor(%x, 1.0)"),
        ("aten.mul.Tensor(%x, 1)", "aten.mul.Tensor(%x, True)"),
        ("aten.mul.Tensor(%x, 0.0)", "aten.mul.Tensor(%x, -0.0)"),
        ("aten.add.Tensor(%x, %x)", "aten.add.Tensor(%x, %x, alpha=2)"),
        ("aten.neg.default(%x)", "aten.neg.default(%x) nograd"),
        ("aten.rand_like.default(%x)", "aten.rand_like.default(%x)"),
        ("aten.empty_like.default(%x)", "aten.empty_like.default(%x)"),
    ],
)
def test_different_nodes_stay(one, other):
    same(
        cse,
        body(
            f"%0: f32[2] = {one}", f"%1: f32[2] = {other}", "%9: f32[2] = aten.mul.Tensor(%0, %1)"
        ),
    )


def test_effects_stay():
    same(
        cse,
        body(
            "!0 = tg.print(%x)",
            "!1 = tg.print(%x)",
            "!2 = tg.assign(%r, %x)",
            "!3 = tg.assign(%r, %x)",
            result="%x",
        ),
    )


@pytest.mark.parametrize(
    "write", ["!1 = tg.assign(%r, %x)", "%1: object = tg.py_call(<py f>, [], 0)"]
)
def test_a_write_between_reads(write):
    same(
        cse,
        body(
            "%0: f32[2] = tg.read(%r)",
            write,
            "%2: f32[2] = tg.read(%r)",
            "%9: f32[2] = aten.mul.Tensor(%0, %2)",
        ),
    )


def test_results_that_the_caller_could_write_into_stay_two():
    twice = ["%0: f32[2] = aten.neg.default(%x)", "%1: f32[2] = aten.neg.default(%x)"]
    same(cse, body(*twice, result="%0, %1"))
    views = [
        "%2: f32[1,2] = aten.view.default(%0, [1, 2])",
        "%3: f32[1,2] = aten.view.default(%1, [1, 2])",
    ]
    same(cse, body(*twice, *views, result="%2, %3"))
    lists = ["%2: list<f32[2]> = tg.list_of(%0)", "%3: list<f32[2]> = tg.list_of(%1)"]
    same(cse, body(*twice, *lists, result="%2, %3"))
    same(
        cse,
        body(
            "%0: f32[1,2] = aten.view.default(%x, [1, 2])",
            "%1: f32[1,2] = aten.view.default(%x, [1, 2])",
            result="%0, %1",
        ),
    )
    number = ["%0: int = py.add(%i, 1)", "%1: int = py.add(%i, 1)"]
    same(cse, body(*number, result="%0, %1"), body(number[0], result="%0, %0"))


IF = """%{a}: f32[2] = If(%p, %x) {{
    then(%a: f32[2]) {{
      %{b}: f32[2] = aten.exp.default(%a){more}
      return %{b}
    }}
    orelse(%a: f32[2]) {{
      return %a
    }}
  }}"""


def test_equal_branches_merge_unless_something_happens_in_them():
    end = "%9: f32[2] = aten.mul.Tensor(%0, %1)"
    one, other = IF.format(a=0, b=5, more=""), IF.format(a=1, b=6, more="")
    same(cse, body(one, other, end), body(one, "%9: f32[2] = aten.mul.Tensor(%0, %0)"))
    effect = "\n      !{} = tg.print(%a)"
    one, other = (
        IF.format(a=0, b=5, more=effect.format(7)),
        IF.format(a=1, b=6, more=effect.format(8)),
    )
    same(cse, body(one, other, end))
    random = "\n      %{}: f32[2] = aten.rand_like.default(%a)"
    one, other = (
        IF.format(a=0, b=5, more=random.format(7)),
        IF.format(a=1, b=6, more=random.format(8)),
    )
    same(cse, body(one, other, end))


def test_an_inner_node_takes_an_outer_value():
    same(
        cse,
        body(
            "%0: f32[2] = aten.exp.default(%x)",
            IF.format(a=1, b=5, more=""),
            "%9: f32[2] = aten.mul.Tensor(%0, %1)",
        ),
        body(
            "%0: f32[2] = aten.exp.default(%x)",
            """%1: f32[2] = If(%p, %x, %0) {
    then(%a: f32[2], %b: f32[2]) {
      return %b
    }
    orelse(%a: f32[2], %b: f32[2]) {
      return %a
    }
  }""",
            "%9: f32[2] = aten.mul.Tensor(%0, %1)",
        ),
    )


def test_an_output_that_is_one_value_in_all_branches():
    made = """%1: f32[2], %2: f32[2] = If(%p, %x, %0) {
    then(%a: f32[2], %b: f32[2]) {
      return %b, %b
    }
    orelse(%a: f32[2], %b: f32[2]) {
      return %b, %a
    }
  }"""
    first = "%0: f32[2] = aten.exp.default(%x)"
    same(
        cse,
        body(first, made, "%9: f32[2] = aten.mul.Tensor(%1, %2)"),
        body(first, made, "%9: f32[2] = aten.mul.Tensor(%0, %2)"),
    )


LOOP = """{outs} = While(0, %x, %i{arg}, carried=2) {{
    cond(%j: int, %a: f32[2], %m: int{input}) {{
      %{c}: bool = py.lt(%j, %m)
      return %{c}
    }}
    body(%j: int, %a: f32[2], %m: int{input}) {{
      %{d}: int = py.add(%j, 1)
      {inside}
      return %{d}, %{e}
    }}
  }}"""


def loop(at, inside, e, arg="", input=""):
    return LOOP.format(
        outs=f"%{at}: int, %{at + 1}: f32[2]",
        arg=arg,
        input=input,
        c=at + 2,
        d=at + 3,
        inside=inside,
        e=e,
    )


def test_equal_loops_merge_and_different_ones_do_not():
    end = "%9: f32[2] = aten.mul.Tensor(%11, %21)"
    one, two = (
        loop(10, "%14: f32[2] = aten.neg.default(%a)", 14),
        loop(20, "%24: f32[2] = aten.neg.default(%a)", 24),
    )
    same(cse, body(one, two, end), body(one, "%9: f32[2] = aten.mul.Tensor(%11, %11)"))
    other = loop(20, "%24: f32[2] = aten.exp.default(%a)", 24)
    same(cse, body(one, other, end))


def test_state_of_a_loop_is_no_outer_value():
    first = "%0: f32[2] = aten.neg.default(%x)"
    end = "%9: f32[2] = aten.mul.Tensor(%0, %11)"
    same(cse, body(first, loop(10, "%14: f32[2] = aten.neg.default(%a)", 14), end))


def test_a_read_in_a_loop_that_writes_is_not_the_read_before_it():
    first = "%0: f32[2] = tg.read(%r)"
    inside = "%14: f32[2] = tg.read(%s)\n      !15 = tg.assign(%s, %a)"
    end = "%9: f32[2] = aten.mul.Tensor(%0, %11)"
    same(cse, body(first, loop(10, inside, 14, ", %r", ", %s: f32[2]"), end))
