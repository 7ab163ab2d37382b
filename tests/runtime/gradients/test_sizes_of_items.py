"""Gradients of lists and arrays whose items differ in size, change it, or become more; and of what is written through a view with strides of its own."""

import pytest
import torch

import tograph as tg
from tests.random_functions import eager

D = torch.float64


def replaced_by_a_longer_one(x, w, n):
    rows = []
    for i in range(n + 1):
        rows.append((x * (i + 1) @ w).sin())
    rows[0] = torch.cat([x, w[0]])
    return torch.cat(rows)


def replaced_in_a_loop(x, w, n):
    rows = []
    for i in range(n + 1):
        rows.append((x * (i + 1) @ w).sin())
    for i in range(n):
        rows[i] = torch.cat([rows[i], rows[i + 1]])
    return torch.cat(rows)


def piece_replaced(x, w, n):
    cells = tg.TensorArray(D, size=3, infer_shape=False, element_shape=[None])
    cells = cells.split(torch.cat([x, w[0], w[1, :1]]), [2, 1, 2]).write(1, x * n)
    return cells.concat()


def array_that_grows(x, w, n):
    cells = tg.TensorArray(D, size=0, dynamic_size=True).unstack(w)
    for i in range(n):
        cells = cells.write(i + 2, x * cells.read(i).sin())
    return cells.stack().sum(0) * cells.read(0)


def pieces_that_become_more(x, w, n):
    cells = tg.TensorArray(D, dynamic_size=True, infer_shape=False, element_shape=[None])
    cells = cells.split(torch.cat([x, w[0]]), [3, 1])
    for i in range(n):
        cells = cells.write(i + 2, x.sin())
    return cells.concat()


def inserted(x, w, n):
    rows = [x, w[0]]
    for i in range(n):
        rows.insert(0, rows[-1] * x + i)
        rows.append(rows.pop(1).sin())
    return torch.stack(rows).square().sum(0)


def strided(x, w, n):
    y = torch.cat([w, w * 2])
    for _ in range(n):
        y.as_strided((2,), (3,), 1).mul_(x)
    return y.sum(0)


FUNCTIONS = [
    replaced_by_a_longer_one, replaced_in_a_loop, piece_replaced, array_that_grows, pieces_that_become_more, inserted, strided,
]  # fmt: skip


def orders(f, n):
    """The value and the gradients of the orders 1 and 2."""
    torch.manual_seed(2)
    wrt = [torch.rand(size, dtype=D, requires_grad=True) for size in ((2,), (2, 2))]
    y = f(*wrt, torch.tensor(n))
    first = torch.autograd.grad(y.sin().sum(), wrt, create_graph=True, materialize_grads=True)
    total = sum((d * d).sum() for d in first)
    return [y, *first, *torch.autograd.grad(total, wrt, materialize_grads=True)]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_orders(f):
    g = tg.function(f)
    for n in (0, 1, 2):
        torch.testing.assert_close(orders(g, n), eager(lambda n=n: orders(f, n)))


def test_places_that_the_run_knows():
    @tg.function
    def f(x, n):
        cells = tg.TensorArray(torch.float32, size=3).unstack(x)
        return cells.gather([n, 0]), cells.gather([])

    x = torch.arange(6.0).view(3, 2)
    found, none = f(x, torch.tensor(2))
    assert found.tolist() == [[4, 5], [0, 1]] and none.shape == (0, 2)
