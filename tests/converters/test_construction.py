"""Objects of classes whose ``__new__`` a user wrote: it is converted, and what it gives may be an object that was there before."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()
ROWS = [(torch.tensor(v),) for v in ([3.0, 1.0, 2.0], [-1.0, 5.0, 0.0], [0.0, 0.0, 0.0])]


class Kept:
    def __new__(cls, n):
        made = super().__new__(cls)
        made.n = n
        return made

    def __repr__(self):
        return f"Kept({self.n})"


class Pooled:
    pool = {}  # noqa: RUF012  of all objects

    def __new__(cls, key):
        if key in cls.pool:
            return cls.pool[key]
        cls.pool[key] = made = object.__new__(cls)
        made.hits = 0
        return made

    def __init__(self, key):
        self.key = key
        self.hits += 1


class Noisy:
    def __new__(cls, *args, **named):
        print("new", cls.__name__)
        return super().__new__(cls) if args else [0]


class Derived(Noisy):
    def __init__(self, x, y=2):
        self.x, self.y = x, y


@cases(*ROWS)
def chosen_and_collected(x):
    best, found = Kept(0), []
    for v in x:
        if v > best.n:
            best = Kept(v)
        if v > 1:
            found.append(Kept(v.item()))
    return best.n, [k.n for k in found], (Kept(1) if x.sum() > 0 else Kept(2)).n


@cases(*ROWS)
def other_arguments_and_other_results(x):
    one = Derived(x[0], y=3)
    if x.sum() > 2:
        one = Derived(x[1])
    for arguments in ((), (1, 2, 3)):
        try:
            print(Derived(*arguments))
        except TypeError as error:
            print(error)
    return one.x + one.y


test_same = cases.test()


def test_one_object_for_all_calls():
    class Single:
        made = None

        def __new__(cls):
            if cls.made is None:
                cls.made = super().__new__(cls)
                cls.made.n = 0
            return cls.made

    def f(x):
        one = Single()
        if x > 0:
            one.n += 1
        return one.n, one is Single()

    staged = tg.function(f)
    assert [staged(torch.tensor(v)) for v in (1, -1, 1, 1)] == [(1, True), (1, True), (2, True), (3, True)]  # fmt: skip
    assert Single.made.n == 3


def test_objects_of_a_pool():
    def f(x, key):
        pooled = Pooled(key)
        if x > 0:
            pooled.hits += x.item()
        return pooled.hits, pooled is Pooled.pool[key]

    staged = tg.function(f)
    found = [staged(torch.tensor(v), key) for v, key in ((3, "a"), (-3, "a"), (5, "b"), (1, "a"))]
    Pooled.pool.clear()
    assert found == [f(torch.tensor(v), key) for v, key in ((3, "a"), (-3, "a"), (5, "b"), (1, "a"))]  # fmt: skip
    Pooled.pool.clear()


def test_they_leave_the_function():
    made = tg.function(lambda x: [Kept(x.item() * 2), Kept(x)])(torch.tensor(3))
    assert repr(made) == "[Kept(6), Kept(3)]"


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_of_numbers_of_the_run_are_refused(kind):
    with pytest.raises(StagingError, match=rf"{kind.__name__}\(\) takes what Python knows"):
        tg.function(lambda x: kind([1, x.item()]))(torch.tensor(3))


class Sometimes:
    def __new__(cls, n):
        if n > 2:
            return super().__new__(cls)
        return 5

    def __init__(self, n):
        self.n = n


def test_init_runs_where_new_gives_an_object_of_the_class():
    def f(n):
        made = Sometimes(n)
        return made + 1 if isinstance(made, int) else made.n * 2

    g = tg.function(f)
    for n in (3, 1, 4):
        assert g(torch.tensor(n)) == f(torch.tensor(n))
