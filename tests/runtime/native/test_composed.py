"""Ops that are others in native code: values, infinities and NaN, strides, gradients and errors of eager PyTorch, and no call of torch."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

inf, nan = float("inf"), float("nan")
ODD = torch.tensor([[0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 0.5], [2.0, -3.0, 0.25, 1e30, -1e-30, 7.0, -inf, 1.0]])  # fmt: skip

POINTWISE = {
    "sinc": torch.sinc,
    "deg2rad": lambda x: torch.deg2rad(x) + torch.rad2deg(x),
    "angle": torch.angle,
    "heaviside": lambda x: torch.heaviside(x, x + 0.5),
    "heaviside of a number": lambda x: torch.heaviside(x, x[0, 2]),
    "rrelu": lambda x: F.rrelu(x, training=False),
    "addr": lambda x: torch.addr(x, x[:, 2], x[0]),
    "addr, scaled": lambda x: torch.addr(x, x[:, 2], x[0], beta=0.5, alpha=2),
    "erfinv": torch.erfinv,
    "glu": F.glu,
    "glu over rows": lambda x: F.glu(x, 0),
}
FOLDS = {
    "trace": torch.trace,
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3),
    "norm of rows": lambda x: torch.linalg.vector_norm(x, 2.5, dim=-1, keepdim=True),
    "norm -1": lambda x: torch.linalg.vector_norm(x, -1, dim=0),
    "norms by torch.norm": lambda x: torch.norm(x, 3, dim=1) + torch.norm(x, 2, dim=1),
    "nansum": lambda x: (torch.nansum(x, 1), torch.nansum(x)),
    "count_nonzero": lambda x: (torch.count_nonzero(x, 1), torch.count_nonzero(x > 0)),
    "aminmax": lambda x: (*torch.aminmax(x, dim=1), *torch.aminmax(x)),
    "of one number": lambda x: (
        *torch.aminmax(x[0, 0], dim=0),
        torch.nansum(x[0, 0], 0),
        torch.count_nonzero(x[0, 0], dim=0),
        torch.norm(x[0, 7], 3, dim=0),
    ),
    "safe softmax": lambda x: torch.ops.aten._safe_softmax(x, -1),
}
MOVES = {
    "rot90": lambda x: tuple(torch.rot90(x, k, (1, 0)) for k in range(1, 4)),
    "rot90 of images": lambda x: torch.rot90(x.view(2, 2, 4), -1, (1, 2)) * 2,
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "cross over rows": lambda x: torch.linalg.cross(x.t()[:3], x.t()[3:6], dim=0),
}


def both(f, *args):
    g = tg.function(f)
    cf = g.get_concrete_function(*args)
    cf.scheduled.compile()
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")
    assert not cf.scheduled.native.low.asked
    return g(*args), f(*args)


def same(got, want):
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
        assert a.stride() == b.stride()
        zeros = b == 0
        assert torch.equal(torch.signbit(a[zeros]), torch.signbit(b[zeros]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", [*POINTWISE, *FOLDS, *MOVES])
def test_values(name, dtype):
    f = (POINTWISE | FOLDS | MOVES)[name]
    for x in (ODD.to(dtype), torch.randn(2, 8, dtype=dtype), torch.full((2, 8), -inf, dtype=dtype)):
        same(*both(f, x))


WITHOUT = ["count_nonzero", "erfinv", "angle", "heaviside", "heaviside of a number"]
if torch.__version__ < "2.12":  # which has no derivative of aminmax
    WITHOUT += ["aminmax", "of one number"]


@pytest.mark.parametrize("name", [n for n in (*POINTWISE, *FOLDS, *MOVES) if n not in WITHOUT])
def test_gradients(name):
    f = (POINTWISE | FOLDS | MOVES)[name]
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    found = []
    for run in (tg.function(f), f):
        y = x.clone().requires_grad_()
        made = run(y)
        sum((m * m).sum() for m in (made if isinstance(made, tuple) else (made,))).backward()
        found.append(y.grad)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("channels_last", [False, True])
def test_pixels(channels_last):
    def f(x):
        return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x * 2, 3)

    x = torch.randn(2, 8, 6, 9)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    same(*both(f, x))


def test_pooling_to_a_size():
    same(*both(lambda x: F.adaptive_avg_pool2d(x, (2, 3)) + 1, torch.randn(2, 3, 4, 9)))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(reduction, weighted):
    def loss(x, y, w):
        return F.binary_cross_entropy(x, y, w if weighted else None, reduction=reduction)

    def slope(x, y, w):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(loss(x, y, w).sum(), x)[0]

    x, y, w = torch.rand(3, 7), torch.rand(3, 7), torch.rand(3, 7)
    x[0, :3] = torch.tensor([0.0, 1.0, 0.5])
    y[0, :2] = torch.tensor([1.0, 0.0])
    same(*both(loss, x, y, w))
    same(*both(slope, x, y, w))


def test_a_probability_beyond_one_raises():
    def f(x, y):
        return F.binary_cross_entropy(x, y) + 1

    g = tg.function(f)
    for _ in range(4):
        g(torch.rand(5), torch.rand(5))
    for bad in (1.5, -0.5, nan):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            f(torch.full((5,), bad), torch.rand(5))
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            g(torch.full((5,), bad), torch.rand(5))


def test_gradient_of_an_embedding():
    def f(w, i):
        w = w.detach().requires_grad_()
        return torch.autograd.grad((F.embedding(i, w) ** 2).sum(), w)[0]

    same(*both(f, torch.randn(9, 4), torch.randint(0, 9, (3, 5))))
