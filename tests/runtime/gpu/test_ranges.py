"""Which arithmetic surely stays inside 64 bits, tensors and lists."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.ranges import ANY, join, meet, safe
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph.text import parse_graph


def fails(fn, *args, capacity=None):
    """Whether a plan has an error cell: whether anything in it may fail."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    return planner.plan(retarget(graph, "cuda:0"), capacity=capacity).error is not None


X = torch.ones(4, 3)
N = torch.tensor(3)


def count(x, n):
    i = 0
    while i < n:
        x = x * 2
        i += 1
    return x, i


def test_a_counter():
    assert not fails(count, X, N)


def test_both_operands_of_and_hold_and_none_of_or():
    """`and` gives its first operand where that is false."""

    def decode(x, token):
        i = 0
        while token != 3 and i < 4:
            token, x = x[i].sum(), x * 2
            i += 1
        return x, i

    def either(x, token):
        i = 0
        while token != 3 or i < 4:
            token, x = x[i].sum(), x * 2
            i += 1
        return x, i

    assert not fails(decode, X, torch.tensor(2.0))
    assert fails(either, X, torch.tensor(2.0))


def test_steps_of_a_loop_without_a_known_end():
    def steps(x):
        n = 0
        while (x @ x.t()).sum() > 1:
            x = x * 0.5
            n += 2
        return x, n

    assert not fails(steps, X)


def test_quotients_and_negative_numbers_of_a_counter():
    def rates(x, n):
        i = 0
        while i < 100:
            x = x * (i / 7) + abs(-i) / (i + 1)
            i += 1
        return x

    assert not fails(rates, X, N)
    assert fails(lambda x, n: x * (1 / n.item()), X, N)


def test_a_number_that_grows_by_itself_may_leave():
    def double(x):
        n = 1
        while (x @ x.t()).sum() > 1:
            x = x * 0.5
            n = n + n
        return x, n

    assert fails(double, X)


def test_large_steps_may_leave():
    def stride(x):
        n = 0
        while (x @ x.t()).sum() > 1:
            x = x * 0.5
            n += 1 << 62
        return x, n

    assert fails(stride, X)


def test_what_another_number_adds():
    """Fibonacci: the steps of one number are another one that grows."""

    def fibonacci(x):
        a, b = 0, 1
        while (x @ x.t()).sum() > 1:
            x = x * 0.5
            a, b = b, a + b
        return x, a

    assert fails(fibonacci, X)


def test_rows_by_a_counter():
    def rows(x, w, n):
        total = x[0] @ w
        for i in range(n):
            total = total + x[i] @ w
        return total

    def bounded(x, w):
        total, i = x[0] @ w, 0
        while i < 4 and total.sum() < 100:
            total = total + x[i] @ w
            i += 1
        return total

    def beyond(x, w):
        total, i = x[0] @ w, 0
        while i <= 4 and total.sum() < 100:
            total = total + x[i] @ w
            i += 1
        return total

    w = torch.ones(3, 3)
    assert fails(rows, X, w, N)  # the number of iterations is data
    assert not fails(bounded, X, w)
    assert fails(beyond, X, w)


def test_counting_down():
    def down(x, w):
        total, i = x[0] @ w, 3
        while i >= 0:
            total = total + x[i] @ w
            i -= 1
        return total

    assert not fails(down, X, torch.ones(3, 3))


def test_a_counter_that_two_loops_move():
    def nested(x, n):
        k, i, y = 0, 0, x
        while i < n:
            y = x
            while (y @ y.t()).sum() > 1:
                y = y * 0.5
                k += 1
            i += 1
        return y, k

    assert not fails(nested, X, N)


def test_branches_join():
    def odd(x, n):
        a, b, i = 0, 0, 0
        while i < n:
            if x.sum() > 3:
                a += 1
            else:
                b += 1
            x = x @ x.t()[:, :3][:3] * 0.1 if x.shape[0] == 3 else x * 0.5
            i += 1
        return x, a, b

    assert not fails(odd, X, N)


def test_a_list_in_a_loop_of_known_length():
    def collect(x):
        out = []
        for i in range(torch.tensor(5)):
            out.append(x * i)
        return out[0]

    def known(x):
        out, i = [], 0
        while i < 5:
            out.append(x * i)
            i += 1
        return out[0] + out[-1]

    assert fails(collect, X)
    assert not fails(known, X)


def test_a_branch_narrows():
    def inside(x, n):
        k = int(n)
        y = x[0]
        if k >= 0 and k < 4:
            y = x[k] @ x.t()
            y = y[:3]
        return y

    def outside(x, n):
        k = int(n)
        y = x[0]
        if k < 4:
            y = (x[k] @ x.t())[:3]
        return y

    assert not fails(inside, X, N)
    assert fails(outside, X, N)


def test_intervals():
    assert join((0, 3), (2, 9)) == (0, 9)
    assert meet((0, 3), (2, 9)) == (2, 3)
    assert meet((0, 1), (5, 9)) == (0, 1)  # cannot be: as it was


LOOP = """
f(%n: int) {{
  %0: int, %1: int = While(0, 5, %n, carried=2) {{
    cond(%2: int, %3: int, %4: int) {{
      %5: bool = py.{test}(%2, %4)
      return %5
    }}
    body(%6: int, %7: int, %8: int) {{
      %9: int = py.add(%6, {step})
      %10: int = py.{word}(%7, %6)
      return %9, %10
    }}
  }}
  %11: int = py.add(%0, 1)
  return %11, %1
}}
"""


@pytest.mark.parametrize(
    ("bound", "test", "step", "word", "sure"),
    [
        ((0, 100), "lt", 1, "min", {"py.add": 2, "py.min": 1}),
        ((0, 100), "lt", 1, "mul", {"py.add": 2}),  # a product with itself grows
        (ANY, "lt", 1, "min", {"py.add": 2, "py.min": 1}),  # FOREVER
        (ANY, "le", 1 << 40, "max", {"py.max": 1}),
        ((0, 100), "lt", 1 << 60, "max", {"py.add": 2, "py.max": 1}),  # it ends at once
        ((0, 100), "lt", -1, "max", {"py.add": 2, "py.max": 1}),  # slow
    ],
)
def test_loops(bound, test, step, word, sure):
    graph = parse_graph(LOOP.format(test=test, step=step, word=word))
    found: dict[str, int] = {}
    for node in safe(graph, {graph.inputs[0]: bound}):
        found[node.op] = found.get(node.op, 0) + 1
    assert found == sure
