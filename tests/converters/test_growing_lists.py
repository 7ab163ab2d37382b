"""Lists whose length depends on data: items that are records, the methods of Python's lists, what changes in place."""

import itertools
import linecache
from collections import namedtuple
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.errors import SharedMemoryError, StagingError

cases = Cases()
Point = namedtuple("Point", "where rank")


@dataclass(frozen=True)
class Step:
    state: torch.Tensor
    reward: float


def first_of(step):
    return step[0]


@cases.tensors((torch.tensor(4),), (torch.tensor(0),), (torch.tensor(1),))
def named_tuples(n):
    out = []
    for i in range(n):
        out.append(Point(torch.ones(2) * i, i * 0.5))
    total = 0.0
    for where, rank in out:
        total = total + rank + where.sum()
    best = max(out, key=lambda p: p.rank) if len(out) > 0 else None
    out.sort(key=lambda p: -p.rank)
    return total, best, out, [p.rank for p in out], len(out)


@cases.tensors((torch.tensor(3),), (torch.tensor(0),))
def frozen_dataclasses(n):
    steps = [Step(torch.zeros(2), 0.0)]
    for i in range(n):
        steps.append(Step(steps[-1].state + i, 1.0 * i))
    last = steps.pop()
    return last, steps, sum(s.reward for s in steps)


@cases.tensors((torch.tensor(4),), (torch.tensor(-1),))
def a_stack_of_pairs(n):
    stack = [(n, 0)]
    total = deepest = torch.tensor(0)
    while stack:
        m, depth = stack.pop()
        total = total + m
        if depth > deepest:
            deepest = torch.tensor(0) + depth
        if m > 1:
            stack.append((m - 1, depth + 1))
            stack.append((m - 2, depth + 1))
    return total, deepest


@cases.tensors((torch.tensor(4),), (torch.tensor(2),))
def changes_of_records(n):
    q = []
    for i in range(n):
        q.append((i, None))
    a = [(8, None)] + q + [(7, None)]
    q.insert(0, (9, None))
    q[1] = (5, None)
    del q[2]
    q.extend(a)
    return a, q, a[1:], (5, None) in q, (6, None) in q, q == a, q != a, q.index((5, None)), q[::-1]


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([30.0, 30.0]),))
def gradient_through_records(x):
    x = x.clone().requires_grad_()
    out = []
    y = x * 2
    out.append((y, y.sum()))
    while y.sum() < 50:
        y = y * 2
        out.append((y, y.sum()))
    loss = sum(s for _, s in out)
    (g,) = torch.autograd.grad(loss, x)
    return g


OPERATIONS = """
sorted(a) | sorted(a, reverse=True) | sorted(a, key=lambda v: -v) | a.count(2) | a.index(2) | a.index(99) | 2 in a
99 not in a | a[::-1] | a == [4, 0, 2] | a != [4, 0, 2] | [] == a | a == (4, 0, 2) | a + [7] | [7] + a | a * 2 | 2 * a
a * 0 | a.sort() or a | a.sort(key=lambda v: -v) or a | a.reverse() or a | a.remove(2) or a | a.remove(99) or a
torch.tensor(a) | torch.tensor(a, dtype=torch.float32) | list(filter(lambda v: v > 0, a)) | list(filter(None, a))
max(a) | min(a) | min(a, key=lambda v: abs(v - 3)) | max(a, default=-1) | any(a) | all(a) | any(x > 3 for x in a)
all([x > -1 for x in a]) | str(a) | repr(a) | f"{a} {a!r}" | print(a) | print("a", a, sep="-") | list(enumerate(a))
list(zip(a, a[1:])) | sum(a) | len(a) | list(reversed(a)) | [x * 2 for x in a if x > 0] | a.extend(a) or a
list(zip(a, a[1:], strict=True))
"""


@pytest.mark.parametrize(
    "text", [t.strip() for t in OPERATIONS.replace("\n", "|").split("|") if t.strip()]
)
def test_operation(text, tmp_path):
    path = tmp_path / "program.py"
    source = f"def f(n):\n    a = []\n    for k in range(n):\n        a.append((k * 2 + 4) % 6)\n    r = {text}\n    return r, a\n"
    path.write_text(source)
    namespace = {"torch": torch}
    exec(compile(source, str(path), "exec"), namespace)
    compare(namespace["f"], (torch.tensor(3),))
    if "torch.tensor(" not in text:  # of no items, Python makes a float tensor
        compare(namespace["f"], (torch.tensor(0),))


