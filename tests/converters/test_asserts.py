"""assert."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((1,), (-1,))
def plain(x):
    assert x > 0
    return x


@cases((1,), (-1,))
def with_message(x):
    assert x > 0, f"not positive: {x}"
    return x


@cases((1,), (-1,))
def message_is_lazy(x):
    def text():
        print("made")
        return "message"

    assert x > 0, text()


@cases((1,), (0,))
def truth_of_a_number(x):
    assert x, "zero"


@cases((3,), (1,))
def in_a_loop(n):
    i = 0
    while i < n:
        assert i < 2, "too far"
        i += 1
    return i


@cases((1, True), (-1, True), (-1, False))
def in_a_branch(x, c):
    if c:
        assert x > 0
    return x


@cases((1,), (-1,))
def caught(x):
    try:
        assert x > 0
    except AssertionError:
        return "caught"
    return "fine"


test_same = cases.test()


def removed(x):
    assert x > 0
    return x


def test_python_without_assertions(monkeypatch):
    monkeypatch.setattr("tograph.converters.asserts.KEPT", False)
    assert tg.function(removed)(torch.tensor(-1)) == -1


def test_message_shows_the_value_and_the_line():
    f = tg.function(with_message)
    with pytest.raises(AssertionError) as caught:
        f(torch.tensor(-7))
    assert "not positive" in str(caught.value) and "-7" in str(caught.value)
    assert f(torch.tensor(7)) == 7


TORCH_CHECKS = [
    lambda x: torch._assert(x.sum() > 0, "the sum"),
    lambda x: torch._check_tensor_all(x > 0, lambda: "one of them"),
    lambda x: torch._check(x.sum().item() > 0, lambda: "the sum"),
    lambda x: torch._check_value((x > 0).all().item(), lambda: f"of {x.shape[0]}"),
]


@pytest.mark.parametrize("check", TORCH_CHECKS)
def test_checks_of_torch(check):
    def f(x):
        check(x)
        return x * 2

    converted, x = tg.function(f), torch.tensor([1.0, 2.0])
    torch.testing.assert_close(converted(x), f(x))
    with pytest.raises(Exception) as native:
        f(-x)
    with pytest.raises(type(native.value)) as found:
        converted(-x)
    assert str(native.value) in str(found.value)
