"""Gradients that are taken in the body of a staged loop and go back into earlier iterations."""

from dataclasses import dataclass

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64


def accumulated(x, w, n):
    w = w.requires_grad_()
    loss, total = torch.zeros((), dtype=D), torch.zeros_like(w)
    for _ in range(n):
        x = torch.tanh(w @ x)
        loss = loss + x.square().sum()
        (g,) = torch.autograd.grad(loss, w, retain_graph=True)
        total = total + g
    return total, loss.detach(), x.detach()


def truncated(x, w, n):
    w = w.requires_grad_()
    loss, total = torch.zeros((), dtype=D), torch.zeros_like(w)
    for i in range(n):
        x = torch.tanh(w @ x) + 0.1
        loss = loss + x.sum()
        if i % 2 == 1:
            total = total + torch.autograd.grad(loss, w)[0]
            x, loss = x.detach(), torch.zeros((), dtype=D)
    return total, x.detach()


def initial_state(x, w, n):
    x0 = x.requires_grad_()
    x, found = x0 * 2, torch.zeros_like(x0)
    while n > 0:
        x = torch.sin(w @ x) + x0
        found += torch.autograd.grad(x.sum(), x0, retain_graph=True)[0] * n
        n = n - 1
    return found


def branches(x, w, n):
    w = w.requires_grad_()
    total = torch.zeros_like(w)
    for i in range(n):
        if x.sum() > 0:
            x = torch.tanh(w @ x)
        else:
            x = x * w[0] + 0.3
        total = total + torch.autograd.grad(x[0] * (i + 1), w, retain_graph=True)[0]
    return total


def nested(x, w, n):
    w = w.requires_grad_()
    total = torch.zeros_like(w)
    for i in range(n):
        for _ in range(i):
            x = torch.sin(w @ x)
            total = total + torch.autograd.grad(x.sum(), w, retain_graph=True)[0]
        x = x + 0.1 * w[0]
        total = total - torch.autograd.grad(x.prod(), w, retain_graph=True)[0]
    return total


def pair(x, w, n):
    w = w.requires_grad_()
    state, total = (x, {"c": x * 0}), torch.zeros_like(w)
    for _ in range(n):
        h = torch.tanh(w @ state[0] + state[1]["c"])
        state = (h, {"c": state[1]["c"] * 0.5 + h})
        total = total + torch.autograd.grad(state[1]["c"].sum(), w, retain_graph=True)[0]
    return total


def early_exit(x, w, n):
    w = w.requires_grad_()
    for _ in range(n):
        x = torch.tanh(w @ x)
        (g,) = torch.autograd.grad(x.sum(), w, retain_graph=True)
        if g.norm() < 0.8:
            return g
    return w.detach()


def written_in_place(x, w, n):
    w = w.requires_grad_()
    rows, total = torch.zeros(4, 3, dtype=D), torch.zeros_like(w)
    for i in range(n):
        rows[i] = torch.sin(w @ x) * (i + 1)
        total = total + torch.autograd.grad(rows.sum(), w, retain_graph=True)[0]
    return total


class Record:
    pass


def attributes_and_keys(x, w, n):
    """State that is found while the body is traced, with a history from before the loop."""
    w = w.requires_grad_()
    state, memory, total = Record(), {"c": x * w[0]}, torch.zeros_like(w)
    state.h = x * w[1]
    for i in range(n):
        state.h = torch.tanh(w @ state.h) + memory["c"]
        memory["c"] = memory["c"] * w[2]
        total = total + torch.autograd.grad((state.h * memory["c"]).sum(), w, retain_graph=True)[0]
    return total, state.h.detach()


def objects(x, w, n):
    w = w.requires_grad_()
    state, total = Pair(x, x * w[0]), torch.zeros_like(w)
    for _ in range(n):
        state = Pair(torch.tanh(w @ state.h) + state.c, state.c * w[1])
        total = total + torch.autograd.grad((state.h * state.c).sum(), w, retain_graph=True)[0]
    return total, state.h.detach()


@dataclass
class Pair:
    h: torch.Tensor
    c: torch.Tensor


def leaves_made_anew(x, w, n):
    """Each iteration leaves leaves for the next one, whose gradients stand in their fields there, or are asked for."""
    y, z = x.detach().requires_grad_(), w[0].detach().requires_grad_()
    for _ in range(n):
        (y.square() * z.sin()).sum().backward()
        y = (y - 0.1 * y.grad).detach().requires_grad_()
        (g,) = torch.autograd.grad((y * z).cos().sum(), z)
        z = (z - 0.1 * g).detach().requires_grad_()
    return y.detach(), z.detach()


