"""A stand-in for CUDA's driver and torch's streams, which notes calls and runs what was captured, on the CPU.

What a stream is given while it captures becomes a node of a graph, with what it does; ``replay`` runs the nodes. Conditional
nodes run their bodies as the driver does: by the value of their handle, which the setter kernels write. Node functions have the
signatures of the bindings of CUDA 12 or of CUDA 13.

What a real driver refuses is an error: see ``fake_graphs`` too.
"""

from __future__ import annotations

import contextlib
import ctypes
import types
from collections.abc import Callable
from typing import Any

import torch

from tests.runtime.gpu.fake_graphs import (
    CONDITIONAL,
    KERNEL,
    MEMCPY,
    CUDAGraph,
    Event,
    Graph,
    Stream,
)
from tests.runtime.kernels.cubins import parameter_sizes
from tograph.runtime.gpu import capture, direct, fused_code, planner, program
from tograph.runtime.gpu.plan import Copy, Run
from tograph.runtime.kernels import device, driver, images, recording, setter
from tograph.runtime.kernels.triton_text import ERROR

ELF = b"\x7fELF"  # of a Triton kernel; the setters are text


class Status(int):
    name = "CUDA_SUCCESS"


class Context(int):
    """Of the device that torch uses."""


CONTEXT = Context(1)
OK = (Status(0),)
UNJOINED = Status(904)
UNJOINED.name = "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"


