"""A gradient taken inside frees the history it went through: outside, PyTorch's error and no cost."""

import pytest
import torch

import tograph as tg


def once(w, x, n):
    loss = (w * x).square().sum()
    loss.backward()
    return loss


def other_output(w, x, n):
    loss, penalty = (w * x).square().sum(), w.exp().sum()
    loss.backward()
    return penalty, loss


def together(w, x, n):
    loss, penalty = (w * x).square().sum(), w.exp().sum()
    loss.backward()
    return loss + penalty


def retained(w, x, n):
    loss = (w * x).square().sum()
    loss.backward(retain_graph=True)
    return loss * 2


def nothing_saved(w, x, n):
    loss = (w + x).sum()
    loss.backward()
    return loss


def differentiable(w, x, n):
    loss = (w * x).square().sum()
    (g,) = torch.autograd.grad(loss, w, create_graph=True)
    return g.square().sum() + loss


def detached(w, x, n):
    loss = (w * x).square().sum()
    (g,) = torch.autograd.grad(loss, w)
    return (w * g).sum()


def training_loop(w, x, n):
    i, loss = 0, torch.tensor(0.0)
    while i < n:
        loss = (w * x).square().sum()
        w.grad = None
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
        i += 1
    return loss


def losses(w, x, n):
    found = []
    while len(found) < n:
        loss = (w * x).square().sum()
        w.grad = None
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
        found.append(loss)
    return torch.stack(found).sum()


def in_one_branch(w, x, n):
    if n > 1:
        loss = (w * x).square().sum()
        loss.backward()
        loss = (w * 3).sin().sum()
    else:
        loss = (w * x).sin().sum()
    return loss * 2


def in_both_branches(w, x, n):
    loss = (w * x).square().sum()
    if n > 1:
        loss.backward()
    else:
        (loss * 3).backward()
    return w.sum()


def in_each_branch(w, x, n):
    if n > 1:
        loss = (w * x).square().sum()
        loss.backward()
    else:
        loss = (w * x).sin().sum()
        loss.backward()
    return loss * 2


def twice(w, x, n):
    loss = (w * x).square().sum()
    loss.backward()
    loss.backward()
    return loss


def own_function(w, x, n):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2

    loss = Cube.apply(w * x).sum()
    loss.backward()
    return loss


CASES = [once, other_output, together, retained, nothing_saved, differentiable, detached, training_loop, losses,
         in_one_branch, in_both_branches, in_each_branch, twice, own_function]  # fmt: skip


def run(f, n, pick):
    """What a call gives and leaves, and what a gradient outside of it does."""
    w, x = torch.linspace(0.5, 1.5, 3, requires_grad=True), torch.arange(3.0)
    told = []
    try:
        y = f(w, x, n)
        outs = y if isinstance(y, tuple) else (y,)
        told += [(o.detach().clone(), o.requires_grad) for o in outs]
        outs[pick].backward()
    except RuntimeError as error:
        told.append(str(error)[:45])
    return told, w.detach(), w.grad


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_as_in_eager(case, n):
    f = tg.function(case)
    for pick in (0, -1):
        for _ in range(2):
            (got, *left), (told, *expected) = (run(g, torch.tensor(n), pick) for g in (f, case))
            assert str(got) == str(told)
            torch.testing.assert_close(left, expected)


def test_nothing_is_kept_for_a_gradient_that_is_refused():
    f, w = tg.function(training_loop), torch.ones(3, requires_grad=True)
    f(w, torch.arange(3.0), torch.tensor(2))
    (concrete,) = f.concrete_functions
    _, program = concrete.gradients._ended  # it tells whether an iteration was made, besides
    assert program.level == "native", program.reason
    assert len(program.graph.outputs) <= len(concrete.graph.outputs) + 1
    assert "differentiable" not in vars(concrete.gradients)


def test_a_second_gradient_after_one_in_a_branch_is_refused():
    @tg.function
    def f(w, c):
        loss = (w * w).sum()
        if c:
            loss.backward()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="a second time"):
        f(torch.ones(2, requires_grad=True), torch.tensor(True))


