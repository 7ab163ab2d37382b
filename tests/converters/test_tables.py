"""Dicts and sets with keys that are known only when the graph runs."""

from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()
ROWS = (torch.tensor([3, 1, 2, 3]),), (torch.tensor([7, 7, 0, 5]),)


@cases.tensors(*ROWS)
def counts(x):
    d, c, g = {}, Counter(), defaultdict(int)
    for v in x:
        k = int(v)
        d[k] = d.get(k, 0) + 1
        c[k] += 1
        g[k] += 2
    print(d, f"{c}", d.keys(), d.items(), len(g))
    return d, c, g, c.most_common(2), c.total(), sorted(d), sorted(d.items(), key=lambda kv: -kv[1])


@cases.tensors(*ROWS)
def least_recently_used(x):
    cache, hits = OrderedDict(), 0
    for v in x:
        k = int(v)
        if k in cache:
            cache.move_to_end(k)
            hits += 1
        else:
            cache[k] = k * k
            if len(cache) > 2:
                cache.popitem(last=False)
    return hits, cache


@cases.tensors(*ROWS)
def visited(x):
    seen, order = set(), []
    for v in x:
        if int(v) in seen:
            continue
        seen.add(int(v))
        order.append(int(v))
    return order, seen, len(seen), sorted(seen)


@cases.tensors((torch.tensor(9),), (torch.tensor(1),))
def memo(x):
    found, n, i = {0: 0, 1: 1}, int(x), 2
    while i <= n:
        if i not in found:
            found[i] = found[i - 1] + found[i - 2]
        i += 1
    return found[n], list(found.values())


@cases.tensors(*ROWS)
def groups(x):
    a, b, c = {}, defaultdict(list), {}
    for i, v in enumerate(x):
        a.setdefault(int(v), []).append(i)
        b[int(v)].append(i)
        if int(v) not in c:
            c[int(v)] = []
        c[int(v)].append(v * 2)
    return a, b, c


@cases.tensors(*ROWS)
def taken_out(x):
    d = {int(v): float(v) for v in x}
    a, b = d.pop(int(x[0])), d.pop(-5, None)
    del d[int(x[2])]
    return a, b, d, bool(d)


@cases.tensors(*ROWS)
def missing(x):
    d = {int(v): 1 for v in x}
    return d[int(x[0]) + 40]


@cases.tensors(*ROWS)
def of_sets(x):
    a, b = {int(v) for v in x[:2]}, {int(v) for v in x[2:]}
    return a | b, a & b, a - b, a ^ b, a == b, a.issubset(b), sorted(a.union(b)), a.isdisjoint(b)


@cases.tensors(*ROWS)
def other_keys(x):
    pairs, texts = {}, {}
    for v in x:
        pairs[int(v), int(v) % 2] = 1
        key = f"k{int(v)}"
        texts[key] = texts.get(key, 0) + 1
    return pairs, texts, dict(zip(x.tolist(), range(4))), dict.fromkeys([int(v) for v in x], 0)


@cases.tensors(*ROWS)
def joined(x):
    d, e = {int(v): 1 for v in x}, {int(v) + 1: 2 for v in x}
    f = d | e
    d.update(e)
    c = Counter()
    c.update([int(v) for v in x])
    return d, f, d == f, d != e, c


test_same = cases.test()


def test_gradients_go_through_a_dict():
    @tg.function
    def f(x):
        d = {}
        d[int(x)] = x * x
        d[int(x) + 1] = x * 3
        return d[int(x)] + d[int(x) + 1]

    x = torch.tensor(3.0, requires_grad=True)
    assert torch.autograd.grad(f(x), x)[0] == 9


def test_the_order_of_a_set_is_refused():
    @tg.function
    def f(x):
        return [k for k in {int(v) for v in x}]

    with pytest.raises(StagingError, match="order"):
        f(torch.tensor([3, 1]))
