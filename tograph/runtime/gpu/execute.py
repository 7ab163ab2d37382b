"""Running a plan without conditional nodes: exactly, or in chunks of predicated bodies.

``Stepwise``  tier 3: every condition comes back to the host. What the other tiers are compared with.
``Chunked``   tier 2: a loop runs ``chunk`` bodies at a time, each of which changes the state only while the loop is active,
              and the host looks at one flag for each chunk, while the next one runs already. Branches run both sides.

Both work on any device on which kernels start (``kernels.device.launch``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..graph import ops
from ..graph.arranged import arranged
from ..graph.ir import Value
from ..graph.types import ObjectType, ScalarType
from ..kernels import device, triton_jit
from ..kernels.loop_ir import Unsupported
from ..kernels.triton_loops import ACTIVE
from .library import out_form, wanted
from .plan import (
    Call,
    Conditional,
    Copy,
    Drain,
    Host,
    Message,
    Place,
    Plan,
    Run,
    Set,
    Setting,
    Step,
    Update,
    View,
)
from .ring import Reader
from .steps import map_places
from .storage import Failed, Memory

CHUNK = 8


def on(device: torch.device) -> Any:
    """A scope in which kernels start on a device."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(device)


class Stepwise:
    """Runs the steps of a plan one after another. ``run(*inputs)`` gives the outputs of the graph."""

    captures = False  # whether addresses of memory are fixed when it is made
    asked: tuple[Any, ...] = ()  # of torch, that library functions were captured with

    def __init__(
        self,
        plan: Plan,
        where: str | None = None,
        bound: Mapping[Place, torch.Tensor] | None = None,
    ):
        self.plan = plan
        with torch.inference_mode(False):  # it is written in later calls too
            self.memory = Memory(plan, where or plan.device, bound)
        self.log: list[Any] = []  # what the steps of the host gave
        ring = plan.ring
        self.reader = Reader(ring, self.memory.of, self.memory.device) if ring else None
        self.objects: dict[Value, Any] = {}
        self._begun = False  # whether a call has run everything
        # Memory goes back to the stream that it was taken on; the last run may have been on another one.
        place = self.memory.device
        self._home = torch.cuda.current_stream(place) if place.type == "cuda" else None
        self._last = self._home
        self._known = {self._home}
        kernels = {
            s.source.name: s
            for s in (*plan.once, *(s for s, _ in plan.walk()))
            if isinstance(s, Run) and not isinstance(s, Setting)
        }
        device.prepare(((s.source, {n: self.at(p) for n, p in s.arguments.items()}) for s in kernels.values() if self.memory.of.keys() >= {*s.arguments.values()}), place)  # fmt: skip
        self.functions = triton_jit.held(s.source for s in kernels.values())
        self.behind: Callable[[dict[Place, torch.Tensor]], Any] | None = (
            None  # is given the memory of each run
        )
        with on(self.memory.device):
            for step in plan.once:
                Stepwise._run(self, step)

    def run(self, *inputs: Any) -> list[Any]:
        """Failed where a kernel reports an error or a library function raises one; nothing outside has changed then."""
        self.log, self.objects = [], {}
        self._begun = False
        with on(self.memory.device), torch.no_grad():
            try:
                self._follow()
                return self._called(inputs)
            except Failed as error:
                error.log = self.log
                raise
            except (
                torch.OutOfMemoryError,
                Unsupported,
            ):  # this call's error, as in eager PyTorch; a kernel without code
                raise
            except Exception as error:  # in a branch that is not taken it means nothing
                if (
                    self._begun and self.plan.stored
                ):  # another run would change the variables once more
                    raise
                failed = Failed(f"{type(error).__name__}: {error}")
                failed.log, failed.reported = self.log, False
                raise failed from error

    def _called(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of one call."""
        self.memory.fill(inputs)
        if self.reader is not None:
            self.reader.reset()
        self.play()
        self._begun = True
        self._drained()
        outputs = self.memory.results(inputs)
        if self.behind is not None:
            with contextlib.suppress(Exception):  # the call has been made
                self.behind(self.memory.of)
        return outputs

    def _follow(self) -> None:
        """Wait for the run before, where that was on another stream: the memory is the same."""
        if self._home is None:
            return
        now = torch.cuda.current_stream()
        if self._last != now:
            now.wait_stream(self._last)
        if now not in self._known:  # the memory may be let go of while a run on this stream uses it
            self._known.add(now)
            for x in self.memory.own_tensors():
                x.record_stream(now)
        self._last = now

    def leave(self) -> None:
        """Before the memory is let go: what takes it next waits for the last run."""
        if self._home is not None and self._last != self._home:
            self._home.wait_stream(self._last)

    def play(self) -> None:
        """Everything between the inputs and the outputs."""
        self.steps(self.plan.steps)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            getattr(self, f"_{type(step).__name__.lower()}")(step)

    def at(self, place: Place) -> torch.Tensor:
        return self.memory.of[place]

    def _run(self, step: Run) -> None:
        device.launch(step.source, {n: self.at(p) for n, p in step.arguments.items()})

    def _update(self, step: Update) -> None:
        self._run(step)

    def _call(self, step: Call) -> None:
        form, args, kwargs = (
            out_form(step.op),
            arranged(step.op, self._resolved(step.args)),
            self._resolved(step.kwargs),
        )
        if form is None or wanted(step.op, args):
            self._functional(step, args, kwargs)
            return
        outs = [a for a in form._schema.arguments if a.is_out]
        if isinstance(outs[0].type, torch.ListType):  # of as many tensors as there are results
            form(*args, **kwargs, **{outs[0].name: [self.at(v) for v in step.outputs]})
            return
        form(*args, **kwargs, **{a.name: self.at(v) for a, v in zip(outs, step.outputs)})

    def _functional(self, step: Call, args: Any, kwargs: Any) -> None:
        """A function without such a form: it allocates, and its results are copied."""
        made = ops.overload(step.op)(*args, **kwargs)
        for place, x in zip(step.outputs, made if isinstance(made, (tuple, list)) else [made]):
            if x is not None:  # a gradient that is not wanted
                self.at(place).copy_(x)

    def _resolved(self, tree: Any) -> Any:
        return map_places(self.at, tree)

    def _message(self, step: Message) -> None:
        self._run(step)

    def _drain(self, step: Drain) -> None:
        self._drained()

    def _drained(self) -> None:
        """Do what the messages in the ring tell."""
        if self.reader is not None:
            for site, found in self.reader.messages():
                for host in site.hosts:
                    self._act(host, found)

    def _host(self, step: Host) -> None:
        """Nothing is seen outside that comes after a failure, or before what a message tells."""
        self._drained()
        if self._failed():
            raise Failed("an error before a step of the host", int(self.at(self.plan.error).item()))
        self._act(step, {})

    def _act(self, step: Host, found: Mapping[Place, Any]) -> None:
        """An op of the host. One that raises ends the run, and raises when it is resumed. ``found``: values of a message."""

        def seen(place: Place) -> Any:
            return found[place] if place in found else self._seen(place)

        args, kwargs = map_places(seen, step.args), map_places(seen, step.kwargs)
        row = ops.lookup(step.op)
        try:
            made = row.run(*args, **kwargs)
        except Exception as error:
            if row.effects.io:  # others fail again when the graph is run once more
                self.log.append(error)
            raise Failed(str(error)) from error
        given = (made,) if row.outputs == 1 else tuple(made or ())
        if row.effects.io:
            self.log.append(given)
        for v, x in zip(step.outputs, given, strict=True):
            if isinstance(v.type, ObjectType):
                self.objects[v] = x
            else:
                self.at(v).copy_(x) if isinstance(x, torch.Tensor) else self.at(v).fill_(x)

    def _seen(self, place: Place) -> Any:
        """What a place holds, as Python sees it."""
        if place in self.objects:
            return self.objects[place]
        x = self.at(place)
        number = isinstance(place, Value) and isinstance(place.type, ScalarType)
        return place.type.kind(x.item()) if number else x.clone()

    def _view(self, step: View) -> None:
        self.memory.of[step.output] = ops.overload(step.op)(*self._resolved(step.args), **step.kwargs)  # fmt: skip

    def _copy(self, step: Copy) -> None:
        for target, source in step.pairs:
            self.at(target).copy_(self.at(source))

    def _set(self, step: Set) -> None:
        """A handle is its cell here."""

    def _conditional(self, step: Conditional) -> None:
        self.decide(step, lambda k: self.steps(step.bodies[k]))

    def decide(self, step: Conditional, body: Callable[[int], None]) -> None:
        """Run the bodies of a loop or branch, by their numbers, as its cell says on the host."""
        if step.kind == "while":
            while self.at(step.cell).item() and not self._failed():
                body(0)
        elif step.kind == "if":
            body(0 if self.at(step.cell).item() else 1)
        else:
            index = int(self.at(step.cell).item())
            last = len(step.bodies) - 1
            body(index if 0 <= index < last else last)

    def _failed(self) -> bool:
        return self.plan.error is not None and bool(self.at(self.plan.error).item())


class Chunked(Stepwise):
    """Bodies run under a flag of the device. ``looks``: how often the host has waited for one."""

    def __init__(self, plan: Plan, where: str | None = None, chunk: int = CHUNK):
        super().__init__(plan, where)
        self.chunk, self.looks = chunk, 0
        self._active: list[torch.Tensor] = []

    def _copy(self, step: Copy) -> None:
        if not self._active:
            return super()._copy(step)
        for target, source in step.pairs:
            to = self.at(target)
            to.copy_(torch.where(self._active[-1], self.at(source), to))
        return None

    def _run(self, step: Run) -> None:
        """A kernel with a switch does nothing, and its loops end, where the body is not active."""
        flag = {ACTIVE: self._active[-1]} if self._active else {}
        given = {n: self.at(p) for n, p in step.arguments.items()} | flag
        device.launch(step.source, given)

    def _under(self, flag: torch.Tensor) -> torch.Tensor:
        return self._active[-1] & flag if self._active else flag

    def _conditional(self, step: Conditional) -> None:
        if step.yields:
            return super()._conditional(step)
        cell = self.at(step.cell)
        if step.kind == "while":
            return self._loop(step, self._under(cell.reshape(()).ne(0)))
        if step.kind == "if":
            tests = [cell.reshape(()).ne(0), cell.reshape(()).eq(0)]
        else:
            last = len(step.bodies) - 1
            tests = [cell.reshape(()).eq(i) for i in range(last)]
            tests.append(~torch.stack([*tests, torch.zeros_like(cell.reshape(()).bool())]).any())
        tests = [self._under(t) for t in tests]
        for test, body in zip(tests, step.bodies):
            self._body(body, test)
        return None

    def _body(self, body: Sequence[Step], active: torch.Tensor) -> None:
        """A body that changes nothing, and does not fail, where it is not active."""
        error = self.at(self.plan.error) if self.plan.error is not None else None
        before = None if error is None else error.clone()
        self._active.append(active)
        try:
            self.steps(body)
        finally:  # the next call runs whole
            self._active.pop()
        if error is not None:
            error.copy_(torch.where(active, error, before))

    def _loop(self, step: Conditional, active: torch.Tensor) -> None:
        active = active.clone()
        waiting: list[tuple[torch.Tensor, Any]] = []
        while True:
            waiting.append(self._flag(active))
            for _ in range(self.chunk):
                self._body(step.bodies[0], active)
                active &= self.at(step.cell).reshape(()).ne(0)
                if self.plan.error is not None:
                    active &= self.at(self.plan.error).reshape(()).eq(0)
            if not self._look(waiting.pop(0)):
                break

    def _flag(self, active: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """A copy of the flag on its way to the host, and the event after which it is there."""
        if active.device.type == "cpu":
            return active.clone(), None
        flag = torch.empty((), dtype=torch.bool, device="cpu", pin_memory=True)
        flag.copy_(active, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return flag, event

    def _look(self, sent: tuple[torch.Tensor, Any]) -> bool:
        self.looks += 1
        if self.reader is not None:
            self.reader.remind()
        if sent[1] is not None:
            sent[1].synchronize()
        return bool(sent[0])
