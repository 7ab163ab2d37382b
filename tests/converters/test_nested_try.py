"""What a handler finds of variables that another `try`, inside of its body, wrote."""

import contextvars

import pytest
import torch

import tograph as tg


def bad(x, limit, error):
    if x.sum() > limit:
        raise error
    return x * 2


def last_written_by_finally(x, first, second):
    a = 0
    try:
        y = bad(x, 1000, KeyError("k"))
        a = 1
        try:
            y = bad(x, first, ValueError("v"))
        finally:
            a = 0
    except ValueError:
        return x + a * 10
    return y


def written_back_by_a_handler(x, first, second):
    a = 0
    try:
        a = 1
        try:
            bad(x, first, KeyError("v"))
        except KeyError:
            a = 0
            raise ValueError("again") from None
        a = 0
        bad(x, second, ValueError("v"))
    except ValueError:
        return x + a * 10
    return x


def written_back_after_it(x, first, second):
    a = 0
    try:
        bad(x, 1000, KeyError("k"))
        a = 1
        try:
            bad(x, first, ValueError("v"))
        except ValueError:
            pass
        a = 0
        bad(x, second, KeyError("k"))
    except KeyError:
        return x + a * 10
    return x


class Holder:
    def __init__(self):
        self.variable = contextvars.ContextVar("held", default=None)


HOLDER = Holder()


def set_and_reset(x, first):
    token = HOLDER.variable.set({"a": 1})
    try:
        return bad(x, first, ValueError("v"))
    finally:
        HOLDER.variable.reset(token)


def a_context_variable_reset_inside(x, first, second):
    try:
        y = set_and_reset(x, first)
    except ValueError:
        y = x
    return bad(y, second, KeyError("k"))


NESTED = [
    last_written_by_finally,
    written_back_by_a_handler,
    written_back_after_it,
    a_context_variable_reset_inside,
]


@pytest.mark.parametrize("f", NESTED)
def test_what_a_handler_finds_after_one_inside(f):
    g, x = tg.function(f), torch.ones(2)
    for first in (0, 50):
        for second in (0, 50):
            limits = torch.tensor(first), torch.tensor(second)
            try:
                right = f(x, *limits)
            except KeyError:
                with pytest.raises(KeyError):
                    g(x, *limits)
            else:
                torch.testing.assert_close(g(x, *limits), right)
            assert HOLDER.variable.get() is None
    assert g.trace_count == 1
