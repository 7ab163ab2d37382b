"""The memory of a plan on a device, and what goes between it and the host.

What the host sets before a run (numbers, tensors of the CPU), and what it reads after it (the error code, the generator's offset, numbers,
lengths of lists and tensors of the CPU among the outputs), is one block: one copy sets it all, one brings all of it back (``block``). Large
tensors of the CPU come ahead, on another stream (``uploads``), and go back together (``downloads``). Where
there is nothing to read, a call does not wait for the device. Tensors of the device are copied together too.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..graph import ops
from ..graph.types import ScalarType
from ..kernels.loop_numbers import FULL
from . import draws
from .block import SLOT, Block
from .doubts import Passed
from .downloads import Downloads
from .forms import Full, Plain
from .plan import Cell, Place, Plan
from .result_strides import alike
from .steps import size_of
from .uploads import SMALL, Uploads


class Failed(Exception):
    """A kernel of the plan reported an error: the graph has to run another way.

    ``code``: what the kernel has set, where it is one. ``log``: what the steps of the host gave before it (``resume``).
    ``reported``: whether the program has failed, and not what runs it.
    """

    def __init__(self, text: str, code: int = 0):
        super().__init__(text)
        self.code = code
        self.log: list[Any] = []
        self.reported = True


def copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copies of separate tensors, in as few kernels as torch takes for it."""
    if len(targets) > 1:
        torch._foreach_copy_(list(targets), list(sources))
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def aligned(x: torch.Tensor) -> torch.Tensor:
    """A tensor that kernels may read at its address."""
    x = x.contiguous()
    return x if x.data_ptr() % SLOT == 0 else x.clone(memory_format=torch.contiguous_format)


