"""The autograd history of what a loop carries as state.

Inside the body a tensor has the history of the iterations before it. ``Earlier`` makes a placeholder that requires grad
where eager's tensor would. A gradient that goes on from it to tensors outside of the loop becomes a node ``tg.earlier``:
cotangents of the state at the start of an iteration -> cotangents of those tensors, by way of all iterations
before. When the loop is recorded, ``autodiff.earlier`` makes a loop of it that goes through them backwards. With ``create_graph`` it is a function of the
cotangents and of the tensors outside: its gradient is a node of a higher order (``Past``). A leaf that an earlier
iteration made is not outside: a gradient with respect to it that other state may lead to (``asked``) is another result of that node.

What is a gradient in eager PyTorch and what None depends on the iterations so far: ``h = torch.tanh(h * w)`` leads to ``w`` from the second one on. Where a trace
does not say that state surely leads to a tensor outside, the run does, by a node ``tg.leads`` of the body (``leads``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import GradientError, Location
from ..graph.ir import Node, Value
from ..graph.types import BOOL
from ..inference.infer import tensor_type
from ..inference.shapes import Meta
from ..symbols import duals
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic, same, value_of, wrap
from . import list_reads

EARLIER = "tg.earlier"
LEADS = "tg.leads"  # (loop, input, k): whether state at the start of an iteration was computed from the ``k``-th tensor outside
REQUIRES = -1  # the same for: whether that requires a gradient
_loops = itertools.count()


class Told(NamedTuple):
    """Of a placeholder: its name; whether each iteration begins with one that the code made a leaf; which may have a gradient already that is not followed."""

    name: Any
    leaf: bool
    graded: bool
    entry: Any = None  # what was there before the loop
    sure: bool = True  # it requires one whenever an iteration begins
    by_leaf: bool = (
        False  # its field is that of the leaf from before the loop that it is, if it is one
    )
    followed: bool = False  # what earlier iterations left in its field is state


@dataclass(frozen=True)
class Past:
    """What a node ``tg.earlier`` gives, for the iterations before one of a ``loop``, as ``places`` of the state lead into them.

    Of the first order: cotangents of the places -> those of the tensors outside. Of a higher one: what the order below takes, and a cotangent for each of its
    results -> the cotangents of what that takes, and of the tensors outside.
    """

    loop: int
    places: tuple[int, ...]
    order: int = 1

    @property
    def next(self) -> Past:
        return replace(self, order=self.order + 1)


class Answer(NamedTuple):
    """The gradient of a leaf that an earlier iteration made, whether one has made it, and whether a gradient came to it there."""

    grad: Value
    made: Value
    came: Value


class Earlier:
    """The iterations before one, in the trace of a loop's body: what its state depends on are the tensors ``outside``."""

    def __init__(
        self,
        outside: Sequence[torch.Tensor],
        location: Location | None,
        depends: frozenset[tuple[Any, Any]] = frozenset(),
    ):
        self.outside, self.location, self.loop = list(outside), location, next(_loops)
        self.pending: dict[int, Any] = {}
        self.depends = depends  # names of state, and of the state that it was computed from
        self.made: list[torch.Tensor] = []
        self.held: list[tuple[torch.Tensor, Any]] | None = None  # see ``outer_gradients``
        self.asked: dict[int, Answer | None] = {}  # by input of the body: see ``asked``
        self.answered: dict[int, Answer] = {}  # the same of the last gradient
        self.reaching: Callable[[Sequence[Any]], list[bool]] = lambda names: [True] * len(self.outside)  # fmt: skip
        self.looked: list[tuple[list[Any], list[bool]]] = []  # what that was asked, and said
        self.surely: Callable[[Any, int], bool] = lambda name, k: True
        self.trusted: list[tuple[Any, int, bool]] = []  # what that was asked, and said
        self.leading: dict[tuple[int, int], Value] = {}
        self.anew: list[Any] = []  # see ``outer_gradients.Anew``
        self.again = False  # rather compute anew what is differentiated than ask which leaf it is
        self.hopeless: set[Any] = set()  # of names: what cannot be computed anew
        self.apart: torch.Tensor | None = None  # of ``outside``: what stands there where nothing is
        self._shown: list[Any] = []
        self.body = current_graph()
        self.body.root.earlier.append(self)
        with torch.enable_grad():
            # In a body the state has no tangents.
            given = [duals.primal_of(x, recorded=False) for x in self.outside]
            self._end = _Earlier.apply(self, *given) if given else None

    def state(self, x: Any, index: int, told: Told) -> Any:
        """The placeholder ``x`` of the body's input ``index`` as a tensor with the history of the iterations before."""
        with torch.enable_grad():
            made = _LoopState.apply(self, index, torch.Tensor.requires_grad_(x), self._end)
        made.grad_fn.told = told
        self.made.append(made)
        if told.leaf:
            x.shown_ = made
            self._shown.append(x)
        return made

    def behind_lists(self, before: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What lists of the state may depend on; ``before``: what carries those from before the loop."""
        return [*before, *([] if self._end is None else [self._end])]

    def come_to(self, names: Sequence[Any]) -> list[bool]:
        """Which of the tensors outside state may have been computed from."""
        found = self.reaching(names)
        self.looked.append((list(names), found))
        return found

    def leads(self, state: Any, k: int) -> bool | Ref:
        """Whether a placeholder, by its node of autograd, was computed from the ``k``-th tensor outside: True, False or what the body says."""
        name = state.told.name
        if name is None:
            return True
        if not self.come_to([name])[k]:
            return False
        sure = self.surely(name, k)
        self.trusted.append((name, k, sure))
        if sure:
            return True
        return self._told(state.index, k)

    def requires(self, state: Any) -> bool | Ref:
        """Whether a placeholder, by its node of autograd, requires a gradient: True or what the body says."""
        return True if state.told.sure else self._told(state.index, REQUIRES)

    def made_of_leaves(self, state: Any) -> Ref:
        """Whether a placeholder, by its node of autograd, was computed of any leaf, also of one that an earlier iteration made: what the body says."""
        return self._told(state.index, REQUIRES)

    def _told(self, index: int, k: int) -> Ref:
        key = index, k
        if key not in self.leading or self.leading[key] in self.body.undone:
            node = Node(LEADS, (self.loop, *key), {}, [BOOL], location=user_location())
            self.body.graph.nodes.append(node)
            self.leading[key] = node.outputs[0]
        return Ref(self.leading[key], self.body)

    def release(self) -> None:
        """The trace is over: no tensor is kept, since its history keeps this object."""
        for x in self._shown:
            del x.shown_
        for held in (self.outside, self.made, self._shown):
            held.clear()
        self._end = self.apart = None


class _LoopState(torch.autograd.Function):
    """Notes the cotangent of a placeholder for ``_Earlier``, whose backward comes after those of all placeholders."""

    @staticmethod
    def forward(ctx: Any, earlier: Earlier, index: int, x: Any, end: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.earlier, ctx.index, ctx.ends = earlier, index, end is not None
        return same(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        own = grad if ctx.told.leaf else None
        if grad is None or not ctx.ends:
            return None, None, own, None
        ctx.earlier.pending[ctx.index] = ctx.told.name, grad
        return None, None, own, torch.zeros(())


class _Earlier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, earlier: Earlier, *outside: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.earlier = earlier
        with _disable_current_modes():
            return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        earlier: Earlier = ctx.earlier
        pending, earlier.pending = earlier.pending, {}
        graph = current_graph()
        if not pending:  # only lists led here
            return None, *[None] * len(earlier.outside)
        names, grads = zip(*pending.values())
        some = earlier.come_to(names)
        if not any(some) and not earlier.asked:
            return None, *[None] * len(earlier.outside)
        given = [value_of(g, graph) for g in grads]
        metas = [as_symbolic(x).meta for x in earlier.outside]
        again = torch.is_grad_enabled()
        outside = [value_of(x, graph) for x in earlier.outside] if again else []
        past, leaves = Past(earlier.loop, tuple(pending)), {"leaves": tuple(earlier.asked)}
        kinds: list[Any] = [tensor_type(m) for m in metas]
        for i in earlier.asked:
            kinds += [earlier.body.graph.inputs[i].type, BOOL, BOOL]
        node = graph.add(EARLIER, (past, given, outside), leaves, kinds)
        node.location = node.location or user_location()
        made = [_result(v, m, graph) for v, m in zip(node.outputs, metas)]
        answers = iter(node.outputs[len(made) :])
        earlier.asked = {i: Answer(*itertools.islice(answers, 3)) for i in earlier.asked}
        if earlier.held is None:
            return None, *(g if s else None for g, s in zip(made, some))
        held = [x.grad_fn is not None for x in earlier.outside]
        found = zip(earlier.outside, made, held, some)
        earlier.held += [(x, g) for x, g, h, s in found if h and s]
        return None, *(g if s and not h else None for g, h, s in zip(made, held, some))


def _result(value: Value, meta: Meta, graph: FuncGraph) -> Any:
    """The tensor that carries a value in autograd, if any does."""
    found = graph.sources.get(value)
    return wrap(value, meta, graph) if found is None else found


def behind(outs: Sequence[torch.Tensor], past: bool = True) -> dict[Any, None]:
    """The nodes of torch's autograd that ``outs`` lead to, in the order of a walk; not by way of the ``past`` iterations of a loop, if not asked for."""
    seen: dict[Any, None] = {}
    todo = [o.grad_fn for o in outs if o.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node not in seen and (past or past_of(node) is None):
            seen[node] = None
            todo += [n for n, _ in node.next_functions if n is not None]
    return seen


def named(outs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that ``outs`` were computed from by a name of their own, not as the state of a loop."""
    found = [getattr(n, "variable", None) for n in behind(outs, past=False)]
    leaves = [getattr(x, "shown_", x) for x in found if x is not None]
    return [*(o for o in outs if o.requires_grad and o.is_leaf), *leaves]


def passed(outs: Sequence[torch.Tensor]) -> list[Earlier]:
    """The iterations that a gradient may pass to what was computed before their loop."""
    nodes = [n for n in behind(outs) if isinstance(n, _Earlier._backward_cls)]
    return [n.earlier for n in nodes if any(x.grad_fn is not None for x in n.earlier.outside)]


def name_of(node: Any) -> Any:
    """The name of the state that a node of autograd stands for; None where it is not known."""
    return node.told.name if is_state(node) else None


def by_past(nodes: Iterable[Any], inputs: Sequence[torch.Tensor]) -> bool:
    """Whether ``nodes`` go through a gradient of earlier iterations, and one of ``inputs`` is state that these may have used there."""
    loops = {x.grad_fn.earlier.loop for x in inputs if is_state(x.grad_fn)}
    calls = [n.call.node for n in nodes if hasattr(n, "call")] if loops else ()
    return any(_has_past(node, loops) for node in calls)


def _has_past(node: Node, loops: set[int]) -> bool:
    if node.op == EARLIER:
        return node.args[0].loop in loops
    return any(_has_past(n, loops) for r in node.regions.values() for n in r.nodes)


def is_leaf(x: torch.Tensor) -> bool:
    """Whether eager's tensor is a leaf."""
    if x.requires_grad and x._base is not None and x._base.requires_grad:
        return False  # not asked of torch, which computes the history of a view anew after a write
    return x.is_leaf or (is_state(x.grad_fn) and x.grad_fn.told.leaf)


def is_sure(x: torch.Tensor) -> bool:
    """Whether a tensor is no state that may require no gradient in some iteration."""
    return is_sure_state(x.grad_fn)


def is_sure_state(node: Any) -> bool:
    """The same of a node of autograd."""
    return not is_state(node) or node.told.sure


def is_by_leaf(x: Any) -> bool:
    """Whether the field of a tensor is that of the leaf from before a loop that it is, where it is one."""
    return is_state(x.grad_fn) and x.grad_fn.told.by_leaf


def is_followed(x: Any) -> bool:
    """Whether, of such a tensor, also what earlier iterations left in the field is known."""
    return is_by_leaf(x) and x.grad_fn.told.followed


def check_graded(x: torch.Tensor, shared: bool = False) -> None:
    """An error for the ``.grad`` of state that an earlier iteration may have given one, and of a leaf that a region made and gave one. ``shared``: other state has it too."""
    if is_state(x.grad_fn) and x.grad_fn.told.graded and not shared:
        raise not_followed()
    list_reads.check_field(x)
    node = x.ref.value.node if isinstance(x, SymTensor) and x.ref is not None else None
    # What leaves the function is asked for when the user's code is done: then it is the line that made it.
    line = user_location() or (node.location if node is not None else None)
    if isinstance(x, SymTensor) and x.graded_:
        raise GradientError(
            "the gradient field of a tensor that a staged branch or loop made, and that got a gradient there, is not followed. Take what "
            "is needed of it there, and set it to None.",
            line,
        )


def check_written(x: torch.Tensor) -> None:
    """An error for a write of the ``.grad`` of state that has a gradient which is not followed, and of an item of a list."""
    list_reads.check_field(x)
    if not is_state(x.grad_fn):
        return
    told = x.grad_fn.told
    if told.graded and not (told.by_leaf and told.followed):
        raise not_followed()


def not_followed() -> GradientError:
    error = GradientError(
        "the gradient field of a tensor that each iteration of a staged loop makes anew, and that has a gradient when the next one "
        "begins, is not followed. Take what is needed of it before the iteration ends, and set it to None.",
        user_location(),
    )
    error.apart = True  # what has a gradient may be from before the loop
    return error


def asked(nodes: Iterable[Any], inputs: Sequence[torch.Tensor]) -> list[int]:
    """Which of ``inputs`` are state of a loop from which an earlier iteration computed other state that ``nodes`` lead to."""
    states = [n for n in nodes if is_state(n)]
    wanted = [(i, x.grad_fn) for i, x in enumerate(inputs) if is_state(x.grad_fn)]
    return [i for i, fn in wanted if any(_led(node, fn) for node in states)]


def led(nodes: Iterable[Any], leaves: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Which of ``nodes`` are state that an earlier iteration computed from which of ``leaves``."""
    found = [n for n in nodes if is_state(n)]
    return [(n, fn) for fn in leaves for n in found if _led(n, fn)]


def _led(node: Any, leaf: Any) -> bool:
    """Whether an earlier iteration may have computed the state of ``node`` from that of ``leaf``."""
    same = leaf.earlier is node.earlier and leaf is not node
    return same and (node.told.name, leaf.told.name) in node.earlier.depends


def leaves_led_to(nodes: Iterable[Any]) -> list[torch.Tensor]:
    """The leaves among the state of loops from which earlier iterations computed other state that ``nodes`` lead to."""
    states = [n for n in nodes if is_state(n)]
    made = [x for e in dict.fromkeys(n.earlier for n in states) for x in e.made]
    # What a write in place gave another history is no leaf.
    leaves = [x for x in made if is_state(x.grad_fn) and x.grad_fn.told.leaf]
    return [x for x in leaves if any(_led(node, x.grad_fn) for node in states)]


def is_state(node: Any) -> bool:
    """Whether a node of autograd is that of a placeholder."""
    return isinstance(node, _LoopState._backward_cls)


def past_of(node: Any) -> Earlier | None:
    """The iterations that a node of autograd stands for, if it stands for the way from the state of a loop to the tensors outside."""
    return node.earlier if isinstance(node, _Earlier._backward_cls) else None


def SURELY(node: Any, output: int, k: int) -> bool:
    """Whether an output of a node of autograd was computed from its ``k``-th input in any run. Set by ``autodiff``."""
    raise NotImplementedError


def EXPAND(node: Node, graph: FuncGraph, earlier: Earlier, keys: Sequence[Any]) -> None:
    """Give a ``While`` loops for the nodes of ``earlier`` in its body. Set by ``autodiff``."""
