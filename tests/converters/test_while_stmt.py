"""while: state, kinds that change, None, undefined variables, effects in the test."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((0,), (1,), (7,))
def count(n):
    i = 0
    s = 0
    while i < n:
        s += i * i
        i += 1
    return i, s


@cases((5,), (0,))
def an_else_reads_what_the_test_binds(n):
    c, w = 0, None
    while (w := c) < n:
        c += 1
    else:
        print(w)
    return c


@cases((27,), (1,))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@cases((5,), (0,))
def int_becomes_float(n):
    x = 0
    while n > 0:
        x = x + 0.5
        n -= 1
    return x


@cases((0,), (1,), (4,))
def none_before(n):
    v = None
    i = 0
    while i < n:
        if v is None:
            v = 100
        else:
            v = v + 1
        i += 1
    return v


@cases((0,), (3,))
def bound_in_the_first_iteration(n):
    """A loop that ends in its middle has an iteration, so what that binds before is bound."""
    out = []
    for i in range(n):
        while True:
            z = i * 2 + 1
            if z > i:
                break
            i = i - 1
        out.append(z)
    return out


@cases((0,), (3,))
def bound_behind_the_end(n):
    i = 0
    while True:
        if i >= n:
            break
        z = i * 3
        i += 1
    return z + i


@cases((0,), (3,))
def bound_on_one_path(n):
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if i > 1:
            z = i
    return z


@cases((2,), (5,))
def kept_from_before(n):
    z = None
    while True:
        z = n if z is None else z + n
        if z > 7:
            break
    return z


@cases((0,), (3,))
def none_after(n):
    v = 1
    while n > 0:
        v = None
        n -= 1
    return v


@cases((0,), (3,))
def undefined_before(n):
    while n > 0:
        v = n
        n -= 1
    return v


@cases((0,), (3,))
def undefined_before_and_read_first(n):
    while n > 0:
        v = v + 1  # noqa: F821
        n -= 1
    return n


@cases((0,), (1,), (3,))
def first_iteration_initialises(n):
    i = 0
    while i < n:
        if i == 0:
            v = 10
        else:
            v = v + i
        i += 1
    return i


@cases((4,), (0,))
def structure_state(n):
    pair = (0, [1, {"a": 2}])
    while n > 0:
        pair = (pair[0] + n, [pair[1][0] * 2, {"a": pair[1][1]["a"] + pair[0]}])
        n -= 1
    return pair


@cases((3,), (0,))
def structure_changes(n):
    v = 0
    while n > 0:
        v = (n, n)
        n -= 1
    return v


@cases((3,), (1,), (0,))
def list_grows(n):
    l = []
    while n > 0:
        l.append(n)
        n = n - 1
    return l, len(l)


@cases.tensors((torch.tensor(3),))
def updated_in_place_while_aliased(n):
    first = n
    while n > 0:
        n -= 1
    return first


@cases((13,), (0,))
def python_ints_do_not_wrap(n):
    k = 1
    while n > 0:
        k = k * 10
        n -= 1
    return k


@cases((4,), (0,))
def string_state(n):
    s = "start"
    while n > 0:
        s = "loop"
        n -= 1
    return s


@cases((3,), (0,))
def prints(n):
    while n > 0:
        print("n is", n)
        n -= 1
    print("done")


@cases((2, 3), (0, 3), (3, 0))
def nested(a, b):
    s = 0
    while a > 0:
        c = b
        while c > 0:
            s += a * c
            c -= 1
        a -= 1
    return s


@cases((6,), (0,))
def walrus_in_the_test(n):
    total = 0
    while (m := n - 1) > 0:
        total += m
        n = m
    return total, m


@cases((6,), (0,))
def walrus_in_the_test_for_the_body_alone(n):
    """Nothing behind the loop, nor the next test, reads `m` or `k`."""
    total, steps = 0, 0
    while (m := n - 1) > 0 and (k := m * 2) < 11:
        total += m + k
        n = m
        steps += 1
    return total, steps


@cases((3,), (0,))
def effects_in_the_test(n):
    calls = []

    def more():
        calls.append(1)
        return len(calls) <= n

    k = 0
    while more():
        k += 1
    return k, len(calls)


@cases((3,), (0,))
def lambdas_over_the_variable(n):
    fs = []
    k = 0
    while k < 3:
        fs.append(lambda: k)
        k += 1
    return [f() for f in fs]


@cases((8,), (0,))
def else_branch(n):
    while n > 3:
        n -= 2
    else:
        n = n + 100
    return n


@cases((3,), (0,))
def raises_inside(n):
    i = 0
    while i < n:
        if i == 2:
            raise IndexError("two")
        i += 1
    return i


class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n = self.n + k


@cases((3,), (0,))
def object_state(n):
    c = Counter()
    while n > 0:
        c.add(n)
        n -= 1
    return c.n


@cases((3,), (0,))
def setattr_state(n):
    c = Counter()
    while n > 0:
        setattr(c, "n", c.n + 1)
        n -= 1
    return c.n


@cases((3,), (0,))
def composite_state(n):
    d = {"a": [0, 0]}
    while n > 0:
        d["a"][1] = d["a"][1] + n
        d["k"] = n
        n -= 1
    return d


@cases((5,), (2,))
def two_variables_swapped(n):
    a, b = 0, 1
    while n > 0:
        a, b = b, a + b
        n -= 1
    return a, b


@cases((3, True), (3, False))
def python_test_with_a_flag(x, flag):
    k = 0
    while flag and k < 2:
        x = x * 2
        k += 1
    return x


@cases((3,), (-3,))
def condition_becomes_a_tensor(x):
    c = True
    k = 0
    while c:
        k += 1
        c = k < x
    return k


@cases.tensors((torch.tensor(3),), (torch.tensor(0),))
def tensor_grows(n):
    x = torch.zeros(1)
    while n > 0:
        x = torch.cat((x, torch.ones(2)))
        n = n - 1
    return x


@cases.tensors((torch.tensor(3),), (torch.tensor(0),))
def dtype_changes(n):
    x = torch.tensor(1)
    while n > 0:
        x = x + 0.5
        n = n - 1
    return x


@cases.tensors((torch.ones(2), torch.tensor(3)), (torch.ones(2), torch.tensor(0)))
def in_place(x, n):
    y = x.clone()
    while n > 0:
        y.add_(1)
        x[0] += 1
        n = n - 1
    return y


test_same = cases.test()


def test_graph_has_a_while():
    f = tg.function(collatz)
    assert f(torch.tensor(27)) == 111
    assert "While" in str(f.concrete_functions[0].graph)
    assert f(torch.tensor(6)) == 8
    assert f.trace_count == 1


def test_condition_of_many_elements():
    @tg.function
    def f(x):
        while x > 0:
            x = x - 1
        return x

    with pytest.raises(RuntimeError):
        f(torch.ones(3))


def test_gradient_of_a_captured_parameter_through_a_loop():
    weight = torch.nn.Parameter(torch.tensor(3.0))

    @tg.function
    def cube(x):
        i = torch.tensor(0)
        while i < 2:
            x = x * weight
            i = i + 1
        return x

    cube(torch.tensor(2.0)).backward()
    assert weight.grad.item() == 2 * 2.0 * 3.0


def test_condition_of_a_number_and_a_tensor_of_shape_one():
    def f(n, eos):
        token, tokens, t = torch.ones(1), torch.zeros(8), 0
        while t < n and token != eos:
            token = token + 1
            tokens[t] = token[0]
            t = t + 1
        return tokens, t

    g = tg.function(f)
    for n, eos in ((7, -1), (7, 4), (0, 4)):
        args = torch.tensor(n), torch.tensor(eos)
        for got, want in zip(g(*args), f(*args)):
            assert torch.equal(torch.as_tensor(got), torch.as_tensor(want))


class Done(Exception):
    pass


def raises_when_done(x):
    n = 0
    try:
        while True:
            x = x * 2
            n += 1
            if x > 50:
                raise Done
    except Done:
        return x, n


def fails_at_an_assert(x):
    while 1:
        x = x * 2
        assert x < 100, "too large"


def pops_all(x):
    xs, total = [], 0.0
    while len(xs) < x:
        xs.append(x * len(xs))
    try:
        while True:
            total = total + xs.pop()
    except IndexError:
        return total


def ends_with_its_iterator(x):
    it = iter([torch.sin, torch.cos, torch.exp])
    try:
        while True:
            x = next(it)(x)
            assert x < 1000
    except StopIteration:
        return x


@pytest.mark.parametrize("function", [raises_when_done, fails_at_an_assert, pops_all, ends_with_its_iterator])  # fmt: skip
def test_a_loop_that_only_an_exception_leaves(function):
    def outcome(f, x):
        try:
            return f(torch.tensor(x))
        except AssertionError as error:
            return str(error).splitlines()[0]

    staged = tg.function(function)
    for x in (1.0, 3.0, 60.0):
        wanted, found = outcome(function, x), outcome(staged, x)
        assert wanted == found
    assert staged.trace_count == 1
