"""Every op with a native form, at every dtype it takes: small nests, 0-d values and broadcasts against the interpreter."""

import pytest
import torch

from tests.runtime.kernels.kernel_samples import FLOATS, INTEGERS, op_graph, sample
from tests.runtime.kernels.test_pointwise import calls, check, inputs_of
from tograph.runtime.graph import interp
from tograph.runtime.kernels import jit
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.native.compiling import compile_graph
from tograph.runtime.native.lower import Lowering
from tograph.runtime.native.values import Decline

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

DTYPES = [*FLOATS, *INTEGERS, torch.bool]
MANY = 40  # op calls in one module


def native(call) -> bool:
    graph = op_graph([call], inputs_of([call]))
    try:
        Lowering(graph).run()
    except (Decline, Unsupported):
        return False
    return True


def compare(found, swaps=lambda inputs: [inputs]) -> int:
    """Run calls natively, many in one module, for every list of inputs that ``swaps`` gives; how many there were."""
    found = [c for c in found if native(c)]
    for start in range(0, len(found), MANY):
        some = found[start : start + MANY]
        inputs = inputs_of(some)
        graph = op_graph(some, inputs)
        code = compile_graph(graph)
        for given in swaps(inputs):
            outputs = code.run(given)
            assert outputs is not None, "it declined"
            for (op, _, _), got, want in zip(some, outputs, interp.run(graph, given), strict=True):
                check(op, got, want)
    return len(found)


def three(dtype, make):
    """Three inputs; no zero among the divisors of integers."""
    x, y, z = (make(sample(dtype, seed=i).roll(40 * i)) for i in range(3))
    if dtype in INTEGERS:
        y = torch.where(y == 0, 3, y).to(dtype)
    return x, y, z


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_small_nests(dtype):
    x, y, z = three(dtype, lambda s: s[:37].clone())
    assert compare(calls(dtype, x, y, z)) > 40


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_single_values(dtype):
    x, y, z = three(dtype, lambda s: s[0].clone())

    def swaps(inputs):
        values = sample(dtype)
        for i in range(0, 48, 2):
            made = []
            for old in inputs:
                new = values[(i * (len(made) + 1)) % 60].clone()
                if old.dtype != dtype:
                    made.append(new.to(old.dtype))
                else:
                    made.append(torch.full_like(new, 3) if dtype in INTEGERS and new == 0 else new)
            yield made

    # hardtanh_backward at NaN: torch's scalar code and its vector code differ.
    found = [c for c in calls(dtype, x, y, z) if "hardtanh_backward" not in c[0]]
    assert compare(found, swaps) > 40


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)  # fmt: skip
@pytest.mark.parametrize("shapes", [((3, 1, 5), (4, 1), (1,)), ((1, 1), (17, 19), ()), ((2, 1, 7), (1, 9, 1), (2, 9, 7))])  # fmt: skip
def test_broadcasts(dtype, shapes):
    made = iter(shapes)

    def make(s):
        shape = next(made)
        return s[: torch.Size(shape).numel()].reshape(shape).clone()

    x, y, z = three(dtype, make)
    names = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum.default", "where.self", "lt.Tensor", "logical_or.default", "addcmul.default")  # fmt: skip
    some = [c for c in calls(dtype, x, y, z) if c[0].removeprefix("aten.") in names]
    assert compare(some) >= 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_sign_of_a_zero_of_half_precision(dtype):
    """LLVM joins the comparison of relu with those of the ops beside it."""
    x = torch.tensor([-0.0, 0.0, -1.0, 1.0] * 16, dtype=dtype)
    found = [(op, (x, *rest), {}) for op, *rest in (("aten.relu.default",), ("aten.sign.default",), ("aten.xlogy.Tensor", x))]  # fmt: skip
    inputs = inputs_of(found)
    graph = op_graph(found, inputs)
    got, want = compile_graph(graph).run(inputs), interp.run(graph, inputs)
    assert torch.equal(got[0].signbit(), want[0].signbit())
