"""Long loops of Python's: staged where iterations repeat themselves, and never seen but by that."""

import contextlib
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.execution.scheduler import PATIENCE
from tograph.runtime.graph.ir import all_nodes

LONG = 60


def step(x):
    return (x * 2 + torch.sin(x)).tanh().exp() / 3


def whiles_of(graph):
    return sum(n.op == "While" for n in all_nodes(graph))


def whiles(f, *args):
    """How many loops the graph has, and how many nodes."""
    graph = f.get_concrete_function(*args).graph
    return whiles_of(graph), len(list(all_nodes(graph)))


def counted(x):
    total = 0
    for i in range(LONG):
        x = step(x) + i
        total = total + x.sum() / (i + 1)
    return x, total, i


def backwards(x):
    seen = 0
    for t in reversed(range(LONG)):
        x = step(x) - t * 0.01
        if x.sum() > 1:
            seen += t
    return x, seen, t


def counting_by_hand(x):
    k, rows = 0, []
    while k < LONG:
        x = step(x)
        if x.sum() > 1:
            x = x - 0.1 * k
        rows.append(x.sum())
        k += 1
    return torch.stack(rows), len(rows), k


def cooling(x):
    heat, best = 5.0, x.sum()
    for _ in range(LONG):
        x = step(x) / heat
        if x.sum() < best:
            best = x.sum()
        heat *= 0.98
    return x, best, heat


def with_else(x):
    for i in range(LONG):
        x = step(x)
        if i == 1000:
            break
    else:
        x = -x
    return x


def with_a_schedule(x):
    for i in range(LONG):
        rate = 0.5 * (1 + math.cos(math.pi * i / LONG))
        x = x - rate * step(x)
    return x


def in_each_other(x):
    w = torch.linspace(0, 1, 12).view(3, 2, 2)
    for i in range(LONG):
        for j in range(3):
            x = torch.tanh(w[j] @ x + i)
        if x.sum() > 30:
            return x
    return -x


def that_prints(x):
    for i in range(LONG):
        x = step(x)
        if i % 20 == 0:
            print("at", i, float(x.sum()) > 0)
    return x


def comprehension(x):
    rows = [step(x * i).sum() for i in range(LONG)]
    return torch.stack(rows), rows[3], rows[-1], len(rows)


STAGED = [counted, backwards, counting_by_hand, cooling, with_else, with_a_schedule, in_each_other, that_prints, comprehension]  # fmt: skip


@pytest.mark.parametrize("f", STAGED)
def test_iterations_that_repeat_themselves_are_a_loop_of_the_graph(f, capsys):
    x = torch.tensor([0.3, -0.7])
    expected, printed = f(x), capsys.readouterr().out
    found = tg.function(f)
    torch.testing.assert_close(found(x), expected)
    assert capsys.readouterr().out == printed
    loops, nodes = whiles(found, x)
    assert loops >= 1 and nodes < 150
    assert type(found(x)) is type(expected)


def test_numbers_that_count_along_are_pythons_afterwards():
    x = torch.tensor([0.3, -0.7])
    found, expected = tg.function(counted)(x), counted(x)
    assert type(found[2]) is int and found[2] == expected[2]
    assert type(tg.function(cooling)(x)[2]) is float
    assert tg.function(cooling)(x)[2] == cooling(x)[2]  # to the last bit


def test_a_training_loop_is_one_body():
    def made():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)

        def train(x, y):
            best = torch.tensor(1e9)
            for step in range(LONG):
                loss = F.mse_loss(net(x), y) * (1 - step / (2 * LONG))
                net.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
                if loss < best:
                    best = loss.detach()
            return best

        return net, optimizer, train

    x, y = torch.randn(6, 4), torch.randn(6, 1)
    net, optimizer, train = made()
    other, others, native = made()
    found, expected = tg.function(train)(x, y), native(x, y)
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad
    for p, q in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)
        torch.testing.assert_close(p.grad, q.grad)
        assert optimizer.state[p]["step"] == others.state[q]["step"] == LONG
    loops, nodes = whiles(tg.function(train), x, y)
    assert loops == 1 and nodes < 900


