"""Special methods by name and the functions of ``operator`` over staged values: what plain Python gives."""

import operator

import pytest
import torch

import tograph as tg

X = torch.tensor([0.5, -1.0, 2.0, -0.25, 3.0, 1.5])


def both(f, *args):
    """What a function gives natively and converted, or the exception it raises."""
    found = []
    for g in (f, tg.function(f)):
        try:
            found.append(g(*args))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            found.append(type(error))
    return found


def same(f, *args):
    native, converted = both(f, *args)
    assert type(native) is type(converted)
    if isinstance(native, type):
        assert converted is native
        return
    torch.testing.assert_close(converted, native)


ITEMS = [
    lambda x, i: x.__getitem__(i),
    lambda x, i: x.__getitem__(slice(0, i)),
    lambda x, i: [1.0, 2.0, 3.0, 4.0, 5.0].__getitem__(i),
    lambda x, i: (1, 2, 3, 4, 7).__getitem__(i),
    lambda x, i: {1: 2, 4: 3}.__getitem__(i),
    lambda x, i: range(5).__getitem__(i),
    lambda x, i: list.__getitem__([1, 2, 3, 4, 5], i),
    lambda x, i: torch.Tensor.__getitem__(x, i),
    lambda x, i: operator.getitem(x, i),
    lambda x, i: operator.countOf((x > 0).tolist() + [i, 3], i),
    lambda x, i: operator.indexOf(x.tolist(), x[2].item()),
    lambda x, i: operator.indexOf(x.tolist(), i + 0.125),
    lambda x, i: operator.itemgetter(i)([1.0, 2.0, 3.0, 4.0, 5.0]),
    lambda x, i: operator.itemgetter(0, i)(x),
    lambda x, i: operator.methodcaller("__getitem__", i)(x),
    lambda x, i: operator.methodcaller("sum", dim=0)(x[:i]),
    lambda x, i: operator.attrgetter("ndim", "real.ndim")(x[:i]),
    lambda x, i: list(map(x.__getitem__, range(i))),
    lambda x, i: sorted(range(i), key=x.tolist().__getitem__),
]


@pytest.mark.parametrize("n", [4, 1, 9])
@pytest.mark.parametrize("f", ITEMS)
def test_items(f, n):
    same(lambda x, n: f(x, n.item()), X, torch.tensor(n))


NUMBERS = [
    lambda x, i: (2.5).__mul__(i),
    lambda x, i: (3).__add__(i),
    lambda x, i: (9).__rsub__(i),
    lambda x, i: (3).__lt__(i),
    lambda x, i: int.__add__(i, 2),
    lambda x, i: float.__mul__(2.0, x.sum().item()),
    lambda x, i: [(3).__eq__(i), (4).__ne__(i)],
    lambda x, i: list(filter((3).__lt__, range(i + 3))),
    lambda x, i: [x.sum().__float__(), x.sum().__int__(), x.argmax().__index__()],
    lambda x, i: [x[x > 0].__len__(), range(9).__contains__(i)],
]


@pytest.mark.parametrize("f", NUMBERS)
def test_numbers(f):
    same(lambda x, n: f(x, n.item()), X, torch.tensor(4))


def test_a_method_of_a_number_knows_no_wider_kind():
    @tg.function
    def f(x):
        return (3).__lt__(x.item()) is NotImplemented, (3.0).__lt__(x.item())

    assert f(torch.tensor(4.5)) == (True, True)


def test_changes():
    def f(x, n):
        i, y, rows = n.item(), x.clone(), [1.0, 2.0, 3.0]
        y.__setitem__(i, 7.0)
        rows.__setitem__(i, 5.0)
        operator.setitem(rows, i - 1, 6.0)
        for v in x:
            if v > 0:
                rows.append(v.item())
        return y, rows, rows.__len__(), rows.__getitem__(i)

    same(f, X, torch.tensor(2))


class Held:
    def __init__(self):
        self.rows, self.table, self.chosen = [1], {"a": 1}, {1, 2}


def test_changes_of_outer_containers_by_functions_of_operator():
    def f(x, held):
        operator.iadd(held.rows, [len(held.rows)])
        operator.ior(held.table, {len(held.table): 1})
        held.chosen.__ior__({len(held.chosen) + 5})
        y = x.clone()
        return operator.imul(y, 3), operator.iadd(3, x.sum().item())

    g, native = Held(), Held()
    converted = tg.function(lambda x: f(x, g))
    for _ in range(3):
        want, got = f(X, native), converted(X)
        assert torch.equal(got[0], want[0]) and got[1] == want[1]
        assert vars(g) == vars(native)


class Rows:
    def __init__(self, x):
        self.items = []
        for v in x:
            if v > 0:
                self.items.append(v.item())


class Sequence(Rows):
    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        if i >= len(self.items):
            raise IndexError(i)
        return self.items[i]


class Iterable(Rows):
    def __iter__(self):
        for v in self.items:
            if v > 1:
                yield v * 2


class Reversible(Rows):
    def __reversed__(self):
        return [v + 1 for v in reversed(self.items)]


def test_items_of_users_classes_are_looked_for_and_turned_around():
    def f(x):
        a, b, c = Sequence(x), Iterable(x), Reversible(x)
        found = 2.0 in a, x[0].item() in a, 9 in a, 4.0 in b, 2.0 in b
        return found, [v + 1 for v in reversed(a)], list(reversed(a)), reversed(c)

    same(f, X)
    same(f, -X)


def test_count_of_tensors_is_a_number():
    def f(x, i):
        return operator.countOf([x[0], x[1], x[0]], i)

    g = tg.function(f)
    for i in (1, 2, 3):
        found = g(torch.tensor([1, 2, 3]), torch.tensor(i))
        assert (type(found), found) == (int, f(torch.tensor([1, 2, 3]), torch.tensor(i)))
