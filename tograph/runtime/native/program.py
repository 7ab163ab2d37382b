"""A graph as machine code, and how it is called.

``Native.run(inputs)`` gives the outputs, or None when the host must run the graph: the inputs are not what the code was made for, the
code declined, or it runs already (a signal handler or another thread calls the function while its own loop lets them).

The code holds Python's lock and gives it up for a moment every few milliseconds. Temporaries are in one block of memory
that belongs to the program; outputs are new tensors.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..gradients.transforms import is_wrapped
from ..graph import outside, prints
from ..graph.generators import address
from ..graph.types import ScalarType, TensorType
from ..kernels import jit
from ..recording.variables import PLAIN
from . import pool, results, rows
from .buffers import Buffers
from .callees import Call
from .drawing import drawn_from
from .entry import MISS, MOST, Code, Results, Wanted, make_entry, opened
from .form import Form, Layout
from .lower import DONE, INTERRUPTED
from .nests import Nest
from .outside import asked
from .telling import printed, tells
from .text_pool import Pool
from .values import Decline, alike, extent

_ENTRY = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


SETTLED = 3  # the run at which a program gets an entry of its own
LARGE = 1 << 20  # characters of a module that LLVM optimises fully: more would take it many seconds


@dataclass
class Lowered:
    """What the lowering of a graph gave: the text of its module, its loop nests, bytes of temporaries, the ops that torch runs,
    how many buffers grow while it runs, the texts that it knows, the outputs that a call of torch gives (the number of the call, and of the result in it), and the generators that it draws from itself
    besides torch's default one. The nests, which people read, are not kept on disk (``plans``)."""

    text: str
    kernels: list[Nest] | None
    scratch: int
    asked: list[Call]
    buffers: int
    texts: list[str]
    own: dict[int, tuple[int, int]]
    generators: list[torch.Generator]
    _address: int = 0

    def address(self) -> int:
        """The address of the code, which is compiled once."""
        if not self._address:
            imports, levels = _imports(self.text), (2, 3) if len(self.text) < LARGE else (0, 1)
            self._address = jit.compile_module(self.text, ["run"], imports, *levels)["run"]
        return self._address


