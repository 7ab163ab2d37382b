"""Wrong programs, one for each kind of mistake: what their messages must say.

Each program is a function with the line of the mistake marked ``# <-``. Its message has to have the type that is
given, name this file and that line, show the source of the line, and hold the words: the variable and the advice.
"""

import dataclasses
import io
import json
import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tograph as tg

ONE, THREE, GRID = torch.tensor(1.0), torch.ones(3), torch.ones(2, 3)
OUTSIDE = torch.ones(3)
NO_VALUE = "known only when the graph runs"
PROGRAMS = []
OPTIONS = {}
LoopTypeError = tg.errors.LoopTypeError


def wrong(error, *words, args=(ONE,), line=True):
    """A program, the type of its error, what the message must say, and the arguments to call it with."""

    def add(function):
        PROGRAMS.append(pytest.param(function, error, words, args, line, id=function.__name__))
        return function

    return add


def shown(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def marked_line(function):
    code = function.__code__
    with open(__file__) as file:
        lines = file.read().splitlines()
    number = next(n for n in range(code.co_firstlineno, len(lines)) if "# <-" in lines[n])
    return number + 1, lines[number].split("# <-")[0].strip()


def check(function, error, words, args, line):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error) as caught:
            tg.function(function)(*args)
    text = shown(caught.value)
    number, source = marked_line(function)
    places = [f'File "{__file__}", line {number}', source] if line else []
    assert [part for part in (*places, *words) if part not in text] == [], text


# ---- texts and iterators


@wrong(
    TypeError,
    "not enough arguments for format string",
    "(%1,)) ^%1 of 'a_text_with_too_few_values'\n  with %1: int",
)
def a_text_with_too_few_values(x):
    form = "%d %d"
    return form % (int(x),)  # <-


@wrong(StopIteration, "where it is an iterator")
def an_iterator_without_items(x):
    it = iter([x])
    next(it)
    return next(it)  # <-


# ---- shapes


@wrong(RuntimeError, "total is float32 tensor of shape [2, 3]", "y is float32 tensor of shape [2]", "equal or 1", args=(GRID, torch.ones(2)))  # fmt: skip
def shapes_that_do_not_broadcast(x, y):
    total = x * 2
    return total + y  # <-


@wrong(RuntimeError, "stack expects each tensor to be equal size, but got [] at entry 0 and [2] at entry 1", args=(ONE, torch.ones(2)))  # fmt: skip
def a_stack_of_unlike_tensors(x, y):
    return torch.stack([x, y])  # <-


@wrong(RuntimeError, "zero-dimensional tensor (at position 0) cannot be concatenated")
def scalars_that_are_joined(x):
    return torch.cat([x, x])  # <-


@wrong(ValueError, "only one element tensors can be converted to Python scalars", args=(THREE,))
def an_int_of_several(x):
    return int(x)  # <-


@wrong(TypeError, "only integer tensors of a single element can be converted to an index")
def a_list_at_a_float_tensor(x):
    return [1, 2, 3][x]  # <-


@wrong(TypeError, "'Tensor' object does not support the context manager protocol")
def a_tensor_as_a_context(x):
    with x:  # <-
        return x


@wrong(TypeError, "'<' not supported between instances of 'int' and 'str'", args=(torch.tensor(3),))
def a_loop_that_turns_its_bound_into_text(x):
    i = 0
    while i < x:  # <-
        i = i + 1
        x = str(i)
    return x


@wrong(RuntimeError, "weight is float32 tensor of shape [2, 3]", "transpose", args=(GRID, GRID))
def matrices_that_do_not_fit(x, weight):
    return x @ weight  # <-


@wrong(RuntimeError, "x is float32 tensor of shape [2, 3, 4]", ".mT", args=(torch.ones(2, 3, 4),))
def batches_that_do_not_fit(x):
    return torch.bmm(x, x)  # <-


