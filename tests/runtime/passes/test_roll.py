"""What a loop of Python left many times over becomes a loop of the graph, with what each copy takes from those before it."""

import math

import pytest
import torch

import tograph as tg
from tests.runtime.passes.text_case import after
from tograph.converters import long_loops
from tograph.runtime.execution import scheduler
from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.passes.roll import roll

N = 40


@pytest.fixture(autouse=True)
def stays_pythons(monkeypatch):
    """Long loops are unrolled while tracing, also those that would be staged there."""
    monkeypatch.setattr(long_loops, "WORTH", math.inf)


def leapfrog(x):
    before = x * 0.5
    for _ in range(N):
        x, before = 2 * x - before - 0.01 * torch.sin(x), x
    return x, before


def numbers(x):
    for t in range(N):
        x = x * (1 - 0.9 ** (t + 1)) + t * 2 - x / (t + 1)
    return x


def rows_backwards(xs):
    h = torch.zeros(3)
    for t in reversed(range(len(xs))):
        h = torch.tanh(xs[t] + h) + xs[-1 - t]
    return h


def gathered(xs):
    first, second, h = [torch.ones_like(xs[0])], [], torch.zeros_like(xs[0])
    for t in range(len(xs)):
        h = torch.tanh(xs[t] + h)
        first.append(h)
        second.append(h * 2)
    first.append(h + 1)
    return torch.stack(first), torch.cat(second), h


def written(x):
    made = torch.zeros(N, 3)
    for t in range(N):
        made[t] = x[0] * t
        x = torch.sin(x)
    return made


def in_place(x):
    x = x.clone()
    for _ in range(N):
        x[1:-1] = x[1:-1] + 0.1 * (x[2:] - 2 * x[1:-1] + x[:-2])
    return x


def argument(x):
    for _ in range(N):
        x.mul_(0.9)
        x.add_(1)
        x.sub_(0.5)
    return x


def walk(x):
    accepted = 0
    for _ in range(N):
        q = x + torch.randn(3)
        if torch.rand(()) < (q.sum() - x.sum()).exp():
            x = q
            accepted += 1
    return x, accepted


def nested(x):
    for _ in range(20):
        for _ in range(12):
            x = x * 0.9 + torch.sin(x)
        x = x - x.mean()
    return x


def one_after_the_other(x):
    for _ in range(N):
        x = torch.sin(x) + 0.1 * x
    y = x.sum()
    for _ in range(N):
        x, y = x * 0.1 + y, y * 0.1 + x.sum() * 0.01
    return x, y


def last_only(x):
    for _ in range(N):
        loss, slope = (x * x).sum(), 2 * x
        x = x - 0.1 * slope
    return x, loss, slope


def integers(n):
    for t in range(N):
        n = (n * 3 + t) % 1000 - t
    return n


