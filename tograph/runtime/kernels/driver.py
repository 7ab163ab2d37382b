"""CUDA's driver: conditional nodes in a graph that torch captures, and kernels from images. The only file that imports cuda.

Not yet seen on a GPU. ``available()`` says why there is no usable driver; ``cuda-bindings`` is optional. Every call's status is
checked; an error is a ``DriverError`` with the driver's name for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import setter, triton_jit

CONDITIONAL = (12, 4)  # the first driver with IF and WHILE nodes
SWITCH = (12, 8)
PARAMETERS = (12, 4)  # the first one that tells the parameters of kernels
TYPE = "CU_GRAPH_NODE_TYPE_"
# Kinds of nodes that a conditional body may hold.
BODY = frozenset(["KERNEL", "EMPTY", "MEMCPY", "MEMSET", "GRAPH", "CONDITIONAL"])


class DriverError(RuntimeError):
    """A call of the driver failed."""


@functools.cache
def _cu() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except Exception as error:  # bindings that do not fit the driver raise anything
        return str(error)


@functools.cache
def _edges() -> bool:
    """Whether functions on nodes take data of edges too: from version 13 of the bindings on."""
    return int(importlib.import_module("cuda.bindings").__version__.split(".")[0]) >= 13


def _checked(result: tuple) -> Any:
    status, *values = result
    if int(status):
        raise DriverError(f"CUDA driver: {status.name}")
    return values[0] if len(values) == 1 else values


@functools.cache
def version() -> tuple[int, int]:
    """The CUDA version that the driver knows."""
    number = _checked(_cu().cuDriverGetVersion())
    return number // 1000, number % 1000 // 10


def loadable() -> str:
    """Why kernels cannot be loaded from images here; an empty string where they can."""
    if isinstance(_cu(), str):
        return f"cuda-bindings is not installed ({_cu()})"
    if torch.version.hip is not None:
        return "the device is AMD's"
    return "" if _there(torch.cuda.is_available) else "there is no CUDA device"


_yes: set[Callable[[], bool]] = set()


def _there(answer: Callable[[], bool]) -> bool:
    """Torch's answer, asked for until it is yes: every start of a kernel asks, and torch then counts the devices."""
    if answer not in _yes and answer():
        _yes.add(answer)
    return answer in _yes


def available(wanted: tuple[int, int] = CONDITIONAL) -> str:
    """Why conditional nodes cannot be made here; an empty string where they can."""
    if why := loadable():
        return why
    try:
        known = version()
    except Exception as error:  # the bindings do not find the driver that torch has found
        return f"the driver does not answer: {error}"
    if known < wanted:
        return f"the driver knows CUDA {known[0]}.{known[1]}, conditional nodes need {wanted[0]}.{wanted[1]}"
    return ""


# ---- contexts, streams and graphs


def context() -> Any:
    """The current context: of torch's device, where nothing in this thread has made one current yet."""
    cu = _cu()
    found = _checked(cu.cuCtxGetCurrent())
    if not int(found):
        device = _checked(cu.cuDeviceGet(torch.cuda.current_device()))
        found = _checked(cu.cuDevicePrimaryCtxRetain(device))
        _checked(cu.cuCtxSetCurrent(found))
    return found


# Only torch's build for GPUs has it: without an object of Python for the stream.
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_stream(device: torch.device | None) -> int:
    """The stream that is current on a device, by its handle; None: the current device."""
    if _current_stream is None or device is None:
        return torch.cuda.current_stream(device).cuda_stream
    return _current_stream(device.index)


def stream() -> int:
    """A new stream of the current device, which does not wait for the default one. It stays."""
    context()
    return int(_checked(_cu().cuStreamCreate(_cu().CUstream_flags.CU_STREAM_NON_BLOCKING)))


class Launcher:
    """Launches a graph that torch has instantiated. torch's own ``replay`` also starts two kernels for its generator, which plans do not use."""

    def __init__(self, graph: torch.cuda.CUDAGraph):
        self.graph = graph
        self._instance = None
        if not loadable():
            with contextlib.suppress(RuntimeError, AttributeError):  # another version of torch
                self._instance = _cu().CUgraphExec(graph.raw_cuda_graph_exec())

    def launch(self, stream: int) -> None:
        if self._instance is not None:
            try:
                context()  # a thread that has not used the device yet has none
                _checked(_cu().cuGraphLaunch(self._instance, _cu().CUstream(stream)))
                return
            except DriverError:  # torch may know better
                self._instance = None
        self.graph.replay()


# ---- kernels from images


