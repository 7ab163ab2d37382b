"""x[i], slices, writes, updates, deletes; on lists, dicts and tensors; staged indices."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()


def vector():
    return torch.arange(6.0)


@cases((0,), (2,), (-1,), (3,))
def list_read(i):
    l = [10, 20, 30]
    return l[i]


@cases((0,), (2,), (-1,), (3,))
def list_write(i):
    l = [10, 20, 30]
    l[i] = 7
    return l


@cases((1,), (-4,))
def list_update(i):
    l = [10, 20, 30]
    l[i] += 7
    return l


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


@cases((1,), (2,))
def delete_at(i):
    l = [1, 2, 3, 4]
    del l[i]
    return l


@cases((0,), (1,), (2,))
def tuple_read(i):
    return (10, 20)[i]


@cases.tensors((vector(), 0), (vector(), 5), (vector(), -6), (vector(), 6))
def tensor_read(x, i):
    return x[i]


@cases.tensors((vector(), torch.tensor(2)), (vector(), torch.tensor(0)))
def staged_slices(x, i):
    return x[:i], x[i:], x[i : i + 2], x[1:-1]


@cases.tensors((vector().reshape(2, 3), torch.tensor(1)))
def many_dimensions(x, i):
    return x[i, 1], x[:, i], x[..., 0], x[None, i], x[0, 1:], x[[1, 0], [0, 2]]


@cases.tensors((vector(),))
def masks(x):
    y = x.clone()
    y[y > 2] = 0
    return y, x[x > 2]


@cases.tensors((vector(), torch.tensor(2)))
def tensor_writes(x, i):
    y = x.clone()
    y[i] = 10
    y[0] += 5
    y[3:] *= 2
    y[i + 1] = y[i]
    return y


@cases.tensors((vector(),))
def argument_written(x):
    x[0] = 9
    x[1:3] += 1


@cases.tensors((vector(), torch.tensor(4)), (vector(), torch.tensor(0)))
def writes_in_a_loop(x, n):
    y = torch.zeros(6)
    for i in range(n):
        y[i] = x[i] * 2
        y[-1] += 1
    return y


@cases.tensors((vector(), torch.tensor(1)), (vector(), torch.tensor(-1)))
def writes_in_a_branch(x, c):
    y = x.clone()
    if c > 0:
        y[0] = 5
    else:
        y[1:] = y[:-1].clone()
    return y


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


@cases((2,), (0,))
def staged_index_in_a_loop(n):
    l = [3, 1, 4, 1, 5]
    s = 0
    for i in range(n):
        s += l[i] * l[-i - 1]
        l[i] = s
    return s, l


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


@cases((2, 0), (-1, 1), (9, 1), (-10, 1))
def items_of_long_sequences(i, n):
    squares = [k * k for k in range(9)]
    halves = tuple(k / 2 for k in range(9))
    odd = [k % 2 == 1 for k in range(9)]
    mixed = ["a", 1, 2.0, None, "e", "f", 6, (7, 8), 8.5]
    return squares[i], halves[n], odd[i], mixed[i] if n else mixed[n]


@cases.tensors(
    (torch.arange(12.0).reshape(4, 3), torch.tensor([0.0, 3.0, 2.0, 1.0])),
)
def rows_swapped_by_a_list_of_staged_numbers(x, v):
    p = int(v.argmax())
    q = int(v.argmin())
    x[[p, q]] = x[[q, p]]
    x[[0, p], [q, 1]] += 1
    return x, v[[p, 0]]


@cases.tensors((vector(), 1), (vector(), -1))
def read_and_written_by_a_bool(x, k):
    found = bool(k > 0)
    rows = x[found]
    y = x.clone()
    y[found] = 7
    return rows.shape[0], rows, y


@cases((0, 2), (1, 3), (7, 1), (0, 9), (2, -1))
def slices_written_by_a_staged_step(i, n):
    x, y = torch.zeros(8), torch.zeros(2, 8)
    x[i::n] = 5.0
    x[i:6:n] = 7.0
    y[1, ::n] = torch.ones(())
    y[:, -4:-1:n] = 3.0
    return x, y


@cases.tensors(
    (torch.arange(30.0).reshape(2, 3, 5), torch.tensor([2, 0, 1]), 1),
    (torch.ones(2, 3, 5), torch.tensor([0, 0, 2]), -2),
)
def staged_numbers_beside_tensors(x, rows, k):
    i = int(k)
    y = x.clone()
    y[i, rows, 1:3] = 7.0
    y[rows % 2, ..., i] += 1
    return (
        x[i, rows],
        x[:, rows, i],
        x[None, i, [0, 2], rows[:2]],
        x[i, rows > 0, 2],
        x[rows % 2, i, rows],
        y,
    )


test_same = cases.test()


def test_a_slice_read_by_a_staged_step_is_refused():
    with pytest.raises(StagingError, match="step"):
        tg.function(lambda x, n: x[:: n.item()])(torch.zeros(4), torch.tensor(2))
