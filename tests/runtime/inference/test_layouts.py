"""Tensors that are not strided: a sparse matrix from outside is multiplied, all else is refused."""

import warnings

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.errors import UnsupportedOpError

DENSE = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


class Propagation(nn.Module):
    """A graph network in small: a sparse matrix, multiplied until the result is large."""

    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", DENSE.to_sparse())
        self.weight = nn.Parameter(torch.eye(2))

    def forward(self, x):
        while x.sum() < 500:
            x = torch.sparse.mm(self.matrix, x) @ self.weight + self.matrix @ x[:, 0]
        return torch.sparse.addmm(x, self.matrix, x) if self.matrix.is_sparse else x


def test_products_of_a_sparse_matrix():
    found = []
    for stage in (lambda f: f, tg.function):
        net = Propagation()
        f = stage(lambda x, net=net: net(x))
        for _ in range(3):
            net.zero_grad()
            y = f(X)
            y.sum().backward()
        found.append((y, net.weight.grad))
    torch.testing.assert_close(*found)


def others():
    return {
        "sparse_coo": DENSE.to_sparse(),
        "sparse_csr": DENSE.to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(DENSE, 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([X[0], X[1, :1]], layout=torch.jagged),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr", "quantized", "nested"])
def test_other_tensors_are_refused(kind):
    def twice(x):
        return x + x

    x = others()[kind]
    f = tg.function(twice)
    for _ in range(3):
        f(DENSE)
    for call in (lambda: f(x), lambda: tg.function(lambda y: twice(x) + y)(X)):
        with pytest.raises(UnsupportedOpError, match=f"strided memory, no {kind} ones"):
            call()


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.to_sparse().to_dense(),
        lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), x[0], (2, 2)).to_dense(),
    ],
)
def test_what_a_function_makes_is_refused(made):
    with pytest.raises(UnsupportedOpError, match="strided memory"):
        tg.function(made)(X)


def test_sparse_gradients_of_a_call():
    found, i = [], torch.tensor([1, 0, 1])
    for stage in (lambda f: f, tg.function):
        torch.manual_seed(0)
        table = nn.Embedding(4, 2, sparse=True)
        stage(lambda i, table=table: table(i).sin().sum())(i).backward()
        assert table.weight.grad.layout is torch.sparse_coo
        found.append(table.weight.grad.to_dense())
    torch.testing.assert_close(*found)


def test_layers_with_weights_of_cpp_are_refused_by_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(2, 2)))
    with pytest.raises(UnsupportedOpError, match="quantized_lstm"):
        tg.function(model)(torch.ones(1, 1, 2))


@pytest.mark.parametrize(
    "f", [lambda y: 2.0 // y, lambda y: 2.0 % y, lambda y: 2.0**y, lambda y: 2 - y]
)
def test_a_number_in_front_of_a_turned_tensor(f):
    y = torch.linspace(1, 2, 12).view(4, 3).t()
    found = tg.function(f)
    for _ in range(3):
        assert found(y).stride() == f(y).stride()
