"""Containers of the caller that a staged construct puts into what it makes, and that leave the call in it: native against `tg.function`."""

from dataclasses import dataclass, field

import pytest
import torch

import tograph as tg


@dataclass
class Notes:
    rows: list = field(default_factory=list)


def in_a_tuple(l, x):
    if x[0] > 1:
        l.rows.append(2)
    return (x, (l, 1)) if x.sum() > 3 else (x, (l,))


def of_a_name(l, x):
    if x.sum() > 3:
        r = (l, 1)
    else:
        r = (l,)
    if x[0] > 1:
        l.rows.append(3)
    return r[0]


def in_dicts(l, x):
    return (x, {"a": {"c": l}}) if x.sum() > 3 else (x, {"b": l.rows, "c": l})


def changed_there(l, x):
    r = [l, 1] if x.sum() > 3 else [l]
    r[0].rows.append(5)
    return r


def of_a_loop(l, x):
    best, n = (l, 0), 0
    while n < x.sum():
        n += 1
        best = (l, n)
    return best


def a_part(l, x):
    rows = l.rows
    r = (rows, 1) if x.sum() > 3 else (rows,)
    return r[0]


def below(x, one):
    """Whether an object is in a result."""
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return x is one or any(below(p, one) for p in parts)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("f", [in_a_tuple, of_a_name, in_dicts, changed_there, of_a_loop, a_part])
def test_what_is_the_callers_in_what_paths_make_is_that_object(f, opened):
    staged = tg.function(f)
    if opened:
        staged.records.classes = frozenset({Notes})
    for v in ([2.0, 2.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]):
        mine, plain, x = Notes(), Notes(), torch.tensor(v)
        want, got = f(plain, x), staged(mine, x)
        assert str(got) == str(want) and mine == plain
        assert below(got, mine) == below(want, plain)
        assert below(got, mine.rows) == below(want, plain.rows)


def put_away(l, x):
    l.append((l[0], 1) if x.sum() > 3 else (l[0],))
    return x


def test_what_is_the_callers_in_what_an_effect_makes():
    for v in (4.0, 1.0):
        inner = [0]
        mine = [inner]
        tg.function(put_away)(mine, torch.tensor(v))
        assert mine[1][0] is inner


def test_a_trace_that_can_not_be_made_apart_gives_an_equal_one():
    """What a loop makes takes the place of the caller's in some iterations."""

    def replaced(l, x):
        n = 0
        while n < x.sum():
            n += 1
            l = [*l, n] if n > 1 else l
        return (l, 1) if x[0] > 0 else (l,)

    staged = tg.function(replaced)
    for v in ([0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]):
        x = torch.tensor(v)
        assert staged([5], x) == replaced([5], x)


def test_what_has_acted_outside_is_not_traced_again(tmp_path):
    def f(x):
        (tmp_path / "log").write_text("once")
        rows = [1]
        r = (rows, 1) if x.sum() > 3 else (rows,)
        return r[0], rows

    assert tg.function(f)(torch.tensor(2.0)) == ([1], [1])
