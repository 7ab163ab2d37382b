"""Numbers of outer objects that change from call to call become inputs: few traces, and Python's values and types."""

import collections
from typing import NamedTuple

import pytest
import torch

import tograph as tg
from tograph.runtime.guarding import outer_numbers
from tograph.runtime.native.entry import MISS


class Held:
    pass


def counter(held):
    def f(x):
        held.n += 1
        return x * held.n

    return f


def modulo(held):
    def f(x):
        held.n += 1
        return x * 2 if held.n % 2 == 0 else x

    return f


def rate(held):
    def f(x):
        held.n = held.n * 0.5
        return x * held.n

    return f


def in_a_branch(held):
    def f(x):
        if x > 0:
            held.n += 1
        return x + held.n

    return f


def unrolled(held):
    def f(x):
        held.n += 1
        for _ in range(held.n):
            x = x + 1
        return x

    return f


def printed(held):
    def f(x):
        held.n += 1
        print(f"step {held.n}")
        return x

    return f


def looked_up(held):
    table = {i: float(i) for i in range(20)}

    def f(x):
        held.n += 1
        return x + table[held.n]

    return f


def only_read(held):
    return lambda x: x + held.n


def in_a_dict(held):
    held.d = {"a": 1, "n": 0}

    def f(x):
        held.d["n"] += 1
        return x * held.d["n"] + len(list(held.d.items()))

    return f


def variable(held):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        held.n = n
        return x + n

    return f


def kind_changes(held):
    def f(x):
        held.n = held.n + (0.5 if held.n == 3 else 1)
        return x + held.n

    return f


def python_needs_it(held):
    def f(x):
        held.n += 1
        return x.reshape([1] * held.n).sum()

    return f


def in_a_list(held):
    held.counts = [0, 5, 0]

    def f(x):
        held.n += 1
        held.counts[1 if x > 0 else 2] += 1
        if held.counts[2] == 2:
            held.counts[0] -= held.n
        print(held.counts)
        return x * held.counts[0] + held.counts[1] + len(held.counts)

    return f


def a_list_in_turn(held):
    held.pair = [0, 7]

    def f(x):
        a, b = held.pair
        held.pair[:] = [b, a + 1]
        if x > 0:
            held.pair[0] += 10
        return x + held.pair[0]

    return f


def in_a_tuple(held):
    held.best = (100.0, 0)

    def f(x):
        held.n += 1
        loss = (x + held.n).abs().item()
        if loss < held.best[0] or held.n % 3 == 0:
            held.best = (loss, held.n)
        print(held.best)
        return x * held.best[0] + held.best[1]

    return f


class Best(NamedTuple):
    loss: float
    step: int


def in_a_named_tuple(held):
    held.best = Best(100.0, 0)

    def f(x):
        held.best = held.best._replace(step=held.best.step + 1)
        if x > 0:
            held.best = Best(held.best.loss - x.item(), held.best.step)
        print(held.best)
        return x * held.best.loss + held.best[1]

    return f


def in_a_full_deque(held):
    held.last = collections.deque([1.0, 2.0, 3.0], maxlen=3)

    def f(x):
        held.n += 1
        held.last.append((x * held.n).item())
        print(held.last[0])
        return x + sum(held.last)

    return f


def in_tuples_of_a_deque(held):
    held.memory = collections.deque([(torch.tensor(float(i)), i, (0.5, Best(0.0, i))) for i in range(3)], maxlen=3)  # fmt: skip

    def f(x):
        held.n += 1
        if x > 0:
            x = x * 2
        held.memory.append((x + held.n, held.n, (x.item(), Best(x.item(), 2 * held.n))))
        values, steps, marks = zip(*held.memory)
        print(steps[0], marks[-1][1].step)
        return torch.stack(values).sum() + sum(steps) + marks[0][0] + marks[1][1].loss

    return f