class Function:
    """A kernel of a module that was loaded into the current context."""

    def __init__(self, image: bytes, name: str, shared: int = 0):
        cu = _cu()
        context()
        self.module = _checked(cu.cuModuleLoadData(image))  # keeps the module alive
        self.handle = _checked(cu.cuModuleGetFunction(self.module, name.encode()))
        self.shared = shared
        if shared > 48 * 1024:
            kind = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _checked(cu.cuFuncSetAttribute(self.handle, kind, shared))

    def finish(self) -> None:
        """Have the driver load it now: else it does so at the first start, which may be in a capture."""
        # A kernel of a conditional node cannot be started to warm it up.
        load = getattr(_cu(), "cuFuncLoad", None)
        if load is not None:
            _checked(load(self.handle))

    def expect(self, sizes: Sequence[int]) -> None:
        """DriverError where its parameters have other sizes: what it took for addresses would be none, and the context unusable."""
        if getattr(_cu(), "cuFuncGetParamInfo", None) is None or version() < PARAMETERS:
            return
        if (found := parameter_sizes(self.handle)) != [*sizes]:
            raise DriverError(f"a kernel with parameters of {found} bytes where {[*sizes]} were expected")  # fmt: skip

    def start(self, programs: int, threads: int, values: Sequence[int], stream: int) -> None:
        """``values``: the bits of the kernel's parameters, in order."""
        if not programs:
            return
        context()
        count = len(values)
        words, addresses = _arrays(count)
        given = words(*values)
        at = ctypes.addressof(given)
        block = addresses(*range(at, at + 8 * count, 8))
        _checked(_cu().cuLaunchKernel(self.handle, programs, 1, 1, threads, 1, 1, self.shared,
                                      _cu().CUstream(stream), ctypes.addressof(block), 0))  # fmt: skip


@functools.cache
def _arrays(count: int) -> tuple[Any, Any]:
    """The types of so many values, and of as many addresses."""
    return ctypes.c_uint64 * count, ctypes.c_void_p * count


def parameter_sizes(function: Any) -> list[int]:
    """The sizes of a kernel's parameters in bytes, in order."""
    cu, sizes = _cu(), []
    while True:
        status, _, size = cu.cuFuncGetParamInfo(function, len(sizes))
        if int(status):  # behind the last one
            return sizes
        sizes.append(size)


@functools.cache
def _setter(device: int, name: str) -> Function:
    """Loaded once per device, which binds the function that sets a handle. The driver assembles it; Triton's assembler, where the driver has none."""
    with torch.cuda.device(device):
        try:
            return _finished(setter.ptx().encode() + b"\0", name)
        except DriverError as error:
            place = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
            try:
                image, _ = triton_jit.assemble(setter.ptx(), place)
            except (RuntimeError, OSError):  # of the assembler: the driver's is the one to tell
                raise error from None
            return _finished(image, name)


def _finished(image: bytes, name: str) -> Function:
    made = Function(image, name)
    made.finish()
    return made


def prepare(device: torch.device) -> None:
    """Load what conditional nodes need, ahead of a capture."""
    for name in (setter.SET, setter.INVERTED, setter.SET_INDEX):
        _setter(device.index or 0, name)


# ---- conditional nodes of the graph that a stream captures


class Handle:
    """The handle of one conditional node of the graph that ``stream`` captures."""

    def __init__(self, stream: torch.cuda.Stream):
        cu = _cu()
        graph = _capture(stream)[0]
        self.value = _checked(cu.cuGraphConditionalHandleCreate(graph, context(), 0, 0))

    @property
    def number(self) -> int:
        return int(self.value)

    def set(self, name: str, cell: torch.Tensor, extra: int, stream: torch.cuda.Stream) -> None:
        """Record the kernel that sets it. ``extra``: the address of the error cell, or the last index."""
        given = [self.number, cell.data_ptr(), extra]
        _setter(cell.device.index or 0, name).start(1, 1, given, stream.cuda_stream)

    def node(self, kind: str, bodies: int, stream: torch.cuda.Stream) -> list[Any]:
        """Add the node after what the stream has captured; the graphs of its bodies."""
        cu = _cu()
        graph, before, count = _capture(stream)
        params = cu.CUgraphNodeParams()
        params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = self.value
        params.conditional.type = getattr(cu.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind.upper()}")  # fmt: skip
        params.conditional.size = bodies
        params.conditional.ctx = context()
        edges = (None,) if _edges() else ()
        node = _checked(cu.cuGraphAddNode(graph, before, *edges, count, params))
        flag = cu.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
        handle = cu.CUstream(stream.cuda_stream)
        _checked(cu.cuStreamUpdateCaptureDependencies(handle, [node], *edges, 1, flag))
        # The list's elements point into memory of the driver's: the graphs themselves are kept.
        return [cu.CUgraph(int(g)) for g in list(params.conditional.phGraph_out)[:bodies]]


