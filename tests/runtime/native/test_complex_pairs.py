"""Complex tensors in native code: as eager PyTorch has them, for each op, in loops and branches, and where they enter, leave and are printed."""

import math

import pytest
import torch

import tograph as tg
from tests.converters.both import run
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
# The code of the narrow type is optimised.
WIDTHS = [torch.complex64, pytest.param(torch.complex128, marks=pytest.mark.unoptimised)]
BOTH = pytest.mark.parametrize("dtype", WIDTHS)


def z(*shape, dtype=torch.complex64, seed=0):
    return torch.randn(
        *shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + len(shape))
    )


def check(f, *args, level="native"):
    """``f`` as native code gives what it gives."""
    g = tg.function(f)
    for _ in range(4):
        torch.testing.assert_close(g(*args), f(*args), rtol=1e-5, atol=1e-6, equal_nan=True)
    program = g.concrete_functions[-1].scheduled
    assert program.level == level, program.reason
    return program


def mandelbrot(c):
    x, n = torch.zeros_like(c), torch.zeros(c.shape, dtype=torch.int64)
    for _ in range(12):
        x = x * x + c
        n = n + (x.abs() < 2)
    return x, n


def newton(x):
    n = 0
    while n < 30:
        d = (x**3 - 1) / (3 * x**2)
        x = x - d
        n += 1
        if d.abs().max() < 1e-4:
            break
    return x, n


def circuit(x):
    state = torch.zeros(8, dtype=x.dtype)
    state[0] = 1
    for t in x.real:
        c, s = torch.cos(t / 2), torch.sin(t / 2)
        gate = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).to(x.dtype)
        psi = torch.einsum("ab,bcd->acd", gate, state.view(2, 2, 2))
        state = psi.permute(1, 2, 0).reshape(8) * torch.exp(1j * t)
    return state, state.abs() ** 2


def branches(x):
    total = torch.zeros((), dtype=x.dtype)
    for v in x:
        if v.real > 0:
            total = total + v * (1 - 2j)
        else:
            total = total * 0.5 - v.conj()
    return total


def wave(x):
    k = torch.arange(x.shape[0]) * 0.3
    for _ in range(4):
        x = torch.fft.ifft(torch.exp(-0.5j * k) * torch.fft.fft(x * torch.exp(-0.25j * k)))
    return x


def power(x):
    v = x[0]
    for _ in range(5):
        v = x @ v
        v = v / torch.linalg.vector_norm(v)
    return v, torch.vdot(v, x @ v)


@BOTH
@pytest.mark.parametrize("f", [mandelbrot, newton, circuit, branches, wave, power])
def test_programs_of_complex_tensors_are_native(f, dtype):
    check(f, z(6, 6, dtype=dtype) * 0.5 if f is power else z(6, dtype=dtype))


def each(name, *forms):
    return [pytest.param(f, id=f"{name}{i}") for i, f in enumerate(forms)]


