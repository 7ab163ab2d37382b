"""After a failure at run time, what the call had done before is visible, and nothing after it."""

from collections import defaultdict

import pytest
import torch

import tograph as tg


def outcome(function, *args):
    """The arguments and the exception's type after a call."""
    kind = None
    try:
        function(*args)
    except Exception as error:
        kind = type(error)
    return [
        [float(v) for v in (a.values() if isinstance(a, dict) else a)]
        if isinstance(a, list | dict)
        else None
        for a in args
    ], kind


def raising(xs, x, i):
    xs.append(x[0] * 2)
    if x.sum() > 0:
        raise ValueError("no")
    xs.append(x[0])


def indexed(d, x, i):
    d["a"] = x[0]
    y = x[i]
    d["b"] = y


def looping(xs, x, i):
    for k in range(i):
        xs.append(x[k])


def branching(xs, x, i):
    if x.sum() > 0:
        xs.append(x[0])
        assert x.sum() < 2
        xs.append(x[1])
    else:
        xs.append(x[1])
        xs.append(x[0])


def undone(xs, x, i):
    xs.append(x[0])
    xs.pop()
    assert x.sum() < 1


@pytest.mark.parametrize("function", [raising, indexed, looping, branching, undone])
@pytest.mark.parametrize("x", [(1.0, 0.5), (1.0, 5.0), (-1.0, -2.0)])
@pytest.mark.parametrize("i", [1, 5])
def test_arguments_after_a_failure(function, x, i):
    make = dict if function is indexed else list
    staged = tg.function(function)
    for _ in range(2):
        args = torch.tensor(x), torch.tensor(i)
        assert outcome(staged, make(), *args) == outcome(function, make(), *args)


class Box:
    value = 0.0


def test_attribute_after_a_failure():
    def update(box, x):
        box.value = x * 2
        assert x < 1
        box.value = x * 3

    staged, box = tg.function(update), Box()
    seen = []
    for x in (0.5, 2.0, 0.25):
        outcome(staged, box, torch.tensor(x))
        seen.append(float(box.value))
    assert seen == [1.5, 4.0, 0.75]


def test_a_defaultdict_is_a_container():
    def program(d, x):
        d["n"].append(x)
        for k in list(d):
            d[k].append(x + 1)
        if x > 0:
            d["n"].append(x * 2)
        return type(d), len(d), {k: len(v) for k, v in d.items()}

    converted, found = tg.function(program), []
    for f in (program, converted):
        d = defaultdict(list, a=[torch.tensor(5)])
        results = [f(d, torch.tensor(1)), f(d, torch.tensor(-1))]
        other = defaultdict(list)
        results.append(f(other, torch.tensor(3)))
        found.append((results, {k: [int(v) for v in x] for k, x in {**d, **other}.items()}))
    assert found[0] == found[1]
    f = tg.function(lambda d: d["a"] + d["b"])
    for a in (1.0, 2.0):
        f(defaultdict(int, a=torch.tensor(a), b=torch.tensor(1.0)))
    assert f.trace_count == 1