PROGRAMS = [
    accumulated, truncated, initial_state, branches, nested, pair, early_exit, written_in_place,
    attributes_and_keys, objects, leaves_made_anew,
]  # fmt: skip


def by_other_state(y, s):
    return torch.autograd.grad((s * y).sum(), y)[0]


def by_other_state_alone(y, s):
    return torch.autograd.grad((s * s).sum(), y)[0]


def by_its_field(y, s):
    (s * y).sum().backward()
    return y.grad


@pytest.mark.parametrize("slope", [by_other_state, by_other_state_alone, by_its_field])
def test_what_an_earlier_iteration_computed_of_a_leaf(slope):
    def f(x):
        y = x.detach().requires_grad_()
        s = y * 2
        while y.norm() > 1:
            y = (y - 0.1 * slope(y, s)).detach().requires_grad_()
            s = y * 2
        return y.detach()

    x = torch.tensor([3.0, 2.0])
    torch.testing.assert_close(tg.function(f)(x), f(x))


def arguments():
    torch.manual_seed(2)
    return torch.randn(3, dtype=D), torch.randn(3, 3, dtype=D)


@pytest.mark.parametrize("f", PROGRAMS)
def test_as_in_eager(f):
    staged = tg.function(f)
    for n in map(torch.tensor, (0, 1, 2, 4)):
        x, w = arguments()
        want = f(x.clone(), w.clone(), n)
        torch.testing.assert_close(staged(x, w, n), want)
    assert staged.trace_count == 1


def test_gradient_fields_of_a_module():
    found = []
    for convert in (False, True):
        torch.manual_seed(0)
        cell = torch.nn.GRUCell(2, 3, dtype=D)

        def run(xs, n, cell=cell):
            h, loss = torch.zeros(1, 3, dtype=D), torch.zeros((), dtype=D)
            for t in range(n):
                h = cell(xs[t], h)
                loss = loss + h.square().sum()
                if t % 2 == 1:
                    loss.backward()
                    h, loss = h.detach(), torch.zeros((), dtype=D)
            return h.detach()

        xs = torch.randn(5, 1, 2, dtype=D)
        h = (tg.function(run) if convert else run)(xs, torch.tensor(5))
        found.append([h, *(p.grad for p in cell.parameters())])
    torch.testing.assert_close(*found)


def test_the_loop_is_differentiable_besides():
    def f(x, w, n):
        total = torch.zeros_like(w)
        for _ in range(n):
            x = torch.tanh(w @ x)
            total = total + torch.autograd.grad(x.sum(), w, retain_graph=True)[0]
        return total, x

    found = []
    for g in (f, tg.function(f)):
        x, w = (a.requires_grad_() for a in arguments())
        total, y = g(x, w, torch.tensor(3))
        found.append([total.detach(), *torch.autograd.grad(y.sum(), [x, w])])
    torch.testing.assert_close(*found)


def test_iterations_behind_a_detach_cost_nothing():
    function = tg.function(truncated)
    text = str(function.get_concrete_function(*arguments(), torch.tensor(4)).graph)
    assert "tg.earlier" not in text
    assert text.count("aten.ne.Scalar") == 2  # the cotangents of x and of loss


def until_good(model, optimizer, loss_of, tol):
    loss = loss_of(model)
    while loss > tol:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(model)
    return loss


def by_hand(model, optimizer, loss_of, tol):
    loss, n = loss_of(model), 0
    while loss > tol:
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                p -= 0.05 * g
        loss = loss_of(model)
        n += 1
    return loss, n


