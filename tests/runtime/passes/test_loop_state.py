"""Loops carry what changes, once."""

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.loop_state import loop_state

LOOP = """main(%n: int, %x: f32[2], %y: f32[2]) {{
  {outs} = While({args}, carried={count}) {{
    cond({inputs}) {{
      %3: bool = py.lt(%i, %m)
      return %3
    }}
    body({inputs}) {{
      {body}
      return {results}
    }}
  }}
  %9: f32[2] = {end}
  return %9
}}"""
STEP = "%4: int = py.add(%i, 1)"


def test_state_that_never_changes():
    same(
        loop_state,
        LOOP.format(
            outs="%0: int, %1: f32[2], %2: f32[2]",
            args="0, %x, %y, %n",
            count=3,
            inputs="%i: int, %a: f32[2], %b: f32[2], %m: int",
            body=STEP + "\n      %5: f32[2] = aten.add.Tensor(%a, %b)",
            results="%4, %5, %b",
            end="aten.add.Tensor(%1, %2)",
        ),
        LOOP.format(
            outs="%0: int, %1: f32[2]",
            args="0, %x, %n, %y",
            count=2,
            inputs="%i: int, %a: f32[2], %m: int, %b: f32[2]",
            body=STEP + "\n      %5: f32[2] = aten.add.Tensor(%a, %b)",
            results="%4, %5",
            end="aten.add.Tensor(%1, %y)",
        ),
    )


def test_two_counters_are_one():
    same(
        loop_state,
        LOOP.format(
            outs="%0: int, %1: int, %2: f32[2]",
            args="0, 0, %y, %n",
            count=3,
            inputs="%i: int, %j: int, %b: f32[2], %m: int",
            body=STEP
            + "\n      %5: int = py.add(%j, 1)\n      %6: f32[2] = aten.mul.Tensor(%b, %j)",
            results="%4, %5, %6",
            end="aten.mul.Tensor(%2, %1)",
        ),
        LOOP.format(
            outs="%0: int, %2: f32[2]",
            args="0, %y, %n",
            count=2,
            inputs="%i: int, %b: f32[2], %m: int",
            body=STEP
            + "\n      %5: int = py.add(%i, 1)\n      %6: f32[2] = aten.mul.Tensor(%b, %i)",
            results="%4, %6",
            end="aten.mul.Tensor(%2, %0)",
        ),
    )


def test_different_states_stay():
    for start, step in [
        ("1", "py.add(%j, 1)"),
        ("0", "py.add(%j, 2)"),
        ("0.0", "py.add(%j, 1)"),
        ("0", "py.add(%i, %j)"),
    ]:
        kind = "float" if "." in start else "int"
        same(
            loop_state,
            LOOP.format(
                outs=f"%0: int, %1: {kind}, %2: f32[2]",
                args=f"0, {start}, %y, %n",
                count=3,
                inputs=f"%i: int, %j: {kind}, %b: f32[2], %m: int",
                body=STEP
                + f"\n      %5: {kind} = {step}\n      %6: f32[2] = aten.mul.Tensor(%b, %j)",
                results="%4, %5, %6",
                end="aten.mul.Tensor(%2, %1)",
            ),
        )


def test_swapped_and_random_states_stay():
    head = dict(outs="%0: int, %1: f32[2], %2: f32[2]", args="0, %x, %y, %n", count=3,
                inputs="%i: int, %a: f32[2], %b: f32[2], %m: int", end="aten.add.Tensor(%1, %2)")  # fmt: skip
    same(loop_state, LOOP.format(body=STEP, results="%4, %b, %a", **head))
    head["args"] = "0, %x, %x, %n"
    noise = "\n      %5: f32[2] = aten.rand_like.default(%a)\n      %6: f32[2] = aten.rand_like.default(%b)"
    same(loop_state, LOOP.format(body=STEP + noise, results="%4, %5, %6", **head))