@wrong(
    RuntimeError, "y is float32 tensor of shape [3]", "unsqueeze", "torch.stack", args=(GRID, THREE)
)
def joined_ranks(x, y):
    return torch.cat([x, y])  # <-


@wrong(RuntimeError, "x is", "pad", args=(THREE,))
def stacked_sizes(x):
    return torch.stack([x, x[:2]])  # <-


@wrong(RuntimeError, "x is float32 tensor of shape [3]", "number of elements", args=(THREE,))
def reshaped_to_another_size(x):
    return x.reshape(2, 2)  # <-


@wrong(IndexError, "x is float32 tensor of shape [3]", "fewer dimensions", args=(THREE,))
def dimension_that_is_not_there(x):
    return x.sum(dim=2)  # <-


LAYER = torch.nn.Linear(4, 2)


@wrong(
    RuntimeError,
    "LAYER is Linear(in_features=4",
    "x is float32 tensor of shape [2, 3]",
    "in_features",
    args=(GRID,),
)
def layer_of_another_size(x):
    return LAYER(x)  # <-


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 5), torch.nn.Linear(4, 2)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.second(hidden)


NET = Net()


@wrong(RuntimeError, "in forward  *", "return self.second(hidden)", "self.second is Linear(in_features=4", "hidden is float32 tensor of shape [2, 5]", args=(GRID,))  # fmt: skip
def inner_layer_of_another_size(x):
    return NET(x)  # <-


@wrong(
    RuntimeError,
    "x is float32 tensor of shape [1, 1, 8, 8]",
    "channels",
    args=(torch.ones(1, 1, 8, 8),),
)
def channels(x):
    return F.conv2d(x, torch.ones(4, 3, 3, 3))  # <-


@wrong(ValueError, "x is float32 tensor of shape [2, 3]", "first dimension", args=(GRID,))
def unpacked_into_too_many(x):
    a, b, c = x  # <-
    return a


@wrong(RuntimeError, "negative", "clamp", args=(torch.tensor(-3),))
def size_below_zero(n):
    return torch.zeros(int(n))  # <-


# ---- dtypes and devices


@wrong(RuntimeError, "w is int64 tensor", ".to(", args=(GRID, torch.ones(3, 2, dtype=torch.int64)))
def dtypes_that_differ(x, w):
    return torch.mm(x, w)  # <-


@wrong(RuntimeError, "n is int64 tensor", "n = n + x", args=(THREE,))
def float_into_int(x):
    n = torch.zeros(3, dtype=torch.int64)
    n += x  # <-
    return n


@wrong(
    RuntimeError, "labels is float32 tensor of shape [2]", ".long()", args=(GRID, torch.zeros(2))
)
def float_labels(logits, labels):
    return F.cross_entropy(logits, labels)  # <-


@wrong(RuntimeError, "%i: f32[3]", ".long()", args=(THREE,))
def float_embedding(i):
    return F.embedding(i, torch.ones(4, 2))  # <-


@wrong(RuntimeError, ".float()")
def mean_of_integers(x):
    return x * torch.arange(3).mean()  # <-


@wrong(RuntimeError, "n is int64 tensor", ".float()", args=(torch.tensor(1),))
def gradient_of_integers(n):
    return n.requires_grad_()  # <-


@wrong(RuntimeError, "meta", ".to(other.device)", args=(THREE, THREE))
def devices_that_differ(x, y):
    return x + y.to("meta")  # <-


# ---- indices and keys


@wrong(IndexError, "x is float32 tensor of shape [3]", "-size to size - 1", args=(THREE,))
def index_too_large(x):
    return x[7]  # <-


@wrong(IndexError, "index 5", "aten.select.int", "%x: f32[3]", args=(THREE, torch.tensor(5)))
def index_too_large_when_it_runs(x, i):
    return x[i]  # <-


@wrong(IndexError, "%i: f32[]", ".long()", args=(THREE, torch.tensor(1.5)))
def index_that_is_no_integer(x, i):
    return x[i]  # <-


