"""Steps of loops that compute a tensor under ``no_grad()`` and make a leaf of it afterwards, by its own name or another: native against `tg.function`."""

import pytest
import torch

from tests.runtime.leaf_checks import compared


def loss_of(w, i):
    return ((w - 0.1 * i) ** 2).sum()


def by_its_own_name(a, n):
    w = a.detach().clone().requires_grad_()
    for i in range(n):
        if w.sum() < 0.5:
            break
        loss_of(w, i).backward()
        with torch.no_grad():
            w = w - 0.2 * w.grad
        w.requires_grad_()
    return w


def by_a_name_that_holds_nothing_before(a, n):
    w = a.detach().clone().requires_grad_()
    for i in range(n):
        if w.sum() < 0.5:
            break
        loss_of(w, i).backward()
        with torch.no_grad():
            candidate = w - 0.2 * w.grad
        w = candidate.requires_grad_()
    return w


def of_a_search(a, n):
    w = a.detach().clone().requires_grad_()
    for i in range(n):
        if w.sum() < 0.1:
            break
        loss = loss_of(w, i)
        loss.backward()
        t = 1.0
        while t > 0.05:
            with torch.no_grad():
                candidate = w - t * w.grad
                better = loss_of(candidate, i) < loss
            if better:
                break
            t = t * 0.5
        w = candidate.requires_grad_()
    return w


def of_a_search_that_gives_the_next_loss(a, n):
    w = a.detach().clone().requires_grad_()
    loss = loss_of(w, 1)
    for i in range(n):
        loss.backward()
        t = 1.0
        while True:
            with torch.no_grad():
                candidate = w - t * w.grad
            candidate.requires_grad_()
            new = loss_of(candidate, i)
            if new < loss or t < 0.1:
                break
            t = t / 2
        w, loss = candidate, new
    return w


PROGRAMS = [
    by_its_own_name, by_a_name_that_holds_nothing_before, of_a_search, of_a_search_that_gives_the_next_loss,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_leaf_that_an_iteration_makes_of_its_step(program):
    assert compared(program).trace_count == 1
