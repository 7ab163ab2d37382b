"""Library functions in ulp, on the vector units that this machine has or can imitate."""

import dataclasses
import math

import pytest
import torch

from tests.runtime.kernels.kernel_samples import SPECIAL
from tograph.runtime.kernels import jit, kernel, llvm
from tograph.runtime.kernels.loop_ir import Affine, Buffer, Dim, Expr, Kernel, Store

MAX_ULP = {
    "exp": 1.1,
    "exp2": 1.1,
    "expm1": 1.6,
    "log": 1.1,
    "log2": 1.6,
    "log10": 1.6,
    "log1p": 1.6,
    "tanh": 1.5,
    "erf": 2.3,
}
N = 60_000


def arguments(name: str) -> torch.Tensor:
    """All magnitudes, denser where the function changes."""
    g = torch.Generator().manual_seed(3)
    x = torch.empty(N, dtype=torch.float64).uniform_(-12, 12, generator=g)
    x[::3] = torch.empty_like(x[::3]).uniform_(-1, 1, generator=g)
    x[::5] = torch.exp2(torch.empty_like(x[::5]).uniform_(-148, 127, generator=g))
    x[::7] = torch.empty_like(x[::7]).uniform_(-104, 89, generator=g)
    x[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
    return (x.abs() if name in ("log", "log2", "log10") else x).float()


def unary(name: str, op: str, dtype: str) -> Kernel:
    address = Affine((("i", 1),))
    x = Expr("load", dtype, name="p0", address=address, number=0)
    y = Expr(op, dtype, (x,), number=1)
    buffers = (Buffer("p0", dtype), Buffer("o0", dtype, True))
    return Kernel(name, (Dim("i", N),), (), buffers, (), (), (x, y), (Store("o0", address, y),))


def apply(op: str, x: torch.Tensor, machine: llvm.Target, dtype: str = "f32") -> torch.Tensor:
    loops = unary(f"{op}_test", op, dtype)
    rendered = llvm.render(loops, machine)
    found = {n: jit.symbol(n) for n in rendered.imports}
    made = kernel.Kernel(loops.name, rendered.text + f"define i32 @{loops.name}_threads(ptr %p, i64 %g) {{\n  ret i32 0\n}}\n",
                         loops, rendered.units, rendered.units, tuple(found), "serial")  # fmt: skip
    out = torch.empty_like(x)
    made.run({"p0": x, "o0": out})
    return out


def worst(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error in f32 ulp of the exact result, denormals in units of the smallest one."""
    finite = exact.float().isfinite()
    step = torch.frexp(exact[finite].abs().clamp(min=2.0**-126))[1] - 24
    return ((got[finite].double() - exact[finite]).abs() / torch.exp2(step.double())).max().item()


def machines():
    host = kernel.target()
    if host is None:
        return []
    return [host, dataclasses.replace(host, avx512=False, vector_bytes=32)]


@pytest.mark.parametrize("width", [0, 1], ids=["host", "portable"])
@pytest.mark.parametrize("op", sorted(MAX_ULP))
def test_own_functions(op, width):
    x = arguments(op)
    exact = getattr(torch, op)(x.double())
    got = apply(op, x, machines()[width])
    assert worst(got, exact) <= MAX_ULP[op]
    want = exact.float()
    odd = ~want.isfinite()
    assert torch.equal(got[odd].nan_to_num(7.0), want[odd].nan_to_num(7.0))
    assert torch.equal(got[want == 0].signbit(), want[want == 0].signbit())


def test_without_fused_multiply_add():
    machine = dataclasses.replace(machines()[0], fma=False, avx512=False, vector_bytes=16)
    x = arguments("exp")
    assert "llvm.fma" not in llvm.render(unary("k", "exp", "f32"), machine).text
    assert worst(apply("exp", x, machine), torch.exp(x.double())) <= 2.5


@pytest.mark.parametrize("op", ["exp", "log", "tanh", "erf", "sin", "atan"])
def test_precise_and_double(op):
    x = arguments(op)
    machine = dataclasses.replace(machines()[0], precise=True)
    exact = getattr(torch, op)(x.double())
    assert worst(apply(op, x, machine), exact) <= 1.05
    got = apply(op, x.double(), machines()[0], "f64")
    torch.testing.assert_close(got, exact, rtol=1e-15, atol=0, equal_nan=True)


def test_limits():
    x = torch.tensor([math.inf, -math.inf, math.nan, -0.0, 104.0, -104.0] + [0.0] * (N - 6))
    got = apply("exp", x, machines()[0])
    assert got[:6].tolist()[:2] == [math.inf, 0.0] and got[2].isnan() and got[3] == 1


@pytest.mark.parametrize("width", [0, 1], ids=["host", "portable"])
@pytest.mark.parametrize("op, one", [("erf", 3.93), ("tanh", 9.1)])
def test_functions_that_end_at_one_do_not_pass_it(op, one, width):
    x = torch.linspace(0.5 * one, 1.1 * one, N)
    got = apply(op, x, machines()[width])
    assert got.max() == 1
    assert (got[x >= one] == 1).all()
    assert torch.equal(apply(op, -x, machines()[width]), -got)
