"""Small tensors as nodes, and what a function gives of them."""

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.runtime.graph import ops
from tograph.runtime.graph.constants import constant_of


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (0, 3), (2, 0, 3), (0, 0), (2, 1, 2)], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
def test_a_node_gives_the_tensor(shape, dtype):
    x = torch.ones(shape, dtype=dtype)
    op, args, kwargs = constant_of(x)
    made = ops.lookup(op).run(*args, **kwargs)
    assert made.dtype == dtype and torch.equal(made, x)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3)], ids=str)
def test_tensors_without_elements_keep_their_sizes(shape):
    data = np.zeros(shape)

    def f(x):
        return torch.tensor(data), torch.as_tensor(data) * 2, torch.zeros(*shape, 1).squeeze(-1)

    g = tg.function(f)
    for _ in range(2):
        assert [y.shape for y in g(torch.ones(1))] == [shape] * 3


def test_infinite_complex_numbers():
    def f(x):
        return torch.tensor(complex(-float("inf"), float("nan"))) + x, x * complex(0, float("inf"))

    g, x = tg.function(f), torch.ones(2, dtype=torch.complex64)
    for _ in range(2):
        torch.testing.assert_close(g(x), f(x), equal_nan=True)
