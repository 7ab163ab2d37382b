"""Generators as arguments: another one at each call shares a trace, and each is left as eager PyTorch leaves it."""

from collections import namedtuple

import pytest
import torch

import tograph as tg

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