def grown(n):
    out = []
    for _ in range(n):
        out.append(torch.zeros(2))
    return out


def write_after_append(n):
    out = []
    for _ in range(n):
        x = torch.zeros(1)
        out.append(x)
        x += 1
    return out


def write_in_the_next_iteration(n):
    x, out = torch.zeros(1), []
    for _ in range(n):
        x += 1
        out.append(x)
    return out


def write_to_an_item(n):
    out = grown(n)
    out[0][1] = 5
    return out


def write_to_items_of_a_loop(n):
    out = grown(n)
    for x in out:
        x += 1
    return out


def write_to_what_was_there_before(n):
    x = torch.zeros(1)
    out = [x]
    for i in range(n):
        out.append(torch.ones(1) * i)
    x += 1
    return out


def write_after_the_loop(n):
    x, out = torch.ones(1), []
    for _ in range(n):
        x = x * 2
        out.append(x)
    x += 1
    return out


def write_to_what_the_last_iteration_appended(n):
    x, out = torch.ones(1), []
    for _ in range(n):
        x += 1
        x = x * 2
        out.append(x)
    return out


def write_to_a_sum_that_begins_as_a_number(n):
    total, out = 0, []
    for i in range(n):
        total += torch.ones(1) * i
        out.append(total)
    return out


def write_after_a_branch(n):
    x, out = torch.ones(1), []
    if n > 1:
        x = x * 2
        out.append(x)
    x += 1
    return out


def write_in_a_branch_after_the_branches(n):
    x, out = torch.ones(1), []
    if n > 5:
        out.append(x)
    else:
        x += 1
    if n > 2:
        x += 1
    return out


@pytest.mark.parametrize(
    "function",
    [write_to_a_sum_that_begins_as_a_number, write_after_the_loop, write_to_what_the_last_iteration_appended, write_after_a_branch, write_in_a_branch_after_the_branches, write_after_append, write_in_the_next_iteration, write_to_an_item, write_to_items_of_a_loop,
     write_to_what_was_there_before],
)  # fmt: skip
def test_a_tensor_in_a_list_of_the_graph_is_not_written(function):
    with pytest.raises(
        SharedMemoryError, match=r"in a list whose length depends on data.*clone\(\)"
    ):
        tg.function(function)(torch.tensor(3))


@cases.tensors((torch.tensor([3.0, 1.0, 2.0]),), (torch.tensor([0.0, -1.0, 5.0]),))
def a_sum_that_the_list_holds(x):
    total, out, pairs = 0, [], []
    for v in x:
        total += v
        out.append(total)
        if total > 3:
            pairs.append(("large", total))
            total = 0
        else:
            pairs.append(("small", total))
    return out, pairs


@cases.tensors((torch.tensor(3),))
def copies_are_free(n):
    out, w = [], torch.zeros(3)
    for i in range(n):
        w[i] = i
        out.append(w.clone())
    w += 1
    return out, w


@cases.tensors((torch.tensor(3),), (torch.tensor(1),))
def one_branch_appends_and_the_other_writes(n):
    x, out = torch.ones(1), []
    if n > 2:
        out.append(x)
        if n > 3:
            out.append(x)
    else:
        x += 1
    return out, x * 2


@cases.tensors(
    (torch.tensor([1.0, float("nan"), 2.0]),),
    (torch.tensor([float("nan"), 1.0]),),
    (torch.tensor([True, False]),),
)
def extremes_of_a_tensor(x):
    return max(x), min(x)


# ---- a list that the loop over it changes


@cases.tensors((torch.tensor(5),), (torch.tensor(1),))
def a_queue_that_a_loop_fills(x):
    queue, out = [(0, x)], []
    for depth, v in queue:
        if depth < 3 and v > 1:
            queue.append((depth + 1, v - 1))
            queue.append((depth + 1, v - 2))
        out.append(v)
    return torch.stack(out), len(queue)


