"""What a function changed in outer Python objects before it fails at run time is visible, as natively."""

import contextlib

import pytest
import torch

import tograph as tg
from tograph.runtime.symbols.funcgraph import FuncGraph
from tograph.runtime.traces.commits import Commits


class Box:
    def __init__(self, n):
        self.n = n


def counter():
    count = 0

    def step(k):
        nonlocal count
        count = (count + k) % 9
        return count

    return step


def compare(build, *rows):
    """Both runs: the type of the exception, and what the box and the counter hold, after every call."""
    shown = []
    for convert in (lambda f: f, tg.function):
        box, step = Box(1), counter()
        f = convert(build(box, step))
        found = []
        for row in rows:
            error = None
            try:
                f(*map(torch.tensor, row))
            except Exception as raised:
                error = type(raised).__name__
            found.append((error, int(box.n), int(step.__closure__[0].cell_contents)))
        shown.append(found)
    assert shown[0] == shown[1]
    return shown[0]


def test_a_change_before_a_loop_that_fails_in_a_try():
    def build(box, step):
        def f(n):
            box.n += 1
            try:
                for _ in range(n):
                    assert step(1) < 3, "too large"
            except (KeyError, RuntimeError):
                pass

        return f

    found = compare(build, (2,), (3,), (1,))
    assert found[1] == ("AssertionError", 3, 3)


def test_a_counter_of_a_closure_in_a_handler():
    def build(box, step):
        def f(n):
            try:
                for _ in range(n):
                    box.n = step(1)
                    assert box.n < 2
            except AssertionError:
                pass
            box.n += step(1)

        return f

    compare(build, (1,), (3,), (2,))


def test_every_path_raises():
    def build(box, step):
        def f(n):
            if box.n < n:
                raise KeyError("k")
            step(2)
            assert step(1) < 3

        return f

    assert compare(build, (-1,), (-1,), (5,))[0] == ("AssertionError", 1, 3)


def test_a_tensor_that_a_commit_handed_out_changes_after_it():
    shown = []
    for convert in (lambda f: f, tg.function):
        xs, rows = [], []

        def f(x, i, xs=xs):
            t = x * 2
            xs.append([t])
            t[i] += 1
            y = x[i]
            t[0] += 10
            return y

        g = convert(lambda x, i, f=f: f(x, i))
        for i in (1, 5):
            try:
                g(torch.ones(3), torch.tensor(i))
            except IndexError:
                rows.append("IndexError")
            rows.append([t.tolist() for row in xs for t in row])
        shown.append(rows)
    assert shown[0] == shown[1]
    assert shown[1][0] == [[12, 3, 2]]


@pytest.mark.parametrize("a", [0, 1])
def test_a_change_before_a_raise_in_the_one_branch_that_changes(a):
    class Box:
        n = 1

    def f(box, a):
        if a > 0:
            box.n = 2
            raise ValueError("positive")
        return a

    outcomes = []
    for g in (f, tg.function(f)):
        box = Box()
        try:
            g(box, torch.tensor(a))
        except ValueError:
            outcomes.append("raised")
        outcomes.append(box.n)
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]


def test_a_change_before_a_raise_in_a_branch_of_a_branch():
    def make():
        count = 0

        def step():
            nonlocal count
            count = count + 1

        return step

    def program(step):
        def f(x, y):
            if y > 1:
                pass
            else:
                if x > 1:
                    step()
                    raise ValueError("no")
            return 0

        return f

    plain, ours = make(), make()
    f, g = program(plain), tg.function(program(ours))
    for x in (3.0, 0.0, 3.0):
        for call in (f, g):
            with contextlib.suppress(ValueError):
                call(torch.tensor(x), torch.tensor(0.0))
        assert plain.__closure__[0].cell_contents == ours.__closure__[0].cell_contents
    assert ours.__closure__[0].cell_contents == 2


class Trained:
    def __init__(self):
        self.table = torch.arange(12.0).view(4, 3).requires_grad_()
        self.steps = None


