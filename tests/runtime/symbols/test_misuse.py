"""What is said of wrong arguments of the smaller public functions."""

import logging

import pytest
import torch

import tograph as tg

errors = tg.errors
ONE = torch.tensor(1.0)
SPEC = tg.TensorSpec([], torch.float32)


def gradient_of(function):
    x = ONE.clone().requires_grad_()
    return torch.autograd.grad(tg.custom_gradient(function)(x), x)


WRONG = {
    "py_function": (lambda: tg.py_function(None, [ONE], SPEC), errors.NotAFunctionError, "'fn' of"),
    "py_inputs": (lambda: tg.py_function(abs, ONE, SPEC), errors.SignatureError, "write [x] for o"),
    "py_spec": (lambda: tg.py_function(abs, [ONE], 3), errors.SignatureError, "'out_spec' of py_"),
    "array_flags": (lambda: tg.TensorArray(torch.float32, 2, "a"), errors.SignatureError, "'dynamic_size' of TensorArray must be a bool, not 'a'"),
    "variable_flag": (lambda: tg.Variable(ONE, requires_grad="a"), errors.SignatureError, "'requires_grad' of tg.Variable must be a bool, not 'a'"),
    "variable_name": (lambda: tg.Variable(ONE, name=3), errors.SignatureError, "'name' of tg.Variable must be a str, not 3"),
    "case_index": (lambda: tg.switch_case(0, {"a": abs}), errors.SignatureError, "whole numbers from 0 on, not 'a'"),
    "eagerly": (lambda: tg.run_functions_eagerly("a"), errors.SignatureError, "'flag' of run_functions_eagerly must be a bool, not 'a'"),
    "limit": (lambda: setattr(tg.debug, "python_iteration_limit", "a"), errors.SignatureError, "tg.debug.python_iteration_limit is a number from 0 on, not 'a'"),
    "no_limit": (lambda: setattr(tg.debug, "iteration_limit", 5), AttributeError, "tg.debug has no setting 'iteration_limit'"),
    "custom_gradient": (lambda: tg.custom_gradient(None), TypeError, "'function' of custom_gradient"),
    "gradients": (
        lambda: gradient_of(lambda x: (x * 1, lambda d: (d, d))),
        errors.GradientError,
        "returned 2 gradients for 1 arguments",
    ),
    "gradient_arguments": (
        lambda: gradient_of(lambda x: (x * 1, lambda: 1)),
        TypeError,
        "takes 0 positional arguments but 1 was given",
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong(name, where):
    program, error, words = WRONG[name]
    with pytest.raises(error) as caught:
        where(program)()
    assert words in str(caught.value)


def test_the_place_of_a_wrong_gradient():
    def f(x):
        return tg.custom_gradient(lambda x: x)(x)

    with pytest.raises(errors.GradientError) as caught:
        tg.function(f)(ONE)
    assert f'File "{__file__}", line {f.__code__.co_firstlineno + 1}' in str(caught.value)


def test_false_values_of_assertions():
    for where in (lambda f: f, tg.function):
        with pytest.raises(AssertionError, match="no value"):
            where(lambda: tg.debug.assert_(None, ["no value"]))()
        where(lambda: tg.debug.assert_("text", ["no value"]))()


def test_what_is_no_function():
    with pytest.raises(errors.NotAFunctionError, match="'function' of do_not_convert"):
        tg.do_not_convert(3)
    saved = tg.function(lambda x: x + 1)
    with pytest.raises(errors.NotAFunctionError, match="is not a Python function"):
        tg.to_code(len)
    assert "x" in tg.to_code(saved)


def test_names_of_arguments_in_messages():
    with pytest.raises(TypeError, match=r"^print\(\) got an unexpected keyword argument 'bogus'"):
        tg.print(1, bogus=2)
    with pytest.raises(TypeError, match=r"^range\(\) got an unexpected keyword argument 'bogus'"):
        tg.range(1, bogus=2)


def test_texts_of_graphs():
    text = str(tg.function(lambda x: x * 2).get_concrete_function(SPEC).graph)
    assert str(tg.parse_graph(text)) == text
    with pytest.raises(errors.GraphSyntaxError, match=r"line 2 of the graph: no such op: aten.mulx.Tensor"):  # fmt: skip
        tg.parse_graph(text.replace("aten.mul", "aten.mulx"))
    with pytest.raises(TypeError, match="takes the text of a graph"):
        tg.parse_graph(None)


@pytest.mark.parametrize("level", ["a", -1, 6, 1.0])
def test_verbosity(level):
    before = logging.getLogger("tograph").level
    with pytest.raises(errors.SignatureError, match=f"a whole number from 0 to 5, not {level!r}"):
        tg.set_verbosity(level)
    assert logging.getLogger("tograph").level == before


@pytest.mark.parametrize(
    ("function", "args"),
    [(torch.sin, (ONE,)), (max, (ONE, ONE + 1)), (len, (torch.ones(3),)), (ONE.add, (ONE,))],
)
def test_built_in_functions(function, args):
    f = tg.function(function)
    assert f(*args) == function(*args) and f.trace_count == 1
