"""``statistics`` of lists that staged loops fill, and of numbers that only the run knows."""

import statistics

import pytest
import torch

import tograph as tg

NAMES = ["mean", "fmean", "median", "median_low", "median_high", "variance", "stdev", "pvariance", "pstdev"]  # fmt: skip
CASES = [(1.7, 4), (0.3, 5), (2.0, 2), (1.0, 1), (1.0, 0)]


def outcome(f, *args):
    try:
        return f(*args)
    except statistics.StatisticsError as error:
        return str(error)


@pytest.mark.parametrize("of", [float, int])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_list_that_grows(name, of):
    function = getattr(statistics, name)

    def gathered(x, n):
        xs = []
        for i in range(n):
            xs.append(of(x.item() * 3) * (int(i) - 2) ** 2)
        return function(xs)

    f = tg.function(gathered)
    for x, n in CASES:
        args = torch.tensor(x), torch.tensor(n)
        found, expected = outcome(f, *args), outcome(gathered, *args)
        assert type(found) is type(expected)
        assert found == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-15, abs=1e-15))  # fmt: skip
    assert f.trace_count == 1


def test_in_a_loop_and_in_try():
    def smoothed(x, n):
        seen, total = [], 0.0
        while n > 0:
            n = n - 1
            try:
                total = total + statistics.stdev(seen)
            except statistics.StatisticsError:
                total = total - 1
            seen.append(x.item() * n.item())
        return total, statistics.median([total, x.item(), 1])

    args = torch.tensor(1.5), torch.tensor(5)
    found, expected = tg.function(smoothed)(*args), smoothed(*args)
    assert found == pytest.approx(expected)
