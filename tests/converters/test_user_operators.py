"""Operators and special methods of user classes with staged conditions inside; consumers of generators; list methods."""

import abc
import collections
import functools

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
ROWS = ((torch.tensor([1.0, 2.0]),), (torch.tensor([-1.0, -2.0]),))


class Vec:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        if not isinstance(other, Vec):
            return NotImplemented
        return Vec(self.x + other.x) if self.x.sum() > 0 else Vec(self.x - other.x)

    def __radd__(self, other):
        return Vec(self.x + other) if self.x.sum() > 0 else Vec(self.x - other)

    def __mul__(self, k):
        return Vec(self.x * k) if self.x.sum() > 0 else self

    __rmul__ = __mul__

    def __iadd__(self, other):
        if self.x.sum() > 0:
            self.x = self.x + other
        else:
            self.x = self.x - other
        return self

    def __neg__(self):
        return Vec(-self.x) if self.x.sum() > 0 else self

    def __matmul__(self, other):
        return (self.x * other.x).sum() if self.x.sum() > 0 else torch.zeros(())

    def __eq__(self, other):
        return (self.x == other.x).all() if isinstance(other, Vec) else NotImplemented

    def __lt__(self, other):
        return self.x.sum() < other.x.sum() if self.x.sum() > 0 else other.x.sum() < self.x.sum()

    def __bool__(self):
        return bool(self.x.sum() > 0)

    def __contains__(self, v):
        return bool((self.x == v).any())

    def __abs__(self):
        return Vec(self.x.abs()) if self.x.sum() > 0 else self

    def __float__(self):
        return float(self.x.sum()) if self.x.sum() > 0 else 0.0

    def __iter__(self):
        for i in range(2):
            if self.x[i] > 0:
                yield self.x[i]
            else:
                yield -self.x[i]


class Sub(Vec):
    def __radd__(self, other):
        return Sub(self.x * 100)


class Counter:
    def __init__(self, x):
        self.x, self.i = x, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= 3:
            raise StopIteration
        self.i += 1
        return self.x * self.i if self.x.sum() > 0 else self.x


@functools.total_ordering
class Ordered:
    def __init__(self, x):
        self.x = x

    def __lt__(self, other):
        return self.x.sum() < other.x.sum()

    def __eq__(self, other):
        return self.x.sum() == other.x.sum()


def doubled(xs):
    for v in xs:
        if v > 0:
            yield v * 2
        else:
            yield v - 1


def large(xs):
    for v in xs:
        if v > 1:
            yield v


@cases.tensors(*ROWS)
def arithmetic(x):
    v, w = Vec(x), Vec(x + 5)
    return (v + w).x, (1 + v).x, (v * 3).x, (3 * v).x, (-v).x, v @ w, abs(v).x, float(v)


@cases.tensors(*ROWS)
def reflected_method_of_a_subclass_first(x):
    return (Vec(x) + Sub(x)).x, (Sub(x) + Vec(x)).x


@cases.tensors(*ROWS)
def in_place(x):
    v = u = Vec(x)
    v += 3
    u += x
    return v.x, u.x, u is v


@cases.tensors(*ROWS)
def comparisons(x):
    v, w = Vec(x), Vec(x + 1)
    return [
        1 if v == w else 2,
        1 if v != w else 2,
        1 if v < w else 2,
        1 if v > w else 2,
        v == 3,
        1 if v < w < v else 0,
    ]


@cases.tensors(*ROWS)
def truth(x):
    v = Vec(x)
    return [
        1 if not v else 2,
        1 if v and 3 else 4,
        5 if v else 6,
        bool(v),
        7 if 1.0 in v else 8,
        any([v]),
        all([v, 1]),
    ]


@cases.tensors(*ROWS)
def total_order(x):
    a, b = Ordered(x), Ordered(x * 2)
    return 1 if a <= b else 2, 1 if a >= b else 2, 1 if a > b else 3, 1 if a != b else 4


