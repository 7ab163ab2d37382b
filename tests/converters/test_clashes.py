"""Functions that use the name of the operators of converted code."""

import ast
import inspect

import pytest
import torch

import tograph as tg

ag__ = 7


def of_a_module(x):
    if x > 0:
        return x + ag__
    return x


def parameter(x, ag__=2):
    while x > 0:
        x = x - 1
        ag__ = ag__ + 1
        if x < 2:
            break

    def inner(ag__):
        return ag__ * 2 if x > 0 else ag__

    return inner(ag__=ag__), ag__


def closing():
    ag__ = torch.tensor(0)

    def f(x):
        nonlocal ag__
        for i in range(abs(x)):
            ag__ = ag__ + i
        return ag__

    return f


class Attribute:
    ag__ = 3

    def of_self(self, x):
        if x > 0:
            self.ag__ = 4
        return self.ag__


def importing(x):
    import math as ag__

    if x > 0:
        return ag__.floor(2.5)
    return 1


def function(x):
    def ag__(v):
        return v + 1 if v > 0 else v

    return ag__(x)


def caught(x):
    try:
        if x > 0:
            raise ValueError("positive")
    except ValueError as ag__:
        return str(ag__)
    return "not"


FORMS = {
    "of_a_module": lambda: of_a_module,
    "parameter": lambda: parameter,
    "closing": closing,
    "attribute": lambda: Attribute().of_self,
    "importing": lambda: importing,
    "function": lambda: function,
    "caught": lambda: caught,
}


@pytest.mark.parametrize("form", FORMS)
def test_both(form):
    for x in (torch.tensor(3), torch.tensor(-3)):
        plain, staged = FORMS[form](), tg.function(FORMS[form]())
        assert [staged(x), staged(x)] == [plain(x), plain(x)]


def test_the_rewritten_source_and_the_signature():
    code = tg.to_code(parameter)
    ast.parse(code)
    assert "ag__.while_stmt" in code and "('ag___', " in code
    assert inspect.signature(tg.to_graph(parameter)) == inspect.signature(parameter)
    assert tg.function(parameter)(torch.tensor(1), ag__=5)[1] == 6


def test_unbound():
    def f(x):
        if x > 0:
            ag__ = 1
        return ag__

    with pytest.raises(UnboundLocalError, match="'ag__'"):
        tg.function(f)(torch.tensor(-1))
