"""The kernels of messages: what they write, when they write nothing, and code for each target."""

import pytest
import torch

from tograph.runtime.gpu import fused_code, message_kernels
from tograph.runtime.gpu.fusing import fused
from tograph.runtime.gpu.plan import Cell, Conditional, Plan, Set
from tograph.runtime.gpu.ring import Ring, _decoded
from tograph.runtime.graph.types import TensorType
from tograph.runtime.inference.infer import meta_of
from tograph.runtime.inference.shapes import contiguous
from tograph.runtime.kernels import device, triton_jit

pytest.importorskip("triton")
VALUES = {
    torch.float64: [1 / 3, -0.0, float("inf")],
    torch.float32: [1 / 3, -1e-42, float("nan")],
    torch.float16: [0.1, -65504.0, 6e-8],
    torch.bfloat16: [0.1, -3e38, 1e-40],
    torch.int64: [-(1 << 63), (1 << 63) - 1, 0],
    torch.int16: [-5, 32767, 0],
    torch.uint8: [255, 0, 7],
    torch.bool: [True, False, True],
}


def written(values, words=64, at=0, active=True, error=0):
    """(position, error, memory) behind message 3 of some tensors."""
    source = message_kernels.message("told", 3, [meta_of(v) for v in values], words)
    given = {f"value{k}": v for k, v in enumerate(values)}
    given["position"], given["active"] = torch.tensor(at), torch.tensor(active)
    given["error"], given["memory"] = torch.tensor([error], dtype=torch.int32), torch.full((words,), -1)  # fmt: skip
    device.launch(source, given)
    return given["position"].item(), given["error"].item(), given["memory"]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", VALUES)
def test_elements_come_out_as_they_went_in(dtype):
    x = torch.tensor(VALUES[dtype], dtype=dtype)
    end, error, memory = written([x, x.reshape(3, 1).expand(3, 2).t()], at=2)
    assert (end, error, memory[2].item()) == (2 + 1 + 3 + 6, 0, 3)
    assert memory[:2].tolist() == [-1, -1] and (memory[end:] == -1).all()
    for start, want in ((3, x), (6, x.reshape(3, 1).expand(3, 2).t())):
        got = _decoded(memory[start : start + want.numel()], dtype).reshape(want.shape)
        assert got.dtype == dtype
        assert torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("how, error", [({"active": False}, 0), ({"error": 1}, 1), ({"at": 61}, message_kernels.FULL)])  # fmt: skip
def test_nothing_is_written(how, error):
    end, found, memory = written([torch.ones(3)], **how)
    assert (end, found) == (how.get("at", 0), error) and (memory == -1).all()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("at, asked, test, go", [(0, 0, 1, 1), (0, 1, 1, 1), (5, 1, 1, 0), (8, 0, 1, 1), (9, 0, 1, 0), (0, 0, 0, 0)])  # fmt: skip
def test_a_loop_goes_on(at, asked, test, go):
    given = {"position": torch.tensor(at), "asked": torch.tensor(asked)}
    given |= {"test": torch.tensor(bool(test)), "go": torch.tensor(not go)}
    device.launch(message_kernels.pause("pause", 8), given)
    assert given["go"].item() == bool(go)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_code(architecture):
    metas = [contiguous(t, (9, 5), torch.device("cpu")) for t in VALUES]
    for source in (message_kernels.message("told", 0, metas, 1 << 14), message_kernels.pause("pause", 8)):  # fmt: skip
        made = triton_jit.compiled(source, architecture)
        assert made.resources.spills == 0 and not any(made.scratch)


def test_code_of_a_pause_that_sets_the_handle_of_its_loop():
    flag, word = (TensorType(t, (), "cuda:0") for t in (torch.bool, torch.int64))
    ring = Ring(*(Cell(n, word) for n in ("position", "memory", "asked")), 16)
    error = Cell("error", TensorType(torch.int32, (1,), "cuda:0"), 0)
    go, test = Cell("go", flag), Cell("test", flag)
    body = [message_kernels.paused(ring, "pause", test, go), Set(0, go)]
    loop = Conditional("while", 0, go, [body])
    made = fused(Plan("f", "cuda:0", [], [], [loop], error=error))
    (step,) = made.steps[0].bodies[0]
    source = fused_code.source_of(step)
    code, shared, warps = fused_code.image(source, "sm_90", frozenset(), 1)
    assert code[0][:4] == b"\x7fELF" and warps == 1