def test_gradients_outside_go_through_it():
    def f(x, w):
        for i in range(LONG):
            x = torch.tanh(x * w + i / LONG) + x.sin() / 3
            if x.sum() > 1:
                x = x * 0.9
        return x.sum()

    x = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
    w = torch.tensor([1.1, 0.4], dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(tg.function(f)(x, w), (x, w))
    torch.testing.assert_close(found, torch.autograd.grad(f(x, w), (x, w)))
    assert torch.autograd.gradgradcheck(tg.function(f), (x, w))


def layers(x):
    for w in WEIGHTS:
        x = torch.tanh(x @ w)
    for i in range(len(WEIGHTS)):
        x = torch.tanh(x @ WEIGHTS[i]) + x.sin()
    return x


WEIGHTS = [torch.full((2, 2), 0.1 * i) for i in range(LONG)]


def growing(x):
    for _ in range(12):
        x = torch.cat([x, step(x[:1])]) * 1.01 + x.mean().sin()
    return x


def filling(x):
    found = {}
    for i in range(LONG):
        x = step(x)
        found[i] = x.sum()
    return found


def powers(x):
    total = 0
    for i in range(LONG):
        total = total + (x**i).sin().cos() / (i + 1)
    return total


@pytest.mark.parametrize("f", [layers, growing, filling, powers])
def test_what_does_not_repeat_itself_or_cannot_be_staged_stays_pythons(f):
    x = torch.tensor([0.3, -0.7])
    found = tg.function(f)
    assert whiles(found, x)[0] == 0
    torch.testing.assert_close(found(x), f(x), rtol=0, atol=1e-6)


def test_few_iterations_stay_pythons():
    def f(x):
        for _ in range(6):
            x = step(step(step(step(step(step(step(step(step(x)))))))))
        return x

    assert whiles(tg.function(f), torch.ones(2))[0] == 0


def test_code_that_is_not_converted_runs_in_each_iteration():
    calls = []

    @tg.do_not_convert
    def note():
        calls.append(1)

    def f(x):
        for _ in range(LONG):
            x = step(x)
            note()
        return x

    tg.function(f)(torch.ones(2))
    assert len(calls) == LONG


def test_where_something_behind_the_loop_wants_more_the_function_is_traced_again():
    def f(x):
        sizes = 0
        for i in range(LONG):
            x = step(x)
            sizes += 2
        table = {120: "as expected"}
        return table[sizes], math.comb(sizes // 20, 2), hash(i)

    found = tg.function(f)
    assert found(torch.ones(2)) == f(torch.ones(2)) == ("as expected", 15, 59)
    assert whiles(found, torch.ones(2))[0] == 0


def test_an_exception_of_the_program_comes_once_with_its_effects(capsys):
    def f(x, rows):
        for i in range(LONG):
            x = step(x)
            rows[0] += 1
        print("done")
        raise KeyError(i)

    rows, expected = [torch.zeros(())], [torch.zeros(())]
    with pytest.raises(KeyError, match="59"):
        f(torch.ones(2), expected)
    printed = capsys.readouterr().out
    with pytest.raises(KeyError, match="59"):
        tg.function(f)(torch.ones(2), rows)
    assert capsys.readouterr().out == printed
    assert rows[0] == expected[0] == LONG


def test_whole_numbers_stay_as_large_as_pythons():
    def f(x):
        n = 1
        for _ in range(LONG):
            x = step(x)
            n *= 10
        return x, n

    found = tg.function(f)(torch.ones(2))
    assert found[1] == 10**LONG


def test_a_gradient_through_all_iterations_before():
    def f(w):
        h, total = torch.ones(2), []
        for i in range(24):
            h = torch.tanh(h * w + i) + h.sin()
            (g,) = torch.autograd.grad(h.sum(), w, retain_graph=True)
            total.append(g)
        return torch.stack(total)

    w = torch.tensor([0.4, 1.2], requires_grad=True)
    torch.testing.assert_close(tg.function(f)(w), f(w))


def test_where_a_run_could_be_refused_the_loop_stays_pythons():
    def f(w):
        rows = []
        for i in range(24):
            leaf = w.detach().clone().requires_grad_()
            rows.append((leaf * i).sin().sum() + leaf.exp().sum().tanh())
        rows[-1].backward()
        return leaf.grad

    w = torch.tensor([0.4, 1.2])
    torch.testing.assert_close(tg.function(f)(w), f(w))


@contextlib.contextmanager
def telling(i):
    yield
    print("left", i)


def test_text_of_numbers_is_pythons(capsys):
    def f(x):
        with contextlib.ExitStack() as stack:
            for i in range(24):
                x = step(step(x))
                stack.enter_context(telling(i))
        return x

    f(torch.ones(2))
    printed = capsys.readouterr().out
    tg.function(f)(torch.ones(2))
    assert capsys.readouterr().out == printed


def test_results_of_their_own_are_differentiated_one_after_the_other():
    def f(x, w):
        return [(x * w).sin().exp().tanh().cos().sin().exp() * k for k in range(64)]

    x, w = torch.ones(2), torch.tensor([0.5, 2.0], requires_grad=True)
    for y in tg.function(f)(x, w):
        y.sum().backward()
    found, w.grad = w.grad, None
    for y in f(x, w):
        y.sum().backward()
    torch.testing.assert_close(found, w.grad)


def averaged(x):
    mean, steps = np.float64(0), np.int64(3)
    for i in range(LONG):
        x = step(x)
        mean, steps = mean * 0.5 + i, steps + i
    return mean, steps


def tabulated(x):
    table = np.linspace(0, 1, LONG)
    for i in range(LONG):
        rate, sine = table[i], np.sin(i)
        x = step(x) * rate
    return rate, sine


@pytest.mark.parametrize("f", [averaged, tabulated])
def test_numbers_of_numpy_stay_what_they_are(f):
    found, expected = tg.function(f)(torch.ones(2)), f(torch.ones(2))
    assert found == expected and list(map(type, found)) == list(map(type, expected))


def test_what_numbers_of_numpy_are_put_into_an_op_for_is_staged():
    def f(x):
        table = np.linspace(0, 1, LONG)
        for i in range(LONG):
            x = step(x) * table[i]
        return x

    found = tg.function(f)
    torch.testing.assert_close(found(torch.ones(2)), f(torch.ones(2)))
    assert whiles(found, torch.ones(2))[0] == 1


def test_an_exception_has_what_it_was_made_with():
    def f(x):
        seen = []
        for i in range(LONG):
            try:
                x = step(x)
                if i > 56:
                    raise ValueError("bad", i)
            except ValueError as error:
                seen.append(error.args[1])
        return seen

    assert tg.function(f)(torch.ones(2)) == [57, 58, 59]


def test_the_last_items_of_a_list():
    def f(x):
        rows = [x]
        for i in range(LONG):
            rows.append(step(sum(rows[-3:]) / 3) + x.cos().sin() * i)
        return rows[-1], len(rows)

    x = torch.ones(4)
    found = tg.function(f)
    torch.testing.assert_close(found(x), f(x))
    assert found.get_concrete_function(x).scheduled.level == "native" and whiles(found, x)[0] > 0


def without_a_machine_form(x):
    for i in range(LONG):
        x = step(x) + i.bit_length()
    return x


def beyond_64_bits(x):
    n = 1
    for _ in range(LONG):
        x, n = step(x), n * 10
    return x + float(n % 7), n


@pytest.mark.parametrize("f, calls", [(without_a_machine_form, 1), (beyond_64_bits, PATIENCE)])
def test_what_would_run_op_by_op_for_its_loops_is_unrolled_at_the_next_call(f, calls):
    x, found = torch.ones(2), tg.function(f)
    for _ in range(calls):
        torch.testing.assert_close(found(x), f(x))
    assert found.trace_count == 1 and whiles_of(found.concrete_functions[-1].graph) == 1
    for _ in range(3):
        torch.testing.assert_close(found(x), f(x))
    made = found.get_concrete_function(x)
    assert found.trace_count == 2 and whiles_of(made.graph) == 0
    assert made.scheduled.level == "native" and "unrolled" in found.explain_retraces()


def test_so_is_one_whose_gradient_would_run_op_by_op():
    def f(x):
        for i in range(LONG):
            x = step(x).sin() + i.bit_length()
        return x.sum()

    x, found = torch.ones(2, requires_grad=True), tg.function(f)
    for _ in range(3):
        (given,), (expected,) = (torch.autograd.grad(g(x), x) for g in (found, f))
        torch.testing.assert_close(given, expected)
    assert found.trace_count == 2 and whiles_of(found.get_concrete_function(x).graph) == 0


def test_one_too_long_to_unroll_stays_a_loop(monkeypatch):
    monkeypatch.setattr("tograph.runtime.traces.concrete.TOO_LONG", 300)
    f = without_a_machine_form
    x, found = torch.ones(2), tg.function(f)
    for _ in range(3):
        torch.testing.assert_close(found(x), f(x))
    assert found.trace_count == 1 and whiles_of(found.get_concrete_function(x).graph) == 1


def test_an_unrolled_trace_that_fails_is_done_without(monkeypatch):
    x, found = torch.ones(2), tg.function(without_a_machine_form)
    found(x)
    monkeypatch.setattr("tograph.converters.for_stmt.LongLoop", None)  # a TypeError while tracing
    for _ in range(3):
        torch.testing.assert_close(found(x), without_a_machine_form(x))
    assert found.trace_count == 1
