"""How a graph runs: the levels of execution, and which one a call takes.

``build(graph)`` gives a ``Program``. From the top:

native  the whole graph is one machine-code function (``native``). Needs: llvmlite; tensors on the CPU with static sizes,
        contiguous and without autograd; every op with a native form.
device  tensors on one GPU, and small ones on the CPU beside them: kernels and conditional nodes of one CUDA graph, or chunks of predicated loop bodies (``gpu``).
        Needs: triton; static sizes; nothing in the graph that only the host can do. Not yet seen on a GPU.
host    straight-line Python that calls torch, op by op (``host``). Runs everything.

The level is chosen per graph and checked per call, so a call that native code was not made for (another memory layout,
gradients, a torch mode) runs on the host. So does one that native code declines while it runs, because something
failed: the host then raises the exact error. A graph with loops or large tensors is compiled at its first call, another at
its second, a long one later: code that runs once is not compiled, and LLVM is not even loaded for it. ``level`` and ``reason`` tell what was
taken and why not more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import collector, settings, stacks
from ...lazy import lazy_module
from .. import passes
from ..display import artifacts
from ..gradients import transforms
from ..graph import outside, prints
from ..graph.ir import Graph, all_nodes, nesting
from ..graph.rewrite import copied, count_nodes
from ..graph.types import is_static
from ..kernels.device import gpus_in
from ..kernels.jit import warn_once
from ..kernels.loop_ir import Unsupported
from ..kernels.regions import MIN_POINTS
from ..native import plans
from ..native.compiling import compile_graph
from ..native.entry import MISS
from ..native.groups import known_numel
from ..native.leaving import Leaving
from ..native.program import Native
from ..native.rows import plain
from ..native.values import Decline
from ..passes.skip_vectors import has_vectors, skip_vectors
from ..recording.variables import PLAIN
from . import host

gpu = lazy_module("..gpu.program", __package__)

ALL = Leaving()
WARM = 2  # the call at which a graph without loops is compiled
LAYOUTS = 4  # combinations of strides of the inputs that are compiled
LONG = 1000  # nodes of a graph without loops, such as a loop of Python that was unrolled, from which on it waits for more calls:
ROLLED = 100  # nodes from which on what repeats in a graph becomes a loop
STRETCH = 250  # one for each so many nodes, since LLVM takes a hundred times as long for a node as the host takes to run it
PATIENCE = 8  # calls that may decline in a row before native code is given up


class Program:
    """Runs a graph. ``level``: "native", "device" or "host"; ``reason``: why not more, or an empty string."""

    def __init__(
        self,
        traced: Graph,
        optimized: Callable[[], Graph] | None = None,
        host_program: Callable[[], host.Program] | None = None,
        leaving: Leaving = ALL,
    ):
        self._traced, self._optimized, self._leaving = traced, optimized, leaving
        self.level, self.reason = "host", "not called yet"
        self._host_program = host_program or (lambda: host.build(self.graph))
        self._native: Any = None  # Native, or gpu.Program, which loads late
        self._left = _calls_before(traced)
        self._settled = False
        self._waiting: host.Program | None = None  # runs the graph op by op while calls wait
        self._in_a_row = self._successes = 0  # calls that declined, and that had succeeded by then
        self._strided: dict[
            Any, Native | None
        ] = {}  # native code for inputs that are not contiguous, by their strides

    @functools.cached_property
    def graph(self) -> Graph:
        """What the passes make of the graph."""
        return self._traced if self._optimized is None else self._optimized()

    @functools.cached_property
    def _for_native(self) -> Graph:
        """What native code is made from: the same, but that writes in regions are lifted before the passes instead of between two runs of them."""
        made = None if self._optimized is None else passes.optimize_lifted(self._traced)
        graph = self.graph if made is None else made
        return skip_vectors(copied(graph)) if has_vectors(graph) else graph

    @functools.cached_property
    def _rolled(self) -> Graph | None:
        """That with loops in the place of what repeats in it; None where nothing does."""
        if self._optimized is None or len(self._traced.nodes) <= ROLLED:
            return None
        return passes.rolled(self._for_native)

    @functools.cached_property
    def _rolled_code(self) -> Native | None:
        """The native code of that, where it has one."""
        try:
            return self._rolled and compile_graph(self._rolled, self._leaving)
        except (Decline, Unsupported):
            return None

    @functools.cached_property
    def host(self) -> host.Program:
        """The host program of the graph."""
        with collector.seldom():
            return self._host_program()

    @property
    def native(self) -> Any:
        """The native code, or what runs on the GPU, once a call has compiled it."""
        return self._native

    @property
    def settled(self) -> bool:
        """Whether it is known how the graph runs: as native code, on a device, or by the host."""
        return self._settled

    def hurry(self) -> None:
        """The calls have come that it would wait for."""
        self._left = min(self._left, 1)

    @property
    def on_host(self) -> bool:
        """Whether calls run op by op, and it is known that neither native code nor a device can run them."""
        return self._settled and self.level == "host" and not settings.NOOPT

    @property
    def kernels(self) -> list[Any]:
        """The loop nests of the native code."""
        if not isinstance(self._native, Native):
            return [] if self._native is None else self._native.kernels
        if self._native.low.kernels is None:  # code that an earlier process made
            made = self._rolled_code or compile_graph(self._for_native, self._leaving)
            self._native.low.kernels = made.low.kernels
        return self._native.low.kernels

    @property
    def llvm(self) -> str:
        """The text of the native code; empty at other levels."""
        return self._native.llvm if isinstance(self._native, Native) else ""

    def run(self, *inputs: Any) -> list[Any]:
        """The outputs for run-time values of the inputs."""
        if self._left:
            with stacks.LIMIT.deep(nesting(self._traced)):
                self._left = 0 if self._is_short() else self._left - 1
            if self._left:
                return self.run_early(*inputs)
            self._waiting = None
            self.compile()
        native = self._native  # another thread may give it up
        if native is not None:
            outputs = native.run(inputs)
            if outputs is None and isinstance(native, Native):
                outputs = self._run_strided(native, inputs)
            if outputs is not None:
                self._in_a_row = 0
                return outputs
            self._note_declined()
            (count, failure), numbers = prints.left_over(), outside.left_over()
            if count or failure is not None or numbers is not None:
                with prints.passed_over(count, failure), outside.again(numbers):
                    return self.host.run(*map(plain, inputs))
        return self.host.run(*map(plain, inputs))

    def quick(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs where native code takes the inputs as they are, or where the host runs all calls, else None: ``run`` has to be asked.

        Autograd records nothing.
        """
        native = self._native
        if native is None and self._settled and all(map(_is_usual, inputs)):
            with torch.no_grad():
                return self.host.run(*inputs)
        found = native.quick(inputs) if isinstance(native, Native) else MISS
        return None if found is MISS else found

    @property
    def gives_views(self) -> bool:
        """Whether ``quick`` may give views of other outputs or of inputs."""
        return getattr(self._native, "gives_views", True)

    @property
    def early(self) -> bool:
        """Whether calls wait for a later one to compile the graph."""
        return self._left > 0

    def run_early(self, *inputs: Any) -> list[Any]:
        """The outputs as calls give them that wait: op by op, rounded as torch does."""
        if self._waiting is None:
            with collector.seldom():
                self._waiting = host.build(self.graph)
        return self._waiting.run(*map(plain, inputs))

    def run_mapped(self, *inputs: Any) -> list[Any]:
        """The outputs where some inputs are what a ``vmap`` of torch's makes of many: op by op."""
        return transforms.run(self.graph, list(map(plain, inputs)))

    def _is_short(self) -> bool:
        """Whether a graph that would wait for many calls is compiled fast: an earlier process did it, or much of it repeats."""
        if (
            settings.NOOPT
            or len(self._traced.nodes) <= LONG
            or self._waiting
            or gpus_in(self._traced)
        ):
            return False
        if plans.load(plans.name_of(self._traced, self._leaving)):
            return True
        return self._rolled_code is not None and count_nodes(self._rolled) <= LONG

    def _with_strides(self, layout: Any) -> Native:
        """Native code for inputs that are not contiguous."""
        if self._rolled is not None:
            try:
                return compile_graph(self._rolled, self._leaving, layout)
            except (Decline, Unsupported):
                if len(self._for_native.nodes) > LONG:
                    raise
        return compile_graph(self._for_native, self._leaving, layout)

    def _run_strided(self, native: Native, inputs: tuple) -> list[Any] | None:
        """The outputs by code for the strides of these inputs, where they are what kept the native code from running."""
        layout = native.layout(inputs)
        if not layout or (layout not in self._strided and len(self._strided) >= LAYOUTS):
            return None
        if layout not in self._strided:
            try:
                self._strided[layout] = self._with_strides(layout)
            except (Decline, Unsupported) as why:
                self._strided[layout], self.reason = None, str(why)
            except RuntimeError as error:
                self._strided[layout] = None
                self._does_not_compile(error)
        code = self._strided[layout]
        return code and code.run(inputs)

    def compile(self) -> None:
        """Try to reach the native level now."""
        self._left = 0
        try:
            with stacks.LIMIT.deep(nesting(self._traced)):
                self._compile()
        finally:
            self._settled = True  # last: another thread may ask while this one compiles

    def _compile(self) -> None:
        if settings.NOOPT:
            self.reason = "TOGRAPH_NOOPT is set"
            return
        try:
            if gpus_in(self._traced):
                self._on_device()
                return
            with artifacts.progress(f"compiling {self._traced.name!r}"), collector.seldom():
                self._native = self._compiled()
            self.level, self.reason = "native", ""
        except (Decline, Unsupported) as why:
            self.reason = str(why)
        except RuntimeError as error:
            self._does_not_compile(error)

    def _on_device(self) -> None:
        """Whatever goes wrong in a driver, its bindings or a compiler of the machine costs this level, not the call."""
        try:
            self._native, self.level = gpu.Program(self.graph, self._leaving.visible), "device"
            self.reason = "; ".join(self._native.notes)
        except Unsupported:
            raise
        except Exception as error:
            self._does_not_compile(error)

    def _does_not_compile(self, error: Exception) -> None:
        code = "code of the GPU" if gpus_in(self._traced) else "native code"
        why = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
        self.reason = f"{code}: {why}"
        warn_once(f"tograph: {code} for {self._traced.name} does not compile, it runs op by op: {why}")  # fmt: skip

    def _compiled(self) -> Native:
        """The native code, that of an earlier process where one made it."""
        name = None if self._optimized is None else plans.name_of(self._traced, self._leaving)
        found = plans.load(name)
        if found is not None:
            return Native(*found)
        made = self._rolled_code or compile_graph(self._for_native, self._leaving)
        plans.store(name, made.form, made.low)
        return made

    @property
    def declined(self) -> int:
        """How many calls in a row the native code has declined. Those that an entry runs come by here only where they do not succeed."""
        return self._in_a_row if self._entry_successes() == self._successes else 0

    def _entry_successes(self) -> int:
        native = self._native
        return native.successes if isinstance(native, Native) else 0

    def _note_declined(self) -> None:
        self._in_a_row, self._successes = self.declined + 1, self._entry_successes()
        if notes := getattr(self._native, "notes", ()):
            self.reason = "; ".join(notes)
        if self._in_a_row >= PATIENCE:
            self._native = None
            self.level, self.reason = "host", f"native code declined {PATIENCE} calls in a row"


