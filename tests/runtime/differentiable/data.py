"""Lists, dicts, objects and other data that branches and loops change."""

import collections
import dataclasses
from typing import NamedTuple

import torch

import tograph as tg

D = torch.float64


def appends(x, w, n):
    rows = [x]
    for i in range(n):
        if i % 2 == 0:
            rows.append(rows[-1] @ w)
        else:
            rows.append(rows[-2].sin())
    rows[0] = rows[-1] * 2
    return torch.stack(rows).square().sum(0) + rows.pop()


def list_methods(x, w, n):
    rows = [x, w[0]]
    for i in range(n):
        rows.extend([rows[0] * w[1], x.sin()])
        rows += [rows[1] @ w]
        rows[i] = rows[-1] * rows[i]
        rows.pop()
    return sum(rows[1:]) * rows[-2] + torch.cat(rows[:2]).sum()


def list_kept_while_it_shrinks(x, w, n):
    todo, total = [x, x @ w], x * 0
    while len(todo) > 0:
        y = todo.pop()
        total = total + y.sin()
        if n > 0 and len(todo) < 1 and total.sum() < 0.5 * n:
            todo.append(y * w[0])
    return total


def gone_over(x, w, n):
    rows = []
    for i in range(n + 1):
        rows.append((x * (i + 1)).sin())
    for i, row in enumerate(rows):
        x = x * row + i
    for a, b in zip(rows, reversed(rows)):
        x = x + a * b
    return x @ w


def list_of_lists(x, w, n):
    groups = [[x], [w[0], w[1]]]
    for i in range(n):
        groups[0].append(groups[1][i % 2] * groups[0][-1])
        groups[1][0] = groups[0][-1].sin()
    return torch.stack(groups[0]).sum(0) * torch.stack(groups[1]).sum(0)


def list_of_growing_lists(x, w, n):
    groups = []
    for i in range(n + 1):
        groups.append([x * i])
        groups[-1].append(w[0] * groups[-1][0])
    return sum(torch.stack(g).sum(0) for g in groups) + x


def items_of_other_sizes(x, w, n):
    rows = [x, (x @ w).sin()]
    for i in range(n):
        rows[i] = torch.cat([rows[i], rows[i - 1] * w[0, 0]])
        rows.append(rows[-1][:1] * 2)
    rows[0] = torch.cat([rows[0][:1], w[1], rows[-1]])
    return torch.cat(rows).sin().sum() * x


def lists_replaced_in_a_list(x, w, n):
    groups = []
    for i in range(n + 2):
        groups.append([x * i, w[0]])
    for i in range(n):
        groups[i] = groups[i] + [w[1] * x]
    return sum(torch.stack(g).sin().sum(0) for g in groups) * x


def inserted_items(x, w, n):
    rows = [x, w[0]]
    for i in range(n):
        rows.insert(0, rows[-1] * x + i)
        y = rows.pop(1)
        rows.append(y.sin())
    return torch.stack(rows).square().sum(0) * rows[0]


def list_of_pairs(x, w, n):
    pairs = [(x, 1)]
    for i in range(n):
        y, k = pairs[-1]
        pairs.append((y @ w, k + i))
    return sum(y * k for y, k in pairs)


def deque(x, w, n):
    window = collections.deque([x, w[0]], maxlen=3)
    for _ in range(n):
        window.append(window[0] * window[-1].sin())
    window.appendleft(window.pop() * 2)
    return torch.stack(list(window)).sum(0) * window[0]


def deque_rotated(x, w, n):
    queue = collections.deque([x, w[0], w[1]])
    for _ in range(n):
        y = queue.popleft()
        queue.append((y @ w).sin())
    return queue[0] * queue[2] + queue[1]


def dictionary(x, w, n):
    state = {"a": x, "b": (x.sin(), w[0])}
    while n > 0:
        state = {"a": state["b"][0] @ w, "b": (state["a"] * 0.5, state["b"][1] * x)}
        n = n - 1
    return state["a"] + state["b"][1]


def dict_items(x, w, n):
    d = {"a": x * 1, "b": w[0]}
    for i in range(n):
        d["a"] *= 0.5
        d["b"] = d["a"] * d["b"] + i
        d.update(a=d["b"].sin())
    for key, value in d.items():
        x = x * value if key == "a" else x + value
    return x + d.get("c", w[1]) * d.setdefault("a", x)


def dict_with_new_keys(x, w, n):
    d = {}
    for i in range(n + 1):
        if i not in d:
            d[i] = x * (i + 1)
        d[i] = d[i] * w[0]
    return sum(d.values()) * d[0].sin()


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


def named_tuple(x, w, n):
    p = Pair(x, w[0])
    for _ in range(n):
        p = p._replace(a=p.b * p.a)
        p = Pair(p.a.sin(), p.a @ w) if p.a.sum() > -9 else p
    return p.a + p.b


@dataclasses.dataclass
class Track:
    y: torch.Tensor
    age: int = 0

    def step(self, w):
        self.y = (self.y @ w).sin()
        self.age += 1
        return self

    @property
    def twice(self):
        return self.y * 2


def dataclass(x, w, n):
    t = Track(x)
    for i in range(n):
        t.step(w)
        if i > 0:
            t.y = t.twice * t.age
    return t.y + w[1]


@dataclasses.dataclass(frozen=True)
class Fixed:
    y: torch.Tensor
    k: torch.Tensor


def frozen_dataclass(x, w, n):
    t = Fixed(x, w[0])
    for _ in range(n):
        t = dataclasses.replace(t, y=t.y * t.k, k=t.y.cos())
    return t.y @ w + t.k


