"""Gradient hooks in a function: for gradients that are taken inside and outside of it."""

import warnings

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64


def argument(h):
    h.register_hook(lambda g: g * 5)
    y = h.sin()
    for _ in range(torch.tensor(2)):
        y = y * h
    return y


def intermediate(x):
    y = x * 2
    y.register_hook(lambda g: g.clamp(-0.5, 0.5))
    return y.sin() + y


def used_before(x):
    y = x * 2
    z = y.exp()
    y.register_hook(lambda g: g * 3)
    return z * y


def in_a_loop(x):
    for i in range(torch.tensor(3)):
        x = torch.tanh(x * 1.5)
        x.register_hook(lambda g, x=x.detach(), i=i: g * 2 + x * i)
    return x


def in_a_branch(x):
    if x.sum() > 0:
        y = x * x
        y.register_hook(lambda g: -g)
    else:
        y = x.sin()
    return y


def decides(x):
    def hook(g):
        if g.norm() > 1:
            return g / g.norm()
        return None

    y = x * 4
    y.register_hook(hook)
    return y.square()


def several(x):
    y = x * 2
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 10)
    return y.sin()


def uses_earlier_values(x):
    y = x * 2
    scale = y.detach().abs().max()
    y.register_hook(lambda g: g * scale)
    return y * y


def removed(x):
    y = x * 2
    handle = y.register_hook(lambda g: g * 100)
    z = y.sin()
    handle.remove()
    return z + y


def written_later(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.add_(1)
    y[0] = 2
    return y.cos()


PROGRAMS = [argument, intermediate, used_before, in_a_loop, in_a_branch, decides, several, uses_earlier_values, removed, written_later]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradient_outside_and_inside(f):
    @tg.function
    def inside(x):
        return torch.autograd.grad(f(x).sum(), x)[0]

    staged = tg.function(f)
    for sign in (1, -1):
        found = []
        for g in (f, staged):
            x = (sign * torch.linspace(0.2, 0.9, 3, dtype=D)).requires_grad_()
            (first,) = torch.autograd.grad(g(x).sum(), x, create_graph=True)
            found.append((first, *torch.autograd.grad((first * first).sum(), x)))
        torch.testing.assert_close(*found)
        torch.testing.assert_close(inside(x.detach().requires_grad_()), found[0][0])
    assert staged.trace_count == inside.trace_count == 1


def test_retained_gradients():
    def f(x):
        y = x * 3
        y.retain_grad()
        z = y.sin()
        z.retain_grad()
        z.square().sum().backward()
        return y.grad, z.grad, x.grad

    found = [g(torch.ones(2, dtype=D, requires_grad=True)) for g in (f, tg.function(f))]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_retained_gradient_is_what_hooks_leave(sign):
    def f(x):
        y = x * 2
        z = x * 3 if x.sum() > 0 else x.sin()
        y.register_hook(lambda g: g * 3)
        y.retain_grad()
        z.retain_grad()
        z.register_hook(lambda g: g * 5)
        (y * z).sum().backward()
        return y.grad, z.grad, x.grad

    x = torch.full((2,), sign, dtype=D)
    found = [g(x.clone().requires_grad_()) for g in (f, tg.function(f))]
    torch.testing.assert_close(*found)


def picked_leaf(x, c):
    z = x if c else x * 2
    z.register_hook(lambda g: g * 3)
    return z * z


def without_history(x, c):
    z = x * 3 if c else x.detach() * 2
    z.register_hook(lambda g: g * 3)
    return z * x


def hook_removed(x, c):
    a = x * 3
    z = a if c else x * 2
    z.register_hook(lambda g: g * 3).remove()
    return z * a


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("f", [picked_leaf, without_history, hook_removed])
def test_of_a_tensor_that_a_run_picks(f, mode):
    def outcome(g, c):
        x = torch.ones(2, requires_grad=True)
        try:
            with mode():
                y = g(x, torch.tensor(c))
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return y.tolist(), torch.autograd.grad(y.sum(), x)[0].tolist() if y.requires_grad else None

    staged = tg.function(f)
    for c in (True, False):
        assert outcome(staged, c) == outcome(f, c)


def test_hooks_of_parameters():
    found = []
    for convert in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 3, dtype=D)
        net.weight.register_hook(lambda g: g * 2)

        def step_now(p):
            with torch.no_grad():
                p.sub_(p.grad)

        net.bias.register_post_accumulate_grad_hook(step_now)

        def step(x, net=net):
            net(x).sin().sum().backward()

        (tg.function(step) if convert else step)(torch.ones(2, 3, dtype=D))
        found.append([net.weight.detach(), net.bias.detach(), net.weight.grad, net.bias.grad])
    torch.testing.assert_close(*found)


def test_a_hook_under_a_condition_is_refused():
    @tg.function
    def f(x):
        y = x * 2
        if x.sum() > 0:
            y.register_hook(lambda g: g * 2)
        return y

    with pytest.raises(GradientError, match="inside of a staged branch or loop") as caught:
        f(torch.ones(2, requires_grad=True))
    assert "register_hook(lambda" in str(caught.value)


def test_a_hook_on_an_outer_tensor_is_refused():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(x):
        w.register_hook(lambda g: g * 2)
        return x * w

    with pytest.raises(GradientError, match="outside of the function"):
        f(torch.ones(2))


def test_a_hook_with_an_effect():
    seen = []

    def inside(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g))
        return y.sum()

    with pytest.raises(GradientError, match="changes 'a list'"):
        tg.function(inside)(torch.ones(2, requires_grad=True)).backward()
    assert not seen