def a_list_that_python_needs(held):
    held.sizes = [0, 2]

    def f(x):
        held.sizes[0] += 1
        return x.reshape([1] * held.sizes[0]).sum()

    return f


CASES = [(in_a_list, 2), (in_a_full_deque, 2), (in_tuples_of_a_deque, 3), (in_a_named_tuple, 2), (a_list_in_turn, 2), (in_a_tuple, 2), (a_list_that_python_needs, 8), (counter, 2), (modulo, 2), (rate, 2), (in_a_branch, 1), (unrolled, 2), (printed, 2), (looked_up, 2), (only_read, 1), (in_a_dict, 2),
         (variable, 2), (kind_changes, 4), (python_needs_it, 8)]  # fmt: skip


@pytest.mark.parametrize(("make", "most"), CASES, ids=[m.__name__ for m, _ in CASES])
def test_as_python(make, most, capsys):
    shown = []
    for convert in (lambda f: f, tg.function):
        held = Held()
        held.n = 1.0 if make is rate else 0
        f = convert(make(held))
        row = []
        for i in range(8):
            y = f(torch.tensor(float((-1) ** i)))
            row.append((y.item(), held.n, type(held.n), capsys.readouterr().out))
        shown.append(row)
    assert shown[0] == shown[1]
    assert f.trace_count <= most


def test_a_number_that_others_change_is_an_input_from_its_second_change_on():
    held = Held()
    held.n = 0
    f = tg.function(lambda x: x + held.n)
    for i in range(6):
        held.n = i * 3
        assert f(torch.tensor(1)) == 1 + i * 3
    assert f.trace_count == 3
    held.n = 0.5
    assert f(torch.tensor(1)) == 1.5
    held.n = 2**70
    with pytest.raises((OverflowError, RuntimeError)):
        f(torch.tensor(1))
    held.n = True
    assert f(torch.tensor(1)) == 2


def test_a_failure_keeps_the_count():
    held = Held()
    held.n = 0

    @tg.function
    def f(x):
        held.n += 1
        assert x > 0
        held.n += 10
        return x

    for i in range(5):
        with pytest.raises(AssertionError):
            f(torch.tensor(-1.0))
        assert held.n == i + 1
    f(torch.tensor(1.0))
    assert held.n == 16


def test_items_of_a_list_that_others_change_and_a_failure():
    rates = [1.0, 2.0]

    @tg.function
    def f(x):
        rates[0] += 1
        assert x > 0
        rates[0] += 10
        return x * rates[1]

    for i in range(6):
        rates[1] = float(i)
        assert f(torch.tensor(2.0)) == 2 * i
    assert f.trace_count == 2
    with pytest.raises(AssertionError):
        f(torch.tensor(-1.0))
    assert rates == [68.0, 5.0]
    assert list(map(type, rates)) == [float, float]


