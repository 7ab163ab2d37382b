"""Generators, seeds and states in a graph: every call draws what eager PyTorch draws, and leaves torch's generator as it does."""

import importlib

import pytest
import torch

import tograph as tg

X = torch.full((20,), 0.5)
DRAWS = {
    "rand": lambda g: torch.rand(3, generator=g),
    "randn": lambda g: torch.randn(20, 2, generator=g),
    "randint": lambda g: torch.randint(2, 9, (4,), generator=g),
    "randperm": lambda g: torch.randperm(6, generator=g),
    "bernoulli": lambda g: torch.bernoulli(X, generator=g),
    "multinomial": lambda g: X.multinomial(3, generator=g),
    "poisson": lambda g: torch.poisson(X * 9, generator=g),
    "normal": lambda g: torch.normal(X, 2.0, generator=g),
    "exponential_": lambda g: torch.empty(3).exponential_(2.0, generator=g),
    "uniform_": lambda g: torch.empty(3).uniform_(-1, 1, generator=g),
    "bernoulli_": lambda g: torch.empty(20).bernoulli_(X, generator=g),
    "random_": lambda g: torch.empty(3).random_(5, generator=g),
    "trunc_normal_": lambda g: torch.nn.init.trunc_normal_(torch.empty(3), generator=g),
    "kaiming_uniform_": lambda g: torch.nn.init.kaiming_uniform_(torch.empty(3, 3), generator=g),
}


def agree(f, *values):
    converted = tg.function(f)
    for value in values:
        found = []
        for run in (f, converted):
            torch.manual_seed(5)
            made = run(torch.tensor(value))
            found.append([torch.as_tensor(x) for x in made] + [torch.rand(1)])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_a_generator_in_a_loop(name):
    draw = DRAWS[name]

    def total(n):
        g = torch.Generator().manual_seed(7)
        s = torch.zeros(())
        while n > 0:
            s = s + draw(g).sum()
            n = n - 1
        return s, draw(g), draw(None)

    agree(total, 2, 0, 3)


def test_a_new_generator_begins_with_the_same_seed():
    def draws(x):
        found = []
        for i in range(3):
            g = torch.Generator()
            if x > 0:
                g.manual_seed(i)
            found.append(torch.rand(1, generator=g))
        return found

    agree(draws, 1, -1, 1)


def test_states():
    def again(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        b = torch.rand(2)
        if x > 0:
            b = b + torch.rand(2)
        return a, b

    def of_a_generator(x):
        g = torch.Generator().manual_seed(4)
        state = g.get_state()
        a = torch.rand(2, generator=g)
        while x > 0:
            g.set_state(state)
            a = a + torch.rand(2, generator=g)
            x = x - 1
        other = g.clone_state()
        return a, torch.rand(2, generator=other), torch.rand(2, generator=g)

    def forked(x):
        while x > 0:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                x = x - torch.rand(()) - 0.5
        return x, torch.rand(1)

    for f in (again, of_a_generator, forked):
        agree(f, 1, -1, 2)


def test_seeds():
    def told(x):
        torch.manual_seed(x)
        g = torch.Generator()
        before = g.initial_seed()
        if x > 1:
            g.manual_seed(torch.initial_seed() + 1)
        return g.initial_seed() - before, torch.initial_seed(), torch.rand(1, generator=g)

    agree(told, 1, 2, 3)


def test_seeds_where_the_compiler_of_torch_has_wrapped_them():
    importlib.import_module(
        "torch._dynamo"
    )  # puts another function in the place of torch.manual_seed
    test_seeds()


def test_a_seed_that_nobody_foresees_is_the_one_of_the_generator():
    @tg.function
    def seeded(x):
        g = torch.Generator()
        return g.seed() - g.initial_seed(), g.initial_seed()

    first, second = seeded(torch.zeros(())), seeded(torch.zeros(()))
    assert first[0] == second[0] == 0 and first[1] != second[1]


def test_a_generator_that_is_returned_is_a_new_one():
    @tg.function
    def made(x):
        g = torch.Generator().manual_seed(3)
        return g, torch.rand(2, generator=g) + x

    (a, first), (b, second) = made(torch.zeros(2)), made(torch.ones(2))
    assert a is not b and torch.equal(first + 1, second)
    plain = torch.Generator().manual_seed(3)
    torch.rand(2, generator=plain)
    assert torch.equal(torch.rand(2, generator=a), torch.rand(2, generator=plain))
    assert torch.equal(a.get_state(), plain.get_state()) and a.initial_seed() == 3


GENERATOR = torch.Generator()


def test_a_generator_from_outside_is_returned_itself():
    given = torch.Generator()
    kept, argument, _ = tg.function(lambda g, x: (GENERATOR, g, x))(given, torch.ones(2))
    assert kept is GENERATOR and argument is given