def trained_with_hooks(decorator):
    """What the hooks of modules see and what they make of it, in steps that train; or the error."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    net.append(torch.nn.Identity())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    seen = []

    def scaled(module, given, grads):
        seen.append(grads[0].norm())
        return (given[0] * 0.5,) if grads[0].norm() > 0.1 else None

    net[2].register_full_backward_hook(scaled)
    net[0].register_full_backward_hook(lambda m, given, grads: seen.append(grads[0].sum()))
    net[1].register_full_backward_pre_hook(lambda m, grads: (grads[0].clamp(-0.05, 0.05),))
    net[3].register_full_backward_hook(lambda m, given, grads: (given[0] * 2,))

    @decorator
    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    found = [step(torch.randn(4, 3)) for _ in range(3)]
    return found, [x.detach() for x in seen], [p.detach() for p in net.parameters()]


def test_backward_hooks_of_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no input of the first module requires a gradient
        got, want = trained_with_hooks(tg.function), trained_with_hooks(lambda f: f)
    torch.testing.assert_close(got, want)


def test_backward_hooks_of_modules_in_a_branch():
    net = torch.nn.Linear(2, 2)
    net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3,))
    w = torch.ones(2, requires_grad=True)

    def in_a_branch(x):
        y = net(x * w) if x.sum() > 0 else x * w
        return torch.autograd.grad(y.sum(), w)[0]

    converted = tg.function(in_a_branch)
    for x in (torch.ones(1, 2), -torch.ones(1, 2)):
        torch.testing.assert_close(converted(x), in_a_branch(x))


def test_old_backward_hooks_of_modules_are_refused():
    net = torch.nn.Linear(2, 2)
    net.register_backward_hook(lambda module, grad_input, grad_output: None)
    with pytest.raises(GradientError, match="register_full_backward_hook"):
        tg.function(lambda x: net(x))(torch.ones(1, 2, requires_grad=True))


def fixed_point(x):
    """The gradient at a fixed point, by a loop of its own; the hook works on a copy that is computed from the tensor itself."""

    def step(z):
        return torch.tanh(z * 0.3 + x)

    with torch.no_grad():
        z = torch.zeros_like(x)
        while (step(z) - z).norm() > 1e-9:
            z = step(z)
    z = step(z)
    copy = z.clone().detach().requires_grad_()
    value = step(copy)

    def hook(g):
        y = g
        while (made := torch.autograd.grad(value, copy, y, retain_graph=True)[0] + g).sub(
            y
        ).norm() > 1e-9:
            y = made
        return made

    z.register_hook(hook)
    return z


def test_a_hook_that_uses_what_was_computed_from_its_tensor():
    found = []
    for g in (fixed_point, tg.function(fixed_point)):
        x = torch.linspace(-1, 1, 4, dtype=D, requires_grad=True)
        y = g(x)
        found.append((y.detach(), *torch.autograd.grad((y**2).sum(), x)))
    torch.testing.assert_close(*found)


def test_a_gradient_that_passes_by_a_hook_is_refused():
    @tg.function
    def f(x):
        y = x * 2
        z = y.sin()
        scale = z.detach()
        y.register_hook(lambda g: g * scale)
        return y.sum() + z.sum() if x[0] > 0 else y.sum()

    x = torch.ones(2, dtype=D, requires_grad=True)
    with pytest.raises(GradientError, match="pass by|by way of"):
        torch.autograd.grad(f(x), x)


def test_behind_a_try_of_which_only_the_body_goes_on():
    """What such a tensor requires does not depend on the path: a branch of it is none, and may register a hook."""

    def f(x):
        try:
            y = x.exp().sum()
            if y > 100:
                raise ValueError("large")
        except ValueError as e:
            raise RuntimeError("too large") from e
        if y.requires_grad:
            y.register_hook(lambda g: g * 3)
        return y * 2

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    f(x).backward()
    tg.function(f)(y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def on_a_result(x):
    x.register_hook(lambda g: g * 2)
    return x, (x * x).sum()


def on_what_is_kept(x):
    x.register_hook(lambda g: None)
    x.register_hook(lambda g: g * 2)
    return {"given": [x]}


@pytest.mark.parametrize("f", [on_a_result, on_what_is_kept])
def test_a_hook_of_an_argument_that_leaves_is_refused_at_its_line(f):
    with pytest.raises(GradientError, match="on an argument, which the function returns") as error:
        tg.function(f)(torch.ones(2, requires_grad=True))
    assert "test_hooks.py" in str(error.value)


def test_a_hook_behind_the_list_that_holds_its_leaf():
    def f(x, n):
        w = x.detach().requires_grad_()
        xs = []
        for _ in range(n):
            xs.append(w)
        w.register_hook(lambda g: g + 1)
        (torch.sin(xs[0]) * x).sum().backward()
        return w.grad

    x = torch.tensor([0.5, -2.0], requires_grad=True)
    assert torch.allclose(tg.function(f)(x, torch.tensor(2)), f(x, 2))


def test_a_hook_of_an_item_is_refused():
    @tg.function
    def f(x, n):
        w = x.detach().requires_grad_()
        xs = [w]
        for _ in range(n):
            xs.append(x)
        xs[0].register_hook(lambda g: g * 2)
        w.sum().backward()
        return w

    with pytest.raises(GradientError, match="may be an item of a list") as error:
        f(torch.ones(2), torch.tensor(2))
    assert "test_hooks.py" in str(error.value)