def train(state, rows, n):
    i = 0
    while i < n:
        state.steps = torch.tensor(i)
        state.table.grad = None
        loss = (state.table.index_select(0, rows[i]) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            state.table -= 0.1 * state.table.grad
        i += 1
    return i


@pytest.mark.parametrize("last", [2, 9])
def test_what_a_failing_loop_did_before_stays_also_in_native_code(last):
    rows = torch.tensor([[0, 1], [1, 3], [2, last]])
    f, states = tg.function(train), (Trained(), Trained())
    told = []
    for call, state in zip((train, f), states):
        try:
            call(state, rows, torch.tensor(3))
        except (IndexError, RuntimeError) as error:
            told.append(str(error)[:20])
    assert told[:1] == told[1:]
    assert len(told) == 2 * (last == 9)
    concrete = f.concrete_functions[-1]
    assert concrete.scheduled.level == "native", concrete.scheduled.reason
    a, b = states
    torch.testing.assert_close((a.table, a.table.grad, a.steps), (b.table, b.table.grad, b.steps))


def test_what_a_branch_or_handler_commits():
    def build(box, step):
        def f(a, b, c):
            x, old = torch.arange(4.0), box.n
            box.n = 5
            try:
                y = x[a]
            except IndexError:
                box.n = old
                y = x[0]
            box.n = old
            if b > 0:
                box.n = 6
                y = y + x[b]
                box.n = old
            return y + x[c]

        return f

    compare(build, (1, 1, 1), (1, 1, 9), (9, 1, 9), (1, 9, 1), (1, 0, 9), (9, 9, 1), (1, 1, 9))


def test_marks_share_what_did_not_change():
    """An attempt marks what was committed so far: that is not copied for each."""
    graph, other = FuncGraph("f"), FuncGraph("g")
    noted = Commits(lambda location: True, lambda location, old: False, {})
    noted.holds(graph, {"a": 1})
    noted.holds(other, {"b": 1})
    first, second = noted.mark(), noted.mark()
    assert first[0][graph][1] is second[0][graph][1]
    noted.holds(graph, {"a": 2})
    third = noted.mark()
    assert third[0][other][1] is first[0][other][1]
    noted.back(second)
    assert noted.mark()[0][graph][1] == {"a": 1}
    noted.holds(graph, {"a": 3})
    assert first[0][graph][1] == second[0][graph][1] == {"a": 1}
    noted.back(third)
    assert noted.mark()[0][graph][1] == {"a": 2}


LOG, PLACE = [], torch.tensor(0)


class Track:
    def __init__(self):
        self.age = 1.0


def changed_dict(x):
    d = {"lr": 1.0}
    LOG.append(d)
    y = x[PLACE]
    if x.sum() > 0:
        d["lr"] *= 0.5
    d["x"] = x * 2
    return y, d["lr"]


def changed_object(x):
    LOG.append(Track())
    y = x[PLACE]
    if x.sum() > 0:
        LOG[-1].age += 1
    return y


def of_two_items(x):
    a, b = {"h": 1}, [2]
    LOG.extend([a, b, a])
    y = x[PLACE]
    a["h"] = x * 3
    b[0] = 5
    b.append(x)
    return y


def in_front(x):
    LOG.insert(0, [x * 1])
    y = x[PLACE]
    LOG[0][0].add_(1)
    LOG[0].append(2)
    return y


def before_a_failure(x):
    d = {"h": 1}
    LOG.append((d, 2))
    y = x[PLACE]
    d["h"] = x * 3
    return y + x[PLACE + 5]


def shown(x):
    return vars(x) if isinstance(x, Track) else x


@pytest.mark.parametrize("f", [changed_dict, changed_object, of_two_items, in_front, before_a_failure])  # fmt: skip
def test_what_was_added_before_an_op_that_may_fail_and_changed_behind_it(f):
    found = []
    for g in (f, tg.function(f)):
        LOG.clear()
        for x in (torch.ones(2), -torch.ones(2)):
            error = None
            try:
                g(x)
            except IndexError:
                error = "IndexError"
            found.append(str((error, list(map(shown, LOG)))))
    assert found[:2] == found[2:]


SET = 0


def noted_in_a_branch_that_raises(c):
    global SET
    if c:
        raise ValueError
    else:
        SET = 3


def set_to_what_was_there_before_a_failure(c):
    global SET
    SET = 0
    if c:
        raise ValueError
    SET = 3


def changed_before_a_failure(c):
    global SET
    if c:
        SET = SET + 1
        raise ValueError
    else:
        SET = 3


@pytest.mark.parametrize("f", [noted_in_a_branch_that_raises, set_to_what_was_there_before_a_failure, changed_before_a_failure])  # fmt: skip
def test_a_variable_outside_that_a_failing_path_leaves_as_it_was(f):
    global SET
    found = []
    for g in (f, tg.function(f)):
        SET = 0
        for n, c in enumerate((True, False, True, False, True, True)):
            if n > 3:
                SET = n
            with contextlib.suppress(ValueError):
                g(torch.tensor(c))
            found.append(SET)
    assert found[:6] == found[6:]


class Pair:
    def __init__(self, items):
        self.items, self.kept = items, None


def _leaves_before_an_error(x, table, items, pair):
    made = [3]
    table["items"] = items
    table["made"] = made
    pair.kept = made
    if x > 3:
        raise ValueError("large")
    pair.items = [items, pair]
    table.pop("made")
    raise KeyError("none")


@pytest.mark.parametrize("x", [4.0, 1.0])
def test_what_a_failed_call_leaves_in_places_is_what_the_caller_gave(x):
    seen = []
    for f in (_leaves_before_an_error, tg.function(_leaves_before_an_error)):
        for _ in range(3):
            items, pair = [1], Pair([2])
            table = {}
            with pytest.raises((ValueError, KeyError)) as caught:
                f(torch.tensor(x), table, items, pair)
            mine = [v is items for v in (*table.values(), *pair.items)]
            seen.append([caught.type, mine, pair.items[-1] is pair, table.get("made") is pair.kept])
    assert seen == [seen[0]] * 6


def test_an_object_outside_that_a_failed_call_puts_elsewhere():
    box, items = Box(1), [1]
    box.items = items

    def f(x, table):
        table["items"] = box.items
        if x > 3:
            raise ValueError("large")

    table = {}
    with pytest.raises(ValueError, match="large"):
        tg.function(f)(torch.tensor(4.0), table)
    assert table["items"] is items