class Cell:
    def __init__(self, h):
        self.h, self.seen, self.parts = h, [], {"last": h}

    def __call__(self, x, w):
        self.h = torch.tanh(self.h @ w + x)
        self.seen.append(self.h * x)
        self.parts["last"] = self.parts["last"] * 0.5 + x
        return self.h

    def __add__(self, other):
        return self.h + (other if other.sum() > -9 else 0)

    def __getitem__(self, i):
        return self.seen[i] if i < len(self.seen) else self.h


def object_(x, w, n):
    cell = Cell(x)
    for _ in range(n):
        y = cell(x, w)
        cell.h = cell.h + 0.1 * y
    if n > 0:
        cell.h = cell.h * sum(cell.seen)
    return (cell + x) * cell[0] + cell.parts["last"]


def objects_in_a_list(x, w, n):
    tracks = [Track(x), Track(w[0])]
    for i in range(n):
        for t in tracks:
            if t.y.sum() > -9:
                t.step(w)
        tracks.append(Track(x * i))
    return sum(t.y * (t.age + 1) for t in tracks)


def optional(x, w, n):
    best = None
    for i in range(n):
        y = (x * (i + 1)).sin() @ w
        if best is None or y.sum() > best.sum():
            best = y
    return x if best is None else best * x


def unbound_or_bound(x, w, n):
    for i in range(n):
        y = x * (i + 1) @ w
    return x if n == 0 else y * x


def swaps(x, w, n):
    a, b = x, x @ w
    for _ in range(n):
        a, b = b, a * b.cos()
    return a + 2 * b


def number_or_tensor(x, w, n):
    total = 0
    for i in range(n):
        total = total + (x * w[i]).sum() * i
    return x * total + total


def numbers(x, w, n):
    k, scale = 0, 1.0
    for i in range(n):
        k += i + 1
        scale = scale * 0.5 + k
    return (x @ w) * scale + x**k


def numbers_of_tensors(x, w, n):
    size = x.shape[0] * len(w) + w.dim()
    scale = float(n) + int(n) * size
    return (x * scale).sin() @ w + min(n, 1) * x + max(1, n) * w[0] + abs(n - 5)


def reductions(x, w, n):
    rows = [w[0] * x, w[1], x]
    if n > 0:
        rows = sorted(rows, key=lambda r: r.sum())
    top = max(rows, key=lambda r: r[0].item())
    return sum(rows[:2], x) * top + (x if any(r.sum() > 99 for r in rows) else w[0])


def tensor_list(x, w, n):
    rows = tg.TensorList(D, [2])
    for i in range(n):
        rows = rows.push(x * i).push(x @ w)
    rows, last = rows.push(x).pop()
    return rows.push(last.sin()).stack().square().sum(0) * last


def tensor_list_items(x, w, n):
    rows = tg.TensorList.from_tensor(w)
    for i in range(n):
        rows = rows.set(i % 2, rows.get((i + 1) % 2) * x)
        rows = rows.push(rows.get(rows.size() - 1).sin())
    return rows.stack().sum(0) * rows.get(0)


def tensor_array(x, w, n):
    cells = tg.TensorArray(D, size=0, dynamic_size=True, element_shape=[2])
    for i in range(n + 1):
        cells = cells.write(i, torch.tanh(x @ w) * (i + 1))
    return cells.stack().sum(0) * cells.read(n).cos()


def tensor_array_gather_scatter(x, w, n):
    cells = tg.TensorArray(D, size=4, element_shape=[2]).scatter([3, 0], w)
    for i in range(n):
        cells = cells.write(i + 1, cells.read(i) * x)
    return cells.gather([0, 2, 0]).sum(0) * cells.gather([n, 3])[1] + x


def tensor_array_split_concat(x, w, n):
    cells = tg.TensorArray(D, size=3, infer_shape=False, element_shape=[None]).split(torch.cat([x, w[0], w[1, :1]]), [2, 1, 2])  # fmt: skip
    if n > 0:
        cells = cells.write(1, cells.read(0) * cells.read(2))
    else:
        cells = cells.write(1, x)
    return cells.concat().view(3, 2).sum(0) * cells.read(1)


def tensor_array_that_grows(x, w, n):
    cells = tg.TensorArray(D, size=0, dynamic_size=True).unstack(w)
    for i in range(n):
        cells = cells.write(i + 2, cells.read(i).sin() * x)
    return cells.stack().sum(0) * cells.read(n)


def tensor_array_unstack(x, w, n):
    cells = tg.TensorArray(D, size=2).unstack(w)
    for i in range(n):
        cells = cells.write(i, cells.read(i).sin() * x)
    return cells.stack() @ x + cells.read(cells.size() - 1)


def optional_value(x, w, n):
    held = tg.Optional.empty(tg.TensorSpec([2], D))
    for i in range(n):
        y = held.get_value() * w[0] if held.has_value() else x.sin()
        held = tg.Optional.from_value(y + i)
    return held.get_value() * x if held.has_value() else x @ w


CONSTRUCTS = [
    appends, list_methods, list_kept_while_it_shrinks, gone_over, list_of_lists, list_of_growing_lists, items_of_other_sizes,
    lists_replaced_in_a_list, inserted_items, list_of_pairs, deque,
    deque_rotated, dictionary, dict_items, dict_with_new_keys, named_tuple, dataclass, frozen_dataclass, object_, objects_in_a_list,
    optional, unbound_or_bound, swaps, number_or_tensor, numbers, numbers_of_tensors, reductions, tensor_list, tensor_list_items,
    tensor_array, tensor_array_gather_scatter, tensor_array_split_concat, tensor_array_that_grows, tensor_array_unstack, optional_value,
]  # fmt: skip
