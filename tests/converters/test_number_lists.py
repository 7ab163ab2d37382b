"""Long loops over numbers that lists and iterators hold: staged as those over a range are, and never seen but by that."""

import itertools

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.ir import all_nodes

LONG = 60
RATES = [1.0 / (i + 1) for i in range(LONG)]
PLACES = list(range(LONG))
PAIRS = [(i, (i + 1, 0.5)) for i in range(LONG)]
BEYOND = [10**30 + i for i in range(LONG)]


def step(x):
    return (x * 2 + torch.sin(x)).tanh().exp() / 3


def whiles(f, *args):
    return sum(n.op == "While" for n in all_nodes(f.get_concrete_function(*args).graph))


def floats(x):
    for rate in RATES:
        x = step(x) * rate
    return x, rate


def listed(x):
    for i in list(range(LONG))[::-1]:
        x = step(x) + i
    return x, i


def tuples(x):
    for a, (b, c) in PAIRS:
        x = step(x) * c + a - b
    return x, a, b, c


def numbered(x):
    for k, i in enumerate(range(3, 3 + LONG), 5):
        x = step(x) + i / k
    return x, k, i


def beside_each_other(x):
    for i, (a, b) in enumerate(zip(RATES[:-1], RATES[1:])):
        x = step(x) * (a - b) + i
    return x, i, a, b


def backwards(x):
    for rate in reversed(RATES):
        x = step(x) * rate
    return x, rate


def repeated(x):
    for rate in itertools.repeat(0.5, LONG):
        x = step(x) * rate
    return x, rate


def with_a_break(x):
    for i, rate in enumerate(RATES):
        x = step(x) * rate
        if i == 50:
            break
    return x, i, rate


def in_a_comprehension(x):
    rows = [step(x * rate).exp() for rate in RATES]
    return torch.stack(rows), len(rows)


def printed(x):
    for i, rate in enumerate(RATES):
        x = step(x) * rate
        if i % 20 == 0:
            print(i, f"{rate:.3f}")
    return x


STAGED = [floats, listed, tuples, numbered, beside_each_other, backwards, repeated, with_a_break, in_a_comprehension, printed]  # fmt: skip


@pytest.mark.parametrize("f", STAGED)
def test_what_repeats_itself_is_a_loop_of_the_graph(f, capsys):
    x = torch.tensor([0.3, -0.7])
    expected, text = f(x), capsys.readouterr().out
    found = tg.function(f)
    for _ in range(2):
        given = found(x)
        torch.testing.assert_close(given, expected)
        assert capsys.readouterr().out == text
    if isinstance(expected, tuple):
        assert list(map(type, given)) == list(map(type, expected))
    assert whiles(found, x) == 1


def appends(x):
    numbers = list(range(LONG))
    for i in numbers:
        x = step(x) * i
        if i == 20:
            numbers.append(99)
    return x, i, len(numbers)


def writes(x):
    numbers = list(range(LONG))
    for k, i in enumerate(numbers):
        x = step(x) * i
        if k + 1 < len(numbers):
            numbers[k + 1] = i * 2
    return x, i, numbers


def shortens(x):
    numbers = list(range(LONG))
    for i in numbers:
        x = step(x) * i
        if len(numbers) > 10:
            numbers.pop()
    return x, i, numbers


def changed_late(x):
    numbers = list(range(LONG))
    for i in numbers:
        x = step(x) * i
        numbers[-1] = 7
    return x, i, numbers


def beyond_64_bits(x):
    for i in BEYOND:
        x = step(x) + i / 10**30
    return x, i


def goes_on_behind(x):
    pairs = zip(RATES, PLACES)
    for rate, i in pairs:
        x = step(x) * rate
        if i == 20:
            break
    return x, next(pairs)


@pytest.mark.parametrize("f", [appends, writes, shortens, changed_late, beyond_64_bits, goes_on_behind])  # fmt: skip
def test_what_python_alone_can_go_over_stays_its_own(f):
    x = torch.tensor([0.3, -0.7])
    found = tg.function(f)
    torch.testing.assert_close(found(x), f(x))
    assert whiles(found, x) == 0


def test_each_number_is_watched():
    rates = list(RATES)

    def f(x):
        for k, rate in enumerate(rates):
            x = step(x) * rate + k
        return x

    found, x = tg.function(f), torch.tensor([0.3, -0.7])
    torch.testing.assert_close(found(x), f(x))
    rates[40] = 3.25
    torch.testing.assert_close(found(x), f(x))
    rates.append(2.0)
    torch.testing.assert_close(found(x), f(x))


def of_a_range(x):
    for i in range(10**30):
        x = x + 1
        if x.sum() > 20:
            break
    return x, i


def of_a_reversed_range(x):
    for i in reversed(range(10**30)):
        x = x + 1
        if x.sum() > 20:
            break
    return x, i


def of_an_enumerated_range(x):
    for k, i in enumerate(range(10**30)):
        x = x + i
        if k == 4:
            break
    return x


def of_a_range_beside_a_list(x):
    for k, i in zip(range(10**30), [1, 2, 3]):
        x = x + i
    return x, k


def of_an_iterator(x):
    numbers = iter(range(10**30))
    return x + next(numbers), next(numbers)


@pytest.mark.parametrize("f", [of_a_range, of_a_reversed_range, of_an_enumerated_range, of_a_range_beside_a_list, of_an_iterator])  # fmt: skip
def test_a_range_longer_than_len_takes(f):
    torch.testing.assert_close(tg.function(f)(torch.ones(2)), f(torch.ones(2)))