class Native:
    """The machine code of one graph. ``llvm``: the text of its module."""

    def __init__(self, form: Form, low: Lowered):
        self.form, self.low = form, low
        self._arena = _memory(form.name, max(low.scratch, 1) + 64)
        self._address = low.address()
        self._entry = _ENTRY(self._address)
        self._inputs, self._outputs, self._strides = form.inputs, form.outputs, form.strides
        self._results, self._views, self._direct = form.results, form.views, form.direct
        self._assigned, self._private = form.assigned, form.private
        self.gives_views = bool(form.views)  # outputs that are views of others or of inputs
        self._lists = [i for i, kind in enumerate(self._inputs) if rows.grows(kind)]
        self._buffers = Buffers(low.buffers)
        self._slots = (ctypes.c_int64 * (len(self._inputs) + len(self._outputs) + 1))()
        self._slots[-1] = (self._arena.data_ptr() + 63) // 64 * 64
        self._calls = low.asked
        self._given, self._random = drawn_from(low.generators, self._calls, low.text)
        self._tells, self._asks = tells(self._calls), asked(self._calls)
        self._later = [c for c in self._calls if c.copied]
        self._table = (ctypes.c_int64 * max(len(self._calls), 1))(*map(id, self._calls))
        self._pool = Pool(low.texts)
        arena = (ctypes.c_int64 * 4).from_address(self._slots[-1])
        addresses = list(map(address, low.generators))
        self._generators = (ctypes.c_int64 * max(len(addresses), 1))(*addresses)
        tables = ctypes.addressof(self._table), ctypes.addressof(self._generators)
        arena[:] = [tables[0], self._buffers.address, self._pool.address, tables[1]]
        self._blocks = {i: rows.block(t) for i, t in enumerate(self._outputs) if rows.grows(t)}
        self._leave = {
            i: pool.maker(block, self._outputs[i], self._buffers, i in self._private)
            for i, block in self._blocks.items()
        }
        for i, (call, k) in low.own.items():
            self._blocks[i] = ctypes.c_int64()
            self._leave[i] = functools.partial(self._calls[call].take, k)
        # The slots and the arena belong to one call at a time. The entry, which holds the interpreter lock while it
        # runs, looks at the number; calls from Python, which do not, also hold the mutex.
        self._lock = (ctypes.c_int64 * 2)()
        self._mutex = threading.Lock()
        # Runs from Python go by an entry too, one that takes all inputs as arguments.
        # ``_values`` is one that does not ask if they require a gradient, for code that calls no op of torch, which would be recorded.
        self._runs, self._whole, self._values = 0, None, None
        first = len(self._inputs)
        self._all = Results(range(first, first + len(self._outputs)), {}, single=False)

    llvm = property(lambda self: self.low.text)

    @property
    def successes(self) -> int:
        """How many calls an entry has run to their ends."""
        return self._lock[1]

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs for ``inputs``, or None when the host must run the graph."""
        if self._whole is not None:
            made = self._telling(inputs) if self._tells else self._whole(*inputs)
            if made is None:
                return None
            if made is not MISS:
                return list(made) if self._direct else self._in_order(inputs, made)
        elif self._runs < SETTLED:
            self._runs += 1
            if self._runs == SETTLED:
                self._whole = self._entry_of((), self._all, None)
                self._values = None if self._calls else self._entry_of((), self._all, None, unrecorded=True)  # fmt: skip
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            taken = self._packed(inputs) if self._lists else inputs
            if taken is None or not self._fits(taken):
                return None
            # Nothing is called between the question and the claim: another thread, in the entry, would come in between.
            if self._lock[0]:
                return None
            self._lock[0] = 1
            try:
                made = self._run_alone(taken)
            finally:
                self._lock[0] = 0
            return made if made is None else self._in_order(inputs, made)
        finally:
            self._mutex.release()

    def _telling(self, inputs: Sequence[Any]) -> Any:
        """What the entry of code that prints gives; None where the host must run a call that has printed already."""
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            made = self._whole(*inputs)
            count = printed(self._calls)
        finally:
            self._mutex.release()
        if made is MISS and count:
            prints.leave(count)
            return None
        return made

    def quick(self, inputs: Sequence[Any]) -> Any:
        """The outputs where an entry takes these inputs, which looks at all there is to them; else ``MISS``. Autograd records nothing."""
        if self._values is not None:
            made = self._values(*inputs)
        elif self._whole is not None and not self._tells:
            with torch.no_grad():
                made = self._whole(*inputs)
        else:
            return MISS
        return made if made is MISS or self._direct else self._in_order(inputs, made)

    def layout(self, inputs: Sequence[Any]) -> Layout:
        """The strides of the inputs that are not contiguous; empty where other code would be of no use."""
        if any(type(x) not in PLAIN for x in inputs):
            return ()
        found = {i: x.stride() for i, x in enumerate(inputs) if not x.is_contiguous()}
        if not found.keys().isdisjoint(self._assigned):
            return ()
        return tuple(found.items())

    def _packed(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The inputs with lists, and tensors whose length only the run knows, as ``Rows``; None where one is not what its type says."""
        out = list(inputs)
        for i in self._lists:
            out[i] = rows.packed(out[i], self._inputs[i])
            if out[i] is None:
                return None
        return out

    def _run_alone(self, inputs: Sequence[Any]) -> list[Any] | None:
        drawn = [torch.default_generator, *self._given] if self._random else self._given
        states = [g.get_state() for g in drawn]
        try:
            made = self._asking(inputs) if self._asks else self._call(inputs)
            if made is None:
                for g, state in zip(drawn, states):
                    g.set_state(state)
            if self._tells:
                count = printed(self._calls)
                prints.leave(count if made is None else 0)
            return made
        finally:
            for call in self._later:
                call.drop()

    def _asking(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Run code that asks for numbers from outside; those of a call that declines are there for the host."""
        numbers = outside.Numbers()
        for call in self._asks:
            call.numbers = numbers
        made = self._call(inputs)
        if made is None:
            outside.leave(numbers)
        return made

    def _in_order(self, inputs: Sequence[Any], made: Sequence[Any]) -> list[Any]:
        """The outputs of the whole graph: those that were made, and inputs."""
        if self._direct:
            return list(made)
        known = [*inputs, *made]
        out = [known[i] for i in self._results]
        for places, steps in self._views:
            made = results.view(out[places[0]], steps, known)
            for i in places:
                out[i] = made
        return out

    def entry(
        self, captured: Sequence[torch.Tensor], wanted: Wanted, numbers: Collection[int] = ()
    ) -> Callable[..., Any] | None:
        """The built-in function that checks its arguments, runs the program and gives what is ``wanted`` of the graph's outputs; None where there is none.

        ``numbers``: the inputs for which it takes a number of Python in the place of a tensor.
        """
        places = self._results[: wanted.count]
        made = [p for p in places if p >= len(self._inputs)]
        if self._views or len(set(made)) < len(made):
            return None
        chosen = {i: (self._results[at], options) for i, (at, options) in wanted.chosen.items()}
        return self._entry_of(captured, Results(places, chosen, wanted.single), self, numbers)

    def _entry_of(
        self,
        captured: Sequence[torch.Tensor],
        results: Results,
        owner: Any,
        numbers: Collection[int] = (),
        unrecorded: bool = False,
    ) -> Any:
        given = {*results.places, *(o for _, options in results.chosen.values() for o in options)}
        if not (given | set(self._assigned)).isdisjoint(numbers):  # those are tensors
            return None
        if any(self._inputs[i].dtype.is_complex for i in numbers):
            return None
        if len(self._inputs) - len(captured) > MOST:
            return None
        if (self._tells and owner is not None) or self._asks or self._later or self._given:
            return None
        lists = [i for i in self._lists if not opened(self._inputs[i])]
        if lists and (owner is not None or self._assigned):  # others have no ``Rows``
            return None
        left = {i: (ctypes.addressof(b), self._leave[i]) for i, b in self._blocks.items()}
        code = Code(self._address, self._slots[-1], ctypes.addressof(self._lock), self._random, left)  # fmt: skip
        return make_entry(code, self.form, results, captured, owner, owner is None, numbers, unrecorded)  # fmt: skip

    def _fits(self, inputs: Sequence[Any]) -> bool:
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            return False
        grad = torch.is_grad_enabled()
        for i, (x, kind) in enumerate(zip(inputs, self._inputs, strict=True)):
            if isinstance(kind, ScalarType):
                if type(x) is not kind.kind or (kind.kind is int and not -_WORD <= x < _WORD):
                    return False
            elif type(x) in rows.IN_CELLS:
                continue
            elif not (_fits(x, kind, grad) and alike(x.shape, x.stride(), self._strides[i])):
                return False
        return not self._assigned or not self._overlap(inputs)

    def _overlap(self, inputs: Sequence[Any]) -> bool:
        """Whether a tensor that is written shares memory with another input."""
        spans: list[tuple[int, int, int]] = []
        for i, x in enumerate(inputs):
            if type(x) in rows.IN_CELLS:
                spans += [(*span, i) for span in x.spans()]
            elif isinstance(x, torch.Tensor):
                start, count = x.data_ptr(), extent(x.shape, x.stride())
                spans.append((start, start + count * x.element_size(), i))
        written, far, far_written = set(self._assigned), 0, 0
        for start, end, i in sorted(s for s in spans if s[0] < s[1]):
            if start < far_written or (i in written and start < far):
                return True
            far = max(far, end)
            far_written = max(far_written, end) if i in written else far_written
        return False

    def _call(self, inputs: Sequence[Any]) -> list[Any] | None:
        slots = self._slots
        for i, (x, kind) in enumerate(zip(inputs, self._inputs)):
            if type(x) in rows.IN_CELLS:
                slots[i] = x.address()
            else:
                slots[i] = x.data_ptr() if isinstance(kind, TensorType) else _bits(x)
        try:
            made = self._prepare()
        except RuntimeError:  # there is no memory for a result: the host says at which line
            return None
        code = self._entry(ctypes.addressof(slots))
        if code == INTERRUPTED:
            raise KeyboardInterrupt  # the call itself raises what the handler raised; this is never reached
        if code != DONE:
            return None
        for i in self._assigned:
            torch.autograd.graph.increment_version(inputs[i])
        first = len(self._inputs)
        for i, kind in enumerate(self._outputs):
            if i in self._blocks:
                made[i] = self._leave[i]()
            elif isinstance(kind, ScalarType):
                made[i] = _number(slots[first + i], kind.kind)
        return made

    def _prepare(self) -> list[Any]:
        """The places of the outputs, in the slots; the new tensors among them."""
        slots, made = self._slots, list[Any]()
        self._buffers.refill()
        for i, kind in enumerate(self._outputs, len(self._inputs)):
            block = self._blocks.get(len(made))
            if block is not None:
                made.append(None)
                slots[i] = ctypes.addressof(block)
            elif isinstance(kind, TensorType):
                made.append(torch.empty(kind.shape, dtype=kind.dtype))
                slots[i] = made[-1].data_ptr()
            else:
                made.append(None)
        return made


def _memory(name: str, size: int) -> torch.Tensor:
    """A block for the temporaries; Decline, with a warning, where there is not so much: the host frees each at its last use."""
    try:
        return torch.empty(size, dtype=torch.uint8)
    except RuntimeError as error:
        jit.warn_once(f"tograph: no memory for the {size} bytes that native code of {name} needs, it runs op by op: {error}")  # fmt: skip
        raise Decline(f"no memory for {size} bytes of temporaries") from None


_WORD = 1 << 63


def _fits(x: Any, kind: Any, grad: bool) -> bool:
    return (
        type(x) in PLAIN
        and x.dtype is kind.dtype
        and x.shape == kind.shape
        and x.device.type == "cpu"
        and x.layout is torch.strided
        and not (grad and x.requires_grad)
        and not x.is_neg()
        and not x.is_conj()
        and not x._is_zerotensor()
        and not is_wrapped(x)
    )


def _bits(x: Any) -> int:
    if isinstance(x, float):
        return ctypes.c_int64.from_buffer(ctypes.c_double(x)).value
    return int(x)


def _number(bits: int, kind: type) -> Any:
    if kind is float:
        return ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value
    return bool(bits & 1) if kind is bool else bits


def _imports(text: str) -> dict[str, int]:
    """The addresses of what a module declares; what is not found there is left to the linker."""
    names = [
        line.split("@", 1)[1].split("(", 1)[0]
        for line in text.splitlines()
        if line.startswith("declare ")
    ]
    return {n: a for n in names if not n.startswith("llvm.") and (a := jit.symbol(n)) is not None}
