"""``input_signature``: of methods, of a tensor that is passed twice, of lists that the function changes."""

import functools

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import SignatureError

ROW = tg.TensorSpec([None], torch.float32)


class Scale:
    by = 3.0

    @tg.function(input_signature=[ROW])
    def times(self, x):
        return x * self.by if x.sum() > 0 else x

    @classmethod
    @tg.function(input_signature=[ROW])
    def name(cls, x):
        return x, cls.__name__

    @staticmethod
    @tg.function(input_signature=[ROW])
    def double(x):
        return x * 2

    @tg.function(input_signature=[])
    def alone(self):
        return torch.ones(1) * self.by


def test_methods():
    s = Scale()
    assert s.times([1.0, 2.0]).tolist() == [3.0, 6.0] == Scale.times(s, [1.0, 2.0]).tolist()
    assert s.times(torch.ones(5)).shape == (5,) and s.times.trace_count == 1
    assert s.times.get_concrete_function().inputs[0].type.shape == (None,)
    assert s.name([1.0])[1] == "Scale" and s.double([1.0]).item() == 2 and s.alone().item() == 3
    with pytest.raises(TypeError, match="does not fit"):
        s.times(torch.ones(2, 2))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        Scale.times(s)


def test_a_function_whose_first_parameter_has_the_name_of_an_object():
    def scaled(self):
        return self * 2

    assert tg.function(scaled, input_signature=[ROW])(torch.ones(2)).tolist() == [2, 2]


def test_a_parameter_without_a_spec():
    with pytest.raises(TypeError, match="missing type constraint for parameter 'y'"):
        tg.function(lambda self, x, y: x, input_signature=[ROW])


def test_one_tensor_as_two_arguments():
    f = tg.function(lambda a, b: a * 2 + b, input_signature=[ROW, ROW])
    x = torch.ones(2)
    assert f(x, x).tolist() == [3.0, 3.0] == f(x, x.clone()).tolist()
    assert f(torch.ones(4), torch.ones(4)).shape == (4,) == f(*[torch.ones(4)] * 2).shape


def test_changes_of_a_list_and_a_dict():
    def f(l, d):
        l.append(l[0] * 2)
        d["b"] = d["a"] + 1

    l, d = [torch.ones(3)], {"a": torch.zeros(1)}
    tg.function(f, input_signature=[[ROW], {"a": ROW}])(l, d)
    assert l[1].tolist() == [2.0] * 3 and d["b"].item() == 1


def test_functions_of_c_get_what_is_given():
    x = torch.tensor(1.0)
    assert tg.function(np.sin)(x) == torch.sin(x)
    assert tg.function(sorted)([1, 3], reverse=True) == [3, 1]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given|takes exactly one argument"):  # fmt: skip
        tg.function(len)([], 2)


class Unnamed:
    """Methods whose object has a name of the user's own."""

    by = 3.0

    @tg.function(input_signature=[ROW])
    def times(this, x, more=1.0):  # noqa: N805
        return x * this.by * more

    @staticmethod
    @tg.function(input_signature=[ROW, ROW])
    def add(x, y):
        return x + y


def test_the_object_of_a_method_may_have_any_name():
    unnamed, x = Unnamed(), torch.ones(2)
    assert unnamed.times(x).tolist() == unnamed.times([1.0, 1.0]).tolist() == [3.0, 3.0]
    assert Unnamed.times(unnamed, x, 2.0).tolist() == [6.0, 6.0]
    assert unnamed.add(x, [2.0, 3.0]).tolist() == [3.0, 4.0]
    with pytest.raises(TypeError, match="does not fit"):
        unnamed.times(torch.ones(2, 2))


def test_a_bound_method_has_its_function():
    scale = Scale()
    assert scale.times.__func__ is Scale.times
    assert scale.times.__self__ is scale
    assert torch.equal(scale.times.__func__(scale, torch.ones(1)), torch.full((1,), 3.0))


def gives_a_factor(f):
    @functools.wraps(f)
    def inner(x):
        return f(x, 3)

    return inner


def gives_a_shift(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        loud = kwargs.pop("loud", False)
        return f(*args, shift=5 + loud, **kwargs)

    return inner


@gives_a_factor
def times(x, factor):
    return x * factor if x > 0 else x


@gives_a_shift
def shifted(x, *, shift=1):
    return x + shift if x > 0 else x


class Model:
    @tg.function
    @gives_a_shift
    def shifted(self, x, *, shift):
        return x + shift


def test_decorators_that_give_arguments():
    x = torch.tensor(2)
    assert tg.function(times)(x) == 6
    assert tg.function(shifted)(x) == 7
    assert tg.function(shifted)(x, loud=True) == 8
    assert tg.function(shifted)(x=x) == 7
    assert Model().shifted(x) == 7
    with pytest.raises(SignatureError, match="too many positional arguments"):
        tg.function(times)(x, 3)


def test_decorators_that_hand_on_arguments():
    @tg.function
    @torch.no_grad()
    def scaled(x, factor=2):
        return x * factor

    assert [scaled(torch.tensor(2)), scaled(torch.tensor(2), 2), scaled(x=torch.tensor(2))] == [
        4
    ] * 3
    assert scaled.trace_count == 1


def test_a_concrete_function_binds_the_numbers_that_are_open_in_other_calls():
    f, one = tg.function(lambda x, n=2: x * n, reduce_retracing=True), torch.tensor(1.0)
    assert [f(one, n).item() for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    nine = f.get_concrete_function(one, 9)
    assert nine is f.get_concrete_function(one, 9) and nine(one) == nine(one, 9) == 9
    assert f.get_concrete_function(one)(one) == 2
    with pytest.raises(TypeError, match="argument 'n' is 3, and it was traced for 9"):
        nine(one, 3)
    assert f(one, 5) == 5
