"""What a concrete function asks of the tensors that it is called with, natively against concrete and loaded functions."""

import types

import pytest
import torch

import tograph as tg

Shared, Signature = tg.errors.SharedMemoryError, tg.errors.SignatureError
HELD, STATE = torch.zeros(4), types.SimpleNamespace(h=torch.zeros(4))


def writes_one(x, y):
    x.add_(1)
    return y * 2


def writes_a_captured_one(x, y):
    HELD.add_(x.sum())
    return x * y


def replaces(x, y):
    x.add_(1)
    STATE.h = STATE.h * 2 + x
    return STATE.h * y


def asks_gradients(x, y):
    return x * 2 if x.requires_grad else y


def asks_layout(x, y):
    return x.view(-1) if x.is_contiguous() else y


def one_memory(_):
    x = torch.ones(4)
    return x, x[:]


def in_the_state(f):
    STATE.h = torch.zeros(4)
    f(torch.ones(4), torch.ones(4))
    STATE.h = x = torch.ones(4)
    return x, torch.ones(4)


def without_the_state(f):
    STATE.h = None
    return torch.ones(4), torch.ones(4)


CASES = [
    (replaces, without_the_state, tg.errors.DeadResourceError, "does not hold a tensor"),
    (writes_one, one_memory, Shared, "argument 'x' shares memory"),
    (writes_a_captured_one, lambda f: (HELD, torch.ones(4)), Shared, "a captured tensor shares memory"),
    (replaces, in_the_state, Shared, "looks up at each call shares memory"),
    (asks_gradients, lambda f: (torch.ones(4, requires_grad=True), torch.ones(4)), Signature, "'x' that requires no gradient"),
    (asks_layout, lambda f: (torch.ones(8)[::2], torch.ones(4)), Signature, "'x' that is contiguous"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "args", "error", "words"), CASES)
def test_a_direct_call_that_the_trace_is_not_for(f, args, error, words):
    STATE.h = torch.zeros(4)
    made = tg.function(f).get_concrete_function(torch.ones(4), torch.ones(4))
    HELD.zero_()
    want = f(torch.ones(4), torch.ones(4))
    HELD.zero_()
    STATE.h = torch.zeros(4)
    torch.testing.assert_close(made(torch.ones(4), torch.ones(4)), want)
    with pytest.raises(error, match=words):
        made(*args(made))


def test_the_very_tensor_that_is_captured_too():
    held = torch.ones(2)
    made = tg.function(lambda x: held.add_(1) * x).get_concrete_function(held)
    assert made(held).tolist() == [4, 4]
    with pytest.raises(Signature, match="by another name"):
        made(torch.ones(2))


@pytest.mark.parametrize(("f", "args"), [(f, args) for f, args, *_ in CASES if f is not replaces])
def test_saved_functions_keep_them(f, args, tmp_path):
    staged = tg.function(f)
    staged(torch.ones(4), torch.ones(4))
    tg.save(staged, tmp_path / "saved")
    loaded = tg.load(tmp_path / "saved")
    HELD.zero_()
    want = f(torch.ones(4), torch.ones(4))
    torch.testing.assert_close(loaded(torch.ones(4), torch.ones(4)), want)
    given = args(f)
    if f is writes_a_captured_one:
        given = (loaded.variables[0], given[1])
    with pytest.raises(tg.errors.UnsavedSignatureError, match="where tensor 0"):
        loaded(*given)


def test_a_loaded_function_in_another_one(tmp_path):
    staged = tg.function(writes_one)
    staged(torch.ones(4), torch.ones(4))
    tg.save(staged, tmp_path / "saved")
    loaded = tg.load(tmp_path / "saved")
    around = tg.function(lambda a, b: loaded(a, b))
    assert around(torch.ones(4), torch.ones(4)).tolist() == [2.0] * 4
    with pytest.raises(Shared, match="pass a clone"):
        tg.function(lambda a: loaded(a, a[:]))(torch.ones(4))
