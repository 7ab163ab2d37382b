"""Copies that a plan does without, and those that it needs."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.plan import Conditional, Copy, Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph import interp

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def run(fn, *args, whole=False):
    """The copies in the body of the plan's loop, after a comparison with the graph."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    before = planner.plan(retarget(graph, "cuda:0"), whole)
    text = str(before)
    made = coalesced(before)
    assert str(before) == text and check(made) == []
    runner = Stepwise(made, "cpu")
    for _ in range(2):
        for a, b in zip(runner.run(*args), interp.run(graph, args), strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    loop = next((s for s in made.steps if isinstance(s, Conditional)), None)
    if loop is None:
        return [], made
    return [pair for s in loop.bodies[0] if isinstance(s, Copy) for pair in s.pairs], made


def test_state_is_computed_where_it_is():
    def newton(x):
        steps = 0
        while (x * x - 2).abs().max() > 1e-3:
            x = x - (x * x - 2) / (2 * x)
            steps += 1
        return x, steps

    pairs, _ = run(newton, torch.tensor([1.0, 2.0, 5.0]))
    assert pairs == []


def test_a_number_that_all_threads_read_is_written_behind_a_barrier():
    """Without one the interpreter of the tests finds a race: one thread stores what threads of other warps may not have read."""

    def counted(x, w, n):
        i, rows = torch.zeros_like(n), torch.zeros(64)
        while i < n:
            x = torch.tanh(x @ w)
            rows = rows * 0.5 + x.sum(1)
            i = i + (x.sum() > -1e9)
        return x, rows, i

    given = torch.Generator().manual_seed(0)
    x, w = (torch.randn(64, 64, generator=given) / 8 for _ in range(2))
    pairs, made = run(counted, x, w, torch.tensor(3))
    sources = {s.source.text: s.source for s, _ in made.walk() if isinstance(s, Run)}.values()
    folds = [s for s in sources if "tl.sum" in s.text and s.warps > 1]
    assert pairs == [] and len(folds) == 2
    assert all(s.text.count("tl.debug_barrier()") == 1 for s in folds)


def test_the_start_of_a_state_that_the_loop_reads_itself_is_kept():
    def sums(x, w, n):
        z = x * 2
        y = z
        for _ in range(n):
            y = y @ w + z
        return y

    _, made = run(sums, torch.ones(2, 2), torch.eye(2), torch.tensor(3))
    assert any(isinstance(s, Copy) for s in made.steps)


def test_an_exchange_needs_copies():
    def exchange(x, y):
        while x.sum() < 9:
            x, y = y, x + 1
        return x, y

    pairs, _ = run(exchange, torch.zeros(3), torch.ones(3))
    assert pairs


def test_what_is_read_elsewhere_is_not_written_over():
    """The kernel reads the state in another order than it writes it."""

    def turn(x):
        while x[0, 0] < 9:
            x = x.t() * 1.5 + x
        return x

    assert run(turn, torch.ones(2, 2))[0] == []  # one warp reads all before it writes
    assert len(run(turn, torch.arange(400.0).reshape(20, 20) / 100 + 1)[0]) == 1


def test_an_old_value_that_is_read_later_stays():
    def lag(x, w):
        last = x
        while x.sum() < 50:
            new = x * 1.5 + 1
            last = new @ w + x  # the old x, behind the kernel of the new one
            x = new
        return x, last

    run(lag, torch.ones(2, 2), torch.ones(2, 2) * 0.1)


def test_a_product_is_written_into_the_state_unless_it_reads_it():
    def two(x, y, w):
        while y.sum() < 50:
            x = x + 1
            y = x @ w
        return x, y

    def one(y, w):
        while y.sum() < 50:
            y = y @ w
        return y

    assert run(two, torch.ones(2, 2), torch.zeros(2, 2), torch.ones(2, 2))[0] == []
    assert len(run(one, torch.ones(2, 2), torch.ones(2, 2))[0]) == 1


def test_views_of_the_new_state():
    def wide(x, w):
        while x.sum() < 50:
            x = (x * 1.5 + 1).t().contiguous() @ w.t() + x.t()
        return x

    run(wide, torch.ones(2, 2), torch.ones(2, 2) * 0.3)


def test_loops_in_loops_and_branches():
    def nested(x):
        total = 0
        while x.sum() > 1:
            y = x
            while (y @ y) > 0.5:
                y = y * 0.5
                total += 1
            if y.sum() > 0.3:
                x = x * 0.7 + y * 0.1
            else:
                x = x * 0.5
        return x, total

    run(nested, torch.ones(5))
    run(nested, torch.ones(5), whole=True)
