"""``cond``, ``switch_case`` and ``while_loop``: callables of every kind, and what is said of wrong arguments."""

import functools

import pytest
import torch

import tograph as tg

ZERO, THREE = torch.tensor(0), torch.tensor(3)
errors = tg.errors


def halved(x):
    if x > 2:
        return x // 2
    return x


class Halved:
    def __call__(self, x):
        return halved(x)


@pytest.mark.parametrize(
    "form", [halved, functools.partial(halved), Halved(), Halved().__call__, lambda x: halved(x)]
)
def test_functions_of_the_module_are_converted(form):
    either = tg.function(lambda x: tg.cond(x > 0, functools.partial(form, x), lambda: x))
    assert either(torch.tensor(8)) == 4 and either(torch.tensor(1)) == 1
    chosen = tg.function(lambda x: tg.switch_case(x % 2, [functools.partial(form, x), lambda: x]))
    assert chosen(torch.tensor(8)) == 4
    loop = tg.function(lambda x: tg.while_loop(lambda v: v > 2, form, (x,)))
    assert loop(torch.tensor(20)) == (torch.tensor(2),)
    assert torch.equal(tg.function(lambda x: tg.map_fn(form, x))(torch.arange(5)),
                       torch.tensor([0, 1, 2, 1, 2]))  # fmt: skip


def test_built_in_functions():
    f = tg.function(lambda x: tg.foldl(max, x))
    assert f(torch.tensor([1.0, 5.0, 2.0])) == 5


MISTAKES = {
    "cond_function": (
        lambda x: tg.cond(x > 0, 1, lambda: 2),
        errors.NotAFunctionError,
        "'true_fn' of cond must be callable, not 1",
    ),
    "cond_none": (
        lambda x: tg.cond(x > 0, lambda: 1, None),
        errors.NotAFunctionError,
        "'false_fn' of cond must be callable, not None",
    ),
    "case_float": (
        lambda x: tg.switch_case(x * 1.5, [lambda: 1, lambda: 2]),
        errors.SignatureError,
        "'branch_index' of switch_case must be a whole number",
    ),
    "case_many": (
        lambda x: tg.switch_case(torch.stack([x, x]), [lambda: 1]),
        errors.SignatureError,
        "not a torch.int64 tensor of shape (2,)",
    ),
    "case_branches": (
        lambda x: tg.switch_case(x, 3),
        errors.SignatureError,
        "'branch_fns' of switch_case must be a list, tuple or dict of functions, not 3",
    ),
    "case_branch": (
        lambda x: tg.switch_case(x, [lambda: 1, 2]),
        errors.NotAFunctionError,
        "'branch_fns[1]' of switch_case must be callable, not 2",
    ),
    "case_default": (
        lambda x: tg.switch_case(x, [lambda: 1], default=5),
        errors.NotAFunctionError,
        "'default' of switch_case must be callable, not 5",
    ),
    "while_cond": (
        lambda x: tg.while_loop(True, lambda v: v, (x,)),
        errors.NotAFunctionError,
        "'cond' of while_loop must be callable, not True",
    ),
    "while_body": (
        lambda x: tg.while_loop(lambda v: v < 3, x, (x,)),
        errors.NotAFunctionError,
        "'body' of while_loop must be callable",
    ),
    "while_no_condition": (
        lambda x: tg.while_loop(lambda v: None, lambda v: v + 1, (x,)),
        errors.StructureError,
        "the cond of while_loop returned None",
    ),
    "while_condition_of_a_tuple": (
        lambda x: tg.while_loop(lambda v: (v < 3,), lambda v: v + 1, (x,)),
        errors.StructureError,
        "the cond of while_loop returned a tuple",
    ),
    "while_vars": (
        lambda x: tg.while_loop(lambda v: v < 3, lambda v: v + 1, x),
        errors.StructureError,
        "must be a list or tuple of values, not a",
    ),
    "while_invariants": (
        lambda x: tg.while_loop(
            lambda v: v < 3, lambda v: v + 1, (x,), shape_invariants=[None, None]
        ),
        errors.ShapeInvariantError,
        "for each of the 1 loop_vars, not 2",
    ),
    "while_limit": (
        lambda x: tg.while_loop(lambda v: v < 3, lambda v: v + 1, (x,), maximum_iterations=1.5),
        errors.SignatureError,
        "'maximum_iterations' of a loop must be a whole number or a tensor of one, not 1.5",
    ),
    "while_parallel": (
        lambda x: tg.while_loop(lambda v: v < 3, lambda v: v + 1, (x,), parallel_iterations=0),
        errors.InvalidArgumentError,
        "'parallel_iterations' must be a positive integer, not 0",
    ),
}


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, where):
    program, error, words = MISTAKES[name]
    with pytest.raises(error) as caught:
        where(program)(ZERO)
    assert words in str(caught.value)


def test_an_invariant_that_the_variable_does_not_have_at_first():
    @tg.function
    def f(n):
        x = torch.ones(2)
        for _ in tg.range(n):
            tg.set_loop_options(shape_invariants=[(x, [3])])
            x = x + 1
        return x

    words = r"'x' has shape \(2,\) before the loop, which does not conform with the shape invariant \(3,\)"
    with pytest.raises(errors.ShapeInvariantError, match=words):
        f(THREE)
    with pytest.raises(errors.ShapeInvariantError, match=r"has shape \(\) before the loop"):
        tg.function(
            lambda x: tg.while_loop(lambda v: v < 3, lambda v: v + 1, (x,), shape_invariants=[[3]])
        )(ZERO)


def test_a_limit_counts_the_iterations_before_the_first_staged_one():
    @tg.function
    def f(x):
        return tg.while_loop(lambda i: i < 10, lambda i: i + x, (0,), maximum_iterations=3)

    assert f(torch.tensor(1)) == (3,)


def test_limits_of_loop_statements():
    @tg.function
    def f(n, limit):
        s = 0
        for i in tg.range(n):
            tg.set_loop_options(maximum_iterations=limit)
            s = s + i
        return s

    assert f(torch.tensor(5), torch.tensor(3)) == 3
    assert f(torch.tensor(5), 2) == 1
    with pytest.raises(errors.SignatureError, match="'maximum_iterations' of a loop must be"):
        f(torch.tensor(5), 2.5)
