"""Sets that lose items which only the run knows: `discard` and `remove`."""

import torch

from tests.converters.both import Cases

cases = Cases()
ROWS = (torch.tensor([1, 2, 3, 4]),), (torch.tensor([3, 3, 5, 0]),), (torch.tensor([9, 1, 2, 2]),)


@cases.tensors(*ROWS)
def discarded(x):
    s = set(range(2, 20))
    for k in range(4):
        p = int(x[k])
        s.discard(p * 2)
        s.discard(p * 3)
    return s, len(s), 4 in s, sum(s), sorted(s), [k for k in s if k > 9]


@cases.tensors(*ROWS)
def removed(x):
    s = {1, 2, 3}
    try:
        s.remove(int(x[0]))
        s.remove(int(x[1]))
    except KeyError as e:
        return "no", s, str(e)
    return "yes", s


@cases.tensors(*ROWS)
def in_a_loop(x):
    s, i = {0, 2, 4, 5}, 0
    while i < x[0] and i < 3:
        s.discard(int(x[i]))
        if x[i] > 2:
            s.add(7)
        i += 1
    return s, 7 in s, len(s)


@cases.tensors(*ROWS)
def pairs(x):
    s = {(0, 1), (1, 1), (3, 1)}
    s.discard((int(x[0]), 1))
    return s, (1, 1) in s


@cases.tensors(*ROWS)
def of_many(x):
    s, none = set(range(100)), set()
    s.discard(int(x[0]))
    none.discard(int(x[0]))
    return len(s), 3 in s, none, 3 in none


class Seats:
    def __init__(self):
        self.free = {0, 1, 2, 3}

    def take(self, k):
        self.free.remove(k)
        return len(self.free)


@cases.tensors(*ROWS)
def of_an_object(x):
    seats = Seats()
    return seats.take(int(x[0]) % 4), seats.free


@cases.tensors((torch.rand(5, 5, generator=torch.Generator().manual_seed(1)),), (torch.ones(5, 5),))
def nearest_neighbours(distances):
    left, at, tour = set(range(1, 5)), 0, [0]
    while left:
        at = min(left, key=lambda j: distances[at, j].item())
        tour.append(at)
        left.remove(at)
    return tour, left


test_same = cases.test()
