"""torch.func.vmap inside of a function, over code with staged conditions: as a loop over the examples gives it."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

import tograph as tg

D = torch.float64


def stacked(f, *xs):
    """``vmap`` as plain Python: torch refuses conditions of what it maps."""
    return torch.stack([f(*rows) for rows in zip(*xs)])


def by_all(x, c):  # a condition that is the same for all examples: torch takes it
    a, b = x[0] * 2, x[1] * 3
    return vmap(lambda r: (r * a).sin() if c > 0 else r.exp() * b)(x)


def several_times(x, c):
    n = c.abs().to(torch.int64) + 2

    def f(r):
        for i in range(n):
            r = r * c + i
        return r

    return vmap(f)(x)


def in_a_loop(x, c):
    t = x.sum() * 0
    for _ in range(torch.tensor(3)):
        t = t + vmap(lambda r: r.sum() * t.cos() if c > 0 else r.sum())(x).sum()
    return t


def per_example_gradients(x, c):
    return vmap(grad(lambda r: (r**3 * c).sum() if c > 0 else (r**2).sum()))(x)


def decorated(x, c):
    @vmap
    def f(r):
        return r if c > 0 else -r * r

    return f(x)


def dimensions(x, c):
    return vmap(lambda r, k: (r * c if k > 1 else r, x[0] * c) if c > 0 else (-r, x[0]), (1, None), (-1, None))(x, 3)[0]  # fmt: skip


def chunks(x, c):
    return vmap(lambda r: r.softmax(0)[:2].sum() if c > 0 else r.prod(), chunk_size=2)(x)


def written(x, c):
    y = x * 2

    def f(r):
        r[0] = c if c > 0 else r[1] * 2
        r.mul_(2)
        return r.sin()

    return vmap(f)(y) + y


NATIVE = [by_all, several_times, in_a_loop, per_example_gradients, decorated, dimensions, chunks, written]  # fmt: skip


def arguments(sign):
    torch.manual_seed(3)
    return torch.rand(4, 3, dtype=D, requires_grad=True), torch.tensor(0.7 * sign, dtype=D, requires_grad=True)  # fmt: skip


def same(f, native):
    """Values and gradients where a condition holds and where it does not, by one trace."""
    staged, found = tg.function(f), []
    for g in (native, staged):
        for sign in (1, -1):
            args = arguments(sign)
            y = g(*args)
            assert y.requires_grad
            found.append((y, torch.autograd.grad(y.sin().sum(), args, allow_unused=True)))
    assert staged.trace_count == 1
    torch.testing.assert_close(found[2:], found[:2])


@pytest.mark.parametrize("f", NATIVE)
def test_conditions_that_are_the_same_for_all(f):
    same(f, f)


def choice(r, c):
    return r.sqrt() * c if r.sum() > 1.2 else r * r


def loop(r, c):
    k = 0
    while (r * r).sum() < 5 and k < 6:
        r = r * 1.5 + c.sin()
        k += 1
    return r


def root(r, c):
    z = r * 1.0
    while (z * z - r).abs().sum() > 1e-9:
        z = z - (z * z - r) / (2 * z)
    return z * c


def number(r, c):
    return r * c if r.sum().item() > 1.2 else r


def handler(r, c):
    try:
        if r.sum() > 1.2:
            raise ValueError("large")
        y = r * c
    except ValueError:
        y = r * r
    return y


def growing(r, c):
    xs = [r.sum() * 0]
    while r.sum() < 3:
        r = r * 1.5 + 0.1
        xs.append(r.sum() * c)
    return torch.stack(xs).sum()


def in_place(r, c):
    y = r.clone()
    if r[0] > 0.5:
        y.mul_(r[0] * c)
    return y


ONE = [choice, loop, root, number, handler, growing, in_place]


@pytest.mark.parametrize("f", ONE)
def test_conditions_of_each_example(f):
    def mapped(x, c):
        return vmap(f, in_dims=(0, None))(x, c)

    same(mapped, lambda x, c: torch.stack([f(r, c) for r in x]))


@pytest.mark.parametrize("f", [choice, loop, in_place, root])
def test_second_derivatives(f):
    def mapped(x, c):
        return vmap(f, in_dims=(0, None))(x, c)

    assert torch.autograd.gradgradcheck(tg.function(mapped), arguments(1))


def cubes(r):
    return (r**3).sum() if r.sum() > 1.2 else (r**2).sum()


OUTSIDE = vmap(grad(cubes))
CURVES = hessian(cubes)


def test_transforms_in_and_around():
    def f(x, c):
        return vmap(grad(cubes))(x), vmap(hessian(cubes))(x), jacrev(vmap(cubes))(x), OUTSIDE(x), CURVES(x[0])  # fmt: skip

    x, c = arguments(1)
    each = [stacked(grad(cubes), x), stacked(hessian(cubes), x), jacrev(lambda x: stacked(cubes, x))(x)]  # fmt: skip
    torch.testing.assert_close(tg.function(f)(x, c), (*each, each[0], hessian(cubes)(x[0])))


def test_vmap_in_vmap():
    def f(x, y):
        return vmap(lambda a, b: vmap(lambda u: u * b.sum() if u > b[0] else u)(a), in_dims=(0, 1))(x, y)  # fmt: skip

    x = arguments(1)[0].detach()
    expected = torch.where(x > x[:, :1], x * x.sum(1, keepdim=True), x)
    torch.testing.assert_close(tg.function(f)(x, x.T), expected)


def made_outside(f):
    return vmap(f), jacfwd(f), jacrev(f), grad(lambda r: f(r).sum())


def power(r):
    return r**3 if r.sum() > 1.2 else r**2


MAPPED, FORWARD, REVERSE, GRADIENT = made_outside(power)


def test_what_transforms_gave_outside_of_the_function():
    def f(x):
        return MAPPED(x), FORWARD(x[0]), REVERSE(x[0]), GRADIENT(x[0])

    x = arguments(1)[0].detach()
    expected = stacked(power, x), jacfwd(power)(x[0]), jacrev(power)(x[0]), GRADIENT(x[0])
    torch.testing.assert_close(tg.function(f)(x), expected)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).double()

    def forward(self, x):
        y = self.layer(x)
        return y.relu() if y.sum() > 0 else y


def test_gradients_of_a_module_for_each_example():
    torch.manual_seed(0)
    model, x = Gate(), torch.randn(4, 3, dtype=D)
    p = {k: v.detach() for k, v in model.named_parameters()}

    def one(p, r):
        return functional_call(model, p, (r,)).square().sum()

    found = tg.function(lambda p, x: vmap(grad(one), in_dims=(None, 0))(p, x))(p, x)
    for name in p:
        torch.testing.assert_close(found[name], torch.stack([grad(one)(p, r)[name] for r in x]))


def halved(w, r):
    y = (w * r).sum()
    while y.abs() > 0.5:
        y = y * 0.6 + 0.01 * w.sum()
    return y * y


def gathered(w, r):
    rows, y = [], (w * r).sum()
    while y.abs() > 0.5:
        rows.append(y)
        y = y * 0.5
    return torch.stack([*rows, y]).sum() * w[0]


@pytest.mark.parametrize("transform", [grad, jacfwd, hessian], ids=lambda t: t.__name__)
@pytest.mark.parametrize("f", [halved, gathered], ids=lambda f: f.__name__)
def test_derivatives_of_a_loop_for_each_example(f, transform):
    x, c = arguments(1)
    w, x = (x[0] * c).detach().requires_grad_(), x.detach()
    ways = [
        tg.function(lambda w, x: vmap(transform(f), in_dims=(None, 0))(w, x)),
        lambda w, x: torch.stack([transform(f)(w, r) for r in x]),
    ]
    found = [g(w, x) for g in ways]
    torch.testing.assert_close(*found)
    if transform is grad:
        torch.testing.assert_close(*(torch.autograd.grad(y.sin().sum(), w) for y in found))


def test_random_numbers():
    def f(x, c):
        return vmap(lambda r: r + torch.rand(3) if c > 0 else r, randomness="different")(x)

    found = []
    for g in (f, tg.function(f)):
        torch.manual_seed(0)
        found.append(g(torch.zeros(4, 3), torch.tensor(1.0)))
    torch.testing.assert_close(*found)


def test_errors_are_those_of_torch():
    def drawing(x, c):
        return vmap(lambda r: r + torch.rand(3) if c > 0 else r)(x)

    def number(x, c):
        return vmap(lambda r: r.sum().item() if c > 0 else 0.0)(x)

    x, c = torch.ones(4, 3), torch.tensor(1.0)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        tg.function(drawing)(x, c)
    with pytest.raises(ValueError, match=r"must only return Tensors, got type <class 'float'>"):
        tg.function(number)(x, c)


def test_effects_are_refused():
    seen, total, k = [], torch.zeros(()), 0

    def printing(r):
        if r.sum() > 1:
            print("large")
        return r

    def appending(r):
        seen.append(r.sum())
        return r if r.sum() > 1 else -r

    def counting(r):
        nonlocal k
        k += 1
        return r if r.sum() > 1 else -r

    def adding(r):
        if r.sum() > 1:
            total.add_(1)
        return r

    for f, text in ((printing, "prints"), (appending, "a list"), (counting, "'k'"), (adding, "a tensor")):  # fmt: skip
        with pytest.raises(tg.errors.UnsupportedOpError, match=text):
            tg.function(lambda x, f=f: vmap(f)(x))(torch.rand(4, 3))
    assert not seen and not k and total == 0
