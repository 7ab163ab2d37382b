"""Python's random generators and clocks, asked whenever the graph runs: the numbers of plain Python, in its order."""

import random
import time

import pytest
import torch

import tograph as tg

GENERATOR = random.Random(5)


def draws(x):
    y = x + random.random() * 10
    n = random.randint(1, 6)
    if random.random() < 0.5:
        y = y + GENERATOR.uniform(0, 2)
    for _ in range(random.randrange(3)):
        y = y * random.choice([1.5, 2.5, 3.5])
    z = torch.full((2,), GENERATOR.gauss(0.0, 1.0))
    return y, n, z, GENERATOR.getrandbits(8)


def in_a_loop(x):
    n = 0
    while x > random.random():
        x = x * 0.9
        n = n + 1
    return x, n


def with_seed(x):
    random.seed(7)
    a = random.random()
    if x > 0:
        random.seed(3)
    return a + x, random.random()


def own(x):
    rng = random.Random(0)
    xs = [1, 2, 3, 4]
    rng.shuffle(xs)
    return x * rng.random(), xs


def own_in_a_loop(x):
    rng = random.Random(4)
    found = [rng.random()]
    while x > 0:
        found.append(rng.random())
        x = x - 1
    if x > -1:
        rng.seed(2)
    return sum(found), len(found), rng.choice([1, 2, 3]), rng.sample(range(9), 2)[1]


def own_of_a_staged_seed(x):
    rng = random.Random(int(x))
    return rng.random(), random.Random(3).uniform(0, float(x))


@pytest.mark.parametrize("f", [draws, in_a_loop, with_seed, own, own_in_a_loop, own_of_a_staged_seed])  # fmt: skip
def test_as_python(f):
    shown = []
    for call in (f, tg.function(f)):
        random.seed(1)
        GENERATOR.seed(2)
        rows = []
        for i in range(6):
            found = call(torch.tensor(float(i % 3)))
            rows.append([torch.as_tensor(v, dtype=torch.float64) for v in found])
        shown.append((rows, random.random(), GENERATOR.random()))
    for row, ours in zip(shown[0][0], shown[1][0]):
        assert all(torch.allclose(a, b) for a, b in zip(row, ours))
    assert shown[0][1:] == shown[1][1:]


def test_the_gradient_uses_what_was_drawn():
    @tg.function
    def f(x):
        return (x * x * random.random()).sum()

    random.seed(4)
    scale = random.random()
    random.seed(4)
    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x)
    assert torch.allclose(g, torch.full((3,), 2 * scale))


def test_clocks():
    @tg.function
    def f(x):
        start = time.perf_counter()
        if x > 0:
            time.sleep(0.01)
        return time.perf_counter() - start, time.time_ns()

    f(torch.tensor(1.0))
    before = time.time_ns()
    spent, now = f(torch.tensor(1.0))
    assert spent >= 0.01
    assert before <= now <= time.time_ns()
    assert f(torch.tensor(-1.0))[1] >= now


def test_the_state_of_a_generator_from_outside_is_refused():
    def again(x):
        state = random.getstate()
        return x * random.random(), random.setstate(state)

    with pytest.raises(tg.errors.StagingError, match=r"getstate\(\) of a random generator"):
        tg.function(again)(torch.ones(()))


def test_a_generator_made_inside_is_returned_as_it_is_then():
    def made(x):
        rng = random.Random(4)
        while x > 0:
            x = x - rng.random()
        return rng, x

    converted = tg.function(made)
    for n in (3.0, 1.0, 4.0):
        (a, _), (b, _) = converted(torch.tensor(n)), made(torch.tensor(n))
        assert a.random() == b.random()


def test_a_choice_of_what_a_loop_gathers():
    def pick(x, n):
        found = []
        for i in range(n):
            if x[i] > 0:
                found.append(i)
        return random.choice(found), random.choice(found), random.random()

    converted = tg.function(pick)
    x = torch.tensor([1.0, -1.0, 2.0, 3.0])
    for n in (4, 3, 1):
        random.seed(n)
        wanted = pick(x, n)
        random.seed(n)
        assert converted(x, torch.tensor(n)) == wanted
    with pytest.raises(IndexError, match="Cannot choose from an empty sequence"):
        converted(x, torch.tensor(0))
