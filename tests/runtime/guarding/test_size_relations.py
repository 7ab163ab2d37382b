"""Relations of sizes that a trace was made for: as calls ask for them, and as values."""

import pytest
import torch

import tograph as tg
from tograph.runtime.guarding.size_relations import compiled, evaluate

X, Y, N = ("size", 0, 0), ("size", 1, 1), ("number", 2)
EXPRESSIONS = [
    ("eq", X, Y), ("lt", ("add", X, 1), ("mul", Y, 2)), ("floordiv", X, 2), ("mod", ("neg", X), 3), ("not", ("ge", X, Y)), ("min", X, Y),
    ("pow", X, 2), ("truediv", X, Y), ("and_", ("gt", X, 1), ("gt", Y, 1)), ("ne", N, X), ("abs", ("sub", X, Y)), 3,
]  # fmt: skip


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_calls_ask_what_the_values_tell(expr):
    for n, m in ((1, 2), (4, 4), (7, 3)):
        tensors = torch.zeros(n), torch.zeros(2, m), torch.tensor(n)
        value = evaluate(expr, tensors)
        assert compiled([(expr, value)])(tensors)
        assert not compiled([(expr, (value, "another"))])(tensors)
        assert not compiled([(expr, value), (X, n + 1)])(tensors)
    assert compiled([])(())


def test_a_call_of_other_sizes_is_another_trace():
    f = tg.function(lambda x, y: x + y, input_signature=[tg.TensorSpec((None,), torch.float32)] * 2)
    for n, m in ((4, 4), (5, 5), (5, 1), (6, 6), (3, 3)):
        assert torch.equal(f(torch.ones(n), torch.ones(m)), torch.ones(n) + torch.ones(m))