@cases.tensors(*ROWS)
def reductions(x):
    return sum([Vec(x), Vec(x)], Vec(x)).x, max(Vec(x), Vec(x + 1)).x, min([Vec(x), Vec(x - 1)]).x


@cases.tensors(*ROWS)
def unsupported(x):
    return Vec(x) + "a"


@cases.tensors(*ROWS)
def not_ordered(x):
    return Vec(x) <= 3


@cases.tensors(*ROWS)
def iteration(x):
    t = 0
    for v in Vec(x):
        t = t + v * 2 if v > 1 else t
    return (
        t,
        list(Vec(x)),
        sum(Vec(x)),
        [v.sum() for v in Counter(x)],
        sum(Counter(x)),
        next(Counter(x)),
    )


@cases.tensors(*ROWS)
def generators(x):
    return list(doubled(x)), sum(doubled(x)), torch.stack(list(large(x + 3))), sum(large(x))


@cases.tensors(*ROWS)
def any_and_all_of_generators(x):
    return (
        any(v > 3 for v in doubled(x)),
        all(v > 0 for v in doubled(x)),
        any(large(x)),
        all(large(x)),
    )


@cases.tensors(*ROWS)
def equal_containers(x):
    a, b = [x[0].item(), x[1].item()], [x[0].item(), 2.0]
    return (
        1 if a == b else 2,
        1 if (a, 1) == (b, 1) else 3,
        1 if {"a": a} == {"a": b} else 4,
        1 if a != b else 5,
    )


@cases.tensors(*ROWS)
def list_methods(x):
    a = [x[0].item(), x[1].item(), 1.0]
    b = [x[0].item(), x[1].item(), 0.5]
    b.sort(reverse=True)
    c = [x[0].item(), 5.0, x[1].item()]
    c.remove(5.0)
    return a.index(1.0), a.count(1.0), b, c


@cases((3,), (-3,))
def special_methods_of_a_class_defined_inside(x):
    class Inner:
        def __init__(self, v):
            self.v = v

        def __contains__(self, y):
            return self.v == y

        def __bool__(self):
            return True if self.v > 0 else False

        def __len__(self):
            return 2 if self.v > 0 else 0

        def __format__(self, spec):
            return spec + ("p" if self.v > 0 else "n")

        def __eq__(self, other):
            return self.v == other.v

        def __iter__(self):
            yield self.v
            if self.v > 0:
                yield self.v * 2

    c, d = Inner(x), Inner(x + 1)
    found = [x in c, x + 1 in c, c in [d, c], c != d]
    found.append(7 if c else 8)
    print(f"{c:>}", max(c), sum(c), len(c))
    return found


@cases((3,), (-3,))
def super_in_classes_defined_inside(x):
    class Base:
        def __init__(self, v):
            self.v = v

        def items(self):
            yield self.v
            if self.v > 0:
                yield 1

        def run(self, y):
            return self.v + y if y > 0 else y

    class Inner(Base):
        def __init__(self, v):
            super().__init__(v * 2)

        def items(self):
            yield from super().items()
            yield 2

        def run(self, y):
            if self.v > 1:
                y = super().run(y + 1)
            return y

    c = Inner(x)
    total = 0
    for v in c.items():
        total += v
    return c.run(x), total


@cases.tensors((torch.tensor([1, 2]),), (torch.tensor([0, 0]),), (torch.tensor([-1, -2]),))
def lists_repeated_a_staged_number_of_times(x):
    n = int(x.sum())
    return [0] * n, n * [x.sum(), x.sum() + 1], len([1.5] * n)


class Silent:
    def __eq__(self, other):
        print("eq")
        return NotImplemented

    __hash__ = None


class Loud(Silent):
    def __ne__(self, other):
        print("ne")
        return NotImplemented