@wrong(IndexError, "Target 7", "number of classes", args=(GRID, torch.tensor([0, 7])))
def label_too_large(logits, labels):
    return F.cross_entropy(logits, labels)  # <-


@wrong(KeyError, "learning_rate", "options is dict with keys 'lr'", args=(ONE, {"lr": 1.0}))
def key_that_is_not_there(x, options):
    return x * options["learning_rate"]  # <-


@wrong(
    KeyError, "learning_rat", "did you mean 'learning_rate'?", args=(ONE, {"learning_rate": 1.0})
)
def key_with_a_typo(x, options):
    return x * options["learning_rat"]  # <-


@wrong(KeyError, "table is dict with keys 0, 1", "a tensor is no key", args=(torch.tensor(1),))
def key_that_is_a_tensor(n):
    table = {0: "a", 1: "b"}
    return table[n]  # <-


@wrong(KeyError, "7", args=(torch.tensor(7),))
def staged_key_that_is_not_there(n):
    table = {0: 10, 2: 20}
    return table[int(n)]  # <-


@wrong(IndexError, "items is list of 1 item")
def list_that_is_empty(x):
    items = [x]
    items.pop()
    return items.pop()  # <-


# ---- names, attributes, calls


@wrong(NameError, "ofset", "did you mean 'offset'?")
def name_with_a_typo(x):
    offset = x + 1
    return x + ofset  # <-  # noqa: F821


@wrong(NameError, "never_defined", "define 'never_defined'")
def name_that_is_not_there(x):
    return x + never_defined  # <-  # noqa: F821


@wrong(AttributeError, "'Tensor' object has no attribute 'sigmod'", "did you mean 'sigmoid'?")
def method_with_a_typo(x):
    return x.sigmod()  # <-


@wrong(AttributeError, "did you mean 'sigmoid'?")
def torch_function_with_a_typo(x):
    return torch.sigmiod(x)  # <-


@wrong(TypeError, "helper is None", "give it a value")
def called_none(x):
    helper = None
    return helper(x)  # <-


@wrong(TypeError, "scale() missing 1 required positional argument: 'factor'", "parameters")
def argument_that_is_missing(x):
    def scale(value, factor):
        return value * factor

    return scale(x)  # <-


@wrong(TypeError, "dimension=int", "signatures", args=(GRID,))
def keyword_that_torch_does_not_know(x):
    return torch.sum(x, dimension=0)  # <-


@wrong(TypeError, "'Tensor' and 'NoneType'", "test `is None`")
def compared_with_none(x):
    return x < None  # <-


@wrong(TypeError, 'can only concatenate str (not "Tensor")', "f-string")
def text_plus_tensor(x):
    return "value: " + x  # <-


@wrong(TypeError, "t is tuple of 2 items", "use a list")
def tuple_that_is_written(x):
    t = (1, 2)
    t[0] = x  # <-
    return t


@wrong(tg.errors.SourceError, "sign", "do_not_convert")
def callee_without_source(x):
    space = {}
    exec(
        "\n".join(["def sign(x):", "    return x if x > 0 else -x", ""]), space
    )  # in parts: found nowhere
    return space["sign"](x)  # <-


# ---- conditions and variables


@wrong(
    ValueError,
    "condition of if",
    "x is float32 tensor of shape [3]",
    ".any() or .all()",
    "   ^^^^^",
    args=(THREE,),
)
def if_on_many(x):
    y = x
    if x > 0:  # <-
        y = x + 1
    return y


@wrong(
    ValueError,
    "condition of while",
    "x is float32 tensor of shape [3]",
    ".any() or .all()",
    args=(THREE,),
)
def while_on_many(x):
    while x < 5:  # <-
        x = x + 1
    return x


@wrong(UnboundLocalError, "'result'", "on every path", args=(-ONE,))
def set_in_one_branch(x):
    if x > 0:
        result = x
    return result  # <-


