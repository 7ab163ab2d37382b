"""Views of what is written after they were made: of the caller's tensors in loops, and those that gradients go through."""

import pytest
import torch

import tograph as tg

OUTSIDE = torch.ones(4)


def detached(x, n):
    p = x.detach()
    for _ in range(n):
        p.sub_(0.1 * p)
    return p * 1


def by_the_whole(x, n):
    v, s = x[1:], torch.zeros(())
    for _ in range(n):
        s = s + v.sum()
        x.mul_(0.9)
    return s


def written_before(x, n):
    x += 1
    v = x[1:]
    for _ in range(n):
        v.copy_(v * 2 + 1)
    return x * 1


def written_before_in_a_branch(x, n):
    x += 1
    v = x[1:]
    if n > 1:
        for _ in range(n):
            v.add_(v.sum())
    else:
        v.zero_()
    return x * 1


def by_another_view(x, n):
    v, u, s = x.view(2, 2).t(), x[2:], torch.zeros(())
    while n > 0:
        s = s + v[1].sum()
        if n > 1:
            u.mul_(0.5)
        n = n - 1
    return s


def picked_by_a_branch(x, n):
    v = x[:2] if n > 1 else x[2:]
    for _ in range(n):
        v.mul_(2)
    return v * 1


def picked_twice(x, n):
    v = x[:2] if n > 1 else x[2:]
    if x.sum() > 100:
        v = x[1:3]
    while n > 0:
        v.add_(v.sum())
        n = n - 1
    return x * 1


def picked_by_a_loop(x, n):
    v = x[:2]
    for _ in range(n):
        v = x[2:]
    for _ in range(n):
        v.add_(v.sum())
    return v * 1


def of_a_captured_tensor(x, n):
    v = OUTSIDE[:2]
    while v.sum() < n:
        OUTSIDE.add_(1)
    return v * x[:2]


def nested(x, n):
    v, s = x.detach()[1:3], torch.zeros(())
    for _ in range(n):
        for _ in range(n):
            s = s + v.sum()
            x.mul_(0.9)
        s = s * v[0]
    return s


def descent(x, n):
    p = x.detach().requires_grad_()
    for _ in range(n):
        (g,) = torch.autograd.grad((p * p).sum(), p)
        with torch.no_grad():
            p.sub_(0.1 * g)
    return p.detach()


@pytest.mark.parametrize("f", [detached, by_the_whole, written_before, written_before_in_a_branch, by_another_view, picked_by_a_branch, picked_twice, picked_by_a_loop, of_a_captured_tensor, nested, descent])  # fmt: skip
def test_as_in_eager(f):
    staged = tg.function(f)
    for n in map(torch.tensor, (0, 1, 3)):
        found = []
        for g in (f, staged):
            x = torch.arange(1.0, 5.0)
            OUTSIDE.fill_(1)
            found.append((g(x, n), x, OUTSIDE.clone()))
        torch.testing.assert_close(*found)


def by_the_method(y, v):
    return y * v.detach()


def by_the_function(y, v):
    return y * torch.detach(v)


def without_gradients(y, v):
    with torch.no_grad():
        w = v * 2
    return y * w + v


def asked(y, v):
    return y * 2 if v.requires_grad and not v.is_leaf else y


@pytest.mark.parametrize("use", [by_the_method, by_the_function, without_gradients, asked])
@pytest.mark.parametrize("k", range(3))
def test_the_history_is_that_of_what_was_written(use, k):
    def f(x):
        y = x * 2
        v = y[0]
        if k == 0:
            y.exp_()
        elif k == 1:
            y.view(-1)[1:].mul_(x.view(-1)[1:])
        elif x.sum() > 0:
            y.mul_(x)
        return use(y, v).sum()

    found = []
    for g in (f, tg.function(f)):
        x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
        g(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


DETACHED = [torch.detach, torch.Tensor.detach, torch.ops.aten.detach, torch.detach_, torch.Tensor.detach_]  # fmt: skip


@pytest.mark.parametrize("detach", DETACHED, ids=range(len(DETACHED)))
@pytest.mark.parametrize("inside", [False, True])
def test_functions_that_detach(detach, inside):
    def f(x):
        if x.sum() > 0:
            y = (x * detach(x * 2)).sum()
        else:
            y = (x * 3).sum()
        return torch.autograd.grad(y, x)[0] if inside else y

    x = torch.tensor([0.1, 0.2], requires_grad=True)
    found = [g(x) for g in (f, tg.function(f))]
    if not inside:
        found = [torch.autograd.grad(y, x)[0] for y in found]
    torch.testing.assert_close(*found)


def subtracted(y, n):
    v = y[0]
    for _ in range(n):
        v -= 0.5
    return y


def of_a_view(y, n):
    v, z = y.view(2, 2)[0].unsqueeze(0), 0
    while n > 0:
        z = z + (1.0 if v.requires_grad else 2.0) * y.sum()
        v *= 0.5
        n = n - 1
    return z + y


def first_without_gradients(y, n):
    v = y[1]
    for _ in range(n):
        with torch.no_grad():
            v.exp_()
        v -= 0.5
    return y


def in_a_branch_without_gradients(y, n):
    v = y[1]
    for k in range(n):
        if k % 2 == 0:
            with torch.no_grad():
                v.mul_(3)
            v += y[0]
        else:
            v.zero_()
    return y * y


def one_of_two(y, n):
    v = y[1] if n > 0 else y[0]
    v.mul_(3)
    return y * y


def of_an_object(y, n):
    rows = [y[0], y[1]]
    for _ in range(n):
        rows[0] *= 2
    return y * y


def turned(y, n):
    for _ in range(n):
        y = y.t()
        y[0] *= 0.5
    return y.sin()


WRITTEN = [subtracted, of_a_view, first_without_gradients, in_a_branch_without_gradients, one_of_two, of_an_object]  # fmt: skip


def matrix():
    return torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)


@pytest.mark.parametrize("f", [*WRITTEN, turned])
def test_a_view_that_has_a_history_is_written(f):
    staged = tg.function(f)
    for n in map(torch.tensor, range(3)):
        found = []
        for g in (f, staged):
            x = matrix()
            loss = g(x * 2, n).sum()
            found.append((loss.detach(), torch.autograd.grad(loss, x)[0]))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("f", WRITTEN)
def test_a_gradient_inside_behind_such_a_write_is_refused(f):
    @tg.function
    def run(x, n):
        return torch.autograd.grad(f(x * 2, n).sum(), x)

    with pytest.raises(tg.errors.GradientError, match="written in place by a name"):
        run(matrix(), torch.tensor(2))


def test_a_gradient_inside_that_is_not_of_the_written_tensor():
    def run(x, n):
        y = x * 2
        v = y[1] if n > 0 else y[0]
        loss = y.sum()
        v *= 3
        return torch.autograd.grad(loss, x)[0], y.detach() * 2

    torch.testing.assert_close(*(g(matrix(), torch.tensor(2)) for g in (run, tg.function(run))))


def test_the_data_of_a_view_is_not_replaced():
    @tg.function
    def f(x):
        y = x * 2
        v = y[0]
        v.data = torch.ones(2)
        return y

    with pytest.raises(tg.errors.UnsupportedOpError, match="of a view gives it memory of its own"):
        f(matrix())
