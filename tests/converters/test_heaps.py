"""``heapq`` and ``bisect`` on lists whose items or length only the run knows."""

import bisect
import heapq
from dataclasses import dataclass, field

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import SharedMemoryError

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


@dataclass(order=True)
class Event:
    time: float
    kind: str = field(compare=False)
    who: int = field(compare=False)


def simulation(rates, horizon):
    q = []
    for i, r in enumerate(rates.tolist()):
        heapq.heappush(q, Event(1.0 / r, "arrive", i))
    now, log = 0.0, []
    while q:
        event = heapq.heappop(q)
        if event.time > horizon:
            break
        now = event.time
        log.append(event.who)
        if event.kind == "arrive":
            heapq.heappush(q, Event(now + 0.3, "leave", event.who))
    return now, log, [(e.time, e.kind) for e in q]


def test_events_that_can_change():
    rates = torch.tensor([0.7, 1.3])
    compare(simulation, *((rates, torch.tensor(h)) for h in (3.0, 1.0, -1.0)))


class Job:
    def __init__(self, at, number):
        self.at, self.number = at, number

    def __lt__(self, other):
        return self.at < other.at


def served(rates, horizon):
    """What is taken changes, and goes back."""
    q = [Job(1 / r, i) for i, r in enumerate(rates.tolist())]
    heapq.heapify(q)
    counts = [0, 0]
    while q[0].at < horizon:
        job = heapq.heappop(q)
        counts[job.number] += 1
        job.at = job.at + 1 / rates[job.number].item()
        heapq.heappush(q, job)
    return counts, [job.number for job in q]


def test_what_is_taken_changes():
    rates = torch.tensor([0.7, 1.3])
    compare(served, *((rates, torch.tensor(h)) for h in (3.0, 1.0, -1.0)))


def test_a_change_of_what_a_heap_has_moved_is_refused():
    def f(x, n):
        first, q = Job(x[0].item(), 0), []
        heapq.heappush(q, first)
        while len(q) < n:
            heapq.heappush(q, Job(x.sum().item(), 1))
        first.number = 7
        return heapq.heappop(q).number

    with pytest.raises(SharedMemoryError):
        tg.function(f)(torch.rand(2), torch.tensor(3))
