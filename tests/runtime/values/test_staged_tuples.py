"""Tuples whose length is known only when the graph runs are what tuples are in Python."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
rows = [([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],), ([1.0, 2.0, 3.0],)]


def positive(x):
    return tuple(v for v in x if v > 0)


@cases(*rows)
def joined(x):
    t = positive(x)
    u = t
    t += (x[0],)
    return t, u, (x[1],) + u, u * 2, (*u, x[2], *t), t[1:], len(t)


@cases(*rows)
def compared(x):
    t = positive(x)
    return t == positive(x), t == list(t), t == (), () != t, x[0] in t


@cases(*rows)
def gone_over(x):
    total = 0.0
    for i, v in enumerate(positive(x)):
        total = total + i * v
    return (
        total,
        sorted(positive(x)),
        list(reversed(positive(x))),
        "some" if positive(x) else "none",
    )


@cases(*rows)
def of_the_class(x):
    t = positive(x)
    print(type(t).__name__, isinstance(t, tuple), isinstance(t, list), t == t.__class__(t))
    return f"{tuple(i for i, v in enumerate(x) if v > 0)}"


@cases(*rows)
def in_branches_and_loops(x):
    t, i = (), 0
    if x[0] > 0:
        t = positive(x)
    while i < 3:
        if len(t) > 1:
            t = t[1:]
        i += 1
    return len(t), t


@cases(*rows)
def changed(x):
    positive(x).append(1)


@cases(*rows)
def written(x):
    t = positive(x)
    t[0] = x[0]


@cases(*rows)
def deleted(x):
    t = positive(x)
    del t[0]


@cases(*rows)
def of_tuples(x):
    t = tuple((i, v) for i, v in enumerate(x) if v > 0)
    return t, sum([i * v for i, v in t], 0.0)


test_same = cases.test()


def test_one_is_saved(tmp_path):
    @tg.function
    def f(x):
        return tuple(v for v in x if v > 0)

    x = torch.tensor([1.0, -2.0, 3.0])
    found = f(x)
    assert type(found) is tuple
    tg.save(f, tmp_path / "f")
    loaded = tg.load(tmp_path / "f")(x)
    assert type(loaded) is tuple
    torch.testing.assert_close(loaded, found)


def test_a_gradient_goes_through_one():
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    found = tg.function(lambda x: torch.stack(positive(x * x - 2)).prod())(x)
    found.backward()
    torch.testing.assert_close(x.grad, torch.tensor([0.0, -4.0 * 7, 6.0 * 2]))


def as_a_key(x):
    places = tuple(i for i, v in enumerate(x) if v > 0)
    d = {places: 1, (0, 1, 2): 2}
    return d, (0, 2) in d, d[places]


def test_one_is_a_key():
    for x in (torch.ones(3), torch.tensor([1.0, -1.0, 1.0])):
        assert tg.function(as_a_key)(x) == as_a_key(x)


def test_code_that_is_not_converted_cannot_hash_one():
    with pytest.raises(tg.errors.StagingError, match="a tuple that grows .* cannot be hashed"):
        tg.function(lambda x: hash(tuple(i for i, v in enumerate(x) if v > 0)))(torch.ones(3))
