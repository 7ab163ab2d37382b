"""Functions that call themselves otherwise than at their end."""

import sys

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import RecursiveCallError, StagingError
from tograph.runtime.library import recursive_calls

cases = Cases()


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


@cases.tensors((5,), (1,))
def one_call(n):
    return factorial(n), factorial(int(n) + 1)


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cases.tensors((9,), (0,))
def two_calls(n):
    return fibonacci(n)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, n + 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@cases.tensors((2, 2))
def a_call_in_an_argument(m, n):
    return ackermann(m, n)


def simpson(f, a, b, eps, depth=0):
    def area(a, b):
        return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    c = (a + b) / 2
    halves = area(a, c) + area(c, b)
    if (halves - area(a, b)).abs() < 15 * eps or depth > 20:
        return halves
    return simpson(f, a, c, eps / 2, depth + 1) + simpson(f, c, b, eps / 2, depth + 1)


@cases.tensors((0.0, 2.0), (-1.0, 1.0))
def quadrature(a, b):
    return simpson(lambda x: torch.exp(-x * x), a, b, 1e-4)


def quicksort(xs):
    if len(xs) <= 1:
        return xs
    pivot, rest = xs[0], xs[1:]
    return (
        quicksort([v for v in rest if v < pivot])
        + [pivot]
        + quicksort([v for v in rest if v >= pivot])
    )


@cases.tensors((torch.tensor([3.0, 1.0, 2.0, 5.0]),))
def of_lists(x):
    return quicksort([float(v) for v in x])


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else not not is_even(n - 1)


@cases.tensors((4,), (5,))
def each_other(n):
    return is_even(n)


@cases.tensors((3,), (0,))
def prints_and_strings(n):
    def text(k):
        if k <= 0:
            return ""
        made = text(k - 1) + "x"
        print(k, made)
        return made

    return text(n)


@cases.tensors((3,), (0,))
def failures(n):
    def down(k):
        if k == 0:
            raise ValueError("zero")
        return 1 + down(k - 1)

    try:
        return down(n)
    except ValueError:
        return -1


@cases.tensors((4, [1.0, 2.0]))
def what_is_around(n, x):
    scale = torch.zeros(2)

    def sums(k):
        return scale.sum() if k <= 0 else x[0] * k + sums(k - 1)

    scale[0] = 2.0
    first = sums(n)
    scale[1] = 5.0
    return first, sums(n)


def last(k, x):
    """What the last call is given, and nothing else."""
    if k <= 0:
        return x
    found = last(k - 1, x)
    return found


@cases.tensors((2, [1.0, 2.0]), (0, [1.0, 2.0]))
def what_may_be_an_argument_is_read(n, x):
    y = x * 2
    found = last(n, y)
    for _ in range(n):
        found = last(n, found + 1)
    return found + y, found[0]


test_same = cases.test()


def pair(k, x):
    if k <= 0:
        y = x * 1
        return y, y
    a, b = pair(k - 1, x)
    return a, b


def written(n, x):
    y = x * 2
    last(n, y).add_(1)
    return y


def source_written(n, x):
    y = x * 2
    z = last(n, y[0])
    y.add_(1)
    return z + 1


def one_of_two_written(n, x):
    a, b = pair(n, x)
    a.add_(1)
    return b


def compared(n, x):
    y = x * 2
    return last(n, y) is y


def list_changed(n, x):
    xs = [1]
    last(n, xs).append(2)
    return xs


def source_list_changed(n, x):
    xs = [1]
    found = last(n, xs)
    xs.append(2)
    return found


def parameter_written(n, x):
    def doubled(k, y):
        if k <= 0:
            return y.sum()
        y.mul_(2)
        return doubled(k - 1, y) + 1

    return doubled(n, x * 2)


def a_set(n, x):
    def items(k):
        if k <= 0:
            return set()
        found = items(k - 1)
        found.add(1)
        return found

    return items(n)


class Held:
    def __init__(self):
        self.v = 1


def an_object(n, x):
    kept = Held()

    def held(k):
        if k <= 0:
            return kept
        found = held(k - 1)
        return found

    return held(n).v


def any_keywords(n, x):
    def count(k, **rest):
        return rest["z"] if k <= 0 else 1 + count(k - 1, **rest)

    return count(n, z=1)


def ever_larger(n, x):
    def grown(k, y):
        return y.sum() if k <= 0 else 1 + grown(k - 1, y[None])

    return grown(n, x)