@cases.tensors(([1, 2], torch.tensor(4)), ([1, 7], torch.tensor(20)), ([], torch.tensor(3)))
def a_list_of_the_caller_with_an_else(items, x):
    for v in items:
        if len(items) > 6:
            break
        if v < x:
            items.append(v + 1)
    else:
        items.append(-1)
    return len(items)


@cases.tensors((torch.tensor(1),), (torch.tensor(14),), (torch.tensor(40),))
def numbered_items_that_go_and_come(x):
    short, long, total = [1, 2, 3], [1, 2, 3], torch.tensor(0)
    for v in short:
        total = total + v
        if x > 5:
            short.pop()
            x = x - 5
    for i, v in enumerate(long, 5):
        total = total + i * v
        if x > 5:
            long.append(v)
            x = x - 5
    return short, long, total, x


@cases.tensors((torch.tensor(1), torch.tensor(3)), (torch.tensor(3), torch.tensor(4)))
def items_that_a_staged_loop_changes_before_it_comes_to_them(x, n):
    items, total = [], torch.tensor(0)
    for k in range(n):
        items.append(k * x)
    for i, v in enumerate(items):
        total = total + v * i
        if i + 1 < len(items):
            items[i + 1] = items[i + 1] + 100
        if total < 500:
            items.append(v)
    return items, total


@cases.tensors(([3, 2], torch.tensor(20)), ([3, 4], torch.tensor(15)), ([1, 2], torch.tensor(4)))
def two_loops_over_one_list(items, x):
    for a in items:
        for b in items:
            if a + b == x:
                return a, b
            if len(items) < 5 and b > 2:
                items.append(a * b)
    return -1, -1


@cases((3,), (0,))
def what_is_not_none_is_added(x):
    n = None
    if x > 1:
        n = x
    found = []
    if n is not None:
        found.append(n)
    for i in range(x):
        m = i if i > 1 else None
        if m is not None:
            found.append(m)
    held = [n, 3]
    return found, [v for v in held if v is not None], None in held, 5 in held, x in held


@cases((3,), (0,))
def one_branch_binds_and_the_other_changes(x):
    a, b, c, d = [1], [1], {"k": True}, [None]
    held = b
    if x > 1:
        a, b, c, d = [i for i in range(x)], [2, 3, 4], {"z": False}, [x]
    else:
        a.append(5)
        b.append(6)
        c["k"] = False
        d[0] = x + 1
    return a, b, held, c, 5 if d[0] is None else d[0], 7 if c.get("k", True) else 8


@cases((3,), (0,))
def displays_with_spread_parts(x):
    log = [1]
    if x > 0:
        log.append(2)
    a = [*log]
    a.append(9)
    table = {"a": 1} if x > 1 else {"b": 2}
    short = [1] if x > 1 else (1, 2)
    for i in range(x):
        a = [i, *a, i]
    return (
        a,
        log,
        [0, *log, 5, *"ab"[:0], *range(2)],
        {"z": 0, **table, "c": 1},
        [*short, *short, 3],
    )


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0],), ([4.0, 5.0],))
def tuples_with_other_strings(x):
    log, a, b = [], [(0, "s")], [(1, "t")]
    for i, v in enumerate(x):
        if v > 2:
            log.append(("up", i))
        elif v < 0:
            log.append(("down", i))
    if x[0] > 0:
        log.append(("end", 7))
        a.append((1, "s"))
    if x[1] > 0:
        b.append((1, "t"))
    a.extend(b)
    return log, a, b, sorted(log, key=lambda entry: entry[0])


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0],), ([4.0, 5.0],))
def sorted_strings(x):
    words = ["b" if v > 0 else "a" for v in x if v < 4]
    names = {f"k{2 - i}": v for i, v in enumerate(x) if v > 0}
    words.sort()
    return (
        words,
        sorted(words, reverse=True),
        sorted(names),
        sorted(names.items(), key=lambda p: p[0]),
    )


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0],))
def repeated_and_shown(x):
    n = sum(1 for v in x if v > 0)
    return "ab" * n, n * "-", (1, 2) * n, bin(n), hex(n + 20), oct(n), chr(97 + n)


@dataclass
class Path:
    cost: float
    steps: list = field(default_factory=list)


