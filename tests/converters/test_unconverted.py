"""What functions of the standard library and of C change in a staged branch: undone where it is not taken, or an error."""

import array
import bisect
import collections
import contextvars
import ctypes
import decimal
import functools
import heapq
import io
import itertools
import operator
import os
import queue
import random
import threading
import types
import weakref

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((1,), (-1,))
def heaps(x):
    xs, ys, zs = [3, 4], [9, 4, 3], [3, 4]
    if x > 0:
        heapq.heappush(xs, 1)
        heapq.heapify(ys)
        bisect.insort(zs, 0)
    return xs, ys, zs


@cases((1,), (-1,))
def operators_and_unbound_methods(x):
    xs, ys, zs, d = [1, 2], [1, 2], [1], {}
    if x > 0:
        operator.setitem(xs, 0, x)
        list.append(ys, 3)
        zs.__imul__(3)
        dict.__setitem__(d, "a", x)
    return xs, ys, zs, d.get("a", 5)


@cases((1,), (-1,))
def nested(x):
    xs = [[1], [2]]
    if x > 0:
        random.Random(0).shuffle(xs)
        heapq.heappush(xs[0], 0)
    return xs


@cases((1,), (-1,))
def user_containers(x):
    xs, d = collections.UserList([1, 2]), collections.UserDict(a=1)
    if x > 0:
        xs[0] = x
        d["a"] = 2 * x
    return xs.data, d["a"]


@cases((1,), (-1,))
def default_of_a_dict(x):
    d = collections.defaultdict(int)
    if x > 0:
        d["k"] += 1
    return len(d), d.get("k", 5)


@cases((1,), (-1,))
def attributes_by_their_dict(x):
    o = Data()
    if x > 0:
        o.__dict__["a"] = x
        vars(o).update(b=2)
    return o.a, o.b


class Data:
    def __init__(self):
        self.a, self.b = 0, 0


@cases((1,), (-1,))
def made_in_the_branch(x):
    n = 0
    if x > 0:
        numbers, text = np.zeros(2), io.StringIO()
        numbers[0] = 3
        text.write("abc")
        n = len(text.getvalue()) + int(numbers.sum())
    return n


class Other:
    pass


class Doubling:
    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2)


class Frozen:
    def __setattr__(self, name, value):
        raise AttributeError(name)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: np.zeros(2), lambda o: o.fill(3)),
        (lambda: np.zeros(2), lambda o: operator.setitem(o, 0, 1)),
        (lambda: array.array("d", [1.0]), lambda o: o.append(2)),
        (lambda: io.StringIO("abc"), lambda o: o.truncate(0)),
        (lambda: random.Random(0), lambda o: o.setstate(random.Random(1).getstate())),
        (lambda: np.random.default_rng(0), lambda o: o.random(3)),
        (queue.Queue, lambda o: o.put(1)),
        (lambda: itertools.count(), next),
        (lambda: (i for i in range(3)), next),
        (lambda: np.zeros(4), lambda o: o.resize((2, 2))),
        (lambda: np.array([None]), lambda o: operator.setitem(o, 0, 1)),
        (lambda: np.zeros(2), lambda o: np.add(o, 1, out=o)),
        (lambda: memoryview(bytearray(2)), lambda o: operator.setitem(o, 0, 1)),
        (lambda: (ctypes.c_int * 2)(), lambda o: operator.setitem(o, 0, 1)),
        (lambda: ctypes.c_int(0), lambda o: setattr(o, "value", 1)),
        (queue.SimpleQueue, lambda o: o.put(1)),
        (threading.Lock, lambda o: o.acquire()),
        (decimal.Context, lambda o: setattr(o, "prec", 5)),
        (lambda: contextvars.ContextVar("v", default=0), lambda o: o.set(1)),
        (Data, lambda o: setattr(o, "__class__", Other)),
        (lambda: None, lambda o: random.setstate(random.Random(1).getstate())),
        (lambda: None, lambda o: np.random.rand(3)),
        (lambda: os.environ, lambda o: operator.setitem(o, "TOGRAPH_TEST", "1")),
        (lambda: None, lambda o: torch.set_default_dtype(torch.float64)),
        (lambda: None, lambda o: torch.set_grad_enabled(False)),
    ],
)
def test_what_no_graph_can_undo_is_refused(make, change):
    held = make()

    def f(x, o):
        if x > 0:
            change(o)
        return x

    with pytest.raises(tg.errors.StagingError):
        tg.function(lambda x: f(x, held))(torch.tensor(1))


@cases((1,), (-1,))
def past_a_setattr_of_the_class(x):
    o, p = Data(), Frozen()
    if x > 0:
        object.__setattr__(o, "a", x)
        object.__setattr__(p, "b", 2 * x)
    else:
        object.__setattr__(p, "b", 3 * x)
    return o.a, p.b


@cases((1,), (-1,))
def a_setattr_of_the_class_runs_once(x):
    o = Doubling()
    o.a = x
    if x > 0:
        o.a = x + 3
    return o.a


@cases((1,), (-1,))
def objects_of_the_standard_library(x):
    event, names = threading.Event(), types.SimpleNamespace(a=0)
    if x > 0:
        event.set()
        setattr(names, "a", x)
    return event.is_set(), names.a