class Cuda:
    """The functions of ``cuda.bindings.driver`` that are used. ``calls``: their names, in order."""

    def __init__(self, version: int = 13000, edges: bool = True):
        self.version, self.edges = version, edges
        self.calls: list[str] = []
        self.capturing: dict[int, Graph] = {}
        self.tails: dict[int, set[int]] = {}  # what the next node of a stream comes after
        self.owners: list[Graph] = []  # of the handles: the graph that each was made for
        self.nodes: set[int] = set()  # the handles that a node has
        self.current = [Stream()]
        self.pools: list[Any] = []  # that allocations go to, the innermost last
        self.underway: set[Any] = set()  # pools of captures that torch has not ended
        self.stuck = False
        self.CUgraphNodeType = types.SimpleNamespace(CU_GRAPH_NODE_TYPE_CONDITIONAL=13)
        names = {f"CU_GRAPH_COND_TYPE_{k}": k for k in ("IF", "WHILE", "SWITCH")}
        self.CUgraphConditionalNodeType = types.SimpleNamespace(**names)
        self.CUstreamCaptureMode = types.SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
        flags = {"CU_STREAM_SET_CAPTURE_DEPENDENCIES": 1}
        self.CUstreamUpdateCaptureDependencies_flags = types.SimpleNamespace(**flags)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu") and name[2].isupper():
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    CUstream = staticmethod(int)
    CUgraph = staticmethod(lambda number: Graph.numbered[number])

    def CUgraphNodeParams(self) -> Any:
        return types.SimpleNamespace(type=None, conditional=types.SimpleNamespace())

    CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def cuStreamCreate(self, flags):
        assert flags == 1
        Stream.count += 1
        return (*OK, Stream.count)

    def cuGraphLaunch(self, instance, stream):
        assert not self.capturing
        instance.launch()
        return OK

    def cuDriverGetVersion(self):
        return (*OK, self.version)

    def cuCtxGetCurrent(self):
        return (*OK, CONTEXT)

    # ---- modules and kernels

    def cuModuleLoadData(self, image):
        assert image.startswith(ELF) or (b"cudaGraphSetConditional" in image and image.endswith(b"\0"))  # fmt: skip
        return (*OK, image)

    def cuModuleGetFunction(self, module, name):
        assert not self.capturing, "a module is loaded ahead of a capture"
        name = name.decode()
        return (*OK, parameter_sizes(module, name) if module.startswith(ELF) else name)

    def cuFuncLoad(self, function):
        return OK

    def cuLaunchKernel(self, function, x, y, z, threads, b, c, shared, stream, parameters, extra):
        assert (x, y, z, threads, b, c, extra) == (1, 1, 1, 1, 1, 1, 0)
        addresses = (ctypes.c_void_p * 3).from_address(parameters)
        handle, cell, third = (ctypes.c_uint64.from_address(a).value for a in addresses)
        self.add(stream, KERNEL, lambda: self._set(function, handle, cell, third))
        return OK

    def add(
        self,
        stream: int,
        kind: str,
        action: Callable[[], None],
        parameters: list[int] | None = None,
    ) -> None:
        assert self.pools, "memory of a library function that others may get"
        graph = self.capturing[stream]
        graph.parameters[len(graph.nodes)] = parameters or []
        graph.nodes.append((kind, action, self.tails.get(stream, set())))
        self.tails[stream] = {len(graph.nodes) - 1}

    def ended(self, stream: int) -> tuple[Status, Graph]:
        """What a stream has captured; every stream that took part has to be joined."""
        graph = self.capturing[stream]
        joined = graph.behind(self.tails.get(stream, set())) == set(range(len(graph.nodes)))
        self.abandon(graph)
        return OK[0] if joined else UNJOINED, graph

    def abandon(self, graph: Graph) -> None:
        for s in [s for s, g in self.capturing.items() if g is graph]:
            del self.capturing[s]
            self.tails.pop(s, None)

    def _set(self, name: str, handle: int, cell: int, third: int) -> None:
        """What the PTX of ``setter`` does."""
        if name == setter.SET_INDEX:
            index = ctypes.c_uint64.from_address(cell).value
            self.owners[handle].handles[handle] = min(index, third)
            return
        truth = bool(ctypes.c_uint8.from_address(cell).value) != (name == setter.INVERTED)
        failed = third and ctypes.c_int32.from_address(third).value
        self.owners[handle].handles[handle] = int(truth and not failed)

    # ---- graphs

    def cuGraphConditionalHandleCreate(self, graph, context, value, flags):
        assert isinstance(graph, Graph) and context is CONTEXT
        assert (value, flags) == (0, 0)  # set by a kernel ahead of the node
        assert graph in self.capturing.values()
        self.owners.append(graph)
        graph.handles[len(self.owners) - 1] = None
        return (*OK, len(self.owners) - 1)

    def cuStreamGetCaptureInfo(self, stream):
        graph = self.capturing.get(stream)
        before = [(graph, i) for i in sorted(self.tails.get(stream, ()))] if graph else []
        edges = (None,) if self.edges else ()
        return (*OK, int(graph is not None), 7, graph, before, *edges, len(before))

    def cuGraphAddNode(self, graph, before, *rest):
        *edges, count, params = rest
        assert len(edges) == self.edges and count == len(before)
        given = params.conditional
        given.phGraph_out = [Graph(graph) for _ in range(given.size)]
        action = lambda: graph.conditional(given.type, given.handle, given.phGraph_out)  # noqa: E731
        assert all(g is graph for g, _ in before)
        assert self.owners[given.handle] is graph and given.handle not in self.nodes
        assert given.size == 1 or given.type == "SWITCH"
        self.nodes.add(given.handle)
        graph.nodes.append((CONDITIONAL, action, {i for _, i in before}))
        return (*OK, (graph, len(graph.nodes) - 1))

    def cuStreamUpdateCaptureDependencies(self, stream, nodes, *rest):
        *edges, count, _ = rest
        assert len(edges) == self.edges and count == 1 == len(nodes)
        assert all(graph is self.capturing[stream] for graph, _ in nodes)
        self.tails[stream] = {i for _, i in nodes}
        return OK

    def cuStreamBeginCaptureToGraph(self, stream, graph, before, data, count, mode):
        assert stream not in self.capturing and count == 0
        assert graph.around in self.capturing.values() and not graph.nodes
        self.capturing[stream] = graph
        return OK

    def cuStreamEndCapture(self, stream):
        return self.ended(stream)

    def cuGraphGetNodes(self, graph, count):
        nodes = [(graph, i) for i in range(len(graph.nodes))]
        return (*OK, nodes[:count], len(nodes))

    def cuGraphNodeGetType(self, node):
        graph, i = node
        kind = types.SimpleNamespace(name=f"CU_GRAPH_NODE_TYPE_{graph.nodes[i][0]}")
        return (*OK, kind)

    # ---- parameters of nodes

    CUgraphExec = staticmethod(lambda graph: graph)
    CUdeviceptr = staticmethod(int)

    def cuGraphKernelNodeGetParams(self, node):
        return (*OK, self._kernel(node))

    def _kernel(self, node):
        graph, i = node
        numbers = [ctypes.c_uint64(v) for v in graph.parameters[i]]
        block = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))
        graph.kept += [numbers, block]
        return types.SimpleNamespace(
            func=len(numbers) + self.extra, kernelParams=ctypes.addressof(block)
        )

    extra = 0  # parameters that a kernel has and nobody expects

    def cuFuncGetParamInfo(self, function, k):
        sizes = function if isinstance(function, list) else [8] * function
        return (*OK, sum(sizes[:k]), sizes[k]) if k < len(sizes) else (Status(1), 0, 0)

    refuses = False  # whether nodes of an instantiated graph cannot be told anything

    def cuGraphExecKernelNodeSetParams(self, instance, node, params):
        return self._tell(instance, node, params)

    def _tell(self, instance, node, params):
        if self.refuses:
            return (UNJOINED,)
        graph, i = node
        assert graph is instance, "a node of a body"
        count = len(graph.parameters[i])
        block = (ctypes.c_void_p * count).from_address(params.kernelParams)
        graph.parameters[i][:] = [ctypes.c_uint64.from_address(a).value for a in block]
        return OK

    def cuGraphMemcpyNodeGetParams(self, node):
        graph, i = node
        return (*OK, types.SimpleNamespace(srcDevice=graph.parameters[i][0]))

    def cuGraphExecMemcpyNodeSetParams(self, instance, node, params, context):
        graph, i = node
        assert graph is instance and context is CONTEXT
        graph.parameters[i][0] = params.srcDevice
        return OK

    # ---- the same by the functions for nodes of any kind

    def cuGraphNodeGetParams(self, node):
        graph, i = node
        if graph.nodes[i][0] == KERNEL:
            return (*OK, types.SimpleNamespace(kernel=self._kernel(node)))
        copy = types.SimpleNamespace(srcDevice=graph.parameters[i][0])
        return (*OK, types.SimpleNamespace(memcpy=types.SimpleNamespace(copyParams=copy)))

    def cuGraphExecNodeSetParams(self, instance, node, params):
        if hasattr(params, "kernel"):
            return self._tell(instance, node, params.kernel)
        node[0].parameters[node[1]][0] = params.memcpy.copyParams.srcDevice
        return OK

    # ---- torch's side

    @contextlib.contextmanager
    def stream(self, stream: Stream):
        self.current.append(stream)
        try:
            yield
        finally:
            self.current.pop()

    def begin(self, made: CUDAGraph, pool: Any, mode: str) -> None:
        assert mode == "relaxed" and pool is not None and self.pools
        stream = self.current[-1]
        assert stream is not self.current[0], "a capture on the default stream"
        assert stream.cuda_stream not in self.capturing
        made.root = self.capturing[stream.cuda_stream] = Graph()
        made.stream, self.underway = stream, {*self.underway, pool}
        made.first = len(self.owners)
        made.held = pool

    def synchronize(self, device: Any = None) -> None:
        assert not self.capturing, "a wait for the whole device ends a capture"

    def end(self, made: CUDAGraph) -> None:
        assert made.stream is self.current[-1]
        if int(self.ended(made.stream.cuda_stream)[0]):
            self.stuck = True  # torch's generator
            raise RuntimeError(UNJOINED.name)
        self.underway = self.underway - {made.held}
        # "Handles not associated with a conditional node may cause graph instantiation to fail."
        assert self.nodes.issuperset(range(made.first, len(self.owners)))

    @contextlib.contextmanager
    def pool(self, pool: Any):
        """What is allocated goes into a pool of the caller's."""
        self.pools.append(pool)
        try:
            yield
        finally:
            self.pools.pop()

    def restored(self, generator: Any, device: Any) -> None:
        self.stuck = False

    def end_allocating(self, device: int, pool: Any) -> None:
        if pool not in self.underway:
            raise RuntimeError("not allocating to this pool")
        self.underway = self.underway - {pool}


