"""In-place writes to the rows that a loop goes over: refused where a gradient is recorded, as eager PyTorch refuses them."""

import pytest
import torch

import tograph as tg


def scaled(z, w):
    for v in z:
        v *= 2
    return z


def scaled_by_a_weight(z, w):
    for v in z:
        v *= w
    return z


def in_a_branch(z, w):
    for v in z:
        if v.sum() > 1:
            v.mul_(2)
    return z


def with_numbers(z, w):
    for i, v in enumerate(z):
        v.add_(i)
    return z


def without_gradients(z, w):
    with torch.no_grad():
        for v in z:
            v.mul_(2)
    return z


def of_a_copy(z, w):
    y = z * 2
    for v in y:
        v.mul_(2)
    return y


def apart(z, w):
    for v in z:
        w = w + v * 2
    return w


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("f", [scaled, scaled_by_a_weight, in_a_branch, with_numbers, without_gradients, of_a_copy, apart])  # fmt: skip
def test_rows_of_a_loop(f, history, weight):
    found = []
    for call in (tg.function(f), f):
        z = torch.ones(4, 3, requires_grad=history)
        z, w = z * 1 if history else z, torch.full((3,), 2.0, requires_grad=weight)
        try:
            made = call(z, w)
            found.append((made.tolist(), made.requires_grad))
        except RuntimeError as error:
            assert "is being modified inplace" in str(error)  # noqa: PT017  either outcome is compared
            found.append(RuntimeError)
    assert found[0] == found[1]
