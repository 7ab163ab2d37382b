"""``torch.lobpcg`` inside of a function: the eigenpairs, what a tracker sees, and the gradient."""

from contextlib import redirect_stdout
from io import StringIO

import torch

import tograph as tg

D = torch.float64


def positive(n, dtype=D):
    a = torch.randn(n, n, dtype=dtype, generator=torch.Generator().manual_seed(n))
    return a @ a.T + torch.diag(torch.arange(n, dtype=dtype))


A, X = positive(9), torch.linspace(-1, 1, 18, dtype=D).reshape(9, 2).sin()


def test_a_general_problem_with_columns_that_are_dropped():
    def f(a, x):
        return torch.lobpcg(a, X=x, B=a / 5, niter=4, ortho_bparams={"ortho_use_drop": True})

    for y, e in zip(tg.function(f)(A, X.clone()), f(A, X.clone())):
        torch.testing.assert_close(y, e)


def test_tracker():
    def f(a, x):
        def tracker(worker):
            first, later = (worker.fvars.get(f"ortho_UBUmI_rerr[{i}, 0]", -1.0) for i in (0, 1))
            print(worker.ivars["istep"], worker.ivars["ortho_i"], first >= 0, later, end=";")

        return torch.lobpcg(a, X=x, tracker=tracker, niter=3, largest=False, iK=a / 9)[0]

    with redirect_stdout(StringIO()) as native:
        e = f(A, X.clone())
    with redirect_stdout(StringIO()) as staged:
        y = tg.function(f)(A, X.clone())
    assert native.getvalue() == staged.getvalue() and native.getvalue().count(";") == 3
    torch.testing.assert_close(y, e)


def test_gradient(monkeypatch):
    traced, symeig = [], torch._linalg_utils.symeig
    monkeypatch.setattr(
        torch._linalg_utils, "symeig", tg.do_not_convert(lambda *a: traced.append(1) or symeig(*a))
    )

    def f(a, x):
        e, v = torch.lobpcg(a, X=x)
        return e.sum() + (v**2)[0].sum()

    grads = []
    for g in (f, tg.function(f)):
        a = A.clone().requires_grad_()
        grads += torch.autograd.grad(g(a, X.clone()), a)
    torch.testing.assert_close(*grads)
    assert len(traced) < 250  # the nested loops settle in a few rounds each
