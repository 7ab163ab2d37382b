"""Generators as arguments: another one at each call shares a trace, and each is left as eager PyTorch leaves it."""

import functools
import gc
import weakref
from collections import namedtuple
from unittest import mock

import pytest
import torch

import tograph as tg
from tograph.runtime.functions import stand_in_kinds, stand_ins

T = torch.tensor


def seeded(seed, device="cpu"):
    return torch.Generator(device).manual_seed(seed)


def walk(n, g):
    x = torch.zeros(3)
    while n > 0:
        x = x * 0.9 + torch.randn(3, generator=g)
        n = n - 1
    return x


def scaled(x, scale=1.0, *, generator=None):
    noise = torch.rand(x.shape, generator=generator)
    if x.sum() > 0:
        noise = noise + torch.randn(x.shape, generator=generator)
    return x + noise * scale + torch.rand(3)


def _same(ours, plain):
    torch.testing.assert_close(ours[0], plain[0])
    assert torch.equal(ours[1].get_state(), plain[1].get_state())


def test_one_trace_for_many_generators():
    f = tg.function(walk)
    for seed in range(8):
        a, b = seeded(seed), seeded(seed)
        _same((f(T(seed), a), a), (walk(T(seed), b), b))
    assert f.trace_count == 2


def test_by_name_beside_a_default():
    f = tg.function(scaled)
    for seed in range(8):
        found = []
        for call in (f, scaled):
            torch.manual_seed(seed)
            g = seeded(seed)
            found.append((call(torch.ones(3) * (seed % 2 - 0.5), generator=g), g))
        _same(*found)
    assert f.trace_count == 2


def test_one_that_is_given_again_goes_on():
    f, a, b = tg.function(walk), seeded(0), seeded(0)
    own = [seeded(k) for k in (1, 1)]
    for _ in range(4):
        _same((f(T(2), a), a), (walk(T(2), b), b))
        _same((f(T(2), own[0]), own[0]), (walk(T(2), own[1]), own[1]))
    assert f.trace_count == 2


def two(n, g, h):
    return walk(n, g), torch.rand((), generator=g) - torch.rand((), generator=h)


def test_two_and_one_twice():
    f = tg.function(two)
    for seed in range(4):
        for same in (False, True):
            found = []
            for call in (f, two):
                g = seeded(seed)
                h = g if same else seeded(seed + 7)
                found.append(((*call(T(3), g, h), h.get_state()), g))
            _same(*found)
    assert f.trace_count <= 4


def test_the_state_after_a_call_that_fails():
    def fails(n, g):
        x = walk(n, g)
        if n > 3:
            raise ValueError("too many")
        return x

    f = tg.function(fails)
    for n in (1, 2, 5, 3):
        a, b = seeded(n), seeded(n)
        for call, g in ((f, a), (fails, b)):
            if n > 3:
                with pytest.raises(ValueError, match="too many"):
                    call(T(n), g)
            else:
                call(T(n), g)
        assert torch.equal(a.get_state(), b.get_state())


def test_gradients_to_the_second_order():
    def f(x, g):
        y = x
        for _ in range(3):
            if y.sum() > 0:
                y = (y * torch.rand(3, generator=g)).sin()
            else:
                y = y + torch.rand(3, generator=g) * x
        return y.sum()

    ours = tg.function(f)
    for seed in range(4):
        found = []
        for call in (ours, f):
            x, g = torch.linspace(-1, 1.5, 3).requires_grad_(), seeded(seed)
            (first,) = torch.autograd.grad(call(x, g), x, create_graph=True)
            found.append([first, *torch.autograd.grad(first.sum(), x), g.get_state()])
        for a, b in zip(*found):
            torch.testing.assert_close(a, b)


class Holder:
    def __init__(self, g):
        self.g = g


HELD = Holder(None)
Kept = namedtuple("Kept", ["g", "other"])


def stored(n, g):
    HELD.g = g
    return walk(n, g), HELD


KEEPING = {
    "a result": lambda n, g: (walk(n, g), Holder(g)),
    "an attribute": stored,
    "a tuple": lambda n, g: (walk(n, g), Kept(g, 3)),
}


@pytest.mark.parametrize("name", KEEPING)
def test_a_function_that_keeps_its_generator_has_none(name):
    f = tg.function(KEEPING[name])
    for seed in range(4):
        a, b = seeded(seed), seeded(seed)
        found, held = f(T(seed), a)
        assert held.g is a
        _same((found, a), (walk(T(seed), b), b))