OPS = [
    *each("add", lambda x, y, r: x + y, lambda x, y, r: x + r, lambda x, y, r: r + x, lambda x, y, r: x + 2, lambda x, y, r: 1.5 + x, lambda x, y, r: x + (1 - 2j)),
    *each("sub", lambda x, y, r: x - y, lambda x, y, r: x - r, lambda x, y, r: r - x, lambda x, y, r: 2 - x, lambda x, y, r: (1 - 2j) - x, lambda x, y, r: torch.sub(x, y, alpha=2)),
    *each("mul", lambda x, y, r: x * y, lambda x, y, r: x * r, lambda x, y, r: r * 2j, lambda x, y, r: x * 2, lambda x, y, r: x * (1 - 2j)),
    *each("div", lambda x, y, r: x / y, lambda x, y, r: x / r, lambda x, y, r: r / x, lambda x, y, r: x / 2, lambda x, y, r: 1 / x, lambda x, y, r: x / (1 - 2j)),
    *each("pow", lambda x, y, r: x**2, lambda x, y, r: x**3, lambda x, y, r: x**0.5, lambda x, y, r: x**-1),
    *each("exp", lambda x, y, r: torch.exp(x), lambda x, y, r: torch.exp(1j * r), lambda x, y, r: torch.polar(r.abs(), r)),
    *each("abs", lambda x, y, r: x.abs(), lambda x, y, r: x.angle(), lambda x, y, r: x.real + x.imag, lambda x, y, r: torch.view_as_real(x) * 2, lambda x, y, r: x.sgn()),
    *each("made", lambda x, y, r: torch.complex(r, r * 2), lambda x, y, r: torch.view_as_complex(torch.stack([r, -r], -1)) * 2, lambda x, y, r: r.to(x.dtype) + 1, lambda x, y, r: torch.zeros_like(x) + torch.ones(3, dtype=x.dtype), lambda x, y, r: torch.full((3,), 2 + 1j) * x),
    *each("conj", lambda x, y, r: x.conj() * y, lambda x, y, r: (x.conj() @ y.mT).real, lambda x, y, r: x.mH @ y),
    *each("where", lambda x, y, r: torch.where(r > 0, x, y), lambda x, y, r: torch.where(r > 0, x, 1j), lambda x, y, r: (x == y) | (x != x), lambda x, y, r: x == 1),
    *each("moved", lambda x, y, r: torch.cat([x, y]).roll(1, 0), lambda x, y, r: torch.cat([torch.arange(3).expand(2, 3), x, (r > 0)[:1]]), lambda x, y, r: torch.stack([x, y])[1] * 1, lambda x, y, r: x[:, 1:].sum(0), lambda x, y, r: (x + 0).mT.contiguous(), lambda x, y, r: x.mean() + y.sum(1), lambda x, y, r: torch.cumsum(x, 0)),
    *each("asked", lambda x, y, r: torch.sin(x) + torch.sqrt(y), lambda x, y, r: torch.log(x) * torch.tanh(y), lambda x, y, r: torch.linalg.det(x @ y.mT), lambda x, y, r: torch.prod(x, 0), lambda x, y, r: torch.fft.fft2(x).abs()),
]  # fmt: skip


@pytest.mark.parametrize("f", OPS)
def test_ops(f):
    """The types in turn: each family of forms has both."""
    dtype = [torch.complex64, torch.complex128][[p.values[0] for p in OPS].index(f) % 2]
    real = torch.float32 if dtype is torch.complex64 else torch.float64

    def program(x, y, r):  # with enough of native code around, and twice
        for _ in range(2):
            r = r * 1.25 - 0.5
        return f(x, y, r.abs() * 0.5 + 0.1 if r.sum() > 1e9 else r), r.sum() + r.mean() * r.max()

    for shape in [(3, 3), (1, 3), (17, 3)]:
        x, y = z(*shape, dtype=dtype), z(*shape, dtype=dtype, seed=7)
        r = torch.randn(shape, dtype=real, generator=torch.Generator().manual_seed(3))
        if x.shape[0] != 3 and f in [
            p.values[0] for p in OPS if p.id.startswith(("asked", "conj"))
        ]:
            continue
        g = tg.function(program)
        for _ in range(3):
            found, expected = g(x, y, r), program(x, y, r)
            torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5, equal_nan=True)
            assert found[0].dtype == expected[0].dtype
            assert 1 in shape or found[0].stride() == expected[0].stride()