def a_leaf(n, x):
    def leaf(k):
        if k <= 0:
            return x.clone().requires_grad_()
        found = leaf(k - 1)
        return found

    return leaf(n).requires_grad


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (written, "may share memory.*changed in place"),
        (source_written, "may share memory.*read after a change"),
        (one_of_two_written, "may share memory.*changed in place"),
        (compared, "one view of a tensor or two"),
        (list_changed, "gave may be this object"),
        (source_list_changed, "gave may be this object"),
        (parameter_written, "'doubled' calls itself.*it changes"),
        (a_set, "'items' calls itself.*it gives a set"),
        (an_object, "'held' calls itself.*it gives an object"),
        (any_keywords, "'count' calls itself.*keywords"),
        (a_leaf, "the leaf of a gradient"),
        (ever_larger, "'grown' calls itself.*no two of its calls are alike"),
    ],
)
def test_what_a_copy_would_show_is_refused(f, error):
    with pytest.raises(StagingError, match=error):
        tg.function(f)(torch.tensor(2), torch.ones(2))


def test_the_result_requires_a_gradient_of_what_is_around():
    w = torch.nn.Parameter(torch.tensor(3.0))

    @tg.function
    def f(x, n):
        def power(k):
            if k <= 0:
                return x * w
            y = power(k - 1)
            return y * 10 if y.requires_grad else y

        y = power(n)
        return y, y.requires_grad, y.is_leaf

    y, requires_grad, is_leaf = f(torch.tensor(1.0), torch.tensor(2))
    assert (y.item(), requires_grad, is_leaf) == (300, True, False)


def test_calls_nest_as_deep_as_the_stack_allows(monkeypatch):
    @tg.function
    def depth(n):
        return 0 if n <= 0 else 1 + depth(n - 1)

    monkeypatch.setattr(recursive_calls._stack, "room", 50)
    with pytest.raises(
        RecursionError, match="room in the C stack"
    ):  # by the host: a first call compiles nothing
        depth(torch.tensor(100))
    assert depth(torch.tensor(2)) == 2


def test_gradients_of_arguments_and_captured_parameters():
    w = torch.nn.Parameter(torch.tensor(3.0))

    @tg.function
    def f(x, n):
        def power(k):
            return x * w if k <= 0 else w * power(k - 1)

        return power(n).sum()

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f(x, torch.tensor(2)).backward()
    assert w.grad == 81
    assert x.grad.tolist() == [27, 27]


@pytest.mark.parametrize("within", [False, True], ids=["by_itself", "in_a_function"])
def test_too_many_calls_are_shown_at_the_call(within):
    def endless(x):
        return endless(x + 1) + 1  # the line

    def caller(x):
        return endless(x) * 2

    with pytest.raises(RecursionError) as caught:
        tg.function(caller if within else endless)(torch.tensor(1.0))
    notes = "".join(caught.value.__notes__)
    assert ("return endless(x) * 2" if within else "# the line") in notes
    assert "give it an end" in notes


def test_as_many_calls_as_python_has():
    @tg.function
    def depth(n):
        return 0 if n <= 0 else 1 + depth(n - 1)

    before = sys.getrecursionlimit()
    assert depth(torch.tensor(before - 100)) == before - 100
    with pytest.raises(RecursionError):
        depth(torch.tensor(before + 10))
    assert sys.getrecursionlimit() == before


def test_changes_of_what_is_around_are_refused():
    def collect(n, found):
        if n > 0:
            collect(n - 1, found)
            found.append(n)

    @tg.function
    def f(n):
        found = []
        collect(n, found)
        return found

    with pytest.raises(RecursiveCallError, match="'collect' calls itself.*changes 'a list'"):
        f(torch.tensor(3))


total = lambda n: n if n <= 0 else total(n - 1) + n  # noqa: E731
even = lambda n: True if n == 0 else odd(n - 1)  # noqa: E731
odd = lambda n: False if n == 0 else even(n - 1)  # noqa: E731


@cases.tensors((4,), (0,))
def lambdas_that_call_themselves(n):
    product = lambda k: 1 if k <= 1 else k * product(k - 1)  # noqa: E731
    summed = lambda k, so_far: so_far if k <= 0 else summed(k - 1, so_far + k)  # noqa: E731
    return total(n), product(n), summed(n, 0)


@cases.tensors((4,), (3,))
def lambdas_that_call_each_other(n):
    return even(n), odd(n)


def expression(n):
    return term(n) + 1 if n > 0 else n


def term(n):
    return factor(n - 1) * 2


def factor(n):
    return expression(n)


@cases.tensors((4,), (0,))
def three_in_a_ring(n):
    return expression(n), factor(n)
