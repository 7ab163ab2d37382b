"""What ``vmap`` runs for one example after the other, with other transforms around and inside of it: as a loop over the examples."""

import pytest
import torch
from torch import func

import tograph as tg
from tograph.errors import UnsupportedOpError

D = torch.float64
X = torch.tensor([[0.3, 0.8, 0.1], [-0.3, 0.5, 0.2], [1.2, 1.1, 0.9]], dtype=D)
W = torch.tensor([0.5, 1.5, -0.7], dtype=D)


def caught(x):
    try:
        if x.sum() > 1:
            raise ValueError("large")
        y = x.sin()
    except ValueError:
        y = x * x * 3
    return y


def lists(x):
    rows = [x, W]
    while rows[-1].sum() < 3:
        rows.append(rows[-1] * 1.3 + 0.1)
        rows[0] = rows[-1] * x
    return rows[0] * len(rows)


def writes(x):
    y, i = x.clone(), 0
    while y.sum() < 4:
        y[i % 3] += 1 + x[0].sin()
        y[: i % 3 + 1] *= 1.1
        i += 1
    return y * y


def selected(x):
    y = x[x > 0.25]
    return x * y.sum() * len(y)


def rows(f):
    return lambda xs: torch.stack([f(x) for x in xs])


FUNCTIONS = [caught, lists, writes, selected]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_transforms_around_and_inside(f):
    g = tg.function(f)
    torch.testing.assert_close(func.vmap(g)(X), rows(f)(X))
    torch.testing.assert_close(func.vmap(g, in_dims=1, out_dims=1)(X.t()), rows(f)(X).t())
    pairs = torch.stack([X, X * 0.7])
    torch.testing.assert_close(func.vmap(func.vmap(g))(pairs), rows(rows(f))(pairs))
    for transform in (func.jacrev, func.jacfwd, func.hessian):
        torch.testing.assert_close(func.vmap(transform(g))(X), rows(transform(f))(X))
    total = func.grad(lambda x: func.vmap(g)(x).square().sum())(X)
    torch.testing.assert_close(total, rows(func.grad(lambda x: f(x).square().sum()))(X))
    value, tangent = func.jvp(func.vmap(g), (X,), (X * 2,))
    want = [func.jvp(f, (x,), (x * 2,)) for x in X]
    torch.testing.assert_close((value, tangent), tuple(map(torch.stack, zip(*want))))


def test_autograd_around_it_to_the_second_order():
    found = []
    for f in (func.vmap(tg.function(lists)), rows(lists)):
        x = X.clone().requires_grad_()
        [first] = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), x)])
    torch.testing.assert_close(*found)


def test_effects_are_refused():
    @tg.function
    def f(x):
        try:
            if x.sum() > 1:
                raise ValueError
            x = x + torch.rand(3, dtype=D)
        except ValueError:
            pass
        return x

    with pytest.raises(UnsupportedOpError, match="differs between examples"):
        func.vmap(f, randomness="different")(X)


def test_a_list_that_leaves_with_a_length_of_each_example_is_refused():
    @tg.function
    def f(x):
        out = []
        while x.sum() < 3:
            x = x * 1.3 + 0.1
            out.append(x)
        return out

    with pytest.raises(UnsupportedOpError, match="differs between examples"):
        func.vmap(f)(X)


def test_numbers_of_the_run_are_tensors():
    @tg.function
    def f(x):
        n = 0
        while x.sum() < 5:
            x = x * 1.5 + 1
            n += 1
        return n, n * 0.5

    for x in (X, X[:1], X[:1] + 9):  # that differ, that are the same, and of no iteration
        want = [f(row) for row in x]
        got = func.vmap(f)(x)
        assert [v.tolist() for v in got] == [[r[0] for r in want], [r[1] for r in want]]


def test_a_write_of_one_item_to_the_second_order():
    """torch's own ``select_scatter`` is wrong there, which eager PyTorch does not use."""

    def f(x):
        y = x.clone()
        y[0] += x[0].sin() * x[1]
        return y

    want = func.hessian(f)(X[0])
    for transform in (func.hessian, lambda g: func.jacrev(func.jacfwd(g))):
        torch.testing.assert_close(transform(tg.function(f))(X[0]), want)


def test_errors_of_torch_stay_what_they_are():
    def f(x):
        return x + torch.rand(3, dtype=D)

    for g in (f, tg.function(f)):
        with pytest.raises(RuntimeError, match="randomness"):
            func.vmap(g)(X)