@pytest.mark.parametrize("kind", ["OneCycleLR", "CosineAnnealingLR", "SequentialLR"])
def test_schedules_that_step_inside(kind):
    schedules = torch.optim.lr_scheduler
    makers = {
        "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=20),  # changes a tuple too
        "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
        "SequentialLR": lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=3), schedules.StepLR(o, 2)], [3]
        ),
    }
    losses = []
    for convert in (lambda f: f, tg.function):
        torch.manual_seed(0)
        module = torch.nn.Linear(3, 3)
        optimizer = torch.optim.Adam(module.parameters(), 0.1)
        schedule = makers[kind](optimizer)

        def fit(x, n, module=module, optimizer=optimizer, schedule=schedule):
            for _ in range(n):
                optimizer.zero_grad()
                loss = module(x).pow(2).sum()
                loss.backward()
                optimizer.step()
                schedule.step()
            return loss.detach()

        f = convert(fit)
        row = [f(torch.ones(2, 3) * i, 2) for i in range(8)]
        losses.append(torch.stack([*row, torch.tensor(schedule.get_last_lr()[0])]))
    assert torch.allclose(*losses, rtol=1e-5)
    assert f.trace_count <= (5 if kind == "SequentialLR" else 3)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_a_schedule_of_learning_rates(kind):
    losses = []
    for convert in (lambda f: f, tg.function):
        torch.manual_seed(0)
        module = torch.nn.Linear(3, 3)
        optimizer = kind(module.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(x, module=module, optimizer=optimizer):
            optimizer.zero_grad()
            loss = module(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        f = convert(step)
        row = []
        for i in range(6):
            row.append(f(torch.ones(2, 3) * i).detach())
            schedule.step()
        losses.append(torch.stack(row))
    assert torch.allclose(*losses, rtol=1e-6)
    assert f.trace_count == 3


class Scaled:
    rate = 0.5

    def step(self, x):
        return x * self.rate + 1


class Counted:
    n = 0

    def step(self, x):
        self.n += 1
        return x * self.n


def test_changing_numbers_go_by_the_entry():
    """Machine code runs the calls; numbers of other types and sizes are seen."""
    plain, held, x = Scaled(), Scaled(), torch.arange(1.0, 4.0)
    f = tg.function(held.step)
    for k in range(12):
        plain.rate = held.rate = 0.5 + k
        assert torch.equal(f(x), plain.step(x))
    assert f._entry is not None
    assert f._entry(x) is not MISS
    for rate in (3, 1e30, -0.0, True, 1 << 40, float("inf"), 0.25):
        plain.rate = held.rate = rate
        assert torch.equal(f(x), plain.step(x))


def test_counters_go_by_the_entry():
    plain, held, x = Counted(), Counted(), torch.arange(3.0)
    f = tg.function(held.step)
    for _ in range(12):
        assert torch.equal(f(x), plain.step(x))
        assert held.n == plain.n
    assert f._entry is not None
    assert torch.equal(f._entry(x), plain.step(x))
    assert held.n == plain.n
    plain.n = held.n = (1 << 63) - 2
    for _ in range(3):
        assert torch.equal(f(x), plain.step(x))
        assert held.n == plain.n


class Steps:
    def __init__(self):
        self.steps = 0


def count_twice(x, a, b):
    a.steps += 1
    b.steps += 2
    return x * a.steps + b.steps


def test_the_same_argument_is_another_object():
    """Each object counts for itself, whichever argument it is."""

    def calls(function):
        a, b, found = Steps(), Steps(), []
        for pair in [(a, b)] * 4 + [(b, a)] * 4 + [(a, a)] * 3 + [(a, b), (b, b), (b, a), (a, b)]:
            found.append((function(torch.ones(1), *pair).item(), a.steps, b.steps))
        return found

    assert calls(tg.function(count_twice)) == calls(count_twice)


def test_one_object_after_another():
    """Objects of the same place in memory among them: two traces serve each, until it is seen that they come and go."""
    staged = tg.function(count_twice)
    for _ in range(6):
        a, b = Steps(), Steps()
        assert [staged(torch.ones(1), a, b).item() for _ in range(5)] == [3, 6, 9, 12, 15]
    assert staged.trace_count <= 10


def test_methods_of_several_objects():
    class Counter(Steps):
        @tg.function
        def step(self, x):
            self.steps += 1
            return x + self.steps

    counters = [Counter() for _ in range(3)]
    found = [counters[i % 3].step(torch.zeros(1)).item() for i in range(12)]
    assert found == [1 + i // 3 for i in range(12)]
    assert [c.steps for c in counters] == [4, 4, 4]


def test_what_a_staged_construct_changes_is_looked_for_among_numbers_of_its_name(monkeypatch):
    """Which number a place holds is found by following ways: not those of all numbers that were read, which may be many."""
    followed = []
    follow = outer_numbers.current_value
    monkeypatch.setattr(
        outer_numbers, "current_value", lambda s: followed.append(s.label) or follow(s)
    )
    held, table = Held(), {"n": 2, 3: 4, "m": 1}
    held.inner, held.other = Held(), Held()
    held.inner.rate, held.other.size, held.inner.n = 2, 3, 5

    def f(x):
        scale = held.inner.rate * held.other.size * table["m"] * table[3]
        if x.sum() > 0:
            held.inner.n = 7
            table["n"] = table["n"] + 1
        return x * scale

    g = tg.function(f)
    g(torch.ones(2))
    assert (held.inner.n, table["n"]) == (7, 3)
    assert not any("size" in label or "other" in label for label in followed)
    torch.testing.assert_close(g(torch.ones(2)), torch.full((2,), 24.0))
    assert (held.inner.n, table["n"]) == (7, 4)
    held.other.size = 1
    torch.testing.assert_close(g(-torch.ones(2)), torch.full((2,), -8.0))
    assert table["n"] == 4


class Search:
    """Its counter is a default of the class until a call counts."""

    evaluations, rate = 0, 0.5

    def tried(self, step):
        self.evaluations += 1
        return step


def halved(search, x):
    step = 1.0
    for _ in range(9):
        if search.tried(step) > x:
            step = step * 0.5
        else:
            break
    return step


def slowed(search, x):
    search.rate *= 0.5
    while x > 1:
        search.rate *= 0.5
        x = x - 1
    return x


@pytest.mark.parametrize("f", [halved, slowed])
def test_a_default_of_the_class_that_is_set_and_then_changed_by_a_staged_construct(f):
    """The first call began anew without end: what the class holds cannot be an input in the place of an attribute that is not there."""
    staged, own, plain = tg.function(f), Search(), Search()
    for x in (1.0, 0.01, -1.0, 3.0):
        assert staged(own, torch.tensor(x)) == f(plain, torch.tensor(x))
        assert vars(own) == vars(plain)
    assert staged.trace_count == 2


def test_rows_of_a_table_that_change_in_turn_are_inputs_together():
    def make(held):
        def f(x):
            held.n += 1
            row = held.rows[int(held.n % 4)]
            if row[0] == held.n:
                return x
            row[0] = held.n
            row[1] = held.n * 0.5
            return x * row[1] + held.sizes[0][0]

        return f

    def new():
        held = Held()
        held.n, held.rows, held.sizes = 0, [[-1, 0.0] for _ in range(4)], [[2], [3]]
        return held

    ours, theirs, x = new(), new(), torch.ones(3)
    f, g = tg.function(make(ours)), make(theirs)
    for _ in range(14):
        assert torch.equal(f(x), g(x))
        assert (ours.n, ours.rows) == (theirs.n, theirs.rows)
        assert type(ours.rows[1][0]) is int
        assert type(ours.rows[1][1]) is float
    assert f.trace_count <= 4


def test_a_row_that_the_code_does_not_change_stays_what_it_is():
    held = Held()
    held.table = [[0, 5], [2, 3]]

    @tg.function
    def f(x):
        held.table[0][0] += 1
        return x.new_zeros(held.table[1]) + held.table[0][0]

    for i in range(5):
        made = f(torch.ones(1))
        assert made.shape == (2, 3)
        assert float(made[0, 0]) == i + 1
    assert f.trace_count <= 2


def test_numbers_of_objects_that_a_loop_moves_in_their_list():
    def job(t):
        made = Held()
        made.t = t
        return made

    def new():
        held = Held()
        held.jobs = [job(1.0), job(2.0)]
        return held

    def f(held, y):
        while held.jobs[0].t < y:
            first = held.jobs.pop(0)
            first.t = first.t + 1.5
            held.jobs.append(first)
        return held.jobs[0].t

    g = tg.function(f)
    for y in (3.0, 0.0, 5.0):
        ours, theirs = new(), new()
        assert g(ours, torch.tensor(y)) == f(theirs, torch.tensor(y))
        assert [j.t for j in ours.jobs] == [j.t for j in theirs.jobs]
