"""The driver module calls CUDA's Python bindings, where they are installed, with the types that they take: without a GPU they get as far as the library."""

import contextlib
import ctypes
import types

import pytest
import torch

from tograph.runtime.kernels import driver, setter

cu = pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="handles of nothing")
BODIES = 32  # where the address of a conditional node's graphs is in its parameters
STREAM = types.SimpleNamespace(cuda_stream=5)


class Status(int):
    name = "CUDA_SUCCESS"


class Checked:
    """The bindings' types; each function is called, then gives what it would give with a driver."""

    def __init__(self, kind):
        self.called = []
        self.bodies = (ctypes.c_void_p * 2)(101, 102)
        params = cu.CUDA_KERNEL_NODE_PARAMS() if kind == "KERNEL" else cu.CUDA_MEMCPY3D()
        if kind == "KERNEL":
            self.block = (ctypes.c_void_p * 1)(0)
            params.kernelParams = ctypes.addressof(self.block)
        edges = (None,) if driver._edges() else ()
        self.results = {
            "cuCtxGetCurrent": (cu.CUcontext(5),),
            "cuStreamCreate": (cu.CUstream(9),),
            "cuStreamGetCaptureInfo": (1, 7, cu.CUgraph(0), [cu.CUgraphNode(0)], *edges, 1),
            "cuGraphConditionalHandleCreate": (cu.CUgraphConditionalHandle(3),),
            "cuGraphAddNode": (cu.CUgraphNode(0),),
            "cuModuleLoadData": (cu.CUmodule(0),),
            "cuModuleGetFunction": (cu.CUfunction(0),),
            "cuGraphGetNodes": ([cu.CUgraphNode(0)], 1),
            "cuGraphNodeGetType": (getattr(cu.CUgraphNodeType, f"{driver.TYPE}{kind}"),),
            "cuGraphKernelNodeGetParams": (params,),
            "cuGraphMemcpyNodeGetParams": (params,),
        }

    def __getattr__(self, name):
        real = getattr(cu, name)
        if not name.startswith("cu") or not name[2].isupper():
            return real

        def call(*given):
            self.called.append(name)
            with contextlib.suppress(RuntimeError):  # there is no library
                real(*given)
            if name == "cuGraphAddNode":  # the driver says where the bodies are
                at = given[-1].getPtr() + BODIES
                ctypes.c_void_p.from_address(at).value = ctypes.addressof(self.bodies)
            return (Status(0), *self.results.get(name, ()))

        return call


@pytest.fixture
def bindings(monkeypatch):
    def made(kind="KERNEL"):
        found = Checked(kind)
        monkeypatch.setattr(driver, "_cu", lambda: found)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        return found

    return made


@pytest.mark.parametrize("kind", ["while", "if", "switch"])
def test_conditional_nodes(kind, bindings):
    found = bindings()
    handle = driver.Handle(STREAM)
    bodies = handle.node(kind, 2, STREAM)
    assert handle.number == 3 and [*map(int, bodies)] == [101, 102]
    with driver.capturing_into(bodies[0], STREAM):
        pass
    assert {"cuGraphAddNode", "cuStreamUpdateCaptureDependencies", "cuStreamEndCapture"} <= {*found.called}  # fmt: skip


def test_kernels_from_images(bindings):
    bindings()
    made = driver.Function(setter.ptx().encode() + b"\0", setter.SET, shared=64 * 1024)
    made.finish()
    made.start(1, 32, [1, (1 << 64) - 2], 5)


def test_streams_and_launches(bindings):
    found = bindings()
    assert driver.stream() == 9
    made = driver.Launcher(types.SimpleNamespace(raw_cuda_graph_exec=lambda: 5))
    made.launch(9)
    assert found.called[-2:] == ["cuCtxGetCurrent", "cuGraphLaunch"]  # a new thread has no context


def test_a_thread_without_a_context_gets_that_of_the_device(bindings, monkeypatch):
    found = bindings()
    made = cu.CUcontext(7)
    found.results |= {"cuCtxGetCurrent": (cu.CUcontext(0),), "cuDeviceGet": (cu.CUdevice(0),), "cuDevicePrimaryCtxRetain": (made,)}  # fmt: skip
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert driver.context() is made
    assert found.called[-3:] == ["cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]


@pytest.mark.parametrize("kind", ["KERNEL", "MEMCPY"])
def test_parameters_of_nodes(kind, bindings):
    found = bindings(kind)
    node = driver.Node(STREAM)
    node.values = [7]
    node.set(types.SimpleNamespace(raw_cuda_graph_exec=lambda: 5), {0: 9})
    assert f"cuGraphExec{kind.capitalize()}NodeSetParams" in found.called
    if kind == "MEMCPY":
        assert int(node.params.srcDevice) == 9


def test_a_driver_that_does_not_answer_is_a_reason(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    driver.version.cache_clear()
    assert "libcuda" in driver.available() or "driver" in driver.available()


def test_devices_are_counted_until_there_is_one(bindings, monkeypatch):
    bindings()
    answers = [False, True]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: answers.pop(0))
    assert [driver.loadable() for _ in range(3)] == ["there is no CUDA device", "", ""]


def test_a_driver_without_an_assembler_gets_the_setters_as_an_image(monkeypatch):
    pytest.importorskip("triton")
    seen = []

    class Function:
        def __init__(self, image, name):
            if b".visible .entry" in image:
                raise driver.DriverError("CUDA driver: CUDA_ERROR_JIT_COMPILER_NOT_FOUND")
            seen.append((image[:4], name))

        def finish(self):
            seen.append("finished")

    monkeypatch.setattr(driver, "Function", Function)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    driver._setter.cache_clear()
    driver.prepare(torch.device("cuda:0"))
    driver._setter.cache_clear()
    assert seen[:2] == [(b"\x7fELF", setter.SET), "finished"] and len(seen) == 6
