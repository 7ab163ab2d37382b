"""Derivatives of ops over as many rows as the run selects, one and none among them."""

import pytest
import torch

import tograph as tg


def rows(x, some):
    return x[some].cumsum(0).square()


def by_keywords(x, some):
    return torch.cumsum(input=x[some].float(), dim=-2, dtype=torch.float64).sin()


def along_an_axis(x, some):
    y = x[some] if some.any() else None
    return torch.cumsum(x[some], axis=0).cos() if y is None else y.cumsum(axis=0).sin()


def products(x, some):
    y = x[some]
    return y.prod(0) + torch.prod(y, 1, keepdim=True).sum() + y.prod() + y.cumprod(0).sum(0)


def spreads(x, some):
    y = x[some]
    both = torch.var_mean(y, 0, unbiased=False) + torch.std_mean(y, 0, correction=0)
    return y.var(0) + torch.std(y, dim=0, keepdim=True) + torch.var(y, False) + sum(both)


def extremes(x, some):
    return torch.cummax(x[some], 0).values * x[some].cummin(0)[0]


def inside(x, some):
    return torch.autograd.grad(x[some].cumsum(0).pow(3).sum(), x, create_graph=True)[0]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize(
    "f", [rows, by_keywords, along_an_axis, products, spreads, extremes, inside]
)
def test_first_and_second_derivative(f):
    torch.manual_seed(0)
    staged = tg.function(f)
    for count in (3, 1, 2, 0, 1):
        x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
        some = torch.arange(3) < count
        found = []
        for g in (f, staged):
            (first,) = torch.autograd.grad(g(x, some).pow(2).sum(), x, create_graph=True)
            found.append([first, *torch.autograd.grad(first.pow(2).sum(), x)])
        tolerance = dict(rtol=1e-5, atol=1e-5)  # f32 sums in other orders
        torch.testing.assert_close(*found, **tolerance, equal_nan=True)
    assert staged.trace_count == 1


def test_of_a_known_size():
    @tg.function
    def f(x, c):
        y = x if c else None
        total = x.sum() if y is None else torch.cumsum(y, axis=0)
        return total, x.cumsum(axis=1), torch.cumsum(x, 0, dtype=torch.float64), x.cumsum(-1)

    x = torch.arange(6.0).reshape(2, 3)
    for c in (True, False):
        found = f(x, torch.tensor(c))
        expected = (
            x.cumsum(0) if c else x.sum(), x.cumsum(1), x.cumsum(0, dtype=torch.float64), x.cumsum(1),
        )  # fmt: skip
        torch.testing.assert_close(found, expected)


def test_products_with_zeros():
    some = torch.tensor([True, False, True, True, True])

    def f(x, some):
        return x[some].cumprod(0).sin() + x[some].prod(0).cos()

    for zeros in ([2], [0, 2], [3, 4], [0, 2, 4]):
        start = torch.linspace(0.5, 1.5, 10, dtype=torch.float64).reshape(5, 2)
        start[zeros, 0] = 0
        found = []
        for g in (f, tg.function(f)):
            x = start.clone().requires_grad_()
            (first,) = torch.autograd.grad(g(x, some).sum(), x, create_graph=True)
            found.append([first, *torch.autograd.grad(first.pow(2).sum(), x)])
            found[-1] += torch.autograd.grad(g(x, some).sum(), x)
        torch.testing.assert_close(*found)


def more_than_two(x, some):
    return x[some].var(correction=2) * 3 + torch.var_mean(x[some], correction=5)[0]


def deviation(x, some):
    return x[some].std(correction=2) + x[some].var(correction=1.5)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("f", [more_than_two, deviation])
def test_spreads_of_no_more_items_than_the_correction(f):
    staged = tg.function(f)
    for count in (4, 2, 1, 0):
        x = torch.tensor([1.0, 3.0, 2.0, 7.0], requires_grad=True)
        some = torch.arange(4) < count
        found = [torch.autograd.grad(g(x, some), x)[0] for g in (f, staged)]
        torch.testing.assert_close(*found, equal_nan=True)


@pytest.mark.parametrize("part", [slice(None, 1), slice(-1, None), slice(1, 2)])
def test_a_row_that_is_broadcast(part):
    w = torch.arange(12.0).reshape(4, 3)

    def f(x, some):
        row = x[some][part]
        return (row.expand(4, 3) * w).sum() + (row * x[some]).sin().sum()

    staged = tg.function(f)
    for count in (3, 4, 2):
        x = torch.rand(4, 3, requires_grad=True)
        some = torch.arange(4) < count
        found = [torch.autograd.grad(g(x, some), x) for g in (f, staged)]
        torch.testing.assert_close(*found)


def test_a_size_of_one_that_is_broadcast_is_no_silent_difference():
    w = torch.ones(3, 2)

    @tg.function(input_signature=[tg.TensorSpec([None, 2], torch.float32)] * 2)
    def f(x, y):
        return torch.autograd.grad((x * y + x * w).sin().sum(), x)[0]

    x = torch.rand(3, 2, requires_grad=True)
    assert f(x, x.detach()).shape == (3, 2)
    with pytest.raises(tg.errors.UnexpectedSizeError):
        f(x[:1].detach().requires_grad_(), x.detach())


def roots(x, some):
    return x[some].abs().sqrt().sum() * x.sum()


def test_orders_of_absolute_values():
    for order in range(1, 4):
        found = []
        for f in (roots, tg.function(roots)):
            x = torch.tensor([1.0, -3.0, 2.0, 7.0], requires_grad=True)
            y = f(x, x != 2)
            for _ in range(order):
                (g,) = torch.autograd.grad(y, x, create_graph=True)
                y = (g * g).sum()
            found.append(g.detach())
        torch.testing.assert_close(*found)
