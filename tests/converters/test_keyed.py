"""Dicts and sets whose keys are known only when the graph runs, or are there on some paths only."""

from collections import Counter, OrderedDict, defaultdict
from enum import Enum

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import StagingError, StructureError

cases = Cases()
ROWS = (torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),)


class Color(Enum):
    RED = 1
    BLUE = 2


def sign(x):
    return "neg" if x < 0 else "pos"


@cases.tensors(*ROWS)
def counting(v):
    c = {"neg": 0, "pos": 0}
    for x in v:
        c[sign(x)] = c.get(sign(x), 0) + 1
    return c


@cases.tensors(*ROWS)
def counting_from_nothing(v):
    a, b, c = {}, Counter(), defaultdict(int)
    for x in v:
        a[sign(x)] = a.get(sign(x), 0) + 1
        b[sign(x)] += 1
        c[sign(x)] += 2
    return a["pos"], a["neg"], b["pos"], b["neg"], b["other"], c["pos"], c["neg"]


@cases.tensors(*ROWS)
def keys_that_are_one_or_another(v):
    d = {"neg": 1, "pos": 2, "z": 3}
    k = sign(v[0])
    d["z"] += d.setdefault(k, 7) + d.pop(k)
    del d["neg" if k == "pos" else "pos"]
    return d, k in d, getattr(Holder(), k), hasattr(Holder(), k), "-".join([k, "a", k])


class Holder:
    neg, pos = 10, 20


@cases.tensors(*ROWS)
def attributes_by_such_names(v):
    h = Holder()
    setattr(h, sign(v[0]), v[1])
    return h.neg, h.pos


@cases.tensors(*ROWS)
def keys_that_are_enums_and_tuples(v):
    c = Color.RED if v[0] < 0 else Color.BLUE
    m = {Color.RED: 10, Color.BLUE: 20}
    k = ("a", 1) if v[0] < 0 else ("b", 2)
    n = {("a", 1): 10, ("b", 2): 20}
    return m[c], m.get(c), c.name, n[k], n.get(k), k in n, n[k[0], k[1]]


@cases.tensors(*ROWS)
def a_tuple_key_that_is_not_there(v):
    k = ("a", 1) if v[0] < 0 else ("c", 2)
    return {("a", 1): 10, ("b", 2): 20}[k]


@cases.tensors(*ROWS)
def updated_on_one_path_and_set_on_another(v):
    c, d, e = {"p": 1}, {"p": 1}, {"p": 1}
    if v[0] < 0:
        c["r"] = 5
        d.setdefault("r", 6)
        e["r"] = 7
    elif v[2] > 0:
        c.update(p=2)
        d |= {"p": 3}
        e.update([("z", v[1].item())])
    return c, d, e


@cases.tensors(*ROWS)
def displays(v):
    k = sign(v[0])
    d = {k: 1, "z": 2}
    base = {"pos": 5}
    if v[0] < 0:
        base["neg"] = 6
    other = {"neg": 9}
    other.update(base)
    return d.get("pos"), {**d, "y": 3}.get("neg", 0), other, {**{"neg": 8}, **base}


@cases.tensors(*ROWS)
def the_order_of_keys_that_were_taken_out(v):
    d = {"a": 1, "b": 2, "c": 3}
    if v[0] > 0:
        d.pop("b")
        d["b"] = 4
    else:
        d.pop("b")
        d["b"] = 5
    e = {"a": 1, "b": 2}
    if v[0] > 9:
        e.pop("a")
    return d, e.get("a"), len(e)


@cases.tensors(*ROWS)
def appended_under_such_keys(v):
    d = {"p": [], "n": []}
    for x in v:
        d["p" if x > 0 else "n"].append(x)
    return d


@cases.tensors((torch.tensor(9.0),), (torch.tensor(2.0),), (torch.tensor(-1.0),))
def staged_keys_of_conditional_ones(v):
    d = {1: 10}
    if v > 5:
        d[2] = 20
    k = 2 if v > 100 else int(v) % 7
    return d.get(k, 7), k in d, (k, 0) in {(2, 0): 1}


@cases.tensors((torch.tensor(2.0),), (torch.tensor(-1.0),))
def dicts_joined(v):
    d = {"a": 1}
    if v > 0:
        d["b"] = 2
    e = {"b": 9}
    f = e | d
    e |= d
    return f["b"], e["b"], (dict(d) | {"z": 1}).get("b", 0), {**e, **d}["b"]


@cases.tensors((torch.tensor(2.0),), (torch.tensor(-1.0),))
def ordered_dict_popped_in_branches(v):
    d = OrderedDict(a=1, b=2, c=3)
    if v > 0:
        d.pop("b")
    else:
        d.pop("b")
        d.pop("a")
    e = OrderedDict(a=1, b=2)
    if v > 0:
        e.pop("a")
    else:
        e.pop("a")
    return d.get("b"), d.get("a"), d["c"], "b" in d, e, list(e)


@cases(([1.0, 2.0, 3.0],), ([-1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],))
def groups_by_a_condition(x):
    groups, found, seen, counts = defaultdict(list), {}, {}, defaultdict(lambda: defaultdict(int))
    for i, v in enumerate(x):
        k = "p" if v > 0 else "n"
        if v > 0:
            groups["p"].append(v)
        else:
            groups["n"].append(v)
        found.setdefault(k, {}).setdefault(i % 2, []).append(v)
        if v > 0:
            if "p" not in seen:
                seen["p"] = set()
            seen["p"].add(i)
        counts[k][i] += 1
    held = groups.get("p")
    if held is not None:
        held.append(10.0)
    tables = (groups, found, seen, counts)
    return [t.get("p") for t in tables], [t.get("n") for t in tables], [len(t) for t in tables]


