"""Loops whose state begins with a view of the caller's tensor: eager PyTorch gives that view where there is no iteration, and a new tensor else."""

import pytest
import torch

import tograph as tg

ROW = torch.nn.Parameter(torch.randn(1, 6))
TABLE, COLUMN = torch.randn(4, 12), torch.randn(6, 1)
NUMBERS = torch.arange(6)[None]


def cell(n, x):
    h = ROW.expand(4, -1)
    for _ in range(n):
        h = torch.tanh(h * 0.5 + x)
        if h.abs().max() < 0.1:
            break
    return h


def columns(n, x):
    h = TABLE[:, ::2]
    s = torch.zeros(())
    while n > 0:
        h = h * 2
        s = s + h.sum()
        n = n - 1
    return h, s


def turned(n, x):
    h = COLUMN.expand(6, 4).t()
    while n > 0:
        h = h + x
        n = n - 1
    return h


def before(n, x):
    h = NUMBERS.expand(4, -1)
    k = h
    while n > 0:
        k = h
        h = (h + 1).remainder(5)
        n = n - 1
    return h, k


def exchanged(n, x):
    h = ROW.expand(4, -1)
    y = x
    while n > 0:
        h, y = y * 2, h * 0.5
        n = n - 1
    return h, y


def listed(n, x):
    h = ROW.expand(4, -1)
    rows = [h]
    while n > 0:
        rows.append(h)
        h = h.cumsum(0) * 0.1 + x
        n = n - 1
    return h, torch.stack(rows)


def kept(n, x):
    """A branch may leave it as it was."""
    h = ROW.expand(4, -1)
    while n > 0:
        if x.sum() * n > 1:
            h = h + x
        n = n - 1
    return h


def sorted_rows(n, x):
    h = ROW.expand(4, -1)
    while n > 0:
        h = h.flip(0) + torch.sort(h, 0).values
        n = n - 1
    return h.clone(), h * 2, h.t()


PROGRAMS = [cell, columns, turned, before, exchanged, listed, kept, sorted_rows]
OUTSIDE = [t.untyped_storage().data_ptr() for t in (ROW, TABLE, COLUMN, NUMBERS)]


def described(result):
    return [(x.stride(), x.dtype, x.requires_grad, x.untyped_storage().data_ptr() in OUTSIDE) for x in result]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_state_that_begins_with_a_view(f, grad):
    staged = tg.function(f)
    x = torch.randn(4, 6)
    for n in (3, 2, 0, 1, 3, 0, 5):
        with torch.set_grad_enabled(grad):
            wanted, found = ([*r] if isinstance(r, tuple) else [r] for r in (g(torch.tensor(n), x) for g in (f, staged)))  # fmt: skip
        torch.testing.assert_close(found, wanted)
        assert described(found) == described(wanted)


@pytest.mark.parametrize("f", [cell, columns, turned, before])
def test_native_code_runs_its_iterations(f):
    staged = tg.function(f)
    with torch.no_grad():
        for _ in range(5):
            staged(torch.tensor(3), torch.randn(4, 6))
    (made,) = staged.concrete_functions
    assert (made.scheduled.level, made.scheduled.reason) == ("native", "")
    before = made.scheduled.native.successes
    with torch.no_grad():
        for _ in range(3):
            staged(torch.tensor(3), torch.randn(4, 6))
    assert made.scheduled.native.successes == before + 3
