"""What ``reshape`` and its kind make of slices whose size only the run knows: a view, or a copy that nobody takes for a view."""

import pytest
import torch

import tograph as tg

X = torch.arange(12.0).reshape(3, 4)


def columns(x, n):
    v = x[:, : int(n)]
    v += 1
    return v.flatten(), v.reshape(-1).sum(), v.contiguous() * 2


def rows(x, n):
    u = x[: int(n)].reshape(-1)
    u += 1
    w = x[int(n) :].view(-1, 2)
    w[:] = 3
    return u


def a_row_of_columns(x, n):
    x[None, :, 1:][0, : int(n)].mul_(2)
    v = x[:, : int(n)].clone().flatten()
    v += 1
    return v


def pieces(x, n):
    n = int(n)
    left, right = x.split([n, 4 - n], dim=1)
    left += 1
    right *= 5
    above, below = x.split([n, 3 - n])
    below -= 2
    x[:, n:].transpose(0, 1).unsqueeze(0).mul_(3)
    return left, right, above


@pytest.mark.parametrize("f", [columns, rows, a_row_of_columns, pieces])
def test_what_is_known_to_be_a_view_or_is_only_read(f):
    staged = tg.function(f)
    for n in (2, 0, 3):
        x, y = X.clone(), X.clone()
        torch.testing.assert_close(staged(y, torch.tensor(n)), f(x, n))
        assert torch.equal(x, y)


def written(x, n):
    x[:, : int(n)].flatten()[0] = 50


def written_contiguous(x, n):
    x[:, : int(n)].contiguous().add_(1)


def of_a_transposed_one(x, n):
    x.t()[: int(n)].reshape(-1).add_(1)


def of_one_of_two(x, n):
    v = x[:, 1:] if n > 1 else x[1:]
    v.flatten()[0] = 50


def read_after_a_change(x, n):
    u = x[:, : int(n)].reshape(-1)
    x += 1
    return u.sum()


CHANGES = [written, written_contiguous, of_a_transposed_one, of_one_of_two, read_after_a_change]


@pytest.mark.parametrize("f", CHANGES)
def test_a_change_where_it_may_be_a_copy_is_refused(f):
    with pytest.raises(tg.errors.AliasError, match="clone"):
        tg.function(f)(X.clone(), torch.tensor(2))
