"""Unpacking takes the items of users' iterators and generators as a ``for`` does, with staged conditions inside."""

import torch

from tests.converters.both import Cases

cases = Cases()


class Countdown:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        y = self.x
        for _ in range(2):
            if y > 0:
                y = y - 1
            else:
                y = y + 10
            yield y


class Steps:
    def __init__(self, x, n):
        self.x, self.n = x, n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        if self.x.sum() > 1:
            self.x = self.x * 0.5
        else:
            self.x = self.x + 1
        return self.x


@cases((torch.tensor(1.0),), (torch.tensor(3.0),), (torch.tensor(-3.0),))
def generator_method(x):
    a, b = Countdown(x)
    return a * b


@cases((torch.tensor(1.0),), (torch.tensor(-1.0),))
def starred(x):
    first, *rest = Countdown(x)
    return first, rest, [*Countdown(x), 1], max(*Countdown(x))


@cases((torch.ones(2),), (torch.zeros(2),))
def iterator_class(x):
    a, b, c = Steps(x, 3)
    return a, b, c


@cases((torch.ones(2),))
def too_many(x):
    a, b = Steps(x, 3)
    return a + b


@cases((torch.ones(2),))
def too_few(x):
    a, b, c = Steps(x, 2)
    return a + b + c


def positive(x):
    return [v for v in x if v > 0]


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],), ([1.0, 2.0, 3.0],))
def a_list_of_the_graph(x):
    a, b = positive(x)
    return a - b


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],), ([1.0, 2.0, 3.0],))
def the_rest_of_a_list_of_the_graph(x):
    a, *b = positive(x)
    *c, d = positive(x)
    c.append(a)
    x[0], *x[1:2], e = positive(x)
    return a, b, c, d, x


@cases((torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, -2.0]),))
def rows_and_ranges_of_the_graph(x):
    n = len(positive(x))
    a, b = x[x > 0]
    c, *d = range(n)
    return a, b, c, d, [*range(n)], [*map(abs, positive(x))], (lambda *r: r)(*x[x > 0])


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],))
def a_rest_that_grows(x):
    a, *b = [1.0, 2.0, 3.0]
    c, *d, e = x
    if x[0] > 0:
        b.append(9.0)
        d.append(x[1])
    return a, b, c, d, e


@cases((torch.tensor(1.0),), (torch.tensor(3.0),), (torch.tensor(-3.0),))
def inside_another_one(x):
    (a, b), c = Countdown(x), 1
    (d, *e), [f, (g, h)] = [Countdown(x * 2), (c, Countdown(x - 1))]
    total = 0
    for (i, j), k in [(Countdown(x), 1), (Countdown(-x), 2)]:
        total = total + i * k - j
    return a, b, c, d, e, f, g, h, total


test_same = cases.test()
