"""One trace of a function: its graph, what it captured, and how to call it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...errors import DeadResourceError
from ...lazy import lazy_module
from .. import passes
from ..execution import probes
from ..execution.gradient_calls import GradientCalls
from ..execution.scheduler import calls_before
from ..gradients import transforms
from ..gradients.watching import calls_python, is_watched, own_gradients
from ..graph.ir import Graph
from ..graph.rewrite import copied, count_nodes
from ..graph.types import is_static
from ..guarding import call_checks
from ..guarding.guards import Guards
from ..guarding.outer_numbers import NumberSlot
from ..guarding.sources import Strong
from ..native.program import Native
from ..values import flattening, pickling, structure
from ..values.structure import Leaf, Spec
from . import ambient, commits, entries, made_tensors
from .commits import Target
from .programs import Programs
from .shared_objects import Outer
from .timing import timed

if TYPE_CHECKING:
    from ..guarding.slots import Slot

fx = lazy_module("..interchange.fx", __package__)
onnx = lazy_module("..interchange.onnx", __package__)
notebook = lazy_module("..display.notebook", __package__)
pages = lazy_module("..report", __package__)

TOO_LONG = 20_000  # nodes: more are not traced for calls that run without

Graph._repr_html_ = lambda graph: notebook.graph_html(graph)


class ConcreteFunction(Programs, pickling.Unpicklable):
    """A traced function for one signature. Call it with the same arguments as the function.

    ``graph``: the Graph. ``inputs``, ``outputs``: its values. ``captured_inputs``: tensors that it reads or writes by
    reference. ``structured_outputs``: the structure of the result. ``host_code``: the program that runs it.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        captured: Sequence[torch.Tensor],
        result: Spec,
        effects: Sequence[tuple[Any, Spec]],
        signature: Any,
        bind: Callable[..., list[Any]] | None = None,
        owned: Callable[[torch.Tensor], bool] = lambda x: False,
    ):
        """``owned``: whether something of the caller's holds a captured tensor, so that it is held weakly here."""
        super().__init__(name, graph)
        self._captured: list[Callable[[], torch.Tensor | None]] = [
            weakref.ref(x) if owned(x) else Strong(x) for x in captured
        ]
        self.structured_input_signature = signature
        self._result, self._effects, self._bind = result, list(effects), bind
        self._single = isinstance(result, Leaf) and not result.fixed
        self.open_numbers: tuple[int, ...] = ()  # Python numbers of a call that are inputs
        self.late: list[tuple[int, Any]] = []
        self.made_leaves: tuple[int, ...] = ()  # inputs that get requires_grad_()
        self.ended_leaves: tuple[int, ...] = ()  # tensors of a call that get requires_grad_(False)
        self.slots: dict[int, Slot] = {}  # captured inputs that are looked up
        self.by_autograd = False  # whether the last call had tensors that require gradients
        self._joined: dict[tuple[int, ...], Callable[..., Any] | None] = {}
        self.outers: Sequence[Outer] = ()  # containers from before a call that it gives
        self.mode: bool | None = None  # the gradient mode of its calls, if the code turns it on
        # What a direct call is asked for, and the names of its inputs.
        self.asked: tuple[Guards, Sequence[str]] | None = None
        self.unrolled = 0  # nodes of its graph if the long loops of Python's in it were unrolled; 0: there are none
        self.calls = 0  # of one with such loops, entries apart
        self.retraces: Any = None  # a weak reference to the method that explains the traces

    def look_up(self, slots: dict[int, Slot]) -> None:
        """Have these captured inputs looked up at every call."""
        self.slots = slots
        for i, slot in slots.items():
            self._captured[i] = slot

    inputs = property(lambda self: self.graph.inputs[: len(self.graph.inputs) - len(self._captured)])  # fmt: skip
    outputs = property(lambda self: self.graph.outputs[: self.identities.count])

    @property
    def captured_inputs(self) -> list[torch.Tensor]:
        """The captured tensors; DeadResourceError when the caller has dropped one of them."""
        found = [held() for held in self._captured]
        for i, x in enumerate(found):
            if x is None:
                kind = self.graph.inputs[len(self.graph.inputs) - len(found) + i].type
                raise DeadResourceError(
                    f"a {kind} that {self.name!r} captured does not exist any more: its owner was deleted. "
                    "Keep the object that owns it for as long as the function is called."
                )
        return found

    @cached_property
    def _held(self) -> list[tuple[Callable[[], torch.Tensor | None], Any, torch.dtype]]:
        """The captured tensors that are the same at every call, each with its traced size and dtype."""
        first = len(self.graph.inputs) - len(self._captured)
        looked_up = {*self.slots, *(i for i, _ in self.late)}
        kinds = [(i, v.type) for i, v in enumerate(self.graph.inputs[first:]) if i not in looked_up]
        same = [(i, t) for i, t in kinds if is_static(t)]
        return [(self._captured[i], t.shape, t.dtype) for i, t in same]

    def fits_captured(self) -> bool:
        """Whether the captured tensors are still what was traced: ``x.data = y`` and ``module.double()`` change that."""
        for held, size, dtype in self._held:
            x = held()
            if x is not None and (x.shape != size or x.dtype is not dtype):
                return False
        return True

    @property
    def result_spec(self) -> Spec:
        """The structure of the result."""
        return self._result

    @property
    def structured_outputs(self) -> Any:
        """The result's structure with a type for every value."""
        rest = iter(self.graph.outputs)
        return flattening.unflatten(self._result, rest, lambda v: v.type)

    @cached_property
    def _brings_tensors(self) -> bool:
        return calls_python(self.graph)

    @cached_property
    def _own_gradients(self) -> bool:
        """Whether gradients that users wrote are in the graph: programs, which are inlined, do not have them."""
        return own_gradients(self.graph)

    def report(self, path: str | Path, *args: Any, **kwargs: Any) -> Path:
        """Write a page about this trace: sources, graph, program; with arguments, kernels and times of a run with them.

        Returns the path. The page is one HTML file that loads nothing. OSError says why ``path`` cannot be written.

        Example: ``f.get_concrete_function(x).report("f.html", x)``
        """
        return pages.write(pages.collect(self, self.timed(*args, **kwargs)), path)

    def timed(self, /, *args: Any, **kwargs: Any) -> Any:
        """What is known of the function's other traces and, with arguments, the times of a run with copies of them.

        It runs twice: once as always, which compiles kernels, and once with a clock around every node.
        """
        return timed(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.name}: {count_nodes(self.graph)} nodes>"

    def _repr_html_(self) -> str:
        return notebook.graph_html(self.graph)

    @property
    def _exported(self) -> Graph:
        """The values for systems that have no histories: without those that tell of one."""
        specs = [self._result, *(spec for _, spec in self._effects)]
        told = [flag for spec in specs for flag in made_tensors.flags(spec)]
        if not any(told):
            return self._values
        made = copied(self._values)
        made.outputs = [v for v, flag in zip(made.outputs, told, strict=True) if not flag]
        return passes.prune(made, writers=True)

    def to_fx(self, *, list_capacity: int | None = None, leave_out: Sequence[str] = ()) -> Any:
        """The graph as a ``torch.fx.GraphModule`` with ``torch.cond`` and ``torch.while_loop``, which ``torch.export`` takes.

        It takes the tensors of the arguments and returns a flat tuple; Python numbers are 0-d tensors, a list is one tensor
        of its items, parameters and buffers are shared. ``list_capacity``: how many items a list may have whose length
        depends on what is in it. ``leave_out``: ``"prints"`` and ``"checks"`` (assertions and raised exceptions) are
        left out. Raises InterchangeError, at the user's line, for what torch.fx does not have.

        Example: ``torch.export.export(f.get_concrete_function(x).to_fx(), (x,))``
        """
        return fx.to_fx(self._exported, self.captured_inputs, list_capacity, leave_out)

    def to_onnx(self, path: Any, *, leave_out: Sequence[str] = ()) -> None:
        """Write the graph as an ONNX model with ``If`` and ``Loop``; parameters and buffers with the values they have now.

        A list is an ONNX sequence. A tensor that the function writes into is one more output, ``NAME.next``, its new value;
        a captured one is also an input with a default. ``leave_out``: as for ``to_fx``. Needs the package ``onnx``.
        Raises InterchangeError, at the user's line, for what ONNX does not have.

        Example: ``f.get_concrete_function(x).to_onnx("f.onnx")``
        """
        onnx.to_onnx(self._exported, self.captured_inputs, path, leave_out)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._bind is None:
            return self.run(list(args))
        tensors, places = self._bind(self, args, kwargs)
        if self.asked is not None:
            call_checks.check(*self.asked, self.slots.values(), tensors)
        return self.run(tensors, places)

    def _with_late(self, tensors: list[Any]) -> tuple[Any, ...]:
        """The inputs with those captured tensors that are the ``.grad`` of something at this call."""
        captured = list(self.captured_inputs)
        for i, owner in self.late:
            captured[i] = (tensors[owner] if isinstance(owner, int) else owner).grad
        return (*tensors, *captured)

    @cached_property
    def gradients(self) -> GradientCalls:
        """How a call runs whose tensors require gradients."""
        return GradientCalls(self.graph, self.identities.made)

    @property
    def settled(self) -> bool:
        """Whether it is known how the graph runs, and so if there is an entry."""
        return "scheduled" in self.__dict__ and self.scheduled.settled and not self._waits

    @property
    def _waits(self) -> bool:
        """Whether long loops of Python's were staged in vain: they run op by op, as native code has no form for numbers of theirs."""
        if not 0 < self.unrolled <= TOO_LONG:
            return False
        by_host = "scheduled" in self.__dict__ and self.scheduled.on_host
        return by_host or ("gradients" in self.__dict__ and self.gradients.on_host)

    @property
    def outlived(self) -> bool:
        """Whether such a trace has run so often that one of the unrolled loops is worth its time."""
        return bool(self.unrolled) and self.calls + 1 >= calls_before(self.unrolled) and self._waits

    @cached_property
    def entry(self) -> Callable[..., Any] | None:
        """A built-in function for calls with plain tensors, or None: ``MISS`` is its answer to any other call."""
        return self._entry() if self.is_flat else None

    @property
    def joined_entry(self) -> Callable[..., Any] | None:
        """A built-in function like ``entry_of_parts`` for calls that are joined with autograd as the last one was, or None."""
        watched = self.gradients.joined
        if not watched or self._waits or self._effects or self.slots or self._prepares:
            return None
        if watched not in self._joined:
            known, joined = self.identities, self.gradients.differentiable

            def run(*inputs: Any) -> list[Any]:
                outputs = joined.run(inputs, watched)
                return known.outputs(outputs, inputs)

            self._joined[watched] = entries.by_host(self.graph, self.captured_inputs, run, self._single, watched)  # fmt: skip
        return self._joined[watched]

    @property
    def is_flat(self) -> bool:
        """Whether the result is one output of the graph, or a tuple of outputs."""
        result = self._result
        flat = isinstance(result, structure.Tree) and result.cls is tuple and result.aux is None
        return self._single or (
            flat and all(isinstance(p, Leaf) and not p.fixed for p in result.parts)
        )

    @cached_property
    def entry_of_parts(self) -> Callable[..., Any] | None:
        """The entry of a result of any structure: it gives a tuple of the graph's outputs, or the one that is the result."""
        return self.entry or self._entry()

    @cached_property
    def entry_of_all(self) -> Callable[..., Any] | None:
        """An entry that takes the captured tensors, or the numbers that they are made of, as arguments too, and gives a tuple of all
        outputs, effects included."""
        native = self.scheduled.native
        if self._prepares or not isinstance(native, Native):
            return None
        first = len(self.graph.inputs) - len(self.captured_inputs)
        numbers = {first + i for i, slot in self.slots.items() if isinstance(slot, NumberSlot)}
        return native.entry((), self.identities.wanted(single=False), numbers)

    @property
    def effects(self) -> list[tuple[Any, Spec]]:
        """The changes of what existed before: None, or the names of steps, and the spec of the content."""
        return self._effects

    @property
    def _prepares(self) -> bool:
        """Whether a call does more than run the graph: no entry can."""
        return bool(self.late or self.made_leaves or self.ended_leaves or self.mode is False or self._brings_tensors or not self.identities.whole or self.gradients.returns_leaves)  # fmt: skip

    def _entry(self) -> Callable[..., Any] | None:
        if self._effects or self.slots or self._prepares:
            return None
        native = self.scheduled.native
        if native is not None and not isinstance(native, Native):
            return None
        made = native and native.entry(self.captured_inputs, self.identities.wanted(self._single))
        # Lists, and tensors of a size that only the run knows, Python takes from the native code.
        run = self._run_on_host if native is None else self._run_scheduled
        return made or entries.by_host(self.graph, self.captured_inputs, run, self._single)

    def _run_on_host(self, *inputs: Any) -> list[Any]:
        return self.identities.outputs(self.scheduled.host.run(*inputs), inputs)

    def _run_scheduled(self, *inputs: Any) -> list[Any]:
        return self.identities.outputs(self.scheduled.run(*inputs), inputs)

    def _run_plain(self, *inputs: Any) -> list[Any]:
        return self.scheduled.run(*inputs)

    def _outputs(self, inputs: Sequence[Any]) -> list[Any]:
        """What the graph gives, run in the way that this call needs."""
        self.by_autograd = False
        if torch.is_grad_enabled():
            found = self.gradients.run(inputs, self._run_plain)
            if found is not None:
                self.by_autograd = True
                return found
        if self._own_gradients and is_watched(inputs):
            return transforms.run(self._values if transforms.active() else self.graph, inputs)
        if transforms.mapping():
            found = transforms.run(self._transformed, inputs)
            return found if self._effects else transforms.as_tensors(found)
        if probes.profiled():
            with probes.Range(f"tograph {self.name}"):
                return self._ranges.run(*inputs)
        watched = self._brings_tensors or is_watched(inputs)
        return (self.watched_program if watched else self.scheduled).run(*inputs)

    def _enabled(self) -> bool:
        return self.mode is False and not torch.is_inference_mode_enabled()

    def _gradients(self) -> Any:
        return torch.enable_grad() if self._enabled() else nullcontext()

    def run(
        self, tensors: list[Any], places: Sequence[Target] = (), objects: Sequence[Any] = ()
    ) -> Any:
        """The result for the tensors of the arguments; ``places`` are where effects on arguments go, ``objects`` those of ``outers``."""
        self.calls += bool(self.unrolled)
        inputs = (*tensors, *self.captured_inputs) if not self.late else self._with_late(tensors)
        for i in self.made_leaves:
            inputs[i].requires_grad_()
        commits.calls.running.append((places, objects))
        try:
            if ambient.usual() and not self._enabled():  # with nothing to put aside
                outputs = self._outputs(inputs)
            else:
                with ambient.plain(), ambient.uncast(), self._gradients():
                    outputs = self._outputs(inputs)
        except Exception as error:
            entries.add_location(error, self.graph)
            raise
        finally:
            commits.calls.running.pop()
        if not transforms.active():
            outputs = self.identities.outputs(outputs, inputs)
        for i in self.ended_leaves:
            tensors[i].requires_grad_(False)
        return self.finished(outputs, places, objects)

    def finished(
        self, outputs: Sequence[Any], places: Sequence[Target] = (), objects: Sequence[Any] = ()
    ) -> Any:
        """The result that the graph's outputs make; the effects among them are put in their places."""
        if self._single and not places:
            return outputs[0]
        values = iter(outputs)
        known: dict[Any, Any] = {("outer", i): x for i, x in enumerate(objects)}
        result = flattening.unflatten(self._result, values, lambda v: v, known)
        # all before the first is put in its place, which may be all that holds what another one takes
        made = [(t, names, flattening.unflatten(spec, values, lambda v: v, known)) for (names, spec), t in zip(self._effects, places)]  # fmt: skip
        for target, names, content in made:
            target.apply(names, content)
        return result
