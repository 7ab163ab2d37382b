"""``f(*xs)`` with a list whose length is known only when the graph runs: each number of arguments, and Python's errors."""

import functools

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import StagingError

cases = Cases()
rows = [([1.0, -2.0, 3.0],), ([-1.0, -2.0],), ([1.0, 2.0, 3.0],), ([-1.0, 2.0],)]


def positive(x):
    return [v for v in x if v > 0]


@cases(*rows)
def as_many_as_there_are_parameters(x):
    def g(a, b=2.0):
        return a * b

    return g(*positive(x))


@cases(*rows)
def a_rest_parameter(x):
    def g(a, b=1.0, *rest, c=2.0):
        return a * b + c, len(rest), sum(rest, a)

    return g(*positive(x), c=3.0)


@cases(*rows)
def between_others(x):
    def g(*rest):
        "what it is given"
        return rest, len(rest), rest[-1], g.__doc__

    return g(x[0], *positive(x), x[1]), g(*positive(x), *positive(x))


class Held:
    def __init__(self, *values):
        self.values = values

    def with_more(self, *values):
        return self.values + values


@cases(*rows)
def of_a_class_and_a_method(x):
    return Held(*positive(x)).with_more(*positive(x))


def doubled(f):
    @functools.wraps(f)
    def run(*args, **kwargs):
        return f(*args, **kwargs) * 2

    return run


@doubled
def difference(a, b=2.0):
    return a - b


@cases(*rows)
def through_a_decorator(x):
    return difference(*positive(x))


@cases(*rows)
def of_a_generator(x):
    def g(*rest):
        for v in rest:
            yield v * 2

    return list(g(*positive(x)))


@cases(*rows)
def largest(x):
    return max(*positive(x)), min(x[0], *positive(x))


@cases(*rows)
def printed(x):
    places = [i for i, v in enumerate(x) if v > 0]
    print(*places)
    print("at", *places, sep=", ", end=";")


test_same = cases.test()


def test_the_texts_of_errors():
    def g(a, b):
        return a + b

    @tg.function
    def f(x):
        return g(*[v for v in x if v > 0])

    for x, text in [([-1.0], "missing 2 required positional arguments: 'a' and 'b'"), ([1.0], "missing 1 required positional argument: 'b'"),
                    ([1.0, 1.0, 1.0], "takes 2 positional arguments but 3 were given")]:  # fmt: skip
        with pytest.raises(TypeError, match=text):
            f(torch.tensor([*x, -1.0, -1.0, -1.0][:3]))


def test_a_gradient_goes_through_the_arguments():
    def g(*rest):
        return torch.stack(rest).prod()

    def f(x):
        return g(*[v * v for v in x if v > 0])

    grads = []
    for h in (f, tg.function(f)):
        x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        h(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


def test_functions_that_are_not_converted_are_refused():
    @tg.function
    def f(x):
        return torch.maximum(*[v for v in x if v > 0])

    with pytest.raises(StagingError, match=r"how many arguments maximum\(\) gets"):
        f(torch.ones(2))


def test_print_takes_items_of_several_types(capsys):
    def f(x):
        kept = [v for v in x if v > 0]
        print("a", *kept, 5, *kept, None, sep="|")

    for g in (f, tg.function(f)):
        g(torch.tensor([1.0, -2.0, 3.0]))
    native, converted = capsys.readouterr().out.splitlines()
    assert native == converted


def columns(x):
    pairs = []
    for i, v in enumerate(x):
        if v > 0:
            pairs.append((i, v.item(), x * v))
    places, values, rows = zip(*pairs)
    return places, sum(values), torch.stack(rows), len(places), max(values)


def test_zip_of_tuples_whose_number_depends_on_data():
    rows = [(torch.tensor([3.0, -1.0, 2.0]),), (torch.tensor([-3.0, -1.0, 2.0]),)]
    compare(columns, *rows)
    with pytest.raises(ValueError, match="not enough values to unpack"):
        tg.function(columns)(-torch.ones(3))


def named(a=0, **rest):
    return a, rest


@pytest.mark.parametrize(
    "f",
    [
        lambda n: named(a=1, **{"a": n}),
        lambda n: named(b=n, **{"c": 3}, d=4, **{"d": n}),
        lambda n: dict(a=1, **{"a": n}),
        lambda n: print(n, sep="", **{"sep": "-"}),
        lambda n: (lambda **rest: rest)(q=n, **{"q": 1}),
    ],
)
def test_an_argument_that_is_given_twice_is_an_error_of_the_function_called(f):
    with pytest.raises(TypeError, match="got multiple values") as plain:
        f(torch.tensor(1))
    with pytest.raises(TypeError) as found:
        tg.function(f)(torch.tensor(1))
    assert str(found.value).split("\n")[0] == str(plain.value)


def test_keywords_beside_dicts():
    def f(n, d):
        return named(b=n, **d, c=n + 1, **{"e": 5}), named(*[n], **d, q=1)

    assert tg.function(f)(torch.tensor(1), {"x": 3}) == f(torch.tensor(1), {"x": 3})
    with pytest.raises(TypeError, match=r"argument after \*\* must be a mapping, not int"):
        tg.function(lambda n: named(**5))(torch.tensor(1))


def test_one_of_several_dicts_as_keyword_arguments():
    class A:
        def __init__(self, x, k=1):
            self.value = x * k

    class B(A):
        def __init__(self, x, k=1, j=2):
            self.value = x + k * j

    def f(x, given):
        made, options = (A, {"k": 3}) if x > 0 else (B, {"j": 4, "k": 2})
        return made(x, **options).value, dict(i=1, **(given if x > 1 else options))["k"]

    staged = tg.function(f)
    for x in (torch.tensor(1.5), torch.tensor(-1.5), torch.tensor(0.5)):
        assert staged(x, {"k": 7}) == f(x, {"k": 7})
    with pytest.raises(TypeError, match=r"B\(\) got multiple values for keyword argument 'k'"):
        tg.function(lambda x, d: B(x, k=1, **(d if x > 0 else {})).value)(
            torch.tensor(1.0), {"k": 7}
        )
