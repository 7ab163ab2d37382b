"""Systems, inverses and Cholesky factors in native code: the same numbers as eager PyTorch, its errors, and what is left to torch."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(
    jit.llvm is None or jit.symbols("sgetrf_", "sgetrs_", "spotrf_") is None,
    reason="needs llvmlite, and LAPACK under its own names",
)
T = torch.tensor

FORMS = {
    "system": lambda a, b: torch.linalg.solve(a, b[:, 0]),
    "systems": lambda a, b: torch.linalg.solve(a, b),
    "transposed": lambda a, b: torch.linalg.solve(a.t(), b),
    "rows": lambda a, b: torch.linalg.solve(a, b.t().contiguous().t()[:, :2]),
    "ex": lambda a, b: torch.linalg.solve_ex(a, b)[0],
    "inverse": lambda a, b: torch.linalg.inv(a),
    "of a part": lambda a, b: torch.linalg.inv(a[:2, :2]),
    "cholesky": lambda a, b: torch.linalg.cholesky(a + a.t() + 40 * torch.eye(len(a), dtype=a.dtype)),
    "factor twice": lambda a, b: torch.linalg.cholesky(torch.linalg.inv(a @ a.t() * 0 + torch.eye(len(a), dtype=a.dtype) * 3)),
}  # fmt: skip


def looped(form):
    def f(a, b, n):
        found, k = [], 0
        while k < n:
            found.append(form(a, b).flatten() * 1.0)
            k += 1
        return torch.stack(found)

    return f


def matrices(n, dtype, seed=0):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(n, n, dtype=dtype, generator=made), torch.randn(n, 3, dtype=dtype, generator=made)  # fmt: skip


def asked(g):
    native = g.concrete_functions[-1].scheduled.native
    assert native is not None, g.concrete_functions[-1].scheduled.reason
    return native.low.asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FORMS)
def test_numbers_are_those_of_eager(name, dtype):
    f = looped(FORMS[name])
    g = tg.function(f)
    for n in (2, 3, 7, 33):
        a, b = matrices(n, dtype)
        assert torch.equal(g(a, b, T(2)), f(a, b, T(2)))
        assert asked(g) == []


@pytest.mark.parametrize("name", ["system", "systems", "inverse", "cholesky"])
def test_sizes_of_the_run(name):
    form = (lambda a, b: torch.linalg.cholesky(a)) if name == "cholesky" else FORMS[name]

    def f(a, b, n):
        k, total = torch.tensor(1), torch.zeros(())
        while k <= n:
            total = total * 0.5 + form(a[:k, :k], b[:k]).sum()
            rows = torch.arange(len(b))[torch.arange(len(b)) < k]
            total = total + form(a[rows][:, rows], b[rows]).abs().sum()
            k = k + 1
        return total

    g = tg.function(f)
    a, b = matrices(9, torch.float64)
    a = a @ a.t() + torch.eye(9, dtype=a.dtype)
    for n in (1, 5, 9):
        torch.testing.assert_close(g(a, b, T(n)), f(a, b, T(n)))
    assert asked(g) == []


@pytest.mark.parametrize(
    ("form", "a"),
    [
        (FORMS["system"], torch.ones(3, 3)),
        (FORMS["inverse"], torch.zeros(3, 3)),
        (lambda a, b: torch.linalg.cholesky(a), -torch.eye(3)),
        (lambda a, b: torch.linalg.cholesky(a), torch.full((3, 3), torch.nan)),
    ],
)
def test_errors(form, a):
    f, b = looped(form), torch.ones(3, 3)
    g = tg.function(f)
    torch.testing.assert_close(g(torch.eye(3), b, T(2)), f(torch.eye(3), b, T(2)))
    found = []
    for call in (f, g):
        with pytest.raises(torch.linalg.LinAlgError) as caught:
            call(a, b, T(2))
        found.append(str(caught.value).splitlines()[0])
    assert found[0] == found[1]


def test_what_ex_says_of_a_singular_matrix():
    def f(a, b, n):
        k, words, found = 0, 0, torch.zeros(3)
        while k < n:
            x, word = torch.linalg.solve_ex(a * k, b)
            y, other = torch.linalg.cholesky_ex(a * (1 - k))
            words, found = (
                words * 10 + word + other * 100,
                torch.where(word == 0, x, found) + y[0] * 0,
            )
            k += 1
        return words, torch.nan_to_num(found)

    g = tg.function(f)
    for a in (torch.eye(3), torch.ones(3, 3)):
        torch.testing.assert_close(g(a, torch.ones(3), T(3)), f(a, torch.ones(3), T(3)))


@pytest.mark.parametrize(
    "form",
    [
        lambda a, b: torch.linalg.solve(torch.stack([a, a * 2]), torch.stack([b, b])),
        lambda a, b: torch.linalg.solve(a, b.t(), left=False),
        lambda a, b: torch.linalg.cholesky(a @ a.t() + torch.eye(3), upper=True),
        lambda a, b: torch.linalg.solve(a[:1, :1], b[:1]),
        lambda a, b: torch.linalg.inv(a[:1, :1] + 2),
        lambda a, b: torch.linalg.inv(a[:0, :0]),
    ],
)
def test_what_is_left_to_torch(form):
    f = looped(form)
    g = tg.function(f)
    a, b = matrices(3, torch.float32)
    torch.testing.assert_close(g(a, b, T(3)), f(a, b, T(3)))


def test_gradients():
    def f(a, b, n):
        x, k = b[:, 0], 0
        while k < n:
            x = torch.linalg.solve(a, x) + torch.linalg.inv(a) @ x
            k += 1
        return x.sum() + torch.linalg.cholesky(a @ a.t() + torch.eye(4)).sum()

    g = tg.function(f)
    a, b = matrices(4, torch.float32)
    found = []
    for call in (g, f):
        p = a.clone().requires_grad_()
        call(p, b, T(2)).backward()
        found.append(p.grad)
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
