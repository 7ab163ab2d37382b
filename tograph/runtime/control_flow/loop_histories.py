"""The autograd history that the state of a loop has inside of its body."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError, Location
from ..graph.ir import Graph, Node, Value
from ..graph.overwritten import last_trip
from ..graph.rewrite import lead
from ..recording.tracing import recording
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.journal import Location as Place
from ..symbols.journal import Missing
from ..symbols.mapped import check_unmapped
from ..values import flattening, structure
from ..writes import histories, iterations, list_histories, rebasing, stale
from . import loop_contents, reaching
from .loop_contents import Name
from .regions import Region


class LoopHistories:
    """Which state requires grad inside the body, and what outside of the loop it depends on.

    It matters where the body takes a gradient: then the body is traced until it is stable.

    ``computed``: what requires grad and is no leaf. ``graded``: places of which some content has a
    gradient when an iteration begins. ``depends``: (x, y) where x was computed from the tensor y itself. ``rewritten``: tensors of the
    caller that iterations write, where a gradient may come to what was computed before the loop.
    """

    def __init__(self, state: Sequence[Place], contents: Sequence[Any]):
        self.keys: set[Any] = set()
        self.computed: set[Name] = set()
        self.first: set[Name] = set()  # those before the loop
        self.foreign: set[Name] = set()  # those that are leaves from outside
        self.leaves: set[Name] = set()  # what may be a leaf in some iteration
        self.began_leaves: set[Name] = set()  # and is one before the loop
        self.graded: set[Any] = set()
        self.plain: set[Name] = set()  # what requires no gradient in some iteration
        self.depends: set[tuple[Name, Name]] = set()
        self.outside: list[torch.Tensor] = []
        self.location = user_location()
        self.entry: dict[Any, Any] = {}
        self.began: dict[Any, list[torch.Tensor] | None] = {}
        self.entered = 0  # of how many places that is known
        self.rewritten: dict[Storage, torch.Tensor] = {}
        self.settled = False
        self.apart: torch.Tensor | None = None  # stands for leaves outside where there are none
        self.again = False  # see ``iterations.Earlier``
        self.asks = (
            False  # whether what its state is for autograd matters, though no gradient is taken
        )
        self.hopeless: set[Name] = set()  # see ``recomputed``
        self.fields: set[Name] = set()  # whose ``.grad`` is state, too
        self.by_leaf: set[Name] = (
            set()
        )  # those of them that are asked of the leaf from before the loop
        self.told: dict[Name, reaching.Reached] = {}
        self.steps: dict[Name, frozenset[Any]] | None = None  # see ``reaching.Surely``
        for place, content in zip(state, contents):
            self.add(place.key, content)

    def add(self, key: Any, content: Any) -> None:
        """A place is state, with this content before the loop."""
        content = content.value if isinstance(content, structure.Identity) else content
        self.entry[key] = content
        self.began[key] = (
            None if loop_contents.staged(content) else loop_contents.tensors_of(content)
        )
        if loop_contents.requires_grad(content):
            self.keys.add(key)
        found = [x for x in loop_contents.tensors_of(content) if x.requires_grad]
        tensors = enumerate(loop_contents.tensors_of(content))
        self.first |= {
            (key, i) for i, x in tensors if not (iterations.is_leaf(x) or loop_contents.mixed(x))
        }
        # A trace that did not know it took what it held for a tensor from outside.
        self.computed, self.plain = (self.computed - self.foreign) | self.first, set()
        self.began_leaves |= loop_contents.leaves_in(key, content)
        self.leaves |= self.began_leaves
        if loop_contents.graded(content):
            self.graded.add(key)
        known = set(map(reaching.identity, self.outside))
        self.outside += [x for x in found if reaching.identity(x) not in known]

    def open(self, state: Sequence[Place]) -> None:
        """A trace of the body begins."""
        outer = current_graph().outer
        assert outer is not None
        for x in self.outside:
            check_unmapped(x)
        with recording(
            outer
        ):  # of a view that an earlier trace wrote, torch computes the history by ops
            for x in self.outside:
                _ = x.grad_fn
            if self.computed and not self.outside and self.apart is None:
                self.apart = _nothing()
        owners = {p.key: p.keep.owner for p in state if isinstance(p.keep, Storage)}
        self.owners = {
            k: rebasing.alias(x) for k, x in owners.items() if x is not None and x.requires_grad
        }
        if len(self.entry) != self.entered:
            for x in [
                x for content in self.entry.values() for x in loop_contents.tensors_of(content)
            ]:
                _check_view(x, self.location)
            self.depends |= reaching.dependent(loop_contents.named(self.entry.items()), ())
            self.entered = len(self.entry)
        outside = [*self.outside, *self.owners.values()]
        if self.computed and not outside and self.apart is not None:
            outside = [self.apart]
        self.earlier = iterations.Earlier(outside, self.location, frozenset(self.depends))
        self.earlier.apart = self.apart
        self.earlier.hopeless, self.earlier.again = self.hopeless, self.again
        self.earlier.reaching = self._reaching().of
        if self.steps is not None:
            self.earlier.surely = self._surely().of
        current_graph().settled = self.settled
        if self.asks:
            current_graph().note_gradient()
        for storage, owner in self.rewritten.items():
            _written_before(storage, owner, self.location)

    def _reaching(self) -> reaching.Reaching:
        """What state is computed from, as far as a trace has told."""
        return reaching.Reaching(self.earlier.outside, {} if self.owners else self.told)

    def _tell(self, contents: Sequence[tuple[Any, Any]]) -> bool:
        """Take over what an iteration computes its state from; whether a gradient that was taken in it would have been another one."""
        named = [
            ((k, i), x)
            for k, c in contents
            if not loop_contents.staged(c)
            for i, x in enumerate(loop_contents.tensors_of(c))
        ]
        found = reaching.told(named, self.earlier.outside, self.earlier)
        self.told = {}
        for name, new in found.items():
            entry = self._entry(name)
            if new is not None and entry is not False:
                own = [] if entry is None else [reaching.key_of(entry)]
                self.told[name] = new.union(own)
        again = self._reaching()
        if self.earlier.trusted:  # a gradient went on into earlier iterations
            self.steps = {name: reaching.surely(x, self.earlier.outside, self.earlier) for name, x in named}  # fmt: skip
            sure = self._surely()
            if any(sure.of(name, k) != said for name, k, said in self.earlier.trusted):
                return True
        return any(again.of(names) != said for names, said in self.earlier.looked)

    def _surely(self) -> reaching.Surely:
        """What state is surely computed from, as far as a trace has told."""
        assert self.steps is not None
        entries = [(name, self._entry(name)) for name in self.steps]
        known = {n: reaching.key_of(x) for n, x in entries if isinstance(x, torch.Tensor)}
        return reaching.Surely(self.earlier.outside, known, self.steps)

    def unsettled(self, loop: Region) -> bool:
        """The state is known: whether what follows from that asks for another trace, for an error that it may be."""
        again = (loop.graph.frees or loop.graph.shares) and not self.settled
        self.settled = self.settled or again
        self.again = self.again or loop.graph.shares  # what is computed anew is not of another name
        return again

    def maker(self, place: Place, graph: FuncGraph) -> Callable[[Value], Any]:
        """How the placeholders of a place are made."""
        if place.key not in {*self.keys, *self.owners}:
            return flattening.plain_maker(graph)
        behind = self.earlier.behind_lists(loop_contents.carriers(self.entry.get(place.key)))
        numbers = itertools.count()

        def make(value: Value) -> Any:
            x = flattening.symbolic(value, graph)
            if behind and isinstance(x, structure.Handle) and differentiable(value.type):
                list_histories.begun(value, graph, behind)
            name = (place.key, next(numbers)) if isinstance(x, torch.Tensor) else None
            if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
                graded = place.key in self.graded and name not in self.fields
                entry, leaf = self._entry(name), name not in self.computed
                sure = (entry is not None or self._unset(name)) and name not in self.plain
                told = iterations.Told(name, leaf, graded, entry, sure, name in self.by_leaf, name in self.fields)  # fmt: skip
                made = self.earlier.state(x, graph.graph.inputs.index(value), told)
                if not leaf and name in self.leaves:  # its field is not followed behind a gradient
                    graph.root.halves.append(made)
                return made
            return x

        return make

    def _entry(self, name: Name | None) -> Any:
        """The tensor that a placeholder stands for in the first iteration, if it requires a gradient; False where that is not known."""
        entry = None if name is None else self.entry.get(name[0])
        if entry is structure.UNSET or isinstance(entry, Missing):
            return None
        found = self.began[name[0]] if name is not None else None
        if found is None or name is None or name[1] >= len(found):
            return False
        x = found[name[1]]
        return x if x.requires_grad else None

    def _unset(self, name: Name | None) -> bool:
        """Whether a place holds nothing before the loop: no iteration reads it that none before has set."""
        entry = None if name is None else self.entry.get(name[0])
        return entry is structure.UNSET or isinstance(entry, Missing)

    def _leaves_behind(self, contents: Sequence[Any], graph: FuncGraph) -> set[int] | None:
        """Which leaves an iteration computed its state from, by their memory; None where a content with a history does not tell."""
        if any(loop_contents.staged(c) and loop_contents.may_have(c, graph) for c in contents):
            return None
        ends = [x for c in contents for x in loop_contents.tensors_of(c)]
        found, seen = {_memory(x) for x in ends if x.is_leaf and x.requires_grad}, set()
        todo = [x.grad_fn for x in ends]
        while todo:
            node = todo.pop()
            if node is None or node in seen or getattr(node, "earlier", None) is self.earlier:
                continue
            seen.add(node)
            if (leaf := getattr(node, "variable", None)) is not None:
                found.add(_memory(leaf))
            todo += [n for n, _ in node.next_functions]
        return found

    def _writes_leaf(self, loop: Any, state: Sequence[Place]) -> bool:
        """Whether autograd sees a write to state that may be a leaf when an iteration begins."""
        for place in state:
            begun = loop_contents.tensors_of(loop.entered.get(place.key))
            if any(isinstance(x, structure.SymTensor) and x.storage_.shown for x in begun):
                contents = (self.entry.get(place.key), loop.content(place))
                # A view is no leaf, and torch is not asked for its history: that is computed anew after a write.
                found = [x for c in contents for x in loop_contents.tensors_of(c) if x._base is None]  # fmt: skip
                if loop_contents.leaves_in(place.key, found):
                    return True
        return False

    def change(self, loop: Region, state: Sequence[Place]) -> bool:
        """Take over what a trace of the body found; whether that asks for another one."""
        if loop.raised:
            return False
        if not loop.graph.differentiated:
            self.asks = self.asks or self._writes_leaf(loop, state)
            return self.asks
        keys = self.keys | {
            p.key for p in state if loop_contents.requires_grad(loop.content(p), loop.graph)
        }
        contents = [(p.key, loop.content(p)) for p in state]
        depends = self.depends | reaching.dependent(
            loop_contents.named(contents), self.earlier.made
        )
        computed = self.computed.union(
            *(loop_contents.computed_in(k, c, loop.graph) for k, c in contents)
        )
        graded = self.graded | {k for k, c in contents if loop_contents.graded(c)}
        self.foreign = set().union(
            *(loop_contents.foreign_in(k, c, loop.graph) for k, c in contents)
        )
        plain = self.plain.union(*(loop_contents.plain_in(k, c) for k, c in contents if k in keys))
        # of others nobody asks
        plain = {n for n in plain if self._entry(n) is not None or self._unset(n)}
        leaves = self.leaves.union(*(loop_contents.leaves_in(k, c) for k, c in contents))
        leaves = (leaves | self.began_leaves) & computed
        passed = _uses(loop.graph.graph, False) - _uses(loop.graph.graph, True)
        passed -= {v for _, c in contents for v in _values(c, loop.graph)}
        wholes = [(v, _whole(x)) for v, x in loop.graph.sources.items()]
        reached = self._leaves_behind([c for _, c in contents], loop.graph)
        carried = [
            x
            for v, x in wholes
            if (reached is None or _memory(x) in reached if x.is_leaf else v not in passed)
        ]
        carried += [x for _, c in contents for x in loop_contents.tensors_of(c)]  # left as they are
        seen = set(map(reaching.identity, (*self.outside, *self.owners.values())))
        written = {
            id(p.keep) for p, _ in loop.changed.values() if isinstance(p.keep, Storage)
        }  # see ``owners``
        found = {reaching.identity(x): x for x in carried if x.requires_grad and loop_contents.outside(x, loop.graph) and not (x.grad_fn and _memory(x) in written)}  # fmt: skip
        new = [x for key, x in found.items() if key not in seen]
        told = (keys, computed, graded, plain, leaves, depends)
        rewritten = loop.graph.rewritten if any(x.grad_fn for x in (*self.outside, *new)) else {}
        told_more = self._tell(contents)
        known = self.keys, self.computed, self.graded, self.plain, self.leaves & computed, self.depends  # fmt: skip
        same = told == known and not told_more
        carries = keys or self.owners  # a history from one iteration to the next
        if same and not (carries and new) and rewritten.keys() == self.rewritten.keys():
            return False
        self.outside += new
        self.rewritten = dict(rewritten)
        self.keys, self.computed, self.graded, self.plain, self.leaves, self.depends = told
        return True


def _nothing() -> torch.Tensor:
    """A leaf outside of a loop by which what iterations compute of leaves of their own has a history: nothing leads to it."""
    with torch.no_grad():
        x: Any = torch.zeros(())
    torch.Tensor.requires_grad_(x)
    x.token_ = None  # no leaf of the code's
    return x


def _check_view(x: torch.Tensor, location: Location | None) -> None:
    """An error for a view by which a trace of a loop's body gave a history to a tensor that has none before the loop."""
    if x._base is None or x._base.requires_grad or not x.requires_grad:
        return
    try:
        _ = x.is_leaf
    except RuntimeError:  # an assertion of torch's, which looks for the history of the tensor
        error = GradientError(_BY_A_VIEW, location)
        error.apart = True
        raise error from None