@wrong(UnboundLocalError, "'last'", "on every path", args=(torch.tensor(0),))
def set_in_a_loop_that_does_not_run(n):
    for i in range(n):
        last = i
    return last  # <-


@wrong(UnboundLocalError, "'y'", "on every path")
def deleted(x):
    y = x + 1
    del y
    return y  # <-  # noqa: F821


@wrong(TypeError, "'NoneType' and 'int'", "test `is None`", args=(-ONE,))
def none_on_one_path(x):
    best = None
    if x > 0:
        best = x
    return best * 2  # <-


@wrong(LoopTypeError, "'y' does not have the same nested structure after one iteration")
def kind_that_changes_in_a_loop(x):
    y = x
    while sum_of(y) < 10:  # <-
        y = (y,)
    return y


def sum_of(y):
    return y.sum() if isinstance(y, torch.Tensor) else sum_of(y[0]) + 1


@wrong(
    ValueError,
    "'h' has shape (3,) before the loop, but shape (1, 3) after one iteration",
    "'h' is f32[3], then f32[1,3], then f32[1,1,3], and so on",
    "append to a list",
    args=(THREE,),
)
def rank_that_grows_in_a_loop(x):
    h = x
    while h.sum() < 10:  # <-
        h = h.unsqueeze(0) + 1
    return h


@wrong(RuntimeError, "expected tensor [12] and src [3]", "help: the last size", args=(THREE,))
def size_that_grew_in_a_loop(x):
    h = x
    while h.sum() < 10:
        h = torch.cat([h, x])
    return h @ torch.ones(3)  # <-


@wrong(tg.errors.UnknownSizeError, "addr() of a tensor whose size is known only when the graph runs", args=(THREE,))  # fmt: skip
def op_without_a_form_for_open_sizes(x):
    h = x[x > 0]
    return torch.addr(torch.zeros(3, 3), h, h)  # <-


@wrong(TypeError, 'can only concatenate str (not "int") to str', "n is int32 tensor")
def number_after_a_formatted_text(x):
    n = x.int()
    return f"{n:d}" + 3  # <-


@wrong(tg.errors.StagingError, "cannot be the name of a file", "known only when the graph runs")
def file_named_by_a_tensor(x):
    with open(f"values_{x}") as file:  # <-
        return x, file


@wrong(
    TypeError,
    "is not JSON serializable",
    "help: the value is known only when the graph runs: return it",
)
def json_of_a_tensor(x):
    return json.dumps({"loss": x.sum()})  # <-


@wrong(TypeError, "can be converted to an index", "help: convert it first, with int(...)")
def range_of_a_float(x):
    for _ in range(x.sum()):  # <-
        x = x + 1
    return x


@wrong(
    RuntimeError,
    "ZeroDivisionError",
    "help: an element of the divisor came out as 0",
    args=(torch.tensor(3), torch.tensor(0)),
)
def tensors_divided_by_zero(n, k):
    while n > 0:
        n = n // k  # <-
    return n


@wrong(
    tg.errors.GradientError,
    "returns (value, gradient function), not a Tensor",
    "return value, grad",
    args=(THREE,),
)
def custom_gradient_without_gradient(x):
    @tg.custom_gradient
    def double(a):
        return a * 2

    return double(x)  # <-


@wrong(
    TypeError, "S.__init__() missing 1 required positional argument: 'b'", "help: compare the call"
)
def field_of_a_dataclass_that_is_missing(x):
    @dataclasses.dataclass
    class S:
        a: torch.Tensor
        b: torch.Tensor

    while x < 3:
        x = S(x).a + 1  # <-
    return x


@wrong(KeyError, "help: 'OPTIONS' is an empty dict")
def key_of_an_empty_dict(x):
    return x + OPTIONS["scale"]  # <-


@wrong(RecursionError, "n is ", "give it an end that Python can decide")
def recursion_without_end(x):
    def count(n):
        return count(n + 1)  # <-

    return count(0) + x