OUTSIDE = seeded(0)


def shared(n, g):
    return walk(n, g) + torch.rand(3, generator=OUTSIDE)


def compared(n, g):
    return walk(n, g) if g is OUTSIDE else walk(n, g) + 1


@pytest.mark.parametrize("body", [shared, compared])
def test_one_that_the_function_also_reads(body):
    f = tg.function(body)
    for seed in range(6):
        found = []
        for call in (f, body):
            OUTSIDE.manual_seed(seed + 20)
            g = OUTSIDE if seed % 3 == 2 else seeded(seed)
            found.append((call(T(2), g), g))
            found[-1] = (found[-1][0], g.clone_state())
        _same(*found)


def test_the_default_one():
    f = tg.function(lambda n, g: walk(n, g) + torch.rand(3))
    for seed in range(5):
        g = torch.default_generator if seed % 2 else seeded(seed)
        torch.manual_seed(seed)
        ours = f(T(2), g)
        if seed % 2 == 0:
            g.manual_seed(seed)
        torch.manual_seed(seed)
        torch.testing.assert_close(ours, walk(T(2), g) + torch.rand(3))


def called(n, g):
    x = tg.py_function(
        lambda: torch.rand(3, generator=OUTSIDE), [], tg.TensorSpec([3], torch.float32)
    )
    return walk(n, g) + x


def test_python_that_a_graph_calls_may_draw_from_it():
    f = tg.function(called)
    for seed in range(5):
        OUTSIDE.manual_seed(seed)
        g = OUTSIDE if seed in (1, 3) else seeded(seed)
        ours, state = f(T(2), g), g.get_state()
        for x in (OUTSIDE, g):
            x.manual_seed(seed)
        first = torch.rand(3, generator=OUTSIDE)
        torch.testing.assert_close(ours, first + walk(T(2), g))
        assert torch.equal(state, g.get_state())


# ---- closures

NET = torch.nn.Linear(3, 3)


def solve(f, x):
    n = 0
    while x.abs().sum() > 0.5 and n < 5:
        x, n = x + 0.1 * f(x), n + 1
    return x


def scaled_by(k):
    return lambda x: -x * k


def counting(k):
    def f(x):
        nonlocal k
        k += 1
        return -x * k

    return f


def adding(k):
    calls = [k]

    def f(x):
        calls.append(len(calls))
        return -x * len(calls)

    return f


def factorial(k):
    def fact(n):
        return 1 if n <= 1 else n * fact(n - 1)

    return lambda x: -x * fact(3 + k % 2) / 10


def nested(k):
    def inner(y):
        return y * (k + 1)

    return lambda x: -inner(x)


def with_default(k):
    def f(x, rate=k):
        return -x * rate

    return f


def with_attribute(k):
    def f(x):
        return -x * f.rate

    f.rate = k
    return f


def unset(k):
    def f(x):
        return -x * later

    if k % 2:
        later = 2
    return f


MAKERS = [scaled_by, lambda k: scaled_by(torch.full((3,), k / 4)), counting, adding, factorial, nested, with_default, with_attribute, unset, lambda k: lambda x: -NET(x) * k]  # fmt: skip


def _variables(f):
    cells = [c for c in f.__closure__ or () if c != type(c)()]
    return [c.cell_contents if isinstance(c.cell_contents, (int, list)) else None for c in cells]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
def test_closures(make):
    ours = tg.function(solve)
    for k in range(1, 7):
        found = []
        for call in (ours, solve):
            f = make(k)
            try:
                found.append((call(f, torch.ones(3)), _variables(f)))
            except NameError:
                found.append((torch.zeros(0), None))
        torch.testing.assert_close(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]


@pytest.mark.parametrize("make", [scaled_by, nested, lambda k: lambda x: -NET(x)])
def test_closures_share_a_trace(make):
    f = tg.function(solve)
    for _ in range(12):
        f(make(2), torch.ones(3))
    assert f.trace_count <= 5


@pytest.mark.parametrize("of", [lambda k: k / 8, lambda k: torch.full((3,), k / 8)])
def test_numbers_and_tensors_of_closures_change(of):
    f = tg.function(solve)
    for k in range(14):
        ours, plain = (call(scaled_by(of(k)), torch.ones(3)) for call in (f, solve))
        torch.testing.assert_close(ours, plain)
    assert f.trace_count <= 8


