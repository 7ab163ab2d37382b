"""A graph on a GPU without the host: its plan, and the highest tier that runs it.

tier 1  conditional nodes of one CUDA graph (``capture``), where the probe of the device finds that they work; a straight-line
        graph that makes much data runs kernel by kernel (``direct``)
tier 2  chunks of predicated bodies (``execute.Chunked``)

Loops inside one kernel (tier 0) are kernels of a plan. What has no plan runs on the host (tier 3), which is the caller's.
A graph without conditional nodes is tier 1 wherever CUDA graphs are. ``notes`` say, once, why it is not a higher tier.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import torch

from ...errors import LateFailureError
from ..graph.ir import Graph
from ..graph.types import ListType, OptionalType, ScalarType
from ..kernels import device as devices
from ..kernels import triton_jit
from ..kernels.device import LoopKernel, gpus_in, out_of_range, tuner
from ..kernels.jit import warn_once
from ..kernels.loop_ir import ASSERTED, Unsupported
from ..kernels.loop_numbers import FULL
from ..kernels.triton_text import ERROR
from ..kernels.tuning import estimate
from ..recording.variables import Variable
from ..values.keys import user_modes
from . import capture, direct, library, message_kernels, planner, result_strides
from .coalescing import coalesced
from .compacting import compact
from .execute import Chunked, Stepwise
from .forms import Held
from .fusing import fused
from .loop_tuning import Loops
from .messages import Room, told
from .plan import Call, Host, Plan, Run, check
from .pointers import Pointers, places
from .resume import resumed
from .retarget import retarget
from .steps import located
from .storage import Failed
from .stores import apart, storable, stored
from .transfers import tensors
from .visits import visited

PATIENCE = 3  # failures in a row before a graph is left to the host
GROWTH = 4  # how many times more items there is room for after a list was full
MOST_ROOM = 1 << 20
KEPT = 256  # combinations of strides of the inputs, whose results' strides are known


class Program:
    """``run(inputs)`` gives the outputs, or None where the host must run the graph. ``tier``: 1 or 2."""

    def __init__(self, graph: Graph, visible: int | None = None):
        """``visible``: the outputs behind so many go to other programs only; all leave where it is None."""
        if why := triton_jit.available():
            raise Unsupported(why)
        if not torch.cuda.is_available():
            planner.plan(graph)  # says first what keeps a graph on the host anywhere
            raise Unsupported("there is no CUDA device")
        if _captured():
            raise Unsupported("its first call is in a CUDA graph that the caller captures")
        self.graph, self._visible = graph, visible
        self._mutex, self._running = threading.RLock(), False
        self.notes: list[str] = []
        self._types = [v.type for v in graph.inputs]
        given = {v: i for i, v in enumerate(graph.inputs)}
        self._given = {k: given[v] for k, v in enumerate(graph.outputs) if v in given}
        self._failures = 0
        self._strides: dict[Any, list[Any]] = {}  # of the outputs, by those of the inputs
        self._wide = [
            i for i, t in enumerate(self._types) if len(getattr(t, "shape", None) or ()) > 1
        ]
        self.loops: Loops | None = None
        self._room = Room()
        with _own_devices():
            self._make(None)

    def _make(self, capacity: int | None) -> None:
        """Plan the graph with room for so many items of its lists, and choose what runs the plan."""
        found = gpus_in(self.graph)
        device = found[0] if len(found) == 1 else ""  # the plan says that several are too many
        choose = tuner(device) if device else estimate
        self.loops = self.loops or Loops(device or "cpu", devices.launch)
        shapes = self.loops.shape
        self.plan = planner.plan(self.graph, capacity=capacity, choose=choose, shapes=shapes)
        self._yields = any(isinstance(s, Host) for s, _ in self.plan.walk())
        self.tier, self._runner = self._choose()
        self.pointers = Pointers(
            self.plan,
            {i for i, t in enumerate(self._types) if "cpu" in {k.device for k in tensors(t)}},
        )

    def _bound(self, inputs: Sequence[Any]) -> None:
        try:
            self._bind(inputs)
        except (torch.OutOfMemoryError, Unsupported):
            raise
        except Exception as error:  # nothing has been started yet
            raise Unsupported(f"{type(error).__name__}: {error}") from error

    def _bind(self, inputs: Sequence[Any]) -> None:
        """Capture again, for the inputs that stay where they are and those that are told to the graph, and for other settings of torch.

        Unsupported where there is not even memory for a graph that copies them.
        """
        if not self._runner.captures:
            return
        others = self._runner.asked != () and self._runner.asked != library.settings()
        if not self.pointers.moved(inputs) and not others:
            return
        self._runner.leave()
        del self._runner  # with its memory
        try:
            self._runner = self._captured(inputs)
        except Exception:  # of the driver or its bindings, or too little memory
            self.pointers.fixed()
            try:
                self._runner = self._captured(inputs)
            except Exception as error:
                raise Unsupported(f"the graph cannot be captured again: {error}") from error

    def _captured(self, inputs: Sequence[Any]) -> capture.Captured:
        here, there = (
            {v: inputs[i].detach() for v, i in places(self.plan, which).items()}
            for which in (self.pointers.bound, self.pointers.moving)
        )
        own = apart(inputs, sorted(storable(self.plan).keys() & self.pointers.bound))
        return capture.captured(stored(self.plan, own), here, there, self._room)

    def _choose(self) -> tuple[int, Stepwise]:
        """The tier and what runs the plan. Unsupported, with one warning, where a kernel does not compile or memory is short."""
        try:
            return self._chosen()
        except torch.OutOfMemoryError:
            with contextlib.suppress(RuntimeError):  # another thread captures
                torch.cuda.empty_cache()  # torch does not do that for memory of graphs
        try:
            return self._chosen()
        except torch.OutOfMemoryError as error:
            short = f"out of device memory: the plan needs {self.plan.memory} bytes"
            warn_once(f"tograph: {self.plan.name} runs op by op: {short}")
            raise Unsupported(short) from error

    def _chosen(self) -> tuple[int, Stepwise]:
        try:
            if direct.worth(self.plan):
                return 1, direct.Direct(self.plan)
            why = capture.lacking(self.plan)
            if not why:
                try:
                    made = capture.captured(self.plan, room=self._room)
                    if why := capture.unfused(self.plan):
                        self.notes = [f"a kernel of its own sets each condition: {why}"]
                    return 1, made
                except (torch.OutOfMemoryError, Unsupported):
                    raise
                except Exception as error:  # whatever the driver or its bindings raise
                    why = str(error) or type(error).__name__
            _check_bodies(self.plan, why)
            self.notes = [f"no conditional nodes: {why}"]
            warn_once(f"tograph: {self.plan.name} runs in chunks, not in one CUDA graph: {why}")
            return 2, Chunked(told(self.plan, self._room, visits=False))
        except Unsupported as why:
            warn_once(f"tograph: {self.plan.name} runs op by op: {why}")
            raise

    @property
    def kernels(self) -> list[LoopKernel]:
        """The Triton kernels of the plan, each once."""
        plan = self._runner.plan
        found = {s.source.name: s for s in (*plan.once, *(s for s, _ in plan.walk())) if isinstance(s, Run)}  # fmt: skip
        return [LoopKernel(n, s.source, (str(s.location),), s.choice) for n, s in found.items()]

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """One call at a time, since the memory is the plan's; a Python function that it calls may call the graph again."""
        with self._mutex:
            if self._running or self._failures >= PATIENCE or not self._fits(inputs):
                return None
            self._running = True
            try:
                with _own_devices():
                    return self._run(inputs)
            finally:
                self._running = False

    def _run(self, inputs: Sequence[Any]) -> list[Any] | None:
        if code := self._runner.memory.late():
            where = next((s.location for s, _ in self.plan.walk() if isinstance(s, Run) and ERROR in s.source.signature), None)  # fmt: skip
            raise LateFailureError(self.plan.name, code, where)
        try:
            outputs = self._attempt(inputs)
        except Failed as error:
            if error.code == ASSERTED:
                raise out_of_range(self.plan.asserted) from None
            self._failures += 1
            if error.__cause__ is not None and str(error) not in self.notes:
                self.notes.append(str(error))
                if (
                    not error.reported and self._runner.captures
                ):  # it has only launched what ran before
                    warn_once(f"tograph: {self.plan.name} runs op by op: {error}")
            if not error.log:
                return None
            self._more(error.code)
            return resumed(self.graph, inputs, error.log)
        except Unsupported as why:  # a kernel that does not compile for this device: the plan has written nothing outside
            self._failures = PATIENCE
            self.notes.append(f"op by op: {why}")
            warn_once(f"tograph: {self.plan.name} runs op by op: {why}")
            return None
        self._failures = 0
        for k, i in self._given.items():  # the caller's own, not a copy
            outputs[k] = inputs[i]
        return outputs

    def _attempt(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan; where a list has no room, another one with more. A plan that fails has changed nothing."""
        strides = self._strides_of(inputs)
        while True:
            try:
                self._bound(inputs)
                self._runner.memory.strides = strides
                return self._tuning(inputs) if self.plan.trials else self._runner.run(*inputs)
            except Failed as error:
                if error.log or not self._more(error.code):
                    raise

    def _strides_of(self, inputs: Sequence[Any]) -> list[Any]:
        """Those of the outputs that leave the library."""
        key = tuple([(inputs[i].shape, inputs[i].stride()) for i in self._wide])
        if key not in self._strides:
            if len(self._strides) == KEPT:
                self._strides.clear()
            found = result_strides.strides_of(self.graph, inputs)
            kept = len(found) if self._visible is None else self._visible
            self._strides[key] = [s if i < kept else None for i, s in enumerate(found)]
        return self._strides[key]

    def _tuning(self, inputs: Sequence[Any]) -> list[Any]:
        """A run behind which loops are measured that go block by block; the graph is planned again where that pays."""
        trials, self.plan.trials, better = self.plan.trials, {}, []
        runner, loops = self._runner, self.loops
        runner.behind = lambda of: better.append(loops.measure(runner.plan.steps, trials, of))
        try:
            outputs = runner.run(*inputs)
        finally:
            runner.behind = None
        if any(better):
            self._again(self.plan.form.capacity)
        return outputs

    def _more(self, code: int) -> bool:
        """Plan with more room for lists or messages, if a failure is one of room and there is more."""
        if code == message_kernels.FULL:
            more = self._room.more()
            self._room = more or self._room
            return more is not None and self._again(self.plan.form.capacity)
        room = self.plan.form.capacity * GROWTH
        return code == FULL and room <= MOST_ROOM and self._again(room)

    def _again(self, capacity: int) -> bool:
        """Plan once more; where that fails the graph is left to the host from now on."""
        self._runner.leave()
        try:
            self._make(capacity)
        except Exception as why:  # whatever it is: there is no other plan
            self._failures = PATIENCE
            self.notes.append(str(why))
            return False
        return True

    def _fits(self, inputs: Sequence[Any]) -> bool:
        if torch._C._len_torch_dispatch_stack() or user_modes():
            return False
        if self._yields and torch._C._len_torch_function_stack():  # a Python function is to see it
            return False
        if _captured():  # the caller's graph would keep this call's numbers
            return False
        grad = torch.is_grad_enabled()
        return all(self._is(x, kind, grad) for x, kind in zip(inputs, self._types, strict=True))

    def _is_list(self, xs: Any, kind: ListType, grad: bool) -> bool:
        if not isinstance(xs, (tuple, list)):
            return False
        item = kind.element
        if isinstance(item, ScalarType):
            return all(type(x) is item.kind for x in xs)
        return isinstance(xs, Held) or all(self._is(x, item, grad) for x in xs)

    def _is(self, x: Any, kind: Any, grad: bool) -> bool:
        if isinstance(kind, ListType):
            return self._is_list(x, kind, grad)
        if isinstance(kind, OptionalType):
            return isinstance(x, tuple) and all(self._is(e, kind.element, grad) for e in x)
        if isinstance(kind, ScalarType):
            fits = kind.kind is not int or -(1 << 63) <= x < 1 << 63
            return type(x) is kind.kind and fits
        return (
            type(x) in _PLAIN
            and x.layout is torch.strided
            and x.dtype is kind.dtype
            and (x.shape == kind.shape or _opens(x.shape, kind.shape))
            and x.device == _device("cpu" if kind.device == "cpu" else self.plan.device)
            and not (grad and x.requires_grad)
            and not x.is_neg()
            and not x._is_zerotensor()
            and not x.is_conj()
        )


_PLAIN = frozenset([torch.Tensor, torch.nn.Parameter, Variable])
_device = functools.cache(torch.device)


def _opens(found: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Whether sizes are some of an open shape."""
    return None in shape and len(found) == len(shape) and all(m in (None, n) for n, m in zip(found, shape))  # fmt: skip


def _own_devices() -> Any:
    """A scope in which what is made without a device is on the CPU."""
    open_ = torch._C._len_torch_function_stack()
    return torch._C.DisableTorchFunction() if open_ else contextlib.nullcontext()


def _check_bodies(plan: Plan, why: str) -> None:
    """Unsupported for bodies that may stop the device where they are not meant to run: chunks run them all the same."""
    for step, depth in plan.walk():
        if depth and isinstance(step, Call) and library.asserts(step.op):
            text = f"{step.op} in a branch or loop, and no conditional nodes: {why}"
            raise Unsupported(located(step.location, text))


def _captured() -> bool:
    """Whether the caller captures what is done now."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def described(graph: Graph, device: str = "cuda:0") -> str:
    """The plan of a graph as text, of one on the CPU as it would be on ``device``; or why there is none."""
    try:
        made = planner.plan(graph if on_gpu(graph) else retarget(graph, device))
        made = fused(compact(visited(told(coalesced(made)))))
    except Unsupported as why:
        return f"plan {graph.name}: the host runs it op by op: {why}"
    return "\n".join([str(made), *(f"  forbidden: {problem}" for problem in check(made))])


def on_gpu(graph: Graph) -> bool:
    """Whether a graph has tensors of a GPU."""
    return bool(gpus_in(graph))
