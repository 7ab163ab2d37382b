"""Leaves that a function makes and returns with what it computes of them: outside, the histories of the results lead to them."""

import pytest
import torch

import tograph as tg


def product(x, n):
    w = torch.ones(2, requires_grad=True)
    return w, w * 2


def parameter(x, n):
    w = torch.nn.Parameter(torch.zeros(2))
    loss = ((w - x) ** 2).sum()
    if n > 1:
        loss = loss * 2
    return {"w": w, "losses": [loss]}


def used_before(x, n):
    w = x.clone()
    y = w * w
    w.requires_grad_()
    return w, y.detach() * w


def by_hand(x, n):
    w = torch.zeros(2, requires_grad=True)
    for _ in range(n):
        (g,) = torch.autograd.grad(((w - x) ** 2).sum(), w)
        with torch.no_grad():
            w -= 0.1 * g
    return w, (w * x).sum()


def by_an_optimizer(x, n):
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(0.1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(n):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()
    return layer.weight, layer.bias, layer(x).sum()


def with_a_gradient(x, n):
    w = torch.zeros(2, requires_grad=True)
    if n > 1:
        (w * x).sum().backward()
    return w, w.sum() * x.sum()


def without(x, n):
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = w * 2
    return w, y


def written(x, n):
    w = torch.ones(2, requires_grad=True)
    v = torch.zeros(2).requires_grad_()
    y = w + x
    with torch.no_grad():
        w.add_(1)
        w[0] = 4.0
        v -= 0.5
    return w, v, y + w * x, v * x


def by_steps_of_a_python_loop(x, n):
    w = torch.zeros(2, requires_grad=True)
    for _ in range(2):
        (g,) = torch.autograd.grad(((w - x.detach()) ** 2).sum(), w)
        with torch.no_grad():
            w -= 0.1 * g
    return w, w * x


FUNCTIONS = [
    product, parameter, used_before, by_hand, by_an_optimizer, with_a_gradient, without, written, by_steps_of_a_python_loop,
]  # fmt: skip


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result
    return [x for part in parts for x in tensors(part)]


def seen(f, n, grad):
    """What can be seen of two calls: flags, values, fields, and gradients that are taken outside."""
    rows = []
    for _ in range(2):
        x = torch.tensor([0.3, 0.4], requires_grad=grad)
        found = tensors(f(x, torch.tensor(n)))
        flags = [(y.requires_grad, y.is_leaf, type(y), y.is_leaf and y.grad is None) for y in found]
        leaves = [y for y in found if y.is_leaf and y.requires_grad]
        sum(y.sum() for y in found if y.requires_grad).backward()
        rows.append((flags, [y.detach() for y in found], [y.grad for y in leaves], x.grad))
    return rows


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n, grad", [(0, False), (1, True), (3, False)])
def test_as_in_eager(f, n, grad):
    for got, want in zip(seen(tg.function(f), n, grad), seen(f, n, grad), strict=True):
        assert got[0] == want[0]
        torch.testing.assert_close(got[1:], want[1:])


def test_each_call_makes_its_own():
    function = tg.function(product)
    first, second = (function(torch.ones(2), torch.tensor(0)) for _ in range(2))
    first[1].sum().backward()
    assert first[0] is not second[0]
    assert second[0].grad is None


def test_second_order():
    def f(x):
        w = torch.full((2,), 3.0, requires_grad=True)
        return w, (w * w * x).sum()

    def second(f):
        x = torch.tensor([0.3, 0.4], requires_grad=True)
        w, y = f(x)
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        return torch.autograd.grad((g * g).sum(), [w, x])

    torch.testing.assert_close(second(tg.function(f)), second(f))


def of_one_memory(x):
    w = torch.ones(2, requires_grad=True)
    return w, w.detach(), w.detach()[1:], w.view(1, 2), w * x


def without_other_results(x):
    w = torch.zeros(2, requires_grad=True)
    return w, w.detach()


def constants(x):
    y = torch.tensor([1.0, 2.0, 3.0])
    return y, y.detach(), y[1:], y.view(3, 1)[2]


@pytest.mark.parametrize("f", [of_one_memory, without_other_results, constants])
def test_results_share_memory(f):
    found = []
    for g in (f, tg.function(f)):
        results = g(torch.tensor([0.3, 0.4]) if f is not constants else torch.ones(2))
        with torch.no_grad():
            results[0].add_(1)
            results[1].mul_(2)
        shared = [y.untyped_storage().data_ptr() == results[0].untyped_storage().data_ptr() for y in results]  # fmt: skip
        found.append((shared, [y.detach() for y in results], [y.requires_grad for y in results]))
    torch.testing.assert_close(*found)


def by_name(w):
    with torch.no_grad():
        w.add_(1)


def by_data(w):
    w.data.add_(1)


@pytest.mark.parametrize("write", [by_name, by_data])
@pytest.mark.parametrize("order", [1, 2])
def test_a_leaf_that_is_written_before_its_gradient(write, order):
    def f(x):
        w = x.detach().clone().requires_grad_()
        return w, (w**order).sum()

    found = []
    for g in (f, tg.function(f)):
        w, y = g(torch.tensor([0.3, 0.4]))
        write(w)
        try:
            found.append(torch.autograd.grad(y, w)[0].tolist())
        except RuntimeError as error:
            found.append(str(error)[:80])
    assert found[0] == found[1]


def from_an_argument(x, n):
    for _ in range(n):
        (g,) = torch.autograd.grad((x * x).sum(), x)
        x = (x - 0.1 * g).detach().requires_grad_()
    return x


def or_what_was_computed(x, n):
    return {"w": x.detach().requires_grad_() if n > 1 else x * 2, "x": x}


def or_no_leaf(x, n):
    w = x.detach()
    if n > 1:
        w = torch.nn.Parameter(w - 1) if n > 2 else (w - 2).requires_grad_()
    return [w, x * 1]


def one_of_two(x, n):
    a, b = x.detach().requires_grad_(), (x * 2).detach().requires_grad_()
    w = a if n > 1 else b
    (w * w).sum().backward()
    return [w, x * 1]


@pytest.mark.parametrize("f", [from_an_argument, or_what_was_computed, or_no_leaf, one_of_two])
def test_a_leaf_on_some_paths(f):
    converted = tg.function(f)
    for n in range(4):
        found = []
        for g in (f, converted):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            out = torch.utils._pytree.tree_leaves(g(x, torch.tensor(n)))
            told = [(y.requires_grad, y.is_leaf, y is x) for y in out]
            sum(y.sum() for y in out if y.requires_grad).backward()
            found.append((told, [*out, x.grad, *(y.grad for y in out if y.is_leaf)]))
        (want, values), (got, others) = found
        assert got == want
        torch.testing.assert_close(others, values)
