"""Whole calls on a simulated device, beside plain Python: values, prints and errors, and what is seen before an error."""

import math

import pytest
import torch

import tograph as tg
from tests.program_generator import generate
from tests.program_runner import mismatch
from tests.runtime.gpu.fake_driver import forget
from tests.runtime.gpu.simulated import simulate
from tograph.runtime.gpu import capture

pytest.importorskip("triton")


@pytest.fixture
def simulated(monkeypatch):
    yield simulate(monkeypatch)
    monkeypatch.undo()
    forget(capture.probed)


def printed(fn, args, capsys):
    """(what a call gives, or the type of its error; what it prints)."""
    try:
        found = fn(*args)
    except ZeroDivisionError as error:
        found = type(error)
    return found, capsys.readouterr().out


def a_branch_then_a_print(x, n):
    if n * 3 != 2:
        print("odd", n + 1)
    print(x)
    return n + 2


def a_failure_then_a_print(x, n):
    share = 12 // n.item()
    print(x)
    return share


@pytest.mark.parametrize("fn", [a_branch_then_a_print, a_failure_then_a_print])
def test_what_is_seen_comes_in_order(fn, simulated, capsys):
    staged = tg.function(fn)
    for n in (2, 0, 4):
        given = torch.ones(2), torch.tensor(n)
        got, want = (printed(f, given, capsys) for f in (staged, fn))
        assert got == want
    assert {(level, tier) for _, level, tier, _ in simulated.levels} == {("device", 1)}


def an_argument_as_it_is(x, n):
    total = x.sum()
    while n > 0:
        n, total = n - 1, total * 2
    return total, [x]


def test_an_argument_that_is_given_back_is_itself(simulated):
    x = torch.ones(2)
    total, (same,) = tg.function(an_argument_as_it_is)(x, torch.tensor(2))
    assert total == 8
    assert same is x
    assert simulated.levels[0][1:3] == ("device", 1)


def kept_in_lists(x, n):
    kept = [x]
    for _ in range(n):
        kept.append(kept[-1].sin())
    return kept[-1].sum()


def test_second_derivatives_of_what_a_loop_keeps(simulated):
    found = []
    for f in (kept_in_lists, tg.function(kept_in_lists)):
        x = torch.tensor([0.5, 1.0], requires_grad=True)
        (g,) = torch.autograd.grad(f(x, torch.tensor(2)), x, create_graph=True)
        found += [g.detach(), *torch.autograd.grad(g.sum(), x)]
    torch.testing.assert_close(found[2:], found[:2])


@pytest.mark.parametrize("seed", [392, 1048])
def test_a_generated_program_does_what_it_does_natively(seed, simulated):
    assert mismatch(generate(seed)) is None
    assert simulated.levels[0][1:3] == ("device", 1)


def test_variables_are_on_the_device(simulated):
    v = tg.Variable(torch.zeros(2), requires_grad=False)

    @tg.function
    def add(x, n):
        for i in range(n):
            v.assign_add(x * i)
        return v.read_value()

    for _ in range(4):
        add(torch.ones(2), torch.tensor(3))
    assert v.tolist() == [12.0, 12.0]
    assert simulated.levels[0][1:3] == ("device", 1) and not simulated.declined


def refined(a, b, n):
    x = torch.linalg.solve(a, b)
    while n > 0:
        x = x + torch.linalg.solve(a, b - a @ x)
        n = n - 1
    return x, torch.linalg.cholesky(a @ a.t() + torch.eye(3))


def test_matrices_are_solved_on_the_device(simulated):
    staged, b, n = tg.function(refined), torch.ones(3), torch.tensor(2)
    good = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
    for a in (good, good * 2, good):
        torch.testing.assert_close(staged(a, b, n), refined(a, b, n))
    assert simulated.levels[0][1:3] == ("device", 1) and not simulated.declined
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        staged(torch.zeros(3, 3), b, n)


def test_a_python_function_whose_result_nobody_reads_leaves_the_loop_on_the_device(simulated):
    seen = []

    @tg.function
    def halved(x, n):
        i = torch.zeros_like(n)
        while i < n:
            x = x * 0.5
            if i % 5 == 4:
                tg.py_function(lambda k: seen.append(int(k)), [i], None)
            i = i + 1
        return x

    for n in (12, 0, 6):
        seen.clear()
        assert torch.equal(halved(torch.ones(4), torch.tensor(n)), torch.full((4,), 0.5**n))
        assert seen == [*range(4, n, 5)]
    assert simulated.levels[0][1:3] == ("device", 1) and not simulated.declined


def numbers(x, n):
    a, k = x.sum().item(), n.item()
    return int(a), -k, abs(k - 4), k / 4, a**2.5, k**2, math.sqrt(a), math.floor(a), k ^ 3, ~k


@pytest.mark.parametrize("n", [0, 3, -(1 << 63)])
def test_numbers_are_those_of_python(n, simulated):
    given = torch.tensor([1.5, 2.25]), torch.tensor(n)
    fn = tg.function(numbers)
    got, want = fn(*given), numbers(*given)
    assert [*map(type, got)] == [*map(type, want)] and got == pytest.approx(want)
    assert bool(simulated.declined) == (n < -5)  # what leaves 64 bits is the host's


@pytest.mark.parametrize("x", [float("inf"), float("nan"), 1e300])
def test_a_float_that_is_no_int_of_64_bits_is_left_to_the_host(x, simulated, capsys):
    whole = tg.function(lambda x: int(x.item()))
    try:
        want = int(x)
    except (OverflowError, ValueError) as error:
        with pytest.raises(type(error)):
            whole(torch.tensor(x, dtype=torch.float64))
    else:
        assert whole(torch.tensor(x, dtype=torch.float64)) == want
    assert simulated.declined