def test_products_of_what_is_no_number_are_those_of_eager():
    values = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]
    x = torch.tensor([complex(a, b) for a in values for b in values])
    pairs = x[:, None].expand(36, 36), x[None].expand(36, 36)
    a, b = (p.contiguous() for p in pairs)

    def f(a, b):
        for _ in range(2):
            c = a * b + a - b
        return c, a * 2.0, a.abs()

    check(f, a, b)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_quotients_and_exponentials_have_the_limits_of_eager(dtype):
    """Divisors that are zero or infinite, and powers that are, or would be without a cosine."""
    values = [0.0, -0.0, 1.0, -2.5, 89.0, 710.0, 1e30, math.inf, -math.inf, math.nan]
    x = torch.tensor([complex(a, b) for a in values for b in values], dtype=dtype)
    a, b = (p.contiguous() for p in (x[:, None].expand(100, 100), x[None].expand(100, 100)))

    def f(a, b):
        for _ in range(2):
            c = a / b
        return c, a / b.real, 2.5 / b, a / (1 - 2j), a.exp()

    g = tg.function(f)
    for _ in range(2):
        for found, expected in zip(g(a, b), f(a, b)):
            parts = torch.view_as_real(found), torch.view_as_real(expected)
            torch.testing.assert_close(*parts, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert g.concrete_functions[0].scheduled.level == "native"


def test_results_that_share_memory_still_do():
    def f(x):
        for _ in range(3):
            x = x * (1 + 1j)
        return x, x[0], x.real

    g = tg.function(f)
    for _ in range(4):
        y, row, real = g(z(3, 3))
        y[0, 0] = 9
        assert row[0] == 9 and real[0, 0] == 9


def test_a_result_that_is_the_argument_is_that():
    def f(x, n):
        while n > 0:
            x = x * 2j
            n = n - 1
        return x

    g, x = tg.function(f), z(4)
    for n in (2, 0, 3, 0):
        assert (g(x, torch.tensor(n)) is x) == (n == 0)
    assert (g(x.conj(), torch.tensor(1)) == f(x.conj(), torch.tensor(1))).all()


def test_prints_empty_tensors_and_gradients():
    def says(x):
        n = 0
        for v in x:
            n += 1
            print(n, v, f"{v * 2}")
        return x * 2

    g, x = tg.function(says), torch.tensor([1 + 2j, -0.5j])
    for _ in range(3):
        assert run(says, (x,)).printed == run(g, (x,)).printed

    def loss(x):
        for _ in range(3):
            x = x * x + 0.1j
        return (x.abs() ** 2).sum()

    x = (z(5) * 0.5).requires_grad_()
    for _ in range(3):
        (expected,), (found,) = (torch.autograd.grad(f(x), x) for f in (loss, tg.function(loss)))
        torch.testing.assert_close(found, expected)
    check(mandelbrot, z(0))
    check(mandelbrot, z(1))


def test_views_of_one_element_leave():
    def f(z):
        y = z * z
        return y, y.detach(), y[0], y.view(1, 1), torch.tensor(z.real.sum().item(), dtype=z.dtype)

    g, x = tg.function(f), torch.tensor([1 + 2j])
    for k in range(3):
        for found, expected in zip(g(x * k), f(x * k)):
            assert torch.equal(found, expected) and found.shape == expected.shape


@BOTH
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x.unbind(-1), lambda x: x.unbind(), lambda x: x.chunk(2, -1), lambda x: x.split([1, 2]), lambda x: x.split(3, dim=1), lambda x: list(x),
    ],
)  # fmt: skip
def test_several_views(part, dtype):
    def f(x, n):
        total = x * 0
        while n > 0:
            parts = part(x * n)
            total = total + parts[0].sum() * parts[-1].sum().conj()
            n = n - 1
        return total, parts[-1].sum()

    check(f, z(3, 4, dtype=dtype), torch.tensor(2))


@BOTH
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize(
    "part",
    [lambda x: x.unbind(1), lambda x: x.chunk(2), lambda x: x.split([1, 3], 1), lambda x: (x[0], x[:, 1:])],
)  # fmt: skip
def test_views_of_an_argument_leave(part, wants, dtype):
    def f(x, n):
        while n > 0:
            parts = part(x)
            n = n - 1
        return parts

    found, x = [], z(3, 4, dtype=dtype)
    for g in (f, tg.function(f)):
        x = x.detach().clone().requires_grad_(wants)
        parts = g(x, torch.tensor(2))
        loss = sum(p.abs().sum() for p in parts)
        found.append([parts, torch.autograd.grad(loss, x) if wants else None])
    torch.testing.assert_close(*found, check_stride=True)


