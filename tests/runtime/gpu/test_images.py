"""Kernels without a C compiler: what is loaded and how parameters are packed. The driver is a stand-in that only notes."""

import re
import types

import pytest
import torch

from tograph.runtime.gpu import driver, images
from tograph.runtime.kernels import device, triton_jit
from tograph.runtime.kernels.triton_source import Source

pytest.importorskip("triton")
TEXT = """import triton
import triton.language as tl


@triton.jit
def scale(p0, s1: tl.float64, s2: tl.int64, s3: tl.int1, o0, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(o0 + i, tl.where(s3, tl.load(p0 + i) * s1 + s2, 0.0), i < 600)
"""
SOURCE = Source("scale", TEXT, {"p0": "*fp64", "s1": "fp64", "s2": "i64", "s3": "u1", "o0": "*fp64"},
                {"XBLOCK": 256}, 3, 4)  # fmt: skip


@pytest.fixture
def started(monkeypatch):
    """The starts that the driver would make."""
    found = []

    class Function:
        def __init__(self, image, name, shared):
            self.image, self.name = image, name

        def start(self, programs, threads, arguments, stream):
            found.append((self, programs, threads, [a.value for a in arguments], stream))

    monkeypatch.setattr(driver, "Function", Function)
    monkeypatch.setattr(driver, "loadable", lambda: "")
    monkeypatch.setattr(triton_jit, "launcher", lambda: "there is no C compiler")
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda d: types.SimpleNamespace(cuda_stream=7)
    )
    images._loaded.clear()
    yield found
    images._loaded.clear()


def arguments(offset=0):
    x, out = torch.ones(602, dtype=torch.float64), torch.empty(600, dtype=torch.float64)
    return {"p0": x[offset:], "s1": 0.1, "s2": -(1 << 40), "s3": True, "o0": out}


def test_without_a_compiler_the_driver_starts_kernels(started):
    given = arguments()
    device.launch(SOURCE, given)
    ((function, programs, threads, values, stream),) = started
    assert (function.name, programs, threads, stream) == ("scale", 3, 128, 7)
    assert function.image.startswith(b"\x7fELF")
    pointers = [given["p0"].data_ptr(), given["o0"].data_ptr()]
    assert values == [pointers[0], 0.1, -(1 << 40), 1, pointers[1], 0, 0]


def test_the_code_has_as_many_parameters_as_are_packed():
    ptx = triton_jit.compiled(SOURCE, "sm_90").asm["ptx"]
    sizes = re.findall(r"\.param \.(\w+) (?:\.ptr \S+ (?:\.align \d+ )?)?scale_param_\d+", ptx)
    assert len(sizes) == len(images.pack(SOURCE, arguments())) == 7
    assert [s[1:] for s in sizes[:5]] == ["64", "64", "64", "8", "64"]


def test_memory_that_is_not_aligned_has_code_of_its_own(started):
    device.launch(SOURCE, arguments())
    device.launch(SOURCE, arguments(offset=1))
    device.launch(SOURCE, arguments())
    first, second, third = (s[0] for s in started)
    assert first is third and first is not second and first.image != second.image


def test_with_a_compiler_triton_starts_them(started, monkeypatch):
    monkeypatch.setattr(triton_jit, "launcher", lambda: "")
    seen = []
    monkeypatch.setattr(triton_jit, "launch", lambda source, given: seen.append(len(given)))
    device.launch(SOURCE, arguments())
    assert seen == [5] and not started