@cases((1,), (-1,))
def what_an_unconverted_function_finds(x):
    held, o = {"k": 0}, Data()
    count = 0

    @tg.do_not_convert
    def change(v):
        nonlocal count
        held["k"] = v
        o.a = v * 2
        count = 3

    if x > 0:
        change(x)
    return held, o.a, count


def test_what_an_unconverted_method_of_a_module_changes():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.seen = 0, {"last": 0}

        @tg.do_not_convert
        def note(self, x):
            self.steps = 7
            self.seen["last"] = x

        def forward(self, x):
            if x > 0:
                self.note(x)
            return x

    m = Module()
    f = tg.function(m)
    f(torch.tensor(-1))
    assert (m.steps, int(m.seen["last"])) == (0, 0)
    f(torch.tensor(4))
    assert (m.steps, int(m.seen["last"])) == (7, 4)


def test_a_weak_dict_is_changed_where_the_branch_is_taken():
    weak, held = weakref.WeakValueDictionary(), Other()

    @tg.function
    def f(x):
        if x > 0:
            weak["a"] = held
        return x

    f(torch.tensor(-1))
    assert not weak
    f(torch.tensor(1))
    assert weak["a"] is held


class Bound(functools.partial):
    """A partial of a class of its own, with a ``func`` that hides the partial's, as libraries have it."""

    __slots__ = "func"

    def __init__(self, func, *args):
        self.func = func


def note(log, v):
    if "first" in log and "second" in log:
        raise KeyError
    log["first" if "first" not in log else "second"] = v + 1
    if v > 10:
        raise ValueError


@tg.do_not_convert
def as_written(call, v):
    return call(v)


@cases((1,), (-1,), (20,))
def partials_of_a_subclass(x):
    log = {}
    call = Bound(note, log)
    try:
        call(x)
    except ValueError:
        x = x - 20
    call(x)
    return log


@cases((1,), (-1,))
def what_a_partial_holds_is_changed(x):
    log = [0]
    if x > 0:
        as_written(functools.partial(list.append, log), 1)
    else:
        as_written(functools.partial(list.append, log), 2)
    return log


@cases((1,), (-1,))
def sets_of_the_keys_of_a_dict(x):
    found = {"a": 1, "b": 2}
    if x > 0:
        both = sorted(set(found.keys()) | set(found.values() and ["c"]))
        x = x + len(both) + len(set(found.items()))
    return x


@cases((1,), (-1,))
def a_lock_that_is_given_back(x):
    lock = threading.Lock()
    if x > 0:
        with lock:
            x = x * 2
    return x, lock.locked()


def test_keys_that_depend_on_a_condition_are_not_listed():
    def counter(x):
        found = collections.Counter("ab")
        if x > 0:
            found["z"] += 1
        return found.most_common()

    def holder(x):
        found = collections.UserDict(a=1)
        if x > 0:
            found["b"] = 2
        return sorted(found)

    for f in (counter, holder):
        with pytest.raises(tg.errors.StagingError, match="on every path"):
            tg.function(f)(torch.tensor(1))


def test_a_library_that_has_no_use_for_a_staged_number_is_refused_also_in_a_try():
    def seeded(x):
        try:
            return np.random.SeedSequence(int(x.sum())).entropy
        except TypeError:
            return -1

    with pytest.raises(tg.errors.StagingError, match=r"SeedSequence\(\) takes a value that Python"):
        tg.function(seeded)(torch.tensor([3.0]))


class Logged:
    """What code that is not converted adds to and counts in, beside what converted code does."""

    def __init__(self):
        self.groups, self.names, self.count = [{"lr": 1.0}], {"a": 0}, 0

    @tg.do_not_convert
    def add(self, lr):
        self.groups.append({"lr": lr})
        self.names[f"n{len(self.names)}"] = lr
        self.count += 1


def _each(logged, x, add):
    if add:
        logged.add(0.5)
    if x > 0:
        for g in logged.groups:  # numbers that become inputs: tracing begins again
            g["lr"] *= 0.5
    return x * 2


def _first(logged, x, add):
    logged.names["own"] = add
    logged.add(0.25)
    logged.groups.append({"lr": 2.0})
    logged.add(0.125)
    if x > 0:
        logged.groups[0]["lr"] *= 0.5
    return x * len(logged.groups)


@pytest.mark.parametrize("f", [_each, _first])
def test_a_trace_that_begins_again_acts_once(f):
    plain, staged, g = Logged(), Logged(), tg.function(f)
    for x, add in ((1.0, False), (1.0, True), (1.0, True), (-1.0, True)):
        assert f(plain, torch.tensor(x), add) == g(staged, torch.tensor(x), add)
        assert vars(plain) == vars(staged)


@tg.do_not_convert
def _sign_or_zero(x):
    try:
        return 1 if x > 0 else -1
    except Exception:  # whatever a user's code expects: the refusal is to get past it
        return 0


@tg.do_not_convert
def _whole_or_none(x):
    try:
        return int(x)
    except Exception:  # as above
        return None


@pytest.mark.parametrize("inner", [_sign_or_zero, _whole_or_none])
@pytest.mark.parametrize("given", [lambda x: x, lambda x: x.item()])
def test_a_refusal_that_it_handles_is_raised_all_the_same(inner, given):
    @tg.function
    def f(x):
        return inner(given(x))

    with pytest.raises(tg.errors.GraphBoolError, match="was not converted"):
        f(torch.tensor(1.5))
    assert tg.function(lambda: inner(2.5))() == inner(2.5)


test_same = cases.test()
