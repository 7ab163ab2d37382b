"""Changes of places outside: each call makes them where it finds the place, also when a container was replaced since the trace."""

import pytest
import torch

import tograph as tg

LOG, TABLE = [], {"x": torch.zeros(())}


class Owner:
    def __init__(self, content):
        self.c = content


def set_key(o, x):
    o.c["x"] = o.c["x"] + x


def count(o, x):
    o.c["n"] += 1


def new_key(o, x):
    o.c["y"] = x + 1


def item(o, x):
    o.c[0] = o.c[0] + x


def append(o, x):
    o.c.append(x + 1)


def append_number(o, x):
    o.c.append(1)


def nested(o, x):
    o.c["a"]["x"] = o.c["a"]["x"] + x


def attribute(o, x):
    o.c.v = o.c.v + x


def inner():
    made = Owner(None)
    made.v = torch.zeros(())
    return made


CASES = {
    set_key: lambda: {"x": torch.zeros(())},
    count: lambda: {"n": 0},
    new_key: lambda: {"x": 1},
    item: lambda: [torch.zeros(())],
    append: list,
    append_number: list,
    nested: lambda: {"a": {"x": torch.zeros(())}},
    attribute: inner,
}


@pytest.mark.parametrize("change", CASES, ids=lambda f: f.__name__)
def test_a_container_that_is_replaced_between_calls(change):
    def log_of(step):
        o, seen = Owner(CASES[change]()), []
        for i in range(9):
            if i in (5, 7):
                o.c = CASES[change]()
            step(o, torch.ones(()))
            seen.append(repr(vars(o.c) if isinstance(o.c, Owner) else o.c))
        return seen

    class Holder:
        def step(self, x):
            change(self.o, x)
            return x * 2

    def by_method(o, x):
        holder.o = o
        return converted(x)

    holder = Holder()
    converted = tg.function(holder.step)
    assert log_of(by_method) == log_of(change)


def logged(x):
    LOG.append(x + 1)
    TABLE["x"] = TABLE["x"] + x
    return x * 2


def test_globals_that_are_replaced_between_calls():
    global LOG, TABLE
    f, seen = tg.function(logged), []
    for step in (logged, f):
        found = []
        for i in range(9):
            if i in (0, 5, 7):
                LOG, TABLE = [], {"x": torch.ones(())}
            step(torch.ones(()))
            found.append(repr((LOG, TABLE)))
        seen.append(found)
    assert seen[0] == seen[1]
    assert f.trace_count == 1


def test_a_variable_around_the_function_that_is_bound_anew():
    def made(convert):
        log = []

        def f(x):
            log.append(x + 1)
            return x * 2

        def reset():
            nonlocal log
            log = []

        return convert(f), reset, lambda: repr(log)

    seen = []
    for convert in (lambda f: f, tg.function):
        f, reset, shown = made(convert)
        found = []
        for i in range(9):
            if i in (5, 7):
                reset()
            f(torch.ones(()))
            found.append(shown())
        seen.append(found)
    assert seen[0] == seen[1]


class Swapping:
    """The change of a list and of the attributes that hold it, in one call."""

    def __init__(self):
        self.a, self.b, self.old = [], [], None

    def step(self, x):
        self.a.append(x + 1)
        self.old = self.a
        self.a = self.b
        self.b = self.old
        self.a.append(x * 3)
        return x * 2


class Shared:
    """One list in two attributes, then two, then one."""

    def __init__(self):
        self.a = self.b = [torch.zeros(())]

    def step(self, x):
        self.a[0] = self.a[0] + x
        return self.b[0] * 1


def between(o, i):
    if isinstance(o, Shared) and i == 5:
        o.b = [torch.full((), 7.0)]
    if isinstance(o, Shared) and i == 8:
        o.a = [torch.full((), 70.0)]