@wrong(tg.errors.ShapeInvariantError, "'y'", "(2,)", "(1,)")
def shape_against_its_invariant(x):
    y = x.reshape(1)
    while y.sum() < 10:  # <-
        tg.set_loop_options(shape_invariants=[(y, [1])])
        y = torch.cat([y, y])
    return y


@wrong(tg.errors.DirectiveError, "first statement in the loop")
def directive_in_the_wrong_place(x):
    while x < 5:
        x = x + 1
        tg.set_loop_options(maximum_iterations=3)  # <-
    return x


@wrong(TypeError, "x is float32 tensor of shape []", "range(n)")
def loop_over_a_scalar(x):
    total = 0
    for v in x:  # <-
        total = total + v
    return total


@wrong(ValueError, "must not be zero", "step came out as 0", args=(torch.tensor(0),))
def step_of_zero(n):
    total = 0
    for i in range(0, 10, n):  # <-
        total = total + i
    return total


def visit(n, out):
    if n > 0:
        visit(n - 1, out)
        out.append(n)


@wrong(RecursionError, "changes 'a list'", "while loop", args=(torch.tensor(3),))
def recursion_that_changes_a_list(n):
    out = []
    visit(n, out)  # <-
    return out


@wrong(ZeroDivisionError, "came out as 0", args=(torch.tensor(0),))
def division_by_zero(n):
    return 10 // int(n)  # <-


# ---- values that are not known yet


@wrong(NotImplementedError, NO_VALUE, "y is float16 tensor", "tg.py_function", args=(THREE,))
def numpy_of(x):
    y = x.half()
    return y.numpy()  # <-


@wrong(NotImplementedError, NO_VALUE, "Use torch functions", args=(THREE,))
def numpy_function(x):
    return np.cumsum(x)  # <-


@wrong(TypeError, "a is numpy array of float64, shape [3]", "torch.from_numpy", args=(THREE,))
def numpy_array_in_place(x):
    a = np.zeros(3)
    a += x  # <-
    return torch.tensor(a)


@wrong(ValueError, "x is float32 tensor of shape [3]", "torch's, not math's", args=(THREE,))
def math_of_many(x):
    return math.sqrt(x)  # <-


@wrong(RuntimeError, "x is float32 tensor of shape [2, 3]", "x[i]", args=(GRID,))
def item_of_many(x):
    return x.item() + 1  # <-


@tg.do_not_convert
def left_alone(x):
    return 1 if x > 0 else 2


@wrong(
    tg.errors.GraphBoolError, NO_VALUE, "in left_alone  **", "1 if x > 0 else 2", "not converted"
)
def condition_in_code_that_is_left_alone(x):
    return left_alone(x)  # <-


@wrong(
    tg.errors.GraphBoolError,
    "generator",
    "loop over it with `for`",
    "next(positive(x))",
    args=(THREE,),
)
def taken_from_a_generator(x):
    def positive(values):
        for v in values:
            try:
                if v > 0:  # <-
                    yield v
            finally:
                pass

    return next(positive(x))


@wrong(tg.errors.UnsupportedOpError, "apply_() calls a Python function for every element", "tg.py_function", args=(THREE,))  # fmt: skip
def a_function_for_each_element(x):
    return x.apply_(lambda v: v + 1)  # <-


@wrong(tg.errors.UnsupportedOpError, "map_() calls a Python function for every element", args=(THREE,))  # fmt: skip
def a_function_for_each_element_of_a_tensor_from_outside(x):
    OUTSIDE.map_(torch.ones(3), lambda a, b: a + b)  # <-
    return x + OUTSIDE


@wrong(tg.errors.SymbolicValueError, "data_ptr", "tg.py_function")
def address_of(x):
    return x.data_ptr()  # <-


@wrong(tg.errors.SymbolicValueError, "saved", "Save what the function returns")
def saved_inside(x):
    torch.save(x, io.BytesIO())  # <-
    return x


