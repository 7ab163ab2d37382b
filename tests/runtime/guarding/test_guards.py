"""What a trace depends on besides its arguments: a change of what was read traces anew, of anything else not."""

import collections
import gc
import types
import weakref

import pytest
import torch

import tograph as tg

ONE = torch.tensor(1.0)


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Scaled:
    factor = 2

    def __init__(self):
        self.k = 2
        self._hidden = 3

    def step(self, x):
        return x * self.k

    @property
    def hidden(self):
        return self._hidden + 1


SETTINGS = types.ModuleType("settings")


def setter(owner, name, value):
    return lambda: setattr(owner, name, value)


def item_setter(owner, key, value):
    return lambda: owner.__setitem__(key, value)


def reads():
    """(name, function, change): the function reads what the change changes."""
    box = Box(flag=True, k=3, sub=Box(k=3), items=[1, 2], table={"a": 1}, call=lambda x: x + 1)
    yield "attribute", lambda x: x + 1 if box.flag else x - 1, setter(box, "flag", False)
    yield "number", lambda x: x * box.k, setter(box, "k", 5.0)
    yield "kind of number", lambda x: isinstance(box.k, int) and x, setter(box, "k", True)
    yield "path", lambda x: x * box.sub.k, setter(box.sub, "k", 7)
    yield "object on the path", lambda x: x * box.sub.k, setter(box, "sub", Box(k=9))
    yield "getattr", lambda x: x * getattr(box, "k"), setter(box, "k", 11)  # noqa: B009
    yield "hasattr", lambda x: x if hasattr(box, "new") else -x, setter(box, "new", 1)
    yield "default of getattr", lambda x: x * getattr(box, "late", 2), setter(box, "late", 3)
    yield "function", lambda x: box.call(x), setter(box, "call", lambda x: x + 2)
    yield "vars", lambda x: x * vars(box)["k"], setter(box, "k", 13)
    d = {"a": 1, 2: 5, "deep": [1, {"b": 2}]}
    yield "key", lambda x: x * d["a"], item_setter(d, "a", 4)
    yield "get", lambda x: x * d.get("later", 1), item_setter(d, "later", 4)
    yield "key in", lambda x: x if "new" in d else -x, item_setter(d, "new", 4)
    yield "deep", lambda x: x * d["deep"][1]["b"], item_setter(d["deep"][1], "b", 6)
    yield (
        "items",
        lambda x: sum(v for v in d.values() if isinstance(v, int)) * x,
        item_setter(d, "a", 8),
    )
    yield "len of dict", lambda x: x * len(d), item_setter(d, "more", 4)
    xs, q, s = [1, 2], collections.deque([1, 2]), {1}
    yield "item", lambda x: x * xs[-1], item_setter(xs, 1, 7)
    yield "length", lambda x: x * len(xs), lambda: xs.append(3)
    yield "loop", lambda x: sum([x * v for v in xs]), item_setter(xs, 0, 9)
    yield "sum", lambda x: x * sum(xs), item_setter(xs, 0, 11)
    yield "unpacking", lambda x: x * [*xs][0], item_setter(xs, 0, 13)
    yield "star", lambda x: (lambda a, *b: x * a)(*xs), item_setter(xs, 0, 15)
    yield "operator", lambda x: x * len(xs + [1]), lambda: xs.append(3)
    yield "returned", lambda x: (xs, x), item_setter(xs, 0, 17)
    yield "library", lambda x: x * max(sorted(xs)), item_setter(xs, 0, 99)
    yield "truth", lambda x: x if xs else -x, xs.clear
    yield "deque", lambda x: x * q[0], lambda: q.appendleft(4)
    yield "set", lambda x: x if 2 in s else -x, lambda: s.add(2)
    a = Scaled()
    yield "method", lambda x: a.step(x), setter(a, "k", 5)
    yield "property", lambda x: x * a.hidden, setter(a, "_hidden", 5)
    yield "class attribute", lambda x: x * Scaled.factor, setter(Scaled, "factor", 3)
    yield "class attribute of an object", lambda x: x * a.factor, setter(a, "factor", 4)
    SETTINGS.rate = 2
    yield "module", lambda x: x * SETTINGS.rate, setter(SETTINGS, "rate", 3)
    w = [torch.tensor(1.0)]
    yield "tensor in a list", lambda x: x + w[0], item_setter(w, 0, torch.tensor(5.0))
    yield "stack", lambda x: torch.stack(w).sum() * x, lambda: w.append(torch.tensor(4.0))


@pytest.mark.parametrize(("name", "f", "change"), [pytest.param(*r, id=r[0]) for r in reads()])
def test_a_change_of_what_was_read_traces_anew(name, f, change):
    g = tg.function(f)
    assert same(g(ONE), f(ONE))
    g(ONE)
    assert g.trace_count == 1
    before = f(ONE)
    before = ([*before[0]], before[1]) if isinstance(before, tuple) else before
    change()
    assert same(g(ONE), f(ONE))
    assert g.trace_count == 2
    assert not same(before, f(ONE)) or name == "kind of number"


def same(a, b):
    return (a[0] == b[0] and torch.equal(a[1], b[1])) if isinstance(a, tuple) else bool(a == b)


@pytest.mark.parametrize(
    ("f", "change"),
    [
        (lambda x, b=Box(used=1, other=2): x * b.used, lambda b: setattr(b, "other", 5)),
        (lambda x, b=Box(d={"used": 1}): x * b.d["used"], lambda b: b.d.update(other=5)),
        (lambda x, b=Box(l=[1, 2, 3]): x * b.l[0], lambda b: b.l.append(5)),
        (lambda x, b=Box(l=[1, 2, 3]): (b.l.append(4), x)[1], lambda b: b.l.clear()),
    ],
)
def test_a_change_of_what_was_not_read_keeps_the_trace(f, change):
    g = tg.function(f)
    g(ONE)
    change(f.__defaults__[0])
    g(ONE)
    assert g.trace_count == 1