_BY_A_VIEW = (
    "a staged loop writes a tensor that requires no grad before it by a view from before it (`v = y[0]`, then `v += x` in the loop), with what requires grad. "
    "Write the tensor itself (`y[0] += x`), or take the view in the loop."
)


def _written_before(storage: Storage, owner: torch.Tensor, location: Location | None) -> None:
    """An iteration begins: earlier ones may have written a tensor of the caller."""
    graph = current_graph()
    flag = stale.wrote_earlier(lambda: graph.reference(storage), graph, location)
    histories.note_outside(storage, owner)
    stale.bump(owner, graph, flag, location)


def tell_writes(node: Node, graph: FuncGraph) -> None:
    """Give the body of a ``While`` that was recorded just now what it asks of the writes of earlier iterations."""
    body = node.regions["body"]
    for asked in [n for n in body.nodes if n.op == stale.WROTE]:
        last = last_trip(node, body.inputs.index(asked.args[0]), graph.graph)
        asked.op, asked.args = "py.ge", (body.inputs[last.index], 0)


def _memory(x: torch.Tensor) -> int:
    return id(x.storage_) if isinstance(x, structure.SymTensor) else id(x)


def _values(content: Any, graph: FuncGraph) -> set[Value]:
    """The values of a graph that are in a content."""
    if isinstance(content, structure.Ref):
        return {content.value}
    found = loop_contents.tensors_of(content)
    return {v for v, x in graph.sources.items() if any(x is y for y in found)}


def _uses(graph: Graph, grad: bool) -> set[Value]:
    """What a graph uses where gradients can follow, and where they cannot: there it takes a gradient, most often."""
    found = set(graph.outputs) if grad else set()
    for node in graph.nodes:
        if node.grad == grad and not node.regions:
            found.update(node.inputs)
        for region in node.regions.values():
            inner = _uses(region, grad)
            found.update(a for a, v in zip(node.args[lead(node) :], region.inputs) if v in inner)
    return found


def _whole(x: torch.Tensor) -> torch.Tensor:
    """What a tensor is a view of, also where torch does not say it: of one that was saved."""
    x = x if x._base is None else x._base
    if not isinstance(x, structure.SymTensor) or not x.chain:
        return x
    storage = x.storage_
    given = storage.owner if storage.argument is not None else storage.external
    return x if given is None or not given.requires_grad else given