@wrong(Exception, "torch.compile", "call the plain function", args=(THREE,))
def another_compiler_inside(x):
    return torch.jit.trace(lambda a: a + 1, x)(x)  # <-


# ---- gradients and in-place writes


@wrong(RuntimeError, "x is float32 tensor of shape [3]", "requires_grad=True", args=(THREE,))
def backward_of_what_needs_no_gradient(x):
    x.sum().backward()  # <-
    return x.grad


@wrong(RuntimeError, "b is float32 tensor", "allow_unused=True", args=(THREE,))
def gradient_by_what_was_not_used(x):
    w = x.clone().requires_grad_()
    b = torch.ones(3, requires_grad=True)
    return torch.autograd.grad(w.sum(), b)  # <-


@wrong(RuntimeError, "x is", "torch.no_grad()", args=(torch.ones(3, requires_grad=True),))
def leaf_that_is_written(x):
    x += 1  # <-
    return x


@wrong(
    tg.errors.UnsupportedOpError,
    "y is float32 tensor of shape [1, 3]",
    "y = y.reshape(n)",
    args=(THREE,),
)
def shape_changed_in_place(x):
    y = x.reshape(1, 3) * 1
    y.resize_(3, 1)  # <-
    return y


VARIABLE = tg.Variable(torch.ones(3))


@wrong(ValueError, "VARIABLE is", "shape (3,)", "shape (2, 3)", args=(GRID,))
def variable_of_another_shape(x):
    VARIABLE.assign(x)  # <-
    return x


# ---- checks of the user's own


@wrong(ValueError, "negative input: -1.0", args=(-ONE,))
def raised_when_it_runs(x):
    if x < 0:
        raise ValueError(f"negative input: {x}")  # <-
    return x


@wrong(AssertionError, "where y is tensor(-2.)", args=(-ONE,))
def assertion_without_message(x):
    y = x * 2
    assert y > 0  # <-
    return y


@wrong(AssertionError, "x must be positive, got -1.0", args=(-ONE,))
def assertion_with_message(x):
    assert x > 0, f"x must be positive, got {x}"  # <-
    return x


@wrong(AssertionError, "n is -1", args=(ONE, -1))
def assertion_on_python_values(x, n):
    assert n > 0  # <-
    return x * n


@wrong(tg.errors.InvalidArgumentError, "x too small tensor(1.)")
def debug_assertion(x):
    tg.debug.assert_(x > 2, ["x too small", x])  # <-
    return x


@wrong(tg.errors.StagingError, "e.args", "('bad', 3)", "str(e)", args=(THREE,))
def attribute_of_an_exception(x):
    try:
        if x.sum() > 0:
            raise ValueError("bad", 3)
    except ValueError as e:
        return e.args[1]  # <-
    return x


@wrong(torch.linalg.LinAlgError, "not positive-definite", args=(-torch.eye(2),))
def matrix_that_is_not_positive(x):
    return torch.linalg.cholesky(x)  # <-


# ---- tograph's own functions


@wrong(tg.errors.OutOfRangeError, "index 5", "size 2")
def cell_that_is_not_there(x):
    cells = tg.TensorArray(torch.float32, size=2)
    cells = cells.write(5, x)  # <-
    return cells.stack()


@wrong(tg.errors.StructureError, "cells = cells.write(i, x)")
def written_array_that_is_dropped(x):
    cells = tg.TensorArray(torch.float32, size=2)
    cells.write(0, x)
    return cells.read(0)  # <-


@wrong(tg.errors.StructureError, "items = items.push(x)")
def pop_before_push(x):
    items = tg.TensorList(torch.float32)
    items, top = items.pop()  # <-
    return top


@wrong(tg.errors.InvalidArgumentError, "has_value()")
def optional_that_is_empty(x):
    found = tg.Optional.empty(tg.TensorSpec([], torch.float32))
    return found.get_value()  # <-