def _is_usual(x: Any) -> bool:
    """Whether an input is a number, or a tensor that torch's ops take as it is and that lies as native code would have it."""
    kind = type(x)
    if kind in (int, float, bool):
        return True
    return kind in PLAIN and not transforms.is_mapped(x) and x.layout is torch.strided and x.is_contiguous()  # fmt: skip


def _calls_before(graph: Graph) -> int:
    """The call at which a graph is compiled."""
    if _loops(graph) or (len(graph.nodes) <= LONG and _large(graph)):
        return 1
    return calls_before(len(graph.nodes))


def calls_before(count: int) -> int:
    """The call at which a graph of so many nodes, without loops, is compiled."""
    return count // STRETCH if count > LONG else WARM


def _loops(graph: Graph) -> bool:
    return any(n.op == "While" for n in all_nodes(graph))


def _large(graph: Graph) -> bool:
    """Whether the host program would compile kernels at its first call: then native code is compiled instead."""
    return any(
        is_static(v.type) and known_numel(v.type.shape) >= MIN_POINTS
        for n in graph.nodes
        for v in n.outputs
    )  # fmt: skip


def build(
    traced: Graph,
    optimized: Callable[[], Graph] | None = None,
    host_program: Callable[[], host.Program] | None = None,
    leaving: Leaving = ALL,
) -> Program:
    """How to run ``traced``, which does not change any more.

    ``optimized`` gives what the passes make of it, and is asked where no code of an earlier process is found; without it the graph runs as
    it is. ``host_program`` makes its host program, where the caller has one. ``leaving``: which of the outputs leave the library;
    lists among the others only other programs read (``native.rows``).
    """
    return Program(traced, optimized, host_program, leaving)
