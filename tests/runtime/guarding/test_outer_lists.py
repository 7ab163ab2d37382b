"""Lists from outside that grow by a staged condition, against plain Python."""

from collections import deque

import pytest
import torch

import tograph as tg


class Log:
    def __init__(self):
        self.items, self.named = [], {"up": [], "down": []}


def in_a_branch(log, x):
    if x.sum() > 0:
        log.items.append(x.sum())
    return x * 2


def in_a_loop(log, x):
    while x.sum() < 20:
        x = x + 2
        if x[0] > 3:
            log.items += [x[0].item()]
    log.items.append(0.5)
    return x


def on_both_paths(log, x):
    log.items.clear()
    for v in x:
        if v > 0:
            log.named["up"].append((v.item(), "up"))
        else:
            log.named["down"].extend([(v.item(), "down")])
    return len(x)


def before_a_failure(log, x):
    for v in x:
        log.items.append(v.item())
        if v < 0:
            raise ValueError("negative")
    return x


def of_lists(log, x):
    if x[0] > 0:
        log.items.append([x.sum(), x.max()])
    return x


def seen(log):
    return [[torch.as_tensor(v).tolist() if not isinstance(v, (list, tuple)) else str(v) for v in xs] for xs in (log.items, *log.named.values())]  # fmt: skip


def outcomes(function, calls):
    log, found = Log(), []
    for x in calls:
        try:
            found.append(str(function(log, x)))
        except ValueError as error:
            found.append(str(error).splitlines()[0])
        found.append(seen(log))
    return found


CALLS = [torch.tensor(v) for v in ([1.0, 3.0], [-5.0, 2.0], [2.0, -1.0], [4.0, 0.5])]


@pytest.mark.parametrize(
    "function", [in_a_branch, in_a_loop, on_both_paths, before_a_failure, of_lists]
)
def test_a_list_of_an_object_grows_by_a_staged_condition(function):
    staged = tg.function(function)
    assert outcomes(staged, CALLS) == outcomes(function, CALLS)
    assert staged.trace_count == 1


def test_items_of_a_list_that_grows_have_a_gradient():
    log, w = Log(), torch.tensor([1.0, 2.0], requires_grad=True)
    tg.function(in_a_branch)(log, w)
    log.items[0].backward()
    assert w.grad.tolist() == [1.0, 1.0]


def read_after(log, x):
    if x.sum() > 0:
        log.items.append(x)
    return len(log.items)


def read_in_a_loop(log, x):
    while x.sum() < 20 and len(log.items) < 3:
        x = x + 1
        log.items.append(x)
    return x


def cleared(log, x):
    if x.sum() > 0:
        log.items.append(x)
    else:
        log.items.clear()
    return x


def in_a_deque(log, x):
    if x.sum() > 0:
        log.last.append(x)
    return x


def kept_short(log, x):
    while x.sum() < 20:
        x = x + 1
        log.items.append(x.sum())
        if len(log.items) > 3:
            log.items.pop(0)
    return torch.stack(log.items).mean()


def two_lists(log, x):
    for v in x:
        log.items.append(v)
        log.named["up"].append(v.item())
        if v > 2:
            break
    return torch.stack(log.items).sum(), sum(log.named["up"]), log.items[-1]


def given_back(log, x):
    log.items.clear()
    while x.sum() < 20:
        x = x + 1
        log.items.append(x.sum().item())
        if len(log.items) > 2 and log.items[-1] - log.items[-2] < 3:
            break
    return log.items


READERS = [read_after, read_in_a_loop, cleared, kept_short, two_lists, given_back]


@pytest.mark.parametrize("function", READERS)
def test_a_list_that_grows_by_a_staged_condition_is_read(function):
    assert outcomes(tg.function(function), CALLS) == outcomes(function, CALLS)


def test_items_that_were_in_such_a_list_before_are_read():
    def f(log, x):
        if x.sum() > 0:
            log.items.append(x)
        return torch.cat(log.items)

    made = []
    for function in (f, tg.function(f)):
        log = Log()
        log.items = [torch.tensor([7.0])]
        made += [[function(log, x).tolist(), [v.tolist() for v in log.items]] for x in CALLS]
    assert made[:4] == made[4:]


