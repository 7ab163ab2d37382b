"""Functions of torch that take Python numbers which are known only when the graph runs."""

import pytest
import torch

import tograph as tg

X = torch.tensor([1.1, 2.3], dtype=torch.float64)


def grown(x):
    xs = []
    for v in x:
        if v > 0:
            xs.append(float(v) * 1.1)
    return xs


EXACT = {
    "as_tensor": lambda x: torch.as_tensor(float(x.sum()), dtype=x.dtype),
    "tensor": lambda x: torch.tensor(x.sum().item(), dtype=x.dtype),
    "list": lambda x: torch.tensor([[float(x[0]), 1.1]], dtype=x.dtype),
    "beside a tensor": lambda x: torch.tensor([x[0], float(x[1]) * 1.1, 1.1]),
    "default type": lambda x: torch.tensor([float(x[0]), 1]),
    "grown list": lambda x: torch.tensor(grown(x), dtype=x.dtype),
    "grown list, default type": lambda x: torch.tensor(grown(x)),
    "integer": lambda x: torch.tensor(float(x[0]) * 1e8, dtype=torch.int64),
    "bool": lambda x: torch.tensor(float(x[0]) - 1.1, dtype=torch.bool),
    "complex": lambda x: torch.tensor([float(x[0]), 0.1], dtype=torch.complex128),
    "complex list": lambda x: torch.tensor([float(x[0]), 1j]),
    "asarray": lambda x: torch.asarray([float(x[0]), 1.1], dtype=x.dtype),
    "new_tensor": lambda x: x.new_tensor([float(x[0]), 1.1]),
    "Tensor": lambda x: torch.Tensor([float(x[0]), 1.1]),
    "DoubleTensor": lambda x: torch.DoubleTensor([float(x[0]), 1.1]),
    "full": lambda x: torch.full((2,), float(x[0]), dtype=x.dtype),
}


@pytest.mark.parametrize("name", EXACT)
def test_numbers_become_tensors_without_rounding_on_the_way(name):
    staged = tg.function(EXACT[name])
    for scale in (1, 3, 1):
        expected, got = EXACT[name](X * scale), staged(X * scale)
        assert expected.dtype == got.dtype
        assert torch.equal(expected, got), (expected, got)


def test_tensor_of_a_list_of_tuples():
    def rows(x):
        ys = []
        for v in x:
            if v > 0:
                ys.append((float(v), int(v)))
        return torch.tensor(ys, dtype=x.dtype), torch.tensor(ys)

    for expected, got in zip(rows(X), tg.function(rows)(X), strict=True):
        assert torch.equal(expected, got)
        assert expected.dtype == got.dtype