@pytest.mark.parametrize("cls", [Swapping, Shared])
def test_containers_that_change_places(cls):
    seen = []
    for convert in (lambda f: f, tg.function):
        o = cls()
        step, found = convert(o.step), []
        for i in range(11):
            between(o, i)
            result = step(torch.ones(()))
            found.append(repr((result, vars(o))))
        seen.append(found)
    assert seen[0] == seen[1]


LEVEL = 1


def sets_global(o, x):
    global LEVEL
    if x < 0:
        LEVEL = 1


def sets_attribute(o, x):
    while x < 0:
        o.c, x = 1, x + 1


def sets_item(o, x):
    if x < 0:
        o.items[0] = 1


def sorts(o, x):
    if x < 0:
        o.items.sort()


def empties(o, x):
    if x < 0:
        o.members.clear()


@pytest.mark.parametrize("f", [sets_global, sets_attribute, sets_item, sorts, empties])
def test_a_staged_write_of_what_is_there_already(f):
    """Such a write changed nothing in the first trace, and nothing in any later call."""
    global LEVEL
    seen = []
    for step in (f, tg.function(f)):
        LEVEL, o, found = 1, Owner(1), []
        o.items, o.members = [1, 2], set()
        for i, v in enumerate([-1.0, -1.0, 1.0, -1.0]):
            step(o, torch.tensor(v))
            found.append(repr((LEVEL, vars(o))))
            LEVEL, o.c, o.items[0] = i + 5, i + 5, i + 5
            o.members.add(i)
        seen.append(found)
    assert seen[0] == seen[1]


def test_a_variable_that_is_only_written_and_on_one_path():
    """A call on the other path put back what the variable held while tracing."""

    def made(convert):
        best = 0

        def f(x):
            nonlocal best
            if x < 0:
                best = x * 2
            return x

        def set_to(v):
            nonlocal best
            best = v

        return convert(f), set_to, lambda: float(best)

    seen = []
    for convert in (lambda f: f, tg.function):
        (f, set_to, shown), found = made(convert), []
        for v in (1.0, -1.0, 1.0, -2.0, 1.0):
            f(torch.tensor(v))
            found.append(shown())
        set_to(7)
        f(torch.tensor(1.0))
        seen.append([*found, shown()])
    assert seen[0] == seen[1]


def assigned_on_a_path_of_python(o, x):
    global LEVEL
    if o.c:
        o.n = x
    else:
        LEVEL = 1


def from_a_list_that_is_replaced(o, x):
    i = 0
    while i < x:
        i, o.n = i + 1, o.c[0]
    o.c = [x * 2, 1]


@pytest.mark.parametrize(
    ("f", "content"), [(assigned_on_a_path_of_python, True), (from_a_list_that_is_replaced, [0.5])]
)
def test_what_a_call_leaves_is_not_what_the_trace_found(f, content):
    global LEVEL
    seen = []
    for step in (f, tg.function(f)):
        LEVEL, o, found = 1, Owner(content), []
        o.n = 0
        for i, v in enumerate([0.0, -1.0, -3.0, 2.0, 1.0]):
            step(o, torch.tensor(v))
            found.append(repr((LEVEL, vars(o))))
            LEVEL = i + 5
        seen.append(found)
    assert seen[0] == seen[1]


class Sums:
    def __init__(self):
        self.reset()

    def reset(self):
        self.count, self.total = torch.zeros(()), torch.zeros(3)

    def update(self, x):
        self.count += len(x)
        self.total += x.sum(0)
        return self.total / self.count


def test_a_tensor_that_is_changed_in_its_place_is_no_effect():
    """The attribute holds the tensor that it held, so calls go straight to machine code; where it is another one, that is changed."""
    sums, plain = Sums(), Sums()
    f = tg.function(sums.update)
    for i in range(9):
        if i in (4, 6):
            sums.reset()
            plain.reset()
        held, x = sums.total, torch.full((2, 3), float(i))
        assert torch.equal(f(x), plain.update(x))
        assert sums.total is held and torch.equal(held, plain.total)
        assert i != 3 or (f.trace_count == 1 and f.concrete_functions[0].entry is not None)
    assert f.trace_count == 2
