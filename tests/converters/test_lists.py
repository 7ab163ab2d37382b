"""Lists that functions, methods and operators make may grow by a staged condition, as those of a display that is assigned."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
rows = [([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],)]


def made():
    return []


def given(v, kept):
    if v > 0:
        kept.append(v)
    return kept


class Log:
    def __init__(self, items=None):
        self.items = items or []
        self.others = [] if items is None else items


@dataclasses.dataclass
class Held:
    items: list


@cases(*rows)
def of_a_function(x):
    a, b = made(), (lambda: [x[0]])()
    for v in x:
        if v > 0:
            a.append(v)
            b.append(v)
    return a, b, given(x[1], given(x[0], []))


@cases(*rows)
def of_an_object(x):
    log, held = Log(), Held([])
    for v in x:
        if v > 0:
            log.items.append(v)
            log.others.append(v)
            held.items.append(v)
    return log.items, log.others, held.items


@cases(*rows)
def of_an_operator(x):
    a, b, c = [0.0] * 2, [0.0] + [1.0], [0.0] if x[0] > 0 else [1.0, 2.0]
    if x[0] > 0:
        a.append(3.0)
        b.append(3.0)
    c.append(4.0)
    return a, b, c


@cases(*rows)
def of_a_method(x):
    words, letters, numbers = "a b".split(), sorted("ba"), x[:1]
    copies = [copy.copy(numbers), copy.deepcopy(numbers), numbers.copy(), numbers[:]]
    if x[0] > 0:
        words.append("c")
        letters.append("c")
        for one in copies:
            one.append(x[0])
    return words, letters, numbers, copies


@cases(*rows)
def in_a_dict(x):
    d = dict(a=[])
    d.update(b=[1])
    d.setdefault("c", [])
    if x[0] > 0:
        for k in d:
            d[k].append(2)
    return d


@cases(*rows)
def repeated_in_place(x):
    a, b, n = [1.0], [2.0, x[0]], int(x[0]) + 2
    c, d = a, b
    a *= 2
    if x[0] > 0:
        c.append(3.0)
        b *= 3
    c *= n
    return a, b, c, d, a is c, b is d


@cases(*rows)
def of_the_class_list(x):
    a = [1, 2]
    names = ("item", "length", "values", "handle", "append")
    here = [hasattr(a, n) for n in names], [getattr(a, n, None) is None for n in names]
    return (
        here,
        a.__class__ is list,
        type(a) is list,
        type([0] * 2).__name__,
        [1, 2] * np.int64(2),
        np.int64(2) * a,
    )


def _fails_as_in_python(change):
    def f(x):
        return change([x])

    cases((1.0,))(f)


for _change in (
    lambda a: a + (1,),
    lambda a: a + "b",
    lambda a: a * 1.5,
    lambda a: {a: 1},
    lambda a: a.item(),
    lambda a: setattr(a, "name", 1),
    lambda a: a.foo,
):
    _fails_as_in_python(_change)


def failing(f):
    try:
        return f()
    except (IndexError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


@cases((3,), (-1,), (0,))
def without_items_at_a_place_of_the_run(n):
    def take_out(xs):
        del xs[n]

    some = [lambda xs: xs.pop(n), take_out, lambda xs: xs[n], lambda xs: xs[n:], lambda xs: xs.insert(n, 1)]  # fmt: skip
    return [failing(lambda f=f: f([])) for f in some]


@cases((3,), (2.5,))
def operands_that_do_not_fit(n):
    gives = (v for v in [n])
    some = [lambda: [1] + n, lambda: (1,) + n, lambda: n + [1], lambda: divmod(n, "x"), lambda: gives[0], lambda: [1] - n]  # fmt: skip
    return [failing(f) for f in some]


test_same = cases.test()


@pytest.mark.parametrize(
    "wrong", [lambda a: a.foo, lambda a: {a: 1}, lambda a: 1 + a, lambda a: a + (1,), lambda a: a()]
)
def test_messages_of_python_say_list(wrong):
    with pytest.raises((TypeError, AttributeError)) as native:
        wrong([1])
    with pytest.raises((TypeError, AttributeError)) as converted:
        tg.function(lambda x: wrong([x, 1]))(torch.ones(()))
    assert str(native.value) in str(converted.value)


def test_what_is_given_to_torch_stays_a_list():
    def f(x):
        return torch.stack([x, x]), x.reshape([1, -1]).sum([0]), x[[0, 1]], x.tolist()

    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(tg.function(f)(x), f(x))
    assert "new_list" not in tg.to_code(lambda y: torch.stack([y, y])[[0, 1]])


def test_a_list_of_the_callers_is_extended_by_a_display_itself():
    """Python asks the class of the display first, as it derives from that of the list."""
    outer = [1]

    def f(x):
        other = outer
        other += [7]
        other *= 2
        return x

    g = tg.function(f)
    for _ in range(3):
        g(torch.tensor(1.0))
    plain, outer = outer, [1]
    for _ in range(3):
        f(torch.tensor(1.0))
    assert plain == outer and len(outer) == 22


def test_a_list_of_the_callers_that_a_branch_extends_by_a_display():
    outer = [1]

    def f(x):
        other = outer
        if x > 0:
            other += [7]

    tg.function(f)(torch.tensor(-1.0))
    assert outer == [1]
    tg.function(f)(torch.tensor(1.0))
    assert outer == [1, 7]
