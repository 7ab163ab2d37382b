"""What numpy's random generators draw in a function: other numbers at every call, those that eager PyTorch would draw."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import LastingChangeError

RNG = np.random.default_rng(0)
OLD = np.random.RandomState(0)


def exploring(x):
    if np.random.rand() < 0.5:
        return x + np.random.randint(0, 1000)
    return -x * np.random.normal()


def of_arrays(x):
    order = torch.as_tensor(np.random.permutation(5))
    return x[order] + torch.from_numpy(np.random.rand(5)) + float(np.random.choice([1.0, 2.0, 3.0]))


def of_generators(x):
    return x + RNG.random() + RNG.integers(0, 1000) + OLD.rand() + torch.tensor(RNG.normal(size=5))


def with_a_second_trace(x):
    """A list of lists that depends on data: tracing begins again."""
    rows, noise = [], np.random.rand()
    for v in x:
        if v > 1:
            rows.append([v, [v + noise]])
    return [row[1] for row in rows]


def numbers_and_arrays(x):
    return x + np.random.rand() + torch.from_numpy(np.random.rand(5)) + np.random.uniform(2, 3)


def in_a_staged_loop(x):
    n = 0
    while x.sum() < 30:
        if np.random.rand() < 0.3:
            x = x + RNG.normal(0.0, x[0].item()) + OLD.uniform(low=1.0, high=2.0)
        x = x + RNG.integers(0, 3)
        n += 1
    return x + n


def seed():
    np.random.seed(3)
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
    OLD.seed(4)


def calls(function):
    seed()
    return [function(torch.arange(5.0)) for _ in range(6)]


def same(a, b):
    return all(map(same, a, b)) if isinstance(a, list) else torch.equal(a, b)


def test_draws_are_those_of_plain_python():
    for function in (
        exploring,
        of_arrays,
        of_generators,
        with_a_second_trace,
        numbers_and_arrays,
        in_a_staged_loop,
    ):
        assert same(calls(tg.function(function)), calls(function)), function.__name__


def test_a_seed_in_the_function():
    def f(x):
        np.random.seed(7)
        return x + np.random.rand()

    assert same(calls(tg.function(f)), calls(f))


def test_a_seed_that_is_there_already():
    def f(x):
        np.random.seed(3)
        return x + np.random.rand()

    assert same(calls(tg.function(f)), calls(f))


def test_a_seed_in_a_staged_branch_is_refused():
    @tg.function
    def f(x):
        if x.sum() > 0:
            np.random.seed(3)
        return x

    with pytest.raises(LastingChangeError, match="RandomState"):
        f(torch.ones(2))


def test_numbers_need_one_trace():
    def f(x):
        return x + np.random.rand() * np.random.normal(0.0, x.sum().item()) + RNG.uniform()

    staged = tg.function(f)
    assert same(calls(staged), calls(f))
    assert staged.trace_count == 1


def test_a_generator_of_the_function_needs_one_trace():
    @tg.function
    def f(x):
        return x + np.random.default_rng(0).random()

    assert same(calls(f), [f(torch.arange(5.0))] * 6)
    assert f.trace_count == 1


UNLOADED = """
import sys
import numpy as np
import torch
import tograph as tg

@tg.function
def f(x):
    return x + torch.from_numpy(np.random.rand(3))

@tg.function
def in_a_loop(x):
    while x.sum() < 30:
        x = x + torch.from_numpy(np.random.rand(3))
    return x

assert "numpy.random" not in sys.modules
if sys.argv[1] == "f":
    print(len({tuple(f(torch.zeros(3)).tolist()) for _ in range(4)}))
else:
    try:
        in_a_loop(torch.zeros(3))
    except tg.errors.LastingChangeError:
        print("refused")
"""


@pytest.mark.parametrize(("name", "expected"), [("f", "4"), ("in_a_loop", "refused")])
def test_generators_that_the_first_trace_loads(tmp_path, name, expected):
    path = tmp_path / "program.py"
    path.write_text(UNLOADED)
    ran = subprocess.run([sys.executable, path, name], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [expected]


@pytest.mark.parametrize(
    "use",
    [
        lambda n: int(np.random.SeedSequence(entropy=n).generate_state(1)[0]) % 7,
        lambda n: np.ones((n % 4, 2)).sum(),
    ],
    ids=["a seed", "an array"],
)
def test_what_numpy_alone_takes_is_drawn_while_tracing(use):
    def f(x):
        return x * use(np.random.randint(0, 1000))

    made = tg.function(f)
    for seed in range(3):
        np.random.seed(seed)
        expected = f(torch.ones(2)), np.random.rand()
        np.random.seed(seed)
        found = made(torch.ones(2)), np.random.rand()
        assert torch.equal(expected[0], found[0]) and expected[1] == found[1]
