"""Gradients taken in the body of a staged loop that go through lists which the loop carries."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError


def stacked(v, n):
    rows = [v.cos()]
    for _ in range(n):
        rows.append(torch.sin(rows[-1] * v))
        torch.stack(rows).sum().backward(retain_graph=True)


def appended_in_a_branch(v, n):
    rows = [v.cos()]
    for k in range(n):
        if k % 2 == 0:
            rows.append(torch.sin(rows[-1] * v))
        torch.stack(rows).sum().backward(retain_graph=True)


def taken_in_a_branch(v, n):
    rows = []
    for k in range(n):
        rows.append(v * k)
        if k % 2 == 1:
            torch.cat(rows).sum().backward(retain_graph=True)


def summed(v, n):
    losses = []
    for k in range(n):
        losses.append((v * k).sin().sum())
        (sum(losses) / len(losses)).backward(retain_graph=True)


def asked_for(v, n):
    rows, total = [v * 1], torch.zeros(2)
    for k in range(n):
        rows.append((rows[-1] * k).cos())
        total = total + torch.autograd.grad(rows[-1].sum(), v, retain_graph=True)[0]
    return total


def twice(v, n):
    rows, total = [], torch.zeros(2)
    for k in range(n):
        rows.append((v * k).sin())
        total = total + torch.autograd.grad(torch.stack(rows).sum(), v, create_graph=True)[0]
    return total.detach()


def item_by_item(v, n):
    rows = []
    for k in range(n):
        rows.append((k, (v * k).sin()))
        for _, row in rows:
            row.sum().backward(retain_graph=True)


def from_inner_loops(v, n):
    held = {"rows": [v * 2]}
    for _ in range(n):
        for _ in range(n):
            held["rows"].append(held["rows"][-1] * 0.5)
        held["rows"][-1].sum().backward(retain_graph=True)


def of_the_iteration_before(v, n):
    rows = []
    for k in range(n):
        if k > 0:
            rows[-1].sum().backward()
        rows.append((v * k).sin())


def from_before_the_loop(v, n):
    rows = []
    for k in range(n):
        rows.append((v * k).sin())
    for _ in range(n):
        rows.append(rows[-1] * 0.5)
        rows[-1].sum().backward(retain_graph=True)


def of_lists(v, n):
    rows = []
    for k in range(n):
        rows.append([v * (k + 1)])
        rows[0][0].sum().backward(retain_graph=True)


REFUSED = [stacked, appended_in_a_branch, taken_in_a_branch, summed, asked_for, twice, item_by_item,
           from_inner_loops, of_the_iteration_before, from_before_the_loop, of_lists]  # fmt: skip


def own_items(v, n):
    rows = [v.cos()]
    for k in range(n):
        rows.append(torch.sin(v * k))
        rows[-1].sum().backward()
    return len(rows)


def own_items_at_a_place(v, n):
    rows = [torch.zeros(2) for _ in range(n)]
    for k in range(n):
        rows[k] = (v * k).sin()
        rows[k].sum().backward()
    return torch.stack(rows).detach()


def own_items_in_front(v, n):
    rows = [(0, v * 1)]
    for k in range(n):
        rows.insert(0, (k, v * k))
        rows[0][1].sum().backward(retain_graph=True)
    return len(rows)


def a_window(v, n):
    rows = [v * 1]
    for k in range(n):
        rows.append((v * k).sin())
        rows = rows[-1:]
        torch.stack(rows).sum().backward()


def losses(v, n):
    found, items = [], []
    for k in range(n):
        loss = (v * k).sin().sum()
        loss.backward()
        found.append(loss)
        items.append(loss.item())
    return torch.stack(found).detach(), sum(items)


def detached(v, n):
    rows = [v.detach()]
    for _ in range(n):
        y = (v * rows[-1]).sin()
        y.sum().backward()
        rows.append(y.detach())
    return torch.stack(rows)


def detached_where_they_are_read(v, n):
    rows = [v * 1]
    for _ in range(n):
        with torch.no_grad():
            mean = torch.stack(rows).mean(0)
        y = (v * mean * rows[0].detach()).sin()
        y.sum().backward()
        rows.append(y)
    return torch.stack(rows).detach()


def passed_by(v, n):
    rows, total = [v.cos()], torch.zeros(2)
    for _ in range(n):
        x = v.detach().clone().requires_grad_()
        rows.append(v * rows[-1])
        (g,) = torch.autograd.grad((x * rows[-1]).sum(), x, retain_graph=True)
        total = total + g
    return total.detach()


def behind_the_loop(v, n):
    rows = [v.cos()]
    for k in range(n):
        rows.append(torch.sin(rows[-1] * v))
        (v * k).sum().backward()
    torch.stack(rows).sum().backward()


def other_state(v, n):
    rows, s = [], v * 1
    for _ in range(n):
        s = s * v
        rows.append(s)
        (rows[-1] * s).sum().backward(retain_graph=True)
    return torch.stack(rows).detach()


def a_tensor_of_the_iteration_before(v, n):
    y = torch.zeros(2)
    for k in range(n):
        if k > 0:
            y.sum().backward()
        y = (v * k).sin()


def in_either_branch(v, n):
    rows = [v.cos()]
    for k in range(n):
        if k % 2 == 0:
            rows.append((v * k).sin())
        else:
            rows.append((v * k).cos())
        rows[-1].sum().backward(retain_graph=True)
    return len(rows)


def of_any_size(v, n):
    rows = [v.cos()]
    for k in range(n):
        rows.append((v * k).sin())
        if k > 1:
            rows.append(rows[-1][v > 0])
        sum(row.sum() for row in rows[-1:]).backward(retain_graph=True)
    return len(rows)


FOLLOWED = [own_items, own_items_at_a_place, own_items_in_front, a_window, losses, detached, detached_where_they_are_read,
            in_either_branch, of_any_size, passed_by, behind_the_loop, other_state, a_tensor_of_the_iteration_before]  # fmt: skip


def leaf():
    return torch.tensor([0.3, 0.5], requires_grad=True)


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_items_of_earlier_iterations_are_an_error_at_the_line(f):
    with pytest.raises(GradientError, match=r"(?s)items of a list.*\.(backward|grad)\("):
        tg.function(f)(leaf(), torch.tensor(4))


@pytest.mark.parametrize("f", FOLLOWED, ids=lambda f: f.__name__)
def test_other_gradients_are_those_of_plain_python(f):
    v, w = leaf(), leaf()
    expected, found = f(v, 4), tg.function(f)(w, torch.tensor(4))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(w.grad, v.grad)


@pytest.mark.parametrize("f", [stacked, summed])
def test_a_loop_without_iterations_raises_nothing(f):
    v = leaf()
    tg.function(f)(v, torch.tensor(0))
    assert v.grad is None


@pytest.mark.parametrize("size", [0, 5])
def test_arrays(size):
    def array(v, n, own: bool):
        items = tg.TensorArray(torch.float32, size, dynamic_size=size == 0)
        for k in range(n):
            items = items.write(k, v * k)
            items.read(k if own else 0).sum().backward(retain_graph=True)

    v = leaf()
    tg.function(array)(v, torch.tensor(4), True)
    torch.testing.assert_close(v.grad, torch.full((2,), 6.0))
    with pytest.raises(GradientError, match="items of a list"):
        tg.function(array)(v, torch.tensor(4), False)


LOOKS = "items of a list that were put in before"


@pytest.mark.parametrize("f", [own_items, own_items_at_a_place, a_window, in_either_branch])
def test_own_items_need_no_look_at_run_time(f):
    """The graph tells that the cotangent of what was in the list before is zeros."""
    g = tg.function(f).get_concrete_function(leaf(), torch.tensor(4))
    assert LOOKS not in str(g.graph)


def test_a_run_looks_at_other_cotangents():
    g = tg.function(stacked).get_concrete_function(leaf(), torch.tensor(4))
    assert LOOKS in str(g.graph)
