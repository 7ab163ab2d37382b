"""Kernels compile for GPUs that are not there: four architectures, no spilled registers, vector loads."""

import importlib
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.kernels.triton_samples import loops_of
from tograph.runtime.kernels import triton_jit
from tograph.runtime.kernels.device import LoopKernel
from tograph.runtime.kernels.gpu_forms import best, sources
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.kernels.triton_text import HEADER, Source

pytest.importorskip("triton")


def graph_of(fn, *tensors):
    return tg.function(fn).get_concrete_function(*tensors).graph


def gelu_residual(x, y):
    return F.gelu(x, approximate="none") * torch.tanh(y) + torch.exp(-x) + torch.erf(y)


def norm(x, y):
    return F.layer_norm(x, (x.shape[-1],)) + y


STANDARD = {
    "pointwise": (gelu_residual, (300, 70)),
    "pointwise, large": (gelu_residual, (1024, 512)),
    "softmax": (lambda x, y: torch.softmax(x * y, -1), (64, 1000)),
    "long softmax": (lambda x, y: torch.softmax(x * y, -1), (2, 100_000)),
    "layer norm": (norm, (64, 4096)),
    "columns": (lambda x, y: (x * y).sum(0), (5000, 96)),
    "argmax": (lambda x, y: (x - y).argmax(1), (50, 777)),
    "logsumexp": (lambda x, y: torch.logsumexp(x + y, 1), (50, 777)),
    "scan": (lambda x, y: torch.cumsum(x * y, 1), (9, 5000)),
    "whole": (lambda x, y: (x * y).sum(), (64, 64)),
    "integers": (lambda x, y: x.to(torch.int64) // 7 + y.to(torch.int32) % 5, (300, 7)),
}


def standard(name):
    fn, shape = STANDARD[name]
    x, y = torch.ones(1).expand(shape), torch.ones(shape)
    return loops_of(graph_of(fn, x.contiguous(), y), [torch.ones(shape), y])[0]


@pytest.mark.parametrize("name", STANDARD)
def test_standard_kernels_compile_everywhere_and_spill_nothing(name):
    loops = standard(name)
    for architecture in triton_jit.ARCHITECTURES:
        source, binary = best(loops, architecture)
        assert binary.resources.spills == 0, (architecture, source.constants)
        assert 0 < binary.resources.registers <= 512 and binary.resources.shared <= 160 * 1024
        kinds = {"ptx", "cubin"} if architecture.startswith("sm") else {"amdgcn", "hsaco"}
        assert kinds <= set(binary.asm)


@pytest.mark.parametrize("name", ["pointwise, large", "layer norm"])
def test_access_is_vectorised(name):
    ptx = best(standard(name), "sm_90")[1].asm["ptx"]
    assert re.search(r"ld\.global\S*\.v[24]", ptx) and re.search(r"st\.global\S*\.v[24]", ptx)


def test_unaligned_buffers_are_read_by_elements():
    source = sources(standard("pointwise, large"))[0]
    ptx = triton_jit.compiled(source, "sm_90", aligned=()).asm["ptx"]
    assert not re.search(r"ld\.global\S*\.v[24]", ptx)


def test_products_and_sums_round_apart():
    """As on the CPU; what may be fused is written as fma."""
    x = torch.ones(4096)
    loops, _ = loops_of(graph_of(lambda x: x * x + x, x), [x])
    ptx = best(loops, "sm_90")[1].asm["ptx"]
    assert "fma.rn.f32" not in ptx and "mul" in ptx and "add" in ptx


def test_a_traced_functions_kernels_show_their_gpu_form():
    made = tg.function(lambda x: torch.softmax(x, -1) * 2).get_concrete_function(torch.ones(64, 256))  # fmt: skip
    made.scheduled.compile()
    kernel = made.kernels[0]
    assert "@triton.jit" in kernel.triton and "aten._softmax" in kernel.triton
    assert ".target sm_80" in kernel.ptx("sm_80") and kernel.cubin("sm_90").startswith(b"\x7fELF")
    assert kernel.resources.spills == 0 and kernel.resources_on("gfx942").registers > 0


def test_what_starts_kernels_is_built_beside_their_code(monkeypatch):
    """Once for each signature; without a device nothing is."""
    kernels = []
    for name in ("softmax", "argmax", "integers"):
        kernels += sources(standard(name))
    built = []

    class Device:
        launcher_cls = staticmethod(lambda source, metadata: built.append(tuple(source.signature.values())))  # fmt: skip

    runtime = importlib.import_module("triton.runtime")
    monkeypatch.setattr(runtime.driver, "_active", Device, raising=False)
    monkeypatch.setattr(triton_jit, "_links", set())
    monkeypatch.setattr(triton_jit, "launcher", lambda: "there is no C compiler")
    triton_jit.compile_all([(s, "sm_90", None) for s in kernels])
    assert built == []
    monkeypatch.setattr(triton_jit, "launcher", lambda: "")
    for _ in range(2):
        triton_jit.compile_all([(s, "sm_90", None) for s in kernels])
    assert len(built) == len({*built}) >= 2


def test_a_kernel_of_a_plan_shows_what_others_show():
    source = Source("k", f"{HEADER}\n\n@triton.jit\ndef k(p0):\n    tl.store(p0, 1.0)\n", {"p0": "*fp32"}, {}, 1, 1)  # fmt: skip
    kernel = LoopKernel("k", source, ())
    assert ".target sm_80" in kernel.ptx("sm_80") and kernel.cubin("sm_80")
    assert "s_endpgm" in kernel.ptx("gfx942") and kernel.cubin("gfx942")
    assert kernel.resources.spills == kernel.resources_on("gfx942").spills == 0
    with pytest.raises(ValueError, match="sm_91"):
        kernel.ptx("sm_91")


def test_errors_say_what_is_wrong():
    kernel = standard("whole")
    with pytest.raises(ValueError, match="no architecture 'h100'"):
        best(kernel, "h100")
    for typed in ("sm_91", "sm_999"):  # LLVM ends the process for these
        with pytest.raises(ValueError, match=f"no architecture '{typed}': NVIDIA's are sm_75, "):
            best(kernel, typed)
    broken = Source("k", "import triton\n\n\n@triton.jit\ndef k(p0):\n    p0.nothing()\n", {"p0": "*fp32"}, {}, 1, 1)  # fmt: skip
    with pytest.raises(Unsupported, match="Triton for sm_90"):
        triton_jit.compiled(broken, "sm_90")
    with pytest.raises(RuntimeError, match="ptxas"):
        triton_jit.assemble("nonsense", "sm_90")


def test_without_triton_everything_else_works():
    """A process in which triton cannot be imported: functions run, and a kernel says why it has no GPU code."""
    code = """
import sys
sys.modules["triton"] = None
import torch, tograph as tg
made = tg.function(lambda x: torch.softmax(x, -1), autograph=False).get_concrete_function(torch.ones(64, 256))
made.scheduled.compile()
assert torch.equal(made(torch.ones(64, 256)), torch.ones(64, 256) / 256)
assert "triton.jit" in made.kernels[0].triton
try:
    made.kernels[0].ptx("sm_90")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("Unsupported triton is not installed"), done.stderr
    assert done.returncode == 0


def test_importing_tograph_does_not_import_triton():
    code = "import sys, tograph; print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
