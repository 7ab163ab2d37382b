"""Random numbers that native code draws: bit by bit those of eager PyTorch, and the generator moves as it does there."""

import ctypes

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import drawing, generator

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
T = torch.tensor
X, P = torch.linspace(-1, 1, 7), torch.linspace(0, 1, 7)

DRAWS = {
    "rand": lambda x, p, k: torch.rand(()) + torch.rand(5).sum() + torch.rand(1, 1).sum(),
    "rand f64": lambda x, p, k: torch.rand(3, dtype=torch.float64).sum().float(),
    "rand_like": lambda x, p, k: torch.rand_like(x).sum() - torch.rand_like(x[0]),
    "uniform_": lambda x, p, k: torch.empty(6).uniform_(-0.3, 0.7).sum() * 3,
    "many": lambda x, p, k: torch.rand(40, 30)[3].sum(),
    "randn": lambda x, p, k: torch.randn(()) + torch.randn(3).sum() + torch.randn(4).prod(),
    "randn f64": lambda x, p, k: torch.randn(5, dtype=torch.float64).sum().float(),
    "randn_like": lambda x, p, k: torch.randn_like(x).sum(),
    "normal_": lambda x, p, k: torch.empty(3).normal_(1.5, 0.3).sum(),
    "normal_ f64": lambda x, p, k: torch.empty(9).double().normal_(1.5, 0.3).sum().float(),
    "normal": lambda x, p, k: torch.normal(0.5, 2.0, (3,)).sum(),
    "normal of a mean": lambda x, p, k: torch.normal(x, 0.7).sum(),
    "normal of a deviation": lambda x, p, k: torch.normal(0.7, p).sum(),
    "normal of both": lambda x, p, k: torch.normal(x * 2, p).sum() + torch.normal(x[0], p[3]),
    "randint": lambda x, p, k: torch.randint(5, ()) + torch.randint(-4, 9, (3,)).sum(),
    "randint of the run": lambda x, p, k: torch.randint(-k.item(), k.item() * 3 + 1, (2,)).sum(),
    "randint wide": lambda x, p, k: (torch.randint(-(1 << 61), 1 << 61, (3,)) >> 40).sum(),
    "randint at the bound": lambda x, p, k: torch.randint((1 << 28) - 1, (2,)).sum() - torch.randint(1 << 28, ()),
    "randint i32": lambda x, p, k: torch.randint(-3, 7, (3,), dtype=torch.int32).sum(),
    "randint f32": lambda x, p, k: torch.randint(9, (3,), dtype=torch.float32).sum(),
    "randint_like": lambda x, p, k: torch.randint_like(x, 3).sum() + torch.randint_like(x, 3, 9).sum(),
    "random_": lambda x, p, k: torch.empty(3, dtype=torch.int64).random_(2, 9).sum(),
    "bernoulli": lambda x, p, k: (torch.bernoulli(p) * X).sum() + torch.bernoulli(p[2]),
    "bernoulli f64": lambda x, p, k: (torch.bernoulli(p.double()) * X).sum().float(),
    "bernoulli_": lambda x, p, k: (torch.empty(9).bernoulli_(0.3)).sum(),
    "dropout": lambda x, p, k: F.dropout(x, 0.4).sum(),
    "randperm": lambda x, p, k: (torch.randperm(7) * x).sum(),
}  # fmt: skip


def looped(draw):
    def f(x, p, n):
        total, k = torch.zeros(()), torch.tensor(1)
        while k <= n:
            total = total * 0.5 + draw(x, p, k) + (x * p).sum() * k
            k = k + 1
        return total, torch.rand(())

    return f


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_and_the_generator(name):
    f = looped(DRAWS[name])
    g = tg.function(f)
    for seed, n in ((0, 3), (1, 8), (2, 1), (3, 700)):
        torch.manual_seed(seed)
        ours, state = g(X, P, T(n)), torch.get_rng_state()
        torch.manual_seed(seed)
        plain = f(X, P, T(n))
        torch.testing.assert_close(ours, plain)
        assert torch.equal(ours[1], plain[1]) and torch.equal(state, torch.get_rng_state())
    native = g.concrete_functions[-1].scheduled.native
    assert native is not None and drawing.draws(native.llvm)
    # Some processors, and versions of torch, have other ways.
    if all(map(generator.known, generator._KINDS)):
        assert native.low.asked == []


@pytest.mark.parametrize("seed", range(3))
def test_what_is_drawn_is_exact(seed):
    def f(x, p, n):
        out, k = [], torch.tensor(1)
        while k <= n:
            out.append(torch.cat([d(x, p, k).float().reshape(1) for d in DRAWS.values()]))
            k = k + 1
        return out[-1]

    g = tg.function(f)
    torch.manual_seed(seed)
    ours = g(X, P, T(40))
    torch.manual_seed(seed)
    torch.testing.assert_close(ours, f(X, P, T(40)), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, p, k: torch.bernoulli(p * k).sum(),
        lambda x, p, k: torch.normal(x, p - 0.3 * k).sum(),
        lambda x, p, k: torch.randint(k.item(), 3, (2,)).sum(),
        lambda x, p, k: torch.bernoulli(p + float("nan")).sum(),
    ],
)
def test_errors_come_where_they_come_and_leave_the_generator_as_it_is_then(draw):
    f = looped(draw)
    g, found = tg.function(f), []
    for call in (g, g, f):
        torch.manual_seed(5)
        with pytest.raises(RuntimeError):
            call(X, P, T(9))
        found.append(torch.get_rng_state())
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[2])


