"""Trees from several threads at a time."""

import ast
import gc
import sys
import threading

import pytest

from tograph.syntax_trees import ATTEMPTS, parse, undisturbed

DISTURBED = "AST constructor recursion depth mismatch (before=45, after=87)"


def test_threads_that_disturb_each_other_still_get_their_trees():
    """The collector's callbacks hand the interpreter to the next thread in the midst of a tree."""
    source = "\n".join(f"x{i} = [f(a, {i}) for a in range({i})]" for i in range(100))
    trees, switch, threshold = [], sys.getswitchinterval(), gc.get_threshold()

    def work(depth):
        if depth:
            work(depth - 1)
        else:
            trees.extend(ast.dump(parse(source)) for _ in range(20))

    def callback(*_):
        sum(range(1000))

    gc.callbacks.append(callback)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(5 * k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(switch)
    assert trees == [ast.dump(ast.parse(source))] * 80


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_disturbed_attempt_is_made_again(wrapped):
    calls = []

    def attempt():
        calls.append(1)
        if len(calls) > 2:
            return "tree"
        try:
            raise SystemError(DISTURBED)
        except SystemError as error:
            raise (ValueError("in a compiler") if wrapped else error) from None

    assert undisturbed(attempt) == "tree" and len(calls) == 3


@pytest.mark.parametrize("error", [SystemError(DISTURBED), SystemError("other"), ValueError("no")])
def test_other_failures_and_endless_ones_are_raised(error):
    calls = []

    def attempt():
        calls.append(1)
        raise error

    with pytest.raises(type(error), match=str(error)[:5]):
        undisturbed(attempt)
    assert len(calls) == (ATTEMPTS if DISTURBED in str(error) else 1)


def test_wrong_source_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        parse("x = = 1")
    assert ast.unparse(parse("x+1", mode="eval")) == "x + 1"
