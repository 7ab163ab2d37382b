"""An item that is not there: the text of the error is that of eager PyTorch."""

import pytest
import torch

import tograph as tg


def caught(x, n):
    try:
        return x[n] + x[:, n].sum()
    except IndexError as error:
        return f"{error}", error.args


def written(x, n):
    x[n] = 0
    return x


@pytest.mark.parametrize("n", [4, 3, -5, 0])
def test_the_text_that_a_handler_sees(n):
    x = torch.ones(4, 3)
    assert str(tg.function(caught)(x, torch.tensor(n))) == str(caught(x, torch.tensor(n)))


@pytest.mark.parametrize("f", [lambda x, n: x[n].sin(), lambda x, n: x[..., n], written])
def test_the_text_outside(f):
    x, n = torch.ones(4, 4), torch.tensor(7)
    with pytest.raises(IndexError) as plain:
        f(x, n)
    with pytest.raises(IndexError) as found:
        tg.function(f)(x, n)
    assert found.value.args == plain.value.args
