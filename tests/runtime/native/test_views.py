"""Views in native code: those of numbers, and by places in memory."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import compiled
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


@pytest.mark.parametrize("view", ["transpose(0, -1)", "swapaxes(0, 0)", "unfold(0, 1, 1)", "t()", "flip(0)", "flip(-1)"])  # fmt: skip
def test_a_number_has_one_dimension_to_name(view):
    name, arguments = view.rstrip(")").split("(")
    dims = [int(a) for a in arguments.split(",") if a]

    def straight(x):
        return getattr(x * 2, name)(*dims) + 1

    def repeated(x):
        y = x.reshape(1)
        for _ in range(x.long()):
            y = getattr(x, name)(*dims).reshape(1) + y
        return y

    compiled(straight, torch.tensor(3.0))
    compiled(repeated, torch.tensor(3.0))


def test_elements_of_the_memory_of_a_tensor():
    """``as_strided`` of what an op has made is a view; its place in what a tensor from outside is a part of is seen by the host only."""

    def made(x):
        z = (x * 2)[2:]
        windows = (x.sin() * 3).as_strided((3, 3), (2, 1))
        first = torch.arange(10.0).as_strided((2, 3), (3, 1), 1)
        return (
            z.as_strided((3,), (1,), 2) + 1,
            windows * 2 + windows.t(),
            windows.sum(0),
            first * x[0],
        )

    def given(x):
        a, b = x.as_strided((3,), (1,), 2), x.as_strided((2, 2), (1, 2))
        return (a + 1).exp().tanh().sin().cos(), (b * 2).exp().tanh() + 1, a * b.sum()

    def summed(x):
        x = x.detach().requires_grad_()
        y = (x * 2).as_strided((4, 3), (1, 1))
        return torch.autograd.grad((y * y).sum(), x)[0]

    def heard(x):
        return torch.stft(x.repeat(8), 16, return_complex=True, window=torch.ones(16)).abs()

    arguments = [torch.arange(12.0), torch.arange(14.0)[2:], torch.arange(24.0)[::2]]
    for f, native in [(made, True), (given, False), (summed, True), (heard, True)]:
        for x in arguments:
            g = tg.function(f)
            for _ in range(2):
                torch.testing.assert_close(g(x), f(x))
            if x.is_contiguous():
                assert (g.concrete_functions[0].scheduled.level == "native") is native
