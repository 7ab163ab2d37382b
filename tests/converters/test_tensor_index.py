"""x[i] of tensors: staged numbers, bounds, masks and lists, read and written."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


def vector():
    return torch.arange(6.0)


@cases.tensors((vector(), 0), (vector(), 5), (vector(), -6), (vector(), 6))
def tensor_read(x, i):
    return x[i]


@cases.tensors((vector(), torch.tensor(2)), (vector(), torch.tensor(0)))
def staged_slices(x, i):
    return x[:i], x[i:], x[i : i + 2], x[1:-1]


@cases.tensors((vector().reshape(2, 3), torch.tensor(1)))
def many_dimensions(x, i):
    return x[i, 1], x[:, i], x[..., 0], x[None, i], x[0, 1:], x[[1, 0], [0, 2]]


@cases.tensors(
    (vector().reshape(1, 2, 3), torch.tensor(0)), (vector().reshape(2, 1, 3), torch.tensor(1))
)
def truths(x, i):
    """``True`` stands for a dim of one element, ``False`` for one of none; numbers are taken first."""
    y = x.clone()
    y[i, True, -1] = 9.0
    read = (
        x[i, True, -1],
        x[True, i],
        x[i, False],
        x[i, True, :, -1],
        x[..., True, i.item() * 0],
        x[True, False, i],
    )
    return read, x[-1:, False, -1, i], y


@cases.tensors((vector(),))
def masks(x):
    y = x.clone()
    y[y > 2] = 0
    return y, x[x > 2]


@cases.tensors((vector(), torch.tensor(2)))
def tensor_writes(x, i):
    y = x.clone()
    y[i] = 10
    y[0] += 5
    y[3:] *= 2
    y[i + 1] = y[i]
    return y


@cases.tensors((vector(),))
def argument_written(x):
    x[0] = 9
    x[1:3] += 1


@cases.tensors((vector(), torch.tensor(4)), (vector(), torch.tensor(0)))
def writes_in_a_loop(x, n):
    y = torch.zeros(6)
    for i in range(n):
        y[i] = x[i] * 2
        y[-1] += 1
    return y


@cases.tensors((vector(), torch.tensor(1)), (vector(), torch.tensor(-1)))
def writes_in_a_branch(x, c):
    y = x.clone()
    if c > 0:
        y[0] = 5
    else:
        y[1:] = y[:-1].clone()
    return y


@cases.tensors(
    (torch.arange(12.0).reshape(4, 3), torch.tensor([0.0, 3.0, 2.0, 1.0])),
)
def rows_swapped_by_a_list_of_staged_numbers(x, v):
    p = int(v.argmax())
    q = int(v.argmin())
    x[[p, q]] = x[[q, p]]
    x[[0, p], [q, 1]] += 1
    return x, v[[p, 0]]


@cases.tensors((vector(), 1), (vector(), -1))
def read_and_written_by_a_bool(x, k):
    found = bool(k > 0)
    rows = x[found]
    y = x.clone()
    y[found] = 7
    return rows.shape[0], rows, y


@cases((0, 2), (1, 3), (7, 1), (0, 9), (2, -1))
def slices_written_by_a_staged_step(i, n):
    x, y = torch.zeros(8), torch.zeros(2, 8)
    x[i::n] = 5.0
    x[i:6:n] = 7.0
    y[1, ::n] = torch.ones(())
    y[:, -4:-1:n] = 3.0
    return x, y


@cases.tensors(
    (torch.arange(30.0).reshape(2, 3, 5), torch.tensor([2, 0, 1]), 1),
    (torch.ones(2, 3, 5), torch.tensor([0, 0, 2]), -2),
)
def staged_numbers_beside_tensors(x, rows, k):
    i = int(k)
    y = x.clone()
    y[i, rows, 1:3] = 7.0
    y[rows % 2, ..., i] += 1
    return (
        x[i, rows],
        x[:, rows, i],
        x[None, i, [0, 2], rows[:2]],
        x[i, rows > 0, 2],
        x[rows % 2, i, rows],
        y,
    )


test_same = cases.test()


def rows_at(x, k):
    return x[::k], len(x[10::k])


def parts_at(x, k):
    return (
        x[None, 1:, ::k],
        x[..., k - 1, ::k],
        x[[0, 2], ::k],
        x[x[:, 0] > 3, ::k],
        x[::k, ::k] * 2,
    )


def no_step(x, k):
    return x[:: k - 2]


def gradient_at(x, k):
    w = x.clone().requires_grad_()
    (w[1::k] ** 2).sum().backward()
    return w.grad


@pytest.mark.parametrize("f", [rows_at, parts_at, no_step, gradient_at])
def test_slices_with_a_staged_step_are_read(f):
    x, staged = torch.arange(24.0).reshape(4, 6), tg.function(lambda x, n: f(x, int(n)))
    for k in (2, 3, 1):
        try:
            expected = f(x, k)
        except ValueError:
            with pytest.raises(ValueError, match="step"):
                staged(x, torch.tensor(k))
        else:
            torch.testing.assert_close(staged(x, torch.tensor(k)), expected)


def test_a_slice_with_a_staged_step_does_not_change():
    with pytest.raises(tg.errors.AliasError, match="a slice with a staged step"):
        tg.function(lambda x, n: x[:: int(n)].add_(1))(torch.arange(6.0), torch.tensor(2))


def test_one_item_of_a_length_that_the_run_knows_is_written_to_a_place():
    def f(x, m):
        y = torch.zeros(3)
        y[0] = x[m]
        y[1:] = x[m]
        return y, torch.zeros(0) * x[m]

    x, staged = torch.arange(1.0, 4.0), tg.function(f)
    for m in (torch.tensor([False, True, False]), x > 2.5):
        torch.testing.assert_close(staged(x, m), f(x, m))
    with pytest.raises(RuntimeError, match="the number of sizes provided"):
        staged(x, x > 1.5)


def test_what_is_written_at_a_staged_place_has_more_dimensions_of_one():
    def f(x, k):
        y, i = x.clone(), int(k)
        y[i] = x[None, None, 0]
        y[:, i] = x[None, :, 2]
        while i < 4:
            y[i, 1] = x[None, None, i, :1]
            i += 1
        return y

    x, staged = torch.arange(16.0).reshape(4, 4), tg.function(f)
    for k in (torch.tensor(1), torch.tensor(3)):
        torch.testing.assert_close(staged(x, k), f(x, k))
    with pytest.raises(RuntimeError, match="shape"):
        tg.function(lambda x, k: x.clone()[k].copy_(x[:2]))(x, torch.tensor(1))


def get_two(x, k):
    return x[k, 1]


def get_of_a_number(x, k):
    return x[0][k]


def get_with_a_mask(x, k):
    return x[x > 0, k]


def set_two(x, k):
    x[..., k, 0] = 2


@pytest.mark.parametrize("f", [get_two, get_of_a_number, get_with_a_mask, set_two])
def test_more_indices_than_dimensions(f):
    texts = []
    for function in (f, tg.function(f)):
        with pytest.raises(IndexError) as error:
            function(torch.ones(3), torch.tensor(2))
        texts.append(str(error.value).split("\n")[0])
    assert texts[0] == texts[1]