def _falls(x, n):
    for i in range(n):
        if x > 0.5:
            x = x * 0.5 + torch.rand(())
        else:
            x = x + 0.3
    return x


def _nested(x, n):
    count = 0
    for i in range(n):
        if x > 0.5:
            x = x * 0.5
            if x < 0.4:
                x = x + torch.randn(()) * 0.1
        else:
            x = x + 0.3 + 0 * torch.randint(3, ())
            count = count + 1
    return x, count


def _unused(x, n):
    a, b = torch.rand(()), torch.rand(())
    if x > 0.5:
        return a * n + torch.rand(())
    return b * n


@pytest.mark.parametrize("f", [_falls, _nested, _unused])
def test_a_branch_draws_only_where_it_is_taken(f):
    g = tg.function(f)
    for seed in range(8):
        for n in (1, 5, 50):
            found = []
            for call in (g, f):
                torch.manual_seed(seed)
                found.append((call(T(seed / 8), T(n)), torch.get_rng_state()))
            torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
    assert g.concrete_functions[-1].scheduled.level == "native"


def test_other_layouts_are_left_to_torch():
    own = torch.Generator()

    def f(x, p, n):
        k, total = torch.tensor(0), torch.zeros(())
        while k < n:
            total = total + torch.rand(3, generator=own).sum() + (torch.randn(20) * 0.1).sum()
            total = (
                total + (torch.rand_like(p.t()) * p.t()).sum() + (torch.rand_like(p).t() * 2).sum()
            )
            k = k + 1
        return total

    g, p = tg.function(f), torch.rand(3, 2)
    for n in (1, 4):
        found = []
        for call in (g, f):
            torch.manual_seed(1)
            own.manual_seed(2)
            found.append((call(X, p, T(n)), torch.get_rng_state(), own.get_state()))
        torch.testing.assert_close(*found)


def test_a_kind_that_differs_is_asked_of_torch(monkeypatch):
    monkeypatch.setattr(generator, "known", lambda kind: kind != "uniform")
    f = looped(lambda x, p, k: torch.rand(()) * 1.25 + (x * k + p * x.exp()).sum().tanh())
    g = tg.function(f)
    torch.manual_seed(0)
    ours = g(X, P, T(5))
    torch.manual_seed(0)
    torch.testing.assert_close(ours, f(X, P, T(5)))
    native = g.concrete_functions[-1].scheduled.native
    assert native is None or len(native.low.asked) == 2


def test_the_formulas_are_compared_with_torch():
    def shifted(g, emulated):
        return [torch.rand(3, generator=g)], [
            torch.stack([emulated.uniform(torch.float32) + 1e-6] * 3)
        ]

    assert generator.lock() is not None and not generator._agrees(shifted, 0)
    assert generator.known("uniform")


def test_the_lock_is_found_while_another_thread_draws():
    place = generator.lock()
    found = jit.symbols(generator.DEFAULT)
    default = ctypes.CFUNCTYPE(ctypes.c_void_p)(found[generator.DEFAULT])()
    mutex = ctypes.c_void_p(ctypes.c_void_p.from_address(default).value + place)
    threads = ctypes.CDLL(None)
    threads.pthread_mutex_lock(mutex)
    try:
        assert generator.lock.__wrapped__() == place
    finally:
        threads.pthread_mutex_unlock(mutex)


def strided_fills(x, n):
    """In-place draws into memory whose order is not that of the elements, dense and with gaps."""
    total = torch.zeros(5)
    for _ in range(n):
        rows, parts = torch.zeros(4, 5), torch.zeros(5, 8)
        rows.t().uniform_(-1, 1)
        parts[:, ::2].normal_()
        chosen = torch.empty(4, 5).t().bernoulli_(0.3)
        total = total + (chosen * rows.t() + parts[:, ::2] * x).sum(1)
        total = torch.where(total > 3, total.sin() * 2 - x.exp().sum(1), total.tanh()) - x[:, 0]
    return total


def test_fills_of_strided_memory():
    staged, x = tg.function(strided_fills), torch.randn(5, 4)
    for n in (3, 1, 4):
        torch.manual_seed(n)
        expected = strided_fills(x, n)
        torch.manual_seed(n)
        torch.testing.assert_close(staged(x, torch.tensor(n)), expected)
    assert staged.concrete_functions[0].scheduled.level == "native"


def test_a_layer_with_dropout():
    """Its dropout is of tensors that are not contiguous."""
    made = []
    for decorator in (lambda f: f, tg.function):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        @decorator
        def step(x):
            loss = layer(x).square().mean() - layer(x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        made.append([step(torch.randn(3, 5, 8)) for _ in range(4)])
    torch.testing.assert_close(made[1], made[0])
    assert step.concrete_functions[-1].scheduled.level == "native"