def _capture(stream: torch.cuda.Stream) -> tuple[Any, list[Any], int]:
    """(graph, the nodes that the next one comes after, their number)."""
    info = _checked(_cu().cuStreamGetCaptureInfo(_cu().CUstream(stream.cuda_stream)))
    graph, before, count = info[2], info[3], info[-1]
    if int(info[0]) != 1:
        raise DriverError("the stream captures no graph")
    return graph, list(before or [])[:count], count


class Node:
    """The node that ``stream`` has captured last: a kernel whose parameters are addresses, or a copy of contiguous memory.

    ``set`` gives it other ones in an instantiated graph, for later launches: ``cuGraphExecKernelNodeSetParams`` and
    ``cuGraphExecMemcpyNodeSetParams``, or ``cuGraphExecNodeSetParams`` where the bindings have that only. They take nodes of the graph itself
    that is still there, no others. Parameters that change are counted up from those of the capture, which the node keeps.
    """

    def __init__(self, stream: torch.cuda.Stream):
        cu = _cu()
        _, before, count = _capture(stream)
        if count != 1:
            raise DriverError(f"{count} nodes where one was expected")
        self.handle = before[0]
        self.kind = _checked(cu.cuGraphNodeGetType(self.handle)).name.removeprefix(TYPE)
        if self.kind not in ("KERNEL", "MEMCPY"):
            raise DriverError(f"a {self.kind} node where a kernel or a copy was expected")
        # The functions for one kind are to go: "please migrate to cuGraphExecNodeSetParams", which drivers of CUDA 12 do not have in full.
        get = getattr(cu, f"cuGraph{self.kind.capitalize()}NodeGetParams", None)
        if get is not None:
            self.params, self.whole = _checked(get(self.handle)), None
        else:
            self.whole = _checked(cu.cuGraphNodeGetParams(self.handle))
            self.params = self.whole.kernel if self.kind == "KERNEL" else self.whole.memcpy.copyParams  # fmt: skip
        self.values: list[int] = []

    def expect(self, values: Sequence[int]) -> None:
        """DriverError where the parameters are not these; of a copy, its source."""
        self.values = list(values)
        if self.kind == "MEMCPY":
            found = [int(self.params.srcDevice)]
        else:
            self._count(len(values))
            if not int(self.params.kernelParams):
                raise DriverError("a kernel whose parameters are packed")
            block = (ctypes.c_void_p * len(values)).from_address(int(self.params.kernelParams))
            found = [ctypes.c_uint64.from_address(a).value for a in block if a]
        if found != self.values:
            raise DriverError(f"a {self.kind} node with other parameters than expected")

    def _count(self, wanted: int) -> None:
        """DriverError where the kernel does not take so many parameters of 8 bytes."""
        if parameter_sizes(self.params.func) != [8] * wanted:
            raise DriverError("a kernel with other parameters than expected")

    def set(self, graph: torch.cuda.CUDAGraph, changed: dict[int, int]) -> None:
        """Addresses by the number of the parameter; of a copy, number 0 is its source."""
        cu = _cu()
        instance = cu.CUgraphExec(graph.raw_cuda_graph_exec())
        for k, address in changed.items():
            self.values[k] = address
        if self.kind == "MEMCPY":
            self.params.srcDevice = cu.CUdeviceptr(self.values[0])
        numbers = [ctypes.c_uint64(v) for v in self.values]
        block = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))
        if self.kind == "KERNEL":
            self.params.kernelParams = ctypes.addressof(block)
        if self.whole is not None:
            _checked(cu.cuGraphExecNodeSetParams(instance, self.handle, self.whole))
        elif self.kind == "KERNEL":
            _checked(cu.cuGraphExecKernelNodeSetParams(instance, self.handle, self.params))
        else:
            _checked(
                cu.cuGraphExecMemcpyNodeSetParams(instance, self.handle, self.params, context())
            )


@contextlib.contextmanager
def capturing_into(graph: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """What ``stream`` is given goes into a body's graph, whose nodes are checked at the end."""
    cu = _cu()
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    handle = cu.CUstream(stream.cuda_stream)
    _checked(cu.cuStreamBeginCaptureToGraph(handle, graph, None, None, 0, mode))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        ended = cu.cuStreamEndCapture(handle)
    _checked(ended)
    for kind in kinds(graph):
        if kind not in BODY:
            raise DriverError(f"a {kind} node in a conditional body")


def kinds(graph: Any) -> list[str]:
    """The kinds of a graph's nodes, such as "KERNEL"."""
    cu = _cu()
    _, count = _checked(cu.cuGraphGetNodes(graph, 0))
    if not count:
        return []
    nodes, _ = _checked(cu.cuGraphGetNodes(graph, count))
    return [_checked(cu.cuGraphNodeGetType(n)).name.removeprefix(TYPE) for n in nodes]