@cases.tensors(
    (torch.tensor([1.0, -1.0, 3.0, 2.0]),),
    (torch.tensor([-1.0, -1.0, 3.0]),),
    (torch.tensor([2.0, 1.0, 0.0]),),
)
def an_object_that_may_be_replaced_by_one_with_a_longer_list(x):
    found = Path(0.0)
    for i in range(int(x[2])):
        found = Path(x[i].item(), found.steps)
        if x[i] > 0:
            found = Path(found.cost, [*found.steps, i])
    return found


@cases.tensors((torch.tensor([1.0, -1.0, 3.0, 2.0]),), (torch.tensor([-1.0, -1.0, 3.0]),))
def an_object_that_is_replaced_field_by_field(x):
    found = Path(0.0)
    for i in range(int(x[2])):
        found = replace(found, cost=x[i].item())
        if x[i] > 0:
            found = replace(found, steps=found.steps + [i])
    return found


@cases.tensors((torch.tensor([1.0, 2.0, 0.0]), 9), (torch.tensor([1.0, 2.0, 3.0]), 5))
def list_that_each_iteration_replaces_behind_a_loop_that_returns(x, most):
    """The inner loop is traced with the first list, then with what the outer one carries."""
    rows, k = [3], 0
    while True:
        k += 1
        if k > 3:
            break
        j = 0
        while j < x.argmax():
            j += 1
            rows.append(j)
            if x.sum() > most:
                return x * 2
        rows = rows[-2:]
    return rows


test_same = cases.test()


def test_a_list_that_two_loops_cut_and_write():
    """In the inner loop the list is of one kind; before it, of the two kinds that the outer loop's iterations leave."""

    def f(x):
        b = [x, x]
        for _ in tg.range(2):
            for _ in tg.range(3):
                if len(b) > 0:
                    b[-1] = x - 1
                b = b[1:]
            b.append(x + len(b))
        return torch.stack(b)

    x = torch.ones(2)
    assert torch.equal(tg.function(f)(x), f(x))


@pytest.mark.parametrize(
    ("join", "rank", "dim"),
    [(n, r, d) for n in ("stack", "cat") for r in (1, 2, 3) for d in (-1, 0, 1) if r > 1 or d < 1]
    + [(n, r, None) for n in ("hstack", "vstack", "dstack", "column_stack") for r in range(4)],
)
def test_joined_along_any_dimension(join, rank, dim):
    def joined(x, n):
        rows = []
        for i in range(n):
            rows.append(x * i)
        return getattr(torch, join)(rows, *(() if dim is None else (dim,)))

    x = torch.arange(12.0).reshape(2, 3, 2)[(1,) * (3 - rank)]
    expected, found = joined(x, 3), tg.function(joined)(x, torch.tensor(3))
    assert torch.equal(found, expected) and found.stride() == expected.stride()


def test_joined_out_of_range():
    @tg.function
    def joined(x, n):
        rows = []
        for _ in range(n):
            rows.append(x)
        return torch.stack(rows, 2)

    with pytest.raises(IndexError, match=r"range of \[-2, 1\], but got 2"):
        joined(torch.ones(3), torch.tensor(2))


def test_a_list_that_is_flushed_in_a_branch_or_an_inner_loop():
    def f(x):
        a, b, n = [], [x], 0
        while n < x.sum():
            a.append(x + n)
            b.append(x * n)
            if len(a) > 2:
                a = [x]
            for _ in tg.range(2):
                b = [x - n]
            n = n + 1
        return torch.stack(a), torch.stack(b)

    x = torch.ones(2)
    for y in (x, x * 2, x * 3):
        for found, expected in zip(tg.function(f)(y), f(y)):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("reset", ["[x]", "[]"])
def test_a_list_that_is_replaced_by_one_that_is_equal_to_the_first(reset):
    source = f"""
def f(x):
    b, first, n = {reset}, [], 0
    while n < x.sum():
        b.append(x * 2 + n)
        if n == 0:
            first.append(len(b))
        b = {reset}
        n = n + 1
    b.append(x)
    return torch.stack(b), len(b), first
"""
    file = f"<replaced by {reset}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch}
    exec(compile(source, file, "exec"), space)
    f, g = space["f"], tg.function(space["f"])
    for x in (torch.ones(2), torch.ones(2) * 2, -torch.ones(2)):
        (b, n, first), (c, m, one) = f(x), g(x)
        assert torch.equal(b, c) and n == m and first == one


