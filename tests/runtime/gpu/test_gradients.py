"""Gradients on a simulated device, beside eager PyTorch's: of the workloads, of what loops keep, twice, and in loops of training."""

import functools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.gpu.fake_driver import forget
from tests.runtime.gpu.simulated import simulate
from tograph.bench import programs
from tograph.runtime.gpu import capture, planner
from tograph.runtime.gpu.plan import check

pytest.importorskip("triton")


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.5


@pytest.fixture
def simulated(monkeypatch):
    """What has a plan may hold no node that a body may not."""
    made = simulate(monkeypatch)
    plan = planner.plan

    def checked(graph, **given):
        found = plan(graph, **given)
        assert check(found) == []
        return found

    monkeypatch.setattr(planner, "plan", checked)
    yield made
    monkeypatch.undo()
    forget(capture.probed)


def on_the_device(simulated):
    """Every graph that was made is one CUDA graph."""
    left = [level for level in simulated.levels if level[1:3] != ("device", 1)]
    assert simulated.levels and not left and not simulated.declined


def gradients(fn, given, wanted):
    """(results, gradients) of one call."""
    given = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given]
    for k in wanted:
        given[k].requires_grad_()
    out = fn(*given)
    parts = [x for x in torch.utils._pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]
    total = sum((x.double() ** 2).sum() for x in parts if x.requires_grad)
    return [x.detach() for x in parts], torch.autograd.grad(
        total, [given[k] for k in wanted], materialize_grads=True
    )


def same(fn, given, wanted, calls=3, **near):
    staged = tg.function(fn)
    want = gradients(fn, given, wanted)
    for _ in range(calls):
        torch.testing.assert_close(gradients(staged, given, wanted), want, **near)


def gru():
    weights = random(4, 12), random(4, 12, seed=1), random(12, seed=2), random(12, seed=3)
    return random(5, 3, 4), torch.tensor([2, 3, 1], dtype=torch.int32), *weights


def orbit():
    p = torch.tensor([1.1, 0.1, 1.2, 0.07]).unsqueeze(1).expand(4, 3).contiguous()
    return torch.tensor([[10.0, 8.0, 5.0], [5.0, 4.0, 3.0]]), p, torch.tensor(0.4)


def power():
    """Few iterations: one eigenvalue is much larger than the others."""
    a = torch.diag(torch.tensor([1.0, 0.4, 0.3, 0.2])) + 0.1 * random(4, 4)
    return a @ a.T, F.normalize(torch.tensor([1.0, 0.5, 0.2, 0.1]), dim=0), torch.tensor(1e-2)


WORKLOADS = {
    "a1": (programs.newton, (torch.tensor(2.0), torch.tensor(4, dtype=torch.int32)), [0]),
    "b": (programs.power_iteration, power(), [0]),
    "cg": (programs.gru, gru(), [0, 2, 3, 4, 5]),
    "e": (programs.runge_kutta, orbit(), [0, 1]),
    "g": (programs.norm_gelu_residual, (random(2, 1024), random(1024, seed=1), random(1024, seed=2)), [0, 1, 2]),
    "i": (programs.trivial, (random(4), random(4, seed=1)), [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_gradients_of_a_workload(name, simulated):
    fn, given, wanted = WORKLOADS[name]
    same(fn, given, wanted, rtol=1e-4, atol=1e-4)
    on_the_device(simulated)


def states(x, w, n):
    kept = []
    while n > 0:
        x = torch.tanh(x @ w) + x
        if x.sum() > 0:
            x = x * 0.5
        kept.append(x)
        n = n - 1
    return torch.stack(kept).sum(0) if kept else x


def broken_off(x, w, n):
    for i in range(n):
        if i == 2:
            continue
        x = x + torch.sin(x @ w)
        if x.abs().sum() > 30:
            break
    return x


def nested(x, w, n):
    i = 0
    while i < n:
        j = 0
        while j < i:
            x = x * torch.sigmoid(x @ w)
            j += 1
        x = x + w[i % 3]
        i += 1
    return x


def cell(x, w, n):
    h, c = x, torch.zeros_like(x)
    for _ in range(n):
        i, f, g, o = (torch.cat([x, h], 1) @ torch.cat([w, w])).repeat(1, 4).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


KEPT = [states, broken_off, nested, cell]


@pytest.mark.parametrize("fn", KEPT, ids=lambda f: f.__name__)
def test_what_loops_keep(fn, simulated):
    for n in (3, 0, 4):
        same(fn, (random(2, 3), random(3, 3, seed=1), torch.tensor(n)), [0, 1], calls=1)
    on_the_device(simulated)


def without_weights(x, n):
    """A layer norm whose weights have no gradients: they are none at all."""
    while n > 0:
        x, n = x * F.layer_norm(x, x.shape[1:]), n - 1
    return x


def of_pictures(x, n):
    """A convolution of what has a gradient, with weights that have none."""
    weights = torch.ones(2, 2, 3, 3) / 9
    while n > 0:
        x, n = F.group_norm(F.conv2d(x[None], weights, padding=1), 1)[0], n - 1
    return x


def of_weights(w, n):
    """The first layer: a gradient of the weights only."""
    return F.conv2d(torch.ones(1, 1, 5, 5) * n, w)


MASKED = [(without_weights, (3, 5)), (of_pictures, (2, 4, 4)), (of_weights, (2, 1, 3, 3))]


@pytest.mark.parametrize("fn,shape", MASKED, ids=lambda f: getattr(f, "__name__", ""))
def test_gradients_that_nobody_wants_are_none(fn, shape, simulated):
    same(fn, [random(*shape), torch.tensor(2)], [0])
    on_the_device(simulated)


@pytest.mark.parametrize("fn", [broken_off, nested], ids=lambda f: f.__name__)
def test_twice(fn, simulated):
    found = []
    for f in (fn, tg.function(fn)):
        x, w = random(2, 3).requires_grad_(), random(3, 3, seed=1).requires_grad_()
        y = f(x, w, torch.tensor(3))
        first = torch.autograd.grad((y**2).sum(), [x, w], create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), [x, w])
        found.append([g.detach() for g in (*first, *second)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    on_the_device(simulated)


OPTIMISERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": functools.partial(torch.optim.Adam, lr=0.1),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.1),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=0.05),
    "adagrad": functools.partial(torch.optim.Adagrad, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_of_an_optimiser(name, simulated):
    """A module that is there before the call, as in a loop of training."""
    x, target = random(4, 3, seed=5), torch.tensor([0, 1, 1, 0])
    losses = []
    for wrap in (lambda f: f, tg.function):
        model = torch.nn.Linear(3, 2)
        with torch.no_grad():
            for k, p in enumerate(model.parameters()):
                p.copy_(random(*p.shape, seed=k))
        optimizer = OPTIMISERS[name](model.parameters())

        @wrap
        def step(x, target, n, model=model, optimizer=optimizer):
            loss = x.sum()
            for _ in range(n):
                optimizer.zero_grad()
                loss = F.cross_entropy(torch.tanh(model(x)), target)
                loss.backward()
                optimizer.step()
            return loss.detach()

        losses.append([step(x, target, torch.tensor(n)) for n in (2, 1, 3)])
        losses[-1] += [p.detach().clone() for p in model.parameters()]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    assert any(level[1:3] == ("device", 1) for level in simulated.levels), simulated.levels