class Registered(metaclass=abc.ABCMeta):
    def __eq__(self, other):
        print("registered")
        return NotImplemented

    __hash__ = None


Registered.register(Silent)


@cases((1,))
def methods_that_inequality_tries(n):
    return Loud() != Silent(), Silent() != Loud(), Silent() != Silent(), Loud() != n


@cases((1,))
def registration_is_no_inheritance(n):
    return (
        Silent() == Registered(),
        Registered() == Silent(),
        Silent() == Loud(),
        Loud() == Silent(),
    )


@cases((1,))
def sequence_beside_a_reflected_method(n):
    items = collections.UserList([n])
    return [0] + items, "ab" + items, items + [2], 2 * items


test_same = cases.test()


def test_sum_of_no_rows_is_its_start():
    f = tg.function(lambda x: (sum(x), sum(x, 3)))
    assert f(torch.zeros(0)) == (0, 3)


def test_gradients_of_powers_by_a_staged_number():
    def powers(x, k):
        n, a = 0, 0.0
        while n < k:
            n, a = n + 1, a + 0.5
        (inner,) = torch.autograd.grad((x**n).sum(), x, create_graph=True)
        return x**n + x.abs() ** a + x.pow(n + 1) + torch.pow(x.abs(), a), n**x, inner

    found = []
    for f in (powers, tg.function(powers)):
        x = torch.tensor([2.0, 0.5, -1.0], requires_grad=True)
        values = f(x, torch.tensor(2))
        found.append([*values, *torch.autograd.grad(sum(values).sum(), x)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("f", [lambda x: {1} + {2}, lambda x: {1} * {2}, lambda x: [0] + 5])
def test_operators_that_containers_do_not_have(f):
    with pytest.raises(TypeError) as expected:
        f(1)
    with pytest.raises(TypeError) as found:
        tg.function(f)(torch.ones(2))
    assert str(expected.value) in str(found.value)


class Operator:
    """Stands for a matrix, and takes part in functions of torch, as linear operators of libraries do."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __matmul__(self, other):
        return self.matrix @ other if self.matrix.sum() > 0 else other

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def test_operators_of_a_class_with_torch_function():
    def f(x):
        return Operator(x * 3) @ x

    for x in (torch.eye(2), -torch.eye(2)):
        torch.testing.assert_close(tg.function(f)(x), f(x))


def _first_difference(x, n):
    return (x[0], 1) < (n, 2), [x[0], n] >= [n, x[0]], ((x[0], 1) < (n, 2)) + 1


def _equal_up_to_the_end(x, n):
    return (n, x[0]) <= (n, x[0], 3), (1, x[0]) < (2, n), (x[0].item(), 1) < (n.item(), 2)


def _in_conditions(x, n):
    i = 0
    while (x[0], i) < (n, 3):
        x, i = x + 1, i + 1
    return x, i, 5 if (x[0], 0) > (n, 1) else 6, not (x[0], 1) < (n, 2) < (n, 3)


def _lists_of_the_graph(x, n):
    p, q = [v for v in x if v > n - 2], [v for v in x if v < n]
    return p < q, p >= q, (p, 1) < (q, 2)


@pytest.mark.parametrize(
    "f", [_first_difference, _equal_up_to_the_end, _in_conditions, _lists_of_the_graph]
)
def test_the_order_of_sequences_is_what_their_first_difference_gives(f):
    g = tg.function(f)
    for x in (torch.tensor([1, 2, 3]), torch.tensor([5, 0, 1]), torch.tensor([2, 2, 2])):
        expected, found = f(x, torch.tensor(2)), g(x, torch.tensor(2))
        kinds = [[v.dtype if isinstance(v, torch.Tensor) else type(v) for v in r] for r in (expected, found)]  # fmt: skip
        assert kinds[0] == kinds[1]
        assert [torch.as_tensor(v).tolist() for v in expected] == [torch.as_tensor(v).tolist() for v in found]  # fmt: skip
