"""Draws from generators that a program gives, and seeds, in native code: numbers and states are those of eager PyTorch."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
T = torch.tensor
P = torch.linspace(0, 1, 7)
HERE, OTHER = torch.Generator(), torch.Generator()

DRAWS = {
    "rand": lambda g: torch.rand(3, generator=g).sum(),
    "randn": lambda g: torch.randn(3, generator=g).sum(),
    "many": lambda g: torch.randn(40, generator=g).sum(),
    "normal_": lambda g: torch.empty(3).normal_(1.5, 0.3, generator=g).sum(),
    "normal": lambda g: torch.normal(P, 0.5, generator=g).sum(),
    "uniform_": lambda g: torch.empty(5, dtype=torch.float64).uniform_(-1, 2, generator=g).sum().float(),
    "randint": lambda g: torch.randint(9, (3,), generator=g).sum() + torch.randint(-4, 9, (), generator=g),
    "bernoulli": lambda g: torch.bernoulli(P, generator=g).sum(),
    "bernoulli_": lambda g: torch.empty(9).bernoulli_(0.3, generator=g).sum(),
    "randperm": lambda g: (torch.randperm(7, generator=g) * P).sum(),
    "multinomial": lambda g: torch.multinomial(P, 3, generator=g).sum(),
    "exponential_": lambda g: torch.empty(4).exponential_(generator=g).sum(),
    "both": lambda g: torch.rand(2, generator=g).sum() - torch.rand((), generator=OTHER) + torch.rand(()),
}  # fmt: skip


def _looped(draw):
    def f(n, g):
        total, k = torch.zeros(()), torch.tensor(0)
        while k < n:
            total = (total * 0.5 + draw(g)).tanh() * 2 - k
            k = k + 1
        return total

    return f


def _native(g):
    return g.concrete_functions[-1].scheduled.native


def _outcome(f, *args, seed=3):
    generators = (HERE, OTHER, torch.default_generator)
    for g in generators:
        g.manual_seed(seed)
    found = f(*args)
    return found, [g.get_state() for g in generators]


def _assert_same(ours, plain):
    torch.testing.assert_close(ours[0], plain[0])
    assert all(map(torch.equal, ours[1], plain[1]))


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_a_generator_that_is_given(name):
    f = _looped(DRAWS[name])
    g = tg.function(f)
    for seed, n in ((1, 3), (2, 1), (3, 90)):
        _assert_same(_outcome(g, T(n), HERE, seed=seed), _outcome(f, T(n), HERE, seed=seed))
    assert _native(g) is not None


def _seeded(n, seed):
    torch.manual_seed(seed)
    first = torch.rand(())
    g = torch.Generator().manual_seed(int(seed) + 1)
    total = torch.zeros(())
    while n > 0:
        total = (total + torch.rand((), generator=g)).sin() + first * n
        n = n - 1
    return total, torch.rand(())


def test_seeds():
    g = tg.function(_seeded)
    for seed in (3, 4, 3):
        _assert_same(_outcome(g, T(5), T(seed)), _outcome(_seeded, T(5), T(seed)))
    assert _native(g) is not None


def _gone_back(n):
    state, first, total = HERE.get_state(), torch.zeros(()), torch.zeros(())
    while n > 0:
        HERE.set_state(state)
        first = torch.randn(3, generator=HERE).sum()
        total = (total * 0.1 + first).cos() * n + torch.rand((), generator=HERE)
        n = n - 1
    return first, total


def test_states_that_are_set_again():
    g = tg.function(_gone_back)
    for n in (1, 6):
        _assert_same(_outcome(g, T(n)), _outcome(_gone_back, T(n)))
    assert _native(g) is not None


def _fails(n, p):
    total = torch.zeros(())
    while n > 0:
        total = (total * 0.1 + torch.rand((), generator=HERE)).sin() * n - torch.rand(3).sum()
        total = total + torch.bernoulli(p * n, generator=OTHER).sum()
        n = n - 1
    return total


def test_a_draw_that_fails_leaves_the_generators_as_they_are_then():
    g, found = tg.function(_fails), []
    _assert_same(_outcome(g, T(1), P / 8), _outcome(_fails, T(1), P / 8))
    assert _native(g) is not None
    for call in (g, _fails):
        for x in (HERE, OTHER, torch.default_generator):
            x.manual_seed(5)
        with pytest.raises(RuntimeError):
            call(T(9), P / 8)
        found.append([x.get_state() for x in (HERE, OTHER, torch.default_generator)])
    assert all(map(torch.equal, *found))