def layer(kind):
    torch.manual_seed(0)
    return kind()


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: torch.nn.Dropout(0.5), lambda m: m.eval()),
        (lambda: torch.nn.LeakyReLU(0.1), setter),
        (
            lambda: torch.nn.Linear(2, 2),
            lambda m: setattr(m, "weight", torch.nn.Parameter(torch.ones(2, 2))),
        ),
        (lambda: torch.nn.Sequential(torch.nn.Linear(2, 2)), lambda m: m.append(torch.nn.Tanh())),
        (lambda: torch.nn.BatchNorm1d(2), lambda m: m.eval()),
    ],
    ids=["train", "setting", "parameter", "submodule", "batch norm"],
)
def test_modules(make, change):
    m = layer(make)
    g, x = tg.function(lambda x: m(x)), -torch.ones(3, 2)
    g(x)
    if change is setter:
        m.negative_slope = 0.5
    else:
        change(m)
    torch.manual_seed(1)
    found = g(x)
    torch.manual_seed(1)
    assert torch.allclose(found, m(x))
    assert g.trace_count == 2


def test_explain_retraces_names_what_changed():
    box = Box(k=1)

    @tg.function
    def f(x, n):
        return x * box.k + n

    f(ONE, 1)
    box.k = 4
    f(ONE, 1)
    f(ONE, 2)
    lines = [line.partition(";")[0] for line in f.explain_retraces().splitlines()]
    assert lines == [
        "trace 1: first call",
        "trace 2: box.k changed from 1 to 4",
        "trace 3: argument 'n' changed from 1 to 2",
    ]


def test_explain_retraces_tells_of_gradients():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f():
        w.sum().backward()

    for _ in range(3):
        f()
    _, last = f.explain_retraces().splitlines()
    assert last == "trace 2: .grad of a tensor of shape [2] changed from None to a tensor"
    assert w.grad.tolist() == [3, 3]


def test_mutation_of_an_argument_that_is_no_tensor():
    f = tg.function(lambda x, box: x * box.k)
    box = Box(k=2)
    assert f(ONE, box) == 2
    box.k = 3
    assert f(ONE, box) == 3


def test_the_cache_is_bounded():
    box = Box(k="0")
    f = tg.function(lambda x: x + len(box.k))
    for i in range(300):
        box.k = str(i)
        f(ONE)
    assert f.trace_count == 300
    assert len(f.concrete_functions) == 256


def test_a_trace_keeps_no_object_alive():
    class Model:
        def __init__(self):
            self.layers = [Box(k=1.0)]
            self.calls = 0

        @tg.function
        def run(self, x):
            self.calls += 1
            for part in self.layers:
                x = x * part.k
            return x

    f = tg.function(lambda m, x: m.layers[0].k * x)
    m = Model()
    m.run(ONE)
    f(m, ONE)
    gone = weakref.ref(m), weakref.ref(m.layers[0])
    del m
    gc.collect()
    assert [r() for r in gone] == [None, None]


def test_a_new_object_at_the_place_of_a_dead_one_is_traced():
    f = tg.function(lambda m, x: m.k * x)
    for k in range(20):
        assert f(Box(k=k), ONE) == k
        gc.collect()


def test_an_iterator_from_outside_advances_at_every_call():
    it = iter([1, 2, 3])
    f = tg.function(lambda x: x * next(it))
    assert [f(ONE).item() for _ in range(3)] == [1, 2, 3]


def test_a_list_that_is_passed_twice_is_one_list():
    def f(a, b):
        a.append(torch.tensor(3.0))
        return len(b)

    xs = [ONE]
    assert tg.function(f)(xs, xs) == 2
    assert tg.function(f)([ONE], [ONE]) == 1
    assert len(xs) == 2


def test_what_a_weak_reference_refers_to_is_guarded_and_changed():
    class Node:
        def __init__(self, v):
            self.v = v

    first, second = Node(torch.tensor(1.0)), Node(torch.tensor(5.0))
    box = [weakref.ref(first)]

    @tg.function
    def f(x):
        node = box[0]()
        if x > 1:
            node.v = node.v + x
        return node.v * 1

    assert f(torch.tensor(2.0)) == 3 and first.v == 3
    assert f(torch.tensor(0.0)) == 3 and f.trace_count <= 2
    box[0] = weakref.ref(second)
    assert f(torch.tensor(2.0)) == 7 and (first.v, second.v) == (3, 7)


class Numbered(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


@pytest.mark.parametrize(
    "kind", [lambda: collections.defaultdict(int, a=1, b=2), lambda: Numbered(a=1, b=2)]
)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, d: x + d.get("a", 100) + sum(d.values()),
        lambda x, d: x + d["a"] if "a" in d else x - len(d),
        lambda x, d: x + d["b"],
    ],
)
def test_looking_at_a_dict_puts_nothing_there(kind, function):
    """Guards do not go by ``__missing__``."""

    def calls(run):
        d, found = kind(), []
        for change in (len, len, dict.clear, len, lambda d: d.update(a=7), len):
            change(d)
            found.append((run(torch.zeros(1), d).item(), dict(d)))
        return found

    assert calls(tg.function(function)) == calls(function)


def test_two_objects_of_one_class_are_told_apart_in_words():
    class Box:
        k = 2

    f = tg.function(lambda x, box: x * box.k)
    for box in (Box(), Box()):
        f(torch.ones(2), box)
    assert "argument 'box' changed from an object of Box to another one" in f.explain_retraces()
