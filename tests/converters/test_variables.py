"""del, nonlocal, global, locals, eval, undefined and unbound variables, names of the user."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, same

cases = Cases()


@cases((1,), (-1,))
def deleted(x):
    y = x + 1
    del y
    return y  # noqa: F821


@cases((1,), (-1,))
def deleted_in_a_branch(x):
    y = x + 1
    if x > 0:
        del y
    return y


@cases((1,), (-1,))
def deleted_where_it_may_be_unbound(x):
    if x > 0:
        y = x
    del y
    return x


@cases((1,), (-1,))
def deleted_twice(x):
    y = z = x
    if x > 0:
        del y
    try:
        del z, y
    except UnboundLocalError:
        return 100 * x
    return x


@cases((1,), (-1,))
def deleted_and_made_again(x):
    y = x
    if x > 0:
        del y
        y = 5
    return y


@cases((1,), (-1,))
def unbound_on_one_path(x):
    if x > 0:
        y = 1
    return y + 1


@cases((1,), (-1,))
def unbound_but_caught(x):
    try:
        if x > 0:
            y = 1
        return y
    except UnboundLocalError:
        return "unbound"


@cases((1,))
def undefined_global(x):
    return x + no_such_name  # noqa: F821


@cases((3,), (0,))
def nonlocal_in_a_loop(n):
    k = 0
    total = 0

    def inner():
        nonlocal k
        k += 1
        return k

    for _ in range(n):
        total += inner()
    return k, total


@cases((1,), (-1,))
def nonlocal_in_a_branch(x):
    k = 0

    def set_it(v):
        nonlocal k
        if v > 0:
            k = v
        else:
            k = "minus"

    set_it(x)
    return k


@cases((3,), (0,))
def two_levels(n):
    k = 1

    def outer():
        m = 2

        def inner():
            nonlocal k, m
            k += 1
            m *= 2

        if n > 1:
            inner()
        return m

    return outer(), k


@cases((1,), (-1,))
def closure_reads_the_last_value(x):
    k = 1

    def read():
        return k

    if x > 0:
        k = 2
    return read()


@cases((3,), (0,))
def locals_and_eval(n):
    y = n + 1
    return sorted(locals()), eval("y + n"), locals()["y"]


@cases((3,), (0,))
def locals_of_an_inner_function(n):
    y = n + 1

    def inner(z):
        w = z
        if z > 0:
            w = z * 2
        return {k: v for k, v in locals().items() if k != "z"}, y

    return inner(n), sorted(locals())


@cases((1,), (-1,))
def eval_of_a_condition(x):
    k = 5
    return eval("k if x > 0 else -k") if type(x) is int else k


@cases((1,), (-1,))
def names_shadow_builtins(x):
    len = lambda v: 5
    range = [7, 8]
    s = 0
    for i in range:
        s += i
    if x > 0:
        abs = 3
    else:
        abs = 4
    return len([]), s, abs


@cases((1,), (-1,))
def class_scope(x):
    k = 10

    class Box:
        k = 1
        if k > 0:
            m = k + 1

        def read(self):
            return k

    return Box.k, Box.m, Box().read()


@cases((1,), (-1,))
def exception_name_is_deleted(x):
    e = 1
    try:
        raise ValueError
    except ValueError as e:
        pass
    return e


@cases((1,), (-1,))
def many_targets(x):
    a = b = x
    (c, [d, *e]), f = (1, [2, 3, 4]), x
    if x > 0:
        a, (b, c) = 1, (2, 3)
    return a, b, c, d, e, f


@cases((1,), (-1,))
def augmented_and_annotated(x):
    a: int = 2
    b: "str"  # noqa: F842
    if x > 0:
        a **= 3
        a //= 3
    else:
        a <<= 2
        a |= 1
    return a


@cases((1,), (-1,))
def wrong_unpacking(x):
    a, b = [x]
    return a


@cases((1,), (-1,))
def parameters_changed(x, y=5, *rest, z=7):
    if x > 0:
        y = y + 1
        z = x
    return x, y, rest, z


@cases.tensors((1.0, 2.0), (-1.0, 2.0), (-1.0, -2.0))
def items_that_may_be_unbound(x, y):
    if x > 0:
        a = x * 2
    if y > 0:
        b = y * 3
    z = torch.cat((b.reshape(1), y.reshape(1)), dim=0)
    return torch.stack([a, b, y]), z


@cases.tensors((1.0, 2.0), (-1.0, 2.0), (-1.0, -2.0))
def items_that_may_be_none(x, y):
    a = None if x < 0 else x + 1
    b = 5 if y < 0 else y + 1
    return torch.stack([a, b])


@cases.tensors((0.0, 3))
def items_that_a_loop_binds(x, n):
    out = []
    for i in range(3):
        while True:
            y = x * 2 + i
            if y >= i:
                break
            x = x + 1
        out.append(y)
    return torch.stack(out)


COUNT = 0


def add_global(k):
    global COUNT
    if k > 0:
        COUNT = COUNT + k
    return COUNT


test_same = cases.test()


@pytest.mark.parametrize("kind", [int, torch.tensor])
def test_global(kind):
    global COUNT
    results = []
    for f in (add_global, tg.function(add_global)):
        COUNT = 0
        try:
            results.append((f(kind(3)), f(kind(-3)), COUNT))
        except tg.errors.StagingError as error:
            assert "COUNT" in str(error)
            assert COUNT == 0
            return
    assert same(*results)


def test_unbound_name_is_in_the_message():
    f = tg.function(unbound_on_one_path)
    with pytest.raises(UnboundLocalError, match="'y'"):
        f(torch.tensor(-1))
    assert f(torch.tensor(1)) == 2


def test_python_mutation_outside_happens_at_every_call():
    seen = []

    @tg.function
    def f(x):
        seen.append(1)
        return x

    f(torch.tensor(1))
    assert seen == [1]
    f(torch.tensor(2))
    assert seen == [1, 1]
    assert f.trace_count == 1


def test_augmented_assignment_of_a_variable_without_a_value():
    def in_a_loop(n):
        for i in range(n):
            total += i  # noqa: F821
        return 0

    def in_a_branch(n):
        if n > 0:
            total += n  # noqa: F821
        return 0

    for f in (in_a_loop, in_a_branch):
        staged = tg.function(f)
        with pytest.raises(UnboundLocalError, match="'total'"):
            staged(torch.tensor(2))
        assert staged(torch.tensor(0)) == 0


SEEN = 0


def _in_a_branch(a):
    if a > 1:

        def note(p):
            global SEEN
            SEEN = p % 4

        note(a)
    return SEEN


def _in_a_loop(a):
    for i in tg.range(a):

        def note(p):
            def inner():
                global SEEN
                SEEN += p

            inner()

        note(i)


def _in_a_class(a):
    if a > 1:

        class Made:
            global SEEN
            SEEN = 5


@pytest.mark.parametrize("f", [_in_a_branch, _in_a_loop, _in_a_class])
def test_a_global_that_only_code_within_a_branch_or_loop_declares(f):
    global SEEN
    found = []
    for g in (f, tg.function(f)):
        SEEN = 0
        found.append([(g(torch.tensor(n)), int(SEEN)) for n in (0, 3, 2)])
    assert found[0] == found[1]


def read_by_a_function(a):
    y = 1

    def g():
        return y

    if a < 0:
        del y
    return g()


def read_by_one_in_another(a):
    y = 1

    def g():
        return [(lambda: y)() for _ in range(2)]

    for i in range(3):
        if i == a + 2:
            del y
        g()
    return g()


@pytest.mark.parametrize("f", [read_by_a_function, read_by_one_in_another])
def test_a_variable_that_is_deleted_behind_a_function_that_reads_it(f):
    g = tg.function(f)
    assert g(torch.tensor(1)) == f(torch.tensor(1))
    with pytest.raises(NameError, match="'y' where it is not"):
        g(torch.tensor(-1))


def _nested(x):
    if x > 0:
        y = x

    def inner():
        return y

    return inner()


def _by_lambda(x):
    inner = lambda: y  # noqa: E731
    if x > 0:
        y = x
    return inner()


def _nonlocal(x):
    def inner():
        nonlocal y
        y = y + 1
        return y

    if x > 0:
        y = x
    return inner()


def _deleted(x):
    y = x

    def inner():
        return y  # noqa: F821

    del y
    return inner()


def _own(x):
    if x > 0:
        y = x

    def inner():
        return y

    return y + inner()


@pytest.mark.parametrize("f", [_nested, _by_lambda, _nonlocal, _deleted, _own])
def test_the_error_of_an_unbound_variable_says_whose_it_is(f):
    staged = tg.function(f)
    for x in (1.0, -1.0):
        found = []
        for g in (f, staged):
            try:
                found.append(g(torch.tensor(x)).item())
            except NameError as error:
                found.append((type(error), str(error).splitlines()[0]))
        assert found[0] == found[1]
