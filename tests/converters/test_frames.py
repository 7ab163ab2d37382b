"""What a program sees of the stack: its own functions, and none of what converts and runs them."""

import inspect
import sys

import torch

import tograph as tg


def who():
    around = inspect.currentframe().f_back
    return (
        sys._getframe(1).f_code.co_name,
        (around.f_code.co_name, around.f_lineno),
        [(f.function, f.lineno) for f in inspect.stack()[:2]],
    )


class Named:
    def method(self):
        return who(), inspect.stack()[1].function


def program(x):
    first, inner = who(), None
    if x.sum() > 0:
        for _ in range(2):
            inner = who()
            x = x + 1
    else:
        inner = who()
    return x, first, inner, Named().method(), sys._getframe().f_lineno


def called(f):
    return f(torch.ones(2))[1:]


def test_natively_and_converted():
    expected, found = called(program), called(tg.function(program))
    assert found == expected
