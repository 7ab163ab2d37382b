"""One list, dict or object under two names that branches make: native against `tg.function`."""

import pytest
import torch

import tograph as tg


class Node:
    def __init__(self, value):
        self.value, self.next = value, None


class Pair(Node):
    pass


def one_path_goes_on(x, c):
    if c > 5:
        raise ValueError("too large")
    else:
        inner, outer = {}, {}
        outer["k"] = inner
    inner["w"] = x
    return outer["k"]["w"] * 2


def every_path_makes_one(x, c):
    outer = {}
    if c > 0:
        inner = {"a": x}
        outer["k"] = inner
    else:
        inner = {"a": x * 2}
        outer["k"] = inner
    inner["w"] = x + 1
    outer["k"]["a"] = outer["k"]["a"] + 1
    return inner["a"], outer["k"]["w"], inner is outer["k"]


def in_lists_and_tuples(x, c):
    rows = []
    if c > 0:
        row = [x]
        rows.append(row)
        rows.append((row, x))
    else:
        row = [x * 2]
        rows.append(row)
        rows.append((row, x + 1))
    row.append(x)
    rows[1][0][0] = x + 3
    return rows, row


def objects(x, c):
    if c > 0:
        a, b = Node(x), Node(x * 2)
        a.next = b
    else:
        a, b = Node(x - 1), Node(x * 3)
        a.next = b
    b.value = b.value + 1
    a.next.value = a.next.value * 2
    return a.value, b.value, a.next is b


def inside_of_one_of_two_classes(x, c):
    part = None
    if c > 0:
        made = Node(x)
        made.next = made.also = Node(x * 2)
    else:
        made = Pair(x)
        made.next = Node(x * 3)
    made.next.value = made.next.value + 1
    made.part = part
    return made.value, made.next.value


def in_a_loop(x, c):
    d = {"a": None, "b": None}
    for i in range(3):
        if c > 0:
            m = [x * i]
            d["a"] = d["b"] = m
        else:
            m = [x]
            d["b"] = d["a"] = m
        d["a"].append(x + i)
    return d["b"], d["a"] is d["b"]


def tensors_in_both(x, c):
    t = x.clone()
    if c > 5:
        raise ValueError("too large")
    else:
        a = [t]
        b = {"l": a, "t": t}
    a[0].add_(1)
    a.append(t)
    b["t"].mul_(2)
    return t, a, b["l"]


PROGRAMS = [
    one_path_goes_on,
    every_path_makes_one,
    in_lists_and_tuples,
    objects,
    inside_of_one_of_two_classes,
    in_a_loop,
    tensors_in_both,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_program(f):
    staged = tg.function(f)
    for number in (1.0, -1.0):
        x, y = torch.arange(3.0, requires_grad=True), torch.arange(3.0, requires_grad=True)
        plain, made = f(x, torch.tensor(number)), staged(y, torch.tensor(number))
        torch.testing.assert_close(_values(plain), _values(made))
        grads = [torch.autograd.grad(_total(r), v)[0] for r, v in ((plain, x), (made, y))]
        torch.testing.assert_close(*grads)


def _values(results):
    return list(map(_values, results)) if isinstance(results, (list, tuple)) else results


def _total(results):
    if isinstance(results, torch.Tensor):
        return (results * torch.arange(1.0, 4.0)).sum()
    return sum(_total(r) for r in results if not isinstance(r, bool))


def test_one_in_the_result():
    @tg.function
    def f(x, c):
        if c > 0:
            row = [x]
            rows = [row]
        else:
            row = [x, x]
            rows = [row]
        row.append(x)
        return rows, row

    rows, row = f(torch.ones(2), torch.tensor(1.0))
    assert len(rows[0]) == len(row) == 2


def test_two_names_on_one_path_only():
    @tg.function
    def f(x, c):
        row, rows = [x], []
        if c > 0:
            other = [x * 2]
            rows.append(other)
            row = other
        else:
            rows.append([x])
        row.append(x)
        return rows

    with pytest.raises(tg.errors.AliasError, match="'row'"):
        f(torch.ones(2), torch.tensor(1.0))


@pytest.mark.parametrize("made", ["[[], []]", "[[]]", "[[], (), {}]", "[[1], []]"])
def test_a_list_that_a_loop_puts_where_it_is_stays_the_same(made):
    def f(n):
        s = {"[[], []]": [[], []], "[[]]": [[]], "[[], (), {}]": [[], (), {}]}.get(made) or [
            [1],
            [],
        ]
        a = s[0]
        for _ in range(n):
            s[0] = a
        a.append(7)
        return a is s[0], s, a

    assert tg.function(f)(torch.tensor(2)) == f(2)


@pytest.mark.parametrize("c", [1.0, -1.0])
def test_objects_in_a_circle_that_branches_make(c):
    def f(x, c):
        d = torch.distributions.LogNormal(x, x + 1)  # a transform and its inverse hold each other
        if c > 0:
            found = d.log_prob(x + 1)
        else:
            found = d.log_prob(x + 2) * 2
        return found, d.log_prob(x + 3)

    x, c = torch.rand(3), torch.tensor(c)
    for a, b in zip(tg.function(f)(x, c), f(x, c), strict=True):
        torch.testing.assert_close(a, b)
