"""Lists in lists that others come in the place of, that are put in and taken out of the middle, and a choice among lists, in native code."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def rows(codes):
    rows, kept = [[0]], []
    for c in codes.tolist():
        k, v, n = c % 7, c // 7, len(rows)
        if k == 0:
            rows.append([v] * (v % 5))
        elif k == 1:
            rows.insert(v % (n + 2), [v] * (v % 6))
        elif k == 2 and n > 1:
            rows.pop(v % n)
        elif k == 3 and n:
            rows[v % n] = rows[v % n] + [v]
        elif k == 4 and n:
            rows[v % n] = rows[(v + 1) % n][: v % 3]
        elif k == 5 and n:
            kept = rows[v % n]
        elif k == 6:
            rows.insert(0, kept)
    return rows, kept


def tables(codes):
    tables = [[[0]]]
    for c in codes.tolist():
        k, v, n = c % 6, c // 6, len(tables)
        if k == 0:
            tables.append([[v] * (v % 3), []])
        elif k == 1:
            tables.insert(v % (n + 1), [[v]] * (v % 3))
        elif k == 2 and n > 1:
            tables.pop(v % n)
        elif k == 3 and n:
            tables[v % n] = tables[v % n] + [[v, v + 1]]
        elif k == 4 and n:
            tables[v % n] = tables[(v + 1) % n][1:]
        elif k == 5 and n:
            tables[v % n] = []
    return tables


def tensors(codes):
    x = torch.arange(24.0).view(8, 3)
    rows = [[x[0]]]
    for c in codes.tolist():
        k, v, n = c % 5, c // 5, len(rows)
        if k == 0:
            rows.append([x[v % 8]])
        elif k == 1:
            rows.insert(v % (n + 1), [x[v % 8], x[(v + 1) % 8]])
        elif k == 2 and n > 1:
            rows.pop(v % n)
        elif k == 3 and n:
            rows[v % n] = rows[v % n] + [x[v % 8] * 2]
        elif k == 4 and n:
            rows[v % n] = rows[(v + 1) % n]
    return [torch.stack(r).sum().item() for r in rows if len(r)], len(rows)


def heap(codes):
    """A heap as a list of pairs of a number and a list, by hand."""
    heap = [(c, [i, c]) for i, c in enumerate(codes.tolist()) if c % 3]
    found = []
    while len(heap) > 1:
        least = 0
        for i in range(len(heap)):
            if heap[i][0] < heap[least][0]:
                least = i
        a = heap.pop(least)
        heap[0] = (heap[0][0] + a[0], heap[0][1] + a[1])
        found.append(a[1])
    return found, heap[0][1]


@pytest.mark.parametrize("f", [rows, tables, tensors, heap])
def test_as_python(f):
    g = tg.function(f)
    for seed in range(12):
        gen = torch.Generator().manual_seed(seed)
        codes = torch.randint(0, 200, (48,), generator=gen)
        assert g(codes) == f(codes)
    (cf,) = g.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")
