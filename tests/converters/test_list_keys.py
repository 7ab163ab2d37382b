"""Tensors read and written at the places that a list names whose length is known only when the graph runs."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
rows = [
    (torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]]),),
    (torch.tensor([[-1.0, 0.5], [-1.0, -2.0], [-3.0, 1.0]]),),
]


def positive(x):
    return [i for i in range(len(x)) if x[i].sum() > 0]


@cases.tensors(*rows)
def read(x):
    places = positive(x)
    return x[places], x[:, positive(x.t())], x[places, [0]], torch.arange(3)[places]


@cases.tensors(*rows)
def written(x):
    places = []
    for i, row in enumerate(x):
        if row.sum() > 0:
            places.append(i)
    x[places] = 7.0
    x[places, 1:] += 1
    return x


@cases.tensors(*rows)
def by_bools(x):
    kept = []
    for row in x:
        kept.append(bool(row.sum() > 0))
    n = 0
    while n < x.sum():
        kept[0] = not kept[0]
        n += 1
    return x[kept], kept


@cases.tensors(*rows)
def by_tensors(x):
    places = []
    for row in x:
        if row[0] > 0:
            places.append(row.argmax())
    return x[:, places], x[places, 1:], [x[p] for p in places]


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([1.0, 9.0]),))
def out_of_range(x):
    places = []
    n = 0
    while n < x[1]:
        n += 3
        if n > 3:
            places.append(n)
    return x[places]


@cases.tensors(*rows)
def lists_that_are_tuples(x):
    i, j = x[0].argmin(), x[:, 0].argmax()
    y = x.clone()
    y[[j, i]] = 9
    return x[[j, i]], x[[j, 1]], x[[[j, i], [0, 1]]], x[[j, slice(0, 1)]], x[[i.item(), 1]], y


test_both = cases.test()


def test_a_tuple_of_as_many_parts_as_the_run_selects_is_refused():
    def f(x):
        return x[[row.argmax() for row in x if row[0] > 0]]

    with pytest.raises(tg.errors.StagingError, match="outside of converted code"):
        tg.function(f)(torch.eye(3))
