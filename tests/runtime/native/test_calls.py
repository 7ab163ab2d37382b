"""Ops without a native form inside of native code: torch runs them, and the loop around stays native."""

import signal
import threading

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native.callees import Own

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def sampled(x, n):
    """Sampling from the best candidates."""
    h, t, total = x[0], 0, torch.zeros(())
    while t < n:
        best, where = torch.topk(x @ h, 3)
        p = torch.softmax(best, 0)
        chosen = where[(p.cumsum(0) < 0.6).sum().clamp(max=2)]
        h = torch.tanh(h * 0.5 + x[chosen])
        total = total + best.sum() * chosen
        t += 1
    return h, total


def attended(x, n):
    keys, t, h = torch.zeros(1, 2, 12, 4), 0, x[0]
    while t < n:
        keys[0, :, t] = (h * 2).view(2, 4)
        seen = keys[:, :, : t + 1]
        h = torch.tanh(
            F.scaled_dot_product_attention(h.view(1, 2, 1, 4), seen, seen).view(8) + x[t]
        )
        t += 1
    return h


def sorted_rows(x, n):
    t = 0
    while t < n:
        x, order = torch.sort(x * 1.5, dim=1)
        x = torch.tanh(x * 0.1 + order * 0.01 + torch.digamma(x.abs() + 1 + t)) + 0.01 * (
            x.sum() - x.mean()
        )
        t += 1
    return x


def beams(x, n):
    score, state, t = -torch.arange(3.0), x[:3] * 2, 0
    words = torch.zeros(3, 12, dtype=torch.int64)
    while t < n:
        found = F.log_softmax((state + score[:, None]) @ x.t(), -1) + score[:, None]
        score, place = found.view(-1).topk(3)
        source, word = place // 12, place % 12
        state = torch.tanh(state.index_select(0, source) + x[word])
        words = words.index_select(0, source)
        words[:, t] = word
        t += 1
    return words, score


def factors(x, n):
    """Results in columns: of an op with a shape rule and of one without; vectors of either are contiguous."""
    t, total, a = 0, torch.zeros(8), torch.arange(1.0, 9).diag() + 0.1
    while t < n:
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(a + x[0].abs().diag()))
        values, vectors = torch.linalg.eigh(a)
        total = (
            total
            + inverse.diagonal() * 2
            - vectors.abs().sum(1) * values
            + inverse[1]
            - a.diag()
            + 1
        )
        t += 1
    return total