@BOTH
def test_gradient_through_zeros_in_place(dtype):
    def f(x, n):
        while n > 0:
            y = x * n
            y.zero_()
            n = n - 1
        return y

    for g in (f, tg.function(f)):
        x = z(3, dtype=dtype).requires_grad_()
        assert torch.autograd.grad(g(x, torch.tensor(2)).abs().sum(), x)[0].tolist() == [0, 0, 0]


@BOTH
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_what_is_real_written_over_what_is_complex(kind, dtype):
    def f(x, y, n):
        z = x * 1
        while n > 0:
            z.copy_(y)
            z[0] = y[1]
            w = x.clone().logical_and_(y)
            n = n - 1
        return z, w

    check(f, z(3, 4, dtype=dtype), (torch.arange(12).reshape(3, 4) % 3).to(kind), torch.tensor(2))


def turned(x, steps, n):
    """Rotary embeddings of pieces of a sequence, whose length only the run knows."""
    total, begin = x.new_zeros(()), 0
    for end in range(3, 9):
        part = x[:, begin:end]
        pairs = torch.view_as_complex(part.reshape(*part.shape[:-1], -1, 2))
        pairs = pairs * steps[begin:end].view(1, part.shape[1], 1, 2) + pairs - 0.5 * pairs.conj()
        shown = torch.view_as_real(pairs).flatten(3)
        total = total + (shown * shown.exp()).sum() + pairs.abs().sum()
        begin = end
        if total > n:
            break
    return total, begin


def test_sizes_that_only_the_run_knows():
    x, steps = torch.rand(2, 9, 2, 4), torch.polar(torch.ones(9, 2), torch.rand(9, 2))
    for n in (1.0, 50.0, 500.0):
        check(turned, x, steps, torch.tensor(n))


def test_a_sum_with_a_real_tensor_of_an_open_size():
    def f(x, y, n):
        total = x.new_zeros(())
        while n > 0:
            total = total + (x[:n] + y[:n]).sum() + (x[:n, :1] * y[:n]).prod()
            n = n - 1
        return total

    g, x, y = tg.function(f), z(4, 3), torch.rand(4, 3)
    for _ in range(3):
        torch.testing.assert_close(g(x, y, torch.tensor(3)), f(x, y, torch.tensor(3)))


@BOTH
def test_what_only_moves_leaves_without_being_computed(dtype):
    def gradients(run):
        x = z(3, 5, dtype=dtype).requires_grad_()
        made = [run(f, x) for f in (lambda x: x.sum(), lambda x: x.t(), lambda x: x[:, ::2])]
        return [torch.autograd.grad(y, x, torch.ones_like(y))[0] for y in made]

    kept = {}
    for _ in range(3):
        found = gradients(lambda f, x: kept.setdefault(f.__code__.co_code, tg.function(f))(x))
        torch.testing.assert_close(found, gradients(lambda f, x: f(x)))


@BOTH
def test_squeezes_of_a_number(dtype):
    x = torch.tensor(1 + 2j, dtype=dtype)
    check(lambda x: (x.squeeze(0) * 2, x.squeeze(-1).unsqueeze(0)), x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("n", [300, 1000, 4097])
def test_parts_of_an_argument_are_read_where_they_are(n, dtype):
    def f(x, y):
        return x * y + x.conj(), x.abs() + y.real, (x - y).sum(), x.imag * 2

    x, y = torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
    g = tg.function(f)
    cf = g.get_concrete_function(x, y)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    assert not any("clone" in line for k in cf.scheduled.native.low.kernels[:1] for line in k.lines)
    for _ in range(2):
        for got, want in zip(g(x, y), f(x, y), strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()


def test_parts_of_an_argument_that_is_written():
    def f(x, y):
        x.mul_(y)
        z = x * 2
        x.add_(y.conj())
        return z, x.real + y.imag

    x, y = torch.randn(500, dtype=torch.complex64), torch.randn(500, dtype=torch.complex64)
    g = tg.function(f)
    for _ in range(4):
        a, b = x.clone(), x.clone()
        for got, want in zip(g(a, y), f(b, y), strict=True):
            torch.testing.assert_close(got, want)
        torch.testing.assert_close(a, b)
