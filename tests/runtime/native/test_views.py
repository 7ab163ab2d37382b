"""Views in native code: those of numbers."""

import pytest
import torch

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
