"""tg.set_loop_options, tg.to_code, tg.to_graph, and what the generated code looks like."""

import ast
import contextlib
import io
import os
import subprocess
import sys

import pytest
import torch

import tograph as tg
from tests.converters import (
    test_for_stmt,
    test_if_stmt,
    test_jumps,
    test_match_stmt,
    test_try_stmt,
    test_while_stmt,
)

SHOWN = """
from tests.converters import (
    test_calls, test_comprehensions, test_conditional_expression, test_for_stmt, test_if_stmt,
    test_jumps, test_logical, test_match_stmt, test_strings, test_subscripts, test_try_stmt,
    test_variables, test_while_stmt,
)
import tograph as tg
for name, module in sorted(globals().copy().items()):
    if name.startswith("test_"):
        for case in module.cases.found:
            print(tg.to_code(case.values[0]))
"""


def grows(n):
    x = torch.zeros(1)
    i = 0
    while i < n:
        tg.set_loop_options(shape_invariants=[(x, [None])])
        x = torch.cat((x, x.new_ones(1)))
        i += 1
    return x


def limited(n):
    i = 0
    while i < n:
        tg.set_loop_options(maximum_iterations=3)
        i += 1
    return i


def violated(n):
    x = torch.zeros(2)
    while n > 0:
        tg.set_loop_options(shape_invariants=[(x, [2])])
        x = torch.cat((x, x))
        n = n - 1
    return x


def not_first(n):
    while n > 0:
        n = n - 1
        tg.set_loop_options(maximum_iterations=3)
    return n


def test_shape_invariants():
    f = tg.function(grows)
    assert f(torch.tensor(3)).tolist() == [0, 1, 1, 1]
    assert f(torch.tensor(0)).tolist() == [0]
    assert f.trace_count == 1


def test_maximum_iterations():
    f = tg.function(limited)
    assert f(torch.tensor(2)) == 2
    assert f(torch.tensor(9)) == 3


def test_violated_invariant():
    with pytest.raises(tg.errors.ShapeInvariantError, match="x") as caught:
        tg.function(violated)(torch.tensor(2))
    assert "test_directives.py" in str(caught.value)


def test_directive_must_be_first():
    with pytest.raises(tg.errors.DirectiveError) as caught:
        tg.function(not_first)(torch.tensor(2))
    assert "test_directives.py" in str(caught.value)


def unknown_option(n):
    while n > 0:
        tg.set_loop_options(bogus=3)
        n = n - 1
    return n


def no_pairs(n):
    while n > 0:
        tg.set_loop_options(3)
        n = n - 1
    return n


@pytest.mark.parametrize(
    "f, words",
    [(unknown_option, "unexpected keyword argument 'bogus'"), (no_pairs, "a list of pairs")],
)
def test_wrong_options(f, words):
    with pytest.raises(TypeError, match=words):
        tg.function(f)(torch.tensor(2))


def test_directives_outside_a_function():
    assert grows(2).tolist() == [0, 1, 1]


def all_cases():
    modules = (
        test_for_stmt,
        test_if_stmt,
        test_jumps,
        test_match_stmt,
        test_try_stmt,
        test_while_stmt,
    )
    cases = [case for module in modules for case in module.cases.found]
    return [case for case in cases if case.id.endswith("-tensor")]


@pytest.mark.parametrize("function", [pytest.param(c.values[0], id=c.id) for c in all_cases()])
def test_generated_code_has_no_plain_control_flow(function):
    tree = ast.parse(tg.to_code(function))
    generators = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and any(isinstance(m, ast.Yield) for m in ast.walk(n))
    ]
    plain = [
        ast.unparse(n)
        for n in ast.walk(tree)
        if isinstance(n, ast.If | ast.While | ast.For | ast.IfExp | ast.Match)
        and not any(n in ast.walk(g) for g in generators)
    ]
    assert plain == []


def test_same_code_for_two_hash_seeds(tmp_path):
    """This process has one; the other has another one and nothing that this one has kept."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PATH": "/usr/bin:/bin"}
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHOWN],
        env={**environment, "TOGRAPH_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(SHOWN, {})
    assert made.stdout == here.getvalue()
    assert len(made.stdout) > 10_000


def test_to_graph_runs_without_tracing():
    converted = tg.to_graph(test_while_stmt.collatz)
    assert converted(27) == 111
    assert converted(torch.tensor(27)) == 111


def test_to_code_takes_a_function_object():
    f = tg.function(test_while_stmt.collatz)
    assert "collatz" in tg.to_code(f.python_function)


def test_an_invariant_that_names_no_variable():
    def f(x, n):
        while n > 0:
            tg.set_loop_options(shape_invariants=[(x + 1, [None])])
            x = torch.cat((x, x))
            n = n - 1
        return x

    with pytest.raises(tg.errors.SignatureError, match="a variable that the loop does not change"):
        tg.function(f)(torch.ones(1), torch.tensor(2))


def test_a_negative_maximum():
    def f(n):
        i = 0
        while i < n:
            tg.set_loop_options(maximum_iterations=-1)
            i += 1
        return i

    with pytest.raises(tg.errors.InvalidArgumentError, match="must not be negative, not -1"):
        tg.function(f)(torch.tensor(2))
