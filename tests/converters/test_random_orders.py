"""``random.shuffle``, ``sample`` and ``choices`` draw when the graph runs."""

import random

import pytest
import torch

import tograph as tg


def shuffled(x):
    xs, known = [float(v) for v in x], [1, 2, 3, 4]
    random.shuffle(xs)
    random.shuffle(known)
    return xs, known


def sampled(x):
    xs = [float(v) for v in x]
    return (
        random.sample(xs, 2),
        random.sample(range(100), 6),
        random.sample(["a", "b"], 3, counts=[2, 1]),
        random.sample(range(10000), 8),
        random.sample(list(range(40)), 13),
        random.sample(xs, 0),
    )


def chosen(x):
    xs = [float(v) for v in x]
    return random.choices(xs, k=3), random.choices(xs, [1, 2, 3, 4], k=3)


def of_a_length_that_depends_on_data(x):
    xs = [float(v) for v in x if v > 1]
    random.shuffle(xs)
    return xs, random.sample(xs, 1), random.choices(xs, k=2)


def of_many(x):
    known = list(range(40))
    random.shuffle(known)
    return known, known[0] + 1


@pytest.mark.parametrize(
    "f", [shuffled, sampled, chosen, of_many, of_a_length_that_depends_on_data]
)
def test_the_same_as_python_with_a_seed(f):
    x, g = torch.tensor([1.0, 3.0, 2.0, 5.0]), tg.function(f)
    random.seed(3)
    want = [f(x), f(x)]
    random.seed(3)
    assert [g(x), g(x)] == want
    assert g.trace_count == 1


@pytest.mark.parametrize("n", [0, 1])
def test_what_python_refuses(n):
    @tg.function
    def f(x):
        if n:
            return random.sample({1, 2}, 1)
        return random.choices([1, 2], weights=[float("inf"), 1.0])

    with pytest.raises((TypeError, ValueError)) as native:
        f.python_function(torch.ones(1))
    with pytest.raises(native.type, match=str(native.value)[:30]):
        f(torch.ones(1))


def test_a_sample_of_few_asks_once():
    @tg.function
    def f(x):
        i, j = random.sample(range(len(x)), 2)
        return x[i] - x[j]

    text = str(f.get_concrete_function(torch.ones(4)).graph)
    assert text.count("py.outside") == 1


def test_a_generator_made_inside_draws_from_what_a_loop_gathers():
    def orders(x, n):
        rng, found = random.Random(3), []
        for i in range(n):
            if x[i] > 0:
                found.append(i)
        rng.shuffle(found)
        return found, rng.sample(found, 2), rng.choices(found, k=2), rng.choice(found), rng.random()

    x = torch.tensor([1.0, -1.0, 2.0, 3.0, 4.0])
    converted = tg.function(orders)
    for n in (5, 3, 4):
        assert converted(x, torch.tensor(n)) == orders(x, n)


class Deck:
    def __init__(self):
        self.cards = list(range(6))


def epochs(x, deck):
    rng, order, seen, w = random.Random(0), list(range(12)), [], x * 0
    rng.shuffle(deck.cards)
    for _ in range(5):
        rng.shuffle(order)
        seen.append(list(order))
        missed = 0
        for i in order:
            if w - i <= x:
                w, missed = w + i, missed + 1
        if not missed:
            break
    return seen, rng.random()


def test_a_generator_made_inside_and_a_list_that_it_shuffles_are_as_before_where_a_loop_is_traced_anew():
    g, native, deck = tg.function(epochs), Deck(), Deck()
    for x in (torch.tensor(9.0), torch.tensor(-1.0)):
        assert g(x, deck) == epochs(x, native)
        assert deck.cards == native.cards