def startable(source: Any) -> None:
    """Whether a grid and its blocks are of sizes that a device takes."""
    assert 0 <= source.programs < 1 << 31 and 0 < 32 * source.warps <= 1024, source.name


def parameters(step: Any) -> list[Any]:
    """The memory of the parameters that a node has: of a kernel, and the source of a copy."""
    if isinstance(step, Run):
        return [step.arguments[n] for n in step.source.signature]
    return [step.pairs[0][1]] if isinstance(step, Copy) else []


def at_address(x: torch.Tensor, address: int) -> torch.Tensor:
    """Memory at an address as a tensor like ``x``."""
    memory = (ctypes.c_uint8 * x.nbytes).from_address(address)
    return torch.frombuffer(memory, dtype=x.dtype).reshape(x.shape)


def plan_on_cpu(monkeypatch) -> None:
    """Plans of programs are for the CPU, their loops and branches nodes."""
    plan = planner.plan

    def on_cpu(graph, whole=True, capacity=None, **_):
        found = plan(graph, False, capacity)
        found.device = "cpu"
        return found

    monkeypatch.setattr(program.planner, "plan", on_cpu)


def forget(*functions) -> None:
    """What was found out about the driver is found out again."""
    for function in (driver.version, driver._setter, capture.fuses, *functions):
        function.cache_clear()


