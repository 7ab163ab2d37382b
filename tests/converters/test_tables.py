"""Dicts and sets with keys that are known only when the graph runs."""

from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import StagingError, StructureError

cases = Cases()
ROWS = (torch.tensor([3, 1, 2, 3]),), (torch.tensor([7, 7, 0, 5]),)


@cases.tensors(*ROWS)
def counts(x):
    d, c, g = {}, Counter(), defaultdict(int)
    for v in x:
        k = int(v)
        d[k] = d.get(k, 0) + 1
        c[k] += 1
        g[k] += 2
    print(d, f"{c}", d.keys(), d.items(), len(g))
    return d, c, g, c.most_common(2), c.total(), sorted(d), sorted(d.items(), key=lambda kv: -kv[1])


@cases.tensors(*ROWS)
def known_names_first(x):
    found = {"k": 1, "a": 0}
    for v in x:
        found[f"n{int(v)}"] = int(v)
    return found, {"k": 2} | found


@cases.tensors(*ROWS)
def grouped_by_a_chosen_name(x):
    d, g, t = {}, defaultdict(list), {}
    for v in x.tolist():
        k = "odd" if v % 2 else "even"
        g["small" if v < 3 else k].append(v)
        if k in d:
            d[k].append(v)
        else:
            d[k] = [v]
        try:
            t[k].append(v)
        except KeyError:
            t[k] = [v]
    return d, t, {k: sum(v) for k, v in g.items()}, [len(v) for v in g.values()]


@cases.tensors(*ROWS)
def asked_for_and_forgiven(x):
    d, rows = {}, [[0]]
    for v in x.tolist():
        try:
            d[v] += 1
        except KeyError:
            d[v] = 1
        try:
            rows[v].append(v)
        except IndexError:
            rows.append([v])
    return d, rows


@cases.tensors(*ROWS)
def least_recently_used(x):
    cache, hits = OrderedDict(), 0
    for v in x:
        k = int(v)
        if k in cache:
            cache.move_to_end(k)
            hits += 1
        else:
            cache[k] = k * k
            if len(cache) > 2:
                cache.popitem(last=False)
    return hits, cache


@cases.tensors(*ROWS)
def visited(x):
    seen, order = set(), []
    for v in x:
        if int(v) in seen:
            continue
        seen.add(int(v))
        order.append(int(v))
    return order, seen, len(seen), sorted(seen)


@cases.tensors(*ROWS)
def groups_begun_with_an_item(x):
    a, b = {}, {}
    for i, v in enumerate(x):
        k = int(v)
        if k in a:
            a[k].append(i)
        else:
            a[k] = [i]
        if k not in b:
            b[k] = []
        b[k].append(i * 2)
    return a, b


@cases.tensors(*ROWS)
def groups_of_rows(x):
    """A loop that is not staged: what one iteration reads of a list is nothing that the next one changes under another name."""
    a = {}
    for i in range(4):
        k = x[i].item()
        if k not in a:
            a[k] = []
        a[k].append(x[i] * 2)
        a[k].append(a[k][0] + 1)
    return [(k, torch.stack(v)) for k, v in a.items()]


@cases.tensors(*ROWS)
def asked_while_empty(x):
    """Before its first item a dict or set of the graph has no kinds yet."""
    d, s, found, i = {}, set(), 0, 0
    for k in d:
        found += k
    while i < 4:
        found += sum(d.values()) + len(s) + sum(s) + max(d.values(), default=5) + min(s, default=1)
        for a, b in d.items():
            found += a * b
        found += (
            int(any(d)) + 2 * int(all(d.values())) + len([k for k in d if k > 1]) + len(sorted(d))
        )
        d[int(x[i])] = i
        s.add(int(x[i]))
        i += 1
    return d, s, found


@cases.tensors((torch.tensor(9),), (torch.tensor(1),))
def memo(x):
    found, n, i = {0: 0, 1: 1}, int(x), 2
    while i <= n:
        if i not in found:
            found[i] = found[i - 1] + found[i - 2]
        i += 1
    return found[n], list(found.values())


