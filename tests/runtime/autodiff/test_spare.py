"""Gradients of the results of one node of autograd, one after the other without ``retain_graph``, where eager PyTorch gives them."""

import pytest
import torch

import tograph as tg

PROGRAMS = []


@PROGRAMS.append
def a_branch(x, w, c):
    if c > 0:
        a, b = x * w, x + w
    else:
        a, b = x, w
    return a, b


@PROGRAMS.append
def a_loop(x, w, c):
    a, b = x, w
    for _ in range(c):
        a, b = a * a, b * b
    return a, b


@PROGRAMS.append
def a_loop_of_one_weight(x, w, c):
    a, b = x, w
    for _ in range(c):
        a, b = a * w, b + 1
    return a, b


@PROGRAMS.append
def the_loop_before(x, w, c):
    for _ in range(c):
        x = x * w
    return x + 1, x * 2


@PROGRAMS.append
def state_that_meets(x, w, c):
    a, b = x, w
    for _ in range(c):
        a, b = a * w, a + b
    return a, b


@PROGRAMS.append
def the_branch_before(x, w, c):
    y = x * w if c > 0 else x * w * 2
    return y + 1, y * 2


@PROGRAMS.append
def many(x, w, c):
    return tuple((x * w) * k for k in range(12))


@PROGRAMS.append
def many_of_one(x, w, c):
    y = x * w
    return tuple(y * k for k in range(12))


@PROGRAMS.append
def nothing_saved(x, w, c):
    a, b = x, w
    for _ in range(c):
        a, b = a * 2, b * 3
    return a, b


ORDERS = [
    ((0, 1, 1), ()),
    ((1, 0, 1), ()),
    ((0, 0), ()),
    ((0, 1, 0), (0,)),
    ((1, 0, 1, 0), (0, 1)),
]


def found(f, retained, order, create):
    """What gradients one after the other give; the index of the first that torch refuses."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    outs, rows = f(x, w, torch.tensor(2)), []
    for k in order:
        try:
            row = torch.autograd.grad(outs[k].sum(), (x, w), allow_unused=True, retain_graph=k in retained, create_graph=create)  # fmt: skip
        except RuntimeError as error:
            assert "a second time" in str(error)
            return rows
        rows.append([None if g is None else g.tolist() for g in row])
    return rows


@pytest.mark.parametrize(("order", "retained"), ORDERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_one_after_the_other(program, order, retained):
    staged = tg.function(program)
    for create in (False, True):
        assert found(staged, retained, order, create) == found(program, retained, order, create)


def test_what_was_written_after_the_first_is_an_error_of_what_needs_it():
    def program(x, w, c):
        if c > 0:
            a, b = x * w, w * w
        else:
            a, b = x, w
        return a, b

    x, w = (torch.ones(2, requires_grad=True) for _ in range(2))
    a, b = tg.function(program)(x, w, torch.tensor(1))
    a.sum().backward()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()
