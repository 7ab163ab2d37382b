"""Programs that learn: meta-learning, a fixed point with an implicit gradient, an adaptive solver, unrolled optimisers.

Each is made twice, natively and converted: losses, gradients and parameters agree.
"""

import pytest
import torch

import tograph as tg

D = torch.float64


def maml(decorator):
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)

    def task(net, params, x, y):
        return ((torch.func.functional_call(net, params, (x,)) - y) ** 2).mean()

    @decorator
    def step(amps, phases, n):
        opt.zero_grad()
        total = torch.zeros((), dtype=D)
        for k in range(4):
            x = torch.linspace(-1, 1, 10, dtype=D)[:, None]
            y = amps[k] * torch.sin(x + phases[k])
            fast = {k_: v for k_, v in net.named_parameters()}
            for i in range(n):
                g = torch.autograd.grad(
                    task(net, fast, x, y), list(fast.values()), create_graph=True
                )
                fast = {k_: v - 0.1 * d for (k_, v), d in zip(fast.items(), g)}
            total = total + task(net, fast, x, y)
        total.backward()
        opt.step()
        return total.detach()

    losses = [
        step(torch.rand(4, dtype=D), torch.rand(4, dtype=D), torch.tensor(2 + i % 2))
        for i in range(4)
    ]
    return losses, [p.detach() for p in net.parameters()]


def fixed_point(decorator):
    W = (torch.randn(4, 4, dtype=D) * 0.2).requires_grad_()
    x = torch.randn(4, dtype=D)

    def cell(z, x, W):
        return torch.tanh(W @ z + x)

    class Fixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, W):
            z = torch.zeros_like(x)
            while (cell(z, x, W) - z).norm() > 1e-10:
                z = cell(z, x, W)
            ctx.save_for_backward(z, x, W)
            return z

        @staticmethod
        def backward(ctx, g):
            z, x, W = ctx.saved_tensors
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                x = x.detach().requires_grad_()
                W = W.detach().requires_grad_()
                f = cell(z, x, W)
            u = g.clone()
            while True:
                v = g + torch.autograd.grad(f, z, u, retain_graph=True)[0]
                done = (v - u).norm() < 1e-10
                u = v
                if done:
                    break
            return torch.autograd.grad(f, [x, W], u)

    @decorator
    def loss(x, W):
        return Fixed.apply(x, W).square().sum()

    x.requires_grad_()
    L = loss(x, W)
    g = torch.autograd.grad(L, [x, W])
    return L, g


def fixed_point_by_iteration(decorator):
    W = (torch.randn(4, 4, dtype=D) * 0.2).requires_grad_()
    x = torch.randn(4, dtype=D).requires_grad_()

    @tg.custom_gradient
    def solve(x, W):
        with torch.no_grad():
            z = torch.zeros_like(x)
            while (torch.tanh(W @ z + x) - z).norm() > 1e-10:
                z = torch.tanh(W @ z + x)

        def back(g):
            z0, pull = torch.func.vjp(lambda z, x, W: torch.tanh(W @ z + x), z, x, W)
            u = g
            for _ in range(60):
                u = g + pull(u)[0]
            _, gx, gW = pull(u)
            return gx, gW

        return z, back

    @decorator
    def loss(x, W):
        return solve(x, W).square().sum()

    L = loss(x, W)
    return L, torch.autograd.grad(L, [x, W])


def adaptive_solver(decorator):
    k = torch.tensor([1.1, 0.4], dtype=D, requires_grad=True)

    def f(y, k):
        return torch.stack([y[1], -k[0] * y[0] - k[1] * y[1]])

    @decorator
    def solve(y, k, T):
        t = torch.zeros((), dtype=D)
        h = torch.tensor(0.1, dtype=D)
        n = 0
        while t < T:
            h = torch.minimum(h, T - t)
            k1 = f(y, k)
            k2 = f(y + h / 2 * k1, k)
            k3 = f(y + 0.75 * h * k2, k)
            new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
            k4 = f(new, k)
            err = (h * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8)).abs().max()
            if err < 1e-5:
                t = t + h
                y = new
                n += 1
            h = h * torch.clamp(0.9 * (1e-5 / (err + 1e-12)) ** (1 / 3), 0.3, 3.0).detach()
        return y, n

    y, n = solve(torch.tensor([1.0, 0.0], dtype=D), k, torch.tensor(3.0, dtype=D))
    g = torch.autograd.grad(y.square().sum(), k, create_graph=True)[0]
    return y, torch.as_tensor(n), g, torch.autograd.grad((g * g).sum(), k)[0]