@dataclass
class Collected:
    total: object
    items: list = field(default_factory=list)

    def add(self, v):
        self.total = self.total + v
        self.items.append(v)


def test_a_list_that_the_factory_of_a_dataclass_makes():
    def f(x):
        made = Collected(x.sum())
        for v in x:
            if v > 0:
                made.add(v)
        return made.total, len(made.items)

    for x in (torch.tensor([1.0, -2, 3]), -torch.ones(3)):
        (a, n), (b, m) = f(x), tg.function(f)(x)
        assert torch.equal(a, b) and n == m


def test_lists_appended_to_a_list_grow():
    def f(x):
        rows = []
        for r in (x[:2], x[2:]):
            rows.append([])
            for v in r:
                if v > 0:
                    rows[-1].append(v)
        return [len(r) for r in rows], rows

    for x in (torch.tensor([3.0, -1.0, 2.0, 0.5]), -torch.ones(4)):
        expected, found = f(x), tg.function(f)(x)
        assert expected[0] == found[0] and all(
            map(torch.equal, sum(expected[1], []), sum(found[1], []))
        )


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize(
    "form",
    [
        torch.tensor,
        torch.as_tensor,
        torch.FloatTensor,
        lambda rows: torch.tensor(rows, dtype=torch.float64),
        lambda rows: torch.tensor([(t, i, 2) for _, i, t in rows]),
        lambda rows: torch.LongTensor([rows[0][1], 3]),
    ],
)
def test_a_tensor_of_rows_is_a_tensor_without_a_gradient(form):
    def f(x):
        rows = []
        for i in range(10):
            x = x * 0.5
            rows.append((x.item(), i, x + 1))
            if x < 0.1:
                break
        return form(rows)

    x = torch.tensor(1.0, requires_grad=True)
    native, staged = f(x), tg.function(f)(x)
    assert torch.equal(native, staged) and native.dtype == staged.dtype
    assert not staged.requires_grad


def test_a_change_that_a_built_in_cannot_follow():
    def program(x):
        items = [1, 2, 3]
        for a, b in zip(items, "abc"):
            if x > 0:
                items.append(a)
        return items

    with pytest.raises(StagingError, match="change where zip"):
        tg.function(program)(torch.tensor(1))


def numbers(n):
    found = []
    while n > 0:
        found.append(2)
        n = n - 1
    return found


@pytest.mark.parametrize(
    "use",
    [
        lambda found: torch.zeros(found),
        lambda found: torch.full(size=found, fill_value=1.0),
        lambda found: torch.zeros(4).view(found),
        lambda found: torch.ones(2, 3, 4).sum(found),
        lambda found: torch.nn.functional.pad(torch.ones(3), found),
        lambda found: torch.meshgrid([torch.ones(2), found]),
        lambda found: torch.zeros([1] * len(found)),
        lambda found: np.unique(found),
        lambda found: torch.ones(0).unflatten(0, found),
    ],
    ids=["size", "keyword", "method", "dims", "python", "inside", "repeated", "numpy", "split"],
)
def test_code_that_reads_the_memory_of_lists_refuses_one_of_the_graph(use):
    """It would take the list to be empty."""

    @tg.function
    def f(n):
        return use(numbers(n))

    with pytest.raises(StagingError, match="a list that grows .* cannot be given to '"):
        f(torch.tensor(2))


def test_joining_a_list_that_turns_out_empty_raises_as_torch_does():
    joins = (torch.stack, torch.cat, torch.hstack, lambda xs: torch.stack(xs, 1))
    for join in joins:

        @tg.function
        def f(n, join=join):
            found = []
            for i in range(n):
                found.append(torch.ones(2) * i)
            return join(found)

        assert f(torch.tensor(2)).numel() == 4
        with pytest.raises((RuntimeError, ValueError), match="non-empty") as wanted:
            join([])
        with pytest.raises(wanted.type, match="non-empty"):
            f(torch.tensor(0))

    @tg.function
    def begun(n):
        found = [torch.ones(2)]
        while n > 0:
            found.append(torch.ones(2) * n)
            n = n - 1
        return torch.stack(found)

    assert begun(torch.tensor(0)).shape == (1, 2)
    assert "tg.assert" not in str(begun.concrete_functions[0].graph)