def until_it_stays(model, optimizer, loss_of, tol):
    state = {"loss": loss_of(model), "before": torch.tensor(torch.inf, dtype=D)}
    while (state["before"] - state["loss"]).abs() > tol * 0.02:
        state["before"] = state["loss"].detach()
        optimizer.zero_grad(set_to_none=False)
        state["loss"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        state["loss"] = loss_of(model)
    return state["loss"]


def a_few_steps(model, optimizer, loss_of, tol):
    loss = loss_of(model)
    for _ in range(torch.tensor(4)):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(model)
        if loss < tol:
            break
    return loss


def trained(f, convert, rate, tol):
    torch.manual_seed(1)
    x, y = torch.randn(6, 3, dtype=D), torch.randn(6, 1, dtype=D)
    layers = torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    model = torch.nn.Sequential(*layers).to(D)
    optimizer = torch.optim.Adam(model.parameters(), rate)

    def loss_of(model):
        return torch.nn.functional.mse_loss(model(x), y)

    g = tg.function(f) if convert else f
    found = g(model, optimizer, loss_of, torch.tensor(tol, dtype=D))
    model.zero_grad()
    loss = found if isinstance(found, torch.Tensor) else found[0]
    loss.backward()
    return [found, *((p, p.grad) for p in model.parameters())]


@pytest.mark.parametrize("tol", [0.5, 100.0])
@pytest.mark.parametrize("f", [until_good, by_hand, until_it_stays, a_few_steps])
def test_a_loss_that_the_iteration_before_computed(f, tol):
    torch.testing.assert_close(trained(f, True, 0.02, tol), trained(f, False, 0.02, tol))


def test_of_a_loss_only_the_last_iteration_is_kept():
    @tg.function
    def f(w, n):
        w = w.requires_grad_()
        loss = (w * w).exp().sum()
        while n > 0:
            (g,) = torch.autograd.grad(loss, w)
            loss = (w * g.norm()).sin().sum()
            n = n - 1
        return loss.detach()

    body = str(f.get_concrete_function(arguments()[0], torch.tensor(3)).graph).partition("body(")[2]
    assert "tg.list_new" in body
    assert " If(" in body  # what the first iteration comes to is before the loop


def test_what_the_state_was_not_computed_from_gets_no_gradient():
    def f(w, x, n):
        loss = (w * x.detach()).square().sum()
        while n > 0:
            w.grad = None
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            loss = (w * x.detach()).exp().sum()
            n = n - 1
        return loss.detach()

    for n in (1, 3):
        w, x = (torch.ones(3, dtype=D, requires_grad=True) for _ in range(2))
        tg.function(f)(w, x, torch.tensor(n))
        assert w.grad is not None
        assert x.grad is None


def test_what_no_later_iteration_comes_to_is_not_computed_for_it():
    """Of zeros the derivative of the root would be NaN."""

    @tg.function
    def f(w, n):
        w = w.requires_grad_()
        loss, total = (w * 0).sqrt().sum(), torch.zeros_like(w)
        while n > 0:
            if n < 2:
                total = total + torch.autograd.grad(loss, w)[0]
            loss = (w * w).sum()
            n = n - 1
        return total

    w = arguments()[0]
    torch.testing.assert_close(f(w, torch.tensor(3)), w * 2)


def by_what_was_written(w, n):
    """The gradient needs what was computed before the loop, of a tensor that an iteration has written."""
    loss = (w * w).sum()
    while n > 0:
        (g,) = torch.autograd.grad(loss, w, retain_graph=True)
        with torch.no_grad():
            w -= 0.1 * g
        loss = loss * 2
        n = n - 1
    return loss.detach()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_what_an_earlier_iteration_wrote_is_told(n):
    found = []
    for convert in (False, True):
        w = torch.tensor([1.0, 2.0], dtype=D, requires_grad=True)
        g = tg.function(by_what_was_written) if convert else by_what_was_written
        try:
            found.append((g(w, torch.tensor(n)), w.detach()))
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            found.append((torch.tensor(n), w.detach()))
    torch.testing.assert_close(*found)


def test_create_graph_is_refused():
    @tg.function
    def f(x, w, n):
        w = w.requires_grad_()
        for _ in range(n):
            (g,) = torch.autograd.grad((x @ w).sin().sum(), [w], create_graph=True)
            x = x + x @ g
        return x.detach()

    with pytest.raises(GradientError, match="earlier iterations") as caught:
        f(*arguments(), torch.tensor(2))
    assert "for _ in range(n)" in str(caught.value)


@pytest.mark.parametrize("swapped", [True, False])
def test_a_parameter_that_code_swaps_for_a_while_is_no_state(swapped):
    """``functional_call`` puts another tensor in the place of a parameter, which it puts back."""

    def train(w, n):
        def value():
            if swapped:
                return torch.func.functional_call(module, {"weight": w}, (X,)).square().sum()
            own = module._parameters["weight"]
            module._parameters["weight"] = w
            found = module(X).square().sum()
            module._parameters["weight"] = own
            return found

        loss, k = value(), 0
        while k < n:
            (g,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w.sub_(0.1 * g)
            loss = value()
            k += 1
        return loss.detach(), k

    module = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    X = torch.linspace(0, 1, 6, dtype=torch.float64).view(2, 3)
    staged = tg.function(train)
    for n in (0, 1, 3):
        leaves = [torch.ones(1, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        torch.testing.assert_close(
            staged(leaves[0], torch.tensor(n)), train(leaves[1], torch.tensor(n))
        )
        torch.testing.assert_close(leaves[0], leaves[1])
