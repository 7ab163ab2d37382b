"""Loops whose first iteration finds objects from outside where later ones find what iterations made: native against `tg.function`."""

from collections import defaultdict

import pytest
import torch
from torch import nn

import tograph as tg


def fresh():
    return {"stage": 0, "found": None}


class Scaler:
    def __init__(self):
        self.states = defaultdict(fresh)

    def look(self, x):
        state = self.states["one"]
        state["found"] = x.sum() > 6
        state["stage"] = 1

    def update(self, x):
        state = self.states["one"]
        x = x / 2 if state["found"] else x + state["stage"]
        self.states = defaultdict(fresh)
        return x


def steps(scaler, x):
    n = 0
    while n < 6:
        scaler.look(x)
        x = scaler.update(x)
        n += 1
        if x.sum() > 5:
            break
    return x, n


@pytest.mark.parametrize("start", [1.0, 4.0, 2.5])
def test_an_object_that_each_iteration_replaces(start):
    seen = []
    for function in (steps, tg.function(steps)):
        scaler, x = Scaler(), torch.full((2,), start)
        held = scaler.states  # the caller sees what the first iteration did to it
        for _ in range(2):
            found, n = function(scaler, x)
            seen.append((found.tolist(), n, str(dict(held)), dict(scaler.states)))
    assert seen[:2] == seen[2:]


def scaled(model, optimizer, scaler, x, y):
    n = 0
    while n < 4:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        n += 1
        if loss < 0.3:
            break
    return loss.detach(), norm, n


def to_train(growth_interval):
    torch.manual_seed(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    return model, optimizer, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=growth_interval)  # fmt: skip


def test_a_grad_scaler_in_a_loop_with_a_break():
    torch.manual_seed(0)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    seen = []
    for function in (scaled, tg.function(scaled)):
        model, optimizer, scaler = to_train(growth_interval=3)
        for _ in range(2):
            loss, norm, n = function(model, optimizer, scaler, x, y)
            seen.append((loss, norm, model.weight.detach().clone(), n, scaler.get_scale()))
    for native, staged in zip(seen[:2], seen[2:], strict=True):
        assert native[3:] == staged[3:]
        for a, b in zip(native[:3], staged[:3], strict=True):
            torch.testing.assert_close(a, b)


class OwnAdam(torch.optim.Adam):
    """One of torch's own has its state before the trace: ``traces.optimizer_state``."""


class OwnRMSprop(torch.optim.RMSprop):
    pass


def trained(model, optimizer, x, y, limit, most):
    losses = []
    for _ in range(most):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if loss < limit:
            break
    return losses


def trained_while(model, optimizer, x, y, limit, most):
    losses, loss = [], torch.tensor(10.0)
    while len(losses) < most and loss > limit:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("function", [trained, trained_while])
@pytest.mark.parametrize("make", [OwnAdam, OwnRMSprop])
def test_state_of_an_optimiser_is_made_in_front_of_the_loop(function, make):
    """Its entries are then there in each iteration, so that no branch asks for them."""
    seen, x, y = [], torch.linspace(0, 1, 24).reshape(8, 3), torch.ones(8, 2)
    for f in (function, tg.function(function)):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make(model.parameters(), lr=0.1)
        if f is not function:
            graph = str(f.get_concrete_function(model, optimizer, x, y, 0.01, 20).graph)
            assert graph.count("mse_loss.default") == 2 and graph.count("If(") <= 3
        losses = [f(model, optimizer, x, y, limit, 20) for limit in (2.0, 0.05, 0.01)]
        state = [v.clone() for s in optimizer.state.values() for v in s.values()]
        seen.append((losses, [*state, *map(torch.detach, model.parameters())]))
    assert [len(x) for x in seen[0][0]] == [len(x) for x in seen[1][0]]
    torch.testing.assert_close(seen[0], seen[1])


def test_the_rest_of_a_loop_that_cannot_be_staged_is_unrolled():
    """The state is made by the first iteration; what is left asks for the number of each one."""

    def f(found, x, most):
        for i in range(most):
            if "first" not in found:
                found["first"] = x
            x = x + found["first"].new_ones([i + 1]).sum()
            if x.sum() > 20:
                break
        return x

    for most in (9, 12):
        one, two = {}, {}
        for start in (0.0, 30.0, 0.0):
            x = torch.full((2,), start)
            assert torch.equal(tg.function(f)(one, x, most), f(two, x, most))
        assert torch.equal(one["first"], two["first"])


def counted(x, n):
    seen = {}
    for i in range(n):
        key = "pos" if x[i] > 0 else "neg"
        seen[key] = seen.get(key, 0) + 1
    return seen.get("pos", 0), seen.get("neg", 0), len(seen)


def noted(x, n):
    seen = {}
    for i in range(n):
        if x[i] > 0:
            seen["a"] = 1
    return seen.get("a", 0)


def attribute(x, n):
    class Box:
        pass

    box, i = Box(), 0
    while i < n:
        if x[i] > 0:
            box.first = i
        i += 1
    return getattr(box, "first", -1)


@pytest.mark.parametrize("f", [counted, noted, attribute])
def test_a_loop_without_an_iteration_makes_no_state(f):
    """Keys that only the body sets are among the state when it is asked whether the first iteration surely runs."""
    converted, x = tg.function(f), torch.tensor([0.7, -0.3, 0.2])
    for n in (3, 0, 1):
        for y in (x, -x):
            assert converted(y, torch.tensor(n)) == f(y, n)


def scaled_often(model, optimizer, scaler, x, y, n):
    for _ in range(n):
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


def test_an_object_that_each_iteration_replaces_where_there_may_be_none():
    torch.manual_seed(0)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    seen = []
    for function in (scaled_often, tg.function(scaled_often)):
        model, optimizer, scaler = to_train(growth_interval=2)
        for n in (0, 3, 1, 0):
            scale = function(model, optimizer, scaler, x, y, torch.tensor(n))
            seen.append((model.weight.detach().clone(), scale))
    for (a, native), (b, staged) in zip(seen[:4], seen[4:], strict=True):
        assert native == staged
        torch.testing.assert_close(a, b)


def by_a_view(x, w, n):
    y = torch.zeros(2, 3, dtype=x.dtype)
    v = y[0]
    for _ in range(n):
        v += x * w
    return y


def test_a_view_by_which_a_loop_gives_a_tensor_its_first_history():
    x, w = torch.tensor([0.3, -1.2, 0.7]), torch.tensor([0.5, 2.0, -1.0])
    converted = tg.function(by_a_view)
    for n in (2, 0, 1, 3):
        seen = []
        for f, count in ((by_a_view, n), (converted, torch.tensor(n))):
            leaf = w.clone().requires_grad_()
            y = f(x, leaf, count)
            seen.append(
                (y.detach(), torch.autograd.grad(y.sin().sum(), leaf) if n else y.requires_grad)
            )
        torch.testing.assert_close(seen[1], seen[0])
