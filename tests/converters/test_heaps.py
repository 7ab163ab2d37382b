"""``heapq`` and ``bisect`` on lists whose items or length only the run knows."""

import bisect
import heapq

import torch

import tograph as tg
from tests.converters.both import Cases, compare

cases = Cases()


@cases(([3.0, 1.0, 2.0],), ([-1.0, -2.0, 5.0],), ([-1.0, -1.0, -1.0],))
def pushed_by_a_condition(x):
    h = []
    for v in x:
        if v > 0:
            heapq.heappush(h, v)
    n, out = len(h), []
    while h:
        out.append(heapq.heappop(h))
    return n, out


@cases(([3.0, 1.0, 2.0, 0.5],), ([4.0, 5.0, 6.0, 7.0],))
def largest_kept(x):
    h = []
    for v in x:
        if len(h) < 2:
            heapq.heappush(h, v)
        elif v > h[0]:
            heapq.heapreplace(h, v)
    return h


@cases(([3.0, 1.0, 2.0, 0.5, 4.0],), ([4.0, 5.0, 3.0, 7.0, 6.0],))
def places_are_those_of_the_library(x):
    h = [(v, i) for i, v in enumerate(x)]
    heapq.heapify(h)
    first = heapq.heappushpop(h, (x[0] - 1, 9))
    return h, first, heapq.nsmallest(2, h), heapq.nlargest(2, h, key=lambda p: p[1])


@cases(([1.0, 2.0],), ([-1.0, -1.0],))
def empty_heap(x):
    h = []
    for v in x:
        if v > 0:
            heapq.heappush(h, v)
    return heapq.heappop(h)


@cases(([3.0, 1.0, 2.0, 0.5],), ([4.0, 5.0, 3.0, 7.0],))
def in_order(x):
    xs = []
    for v in x:
        if v > 0.7:
            bisect.insort(xs, v)
    return (
        xs,
        bisect.bisect(xs, 3.0),
        bisect.bisect_left(xs, 3.0),
        bisect.bisect(xs, -2.0, key=lambda v: -v),
    )


test_same = cases.test()


def shortest(adj):
    dist, heap = [float("inf")] * 4, [(0.0, 0)]
    dist[0] = 0.0
    while heap:
        d, u = heapq.heappop(heap)
        if d > dist[u]:
            continue
        for v in range(4):
            w = adj[u, v].item()
            if w > 0 and d + w < dist[v]:
                dist[v] = d + w
                heapq.heappush(heap, (dist[v], v))
    return dist


def test_shortest_paths():
    g = torch.Generator().manual_seed(0)
    graphs = [
        torch.rand(4, 4, generator=g) * (torch.rand(4, 4, generator=g) > 0.4) for _ in range(3)
    ]
    compare(shortest, *((a,) for a in graphs))
    assert tg.function(shortest).get_concrete_function(graphs[0]) is not None


def states(x):
    """The tensors are compared only where the costs are equal."""
    h = []
    for i in range(3):
        heapq.heappush(h, (-x[i], x * i))
    return [heapq.heappop(h)[1] for _ in range(3)]


def test_ties_of_tensors():
    compare(states, (torch.tensor([3.0, 1.0, 2.0]),), (torch.tensor([3.0, 3.0, -2.0]),))


def ordered(x):
    return sorted([(x[i], {"at": i}) for i in range(3)])[0]


def test_ties_of_what_has_no_order():
    compare(ordered, (torch.tensor([3.0, 1.0, 2.0]),), (torch.tensor([3.0, 3.0, -2.0]),))


def merged(x):
    a, b = sorted(float(v) for v in x[:2]), sorted(float(v) for v in x[2:])
    return (
        list(heapq.merge(a, b)),
        list(heapq.merge([3, 1], [2, 0], reverse=True)),
        [v for v in heapq.merge(b, a, b, key=lambda v: -v)],
    )


def test_merge():
    compare(merged, (torch.tensor([3.0, 1.0, 2.0, 1.0]),), (torch.tensor([0.0, 1.0, 5.0]),))
