"""When two iterations of a Python loop record the same."""

import pytest
import torch

import tograph as tg
from tograph.runtime.control_flow import SEEN, Repeats


class Watcher:
    """Looks at the iterations of a loop while it is traced."""

    def __init__(self):
        self.said = []

    @tg.do_not_convert
    def begin(self):
        self.repeats = Repeats()

    @tg.do_not_convert
    def ended(self):
        self.said.append(self.repeats.ended())


def found_in(body, x, times=6):
    """What ``Repeats`` said behind each of some iterations of ``x = body(x, i)``."""
    watcher = Watcher()

    @tg.function
    def f(x):
        watcher.begin()
        for i in list(range(times)):
            x = body(x, i)
            watcher.ended()
        return x

    f.get_concrete_function(x)
    assert len(watcher.said) == times
    return watcher.said


X = torch.ones(3)
OTHERS = [torch.ones(3) * i for i in range(6)]


@pytest.mark.parametrize(
    "body",
    [
        lambda x, i: x.sin() + x,
        lambda x, i: x * (i + 1) + i / 2,  # numbers that ops may take of the run
        lambda x, i: x.clamp(max=float(i)),
        lambda x, i: x + OTHERS[0] * X[i % 3],
        lambda x, i: torch.where(x > i, x, -x),
    ],
)
def test_iterations_that_do_the_same(body):
    assert found_in(body, X)[2:] == [True] * 4


@pytest.mark.parametrize(
    "body",
    [
        lambda x, i: x.sin() if i % 2 else x.cos(),
        lambda x, i: x**i,  # each exponent has its own way
        lambda x, i: x * OTHERS[i],
        lambda x, i: torch.cat([x, x[:1]]),
        lambda x, i: x.roll(i),
    ],
)
def test_iterations_that_do_not(body):
    assert not any(found_in(body, X))


def test_an_iteration_without_nodes_does_nothing_again():
    assert not any(found_in(lambda x, i: x, X))


def test_what_differs_for_long_is_not_waited_for():
    said = found_in(lambda x, i: x.sin() if i % 2 or i >= SEEN else x.cos(), X, SEEN + 4)
    assert not any(said)