@cases.tensors(*ROWS)
def groups(x):
    a, b, c = {}, defaultdict(list), {}
    for i, v in enumerate(x):
        a.setdefault(int(v), []).append(i)
        b[int(v)].append(i)
        if int(v) not in c:
            c[int(v)] = []
        c[int(v)].append(v * 2)
    return a, b, c


@cases.tensors(*ROWS)
def taken_out(x):
    d = {int(v): float(v) for v in x}
    a, b = d.pop(int(x[0])), d.pop(-5, None)
    del d[int(x[2])]
    return a, b, d, bool(d)


@cases.tensors(*ROWS)
def missing(x):
    d = {int(v): 1 for v in x}
    return d[int(x[0]) + 40]


@cases.tensors(*ROWS)
def of_sets(x):
    a, b = {int(v) for v in x[:2]}, {int(v) for v in x[2:]}
    return a | b, a & b, a - b, a ^ b, a == b, a.issubset(b), sorted(a.union(b)), a.isdisjoint(b)


@cases.tensors(*ROWS)
def other_keys(x):
    pairs, texts = {}, {}
    for v in x:
        pairs[int(v), int(v) % 2] = 1
        key = f"k{int(v)}"
        texts[key] = texts.get(key, 0) + 1
    return pairs, texts, dict(zip(x.tolist(), range(4))), dict.fromkeys([int(v) for v in x], 0)


@cases.tensors(*ROWS)
def joined(x):
    d, e = {int(v): 1 for v in x}, {int(v) + 1: 2 for v in x}
    f = d | e
    d.update(e)
    c = Counter()
    c.update([int(v) for v in x])
    return d, f, d == f, d != e, c


@cases.tensors(*ROWS)
def of_counters(x):
    c, e, f = Counter([int(v) for v in x]), Counter([int(v) for v in x[1:]]), Counter()
    e[3] = -4
    f[int(x[0])] = 0
    del c[1234]
    made = c + e, c - e, c | e, c & e, -e, f == Counter()
    c += e
    return made, c


@cases.tensors(*ROWS)
def of_views(x):
    d, seen = {int(v): i for i, v in enumerate(x)}, []
    for v in d.values():
        d[int(x[2])] = 100
        seen.append(v)
    for k in d:
        d[k + 100] = 1
        break
    ordered = list(reversed(d)), list(reversed(d.items())), [5]
    ordered[2].extend(d)
    return d, seen, sorted(d.keys() & {1, 2}), [d] == [dict(d)], ordered


@cases.tensors(*ROWS)
def changed_in_a_loop(x):
    d = {int(v): 1 for v in x}
    for k in d:
        d[k + 100] = 1
    return d


@cases.tensors(*ROWS)
def no_such_operator(x):
    d, s, told = {int(v): 1 for v in x}, {int(v) for v in x}, []
    for k in range(5):
        try:
            [lambda: d * 2, lambda: d + [1], lambda: -d, lambda: s[0], lambda: reversed(s)][k]()
        except TypeError:
            told.append(k)
    return told, sum(s), max(s)


test_same = cases.test()


def kinds_mixed(x):
    d = {}
    try:
        d[x[0].item()] = 1
        d["a"] = 2
    except Exception:
        d = {"bad": 1}
    return d


def values_mixed(x):
    d = {1: 1, 2: 2.0}
    try:
        d[x[0].item()] = 9
    except:  # noqa: E722
        d = {"bad": 1}
    return d


def one_list(x):
    d, row, k = {}, [1], int(x[0])
    d[k] = row
    return d[k] is row


def one_tensor(x):
    d, row, k = {}, x + 1, int(x[0])
    d[k] = row
    return d[k] is row


@pytest.mark.parametrize("f", [kinds_mixed, values_mixed])
def test_keys_and_values_of_several_kinds(f):
    x = torch.tensor([3, 1])
    assert tg.function(f)(x) == f(x)


@pytest.mark.parametrize("f", [one_list, one_tensor])
def test_refused_and_not_for_a_handler(f):
    with pytest.raises(StagingError, match="test_tables.py"):
        tg.function(f)(torch.tensor([3, 1]))


