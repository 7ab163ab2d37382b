"""Leaves that staged branches and loops make."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64
X = torch.tensor([0.3, -1.2], dtype=D)


def in_branches(x, n):
    y = x.clone().requires_grad_() if n > 1 else torch.ones(2, dtype=D, requires_grad=True)
    z = (y * y).sum()
    z.backward()
    return y.grad, z.detach()


def returned(x, n):
    if n > 1:
        y = x.detach().requires_grad_()
    else:
        y = (x * 2).detach().requires_grad_()
    return y


def in_a_loop(x, n):
    y = x.detach().requires_grad_()
    while n > 0:
        (g,) = torch.autograd.grad((y * y).sum(), y)
        y = (y - 0.1 * g).detach().requires_grad_()
        n = n - 1
    return torch.autograd.grad(y.sin().sum(), y)[0], y


def sign_steps(x, n):
    y = x.detach()
    for _ in range(n):
        y = y.detach().requires_grad_()
        y.cos().sum().backward()
        y = (y.detach() + 0.1 * y.grad.sign()).clamp(-1, 1)
    return y


def in_an_attribute(x, n):
    class Held:
        y = x.detach().requires_grad_()

    held = Held()
    if n > 1:
        held.y = (x * 3).detach().requires_grad_()
    else:
        held.y = (x + 1).detach().requires_grad_()
    return torch.autograd.grad(held.y.exp().sum(), held.y)[0]


def sometimes(x, n):
    y = x.clone().requires_grad_()
    if n > 1:
        y = (y * 0.9).detach().requires_grad_()
    loss = (y * y).sum()
    loss.backward()
    return y.grad, loss.detach()


def sometimes_in_a_loop(x, n):
    y, total = x.clone().requires_grad_(), torch.zeros_like(x)
    for i in range(n + 2):
        if i % 2 == 0:
            y = (y * 0.9).detach().requires_grad_()
        y.sin().sum().backward()
        total = total + y.grad
        y.grad = None
    return total


def one_of_two(x, n):
    p, q = x.clone().requires_grad_(), (x * 2).detach().requires_grad_()
    p.sin().sum().backward()
    ((p if n > 1 else q) * q * q).sum().backward()
    return p.grad, q.grad


def by_its_data(x, n):
    y = x.clone().requires_grad_()
    loss = (y * y).sum()
    while loss > 0.3 * n:
        loss.backward()
        y.data -= 0.3 * y.grad
        y.grad.zero_()
        loss = (y * y).sum()
    return y.detach(), loss.detach()


def energy(x):
    return (x * x).sum() * 0.5 + x.sin().sum()


def descent(x, n):
    x = x.detach().requires_grad_()
    loss = energy(x)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, x)
        x = (x - 0.1 * g).detach().requires_grad_()
        loss = energy(x)
    return x.detach(), loss.detach()


def by_backward(x, n):
    x = x.detach()
    x.requires_grad = True
    loss = energy(x)
    while n > 0:
        loss.backward()
        with torch.no_grad():
            x = x - 0.1 * x.grad
        x.requires_grad = True
        loss = energy(x)
        n = n - 1
    return x.detach(), loss.detach()


def with_a_tolerance(x, n):
    x = x.clone().detach().requires_grad_()
    loss, k = energy(x), 0
    before, best = loss.detach() + 1, x.detach()
    while (before - loss).abs() > 1e-3 and k < n:
        before = loss.detach()
        (g,) = torch.autograd.grad(loss, x)
        x = (x - 0.1 * g).detach().requires_grad_()
        loss = energy(x)
        if loss < before:
            best = x.detach()
        k += 1
    return best, before, k


def accepted_steps(x, n):
    """A step may be refused: the leaf and its energy stay what they are."""
    x, count = x.detach().requires_grad_(), 0
    e = energy(x)
    for i in range(n):
        (g,) = torch.autograd.grad(e, x, retain_graph=True)
        new = (x - 0.3 * g + 0.5 * torch.sin(x.detach() * 3 + i)).detach().requires_grad_()
        found = energy(new)
        if found < e:
            x, e, count = new, found, count + 1
    return x.detach(), e.detach(), count


def made_in_branches(x, n):
    x = x.detach().requires_grad_()
    loss = energy(x)
    for i in range(n):
        if i % 3 == 0:
            (g,) = torch.autograd.grad(loss, x)
            x = (x - 0.1 * g).detach().requires_grad_()
            loss = energy(x)
        elif i % 3 == 1:
            x = (x * 0.9).detach().requires_grad_()
            loss = energy(x) * 2
        else:
            (g,) = torch.autograd.grad(loss, x, retain_graph=True)
            loss = loss + (x * g).sum()
    return x.detach(), loss.detach()


def a_mean_of_losses(x, n):
    """Of the leaves from before the last one the loss depends too: a gradient by the last one is of this alone."""
    x = x.detach().requires_grad_()
    loss = energy(x)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, x, retain_graph=True)
        x = (x - 0.1 * g).detach().requires_grad_()
        loss = 0.5 * loss + energy(x)
    return x.detach(), loss.detach()


def in_containers(x, n):
    p = {"w": x.detach().requires_grad_(), "b": [x[:1].detach().clone().requires_grad_()]}
    loss = energy(p["w"] + p["b"][0])
    for _ in range(n):
        g, h = torch.autograd.grad(loss, [p["w"], p["b"][0]])
        p = {
            "w": (p["w"] - 0.1 * g).detach().requires_grad_(),
            "b": [(p["b"][0] - 0.2 * h).detach().requires_grad_()],
        }
        loss = energy(p["w"] * p["b"][0])
    return p["w"].detach(), p["b"][0].detach(), loss.detach()


def min_max(x, n):
    a, b = x.detach().requires_grad_(), (x * 2).detach().requires_grad_()
    loss = (a * b).sum() + energy(a)
    for _ in range(n):
        if loss > 9:
            break
        g, h = torch.autograd.grad(loss, (a, b))
        a, b = (a - 0.1 * g).detach().requires_grad_(), (b + 0.1 * h).detach().requires_grad_()
        loss = (a * b).sum() + energy(a)
    return a.detach(), b.detach(), loss.detach()


def newton(x, n):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(energy(x), x, create_graph=True)
    while g.norm() > 1e-3 and n > 0:
        rows = [torch.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(2)]
        step = torch.linalg.solve(torch.stack(rows) + 2 * torch.eye(2, dtype=D), g)
        x = (x - step).detach().requires_grad_()
        (g,) = torch.autograd.grad(energy(x), x, create_graph=True)
        n = n - 1
    return x.detach(), g.detach()


def written_in_place(x, n):
    x = x.detach().clone().requires_grad_()
    loss = energy(x)
    while loss > 0.1 and n > 0:
        loss.backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
            x.grad.zero_()
        loss = energy(x)
        n = n - 1
    return x.detach(), loss.detach()


def made_in_some_iterations(x, n):
    y = x.clone().requires_grad_()
    loss = energy(y)
    for i in range(n):
        loss.backward()
        g, y.grad = y.grad, None
        if i % 2 == 0:
            y = (y - 0.1 * g).detach().requires_grad_()
        loss = energy(y)
    return y.detach(), loss.detach()


def accepted_by_backward(x, n):
    y = x.clone().requires_grad_()
    loss = energy(y)
    for _ in range(n):
        loss.backward(retain_graph=True)
        new = (y - 1.7 * y.grad).detach().requires_grad_()
        y.grad = None
        after = energy(new)
        if after < loss:
            y, loss = new, after
    return y.detach(), loss.detach()


def backtracking(x, n):
    """A loop in the body makes the leaf, or has no iteration; the result is taken where it is better."""
    x = x.clone().requires_grad_()
    loss = energy(x)
    while n > 0:
        (g,) = torch.autograd.grad(loss, x, retain_graph=True)
        t = 4.0
        new = (x - t * g).detach().requires_grad_()
        after = energy(new)
        while after > loss - 0.3 * t * g.square().sum() and t > 0.4:
            t = t / 2
            new = (x - t * g).detach().requires_grad_()
            after = energy(new)
        if after < loss:
            x, loss = new, after
        n = n - 1
    return x.detach(), loss.detach()


def from_the_state(x, n):
    """The loop in the body begins with the leaf of the iteration before."""
    x = x.clone().requires_grad_()
    loss = energy(x)
    for i in range(n):
        (g,) = torch.autograd.grad(loss, x, retain_graph=True)
        t, new, after = 1.0, x, loss
        while after >= loss and t > 0.1 * i:
            t = t / 2
            new = (x - t * g).detach().requires_grad_()
            after = energy(new * new)
        x, loss = new, after + loss.detach()
    return x.detach(), loss.detach()


def without_a_copy(x, n):
    x = x.detach().requires_grad_()
    for _ in range(n):
        energy(x).backward()
        with torch.no_grad():
            y = x - 0.1 * x.grad
        x = y.requires_grad_()
    return x.detach()


def search_without_a_copy(x, n):
    x = x.detach().requires_grad_()
    for _ in range(n):
        loss = energy(x)
        loss.backward()
        t = 1.0
        while True:
            with torch.no_grad():
                y = x - t * x.grad
                new = energy(y)
            if new <= loss - 1e-4 * t * x.grad.square().sum() or t < 1e-3:
                break
            t = t * 0.5
        x = y.requires_grad_()
    return x.detach()


LOOPS = [
    without_a_copy, search_without_a_copy,
    backtracking, from_the_state, descent, by_backward, with_a_tolerance, accepted_steps, made_in_branches, a_mean_of_losses, in_containers, min_max, newton, written_in_place,
    made_in_some_iterations, accepted_by_backward,
]  # fmt: skip


@pytest.mark.parametrize("f", LOOPS)
def test_what_the_iteration_that_made_a_leaf_computed_of_it(f):
    g = tg.function(f)
    for n in (0, 1, 2, 6):
        torch.testing.assert_close(g(X, torch.tensor(n)), f(X, torch.tensor(n)))


def test_of_what_a_loop_in_the_body_adds_up_it_is_refused():
    @tg.function
    def f(x, n):
        x = x.detach().requires_grad_()
        loss = energy(x)
        for i in range(n):
            (g,) = torch.autograd.grad(loss, x)
            x = (x - 0.1 * g).detach().requires_grad_()
            loss = energy(x)
            for _ in range(i):
                x = (x * 0.9).detach().requires_grad_()
                loss = loss + energy(x)
        return x.detach()

    with pytest.raises(GradientError, match="a loop in the body made it"):
        f(X, torch.tensor(3))


@pytest.mark.parametrize("f", [in_branches, returned, in_a_loop, sign_steps, in_an_attribute, sometimes, sometimes_in_a_loop, one_of_two, by_its_data])  # fmt: skip
def test_as_in_eager(f):
    staged = tg.function(f)
    for n in map(torch.tensor, (0, 1, 2)):
        found, wanted = staged(X, n), f(X, n)
        torch.testing.assert_close(found, wanted)
        for a, b in zip(*([x] if isinstance(x, torch.Tensor) else x for x in (found, wanted))):
            assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)


def steps(a, n):
    w = a
    for _ in range(n):
        energy(w).backward()
        w = (w - 0.1 * w.grad).detach().requires_grad_()
    return w


def steps_by_a_branch(a, n):
    w = a
    while energy(w) > 0.05 * n:
        energy(w).backward()
        if n > 1:
            w = (w - 0.1 * w.grad).detach().requires_grad_()
        else:
            w = (w - 0.3 * w.grad).detach().requires_grad_()
    return w


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("f", [steps, steps_by_a_branch])
def test_behind_steps_that_begin_with_an_argument_it_has_a_gradient(f, n):
    def behind(a, n):
        w = f(a, n)
        none, required = w.grad is None, w.requires_grad
        energy(w * 2).backward()
        return none, required, w.grad, w.detach()

    a, b = (X.clone().requires_grad_() for _ in range(2))
    torch.testing.assert_close(tg.function(behind)(a, torch.tensor(n)), behind(b, torch.tensor(n)))
    torch.testing.assert_close(a.grad, b.grad)


def test_what_is_used_by_detach_only_has_no_gradient_beside_numbers():
    @tg.function
    def f(x, w, n):
        x, t = x.detach().requires_grad_(), 1.0
        for _ in range(n):
            (x**2 * w.detach()).sum().backward()
            while t > 0.1:
                t = t * 0.5
            x = (x - t * x.grad).detach().requires_grad_()
        return x.detach()

    w = torch.ones_like(X).requires_grad_()
    f(X, w, torch.tensor(2))
    assert w.grad is None


def written_behind_a_branch(x, p, n):
    y = x.detach().clone().requires_grad_()
    if n > 1:
        y = p
    with torch.no_grad():
        y.mul_(0.5)
    return y


def written_in_a_branch(x, p, n):
    y = x.detach().clone().requires_grad_()
    if n > 1:
        with torch.no_grad():
            y.copy_(p)
    else:
        y = p
    return y


def or_none_that_is_written(x, p, n):
    y = x.detach().clone().requires_grad_()
    if n > 1:
        y = p.detach()
    with torch.no_grad():
        y.mul_(0.5)
    return y


def moved_to_and_fro(x, p, n):
    y, z = x.detach().clone().requires_grad_(), p
    (y * z).sum().backward()
    for _ in range(n):
        y, z = z, y
    return y


def or_none_twice(x, p, n):
    y = x.detach().clone().requires_grad_()
    for _ in range(2):
        if n > 1:
            y = p.detach()
        with torch.no_grad():
            y.mul_(0.5)
    return y


def written_and_moved(x, p, n):
    y, z = x.detach().clone().requires_grad_(), p
    for _ in range(n):
        with torch.no_grad():
            y.add_(0.1 * y)
        y, z = z, y
    return y


@pytest.mark.parametrize(
    "program",
    [
        or_none_twice,
        written_and_moved,
        written_behind_a_branch,
        written_in_a_branch,
        or_none_that_is_written,
        moved_to_and_fro,
    ],
)
def test_what_leaves_is_the_leaf_that_it_was(program):
    converted = tg.function(program)
    for n in (0, 1, 2):
        rows = []
        for f in (program, converted):
            p = torch.tensor([2.0, 0.5], dtype=D, requires_grad=True)
            y = f(X, p, torch.tensor(n))
            rows.append([y.detach(), y is p, y.is_leaf, y.requires_grad, p.detach()])
        assert rows[0][1:4] == rows[1][1:4]
        torch.testing.assert_close(rows[0][::4], rows[1][::4])


def replaced_by_a_loop(x, n):
    v = x.detach().clone().requires_grad_()
    for _ in range(n):
        (v**2).sum().backward()
        for _ in range(n):
            v = x
    return v


def handed_on_by_a_loop(x, n):
    v, w, u = x.clone().requires_grad_(), x, x.clone().requires_grad_()
    for _ in range(n):
        (v**2).sum().backward()
        for _ in range(n):
            v, w, u = w, u, x
    return v


@pytest.mark.parametrize("f", [replaced_by_a_loop, handed_on_by_a_loop])
def test_what_an_inner_loop_leaves_without_a_history_has_no_gradient(f):
    staged = tg.function(f)
    for n in (1, 2, 0, 3):
        found = []
        for g in (f, staged):
            try:
                found.append(g(X, torch.tensor(n)).tolist())
            except RuntimeError as error:
                found.append(str(error).splitlines()[0])
        assert found[0] == found[1]


def written_and_moved_by_a_loop(b, n):
    w, v, k = b, b.detach().clone().requires_grad_(), 0
    while k < n and k % 2 == 0:
        k = k + 1
        with torch.no_grad():
            w.mul_(0.9)
        v, w = w, v
    return v


@pytest.mark.parametrize("required", [True, False])
def test_the_callers_tensor_that_a_loop_moves_and_writes_is_no_leaf_of_the_call(required):
    staged = tg.function(written_and_moved_by_a_loop)
    for n in (1, 0):
        b = X.clone().requires_grad_(required)
        found = staged(b, torch.tensor(n))
        assert (found is b) == (n > 0) and found.requires_grad == (required or n == 0)


def test_a_leaf_that_a_loop_moved_is_not_frozen():
    @tg.function
    def f(x, n):
        v, u = x.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
        for _ in range(n):
            v, u = u, v
        v.requires_grad_(False)
        return v, u

    with pytest.raises(GradientError, match="by its other names"):
        f(X, torch.tensor(1))
