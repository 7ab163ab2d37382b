"""Kernels without a C compiler: what is loaded and how parameters are packed. The driver is a stand-in that only notes."""

import ctypes
import dataclasses
import os
import re
import subprocess
import sys
import types

import pytest
import torch

from tests.runtime.kernels.cubins import parameter_sizes
from tograph.runtime.kernels import device, driver, images, triton_jit
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.kernels.triton_text import Source

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
            found.append((self, programs, threads, arguments, stream))

        def expect(self, sizes):
            assert sizes == [8, 8, 8, 1, 8, 8, 8]

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
    bits = [int.from_bytes(bytes(c), "little") for c in (ctypes.c_double(0.1), ctypes.c_int64(-(1 << 40)))]  # fmt: skip
    assert values == [pointers[0], *bits, 1, pointers[1], 0, 0]


def test_the_code_has_as_many_parameters_as_are_packed():
    ptx = triton_jit.compiled(SOURCE, "sm_90").asm["ptx"]
    sizes = re.findall(r"\.param \.(\w+) (?:\.ptr \S+ (?:\.align \d+ )?)?scale_param_\d+", ptx)
    assert len(sizes) == len(images.pack(SOURCE, arguments())) == 7
    assert [s[1:] for s in sizes[:5]] == ["64", "64", "64", "8", "64"]


@pytest.mark.parametrize("place", [a for a in triton_jit.ARCHITECTURES if a.startswith("sm")])
def test_parameters_are_packed_in_the_sizes_that_the_code_has(place):
    image = triton_jit.compiled(SOURCE, place).asm["cubin"]
    assert parameter_sizes(image, SOURCE.name) == images.sizes(SOURCE) == [8, 8, 8, 1, 8, 8, 8]


def test_the_current_stream_is_asked_for_by_its_handle_where_torch_tells_it(started, monkeypatch):
    monkeypatch.setattr(driver, "_current_stream", None)
    assert driver.current_stream(torch.device("cuda:1")) == driver.current_stream(None) == 7
    monkeypatch.setattr(driver, "_current_stream", lambda index: 40 + index)
    assert driver.current_stream(torch.device("cuda:1")) == 41
    assert driver.current_stream(None) == 7


def test_memory_that_is_not_aligned_has_code_of_its_own(started):
    device.launch(SOURCE, arguments())
    device.launch(SOURCE, arguments(offset=1))
    device.launch(SOURCE, arguments())
    first, second, third = (s[0] for s in started)
    assert first is third and first is not second and first.image != second.image


def test_without_bindings_or_where_the_driver_refuses_triton_starts_them(started, monkeypatch):
    seen = []
    monkeypatch.setattr(triton_jit, "launcher", lambda: "")
    monkeypatch.setattr(triton_jit, "launch", lambda source, given: seen.append(len(given)))
    device.launch(SOURCE, arguments())
    assert len(started) == 1 and not seen

    def refuse(*_):
        raise driver.DriverError("CUDA driver: CUDA_ERROR_NOT_SUPPORTED")

    monkeypatch.setattr(images, "start", refuse)
    device.launch(SOURCE, arguments())
    monkeypatch.setattr(driver, "loadable", lambda: "cuda-bindings is not installed")
    device.launch(SOURCE, arguments())
    assert len(started) == 1 and seen == [5, 5]
    monkeypatch.setattr(triton_jit, "launcher", lambda: "there is no C compiler")
    monkeypatch.setattr(driver, "loadable", lambda: "")
    with pytest.raises(driver.DriverError):
        device.launch(SOURCE, arguments())


def test_a_kernel_with_other_parameters_than_its_signature_says_is_not_started(started, monkeypatch):  # fmt: skip
    """What it took for an address would be none: the context could not be used any more."""

    def expect(self, sizes):
        raise driver.DriverError("other parameters")

    monkeypatch.setattr(driver.Function, "expect", expect)
    monkeypatch.setattr(triton_jit, "launch", lambda source, given: started.append("by Triton"))
    monkeypatch.setattr(triton_jit, "launcher", lambda: "")
    device.launch(SOURCE, arguments())
    assert started == ["by Triton"]


def test_kernels_are_compiled_side_by_side_before_they_start(monkeypatch):
    """For the memory that they get; each once; what does not compile is left to its start."""
    seen = []

    def compiled(source, architecture, aligned):
        seen.append((source.name, architecture, aligned))
        raise Unsupported("not on this device")

    monkeypatch.setattr(triton_jit, "compiled", compiled)
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    other = dataclasses.replace(SOURCE, name="other", text=TEXT.replace("scale", "other"))

    def given(offset):
        at = lambda k: types.SimpleNamespace(data_ptr=lambda: 256 + k)  # noqa: E731
        return {"p0": at(offset), "o0": at(0)}

    gpu = torch.device("cuda:0")
    device.prepare([(SOURCE, given(0)), (other, given(8)), (SOURCE, given(0))], gpu)
    assert sorted(seen) == [("other", "sm_90", {"o0"}), ("scale", "sm_90", {"p0", "o0"})]
    device.prepare([(SOURCE, arguments()), (other, arguments())], torch.device("cpu"))
    assert len(seen) == 2


def test_code_is_found_where_tritons_launcher_looks_for_it(tmp_path):
    """In a process whose device is made up: a kernel that was compiled ahead is not compiled once more."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FOUND], capture_output=True, text=True, env=os.environ | {"TRITON_CACHE_DIR": str(tmp_path)})  # fmt: skip
    assert done.stdout.split() == ["1", "1", "2"], done.stderr


FOUND = """
import os, torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from tests.runtime.kernels.test_images import TEXT
from tograph.runtime.kernels import triton_jit
from tograph.runtime.kernels.triton_text import Source

class Device:
    class launcher_cls:
        def __init__(self, source, metadata): ...
        def __call__(self, *given): ...
    class utils:
        load_binary = staticmethod(lambda *given: (1, 1, 32, 0, 1024))
        get_device_properties = staticmethod(lambda device: {"max_shared_mem": 1 << 17})
    get_current_device = get_current_stream = lambda self, *at: 0
    get_current_target = lambda self: GPUTarget("cuda", 90, 32)

driver.set_active(Device())
text = TEXT.replace("s1: tl.float64, s2: tl.int64, s3: tl.int1", "s1, s2, s3").replace("tl.where(s3, tl.load(p0 + i) * s1 + s2, 0.0)", "tl.where(tl.load(s3) != 0, tl.load(p0 + i) * tl.load(s1) + tl.load(s2), 0.0)")
source = Source("scale", text, {"p0": "*fp64", "s1": "*fp64", "s2": "*i64", "s3": "*i1", "o0": "*fp64"}, {"XBLOCK": 256}, 3, 4)
x = torch.ones(602, dtype=torch.float64)
given = [x, x, torch.ones(1, dtype=torch.int64), torch.ones(1, dtype=torch.bool), torch.ones(600, dtype=torch.float64)]
triton_jit.compiled(source, "sm_90")
print(len(os.listdir(os.environ["TRITON_CACHE_DIR"])))
triton_jit.launch(source, given)
print(len(os.listdir(os.environ["TRITON_CACHE_DIR"])))
triton_jit.launch(source, [x[1:], *given[1:]])
print(len(os.listdir(os.environ["TRITON_CACHE_DIR"])))
"""