def test_an_error_tells_of_a_list_that_grew():
    @tg.function
    def f(n):
        found = numbers(n)
        return found.missing

    with pytest.raises(AttributeError) as caught:
        f(torch.tensor(2))
    assert "found is list whose length is decided when the graph runs" in caught.value.__notes__[0]


def test_index_out_of_a_list_of_numbers_in_pythons_words():
    for items, kind in (([1, 2, 3], "list"), ((1.5, 2.5, 0.5), "tuple")):
        f = tg.function(lambda i, items=items: items[i])
        assert f(torch.tensor(-1)) == items[-1]
        for i in (3, -4):
            with pytest.raises(IndexError, match=f"^{kind} index out of range"):
                f(torch.tensor(i))


def with_a_number(x):
    found = [x[0]] if x[0] > 0 else [x[0], x[1]]
    found.append(3)
    found.insert(0, 2.5)
    return found, [type(v).__name__ for v in found], sum(found), max(found), found.index(3)


def best_so_far(x):
    best = [float("inf")]
    for v in x:
        if v < best[-1]:
            best.append(v)
    return best, best[-1], sorted(best), torch.stack(best[1:]), torch.tensor(best), best[::-1]


def of_several_kinds(x):
    found = []
    for v in x:
        found.append(None if v > 2 else v if v > 0 else (v, "negative") if v > -2 else x[:2] + v)
    return found, [v is None for v in found], [v for v in found if isinstance(v, torch.Tensor)]


def filled_again(x):
    counts = []
    for v in x:
        counts.append(int(v))
    counts.append(x[0])
    rows = []
    for v in x:
        row = []
        rows.append(row)
        row.append(v)
        row.append(1)
    return counts, rows


def prefixes(x):
    beams = [((), 0.0)]
    for v in x:
        longer = []
        for path, score in beams:
            longer.append((path + (1,), score + v))
            longer.append((path + (2,), score - v))
        beams = sorted(longer, key=lambda b: -b[1])[:2]
    return beams, beams[0][0] == (1, 2, 1, 1), len(beams[0][0])


def kept_by_prefix(x):
    beams = {(): 0.0}
    for v in x:
        longer = {}
        for path, score in beams.items():
            for k in range(2):
                new = path + (k,) if k else path
                longer[new] = longer[new] + v * k if new in longer else score + v * k
        beams = dict(sorted(longer.items(), key=lambda kv: -kv[1])[:3])
    return beams


def lengthened(x):
    path = ()
    while len(path) < x[0]:
        path += (x[1] * len(path),)
    return path, len(path)


MIXED = [with_a_number, best_so_far, of_several_kinds, filled_again, prefixes, kept_by_prefix, lengthened]  # fmt: skip


@pytest.mark.parametrize("f", MIXED)
def test_items_of_several_kinds(f):
    g = tg.function(f)
    for x in ([3.0, -1.0, 2.0, 1.0], [-1.0, -5.0, 3.0, 0.5]):
        for _ in range(2):
            assert repr(g(torch.tensor(x))) == repr(f(torch.tensor(x)))


def test_what_is_no_tensor_is_not_stacked():
    @tg.function
    def f(x):
        found = [0.5]
        for v in x:
            if v > 0:
                found.append(v)
        return torch.stack(found)

    with pytest.raises(
        TypeError, match="expected Tensor as element 0 in argument 0, but got float"
    ):
        f(torch.ones(2))


def test_chr_of_no_character():
    with pytest.raises(ValueError, match=r"chr\(\) arg not in range\(0x110000\)"):
        tg.function(lambda x: chr(int(x)))(torch.tensor(-1))


def find(x, n, *bounds):
    known, grown = x.tolist(), []
    for i in range(n):
        grown.append(x[i].item())
    found = []
    for items in (known, (1, 2, 9, 4, 9), grown):
        try:
            found.append(items.index(9, *bounds))
        except ValueError:
            found.append(-1)
    return found