def learning_rate(decorator):
    """gradient of the validation loss by the learning rate, through an unrolled optimiser"""
    X = torch.randn(8, 3, dtype=D)
    y = torch.randn(8, dtype=D)
    lr = torch.tensor(0.05, dtype=D, requires_grad=True)

    @decorator
    def val(lr, n):
        w = torch.zeros(3, dtype=D, requires_grad=True)
        m = torch.zeros(3, dtype=D)
        for _ in range(n):
            (g,) = torch.autograd.grad(((X @ w - y) ** 2).mean(), w, create_graph=True)
            m = 0.9 * m + g
            w = w - lr * m
        return ((X @ w - y) ** 2).mean()

    L = val(lr, torch.tensor(7))
    return L, torch.autograd.grad(L, lr)[0]


def gradient_penalty(decorator):
    net = torch.nn.Linear(3, 1).double()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)

    @decorator
    def step(x, n):
        for _ in range(n):
            x_ = x.clone().requires_grad_()
            out = net(x_).sin().sum()
            (g,) = torch.autograd.grad(out, x_, create_graph=True)
            loss = (g.norm() - 1) ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
        return loss.detach()

    step(torch.randn(4, 3, dtype=D), torch.tensor(3))
    return [p.detach() for p in net.parameters()]


def accumulation(decorator):
    """Gradients are None before the loop that gathers them, and an optimiser looks for that."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    net = net.double()
    opt = torch.optim.Adam(net.parameters(), lr=0.1)

    @decorator
    def step(xs, n):
        opt.zero_grad()
        for i in range(n):
            (net(xs[i]).square().mean() / n).backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        opt.step()
        return norm

    norms = [step(torch.randn(4, 2, 3, dtype=D), torch.tensor(n)) for n in (2, 4)]
    return norms, [p.detach() for p in net.parameters()]


def attack(decorator):
    """A leaf that is changed by ``-=`` stays the leaf."""
    net = torch.nn.Linear(4, 3).double()

    @decorator
    def perturbed(x, y, n):
        delta = torch.zeros_like(x)
        delta.requires_grad_(True)
        for _ in range(n):
            torch.nn.functional.cross_entropy(net(x + delta), y).backward()
            with torch.no_grad():
                delta += 0.1 * delta.grad.sign()
                delta.clamp_(-0.25, 0.25)
            delta.grad.zero_()
        return delta.detach()

    x, y = torch.randn(5, 4, dtype=D), torch.tensor([0, 1, 2, 0, 1])
    return [perturbed(x, y, torch.tensor(n)) for n in (0, 1, 4)]


def scaled(decorator):
    """A step whose gradients overflow changes the scale only."""
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    @decorator
    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    xs = torch.randn(5, 4, 3)
    xs[2] *= 1e30
    losses = [step(x, torch.zeros(4, 1)) for x in xs]
    return losses, scaler.get_scale(), [p.detach() for p in net.parameters()]


def truncated(decorator):
    """Gradients in branches of an unrolled loop, each through the branches before that were not taken."""
    w = torch.ones(3, dtype=D, requires_grad=True)

    @decorator
    def gradients(xs, k):
        h, loss, n, found = torch.zeros(3, dtype=D), torch.zeros((), dtype=D), 0, []
        for x in xs:
            h = torch.tanh(h * w + x)
            loss, n = loss + h.sum(), n + 1
            if n == k:
                (g,) = torch.autograd.grad(loss, w)
                found.append(g)
                h, loss, n = h.detach(), torch.zeros((), dtype=D), 0
        return torch.stack(found)

    xs = torch.randn(6, 3, dtype=D)
    return [gradients(list(xs), torch.tensor(k)) for k in (1, 2, 4)]


def residual(decorator):
    """Second derivatives by tensors that each iteration makes, in a loop that trains."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(D)
    opt = torch.optim.Adam(net.parameters(), 1e-2)

    @decorator
    def fit(x, n):
        last = torch.zeros((), dtype=D)
        for _ in range(n):
            at = x.detach().requires_grad_()
            u = net(at)
            (du,) = torch.autograd.grad(u.sum(), at, create_graph=True)
            (ddu,) = torch.autograd.grad(du.sum(), at, create_graph=True)
            loss = (ddu + u).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            last = loss.detach()
            if last < 1e-3:
                break
        return last

    found = [fit(torch.rand(6, 1, dtype=D), torch.tensor(n)) for n in (3, 0, 2)]
    return found + [p.detach() for p in net.parameters()]


