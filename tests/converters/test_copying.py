"""``copy.deepcopy`` in a function: of tensors from outside, of objects that hold them, and of tensors that share memory."""

import copy

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError


class Held:
    pass


def test_of_objects_from_outside():
    held = Held()
    held.inner, held.n = Held(), 1
    held.inner.w = torch.tensor([1.0, 2.0])
    held.both = [held.inner.w]

    @tg.function
    def f(x):
        made = copy.deepcopy(held)
        made.inner.w += x
        return made, made.n, made.both[0]

    def check(x, n):
        made, found, shared = f(torch.tensor(x))
        assert torch.equal(made.inner.w, held.inner.w + x) and found == n
        assert made.inner.w is shared and made.inner is not held.inner

    check(1.0, 1)
    held.inner.w[0] = 7
    check(2.0, 1)
    held.inner.w, held.n = torch.tensor([5.0, 6.0]), 2
    held.both = [held.inner.w]
    check(3.0, 2)


def test_what_shares_memory_shares_it_in_the_copy():
    w = torch.arange(4.0).view(2, 2)

    def f(x):
        a, row, column = copy.deepcopy([w, w[0], w[:, 1]])
        y, part = copy.deepcopy((x, x[:1]))
        row += 1
        column *= 2
        part -= 5
        return a, row, column, y, part

    x = torch.ones(2)
    for one, other in zip(f(x), tg.function(f)(x)):
        assert torch.equal(one, other)
    assert torch.equal(x, torch.ones(2))
    with pytest.raises(StagingError, match="put the whole one first"):
        tg.function(lambda x: copy.deepcopy([x[:1], x]))(x)


def test_a_copy_has_no_history():
    def f(x):
        made = copy.deepcopy(x)
        return (made * x).sum(), made.requires_grad

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss, requires = tg.function(f)(x)
    loss.backward()
    assert requires and torch.equal(x.grad, torch.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="graph leaves"):
        tg.function(lambda x: copy.deepcopy(x * 2))(x)


def test_of_texts_of_the_run():
    def f(x):
        found = []
        if x > 0:
            found.append(f"{x.item()} is positive")
        return [copy.deepcopy(text) for text in found], copy.copy(f"{x.item()}")

    for x in (torch.tensor(1.0), torch.tensor(-1.0)):
        assert tg.function(f)(x) == f(x)


def test_copy_of_a_tensor_is_another_one_of_the_same_memory():
    outside = torch.ones(2)

    def f(x):
        y, z = x * 2, copy.copy(outside)
        one, two = copy.copy(y), copy.copy((x * 1).requires_grad_())
        z += x
        if x.sum() > 0:
            one[0] = 9
        found = y, one, outside * 1, one is y, two.requires_grad, two.is_leaf
        z -= x
        return found

    x = torch.tensor([1.0, 2.0])
    for one, two in zip(tg.function(f)(x), f(x), strict=True):
        assert torch.equal(one, two) if isinstance(two, torch.Tensor) else one == two
