"""x[i], slices, writes, updates, deletes; on lists and dicts, and on objects of a class of their own."""

import operator

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


def vector():
    return torch.arange(6.0)


@cases((1,), (3,))
def list_slices(i):
    l = [1, 2, 3, 4]
    return l[:i], l[i:], l[::2], l[i - 1 : i + 1]


@cases((1,), (2,))
def list_slice_write_and_delete(i):
    l = [1, 2, 3, 4]
    l[1:2] = [i, i]
    del l[0]
    del l[-1:]
    return l


@cases((1,), (2,), (3,))
def bounds_that_are_numbers_on_one_path(n):
    end = None
    if n > 1:
        end = n
    at = 0 if n > 2 else torch.as_tensor(n)
    x, grid, l = vector(), torch.ones(4, 4), [1, 2, 3]
    x[end:] = 9
    grid[at, at:] += 5
    del l[end:]
    return x, x[:end], x[at : at + 1], grid, grid[at, :end], (1, 2, 3)[end:], l


@cases.tensors((torch.tensor([1, 2, 3]),), (torch.tensor([0, 6]),))
def start_that_begins_as_a_number(sizes):
    parts, start = [], 0
    for n in sizes:
        parts.append(vector()[start : start + n].sum())
        start = start + n
    return parts, start


@cases((1,), (2,))
def delete_at(i):
    l = [1, 2, 3, 4]
    del l[i]
    return l


@cases((0,), (5,))
def dict_of_lists(x):
    d = {"a": [1, 2]}
    d["a"][0] += x
    d["b"] = d["a"]
    d["b"].append(x)
    del d["a"]
    return d


@cases(({"a": 1}, "a"), ({"a": 1}, "b"), kinds=("python", "tensor"))
def dict_methods(d, k):
    return d.get(k), d.get(k, 5), d.setdefault(k, 3), k in d, d.pop(k)


@cases((1,), (9,))
def key_and_index_evaluated_once(x):
    count = []

    def index():
        count.append(1)
        return 0

    l = [x]
    l[index()] += 1
    return l, len(count)


@cases((1,), (9,))
def the_value_before_the_container_and_the_key(x):
    order = []

    def noted(name, value):
        order.append(name)
        return value

    l = [x, x + 1]
    noted("container", l)[noted("key", 1)] = noted("value", x * 2)
    return l, order


class Grid:
    def __init__(self):
        self.cells = {}

    def __getitem__(self, k):
        if k > 2:
            return "large"
        return self.cells.get("c", k)

    def __setitem__(self, k, v):
        if k > 2:
            v = v * 100
        self.cells["c"] = v


@cases((1, 5), (3, 5))
def own_subscripts(k, v):
    g = Grid()
    before = g[k]
    g[k] = v
    g[k] = v + 1
    return before, g.cells


@cases((5,), (-5,))
def tuple_swap(x):
    l = [1, x]
    l[0], l[1] = l[1], l[0]
    return l


@cases((torch.tensor([1, 2, 4]),), (torch.tensor([4, 2, 1]),), (torch.tensor([5, 5, 5]),))
def staged_tuple_keys(x):
    table = {(1, 2): 10, (4,): 12, 3: 1, (4, 2): 9}
    pair = (x[0].item(), x[1].item())
    return pair in table, table.get(pair, 7), pair in [(1, 2), (3, 4)], pair not in {(4, 2)}


@cases((torch.tensor([1, 2]),), (torch.tensor([3, 3]),))
def staged_tuple_key_read_and_written(x):
    table = {(1, 2): 10, (3, 3): 20}
    table[x[0].item(), x[1].item()] += 5
    return table[x[0].item(), 2 if x[0] == 1 else 3], table


test_same = cases.test()


def _changed(change):
    items = [1, 2, 3]
    change(items)
    return items


def grown(x):
    items = []
    for i in range(int(x) + 3):
        items.append(i)
    return items


NO_PLACES = {
    "slice": lambda x: [1, 2, 3][: x.item()],
    "step": lambda x: (1, 2, 3)[:: x.item()],
    "text": lambda x: "abc"[x.item() :],
    "grown_item": lambda x: grown(x)[x.item()],
    "grown_slice": lambda x: grown(x)[: x.item()],
    "plain_in_grown": lambda x: grown(x)[1.5],
    "range": lambda x: range(5)[x.item()],
    "set_item": lambda x: _changed(lambda items: operator.setitem(items, x.item(), 4)),
    "set_slice": lambda x: _changed(lambda items: operator.setitem(items, slice(x.item()), [4])),
    "del_item": lambda x: _changed(lambda items: operator.delitem(items, x.item())),
    "del_slice": lambda x: _changed(lambda items: operator.delitem(items, slice(x.item()))),
    "insert": lambda x: _changed(lambda items: items.insert(x.item(), 4)),
    "pop": lambda x: _changed(lambda items: items.pop(x.item())),
    "enumerate": lambda x: list(enumerate([1], x.item())),
    "index": lambda x: [1, 2, 3].index(2, x.item()),
    "in_a_branch": lambda x: [1, 2, 3][: x.item()] if x > 0 else [],
}


@pytest.mark.parametrize("name", NO_PLACES)
def test_a_float_of_the_run_is_no_place(name):
    """In the first call as in later ones, which another program runs."""
    plain, f = NO_PLACES[name], tg.function(NO_PLACES[name])
    x = torch.tensor(1.0)
    for g in (plain, f, f, f):
        with pytest.raises(TypeError, match="integer"):
            g(x)