def paths_in_a_loop(decorator):
    """A loop that trains; which parameters have a gradient changes from iteration to iteration and from call to call."""
    net = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)]).to(D)
    opt = torch.optim.Adam(net.parameters(), 0.05, weight_decay=0.1)

    @decorator
    def fit(xs, least):
        i, loss = 0, torch.tensor(9.0, dtype=D)
        while i < xs.shape[0] and loss > least:
            opt.zero_grad()
            h = net[0](xs[i])
            h = net[1](h) if h.sum() > 0 else net[2](h).tanh()
            loss = (h - 1).square().mean()
            loss.backward()
            opt.step()
            i += 1
        return loss.detach()

    found = []
    for _ in range(4):
        found.append(fit(torch.randn(3, 2, 3, dtype=D), torch.tensor(0.3)))
        found += [torch.tensor(p.grad is None) for p in net.parameters()]
    return found + [p.detach() for p in net.parameters()]


PROGRAMS = [
    residual,
    paths_in_a_loop,
    accumulation,
    attack,
    scaled,
    truncated,
    maml,
    fixed_point,
    fixed_point_by_iteration,
    adaptive_solver,
    learning_rate,
    gradient_penalty,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    found = []
    for decorator in (lambda f: f, tg.function):
        torch.manual_seed(0)
        found.append(program(decorator))
    torch.testing.assert_close(*found)


def test_gradients_gathered_in_no_iteration():
    w, b = torch.ones(2, requires_grad=True), torch.ones((), requires_grad=True)
    opt = torch.optim.SGD([w, b], lr=0.1)

    @tg.function
    def step(xs, n):
        opt.zero_grad()
        for i in range(n):
            (w * xs[i]).sum().backward()
        opt.step()

    @tg.function
    def norms(xs, n):
        opt.zero_grad()
        for i in range(n):
            ((w * xs[i]).sum() * b).backward()
        return torch.nn.utils.parameters_to_vector([p.grad for p in (w, b) if p.grad is not None])

    step(torch.ones(3, 2), torch.tensor(2))
    torch.testing.assert_close(w.detach(), torch.full((2,), 0.8))
    step(torch.ones(3, 2), torch.tensor(0))
    assert w.grad is None
    torch.testing.assert_close(w.detach(), torch.full((2,), 0.8))
    assert norms(torch.ones(3, 2), torch.tensor(2)).shape == (3,)
    with pytest.raises(Exception) as wanted:
        torch.nn.utils.parameters_to_vector([])
    with pytest.raises(wanted.type, match=r"torch\.cat\(\): expected a non-empty list"):
        norms(torch.ones(3, 2), torch.tensor(0))


def test_gradients_that_may_be_none_are_told_apart_where_that_can_be():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def step(xs, n):
        w.grad = None
        for i in range(n):
            (w * xs[i]).sum().backward()
        if w.grad is None:
            return torch.zeros(())
        return w.grad.sum()

    assert [step(torch.ones(3, 2), torch.tensor(n)).item() for n in (0, 2)] == [0, 4]