BOUNDS = [(0, 5), (3, 5), (-2, 99), (4, 3), (-100, -1), (5, 9), (1, 3), (-3,), (2,)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_index_between_bounds(bounds):
    f, x = tg.function(find), torch.tensor([1, 2, 9, 4, 9])
    for count in (5, 3):
        found = f(x, torch.tensor(count), *bounds)
        assert [int(at) for at in found] == find(x, count, *bounds)


def test_index_between_bounds_of_the_run():
    f, x = tg.function(find), torch.tensor([1, 2, 9, 4, 9])
    for count, bounds in itertools.product((5, 3), BOUNDS):
        found = f(x, torch.tensor(count), *map(torch.tensor, bounds))
        assert [int(at) for at in found] == find(x, count, *bounds)
    assert f.trace_count == 2


def test_views_of_a_tensor_that_was_written_before_the_loop():
    def path(n):
        previous = torch.full((6,), -1)
        for k in range(1, 6):
            if k > n:
                previous[k] = k - n
        v, found = torch.tensor(5), []
        while v != -1:
            found.append(v)
            v = previous[v]
        return torch.stack(found[::-1])

    for n in (1, 2, 5):
        assert torch.equal(tg.function(path)(torch.tensor(n)), path(torch.tensor(n)))


def test_views_of_a_tensor_that_the_loop_writes_are_refused():
    @tg.function
    def path(previous, n):
        found, v = [], previous[0]
        previous = previous.clone()
        while n > 0:
            found.append(v)
            v = previous[n]
            previous[n] = 7
            n = n - 1
        return found

    with pytest.raises(SharedMemoryError):
        path(torch.arange(5), torch.tensor(3))


@pytest.mark.parametrize("x", [[1.0, -2.0, 3.0], [-1.0, 2.0], [1.0], [], [2.0, -2.0, 1.0, -3.0]])
def test_order_of_lists_by_their_first_difference(x):
    def f(x):
        more, less, none = [], [], []
        for v in x:
            if v > 0:
                more.append(v.item())
            elif v < 0:
                less.append((-v).item())
            else:
                none.append(v.item())
        orders = more < less, more <= less, more > less, more >= less
        return orders, more < [1.0, 2.0], (2.0,) >= tuple(less), none < more, none <= []

    x = torch.tensor(x)
    assert tree_map(bool, tg.function(f)(x)) == f(x)


def test_order_of_a_list_and_a_tuple():
    def f(x):
        found = []
        for v in x:
            if v > 0:
                found.append(v.item())
        return found < (1.0,)

    with pytest.raises(TypeError, match="'<' not supported between instances of 'list' and 'tuple'"):  # fmt: skip
        tg.function(f)(torch.ones(2))


def decoded(x):
    out = []
    for k in x.tolist():
        if k > 1:
            out += [k] * k
    return out


def rows_behind(x):
    out, rest = [x[0]], x[x > 1]
    out.extend(rest[1:])
    out += rest
    return torch.stack(out), len(out)


@pytest.mark.parametrize("f", [decoded, rows_behind])
def test_what_has_as_many_items_as_the_run_knows_is_added_to_a_list(f):
    g = tg.function(f)
    for x in (torch.tensor([1, 3, 2, 5]), torch.tensor([2, 0, 0, 1])):
        got, want = g(x), f(x)
        assert str(got) == str(want)
    assert g.trace_count == 1


def beside_what_is_no_list(x):
    found = [k for k in x.tolist() if k > 1]
    match found:
        case -1 | "a" | None:
            return 1
        case []:
            return 2
    return found == 3, found != "a", 3 == found, found == None, x[0].item() == found, found != {1}  # noqa: E711


def test_a_list_is_equal_to_nothing_of_another_kind():
    g = tg.function(beside_what_is_no_list)
    for x in (torch.tensor([1, 3]), torch.tensor([0, 1])):
        assert g(x) == beside_what_is_no_list(x)


@pytest.mark.parametrize("place", [3, -4])
def test_an_index_outside_is_the_error_of_python(place):
    def told(n, write):
        items = []
        for i in range(n):
            items.append(i)
        try:
            if write:
                items[place] = 7
            return items[place], items
        except IndexError as error:
            return type(error).__name__, str(error), error.args, items

    compare(told, *[(torch.tensor(n), write) for n in (4, 3, 0) for write in (False, True)])
