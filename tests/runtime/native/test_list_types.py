"""Lists that begin empty get the kind of items that their users take them for."""

from collections import defaultdict

import pytest
import torch

import tograph as tg
from tograph.runtime.execution import scheduler
from tograph.runtime.graph.ir import all_nodes
from tograph.runtime.native.list_types import typed


def count(x):
    counts = {}
    for v in x.tolist():
        counts[v] = counts.get(v, 0) + 1
    return counts


def distinct(x):
    seen, out = set(), []
    for v in x.tolist():
        if v not in seen:
            seen.add(v)
            out.append(v)
    return out


def means(x):
    total = {}
    for v in x.tolist():
        n, s = total.get(v % 3, (0, 0.0))
        total[v % 3] = (n + 1, s + v / 2)
    return total


def several(x):
    a, b, c, d = [], [], [], []
    for v in x:
        if v > 2:
            a.append(v)
            b.append(v.item())
        elif v > 1:
            c.append([])
    return a, b, [list(r) for r in c], d


def pairs(x):
    ids, ranks = x.tolist(), {(0, 1): 5, (1, 2): 6}
    while len(ids) > 1:
        best = None
        for p in zip(ids, ids[1:]):
            if p in ranks and (best is None or ranks[p] < ranks[best]):
                best = p
        if best is None:
            break
        out, i = [], 0
        while i < len(ids):
            if i + 1 < len(ids) and (ids[i], ids[i + 1]) == best:
                out.append(ranks[best])
                i += 2
            else:
                out.append(ids[i])
                i += 1
        ids = out
    return ids


@pytest.mark.parametrize("f", [count, distinct, means, pairs])
def test_dicts_and_sets_are_native(f):
    g = tg.function(f)
    for values in ([0, 1, 2, 0, 1, 1, 2], [3, 3, 3, 3, 3, 3, 3], [5, 4, 3, 2, 1, 0, 1]):
        x = torch.tensor(values)
        for _ in range(5):
            found, expected = g(x), f(x)
            assert found == expected
            assert repr(found) == repr(expected)
    assert [cf.scheduled.level for cf in g.concrete_functions] == ["native"]


def test_lists_of_several_kinds():
    g = tg.function(several)
    for values in ([1, 2, 3, 4], [0, 0, 0, 0], [2, 2, 2, 2]):
        x = torch.tensor(values)
        for _ in range(4):
            found, expected = g(x), several(x)
            assert str(found) == str(expected)


TEXT = """main(%0: int) {
  %1: list<?> = tg.list_of()
  %2: list<int> = tg.list_push(%1, %0)
  %3: f32[2] = aten.full.default([2], %0, dtype=torch.float32)
  %4: list<f32[2]> = tg.list_push(%1, %3)
  %5: int = tg.list_size(%1)
  %6: bool = py.gt(%0, 1)
  %7: list<int> = If(%6, %2, %1) {
    then(%8: list<int>, %9: list<?>) {
      return %8
    }
    orelse(%8: list<int>, %9: list<?>) {
      return %9
    }
  }
  return %7, %4, %5, %1
}"""


def test_one_empty_list_serves_as_several():
    graph = tg.parse_graph(TEXT)
    made = typed(graph)
    assert made is not graph
    assert not any("?" in str(v.type) for n in all_nodes(made) for v in n.outputs)
    assert any("?" in str(v.type) for n in all_nodes(graph) for v in n.outputs)
    program = scheduler.build(graph)
    for n in (0, 1, 2, 3):
        whole, rows, size, none = program.run(n)
        assert list(whole) == ([n] if n > 1 else [])
        assert [r.tolist() for r in rows] == [[n, n]]
        assert (size, list(none)) == (0, [])
    assert program.level == "native", program.reason


def groups(x, y):
    """The first item of each group is put in a list of lists of which nobody knows yet what they hold: of ints, and of floats."""
    pairs, values = {}, defaultdict(list)
    for k, v in zip(x.tolist(), y.tolist()):
        pairs.setdefault(k, []).append((k, v))
        values[k].append(v)
        if len(values[k]) > 2:
            values[k].pop(0)
    return pairs, dict(values)


def test_groups_that_begin_empty():
    g = tg.function(groups)
    for seed in range(4):
        gen = torch.Generator().manual_seed(seed)
        given = torch.randint(0, 3, (6,), generator=gen), torch.randn(6, generator=gen)
        assert g(*given) == groups(*given)
    (cf,) = g.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")
