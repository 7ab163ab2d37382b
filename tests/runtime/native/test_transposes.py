"""Copies of matrices whose rows become columns, and weights that are laid out before a loop."""

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import threading, transposes
from tograph.runtime.native.packing import packed

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def turned(x):
    return x.t().contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("size", [(16, 16), (2, 200), (200, 3), (17, 33), (31, 64), (100, 47)])
def test_every_element_finds_its_place(size, dtype):
    x = torch.arange(size[0] * size[1]).view(size).to(dtype)
    f = tg.function(turned)
    f.get_concrete_function(x).scheduled.compile()
    for _ in range(3):
        assert torch.equal(f(x), turned(x)) and f(x).is_contiguous()
    assert "@transpose" in f.concrete_functions[0].scheduled.llvm


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("size", [(3, 16, 17), (2, 3, 33, 20), (2, 1, 3, 16, 16), (1, 40, 18)])
def test_several_matrices(size, threads, monkeypatch):
    monkeypatch.setattr(transposes, "LARGE", 1 if threads else 1 << 30)

    def f(x):
        return x.transpose(-1, -2).contiguous()

    whole = torch.randn(*size[:-2], size[-2] + 2, size[-1] + 1)
    for x in (torch.randn(size), whole[..., 2:, 1:]):
        g = tg.function(f)
        g.get_concrete_function(x).scheduled.compile()
        for _ in range(3):
            assert torch.equal(g(x), f(x)) and g(x).is_contiguous()
        assert "@transpose" in g.concrete_functions[0].scheduled.llvm


def test_matrices_that_are_not_the_same_distance_apart():
    def f(x):
        return x[:, :2].transpose(-1, -2).contiguous(), x.transpose(0, 1).transpose(
            -1, -2
        ).contiguous()

    x = torch.randn(3, 4, 17, 20)
    g = tg.function(f)
    for _ in range(3):
        for a, b in zip(g(x), f(x), strict=True):
            assert torch.equal(a, b)


def test_the_keys_of_attention_are_turned_for_enough_rows():
    def scores(q, k):
        return torch.softmax(q @ k.transpose(1, 2), -1)

    for rows, turned in ((4, False), (64, True)):
        q, k = torch.randn(3, rows, 64), torch.randn(3, 40, 64)
        g = tg.function(scores)
        g.get_concrete_function(q, k).scheduled.compile()
        torch.testing.assert_close(g(q, k), scores(q, k))
        # panels of keys have places of their own
        assert (" x float], align" in g.concrete_functions[0].scheduled.llvm) == turned


def test_on_all_threads(monkeypatch):
    monkeypatch.setattr(transposes, "LARGE", 1)
    x = torch.randn(70, 90)
    f = tg.function(turned)
    f.get_concrete_function(x).scheduled.compile()
    for _ in range(4):
        assert torch.equal(f(x), turned(x))
    assert ("@spread(" in f.concrete_functions[0].scheduled.llvm) == threading.available()


def test_a_bool_and_a_slice_of_columns_are_copied_too():
    x = torch.randn(40, 50)
    f = tg.function(lambda x: ((x > 0).t().contiguous(), (x + 1)[3:, 5:].t().contiguous()))
    for _ in range(3):
        for a, b in zip(f(x), f.python_function(x)):
            assert torch.equal(a, b)


# ---- weights of loops


def looped(cell, x, n):
    h = torch.zeros(x.shape[1], cell.hidden_size)
    with torch.no_grad():
        for i in range(n):
            h = cell(x[i], h)
    return h


def copies(f):
    graph = f.concrete_functions[0].watched_graph
    return [n.op for n in packed(graph).nodes].count("aten.clone.default")


@pytest.mark.parametrize(("rows", "count"), [(8, 2), (1, 0)])
def test_the_weights_of_a_cell_are_copied_once_where_rows_share_them(rows, count):
    cell, n = nn.GRUCell(24, 40), torch.tensor(5)
    x = torch.randn(5, rows, 24)
    f = tg.function(lambda x, n: looped(cell, x, n))
    for _ in range(3):
        torch.testing.assert_close(f(x, n), looped(cell, x, n))
    assert copies(f) == count
    with torch.no_grad():
        cell.weight_ih.mul_(0.5)  # nothing of them is kept between calls
        cell.weight_hh.data.add_(0.1)
    torch.testing.assert_close(f(x, n), looped(cell, x, n))


def test_a_matrix_that_something_else_looks_at_stays_as_it_is():
    w, n = torch.randn(20, 20) * 0.1, torch.tensor(3)

    def both(x, n):
        v = w.t()
        for _ in range(n):
            x = torch.tanh(x @ v) + v
        return x

    def inner(x, n):
        for i in range(n):
            for _ in range(i):
                x = torch.tanh(x @ w.t())
        return x

    x = torch.randn(20, 20)
    for f, count in ((both, 0), (inner, 1)):
        g = tg.function(f)
        for _ in range(3):
            torch.testing.assert_close(g(x, n), f(x, n))
        assert copies(g) == count


def test_a_matrix_in_columns_times_a_number_of_the_run():
    @tg.function
    def f(x):
        q, r = torch.linalg.qr(x[None] * x[:, None])
        return (q * torch.diag(r, 0).sign()).mul_(x[0].item())

    for i in range(1, 4):
        x = torch.tensor([1.0, 2.0, 3.0]) * i
        torch.testing.assert_close(f(x), f.python_function(x))
