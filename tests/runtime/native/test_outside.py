"""Numbers of Python's random generators and clocks in native code: each is asked for once, in order, also where the code declines."""

import math
import random
import time

import pytest
import torch

import tograph as tg
from tograph.runtime.graph import outside


def spins(x, beta, n):
    """Metropolis steps at random sites."""
    x, taken = x.clone(), 0
    for _ in range(n):
        i, j = random.randrange(4), random.randrange(4)
        cost = 2 * x[i, j].item() * (x[(i + 1) % 4, j] + x[i, j - 1]).item()
        if cost <= 0 or random.random() < math.exp(-beta.item() * cost):
            x[i, j] = -x[i, j]
            taken += 1
    return x, taken


def walk(x, beta, n):
    """Distributions with numbers of the run, in branches and lists."""
    at, seen = 0.0, []
    for _ in range(n):
        if random.random() < 0.5:
            at = at + random.uniform(-1, beta.item())
        else:
            at = at - random.randint(1, 3)
        seen.append(random.gauss(at, 1.0))
    return torch.tensor(seen), at


def orders(x, beta, n):
    rows = list(range(6))
    for _ in range(n):
        i, j = random.sample(range(6), 2)
        rows[i], rows[j] = rows[j], rows[i]
    random.shuffle(rows)
    return rows, random.choice([3, 4, 5])


def run(f, seed, *args):
    """What a function gives, or the error that it raises, and the state in which it leaves the generator."""
    random.seed(seed)
    try:
        found = f(*args)
    except (IndexError, ValueError, ArithmeticError) as error:
        found = type(error)
    return found, random.getstate()


@pytest.mark.parametrize("f", [spins, walk, orders])
def test_draws_are_those_of_python(f):
    staged, x = tg.function(f), torch.sign(torch.randn(4, 4))
    for seed in range(5):
        expected, state = run(f, seed, x, torch.tensor(0.5), torch.tensor(12))
        found, left = run(staged, seed, x, torch.tensor(0.5), torch.tensor(12))
        torch.testing.assert_close(found, expected)
        assert left == state
    assert staged.concrete_functions[0].scheduled.level == "native"


def test_code_that_declines_leaves_its_numbers_to_the_host():
    """The host raises at the same draw, and draws no number twice."""

    def f(x, n):
        for _ in range(n):
            x = x + x[random.randrange(20)]
        return x

    staged, raised = tg.function(f), 0
    for seed in range(12):
        expected, state = run(f, seed, torch.ones(16), torch.tensor(4))
        found, left = run(staged, seed, torch.ones(16), torch.tensor(4))
        raised += expected is IndexError
        assert left == state
        if expected is not IndexError:
            torch.testing.assert_close(found, expected)
            assert staged.concrete_functions[0].scheduled.level == "native"
    assert 0 < raised < 12


def test_numbers_that_native_code_does_not_hold():
    def f(n):
        total = 0
        for _ in range(n):
            total = random.getrandbits(64 + n)
        return total

    staged = tg.function(f)
    for seed in range(3):
        wide, state = run(staged, seed, torch.tensor(6))
        assert (wide, state) == run(f, seed, torch.tensor(6))


@pytest.mark.parametrize(
    ("draw", "calls"),
    [(lambda i: random.randrange(3 - i), (2, 5, 3)), (lambda i: random.expovariate(2 - i), (1, 4, 2))],
)  # fmt: skip
def test_a_function_that_raises(draw, calls):
    """At once, or after it has drawn."""

    def f(n):
        total = 0.0
        for i in range(n):
            total = total + draw(i)
        return total

    staged = tg.function(f)
    for n in calls:
        assert run(staged, n, torch.tensor(n)) == run(f, n, torch.tensor(n))


def training():
    """A step of a decoder that is told the right word, or goes on with its own, as Python's generator says."""
    torch.manual_seed(0)
    words, cell, out = torch.nn.Embedding(6, 8), torch.nn.GRUCell(8, 8), torch.nn.Linear(8, 6)
    parts = torch.nn.ModuleList([words, cell, out])
    optimizer = torch.optim.SGD(parts.parameters(), 0.1)

    def step(h, text):
        loss, word = torch.zeros(()), text[:, 0]
        for t in range(1, text.shape[1]):
            h = cell(words(word), h)
            logits = out(h)
            loss = loss + torch.nn.functional.cross_entropy(logits, text[:, t])
            word = text[:, t] if random.random() < 0.5 else logits.argmax(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def test_a_step_of_training_that_draws():
    plain, staged = training(), tg.function(training())
    h, text = torch.randn(4, 8), torch.randint(0, 6, (4, 9))
    for seed in range(5):
        expected, state = run(plain, seed, h, text)
        found, left = run(staged, seed, h, text)
        torch.testing.assert_close(found, expected)
        assert left == state
    assert staged.concrete_functions[-1].scheduled.level == "native"


def test_clocks():
    @tg.function
    def f(n):
        first = time.perf_counter()
        for _ in range(n):
            last = time.perf_counter()
        return last - first

    assert 0 < f(torch.tensor(3)) < 10
    assert f.concrete_functions[0].scheduled.level == "native"


def test_numbers_come_in_their_order():
    given = [1.5, 7, True, 1 << 80, -3, False, 2.5, float("inf")]
    numbers = outside.Numbers()
    for x in given:
        numbers.add(x)
    assert [(type(x), x) for x in numbers] == [(type(x), x) for x in given]
    with outside.again(numbers):
        assert [outside.ask(lambda: None) for _ in given] == given
        assert outside.ask(lambda: 5) == 5