def test_a_deque_that_grows_by_a_staged_condition_is_named():
    log = Log()
    log.items, log.last = [torch.ones(2)], deque()
    with pytest.raises(tg.errors.StructureError, match="log.last"):
        tg.function(in_a_deque)(log, torch.tensor([1.0, 2.0]))
    assert len(log.items) == 1


def objects(log, x):
    if x.sum() > 0:
        log.items.append(Log())
    return len(log.items)


def test_a_list_of_objects_that_grows_so_is_named():
    log = Log()
    log.items.append(Log())
    with pytest.raises(tg.errors.StructureError, match="log.items"):
        tg.function(objects)(log, torch.tensor([1.0, 2.0]))
    assert len(log.items) == 1


def test_a_list_that_cannot_grow_in_the_graph_is_traced_for_each_length():
    def f(log, x):
        if x.sum() > 0:
            log.items.append(x.sum())
        else:
            log.items.append(x.sum() * 2)
        return len(log.items)

    staged = tg.function(f)
    assert outcomes(staged, CALLS) == outcomes(f, CALLS)


def by_a_name(log, x):
    items = log.items
    if x.sum() > 0:
        items.append(0.5)
    return sum(items)


def by_getattr(log, x):
    if x.sum() > 0:
        log.items.append(0.5)
    items = getattr(log, "items")  # noqa: B009
    return [*items]


def by_a_function(log, x):
    def add(items):
        if x.sum() > 0:
            items.append(0.5)

    add(log.items)
    return x


@pytest.mark.parametrize("f", [by_a_name, by_getattr, by_a_function])
def test_such_a_list_has_a_second_name(f):
    assert outcomes(tg.function(f), CALLS) == outcomes(f, CALLS)


FAILURES: list[str] = []


def test_what_a_body_that_fails_has_appended_stays_before_what_the_handler_appends():
    def f(x):
        try:
            FAILURES.append("begun")
            if x.sum() > 0:
                raise KeyError("k")
            FAILURES.append("ended")
        except KeyError as error:
            FAILURES.append("handled")
            if x.sum() > 5:
                raise ValueError("v") from error
        finally:
            FAILURES.append("left")
        return x * 2

    g = tg.function(f)
    for v in (1, -1, 9, 1):
        found = []
        for run in (f, g):
            FAILURES.clear()
            try:
                run(torch.ones(2) * v)
            except ValueError:
                FAILURES.append("raised")
            found.append(list(FAILURES))
        assert found[0] == found[1]


def plateau(log):
    """A trainer with a plateau schedule, whose rate is ``max(rate * factor, 0)``, and early stopping."""
    weight = torch.ones(2).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)

    def fit(x):
        best, bad = None, 0
        for _ in range(8):
            optimizer.zero_grad()
            loss = (weight * x).pow(2).sum() + 1
            loss.backward()
            optimizer.step()
            value = loss.item()
            schedule.step(value)
            log["loss"].append(value)
            log["rate"].append(optimizer.param_groups[0]["lr"])
            if best is None or value < best - 1e-3:
                best, bad = value, 0
            else:
                bad += 1
                if bad >= 3:
                    break
        return best

    return fit


def int_or_float(log):
    def f(x):
        rate = x.sum().item()
        for i in range(5):
            if x.sum() > i:
                rate = max(rate - 1, 0)
            log["rate"].append(rate)
            if rate == 0:
                break
        return rate

    return f


@pytest.mark.parametrize("make", [plateau, int_or_float])
def test_items_that_are_an_int_or_a_float(make):
    logs = {"loss": [], "rate": []}, {"loss": [], "rate": []}
    plain, staged = make(logs[0]), tg.function(make(logs[1]))
    for x in (torch.tensor([1.0, 0.5]), torch.tensor([2.0, -0.5]), torch.tensor([-2.0, 0.5])):
        assert staged(x) == pytest.approx(plain(x))
    for key in logs[0]:
        assert logs[1][key] == pytest.approx(logs[0][key])
        assert list(map(type, logs[1][key])) == list(map(type, logs[0][key]))
