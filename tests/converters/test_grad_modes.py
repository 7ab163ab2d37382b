"""What turns gradients on and off by a condition."""

import pytest
import torch

import tograph as tg
from tograph.errors import GraphBoolError, StagingError


@pytest.mark.parametrize("mode", [torch.set_grad_enabled, torch.inference_mode])
def test_by_a_staged_condition(mode):
    @tg.function
    def f(x):
        with mode(bool(x.sum() > 0)):
            return x * 2

    with pytest.raises(GraphBoolError, match=r"write an `if`"):
        f(torch.ones(2))


def test_by_a_known_condition():
    @tg.function
    def f(x):
        with torch.set_grad_enabled(mode=False):
            y = x * 2
        with torch.inference_mode(mode=False):
            return y, x * 3

    y, z = f(torch.ones(2, requires_grad=True))
    assert not y.requires_grad and z.requires_grad


def test_a_grad_mode_that_a_function_leaves_changed_is_refused():
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    def put_back(x):
        y = f(x)
        torch.set_grad_enabled(True)
        return y, x * 3

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(StagingError, match="turns gradients off and leaves them so"):
        tg.function(f)(x)
    assert torch.is_grad_enabled()
    assert [y.requires_grad for y in tg.function(put_back)(x)] == [False, True]


def test_a_default_dtype_that_is_left_is_refused():
    @tg.function
    def leaves(x):
        torch.set_default_dtype(torch.float64)
        return torch.ones(2)

    @tg.function
    def sets_back(x):
        torch.set_default_dtype(torch.float64)
        made = torch.ones(2) + x
        torch.set_default_dtype(torch.float32)
        return made, torch.ones(2)

    with pytest.raises(tg.errors.StagingError, match="leaves it so"):
        leaves(torch.ones(2))
    for _ in range(2):
        assert [t.dtype for t in sets_back(torch.ones(2))] == [torch.float64, torch.float32]
    assert torch.get_default_dtype() is torch.float32


APART = {
    "detach": lambda w, n: w * w.detach() + n,
    "torch.detach": lambda w, n: torch.detach(w) * n,
    "data": lambda w, n: w.data * w + n,
    "a view": lambda w, n: w[1:].detach() * n + w[:-1],
    "alone": lambda w, n: w.detach() * n,
    "in a branch": lambda w, n: w * w.detach() if n > 1 else w.detach() * n,
}


@pytest.mark.parametrize("program", APART.values(), ids=APART)
def test_a_tensor_from_outside_with_a_history_is_detached(program):
    def found(wrap, n):
        leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        for w in (leaf * 2, (leaf * 2)[:2]):
            y = wrap(lambda n, w=w: program(w, n))(torch.tensor(n))
            if y.requires_grad:
                y.sum().backward()
            yield y.tolist(), y.requires_grad, leaf.grad

    for n in (1.0, 2.0):
        for staged, plain in zip(found(tg.function, n), found(lambda f: f, n)):
            assert str(staged) == str(plain)
