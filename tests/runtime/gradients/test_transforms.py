"""torch.func over functions: forward mode, vmap with predicates and trip counts of their own, jacobians, hessians."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad

import tograph as tg
from tograph.errors import UnsupportedOpError


def cube(x, n):
    y = x
    for _ in range(n):
        y = y * x
    return y


def branch(x):
    return x.sin() * 2 if x.sum() > 0 else x * x


def search(x):
    """A trip count and a branch that depend on the example."""
    k, y = 0, x
    while y.abs().sum() < 10:
        y = y * 1.5 + 0.1
        if y[0] > 2:
            y = y + x
        k += 1
    return y, k


def nested(x):
    total = x * 0
    for i in range(3):
        z = x + i
        while z.sum() < 4:
            z = z * 2 + 1
            if z[1] > 3:
                break
        total = total + z.sin()
    return total


X = torch.tensor([[1.0, 2.0], [-3.0, 0.5], [0.2, -0.1], [4.0, 9.0]], dtype=torch.float64)


@pytest.mark.parametrize("f", [branch, search, nested])
def test_vmap(f):
    got = func.vmap(tg.function(f))(X)
    rows = [f(x) for x in X]
    rows = [r if isinstance(r, tuple) else (r,) for r in rows]
    got = got if isinstance(got, tuple) else (got,)
    for k, column in enumerate(zip(*rows)):
        torch.testing.assert_close(got[k], torch.stack([torch.as_tensor(c) for c in column]))


@pytest.mark.parametrize("f", [branch, nested])
@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd, func.hessian])
def test_jacobians(transform, f):
    for x in X[:3]:
        torch.testing.assert_close(transform(tg.function(f))(x), transform(f)(x))


def test_jvp():
    t = torch.tensor(2)
    f = tg.function(lambda x: cube(x, t))
    assert [v.item() for v in func.jvp(f, (torch.tensor(3.0),), (torch.tensor(1.0),))] == [27, 27]
    with forward_ad.dual_level():
        y = f(forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0)))
        assert forward_ad.unpack_dual(y).tangent.item() == 27


def test_dual_tensors_after_many_plain_calls():
    plain, held = tg.function(lambda x: x * 2), tg.function(lambda d: {"y": d["x"] * 2})
    x = torch.tensor([1.0, 2.0])
    for _ in range(8):
        plain(x)
        held({"x": x})
    for _ in range(2):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(2))
            for y in (plain(dual), held({"x": dual})["y"]):
                assert forward_ad.unpack_dual(y).tangent.tolist() == [2, 2]
        assert torch.equal(plain(x), x * 2)


def test_grad_of_vmap_and_vmap_of_grad():
    f = tg.function(nested)
    want = torch.stack([func.grad(lambda v: nested(v).sum())(x) for x in X])
    torch.testing.assert_close(func.vmap(func.grad(lambda v: f(v).sum()))(X), want)
    torch.testing.assert_close(func.grad(lambda v: func.vmap(f)(v).sum())(X), want)


def test_vjp():
    f = tg.function(branch)
    for x in X:
        value, pull = func.vjp(f, x)
        torch.testing.assert_close(value, branch(x))
        torch.testing.assert_close(pull(x), func.vjp(branch, x)[1](x))


def test_effects_under_a_condition_of_each_example_are_refused():
    @tg.function
    def f(x):
        if x.sum() > 0:
            print("positive")
        return x

    with pytest.raises(UnsupportedOpError, match="differs between examples"):
        func.vmap(f)(X)


def test_tracing_under_a_transform_is_tracing():
    f = tg.function(branch)
    func.vmap(f)(X)
    f(X[0])
    assert f.trace_count == 1


class Tenfold(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 10


@tg.custom_gradient
def fivefold(x):
    return x * x, lambda d: d * x * 5


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 7)
    return y.sin()


@pytest.mark.parametrize(
    "f, factor",
    [(Tenfold.apply, 10), (fivefold, 5), (hooked, None)],
    ids=["Function", "custom", "hook"],
)
def test_gradients_of_the_users_own(f, factor):
    def total(x):
        if x.sum() > 0:
            return f(x).sum()
        return x.sum() * 0

    x = X[0]
    want = 14 * (2 * x).cos() if factor is None else x * factor
    for g in (tg.function(total), tg.function(lambda x: total(x))):
        torch.testing.assert_close(func.grad(g)(x), want)
        torch.testing.assert_close(func.vmap(func.grad(g))(X)[0], want)
        torch.testing.assert_close(func.jacrev(g)(x), want)


def of_a_root(x):
    return x.sqrt() if x > 0 else x * 2


def of_a_quotient(x):
    return x.log() if x > 0 else (1 / x if x < 0 else x * 3)


def repeated_roots(x):
    y = x
    while y > 1.5:
        y = (y - 1).sqrt()
    return y * y


def a_loop_that_ends_for_those_in_the_branch(x):
    y = x
    if x > 0:
        while y < 10:
            y = y * 2
    return y


def asserted_in_a_branch(x):
    if x > 0:
        assert x < 30
        return x.log()
    return x * 2


def asserted(x):
    assert x < 30
    return x * 2


@pytest.mark.parametrize(
    "f",
    [of_a_root, of_a_quotient, repeated_roots, a_loop_that_ends_for_those_in_the_branch, asserted_in_a_branch, asserted],
    ids=lambda f: f.__name__,
)  # fmt: skip
@pytest.mark.parametrize("order", [0, 1, 2])
def test_examples_are_alone(f, order):
    """What one example does not run gives it no NaN and no error."""
    xs = torch.tensor([1.0, 0.0, 4.0, -1.0, 20.0], dtype=torch.float64)
    g, h = f, tg.function(f)
    for _ in range(order):
        g, h = torch.func.grad(g), torch.func.grad(h)
    torch.testing.assert_close(torch.func.vmap(h)(xs), torch.stack([g(x) for x in xs]))


@pytest.mark.parametrize("f", [asserted_in_a_branch, asserted], ids=lambda f: f.__name__)
def test_one_example_fails(f):
    with pytest.raises(AssertionError):
        torch.func.vmap(tg.function(f))(torch.tensor([1.0, 40.0, -1.0]))