def test_a_loop_that_frees_what_is_outside_is_refused():
    @tg.function
    def f(w, n):
        loss = (w * w).sum()
        for _ in range(n):
            loss.backward()
        return w.sum()

    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a second time"):
        f(w, torch.tensor(2))
    f(w, torch.tensor(0)).backward()
    assert w.grad.tolist() == [1, 1]


def test_a_list_of_results_whose_gradient_a_branch_has_freed():
    def f(x, n):
        y = x * x
        found = [y]
        if n > 1:
            torch.autograd.grad(y.sum(), x)
        else:
            found.append(y + 1)
        return found

    x = torch.ones(2, requires_grad=True)
    for n in (2, 0):
        assert [t.tolist() for t in tg.function(f)(x, torch.tensor(n))] == [
            t.tolist() for t in f(x, n)
        ]


def leaves_of_what_is_freed(a, n):
    y = a * a
    y.sum().backward()
    w = y.detach().requires_grad_()
    for _ in range(n):
        (w**2).sum().backward()
        w = (y * 0.5).detach().requires_grad_()
    return w.detach()


def where_a_loop_replaces_it(a, n):
    y = w = a * a
    y.sum().backward()
    for _ in range(n):
        w = (w * 0.5).detach().requires_grad_()
    (w**2).sum().backward()
    return w.detach()


def beside_what_is_not_freed(a, n):
    w, v = a * 3, a * a
    (v**2).sum().backward()
    for _ in range(n):
        v = (w * v).detach().requires_grad_()
        w = (w + v) * 0.5
    (w**2).sum().backward()
    return w.detach()


@pytest.mark.parametrize(
    "program", [leaves_of_what_is_freed, where_a_loop_replaces_it, beside_what_is_not_freed]
)
def test_a_leaf_made_of_what_is_freed_has_a_gradient(program):
    f = tg.function(program)

    def outcome(f, n):
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        try:
            return f(a, torch.tensor(n)), a.grad
        except RuntimeError as error:
            return "second time" in str(error)

    for n in (2, 0, 1):
        torch.testing.assert_close(outcome(f, n), outcome(program, n))


def by_the_item(x, n, at):
    v = x * 2
    xs, i, g = [v], 0, x * 0
    while i < n:
        i = i + 1
        xs.append(x)
        (g,) = torch.autograd.grad((v**2).sum(), x)
        v = xs[at]
    return g


def test_an_item_is_not_freed_with_another_one_of_its_list():
    x, staged = torch.tensor([0.5, -0.3], requires_grad=True), tg.function(by_the_item)
    for n in (3, 1, 2):
        found, wanted = (f(x, torch.tensor(n), -1) for f in (staged, by_the_item))
        torch.testing.assert_close(found, wanted)


def test_a_gradient_by_a_freed_item_is_an_error():
    x = torch.tensor([0.5, -0.3], requires_grad=True)
    with pytest.raises(tg.errors.GradientError, match="an item of a list"):
        tg.function(by_the_item)(x, torch.tensor(2), 0)


def all_of_some_that_are_freed(w, x, n):
    y = (w * x).sin()
    found = [y]
    while len(found) < n:
        found.append((w * x).cos())
    w.grad = None
    y.sum().backward()
    return torch.stack(found).sum()


def one_of_some_that_are_freed(w, x, n):
    y = (w * x).sin()
    found = [y]
    while len(found) < n:
        found.append((w * x).cos())
    y.sum().backward()
    return found[-1].sum(), found[0].sum() * 0


@pytest.mark.parametrize("case, picks", [(all_of_some_that_are_freed, (0,)), (one_of_some_that_are_freed, (0,))])  # fmt: skip
def test_lists_of_which_items_are_freed_as_in_eager(case, picks):
    f = tg.function(case)
    for pick in picks:
        (got, *left), (told, *expected) = (run(g, torch.tensor(3), pick) for g in (f, case))
        assert str(got) == str(told)
        torch.testing.assert_close(left, expected)