class Memory:
    """``of``: the tensors of the plan's places."""

    def __init__(self, plan: Plan, where: str, bound: Mapping[Place, torch.Tensor] | None = None):
        """``bound``: memory from outside for some of the inputs."""
        self.plan, self.device = plan, torch.device(where)
        self.bound = dict.fromkeys(bound or ())
        self.own: frozenset[Place] = frozenset()  # outputs that are given away, not copied
        self.strides: Sequence[
            Any
        ] = ()  # of the outputs of the next run; None, or (), for what they are in the plan
        self.moving: frozenset[Place] = frozenset()  # bound, and elsewhere in each call
        self.generator = draws.Generator(self.device) if plan.generator is not None else None
        own = {*plan.buffers, *plan.constants} - self.bound.keys()
        cells = [p for p in (plan.error, *(plan.generator or ())) if p is not None]
        self.passed, self._known = Passed(plan.doubts), False
        self._end = 0  # of the generator's offset, where the host knows it
        self._late: torch.Tensor | None = None  # the error cell of calls that nobody waited for
        large = [v for v in from_host(plan) if size_of(v) > SMALL and v in own]
        self.uploads = Uploads(large if self.device.type == "cuda" else (), self.device)
        given = {*(v for v in plan.inputs if is_number(v)), *from_host(plan)} & own - {*large}
        sent = dict.fromkeys([*cells, *(v for v in plan.inputs if v in given)])
        results = [v for v in to_host(plan) if size_of(v) <= SMALL]
        late = [v for v in to_host(plan) if size_of(v) > SMALL]
        self.downloads = Downloads(late if self.device.type == "cuda" else ())
        read = {*(v for v in plan.outputs if is_number(v)), *results} & own
        told = [p for p in cells if p is plan.error or plan.drawn is None]
        fetched = dict.fromkeys([*told, *(v for v in plan.outputs if v in read and (v in sent or v not in plan.inputs))])  # fmt: skip
        self._block = Block(sent, fetched, self.device, plan.error)
        self._alone = [*fetched] == [plan.error]  # whether the host waits for the error cell only
        self.of: dict[Any, torch.Tensor] = {}
        for place in [*plan.buffers, *plan.constants]:
            self.of[place] = bound[place] if place in self.bound else self._new(place)
        for place, content in plan.constants.items():
            self.of[place].copy_(self._content(content))

    def _new(self, place: Place) -> torch.Tensor:
        if place in self._block:
            return self._block.of(place)
        kind = place.type
        shape = () if isinstance(kind, ScalarType) else kind.shape
        if self.plan.ring is not None and place in self.plan.ring.shared:
            return torch.zeros(
                shape, dtype=kind.dtype, device="cpu", pin_memory=self.device.type == "cuda"
            )
        return torch.zeros(shape, dtype=kind.dtype, device=self.device)

    def _content(self, content: Any) -> torch.Tensor:
        if not isinstance(content, tuple):
            return torch.as_tensor(content)
        op, args, kwargs = content
        where = {k: self.device for k in kwargs if k == "device"}
        if op == "tg.constant":
            return torch.tensor(args[0], dtype=args[1])
        return torch.as_tensor(ops.overload(op)(*args, **(kwargs | where)))

    def own_tensors(self) -> Iterator[torch.Tensor]:
        """The plan's memory on the device, that from outside left out."""
        if self._block.device_memory.numel():
            yield self._block.device_memory
        for p in {*self.plan.buffers, *self.plan.constants} - self.bound.keys():
            if p in self.of and p not in self._block and self.of[p].device.type != "cpu":
                yield self.of[p]
        yield from self.uploads.device_memory

    # ---- before a run

    def fill(self, inputs: Sequence[Any]) -> None:
        """Copy the parts of the inputs, and clear the error cell."""
        try:
            parts = self.plan.form.pack(inputs)
        except Full as error:
            raise Failed(str(error), FULL) from error
        targets, sources, elsewhere = [], [], []
        numbers: dict[Any, Any] = {}
        self._known = self._alone and self.passed.known(parts)
        for v, x in zip(self.plan.inputs, parts, strict=True):
            if v in self.moving:
                elsewhere.append((v, x))
            elif v in self.bound:
                self.of[v] = x.detach().to(self.device).contiguous()
            elif v in self._block:
                numbers[v] = x
            elif isinstance(x, torch.Tensor):
                targets.append(self.of[v])
                sources.append(self.uploads.send(v, x.detach()) if v in self.uploads else x.detach())  # fmt: skip
        self.of |= {v: self._apart(x.detach()) for v, x in elsewhere}
        self._send(numbers)
        copy_all(targets, sources)
        self.uploads.done()

    def _send(self, numbers: dict[Any, Any]) -> None:
        """Set the part of the block that the host sets."""
        if self.plan.error is not None and not self._known:
            numbers[self.plan.error] = 0
        if self.generator is not None:
            state = self.generator.state
            numbers |= zip(self.plan.generator or (), state)
            self._end = state[1] + (self.plan.drawn or 0)
        for place, number in numbers.items():
            self._block.set(place, number)
        self._block.send(whole=not self._known)

    def _apart(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor that may be anywhere; a copy where the plan writes its memory, as a variable."""
        written = {self.of[v].untyped_storage().data_ptr() for v in self.plan.stored}
        if x.untyped_storage().data_ptr() in written:
            return x.clone(memory_format=torch.contiguous_format)
        return aligned(x)

    def release(self) -> None:
        """Let go of memory from outside, and of views of it."""
        held = {self.of[v].untyped_storage().data_ptr() for v in self.bound if v in self.of}
        if held:
            self.of = {p: x for p, x in self.of.items() if x.untyped_storage().data_ptr() not in held}  # fmt: skip

    # ---- after it

    def results(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs as tensors of their own and Python's numbers, after the writes to variables have been made.

        Failed where a kernel has reported an error: then nothing is written.
        """
        self.downloads.start(self.of)
        found = None if self._known else self._block.fetch()
        if found is None:
            self.downloads.wait()
        self._look(found)
        count = len(self.plan.outputs) - len(self.plan.form.written)
        outputs, _ = self.plan.form.unpack(self._parts(found, self.plan.outputs[:count]))
        outputs = [x.cpu() if i in self.plan.form.to_host else x for i, x in enumerate(outputs)]
        if self.generator is not None and self.plan.generator is not None:
            told = self.plan.drawn is None
            self.generator.move(int(self._block.got(found, self.plan.generator[1]).item()) if told else self._end)  # fmt: skip
        self._assign(
            inputs, self.plan.outputs[count:]
        )  # last: what fails before has changed nothing
        return outputs

    def _strides(self, count: int) -> Iterator[Any]:
        """Of each part of the first outputs."""
        if not self.strides:
            return itertools.repeat(None, count)
        pairs = zip(self.plan.form.outputs, self.strides, strict=True)
        return (s if isinstance(form, Plain) else None for form, s in pairs for _ in form.types)

    def _look(self, found: torch.Tensor | None) -> None:
        """Failed where a kernel has reported an error, as far as it is looked at now."""
        if self.plan.error is None:
            return
        if found is None:
            self._send_late()
            return
        if code := self._block.got(found, self.plan.error).item():
            raise Failed(f"error code {code}", int(code))
        self.passed.note()

    def _send_late(self) -> None:
        """Have the error cell on its way to the host, which does not wait for it."""
        if self._late is None:
            with torch.inference_mode(False):
                self._late = torch.zeros(1, dtype=torch.int32, device="cpu", pin_memory=self.device.type == "cuda")  # fmt: skip
        self._late.copy_(self.of[self.plan.error], non_blocking=True)

    def late(self) -> int:
        """The code of an error that a call before had and nobody waited for, once."""
        code = 0 if self._late is None else int(self._late)
        if code:
            self._late = None  # what is still on its way there is of no interest any more
            self.passed.forget()
        return code

    def _assign(self, inputs: Sequence[Any], values: Sequence[Place]) -> None:
        """Store the new values of variables, all as if at once, and tell autograd of those that the plan has stored itself."""
        own = [inputs[i] for i in self.plan.stored.values()]
        if own:
            torch.autograd.graph.increment_version(own)
        targets = [inputs[i] for i in self.plan.form.written]
        written = {x.untyped_storage().data_ptr() for x in targets}
        sources = [self.of[v] for v in values]
        sources = [x.clone() if x.untyped_storage().data_ptr() in written else x for x in sources]
        with torch.no_grad():
            copy_all(targets, sources)

    def _parts(self, found: Any, places: Sequence[Place]) -> list[Any]:
        """Outputs: numbers, and tensors that are nobody else's."""
        parts: list[Any] = []
        made, sources = [], []
        taken: set[Any] = set()
        back = {*to_host(self.plan)}
        for v, stride in zip(places, self._strides(len(places))):
            if is_number(v):
                number = self._block.got(found, v) if self._block.fetches(v) else self.of[v]
                parts.append(v.type.kind(number.item()))
            elif self._block.fetches(v):
                parts.append(_laid(self._block.got(found, v), stride))
            elif v in self.downloads:
                parts.append(_laid(self.downloads.take(v), stride))
            elif v in back:
                parts.append(_laid(self.of[v], stride))
            elif v in self.own and v not in taken and alike(self.of[v], stride):
                taken.add(v)
                parts.append(_restrided(self.of[v], stride))
            else:
                parts.append(_room(self.of[v], stride))
                made.append(parts[-1])
                sources.append(self.of[v])
        copy_all(made, sources)
        return parts


def _room(x: torch.Tensor, stride: Any) -> torch.Tensor:
    """New memory for a copy of a tensor."""
    if _kept(x, stride):
        return torch.empty_like(x)
    return torch.empty_strided(x.shape, stride, dtype=x.dtype, device=x.device)


def _restrided(x: torch.Tensor, stride: Any) -> torch.Tensor:
    """A tensor with other strides of dims of one element."""
    if stride is None or stride == x.stride():
        return x
    return x.new_empty(0).set_(x.untyped_storage(), x.storage_offset(), x.shape, stride)


def _laid(x: torch.Tensor, stride: Any) -> torch.Tensor:
    """A copy of a tensor."""
    return x.clone() if _kept(x, stride) else _room(x, stride).copy_(x)


def _kept(x: torch.Tensor, stride: Any) -> bool:
    """Whether a new tensor like another one has these strides: gaps are not kept."""
    return stride is None or (stride == x.stride() and x.is_contiguous())


def from_host(plan: Plan) -> Iterator[Place]:
    """The inputs that are tensors of the CPU."""
    return _whole(plan.form.inputs, plan.form.from_host, plan.inputs)


def to_host(plan: Plan) -> Iterator[Place]:
    """The outputs that the caller gets as tensors of the CPU."""
    return _whole(plan.form.outputs, plan.form.to_host, plan.outputs)


def _whole(
    forms: Sequence[Any], chosen: Collection[int], places: Sequence[Place]
) -> Iterator[Place]:
    """The places of the chosen values that have one place each."""
    part = 0
    for i, form in enumerate(forms):
        if i in chosen and isinstance(form, Plain):
            yield places[part]
        part += len(form.types)


def is_number(place: Any) -> bool:
    """Whether a place is a Python number of the graph."""
    return not isinstance(place, Cell) and isinstance(place.type, ScalarType)
