"""Products with a turned matrix: panels of it are turned where they are used, by the thread that uses them."""

import re

import pytest
import torch

import tograph as tg
from tests.runtime.native.test_matmul import check, r
from tograph.runtime.kernels import jit
from tograph.runtime.native import packed, threading

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    """Of torch, in whose number the products are shared."""
    monkeypatch.setattr(threading, "PRODUCT", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(8, 2, 1), (9, 33, 17), (64, 70, 40), (150, 200, 33)])
def test_forms(m, n, k, dtype, threads):
    def products(a, bt, at, c):
        return torch.addmm(c, a, bt.t()) - at.t() @ bt.t()

    text = check(products, r(m, k, dtype=dtype), r(n, k, dtype=dtype), r(k, m, dtype=dtype), r(n, dtype=dtype))  # fmt: skip
    assert "shufflevector" in text
    assert "@transpose" not in text  # no copy before the product


def test_the_vectors_of_a_panel_are_turned_by_one_loop():
    """Written vector by vector, turning a panel took LLVM more time than the product."""
    width = jit.host().vector_bytes // 4

    def merges(vectors):
        text = check(lambda a, b: a @ b.t(), r(64, 2 * width), r(vectors * width, 2 * width))
        return len(re.findall(r"shufflevector [^\n]*i32> <i32", text))

    assert merges(2) == merges(1) > 0


def test_panels_in_chunks_of_rows(threads, monkeypatch):
    monkeypatch.setattr(packed, "ROWS", 8)
    check(lambda a, b: a @ b.t(), r(45, 20), r(33, 20))


def test_a_panel_is_as_wide_as_the_stack_has_room_for(threads, monkeypatch):
    monkeypatch.setattr(packed, "ROOM", 1)
    check(lambda a, b: a @ b.t(), r(45, 20), r(133, 20))


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_stacks(count, threads):
    def products(a, b, c):
        return torch.bmm(a, b.mT) + torch.baddbmm(c, a.mT.contiguous().mT, b.mT)

    text = check(products, r(count, 19, 8), r(count, 35, 8), r(count, 1, 35))
    assert "@transpose" not in text


def test_matrices_of_a_stack_are_one_loop(threads):
    text = check(lambda a, b: torch.bmm(a, b) * 2, r(50, 9, 8), r(50, 8, 11))
    assert text.count("call void @product0(") == 1


def test_a_weight_that_a_loop_changes(threads):
    def f(x, w):
        for _ in tg.range(5):
            y = x @ w.t()
            w = w * 0.5 + y.t() @ x * 0.01
        return w

    check(f, r(20, 12), r(33, 12))
