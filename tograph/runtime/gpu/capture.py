"""A plan as one CUDA graph with conditional nodes: tier 1. Not yet seen on a GPU.

Where the host has something to do between (``Host``), there are several graphs, and the host runs the loops around.

The plan's memory is allocated before; every kernel and library call runs once before the capture, which compiles it, loads it
and prepares its workspace; then torch captures the steps. Steps that need not wait for each
other are captured on streams that fork from the first one and join it at the end, where that is worth it (``hazards.streams``);
events between them become edges of the graph. The bodies of a conditional node are captured on streams
of their own too: the *path* of a stream is its lane at each level, so that what may run at the same time, as two loops may, never
shares a stream, which library functions have their workspace by. Assumed of CUDA: an event that is recorded and waited for within one
capture is an edge, not a node, and that holds for bodies too, which may not hold event nodes. Where a driver refuses, all is one chain. An IF with two bodies is two IF nodes, the second with the inverted condition: drivers of
CUDA 12.8 and 12.9 can wire two bodies wrongly. A call copies its inputs, replays the graph and reads the error cell, if the
plan has one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..kernels import driver, setter
from ..kernels.loop_ir import Unsupported
from ..kernels.recording import Pool, again_if_disturbed, settle
from ..kernels.triton_loops import ACTIVE
from . import fused_code
from .coalescing import coalesced
from .compacting import compact
from .execute import Stepwise
from .fusing import guarded, loops, ways
from .hazards import forks, streams
from .library import asserts, settings
from .messages import Room, told
from .plan import Call, Conditional, Host, Plan, Run, Set, Setting, Step, View
from .probe import NODES, probe_plan, unavailable
from .refresh import Refresh, separate
from .steps import parts
from .storage import aligned
from .visits import visited

Path = tuple[int, ...]


class Captured(Stepwise):
    """``run(*inputs)`` is one launch. DriverError where the graph cannot be made; Unsupported where a kernel does not compile."""

    captures = True

    def __init__(
        self,
        plan: Plan,
        bound: Mapping[Any, torch.Tensor] | None = None,
        moving: Mapping[Any, torch.Tensor] | None = None,
        fork: bool = True,
        fuse: Callable[[Plan, Collection[Any]], Plan] | None = None,
        form: Callable[[Plan], Plan] = compact,
    ):
        """``bound``: inputs that are read where they are; each call has to be given them there. ``moving``: those that may be elsewhere
        in each call (``refresh``).

        ``fork``: whether independent steps go on streams of their own. ``fuse``: what has kernels set the handles of their conditions
        (``fused_code.fused_for``); without it each handle is set by a kernel of its own. ``form``: of the plan, with fewer nodes.
        """
        if why := unavailable(plan) or (driver.loadable() if moving else ""):
            raise driver.DriverError(why)
        there = {v: aligned(x) for v, x in (moving or {}).items()}
        made = separate(form(plan), there)
        super().__init__(fuse(made, there) if fuse else made, bound={**(bound or {}), **there})
        self.asked = settings() if any(isinstance(s, Call) for s, _ in plan.walk()) else ()
        self.refresh = Refresh(there)
        self.memory.moving = frozenset(there)
        self.handles: dict[tuple[int, str], driver.Handle] = {}
        self.settings: dict[int, fused_code.Kernel] = {}
        self.streams: dict[Path, torch.cuda.Stream] = {}
        self.path: Path = (0,)
        self.fork, self.forks, self.told = fork, 0, 0
        self._capturing = False
        with torch.cuda.device(self.memory.device), torch.no_grad():
            self.pool = Pool(self.memory.device)
            self._warm_apart()
            if not self.plan.nodes().keys().isdisjoint(NODES):
                driver.prepare(self.memory.device)
            self.graphs: list[Any] = []
            self.program = self._recorded(self.plan.steps)
            if self.refresh.moving:
                self.refresh.complete(self.graphs[0])
        self.memory.release()

    def run(self, *inputs: Any) -> list[Any]:
        try:
            return super().run(*inputs)
        finally:
            self.memory.release()

    def play(self) -> None:
        if self.refresh.moving:
            self.told = self.refresh.tell(self.graphs[0], self.memory.of)
        self._play(self.program)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            super().steps([step])
            if self._capturing and len(self.path) == 1:
                self.refresh.note(step, self.memory.of, self.stream)

    def _recorded(self, steps: Sequence[Step]) -> list[Any]:
        """The steps as CUDA graphs, with what the host does between them."""
        items: list[Any] = []
        for part in parts(steps):
            if isinstance(part, list):
                items += self._graph(part)
            elif isinstance(part, Conditional):
                items.append((part, [self._recorded(b) for b in part.bodies]))
            else:
                items.append(part)
        return items

    def _graph(self, steps: Sequence[Step]) -> list[Any]:
        """One CUDA graph. All share the memory that library functions take while they are captured (``recording``)."""
        if all(isinstance(s, (View, Set)) for s in steps):
            self.steps(steps)
            return []
        graph = torch.cuda.CUDAGraph(**({"keep_graph": True} if self.refresh.moving else {}))
        with self.pool.recording(graph, self.stream):
            self._capturing = True
            try:
                self._laid(steps)
            except Unsupported as why:  # it has compiled before: it cannot be captured
                raise driver.DriverError(str(why)) from why
            finally:
                self._capturing = False
        if self.refresh.moving:
            graph.instantiate()
        self.graphs.append(graph)
        return [driver.Launcher(graph)]

    def _play(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, Host):
                Stepwise.steps(self, [item])
            elif isinstance(item, tuple):
                self.decide(item[0], lambda k, bodies=item[1]: self._play(bodies[k]))
            else:
                item.launch(torch.cuda.current_stream().cuda_stream)

    @property
    def stream(self) -> torch.cuda.Stream:
        """The stream that steps are captured on now: each path has another one."""
        if self.path not in self.streams:
            self.streams[self.path] = self.pool.stream(len(self.streams))
        return self.streams[self.path]

    @contextlib.contextmanager
    def _on(self, path: Path) -> Iterator[torch.cuda.Stream]:
        before, self.path = self.path, path
        try:
            with torch.cuda.stream(self.stream):
                yield self.stream
        finally:
            self.path = before

    # ---- lanes

    def _lanes(self, steps: Sequence[Step]) -> tuple[list[int], list[list[int]]]:
        """(the lane of each step, the steps that it waits for)."""
        after = self.plan.edges(steps)
        return (streams(steps, after) if self.fork else [0] * len(steps)), after

    def _laid(self, steps: Sequence[Step]) -> None:
        """Capture steps on the lanes of the stream that captures now, which waits for all of them at the end."""
        lanes, after = self._lanes(steps)
        if not any(lanes):
            self.steps(steps)
            return
        self.forks += len(set(lanes)) - 1
        start = self._event()
        done: dict[int, torch.cuda.Event] = {}
        awaited = {i for j, before in enumerate(after) for i in before if lanes[i] != lanes[j]}
        awaited |= {max(j for j, k in enumerate(lanes) if k == lane) for lane in set(lanes)}
        begun = {0}
        for j, step in enumerate(steps):
            with self._on((*self.path[:-1], lanes[j])) as stream:
                if lanes[j] not in begun:
                    stream.wait_event(start)
                    begun.add(lanes[j])
                for i in after[j]:
                    if lanes[i] != lanes[j]:
                        stream.wait_event(done[i])
                self.steps([step])
                if j in awaited:
                    done[j] = self._event()
        for j in sorted(awaited):
            if lanes[j]:
                self.stream.wait_event(done[j])

    def _event(self) -> torch.cuda.Event:
        """What has been captured on the stream so far."""
        event = torch.cuda.Event()
        event.record(self.stream)
        return event

    def _warm_apart(self) -> None:
        """``_warm``, with other memory in the place of variables that the plan writes."""
        real = {v: self.memory.of[v] for v in self.plan.stored}
        self.memory.of |= {v: torch.zeros_like(x) for v, x in real.items()}
        self._warm()
        self.memory.of |= real
        for step, _ in self.plan.walk():
            if isinstance(step, Setting):  # without a handle it cannot run
                self.settings[id(step)] = fused_code.Kernel(step, self._given(step))

    def _warm(self) -> None:
        """Everything once, on the stream that it will be captured on: nothing is compiled or allocated in a capture.

        The memory has no content yet, on which a loop inside of a kernel might never end: their switch is off.
        """
        switches = [self.at(s.arguments[ACTIVE]) for s, _ in self.plan.walk() if isinstance(s, Run) and ACTIVE in s.arguments]  # fmt: skip
        for cell in switches:
            cell.fill_(False)
        with self.pool.kept():
            self._once(self.plan.steps)
        for cell in switches:
            cell.fill_(True)
        settle(self.memory.device)

    def _once(self, steps: Sequence[Step]) -> None:
        for part in parts(steps):
            if isinstance(part, list):
                for lane, step in zip(self._lanes(part)[0], part):
                    self._start(step, (*self.path[:-1], lane))
            elif isinstance(part, Conditional):
                for body in part.bodies:
                    self._once(body)

    def _start(self, step: Step, path: Path) -> None:
        if isinstance(step, Conditional):
            for body in step.bodies:
                with self._on((*path, 0)):
                    self._once(body)
        elif isinstance(step, Setting) or (isinstance(step, Call) and asserts(step.op)):
            return  # there is no handle; the memory has no content that it may be tried on
        elif isinstance(step, (Run, Call, View)):
            before = torch.cuda.current_stream()
            with self._on(path) as stream:
                stream.wait_stream(before)
                self.steps([step])
            before.wait_stream(stream)

    def _set(self, step: Set) -> None:
        if (step.handle, setter.SET) in self.handles:  # not that of a loop that the host runs
            self._write(self.handles[step.handle, setter.SET], setter.SET, step.cell)

    def _setting(self, step: Setting) -> None:
        handles = {f"handle{i}": self._handle(t.handle, t.how).number for i, t in enumerate(step.told)}  # fmt: skip
        self.settings[id(step)].start(self._given(step), handles, self.stream.cuda_stream)

    def _given(self, step: Setting) -> dict[str, torch.Tensor]:
        return {n: self.at(p) for n, p in step.arguments.items()}

    def _handle(self, number: int, how: str) -> driver.Handle:
        """The handle that is set in some way for a conditional node; it belongs to the graph that is captured when it is first asked for."""
        if (number, how) not in self.handles:
            self.handles[number, how] = driver.Handle(self.stream)
        return self.handles[number, how]

    def _write(self, handle: driver.Handle, name: str, cell: Any) -> None:
        error = self.plan.error
        extra = self.at(error).data_ptr() if error is not None else 0
        handle.set(name, self.at(cell), extra, self.stream)

    def _conditional(self, step: Conditional) -> None:
        names = ways(step)
        handles = [self._handle(step.handle, name) for name in names]
        if step.kind == "switch":
            if not step.told:
                handles[0].set(names[0], self.at(step.cell), len(step.bodies) - 1, self.stream)
            self._node(handles[0], "switch", step.bodies)
            return
        for handle, name in zip(handles, names):  # all before a body can change the condition
            if not step.told:
                self._write(handle, name, step.cell)
        for handle, body in zip(handles, step.bodies):
            self._node(handle, step.kind, [body])

    def _node(self, handle: driver.Handle, kind: str, bodies: Sequence[list[Step]]) -> None:
        graphs = handle.node(kind, len(bodies), self.stream)
        for graph, body in zip(graphs, bodies):
            with self._on((*self.path, 0)) as stream, driver.capturing_into(graph, stream):
                self._laid(body)


def captured(
    plan: Plan,
    bound: Mapping[Any, torch.Tensor] | None = None,
    moving: Mapping[Any, torch.Tensor] | None = None,
    room: Room | None = None,
) -> Captured:
    """A plan captured, in the form that looks to the host least (``messages``, ``visits``), where the device, the driver and library
    functions take it.
    """
    plain = coalesced(plan)
    form = visited(told(plain, room))
    if form is not plain and not lacking(form):
        try:
            return _captured(form, bound, moving)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # what the host runs may be more than a body can hold; the plain form tells what else is wrong
            pass
    return _captured(plan, bound, moving)


# Of torch and the driver, of kernels that do not compile, of the driver's bindings.
_REFUSED = (RuntimeError, Unsupported, TypeError, ValueError, AttributeError)


def _captured(plan: Plan, bound: Any, moving: Any) -> Captured:
    """With lanes, with handles that are set by the kernels that compute conditions, and with small kernels as one; without lanes, then without
    handles set so, and then without all of that, where that is refused.
    """
    conditions = not plan.nodes().keys().isdisjoint(NODES)
    fuse = fused_code.fused_for if conditions and not unfused(plan) else None
    ways = [(fuse, True, compact)]
    ways += [(fuse, False, compact)] if forks(plan.steps, plan.edges) else []
    ways += [(None, False, compact)] if fuse is not None else []
    ways += [(None, False, coalesced)] if compact(plan).nodes() != coalesced(plan).nodes() else []
    for way in ways[:-1]:
        try:
            return _in_way(plan, bound, moving, *way)
        except torch.OutOfMemoryError:
            raise
        except _REFUSED:
            continue
    return _in_way(plan, bound, moving, *ways[-1])


def _in_way(plan: Plan, bound: Any, moving: Any, fuse: Any, fork: bool, form: Any) -> Captured:
    return again_if_disturbed(lambda: Captured(plan, bound, moving, fork=fork, fuse=fuse, form=form))  # fmt: skip


def lacking(plan: Plan) -> str:
    """Why a plan is not captured on its device; empty where it is worth trying."""
    loops = not plan.nodes().keys().isdisjoint(NODES)
    return unavailable(plan) or (probed(plan.device) if loops else "")


def unfused(plan: Plan) -> str:
    """Why kernels that compute the conditions of a plan do not set its handles; empty where they can, or there are none."""
    return "" if plan.nodes().keys().isdisjoint(NODES) else fuses(plan.device)


# ---- the probes


@functools.cache
def probed(device: str) -> str:
    """Why conditional nodes do not work on a device, from a tiny graph with a known answer; empty where they do.

    A graph whose kernels set handles needs all that one with setters needs, so that mostly one graph answers both questions.
    """
    return fuses(device) and plainly(device)


def plainly(device: str) -> str:
    """Why conditional nodes whose handles are set by kernels of their own do not work; empty where they do."""
    return _tried(lambda: Captured(probe_plan(device)))


@functools.cache
def fuses(device: str) -> str:
    """Why handles are set by kernels of their own on a device; empty where the kernels that compute conditions can do it."""
    return _tried(lambda: Captured(probe_plan(device), fork=False, fuse=_fused_to_try))


def _fused_to_try(plan: Plan, kept: Collection[Any]) -> Plan:
    """A fused plan whose loops end even where its kernels set nothing."""
    made = fused_code.fused_for(plan, kept)
    if not any(loops(made)):
        raise Unsupported("there is no code of a kernel that sets a handle")
    return guarded(made)


def _tried(make: Callable[[], Captured]) -> str:
    """What is wrong with the loop of ``probe_plan``; empty where nothing is."""
    try:
        made = again_if_disturbed(make)
        found = [int(made.run(torch.tensor(n))[0]) for n in (5, 0, 3)]
    except torch.OutOfMemoryError:  # says nothing about the device
        raise
    except (TypeError, AttributeError) as error:
        return f"cuda-bindings of another version: {error}"
    except Exception as error:  # whatever it is, these nodes are not used then
        return str(error) or type(error).__name__
    return "" if found == [15, 0, 6] else f"a WHILE node gave {found} for [15, 0, 6]"