PROGRAMS = [
    (leapfrog, (3,)), (numbers, (3,)), (rows_backwards, (N, 3)), (gathered, (N, 3)), (written, (3, 3)), (in_place, (20,)), (argument, (3,)),
    (walk, (3,)), (nested, (3, 5)), (one_after_the_other, (3,)), (last_only, (4,)), (integers, (4,)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "shape"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_python(f, shape, dtype):
    dtype = (
        {torch.float32: torch.int32, torch.float64: torch.int64}[dtype] if f is integers else dtype
    )
    converted = tg.function(f)
    for turn in range(3):
        results = []
        for g in (f, converted):
            torch.manual_seed(turn)
            x = (torch.randn(shape, dtype=torch.float64) * 3).to(dtype)
            results.append((g(x), x, torch.get_rng_state()))
        torch.testing.assert_close(results[1], results[0])
    scheduled = converted.concrete_functions[-1].scheduled
    assert scheduled.level == "native"
    assert any(n.op == "While" for n in scheduled._rolled.nodes)


def test_transposed_memory():
    converted, x = tg.function(leapfrog), torch.randn(3, 4).t()
    for _ in range(3):
        for made, expected in zip(converted(x), leapfrog(x)):
            torch.testing.assert_close(made, expected)
            assert made.stride() == expected.stride()


def test_a_failure_in_a_copy():
    def f(x, i):
        for _ in range(N):
            x = torch.sin(x + x[i]) * 0.5
        return x

    converted = tg.function(f)
    for i in (1, 2, 5, 0):
        x, i = torch.randn(3), torch.tensor(i)
        if i < 3:
            torch.testing.assert_close(converted(x, i), f(x, i))
        else:
            with pytest.raises(IndexError):
                converted(x, i)


def test_a_graph_of_thousands_of_nodes_does_not_wait():
    def f(x):
        for _ in range(scheduler.LONG):
            x = torch.sin(x) + 0.1 * x
        return x

    converted, x = tg.function(f), torch.randn(3)
    torch.testing.assert_close(converted(x), f(x))
    assert converted.get_concrete_function(x).scheduled.level == "native"


def test_different_weights_stay():
    weights = torch.randn(N, 3).unbind()

    def f(x):
        for w in weights:
            x = torch.sin(x * w) + 0.1 * x
        return x

    converted, x = tg.function(f), torch.randn(3)
    torch.testing.assert_close(converted(x), f(x))
    assert converted.get_concrete_function(x).scheduled._rolled is None


LINE = "  %{v}: f32[2] = aten.{op}.Tensor(%{u}, {x})\n"


def unrolled(count, factors):
    """``count`` multiplications by one of the ``factors``, and as many additions of %y."""
    text, last = "main(%x: f32[2], %y: f32[2]) {\n", "x"
    for k in range(count):
        text += LINE.format(v=f"a{k}", op="mul", u=last, x=factors(k))
        text += LINE.format(v=f"b{k}", op="add", u=f"a{k}", x="%y")
        last = f"b{k}"
    return f"{text}  return %{last}\n}}"


def test_the_body_is_written_once():
    text = after(roll, unrolled(50, lambda k: 0.5))
    assert text.count("aten.mul.Tensor") == 1
    assert ", 50)" in text


def test_numbers_are_looked_up_or_counted():
    assert "tg.constant([0.0, 0.1" in after(roll, unrolled(50, lambda k: k / 10))
    text = after(roll, unrolled(50, lambda k: 2 * k + 3))
    assert "py.mul(" in text
    assert "tg.constant" not in text


def test_few_copies_stay():
    text = unrolled(7, lambda k: 0.5)
    assert after(roll, text).count("aten.mul.Tensor") == 7


def trained(x, w):
    """A gradient that goes through all copies: what each has saved is read one by one, the last first."""
    h, total = torch.zeros(3), torch.zeros(())
    for row in x.unbind():
        h = torch.tanh(row + h @ w)
        total = total + h.square().sum()
    return torch.autograd.grad(total, [x, w])


def test_a_gradient_repeats_itself_too():
    converted = tg.function(trained)
    for seed in range(3):
        torch.manual_seed(seed)
        x, w = torch.randn(N, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        torch.testing.assert_close(converted(x, w), trained(x, w))
    rolled = converted.concrete_functions[-1].scheduled._rolled
    assert sum(n.op == "While" for n in rolled.nodes) >= 2
    assert len(rolled.nodes) < 3 * N  # the stack of the rows' gradients takes them one by one


def unbound(count):
    """A running product of the rows of %x, the last first."""
    text = f"main(%x: f32[{count},2]) {{\n  "
    text += ", ".join(f"%r{k}: f32[2]" for k in range(count)) + " = aten.unbind.int(%x)\n"
    last = f"r{count - 1}"
    for k in reversed(range(count - 1)):
        text += LINE.format(v=f"a{k}", op="mul", u=last, x=f"%r{k}")
        text += LINE.format(v=f"b{k}", op="add", u=f"a{k}", x="1")
        last = f"b{k}"
    return f"{text}  return %{last}\n}}"


def test_rows_are_selected_where_they_are_used():
    text = after(roll, unbound(50))
    assert text.count("aten.mul.Tensor") == 1
    assert "unbind" not in text


def written_over(count, over):
    """Additions in place to a value that the line before made."""
    text = "main(%x: f32[2], %y: f32[2]) {\n"
    last = "x"
    for k in range(count):
        text += LINE.format(v=f"a{k}", op="mul", u=last, x="%y")
        text += LINE.format(v=f"b{k}", op="add", u=f"a{k}", x="%y").rstrip() + f" ~%{over(k)}\n"
        last = f"b{k}"
    return f"{text}  return %{last}\n}}"


def test_the_gradient_knows_what_is_written_over():
    def watched(graph):
        return roll(graph, watched=True)

    text = show(watched(parse_graph(written_over(50, lambda k: f"a{k}"))), over=True)
    [line] = [line for line in text.splitlines() if "aten.add.Tensor" in line]
    assert "~%" in line
    assert "~%" not in show(roll(parse_graph(written_over(50, lambda k: f"a{k}"))), over=True)
    # A write over what another copy made is not told by a body.
    stay = written_over(50, lambda k: f"a{max(k - 1, 0)}")
    assert after(watched, stay).count("aten.add.Tensor") == 50


def test_a_write_behind_the_copies_to_what_one_of_them_made():
    def f(x, factor):
        kept = []
        for _ in range(N):
            y = torch.exp(x * 0.1)
            kept.append(y)
            x = torch.sin(x) + y * 0.1 - torch.cos(x) * 0.2 + x.tanh()
        kept[3].mul_(factor)
        return x

    converted = tg.function(f)
    for g in (f, converted):
        x = torch.randn(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            g(x, torch.tensor(2.0)).sum().backward()


def warped(x, y):
    """Dynamic time warping."""
    n, m = len(x), len(y)
    least = torch.full((n + 1, m + 1), torch.inf)
    least[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = torch.minimum(torch.minimum(least[i - 1, j], least[i, j - 1]), least[i - 1, j - 1])  # fmt: skip
            least[i, j] = (x[i - 1] - y[j - 1]).abs() + before
    return least[n, m]


def test_a_loop_around_a_long_one():
    """An iteration of the outer loop is a period, though those of the inner one come more often than is counted."""
    x, y = torch.randn(18), torch.randn(24)
    staged = tg.function(warped)
    graph = staged.get_concrete_function(x, y).watched_graph
    rolled = roll(parse_graph(show(graph)))
    assert len(rolled.nodes) < len(graph.nodes) / 4
    [loop] = [n for n in rolled.nodes if n.op == "While"]
    assert len(loop.regions["body"].nodes) < len(graph.nodes) / 10
    for _ in range(2):
        torch.testing.assert_close(staged(x, y), warped(x, y))
    assert staged.concrete_functions[0].scheduled.level == "native"
