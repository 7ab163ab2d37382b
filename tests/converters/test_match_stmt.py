"""match: values, sequences, mappings, classes, guards, captures."""

import collections.abc
import dataclasses
import enum
from collections import OrderedDict, deque, namedtuple

from tests.converters.both import Cases

cases = Cases()


@cases((0,), (1,), (7,))
def values(x):
    match x:
        case 0:
            return "zero"
        case 1 | 2:
            return "small"
        case _:
            return "big"


@cases((0,), (1,), (7,))
def state(x):
    r = x
    match x:
        case 0:
            r = 10
        case 1:
            r = r + 20
    return r


@cases((5,), (-5,), (0,))
def guards(x):
    match x:
        case n if n > 0:
            return n * 2
        case n if n < 0:
            return -n
        case n:
            return n + 100


class Endless:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i

    def keys(self):
        return ["p"]


@cases((0,), (1,))
def objects_with_items_that_are_no_sequences(x):
    found = []
    for subject in (Endless(), range(2), deque([x, 1]), OrderedDict(p=x), [x]):
        match subject:
            case [p, *rest]:
                found.append((p, rest))
            case {"p": p}:
                found.append(p)
            case _:
                found.append(None)
    return found


@cases(((1, 2),), ((1, -2),), ((1, 2, 3),), ((),), kinds=("python", "tensor"))
def sequences(t):
    match t:
        case ():
            return "empty"
        case (a, b) if b > 0:
            return a + b
        case (a, b):
            return a - b
        case [first, *rest]:
            return first, len(rest)


@cases(({"k": 1, "n": 2},), ({"k": 2},), ({},))
def mappings(d):
    match d:
        case {"k": 1, **rest}:
            return "one", rest
        case {"k": v}:
            return v
        case _:
            return "none"


@dataclasses.dataclass
class Point:
    x: object
    y: object


Pair = namedtuple("Pair", "a b")


@cases((0, 3), (3, 0), (2, 3))
def classes(x, y):
    match Point(x, y):
        case Point(0, y=v):
            return "on y", v
        case Point(x=u, y=0):
            return "on x", u
        case Point():
            return "elsewhere"


@cases((0, 3), (2, 3))
def namedtuples(x, y):
    match Pair(x, y):
        case Pair(a=0, b=v) as p:
            return v, p.a
        case Pair(u, v):
            return u * v


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@cases((Color.RED, 1), (Color.BLUE, -1), kinds=("python", "tensor"))
def enums(c, x):
    match c:
        case Color.RED:
            if x > 0:
                return x
            return 0
        case Color.BLUE:
            return -x


@cases((3,), (0,))
def in_a_loop(n):
    s = 0
    for i in range(n):
        match i:
            case 0:
                s += 5
            case 1:
                continue
            case _:
                s += 100
                break
    return s


@cases((1, 2), (2, 2), (2, 1))
def nested(a, b):
    match (a, (b, 0)):
        case (1, (v, _)):
            return v
        case (_, (1, z)):
            return z
        case (u, [v, _]) if u == v:
            return "same"


@cases((1,), (5,))
def no_match_keeps(x):
    y = 3
    match x:
        case 1:
            y = 4
    return y


@cases((None,), (True,), ("a",), kinds=("python",))
def singletons(x):
    match x:
        case None:
            return 1
        case True:
            return 2
        case str(s):
            return s * 2


@cases((1,), (2,))
def captured_name_after(x):
    match x:
        case 1:
            pass
        case other:
            pass
    return other


@cases((1,), (2,))
def subject_evaluated_once(x):
    count = []

    def subject():
        count.append(1)
        return x

    match subject():
        case 5:
            r = 5
        case 2:
            r = 2
        case _:
            r = 0
    return r, len(count)


@cases((1, 0), (-1, 0), (1, 1), (-1, 1))
def subject_of_one_kind_or_another(x, which):
    k = (x, 3) if x > 0 else 2.5
    if which > 0:
        k = None if x > 0 else {"a": x}
    match k:
        case None:
            r = 1, 0
        case int():
            r = 2, 0
        case float() as f:
            r = 3, f
        case [a, b] if a < b:
            r = 4, a + b
        case {"a": a}:
            r = 5, a
        case _:
            r = 6, 0
    return r


@cases((1,), (-1,), (7,))
def a_text_is_no_sequence(x):
    match "a" if x == 1 else f"{x}":
        case (_, 3):
            return 1
        case "a":
            return 2
        case [*_]:
            return 3
        case text:
            return text


@cases((1, 5), (5, 1), (1, 1), (0, 7), (1, 2))
def names_of_the_alternative_that_matches(p, q):
    match (p, q):
        case (1, n) | (n, 1) if n > 4:
            return n * 10
        case (1 as a, b) | (a, 1 as b):
            return a + b * 100
        case _:
            return -1


@cases(([1.0, 2.0, 3.0],), ([-1.0, -2.0, 3.0],), ([-1.0, 2.0, 3.0],), ([-1.0, -1.0, -1.0],))
def lists_that_a_condition_fills(x):
    some, pairs = [], []
    for i, v in enumerate(x):
        if v > 0:
            some.append(v)
            pairs.append((v, i))
    match some:
        case []:
            first = 0.0
        case [only]:
            first = only * 10
        case [_, n] | [_, _, n]:
            first = n + 100
    match {"pairs": pairs}:
        case {"pairs": [(a, 0), *rest]}:
            return first, a, len(rest)
        case {"pairs": [(a, i)] as held} if a > 2:
            return first, a * i, len(held)
        case {"pairs": [*_, (a, i)]}:
            return first, a, i
        case other:
            return first, 0.0, len(other["pairs"])


class Partly:
    __match_args__ = ("u",)


@cases((3,), (-3,))
def keys_and_attributes_of_some_paths(x):
    d, p = {"b": 1}, Partly()
    if x > 0:
        d["a"] = x
        p.u = x + 1
    match d:
        case {"a": v}:
            found = v
        case {"b": v}:
            found = v * 50
    match p:
        case Partly(u):
            return found, u
        case _:
            return found, -5


class Indexed:
    """A sequence whose items nobody may go over."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return i * self.n


collections.abc.Sequence.register(Indexed)


class Both(collections.UserList, dict):
    pass


@cases((2,), (3,))
def sequences_by_registration(n):
    found = []
    for subject in (Indexed(n), Both([1, n]), "text", {1: n}, [n]):
        match subject:
            case [*_]:
                found.append("any")
        match subject:
            case [first, *_, last]:
                found.append((first, last))
            case [only]:
                found.append(only)
            case {1: value}:
                found.append(value)
    return found


class Twice:
    __match_args__ = ("a", "a")
    a = None


class Listed:
    __match_args__ = ["a"]
    a = None


class Numbered:
    __match_args__ = (3,)


class Key:
    NAME = "a"


@cases((0,), (1,), (2,), (3,), (4,), kinds=("python",))
def patterns_that_python_refuses(i):
    subject = (Twice(), Listed(), Numbered(), {"a": 1}, {"a": 1, "b": 2})[i]
    match subject:
        case Twice(x, y):
            return "twice"
        case Listed(x):
            return "listed"
        case Numbered(x):
            return "numbered"
        case {Key.NAME: x, "a": y}:
            return "keys"


test_same = cases.test()
