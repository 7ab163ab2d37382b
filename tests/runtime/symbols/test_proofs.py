"""Whole numbers of a graph: what is proved of them, and their limits."""

import pytest

from tograph.runtime.graph.ir import Node, Value
from tograph.runtime.graph.types import INT
from tograph.runtime.symbols.affine import constant
from tograph.runtime.symbols.funcgraph import FuncGraph
from tograph.runtime.symbols.limits import limits
from tograph.runtime.symbols.proofs import Numbers


def op(name, *args):
    return Node(name, args, {}, [INT]).outputs[0]


N = Value(INT)  # of which nothing is known
K = op("py.mod", N, 31)  # 0 to 30


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (N, (None, None)),
        (K, (0, 30)),
        (op("py.add", op("py.mul", K, -2), 5), (-55, 5)),
        (op("py.floordiv", K, 4), (0, 7)),
        (op("py.min", N, 3), (None, 3)),
        (op("py.max", K, 12), (12, 30)),
        (op("py.abs", op("py.sub", K, 9)), (0, 21)),
        (op("py.range_length", 0, K, 4), (0, 8)),
        (op("py.position", N, 12), (0, 11)),
    ],
)
def test_limits(value, found):
    x = Numbers(FuncGraph("main"))
    low, high = found
    assert limits(x, x.sum(value)) == found
    assert low is None or x.proves(x.sum(value) - constant(low))
    assert high is None or x.proves(constant(high) - x.sum(value))
    assert low is None or not x.proves(x.sum(value) - constant(low + 1))
    assert not x.used


def test_numbers_that_are_computed_alike_are_one():
    x = Numbers(FuncGraph("main"))
    again = op("py.mod", N, 31)
    assert x.sum(op("py.add", again, 4)) - x.sum(K) == constant(4)


def test_relations_need_no_limits():
    x = Numbers(FuncGraph("main"))
    length = op("py.max", N, 0)
    part = op("py.floordiv", op("py.mul", length, 2), 3)
    assert x.proves(x.sum(length) - x.sum(part))
    assert not x.proves(x.sum(part) - x.sum(length))


def test_a_number_of_many_ops_is_not_looked_through():
    value = K
    for _ in range(5000):
        value = op("py.add", value, 1)
    x = Numbers(FuncGraph("main"))
    assert not x.proves(constant(10_000) - x.sum(value))