def test_closures_that_live_on_have_traces_of_their_own():
    f, made = tg.function(solve), [scaled_by(1), scaled_by(2)]
    for _ in range(3):
        for g in made:
            torch.testing.assert_close(f(g, torch.ones(3)), solve(g, torch.ones(3)))
    assert f.trace_count == 2


KEPT: list = []


def kept_closure(f, x):
    KEPT.append(f)
    return f(x), f


def test_a_function_that_keeps_a_closure_has_no_stand_ins():
    ours = tg.function(kept_closure)
    for k in range(5):
        KEPT.clear()
        f = scaled_by(k)
        y, given = ours(f, torch.ones(3))
        assert given is f
        assert KEPT[0] is f
        torch.testing.assert_close(y, f(torch.ones(3)))


def test_gradients_to_what_a_closure_holds():
    ours = tg.function(lambda f, x: f(x).sum())
    for k in range(6):
        w = torch.full((3,), k + 1.0, requires_grad=True)
        ours(scaled_by(w), torch.ones(3)).backward()
        torch.testing.assert_close(w.grad, -torch.ones(3))


def test_a_stand_in_keeps_nothing_alive():
    f = tg.function(lambda g, x: g(x))
    held = None
    for _ in range(4):
        w = torch.ones(3)
        f(scaled_by(w), torch.ones(3))
        held = weakref.ref(w)
        del w
    gc.collect()
    assert held() is None


# ---- methods


class Model:
    def __init__(self, rate):
        self.rate = rate

    def slope(self, x):
        return -x * self.rate


def test_a_method_is_its_function_and_its_object():
    f, model, net = tg.function(solve), Model(2), NET
    for _ in range(4):
        torch.testing.assert_close(f(model.slope, torch.ones(3)), solve(model.slope, torch.ones(3)))
    assert f.trace_count == 1
    for _ in range(4):
        torch.testing.assert_close(f(net.forward, torch.ones(3)), solve(net.forward, torch.ones(3)))
    assert f.trace_count == 2
    model.rate = 3
    torch.testing.assert_close(f(model.slope, torch.ones(3)), solve(model.slope, torch.ones(3)))


def test_methods_of_objects_that_are_made_for_each_call():
    f = tg.function(solve)
    for k in range(8):
        torch.testing.assert_close(f(Model(k / 4).slope, torch.ones(3)), solve(Model(k / 4).slope, torch.ones(3)))  # fmt: skip
    assert f.trace_count <= 6


def test_partial_objects():
    f = tg.function(solve)
    for k in range(8):
        w = torch.full((3,), -k / 4)
        g = functools.partial(torch.mul, other=w)
        torch.testing.assert_close(f(g, torch.ones(3)), solve(g, torch.ones(3)))
    assert f.trace_count <= 5


KNOWN, FOUND = [None], set()


def same_function(g, x):
    return x * (2 if g is KNOWN[0] else 1) + g(x)


def equal_function(g, x):
    return x * (2 if g == KNOWN[0] else 1) + g(x)


def function_of_that_number(g, x):
    return x * (2 if id(g) == id(KNOWN[0]) else 1) + g(x)


def function_in_a_set(g, x):
    return x * len({g, KNOWN[0]}) + (2 if g in FOUND else 1) * g(x)


@pytest.mark.parametrize("f", [same_function, equal_function, function_of_that_number, function_in_a_set])  # fmt: skip
def test_which_closure_the_code_asks(f):
    def scaled(k):
        return lambda v: v * k

    KNOWN[0] = first = scaled(5.0)
    FOUND.clear()
    FOUND.add(first)
    staged = tg.function(f)
    for i in range(8):
        g, x = first if i in (5, 7) else scaled(float(i % 3)), torch.tensor([1.0, 2.0])
        assert staged(g, x).tolist() == f(g, x).tolist()


def test_a_stand_in_that_could_not_be_made_what_the_callers_is_changes_nothing():
    class Broken(stand_in_kinds.Generators):
        def put(self, own, x, inner):
            raise RuntimeError("no memory")

    kind, here, generator = Broken(), stand_ins.StandIns(), torch.Generator().manual_seed(3)
    state = generator.get_state()
    slot = (0, kind.key(generator))
    with mock.patch.object(stand_ins, "kind_of", lambda x: kind), pytest.raises(RuntimeError):
        with here.given({id(generator): slot}, (generator,), {}):
            pass
    assert torch.equal(generator.get_state(), state)