def diagonals(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        total = total + x.diagonal().sum() - x.diagonal(-2) * 2 + x.diagonal(1).mean()
        x = x + x.reshape(2, 6, 8).diagonal(0, 1, 2).sum() * 0.1 - x.unfold(0, 3, 2).sum(-1).mean()
        t += 1
    return total


CASES = [factors, diagonals, sampled, attended, sorted_rows, beams]


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    f, x = tg.function(case), torch.randn(12, 8)
    for n in map(torch.tensor, (0, 0, 1, 9, 9)):
        torch.testing.assert_close(f(x, n), case(x, int(n)))
    program = f.get_concrete_function(x, n).scheduled
    assert program.level == "native", program.reason
    assert program.native.run([x, n]) is not None  # with no step the result is the argument


def test_random_ops_draw_what_eager_draws():
    def walk(x, n):
        t = 0
        while t < n:
            i = torch.multinomial(torch.softmax(x.sum(1), 0), 2, replacement=True)
            x = torch.tanh(x + x[i].mean(0) * torch.rand(8) + x.t().sum())
            t += 1
        return x

    f, x, n = tg.function(walk), torch.randn(12, 8), torch.tensor(5)
    f(x, n)
    assert f.get_concrete_function(x, n).scheduled.level == "native"
    torch.manual_seed(3)
    got, left = f(x, n), torch.rand(1)
    torch.manual_seed(3)
    torch.testing.assert_close(got, walk(x, 5))
    assert torch.equal(left, torch.rand(1))


def test_an_op_that_fails_raises_and_draws_nothing():
    def fails(x, n):
        t = 0
        while t < n:
            x = torch.tanh(x + torch.rand(8) * 0.1) * 1.5 - x.mean() + x.sum()
            x = x + torch.multinomial(x * 0 + (2.5 - t), 2).sum()
            t += 1
        return x

    f, x = tg.function(fails), torch.rand(8)
    f(x, torch.tensor(2))
    torch.manual_seed(3)
    with pytest.raises(RuntimeError, match="probability"):
        f(x, torch.tensor(4))
    left = torch.rand(1)
    torch.manual_seed(3)
    with pytest.raises(RuntimeError, match="probability"):
        fails(x, 4)
    assert torch.equal(left, torch.rand(1))


def test_too_few_native_ops_stay_on_the_host():
    def f(x):
        return torch.digamma(torch.lgamma(x))

    g, x = tg.function(f), torch.rand(5)
    for _ in range(3):
        torch.testing.assert_close(g(x), f(x))
    program = g.get_concrete_function(x).scheduled
    assert program.level == "host" and "has no native form" in program.reason


def test_interrupts_come_through():
    def endless(x, n):
        while n > 0:
            x = torch.digamma(x.abs() + 1) * 0.5 + x.sum() * 0.1 - x.mean()
        return x

    f, x = tg.function(endless), torch.rand(5)
    f(x, torch.tensor(0))
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(x, torch.tensor(1))
    timer.join()


def test_a_result_that_an_op_leaves_out():
    weight = torch.nn.Parameter(torch.randn(2, 1, 3, 3))

    def step(x):
        loss = (F.conv2d(x, weight).tanh() * 0.5 + 1).exp().mean()
        (g,) = torch.autograd.grad(loss, weight)
        return (g * 2 + 1).tanh() * 3 - g.sum()

    f, x = tg.function(step), torch.randn(2, 1, 6, 6)
    for _ in range(3):
        torch.testing.assert_close(f(x), step(x))


def test_an_op_without_results():
    def step(x):
        torch._assert_async(x.sum() > 0, "a sum that is not positive")
        return (x * 2 + 1).tanh().cumsum(0)

    f, x = tg.function(step), torch.ones(5)
    for _ in range(3):
        torch.testing.assert_close(f(x), step(x))
    with pytest.raises(RuntimeError, match="a sum that is not positive"):
        f(-x)


LOSSES = [
    lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    lambda x, y: F.binary_cross_entropy(x.sigmoid(), y),
    lambda x, y: F.soft_margin_loss(x, y),
    lambda x, y: F.margin_ranking_loss(x, y, torch.ones(4, 3)),
    lambda x, y: F.multi_margin_loss(x, y[:, 0].long()),
    lambda x, y: F.hinge_embedding_loss(x, y.sign()),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_mean_is_the_default_of_losses(loss):
    """Of torch's bindings it is none."""
    f = tg.function(lambda x, y: loss(x * 2, y) + (x * y).exp().sum() * x.std() * y.std())
    x, y = torch.randn(4, 3), torch.rand(4, 3)
    for _ in range(3):
        torch.testing.assert_close(
            f(x, y), loss(x * 2, y) + (x * y).exp().sum() * x.std() * y.std()
        )
    assert f.concrete_functions[0].scheduled.level == "native"
    assert f.concrete_functions[0].scheduled.declined == 0


def convolved(x, w):
    y = F.conv2d(x, w)
    z = torch.relu(y * 2) + y.mean()
    return z, y, y + 1


def test_a_large_result_of_a_call_is_given_as_torch_made_it():
    """Each call gives another tensor, which is the caller's alone: a write to it is in no later result."""
    x, w = torch.randn(2, 3, 24, 24), torch.randn(8, 3, 3, 3)
    f = tg.function(convolved)
    expected, given = convolved(x, w), []
    for _ in range(6):
        results = f(x, w)
        torch.testing.assert_close(results, expected)
        assert all(x.is_contiguous() and x._base is None and x._version == 0 for x in results)
        given += results
        results[1].fill_(float("nan"))
    assert len({x.data_ptr() for x in given}) == len(given)
    (one,) = f.concrete_functions
    assert one.scheduled.level == "native" and one.scheduled.declined == 0
    assert one.scheduled.native.low.own == {1: (0, 0)}


def test_a_result_that_is_an_operand_or_a_part_of_more_is_copied():
    """Whatever an op gives, a result of the program shares memory with nothing."""
    x = torch.randn(6000)
    place = Own("f32", (6000,)).place(frozenset([x.data_ptr()]))
    for given in (x, torch.randn(2, 6000)[1], torch.randn(7000)[:6000]):
        assert place.put(given, 0)
        (address,) = place.words()
        made = place.given()
        assert made.data_ptr() == address != given.data_ptr() and torch.equal(made, given)
    fresh = torch.randn(6000)
    assert place.put(fresh, 0) and place.given() is fresh
    assert not place.put(torch.randn(5999), 0) and not place.put(fresh.double(), 0)
