"""Comparisons, chains, in, is."""

import dataclasses

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((3, 1), (0, 1), (9, 3), (-4, -2))
def ranges_are_asked(n, step):
    r = range(0, int(n), int(step))
    while r:
        r = r[1:]
    s = range(int(n))
    found = s.index(2) if 2 in s else -1
    return (
        r,
        not s,
        s and 5,
        4.0 in range(8, 0, int(step) - 4),
        "a" in s,
        None in s,
        found,
        s.count(1),
    )


@cases((3, 1), (0, 1))
def of_texts_in_containers(a, b):
    t, u = f"x{a}", f"x{b}"
    words, pairs = ["b", t, "x3"], [(1, t), (1, "b"), (0, u)]
    same = words == ["b", "x3", "x3"], (t, "b") != ("x3", "b"), [[t]] == [["x3"]], {"k": t} == {"k": u}  # fmt: skip
    found = (1, t) in pairs, words.index(t), words.count("x3"), words < ["b", "x2"], (t, a) <= (u, b)  # fmt: skip
    chosen = min(words), max("b", t, u), min([t], default="z"), max(words, key=len), max(pairs)
    return same, found, chosen, sorted(pairs), words == sorted(words)


@cases((3, 1), (0, 1))
def iterators_have_no_length(n, k):
    try:
        return len(zip(range(int(n)), range(int(k))))
    except TypeError:
        return "none", bool(enumerate(range(int(n))))


@cases((1, 2), (2, 1), (2, 2))
def all_six(a, b):
    return a < b, a <= b, a > b, a >= b, a == b, a != b


@cases((1, 2, 3), (3, 2, 1), (2, 2, 2))
def chains(a, b, c):
    return a < b < c, a < b > c, a == b == c, a <= b != c


@cases((1, 2, 3), (3, 2, 1), (1, 5, 3))
def chain_as_condition(a, b, c):
    if a < b < c:
        return 1
    return 0


@cases((1, 3), (3, 1))
def middle_evaluated_once(a, c):
    count = []

    def middle():
        count.append(1)
        return 2

    r = a < middle() < c
    return r, len(count)


@cases((1, 3), (3, 1))
def chain_is_lazy(a, c):
    def last():
        print("last")
        return c

    return a < 2 < last()


@cases((2,), (5,))
def in_a_list(x):
    return x in [1, 2, 3], x not in (1, 2, 3), x in range(4)


@cases((2, [1, 2]), (5, [1, 2]))
def in_an_argument(x, l):
    if x in l:
        return 1
    return 0


@cases(("a",), ("z",), kinds=("python",))
def in_containers(k):
    d = {"a": 1}
    return k in d, k not in d, k in "abc", k in {"z"}


@cases((1,), (0,))
def identity(x):
    y = x
    z = None if x is None else x
    return y is x, x is None, x is not None, z is x


@cases((1,), (-1,))
def is_none_after_a_branch(x):
    v = None
    if x > 0:
        v = x
    return v is None, v is not None


@cases((1,), (2,))
def equality_with_none_and_strings(x):
    return x == None, x != None, x == "a", x != "a"  # noqa: E711


@cases.tensors((torch.tensor([1, 2, 3]),))
def elementwise(x):
    return x == 2, x != 2, x > 1, 2 < x


@cases.tensors((torch.tensor([1, 2, 3]), 2), (torch.tensor([1, 2, 3]), 9))
def in_a_tensor(x, k):
    return k in x, k not in x


@cases((1.5, 2), (2, 2.0))
def kinds_mixed(a, b):
    return a < b, a == b


class Ordered:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        if self.v > 100:
            return True
        return self.v < other.v

    def __eq__(self, other):
        return self.v == other.v

    def __contains__(self, k):
        if k > self.v:
            return False
        return True

    def __bool__(self):
        return self.v > 0

    def __len__(self):
        return 3


@cases((1, 2), (2, 1), (101, 5))
def own_operators(a, b):
    x, y = Ordered(a), Ordered(b)
    r = 0
    if x < y:
        r = 1
    if x == y:
        r = r + 10
    if a in y:
        r = r + 100
    if x:
        r = r + 1000
    return r, len(x)


@cases((2,), (1,), (3,))
def order_of_tuples(x):
    return (
        (x, 1) < (2, 1),
        (x, 1) <= (2, 1),
        [x, 2] > [2, 1],
        (x,) >= (2, 0),
        (1, x) < (1, 2, 3),
        max((x, 1), (2, 5)),
    )


@cases.tensors((torch.tensor([1.0, 3.0]),))
def membership_is_a_bool(x):
    xs = list(x)
    return type(x[0] in xs), x[1] * 2 in xs, 3 in xs, 7.0 not in x, type(3.0 in x)


@cases((1,), (-1,), (9,))
def bools_by_identity(x):
    b, late = bool(x > 0), None if x > 5 else bool(x > 0)
    done, n = False, 0
    while done is False:
        n += 1
        done = bool(x + n > 3)
    return (
        b is True,
        b is not False,
        b is None,
        late is True,
        late is not False,
        True is b,
        b is done,
        n,
    )


class Keys:
    """The keys of something, as libraries write them."""

    def __init__(self, keys):
        self.keys = keys

    def __contains__(self, key):
        return self.keys.__contains__(key)


@cases((1,), (-1,))
def members_by_the_method(x):
    d, s, n = {"a": 1}, {1}, [0, x]
    if x > 0:
        d["b"] = 2
        s.add(2)
    either = d.keys() if x > 0 else {"c": 3}.keys()
    return (
        "b" in Keys(d.keys()),
        d.__contains__("b"),
        d.__contains__("a"),
        s.__contains__(2),
        n.__contains__(x + 0),
        (0, x).__contains__(x + 1),
        "b" in Keys(either),
        "c" in Keys(either),
    )


test_same = cases.test()


@dataclasses.dataclass(frozen=True)
class Fixed:
    n: int


PAIR, FIXED = (1, 2), Fixed(3)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, pair: pair is PAIR,
        lambda x, pair: (pair if x > 0 else (3, 4)) is pair,
        lambda x, pair: (FIXED if x > 0 else Fixed(3)) is FIXED,
    ],
)
def test_whether_values_that_cannot_change_are_one_is_not_told_wrongly(f):
    with pytest.raises(tg.errors.StagingError, match="are one is not known here"):
        tg.function(f)(torch.tensor(1.0), PAIR)


def test_tuples_that_may_not_be_one():
    @tg.function
    def f(x, pair):
        other = (x, 1)
        return pair is other[:1], pair is None, other is other, pair is pair

    assert f(torch.tensor(1.0), PAIR) == (False, False, True, True)


@pytest.mark.parametrize("shared", [True, False])
def test_an_argument_that_the_function_finds_elsewhere_too(shared):
    class Owner:
        def __init__(self):
            self.rows = [1]

    owner = Owner()
    f = tg.function(lambda x, table: (table["rows"] is owner.rows, owner.rows is not table))
    x, table = torch.ones(2), {"rows": owner.rows if shared else [1]}
    if shared:
        with pytest.raises(tg.errors.AliasError, match="owner.rows and an argument are one list, and are compared"):  # fmt: skip
            f(x, table)
    else:
        assert f(x, table) == (False, True)
