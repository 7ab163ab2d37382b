"""Dicts, objects and lists of several kinds in lists whose length depends on data: where they change, and that numbers stay numbers."""

import copy
from dataclasses import dataclass, field

import pytest
import torch

import tograph as tg
from tograph.errors import SharedMemoryError

X = torch.tensor([1.0, -2.0, 3.0, 4.0, 5.0])


@dataclass
class Track:
    x: torch.Tensor
    age: int = 0
    hits: list = field(default_factory=list)

    def step(self, v):
        self.age += 1
        self.hits.append(v)


class Node:
    def __init__(self, v):
        self.v, self.n = v, 1


def plain(x):
    """What can be compared: a tensor as its type and value, an object as its attributes."""
    if isinstance(x, torch.Tensor):
        return str(x.dtype), x.tolist()
    if isinstance(x, (list, tuple)):
        return type(x), [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return (type(x), plain(vars(x))) if hasattr(x, "__dict__") else (type(x), x)


def dicts(xs):
    rows = []
    for v in xs:
        if v > 0:
            rows.append({"v": v, "n": 0})
    return rows


def pairs(xs):
    rows = []
    for v in xs:
        if v > 0:
            rows.append([v, 0])
    return rows


def nested(xs):
    rows = []
    for v in xs:
        if v > 0:
            rows.append([v, [v]])
    return rows


def tracks_that_are_matched(xs):
    tracks = []
    for v in xs:
        matched = False
        for t in tracks:
            if abs(t.x - v) < 1.5:
                t.x, t.age, matched = (t.x + v) / 2, 0, True
                t.hits.append(v)
            else:
                t.age += 1
        if not matched:
            tracks.append(Track(v))
    return tracks


def runs_of_one_key(xs):
    runs = []
    for v in xs:
        k = int(v) // 2
        if runs and runs[-1]["key"] == k:
            runs[-1]["count"] += 1
        else:
            runs.append({"key": k, "count": 1})
    return runs


def merged_nodes(xs):
    merged = []
    for v in xs:
        if merged and v - merged[-1].v < 2:
            merged[-1].v = v
            merged[-1].n += 1
        else:
            merged.append(Node(v))
    return merged


def a_stack_of_dicts(xs):
    stack, i = [], 0
    while i < len(xs):
        if xs[i] > 0:
            stack.append({"sum": xs[i], "kids": []})
        elif len(stack) > 1:
            top = stack.pop()
            stack[-1]["kids"].append(top["sum"])
            stack[-1]["sum"] = stack[-1]["sum"] + top["sum"]
        i += 1
    return stack


def a_queue(xs):
    q = []
    for v in xs:
        if v > 0:
            q.append(Node(v))
    while len(q) > 1:
        a, b = q.pop(0), q.pop(0)
        a.v = a.v + b.v
        a.n += b.n
        q.append(a)
    return q


def changed_in_one_branch(xs):
    rows = dicts(xs)
    row = rows[-1]
    if xs[0] > 0:
        row["n"] += 1
    row["n"] += 2
    rows[-1]["n"] += 4
    return rows, row


def a_pair_changed_in_one_branch(xs):
    rows = pairs(xs)
    row = rows[0]
    if xs[0] > 0:
        row[1] += 1
    row[1] += 2
    return rows, row


def a_name_from_before_a_loop(xs):
    rows = pairs(xs)
    row = rows[-1]
    for v in xs:
        if v > 0:
            row[1] += 1
    row[1] += 2
    rows[-1][1] += 2
    return rows, row


def two_names(xs):
    rows = dicts(xs)
    a, b = rows[0], rows[0]
    if xs[0] > 0:
        a["n"] = 3
    b["n"] += 1
    return rows, a, b


def in_other_containers(xs):
    rows = dicts(xs)
    held, t = {"first": rows[0]}, (rows[0], 1)
    rows[0]["n"] = 4
    held["first"]["n"] += 1
    t[0]["n"] += 1
    return rows, held, t


def by_a_closure(xs):
    rows = dicts(xs)
    p = rows[0]

    def bump():
        p["n"] += 1
        return rows[0]

    bump()
    rows[0]["n"] += 1
    bump()["n"] *= 10
    bump()
    return rows, p


def every_kind_of_copy(xs):
    rows = dicts(xs)
    a = rows[0]
    b, c = a.copy(), copy.deepcopy(rows)
    b["n"], a["n"], c[0]["n"] = 9, 2, 100
    return rows, a, b, c


def by_methods(xs):
    rows = dicts(xs)
    a = rows[0]
    a.update(n=5)
    a.setdefault("n", 9)
    a |= {"v": xs[0] * 2}
    rows[0]["n"] += 1
    a.update([("n", a["n"] * 3)])
    return rows, a


def an_inner_list_of_a_named_row(xs):
    rows = nested(xs)
    row = rows[0]
    row[1].append(xs[1])
    row[1].append(xs[2])
    return rows, row


def a_new_inner_list(xs):
    rows = nested(xs)
    row, ys = rows[0], [xs[1], xs[1]]
    row[1] = ys
    ys.append(xs[2])
    row[1].append(xs[3])
    return rows, row, ys


def a_new_inner_list_by_a_condition(xs):
    rows = nested(xs)
    if len(rows) > 1:
        rows[-1][1] = [xs[0]]
        rows[0][1].append(rows[-1][0])
    return rows


def a_new_inner_list_under_two_names(xs):
    rows = nested(xs)
    r, q = rows[0], rows[0]
    r[1] = [xs[2]]
    q[1].append(xs[1])
    r[1].append(xs[1])
    return rows, r, q


def filled_after_it_was_appended(xs):
    rows = []
    for v in xs:
        if v > 0:
            row = [v, [v]]
            rows.append(row)
            row[1].append(v)
            row[1].append(v)
    rows[-1][1].append(xs[0])
    return rows


def a_tensor_and_a_number(xs):
    rows = [[v * 2, v.item(), int(v)] for v in xs if v > 0]
    rows[-1][1] = rows[-1][1] + 1
    rows[0][2] += 1
    return rows


@pytest.mark.parametrize(
    "function",
    [
        tracks_that_are_matched, runs_of_one_key, merged_nodes, a_stack_of_dicts, a_queue, changed_in_one_branch, a_pair_changed_in_one_branch,
        a_name_from_before_a_loop, two_names, in_other_containers, by_a_closure, every_kind_of_copy, by_methods, an_inner_list_of_a_named_row,
        a_new_inner_list, a_new_inner_list_by_a_condition, a_new_inner_list_under_two_names, filled_after_it_was_appended, a_tensor_and_a_number, pairs,
    ],
)  # fmt: skip
def test_items_change_as_in_python(function):
    staged = tg.function(function)
    for x in (X, X.flip(0), X.neg() + 2):
        assert plain(staged(x)) == plain(function(x))


def popped_in_a_loop(xs):
    rows = dicts(xs)
    row = rows[1]
    for v in xs:
        row["n"] += 1
        if len(rows) > 1 and v > 0:
            rows.pop(0)
    return rows, row


def appended_again(xs):
    rows, i, row = dicts(xs), torch.tensor(0), {"v": xs[0], "n": 0}
    while i < 2:
        row["n"] += 1
        rows.append(row)
        i += 1
    return rows, row


def after_an_insert(xs):
    rows = dicts(xs)
    a = rows[0]
    rows.insert(0, {"v": xs[1], "n": 3})
    a["n"] += 1
    return rows, a


def in_two_places(xs):
    rows = dicts(xs)
    rows[0] = rows[1]
    rows[0]["n"] += 1
    return rows


def in_a_second_list(xs):
    rows = dicts(xs)
    others = []
    for r in rows:
        others.append({"r": r})
    rows[0]["n"] = 4
    return rows, others


@pytest.mark.parametrize(
    "function",
    [popped_in_a_loop, appended_again, after_an_insert, in_two_places, in_a_second_list],
)
def test_what_cannot_be_followed_is_refused(function):
    with pytest.raises(SharedMemoryError, match="copy"):
        tg.function(function)(X)
