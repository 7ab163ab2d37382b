"""``collections.deque`` made in converted code, whose length depends on staged conditions, and those from outside."""

import copy
import random
from collections import deque

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, same

cases = Cases()


@cases((1,), (-1,))
def branch(x):
    d = held = deque(maxlen=2)
    d.append(x)
    if x > 0:
        d.append(x + 1)
        d.append(x + 2)
    return d is held, list(held), len(d), d.maxlen


@cases((2,), (0,), (-4,))
def rotated(n):
    d, e, one = deque([1, 2, 3], maxlen=3), deque([n, "x", 2.5]), deque([4])
    d.rotate(n)
    e.rotate(n - 1)
    one.rotate(n)
    if n > 0:
        d.rotate(n)
        e.append(n)
    e.rotate(n)
    return d, e, one


@cases((5,), (1,), (0,))
def window(n):
    w, sums = deque(maxlen=3), []
    for i in range(n):
        w.append(i)
        if len(w) == w.maxlen:
            sums.append(w[0] + w[1] + w[-1])
    return sums, list(w)


@cases((3,), (1,))
def queue(n):
    q, order = deque([n]), []
    while q:
        v = q.popleft()
        order.append(v)
        if v > 0:
            q.append(v - 1)
        if v > 1:
            q.appendleft(v - 2)
    return order


@cases((3,), (2,), (1,), (0,))
def emptied(n):
    q = deque()
    for i in range(n):
        q.append(i)
    last = q.pop()
    return last, q.popleft(), list(q)


@cases((5, 2), (5, -7), (1, 3), (0, 2))
def turned(n, k):
    d = deque()
    for i in range(n):
        d.append(i)
    d.rotate(k)
    before = list(d)
    d.rotate()
    d.extendleft(before)
    d.reverse()
    return before, list(d), d.count(1)


@cases((6,), (2,), (0,))
def written(n):
    d = deque(maxlen=4)
    for i in range(n):
        d.appendleft(i)
    d[0] = 7
    d[-1] = d[-1] + 1
    del d[1]
    return list(d)


@cases((3,), (1,))
def extended(n):
    d, e = deque(maxlen=3), deque()
    for i in range(n):
        d.append(i)
        e.append(-i)
    d.extend(e)
    f = d.copy()
    f.extendleft(e)
    g = copy.copy(f)
    g.append(9)
    return list(d), list(e), list(f), list(g)


@cases((1,), (-1,))
def cleared(x):
    d = deque([x, x], maxlen=3)
    if x > 0:
        d.clear()
    d.append(x)
    print(d, f"{d}")
    return list(d)


@cases((1,), (-1,))
def kinds(x):
    d = deque([1, x])
    if x > 0:
        d.append(x)
    same = d == [1, x], d == deque([1, x]), d != deque([1, x])
    return *same, isinstance(d, deque), isinstance(d, list), type(d) is deque, hasattr(d, "sort")


@cases((1,))
def changed_while_iterated(x):
    d = deque([x, 2])
    for v in d:
        d.append(v)


@cases((1,))
def sliced(x):
    return deque([x, x])[0:1]


@cases((1,))
def list_and_deque(x):
    return [x] + deque([x])


@cases((1,))
def deque_and_list(x):
    return deque([x]) + [x]


test_same = cases.test()


def test_what_comes_out_is_a_deque():
    @tg.function
    def last(n):
        d = deque(maxlen=2)
        for i in range(n):
            d.append(i)
        return d, deque([n])

    staged, plain = last(torch.tensor(4))
    assert type(staged) is deque and staged.maxlen == 2 and [int(v) for v in staged] == [2, 3]
    assert type(plain) is deque and plain.maxlen is None


@pytest.mark.parametrize("n", [1, 5])
def test_gradient_through_a_window(n):
    def total(x, n):
        d = deque(maxlen=3)
        for i in range(n):
            d.append(x * i)
        return sum(list(d)).sum()

    x = torch.ones(2, requires_grad=True)
    want = torch.autograd.grad(total(x, n), x)[0]
    got = torch.autograd.grad(tg.function(total)(x, torch.tensor(n)), x)[0]
    assert torch.equal(want, got)


def test_branches_of_different_bounds_are_told_apart():
    @tg.function
    def one_of(x):
        d = deque([x]) if x > 0 else deque([x, x], maxlen=3)
        return d, len(d), d.maxlen

    assert one_of(torch.tensor(1))[1:] == (1, None)
    assert one_of(torch.tensor(-1))[1:] == (2, 3)


def test_an_argument():
    @tg.function
    def f(queue, x):
        queue.append(x)
        queue[0] = queue[0] + 1
        if x > 1:
            queue.rotate(1)
        return sum(queue), len(queue), queue.maxlen, torch.stack(list(queue)), x in queue

    def run(function):
        queue = deque([torch.tensor(1.0), torch.tensor(2.0)], maxlen=3)
        return [(function(queue, torch.tensor(float(i))), list(queue)) for i in range(5)]

    assert same(run(f.python_function), run(f))
    assert f.trace_count < 5


def test_an_error_leaves_an_argument_as_it_was():
    @tg.function
    def f(queue, x):
        queue[0] = x
        if x > 0:
            raise KeyError("none")

    queue = deque([torch.tensor(1.0)])
    with pytest.raises(KeyError):
        f(queue, torch.tensor(2.0))
    assert [x.item() for x in queue] == [2.0]

    @tg.function
    def g(queue, x):
        queue[0] = x
        return tg.nothing

    with pytest.raises(AttributeError):
        g(queue, torch.tensor(3.0))
    assert [type(x) for x in queue] == [torch.Tensor]


MEMORY = deque(maxlen=4)


def replayed(x):
    MEMORY.append((x, x * 2))
    first = random.choice(MEMORY)
    batch = [a + b for a, b in random.sample(MEMORY, min(2, len(MEMORY)))]
    return first, torch.stack(batch), MEMORY[x.long() % len(MEMORY)]


def rewritten(i):
    MEMORY[i] = (torch.tensor(5.0), torch.tensor(6.0))
    return [a.item() for a, _ in MEMORY]


@pytest.mark.filterwarnings("ignore:.*retracing")
@pytest.mark.parametrize(
    ("f", "given"), [(replayed, [float(i) for i in range(6)]), (rewritten, [0, 2, -1, 7])]
)
def test_a_deque_from_outside_by_a_number_of_the_run(f, given):
    found = []
    for g in (f, tg.function(f)):
        random.seed(3)
        MEMORY.clear()
        MEMORY.extend((torch.tensor(float(i)), torch.tensor(1.0)) for i in range(4))
        found.append([])
        for x in given:
            try:
                found[-1].append(str(g(torch.tensor(x))))
            except IndexError as error:
                found[-1].append(str(error))
        found[-1].append(list(MEMORY))
    assert found[0] == found[1]
