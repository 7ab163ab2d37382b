"""``contextlib.ExitStack``: what is pushed, entered and moved, around bodies that fail and end; native against converted."""

import contextlib
import gc

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@contextlib.contextmanager
def entered(x):
    print("in", x)
    try:
        yield x
    except KeyError as error:
        print("caught", error)
    finally:
        print("out", x)


@contextlib.contextmanager
def translated(x):
    try:
        yield x
    except ValueError as error:
        raise RuntimeError(str(x)) from error


@cases((2,))
def managers_see_an_exception(n):
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(entered(i)) for i in range(3)]
        raise KeyError("a")
    return found, n


@cases((2,), kinds=("python",))
def managers_replace_an_exception(n):
    try:
        with contextlib.ExitStack() as stack:
            for i in range(n):
                stack.enter_context(translated(i))
            raise ValueError(n)
    except RuntimeError as error:
        return str(error), type(error.__cause__).__name__


@cases((2,))
def moved_to_another_stack(n):
    with contextlib.ExitStack() as stack:
        stack.callback(print, "first", n)
        stack.enter_context(entered("a"))
        rest = stack.pop_all()
        stack.callback(print, "own")
    print("between")
    rest.close()
    rest.close()
    return n


@cases((2,))
def stack_in_a_stack(n):
    with contextlib.ExitStack() as outer, contextlib.ExitStack() as inner:
        outer.callback(print, "outer")
        inner.callback(print, "inner")
        outer.enter_context(inner.pop_all())
        print("body", n)


class Pool:
    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(entered("pool"))
            stack.callback(print, "called")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)


@cases((2,))
def stack_kept_by_a_manager(n):
    with Pool():
        print("used", n)
    with Pool():
        raise KeyError("b")


@cases((2,), (-2,))
def stack_used_again(n):
    stack = contextlib.ExitStack()
    with stack:
        stack.callback(print, 1)
    with stack as again:
        again.callback(print, 2)
        if n > 0:
            raise ValueError(n)


@cases((2,), (-2,))
def pushed_functions_end_what_data_raises(n):
    def swallow(kind, error, trace):
        print(kind is None)
        return kind is not None and issubclass(kind, ValueError)

    with contextlib.ExitStack() as stack:
        stack.push(swallow)
        if n > 0:
            raise ValueError("positive")
    return n


test_same = cases.test()


LEFT = []


def noting():
    try:
        yield 1
        yield 2
    finally:
        LEFT.append("left")


def test_generators_of_a_trace_that_was_refused_leave_nothing_behind():
    @tg.function
    def in_a_stack(x, xs):
        with contextlib.ExitStack() as stack:
            n = stack.enter_context(contextlib.contextmanager(noting)())
            return xs[x] + n

    @tg.function
    def taken_from(x, xs):
        n = next(noting())
        return open("nowhere") if x > 0 else n

    for f in (in_a_stack, taken_from):
        for _ in range(2):
            with pytest.raises(tg.errors.StagingError):
                f(torch.tensor(1), [1, 2])
            gc.collect()
            assert LEFT == []