def test_a_finally_runs_where_a_run_is_refused(capsys):
    @tg.function
    def f(x):
        d = {}
        try:
            for v in x:
                d[int(v)] = 1
                d[v] = 1
        finally:
            print("at the end")

    with pytest.raises(StagingError):
        f(torch.tensor([3, 1]))
    assert capsys.readouterr().out == "at the end\n"


@pytest.mark.parametrize("remove", [lambda d, k: d.pop(k), lambda d, k: d.clear()])
def test_a_key_that_was_read_and_taken_out(remove):
    @tg.function
    def f(x):
        d = {1: 1, 2: 2}
        k = int(x)
        d[k]
        remove(d, k)
        d[k] = 9
        return d

    assert f(torch.tensor(1))[1] == 9


def test_gradients_go_through_a_dict():
    @tg.function
    def f(x):
        d = {}
        d[int(x)] = x * x
        d[int(x) + 1] = x * 3
        return d[int(x)] + d[int(x) + 1]

    x = torch.tensor(3.0, requires_grad=True)
    assert torch.autograd.grad(f(x), x)[0] == 9


def test_the_order_of_a_set_is_refused():
    @tg.function
    def f(x):
        return [k for k in {v.item() for v in x / 2}]

    with pytest.raises(StagingError, match="order"):
        f(torch.tensor([3, 1]))


def test_keys_of_one_of_two_dicts():
    """The dict of the caller on one path, which a write keeps apart from that of the other path."""

    def f(d, c):
        if c:
            d = {k: v * 2 for k, v in d.items()}
        names = set(d.keys()), frozenset(d), dict.fromkeys(d.keys(), 3)
        d.update(a=d["b"])
        return names, d

    for c in (False, True):
        given = [{"a": torch.ones(2), "b": torch.zeros(2)} for _ in range(2)]
        found = [g(d, torch.tensor(c)) for g, d in zip((f, tg.function(f)), given)]
        torch.testing.assert_close(*(d for _, d in found))
        torch.testing.assert_close(*given)
        assert found[0][0] == found[1][0]


def replaced_frozenset(n):
    seen = frozenset({1, 2})
    for k in range(n):
        if k == 1:
            seen = seen | {4}
    return seen, len(seen), 4 in seen


def test_a_frozenset_that_a_loop_replaces():
    compare(replaced_frozenset, *((torch.tensor(n),) for n in (0, 1, 3)))


def replaced_set(n):
    seen = {1, 2}
    for _ in range(n):
        seen = seen | {4}
    return sorted(seen)


def test_a_set_that_a_loop_replaces_is_refused():
    with pytest.raises(StructureError, match="replaces by a new one in each iteration"):
        tg.function(replaced_set)(torch.tensor(2))


OF_KEYS = [
    lambda d: {1, 2} <= d.keys(),
    lambda d: d.keys() >= {1},
    lambda d: d.keys() == {1, 2},
    lambda d: d.keys() <= {1, 2, 3},
    lambda d: {1} < d.keys(),
    lambda d: d.keys() != {1},
    lambda d: {1: 0, 2: 0}.keys() == d.keys(),
    lambda d: d.keys() == d.keys(),
    lambda d: d.keys() > set(),
    lambda d: d.keys().isdisjoint({9}),
    lambda d: d.items().isdisjoint({(1, 1.0)}),
    lambda d: d.items() >= {(1, 1.0)},
    lambda d: d.items() == {(1, 1.0)},
    lambda d: d.keys() == [1, 2],
]


@pytest.mark.parametrize("ask", OF_KEYS)
def test_keys_and_items_are_compared_as_sets(ask):
    def f(x, n):
        d = {}
        for i in range(n):
            d[int(x[i].item())] = x[i].item()
        return ask(d)

    converted = tg.function(f)
    for n in (3, 1, 0):
        x = torch.tensor([1.0, 2.0, 1.0])
        assert converted(x, torch.tensor(n)) == f(x, n)