def settings(cuda: Cuda) -> type:
    """In the place of ``fused_code.Kernel``: the kernel runs as it is, then its handles are set as the PTX does."""

    class Kernel:
        def __init__(self, step, given):
            assert not cuda.capturing, "a kernel is loaded ahead of a capture"
            self.step = step

        def start(self, given, handles, stream):
            startable(self.step.source)
            assert self.step.source.programs == 1, "each program would set the handle"
            cuda.add(stream, KERNEL, lambda: self._run(given, handles))

        def _run(self, given, handles):
            device.launch(self.step.source, {n: given[n] for n in self.step.source.signature})
            error = given[ERROR].data_ptr() if ERROR in given else 0
            for i, t in enumerate(self.step.told):
                third = t.last if t.how == setter.SET_INDEX else error
                cuda._set(t.how, handles[f"handle{i}"], given[t.parameter].data_ptr(), third)

    return Kernel


def install(monkeypatch, cuda: Cuda) -> type[capture.Captured]:
    """Put a driver in the place of CUDA's; the class that captures plans for "cpu" with it."""

    class Emulated(capture.Captured):
        def _leaf(self, step, run, kind):
            graph = cuda.capturing.get(cuda.current[-1].cuda_stream)
            if graph is None:
                run(step)
            else:  # addresses are those of the capture
                of = dict(self.memory.of)
                stream = cuda.current[-1].cuda_stream
                places = parameters(step)
                now = [of[p].data_ptr() for p in places]
                now += [0, 0] * isinstance(step, Run)
                cuda.add(stream, kind, lambda: self._at(of, run, step, places, now), now)

        def _at(self, of, run, step, places, addresses):
            for p, address in zip(places, addresses):
                if of[p].data_ptr() != address:  # a node that was told another one
                    of = of | {p: at_address(of[p], address)}
            now, self.memory.of = self.memory.of, of
            run(step)
            self.memory.of = now

        def _run(self, step):
            startable(step.source)
            self._leaf(step, super()._run, KERNEL)

        def _call(self, step):
            self._leaf(step, super()._call, KERNEL)

        def _copy(self, step):
            self._leaf(step, super()._copy, MEMCPY)

    monkeypatch.setattr(Stream, "cuda", cuda, raising=False)
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    monkeypatch.setattr(fused_code, "image", lambda *_: (b"", 0, 1))
    monkeypatch.setattr(fused_code, "Kernel", settings(cuda))
    monkeypatch.setattr(driver, "_cu", lambda: cuda)
    monkeypatch.setattr(driver, "_edges", lambda: cuda.edges)
    for function in (driver.version, driver._setter, capture.probed, capture.fuses):
        function.cache_clear()
    for name, value in {
        "is_available": lambda: True, "is_current_stream_capturing": lambda: False, "Stream": Stream, "ExternalStream": Stream.external, "CUDAGraph": type("CUDAGraph", (CUDAGraph,), {"cuda": cuda}),
        "MemPool": object, "use_mem_pool": cuda.pool, "graph_pool_handle": object,
        "Event": Event, "stream": cuda.stream, "current_stream": lambda device=None: cuda.current[-1], "synchronize": cuda.synchronize,
        "device": lambda device: contextlib.nullcontext(),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", cuda.end_allocating, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda device, pool: None, raising=False)
    monkeypatch.setattr(torch.cuda, "default_generators", [object()])
    monkeypatch.setattr(recording, "restored", cuda.restored)
    monkeypatch.setattr(recording, "_idle", {})
    monkeypatch.setattr(capture, "Captured", Emulated)
    monkeypatch.setattr(direct, "GRAPH", 0.0)  # small graphs are captured
    return Emulated
