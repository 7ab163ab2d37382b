"""All analyses of a function at once."""

import gc
import weakref

from tograph.transpiler.analysis import analyze_all
from tograph.transpiler.anno import Fact, get_fact
from tograph.transpiler.syntax import parse_statements

SOURCE = """
def f(x):
    def g(y):
        while y < 3:
            y += 1
        return y
    for i in x:
        try:
            x = g(i)
        finally:
            print(i)
    return x
"""


def test_a_tree_that_was_analysed_goes_without_the_collector():
    """Nodes of flow graphs name each other: left alone, they would keep the tree, 800 objects of a usual function."""
    (tree,) = parse_statements(SOURCE)
    analyze_all(tree)
    assert get_fact(tree.body[1], Fact.LIVE_OUT) == {"x"}
    gone = weakref.ref(tree), weakref.ref(tree.body[0].body[0])
    gc.disable()
    try:
        del tree
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()
