"""Lists in lists whose length depends on data: what changes where, and what is refused."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import AliasError, SharedMemoryError

cases = Cases()
ROWS = (
    ([3.0, -1.0, 2.0, 5.0, -2.0, 1.0],),
    ([-3.0, -1.0, 2.0, -5.0, 2.0, -1.0],),
    ([-3.0, -1.0, -2.0, -5.0, -2.0, -1.0],),
)


def started(x):
    rows = [[0.0]]
    for v in x:
        if v > 0:
            rows.append([v])
    return rows


@cases(*ROWS)
def the_last_one_grows(x):
    rows = [[0.0]]
    for v in x:
        if v > 0:
            rows.append([v])
        else:
            rows[-1].append(v)
    return rows, len(rows), [len(r) for r in rows], max(len(r) for r in rows)


@cases(*ROWS)
def appended_before_it_is_filled(x):
    rows = []
    for v in x:
        if v > 0:
            row = []
            rows.append(row)
            row.append(v)
            row.append(1.0)
    return rows


@cases(*ROWS)
def runs_of_one_value(x):
    runs = []
    for v in x:
        up = v > 0
        if runs and runs[-1][0] == up:
            runs[-1][1] += 1
        else:
            runs.append([up, 1])
    return runs


@cases(*ROWS)
def batches(x):
    out, current, total = [], [], 0.0
    for v in x:
        if current and total + abs(v) > 6:
            out.append(current)
            current, total = [], 0.0
        current.append(v)
        total += abs(v)
    if current:
        out.append(current)
    return out


@cases.tensors(*ROWS)
def batches_in_a_loop_of_the_graph(x):
    out, current, i = [], [], torch.tensor(0)
    while i < 6:
        current.append(x[i])
        if x[i] > 1:
            out.append(current)
            current = []
        i += 1
    if current:
        out.append(current)
    return out


@cases(*ROWS)
def two_names_of_items(x):
    rows = started(x)
    a, b = rows[-1], rows[0]
    b.append(7.0)
    a.append(8.0)
    return rows, a, b


@cases(*ROWS)
def one_item_under_two_names(x):
    rows = started(x)
    a, b = rows[0], rows[0]
    a.append(1.0)
    n = len(b)
    b.append(2.0)
    return rows, a, b, n


@cases(*ROWS)
def all_in_turn(x):
    rows = started(x)
    for i, row in enumerate(rows):
        row.append(i * 1.0)
    for row in rows:
        rows[-1].append(len(row) * 1.0)
    return rows


@cases(*ROWS)
def in_place_operators(x):
    rows = [[x[0]]]
    for v in x:
        rows[-1] += [v, v]
        rows[-1][0] = rows[-1][0] - 1.0
        if v > 0:
            rows.append([v])
    return rows


@cases(*ROWS)
def taken_out_and_put_back(x):
    rows = started(x)
    y = rows.pop()
    y.append(9.0)
    rows.append(y)
    y.append(10.0)
    return rows, y


@cases(*ROWS)
def three_deep(x):
    tree = []
    for v in x:
        if v > 0:
            tree.append([[v], []])
        elif tree:
            tree[-1][1].append(v)
    return tree


@cases(*ROWS)
def in_tuples(x):
    beams = [([0], 0.0)]
    for v in x:
        if v > 0:
            beams.append((beams[-1][0] + [1], v))
        else:
            beams[-1][0].append(5)
    return beams, sorted(beams, key=lambda b: b[1], reverse=True)[:2]


@cases(*ROWS)
def by_a_condition(x):
    rows = started(x)
    a = rows[0]
    if x[0] > 0:
        a.append(1.0)
        rows[0].append(2.0)
    return rows, a


@cases(*ROWS)
def records(x):
    log = []
    for v in x:
        if v > 0:
            log.append({"value": v, "twice": [v, v]})
    return log, [r["value"] for r in log]


@cases((5,), (8,), (0,))
def pascal(n):
    rows = [[1]]
    for _ in range(n):
        last, row = rows[-1], [1]
        for a, b in zip(last, last[1:]):
            row.append(a + b)
        row.append(1)
        rows.append(row)
    return rows


@cases.tensors(*ROWS)
def a_plain_list_whose_items_a_loop_changes(x):
    rows, i = [[0.0], [1.0]], torch.tensor(0)
    a = rows[0]
    while i < 3:
        rows[0].append(float(len(rows[1])))
        rows[-1] = list(a)
        i = i + 1
    return rows, a


@cases.tensors(*ROWS)
def popped_and_put_back_in_a_loop(x):
    rows, i = [[0.0], [1.0]], torch.tensor(0)
    a = rows[0]
    while i < 3:
        a.append(x[i].item())
        b = rows.pop()
        rows.append(b)
        i = i + 1
    return rows, a


test_same = cases.test()


class Node:
    def __init__(self, value):
        self.value = value


def objects(x):
    found = []
    for v in x:
        if v > 0:
            found.append(Node(v.item()))
    return [n.value for n in found]


def masked(x):
    rows, total = x[x[:, 0] > 0].tolist(), 0.0
    for row in rows:
        total += row[0] + sum(row)
    return rows, total


def beams(x):
    table = torch.log_softmax(x.outer(x), -1)
    beams, finished = [([0], 0.0)], []
    for _ in range(4):
        candidates = []
        for tokens, score in beams:
            top, at = table[tokens[-1]].topk(2)
            for v, i in zip(top.tolist(), at.tolist()):
                if i == 3:
                    finished.append((tokens + [i], score + v))
                else:
                    candidates.append((tokens + [i], score + v))
        if not candidates:
            break
        beams = sorted(candidates, key=lambda c: c[1], reverse=True)[:2]
    finished = finished + beams
    finished.sort(key=lambda c: c[1] / len(c[0]), reverse=True)
    return finished[0]


def hypotheses(x):
    """Two lists that each round makes anew."""
    table = torch.log_softmax(x.outer(x), -1)
    found, scores, steps = [[0]], [0.0], 0
    while found[0][-1] != 3 and steps < 5:
        new = []
        for tokens, score in zip(found, scores):
            top, at = table[tokens[-1]].topk(2)
            for k in range(2):
                new.append((score + top[k].item(), tokens + [at[k].item()]))
        new.sort(key=lambda t: -t[0])
        new = new[:2]
        found, scores = [h for _, h in new], [s for s, _ in new]
        steps += 1
    return found, scores, steps


def test_programs():
    rows = [(torch.tensor(*r),) for r in ROWS]
    compare(objects, *rows)
    compare(beams, *rows)
    compare(hypotheses, *rows)
    compare(masked, *((r[0].reshape(3, 2),) for r in rows))


# ---- what is refused


def one_row_in_all(x):
    row, rows = [], []
    for v in x:
        row.append(v)
        if v > 0:
            rows.append(row)
    return rows


def a_slice(x):
    rows = started(x)
    some = rows[:]
    some[0].append(5.0)
    return rows, some


def a_copy(x):
    rows = started(x)
    some = list(rows)
    rows[0].append(5.0)
    return rows, some


def an_item_of_a_copy(x):
    rows = started(x)
    y = rows[:].pop()
    y.append(9.0)
    return rows, y


def the_name_from_before(x):
    first = [1.0]
    rows = [first]
    for v in x:
        if v > 0:
            rows.append([v])
    first.append(9.0)
    return rows, first


def the_item_with_a_name_from_before(x):
    first = [1.0]
    rows = [first]
    for v in x:
        if v > 0:
            rows.append([v])
    rows[0].append(9.0)
    return rows, first


def two_lists(x):
    first = [1.0]
    rows, others = [first], [first]
    for v in x:
        if v > 0:
            rows.append([v])
        else:
            others.append([v])
    rows[0].append(9.0)
    return rows, others


def the_best_one(x):
    rows, best = started(x), [-1.0]
    for row in rows:
        if row[0] > best[0]:
            best = row
    best.append(4.0)
    return rows, best


def an_item_that_a_loop_leaves(x):
    rows, a, i = started(x), [0.0], torch.tensor(0)
    while i < 2:
        a = rows[0]
        if len(a) > 2:
            a = rows[-1]
        i = i + 1
    rows[0].append(2.0)
    return rows, a


def a_dict(x):
    rows = []
    for v in x:
        d = {"v": v, "n": 0}
        if v > 0:
            rows.append(d)
        d["n"] = 2
    return rows


def after_an_insert(x):
    rows = started(x)
    a = rows[-1]
    rows.insert(0, [5.0])
    a.append(3.0)
    return rows, a


def kept_and_filled(x):
    current, out, i = [], [], torch.tensor(0)
    while i < 6:
        current.append(x[i].item())
        if x[i] > 1:
            out.append(current)
        if x[i] < 0:
            current = []
        i += 1
    return out


@pytest.mark.parametrize(
    "function",
    [
        one_row_in_all,
        a_slice,
        a_copy,
        an_item_of_a_copy,
        the_name_from_before,
        the_item_with_a_name_from_before,
        two_lists,
        the_best_one,
        an_item_that_a_loop_leaves,
        a_dict,
        after_an_insert,
        kept_and_filled,
    ],
)
def test_what_a_second_name_may_hold_does_not_change(function):
    with pytest.raises((SharedMemoryError, AliasError), match="copy"):
        tg.function(function)(torch.tensor(*ROWS[0]))