@wrong(tg.errors.StructureError, "2 values for 1 loop_vars")
def loop_variables_that_do_not_fit(x):
    return tg.while_loop(lambda a: a < 5, lambda a: (a + 1, a), [x])  # <-


@wrong(tg.errors.InvalidArgumentError, "at least one branch", args=(torch.tensor(0),))
def no_branches(i):
    return tg.switch_case(i, [])  # <-


@wrong(TypeError, "returned 'text'", "TensorSpec([], torch.float32)")
def py_function_of_another_type(x):
    return tg.py_function(lambda a: "text", [x], tg.TensorSpec([], torch.float32))  # <-


@wrong(tg.errors.ConversionError, "async", line=False)
async def asynchronous(x):
    return x  # <-


@wrong(
    tg.errors.UnhashableArgumentError,
    "dict_keys([1, 2])",
    "argument 'odd'",
    "cannot be hashed",
    args=(ONE, {1: 0, 2: 0}.keys()),
    line=False,
)
def argument_without_a_key(x, odd):
    return x  # <-


@wrong(tg.errors.SignatureError, "missing a required argument: 'y'", line=False)
def too_few_arguments(x, y):
    return x  # <-


# ---- what the help says of values that are there on some paths only, and of Python's own errors


@wrong(
    TypeError, "'NoneType' object is not subscriptable", "a path gives it no value", args=(-ONE,)
)
def none_that_is_indexed(x):
    best = None
    for i in range(3):
        if x > i:
            best = (x, i)
    return best[0]  # <-


@wrong(TypeError, "non-iterable NoneType", "a path gives it no value", args=(-ONE,))
def none_that_is_unpacked(x):
    pair = (x, x) if x > 0 else None
    a, b = pair  # <-
    return a + b


@wrong(ValueError, "too many values to unpack", "number of names", args=(torch.tensor(3),))
def list_of_too_many(n):
    xs = [i for i in range(n)]
    a, b = xs  # <-
    return a + b


@wrong(IndexError, "list assignment index out of range", "valid indices", args=(torch.tensor(3),))
def item_that_is_not_there_is_deleted(n):
    xs = [1, 2, 3]
    del xs[n.item()]  # <-
    return xs


@wrong(TypeError, "can't multiply sequence by non-int of type 'float'")
def list_times_a_float(x):
    return [1] * x.item()  # <-


@wrong(ValueError, "math domain error", "torch's function", args=(torch.tensor(3),))
def root_of_a_negative_number(n):
    return math.sqrt(n.item() - 10)  # <-


@wrong(ValueError, "empty", "give a default", args=(torch.tensor(0),))
def largest_of_none(n):
    return max([i for i in range(n)])  # <-


@wrong(RuntimeError, "dictionary changed size", "list(...)", args=(torch.tensor(2),))
def dict_that_grows(n):
    d = {1: 1, 2: 2}
    for k in d:  # <-
        if k < n:
            d[k + 5] = 0
    return d


@wrong(RuntimeError, "doesn't match the broadcast shape", "keeps the shape", args=(THREE,))
def shape_that_grows_in_place(x):
    y = x * 2
    y += torch.ones(2, 3)  # <-
    return y


@wrong(TypeError, "sorted() takes 1 positional argument", args=(torch.tensor(3),))
def built_in_with_too_much(n):
    return sorted([1, 2], n.item())  # <-


@wrong(tg.errors.SymbolicValueError, "to_dlpack() asks for the memory", args=(THREE,))
def memory_of_a_tensor(x):
    return torch.utils.dlpack.to_dlpack(x)  # <-


@wrong(tg.errors.NotAFunctionError, "not <tensor f32[], known when the graph runs>")
def tensor_as_a_function(x):
    return tg.cond(x > 0, x, lambda: x)  # <-


test_message = pytest.mark.parametrize(("function", "error", "words", "args", "line"), PROGRAMS)(
    check
)
