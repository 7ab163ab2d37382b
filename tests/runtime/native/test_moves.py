"""Ops that write parts of a result: every dimension, small and large."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

CASES = {
    "cat 0": lambda x: torch.cat([x, x * 2], 0),
    "cat 1": lambda x: torch.cat([x, x * 2], 1),
    "cat of three": lambda x: torch.cat([x, x * 2, x], -1),
    "stack 1": lambda x: torch.stack([x, x * 3], 1),
    "stack 2": lambda x: torch.stack([x, x * 3], 2),
    "cat of transposed": lambda x: torch.cat([x.t(), x.t() * 2], 1),
}


@pytest.mark.parametrize("size", [(2, 3), (64, 65)])
@pytest.mark.parametrize("name", CASES)
def test_parts_lie_where_torch_puts_them(name, size):
    f = tg.function(CASES[name])
    x = torch.randn(size)
    for _ in range(3):  # the first call runs before anything is compiled
        assert torch.equal(f(x), f.python_function(x))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64]
)
def test_a_stack_of_numbers_of_several_types(dtype):
    @tg.function
    def f(x, y):
        return torch.stack([y, x, torch.tensor(1.5)]), torch.stack([x + 1, y]), sorted([3, x, y])

    x, y = torch.tensor(0.5), torch.tensor(2.25).to(dtype)
    for _ in range(3):  # the first call runs before anything is compiled
        torch.testing.assert_close(f(x, y)[:2], f.python_function(x, y)[:2])
        assert list(map(float, f(x, y)[2])) == sorted([3.0, 0.5, float(y)])


@pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
def test_a_part_of_a_tensor_whose_size_only_the_run_knows():
    def f(x, n):
        rows = []
        for i in range(n):
            rows.append(x - i % 3)
        points, t = torch.stack(rows), 0
        while t < 3:
            points = points[points.sum(1).argsort()]
            if points[0].sum() < 1:
                points[-1] = points[0] * 0.5
            else:
                points[0] = points[1]
            t += 1
        return points

    g, x = tg.function(f), torch.randn(64)
    for n in (5, 40, 400):
        torch.testing.assert_close(g(x, torch.tensor(n)), f(x, n))
    program = g.get_concrete_function(x, torch.tensor(n)).scheduled
    assert (program.level, program.reason) == ("native", "")


def _of_a_branch(w, c):
    y = w
    if c > 0:
        y = w + c
    z = y.clone()
    z[1] += 1
    return z.sum()


def _of_a_loop(w, n):
    y, k = w, 0
    while k < n:
        k = k + 1
        y = y * 0.5 + k
    z = y.clone()
    z[1] += 1
    return z.sum()


def _of_a_list(w, c):
    rows = [w]
    if c > 0:
        rows = [w + 1]
    z = rows[0].clone()
    z[:, 1] *= 2
    return z.sum()


@pytest.mark.parametrize("f", [_of_a_branch, _of_a_loop, _of_a_list])
def test_what_may_be_an_argument_is_not_updated_in_place(f):
    staged = tg.function(f)
    for c in (2, 0, 0, 1, 0):
        w = torch.arange(12.0).view(3, 4)
        kept = w.clone()
        torch.testing.assert_close(staged(w, torch.tensor(c)), f(kept, torch.tensor(c)))
        assert w.equal(torch.arange(12.0).view(3, 4))


def test_what_may_be_a_buffer_is_not_updated_in_place():
    weights = torch.nn.Module()
    weights.register_buffer("w", torch.arange(12.0).view(3, 4))
    staged = tg.function(lambda c: _of_a_branch(weights.w, c))
    for c in (1.0, 0.0, 0.0):
        staged(torch.tensor(c))
        assert weights.w.equal(torch.arange(12.0).view(3, 4))
