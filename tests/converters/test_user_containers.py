"""Containers of a user's classes: methods of their own, attributes as keys, Python's containers that are written in Python."""

import collections
import collections.abc

import pytest
import torch

import tograph as tg
from tests.converters.both import same
from tograph.errors import StructureError


class ByGet(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class ByMissing(dict):
    def __missing__(self, key):
        return f"{key}?"

    def __getattr__(self, name):
        return self[name]

    __setattr__ = dict.__setitem__


class Doubling(list):
    def append(self, x):
        super().append(2 * x)

    def total(self):
        return sum(self)


class Unbound(list):
    def append(self, x):
        list.append(self, 2 * x)

    def total(self):
        return torch.stack(self).sum()


class Shifting(list):
    def __setitem__(self, i, x):
        if i != 0:
            super().__setitem__(i, x)

    def __delitem__(self, i):
        super().__delitem__(i - 1)


class Late(collections.deque):
    def append(self, x):
        super().append(x + 1)


class Even(set):
    def add(self, x):
        super().add(2 * x)


class Store(collections.abc.MutableMapping):
    def __init__(self, **items):
        self.items_, self.writes = dict(items), 0

    def __getitem__(self, key):
        return self.items_[key]

    def __setitem__(self, key, x):
        self.writes += 1
        self.items_[key] = x if x > 0 else 0 * x

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


class Row(collections.abc.MutableSequence):
    def __init__(self, *items):
        self.items_ = list(items)

    def __getitem__(self, i):
        return self.items_[i]

    def __setitem__(self, i, x):
        self.items_[i] = x

    def __delitem__(self, i):
        del self.items_[i]

    def __len__(self):
        return len(self.items_)

    def insert(self, i, x):
        self.items_.insert(i, 2 * x)


class Holder:
    def __init__(self):
        self.late, self.even = Late([torch.tensor(0.0)], 3), Even({1})


def attributes(d, x):
    d.b = x + d.a
    if x > 0:
        d.c = x
    else:
        d.c = -x
    d["e"] = d.c * 2
    return d.b, d.c, d.none


def own_methods(items, x):
    items.append(x)
    return items.total(), len(items), sum(items), [*items]


def own_items(items, x):
    items[0] = x
    items[1] = x
    items.insert(1, x)
    del items[1]
    return sum(items)


def held(h, x):
    h.late.append(x)
    h.even.add(3)
    return h.late[-1], len(h.late), 6 in h.even


def unbound(d, x):
    dict.__setitem__(d, "b", x)
    dict.update(d, c=x + 1)
    return dict.__getitem__(d, "b") + dict.get(d, "c")


def mapping(d, x):
    d.update(a=x)
    d["b"] = d.setdefault("a", 7) + 1
    if x > 1:
        d["b"] = 5 * x
    y = d.pop("b")
    d["b"] = y
    return (
        d["a"] + sum(d.values()),
        len(d),
        list(d),
        "b" in d,
        d.get("zz", 3),
        [k for k, _ in d.items()],
    )


def sequence(s, x):
    s[0] = x
    s.append(x)
    s.extend([x + 1])
    y = s.pop()
    s.pop(0)
    s.reverse()
    return y + sum(s), len(s), list(s)


def chained(d, x):
    d["a"] = d["a"] + x
    return d["a"] + d["b"], d.maps[0]["a"], list(d), d.new_child({"a": x})["a"]


def tensors(*values):
    return [torch.tensor(v) for v in values]


def content(x):
    if isinstance(x, (dict, list)):
        return dict(x) if isinstance(x, dict) else list(x)
    return {n: content(v) for n, v in vars(x).items()} if hasattr(x, "__dict__") else x


CASES = [
    (attributes, lambda: ByGet(a=torch.tensor(1.0))),
    (attributes, lambda: ByMissing(a=torch.tensor(1.0))),
    (own_methods, lambda: Doubling(tensors(1.0))),
    (own_methods, lambda: Unbound(tensors(1.0))),
    (own_items, lambda: Shifting(tensors(1.0, 2.0, 3.0))),
    (held, Holder),
    (unbound, lambda: {"a": torch.tensor(1.0)}),
    (unbound, lambda: ByGet(a=torch.tensor(1.0))),
    (mapping, lambda: collections.UserDict(a=torch.tensor(1.0), b=torch.tensor(2.0))),
    (mapping, lambda: Store(a=torch.tensor(1.0), b=torch.tensor(2.0))),
    (sequence, lambda: collections.UserList(tensors(1.0, 2.0, 3.0))),
    (sequence, lambda: Row(*tensors(1.0, 2.0, 3.0))),
    (chained, lambda: collections.ChainMap({"a": torch.tensor(1.0)}, {"b": torch.tensor(2.0)})),
]  # fmt: skip


@pytest.mark.parametrize(("function", "make"), CASES)
@pytest.mark.parametrize("argument", [True, False])
def test_same_as_natively(function, make, argument):
    native, mine = make(), make()
    converted = tg.function(function if argument else lambda x: function(mine, x))
    for v in (1.0, -1.0, 2.0):
        x = torch.tensor(v)
        made = converted(mine, x) if argument else converted(x)
        assert same(function(native, x), made)
        assert same(content(native), content(mine))


def test_what_an_argument_holds_is_looked_at_anew():
    @tg.function
    def f(items):
        return torch.stack(items), sum(items)

    class Plain(list):
        pass

    items = Plain(tensors(1.0))
    for n in range(1, 4):
        assert f(items)[1] == n
        items.append(torch.tensor(1.0))


class Raised(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1


class Backwards(list):
    def __iter__(self):
        return reversed(self)


@pytest.mark.parametrize("argument", [True, False])
@pytest.mark.parametrize(
    "look",
    [
        lambda d: sum(d.values()),
        lambda d: len(d),
        lambda d: dict(d),
        lambda d: {**d},
        lambda d: list(d.items()),
        lambda d: d["a"] + d.get("n", 0),
        lambda d: [*d],
    ],
)
def test_a_dict_with_items_of_its_own_is_looked_at_anew(look, argument):
    d = Raised(a=torch.tensor(1.0), n=2)
    f = tg.function(look if argument else lambda: look(d))

    def check():
        assert same(look(d), f(d) if argument else f())

    check()
    d["b"] = 3
    check()
    d["a"] = torch.tensor(4.0)
    check()
    d["n"] = 5
    check()
    del d["b"]
    check()


@pytest.mark.parametrize("argument", [True, False])
@pytest.mark.parametrize("look", [lambda s: len(s), lambda s: sum(s), lambda s: s[0], lambda s: torch.stack(s)])  # fmt: skip
def test_a_list_that_goes_its_own_way_is_looked_at_anew(look, argument):
    items = Backwards(tensors(1.0, 2.0))
    f = tg.function(look if argument else lambda: look(items))
    for x in tensors(1.0, 2.0, 3.0):
        assert same(look(items), f(items) if argument else f())
        items.append(x)
        assert same(look(items), f(items) if argument else f())
        items[0] = 2 * x


def test_a_list_that_is_only_appended_to_is_one_trace():
    class Log(list):
        @tg.function
        def push(self, x):
            self.append(x)
            return x + 1

    log = Log()
    for _ in range(4):
        log.push(torch.tensor(1.0))
    assert len(log) == 4
    assert log.push.trace_count == 1


class Filling(dict):
    def __missing__(self, key):
        made = self[key] = torch.zeros(())
        return made


class FillingBySuper(Filling):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1


class FillingDefault(collections.defaultdict):
    def __missing__(self, key):
        made = self[key] = torch.ones(())
        return made


class Absent(collections.Counter):
    def __missing__(self, key):
        return 5.0


@pytest.mark.parametrize("cls", [Filling, FillingBySuper, FillingDefault, Absent])
def test_what_a_key_is_that_is_not_there_is_made_on_the_path_that_asks(cls):
    def plain(d, x):
        if x > 0:
            d["n"] = d["n"] + x
        return x + 1

    f = tg.function(plain)
    for value in (2.0, 0.5, -1.0, 2.0):
        for held in ({}, {"n": torch.tensor(7.0)}):
            want, got = cls(), cls()
            want.update(held)
            got.update(held)
            x = torch.tensor(value)
            assert same(plain(want, x), f(got, x))
            assert same(dict(want), dict(got))


def test_an_item_that_is_written_is_read_as_the_class_keeps_it():
    class OneMore(dict):
        def __getitem__(self, key):
            return super().__getitem__(key) + 1

    def plain(d, x):
        y = d["n"] + x
        if x > 0:
            d["n"] = x
        return y, d["n"]

    f = tg.function(plain)
    want, got = OneMore(n=torch.tensor(3.0)), OneMore(n=torch.tensor(3.0))
    for value in (1.0, -1.0, 4.0, -2.0):
        x = torch.tensor(value)
        assert same(plain(want, x), f(got, x))
        assert same(dict(want.items()), dict(got.items()))


def test_a_list_of_a_users_class_whose_length_depends_on_data_is_refused_by_its_name():
    class Path(list):
        pass

    @tg.function
    def f(x):
        path = Path()
        while x < 10:
            path.append(x)
            x = x + 1
        return len(path)

    with pytest.raises(StructureError, match="an object of Path, which extends list"):
        f(torch.tensor(1.0))