@cases((1,), (-1,))
def default_beside_lists_that_are_there(x):
    d, e = {"p": [1]}, {}
    d.setdefault("p" if x > 0 else "n", []).append(2)
    if x > 0:
        e["p"] = [1]
    e.setdefault("p", []).append(2)
    return d, e


@cases(([1.0, 2.0, 3.0],), ([-1.0, -2.0, 3.0],), ([1.0, 3.0, -3.0],))
def lists_that_others_replace(x):
    d, e, f, old = {}, {}, defaultdict(list), None
    if x[0] > 0:
        d["p"] = []
        d["p"].append(x[0])
    if x[1] > 0:
        d["p"] = []
        d["p"].append(x[1])
    for v in x:
        if v > 0:
            e["p"] = []
            e["p"].append(v)
            f["p"].append(v)
            if v > 1:
                old = f["p"]
                f["p"] = []
    return d, e, f.get("p"), old


@cases.tensors((3.0,), (1.5,))
def groups_of_a_loop_of_the_graph(y):
    d = defaultdict(list)
    while y > 1:
        d["even" if y.int() % 2 == 0 else "odd"].append(y)
        y = y - 0.5
    return d.get("even"), d.get("odd")


@cases((1, 2), (1, -2), (-1, 2), (-1, -2))
def two_names_of_a_new_list(a, b):
    d = {}
    if a > 0:
        d["p"] = row = []
        row.append(a)
        d["p"].append(b)
    if b > 0:
        e = d.setdefault("q", [])
        e.append(b)
        d["q"].append(a)
    return d


test_same = cases.test()


def test_a_key_that_comes_back_on_one_path_only():
    """It would be the last one on that path: the dict is right, or refused."""

    def f(x):
        d = {"a": 1, "b": 2}
        if x > 0:
            d.pop("a")
            d["a"] = 3
        return d

    try:
        compare(f, (torch.tensor(1.0),), (torch.tensor(-1.0),))
    except AssertionError as error:
        assert "StructureError" in str(error)


def test_hashing_what_is_one_thing_or_another_is_refused():
    def f(x):
        return {sign(x)}

    with pytest.raises(StagingError, match="cannot be hashed"):
        tg.function(f)(torch.tensor(1.0))


def keys_that_one_path_adds_and_another_takes_out(x):
    d = {"a": 1, "b": 2, "c": 3}
    if x > 0:
        d["e"] = 1
        d["f"] = 2
    else:
        del d["a"]
        d.pop("b")
    print(d)
    return d, list(d), list(d.items())


def keys_that_come_and_go_in_a_loop(x):
    d = {"a": 1, "b": 2, "c": 3}
    for i in range(3):
        if x > i:
            d[f"k{i}"] = i
        else:
            d.pop("abc"[i])
    return d, list(d.items())


@pytest.mark.parametrize("program", [keys_that_one_path_adds_and_another_takes_out, keys_that_come_and_go_in_a_loop])  # fmt: skip
def test_a_key_comes_back_where_it_stood(program):
    compare(program, *((torch.tensor(v),) for v in (5.0, 1.5, -1.0)))


def keys_in_the_order_of_a_branch(x):
    d = {}
    if x > 0:
        d["a"], d["b"] = 1, 1
    else:
        d["b"], d["a"] = 2, 2
    return f"{[d]}", d, list(d.items())


def keys_that_come_back_last(x):
    d, e, i = {0: 1, 5: 2}, {1: x, 2: x * 2}, 0
    while i < x:
        d.pop(0, None)
        if i > 0:
            d[0] = i
        if 1 not in e:
            e[1] = x + i
        elif i > 1:
            del e[1]
        i += 1
    return d, e


def the_last_key_goes(x):
    d = OrderedDict(p=1, q=2)
    if x < 0:
        d["r"] = 3
    else:
        d.popitem()
        d["q"] = 1
    return d


@pytest.mark.parametrize("program", [keys_in_the_order_of_a_branch, keys_that_come_back_last, the_last_key_goes])  # fmt: skip
def test_the_order_of_keys_that_a_condition_decides(program):
    """Such a dict is a list of the graph."""
    compare(program, *((torch.tensor(v),) for v in (5.0, 1.5, -1.0, 3.0)))
    for v in (5.0, -1.0, 2.0):
        assert repr(tg.function(program)(torch.tensor(v))) == repr(program(torch.tensor(v)))


def test_keys_that_are_taken_out_get_no_list_that_another_holds():
    @tg.function
    def f(x):
        d, held = defaultdict(list), []
        for v in x:
            if v > 0:
                d["p"].append(v)
            else:
                held.append(d.pop("p", None))
        return d.get("p"), held

    with pytest.raises((tg.errors.AliasError, StructureError)):
        f(torch.tensor([1.0, -1.0, 2.0]))


def test_a_copy_of_a_dict_with_keys_by_a_condition():
    def f(n):
        d = {"a": 1}
        if n > 2:
            d["b"] = n.item()
        copied = d.copy()
        copied["a"] = 5
        if n > 3:
            copied["c"] = 2
        return d, copied, len(copied), "c" in d

    converted = tg.function(f)
    for n in (1, 3, 4):
        assert converted(torch.tensor(n)) == f(torch.tensor(n))


def test_an_update_by_one_of_two_dicts():
    def f(x, table, other):
        table.update(other if x > 0 else {"p": x * 2}, r=3)
        return table

    staged = tg.function(f)
    for v in (1.0, -1.0):
        x = torch.tensor(v)
        mine, plain = {"p": x, "q": 4}, {"p": x, "q": 4}
        assert staged(x, mine, {"q": 5}) is mine
        assert mine == f(x, plain, {"q": 5})
