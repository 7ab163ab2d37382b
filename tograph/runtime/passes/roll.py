"""Rolling: what a loop of Python left in a graph, its body many times over, becomes one ``While``.

A loop over a plain ``range`` is unrolled while it is traced. LLVM takes so long for thousands of nodes that such a graph would run op
by op for many calls, and stall in one of them. Where the nodes repeat (``periods``), each copy of the body takes what it needs from itself, from copies
before it, or from outside; what comes from copies before it is the state of the loop. A number that differs between the copies is computed from
the number of the iteration, or looked up. What all copies give to one ``stack`` is pushed on a list, and so may be what is used behind them otherwise.

Of several places where a body may begin the one with the least state is taken. The order of the nodes stays, so draws and failures do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, map_values
from ..graph.rewrite import Renaming, copied
from ..graph.types import ListType, ScalarType, TensorType, Type, is_static
from ..graph.uses import users
from .periods import VARYING, Stretch, stretches, written_over
from .select_late import SELECT, select_late
from .wiring import Back, Copies, Outside, Own, wired

LEAST = 8  # iterations
SAVED = 60  # nodes; fewer compile as fast as they are
STACKS = ("aten.stack.default", "aten.cat.default")
ROUNDS = 8  # loops of one graph
_COUNT = ScalarType(int)
_CPU = torch.device("cpu")


def roll(graph: Graph, watched: bool = False, saving: bool = False) -> Graph:
    """``graph`` with loops in the place of long repetitions.

    ``watched``: the gradient is to be taken of it, so that nodes go on to tell what they write over. ``saving``: a value of each copy that is
    used behind them is kept in a list, as a backward pass needs it that repeats itself.
    """
    select_late(graph, LEAST)
    for _ in range(ROUNDS):
        if len(graph.nodes) < SAVED or not _roll_one(graph, watched, saving):
            break
    if not watched:
        for n in graph.nodes:
            n.over = ()
        graph.over = ()
    return graph


def _roll_one(graph: Graph, watched: bool, saving: bool) -> bool:
    found = [
        copies
        for stretch in stretches(graph.nodes, LEAST, watched)
        if (copies := wired(graph, _least_state(graph, stretch), LEAST)) is not None
        and copies.period * (copies.count - 1) >= SAVED
    ]
    for keeps in (False, True) if saving else (False,):
        for copies in found:
            loop = _Loop(graph, copies, watched, keeps)
            if loop.plan() and not (watched and loop.overwritten()):
                loop.write()
                return True
    return False


def _least_state(graph: Graph, stretch: Stretch) -> Stretch:
    """The stretch from where the fewest values come from one period to the next."""
    start, period, length = stretch
    inside = graph.nodes[start : start + length + period]
    at = {v: i for i, n in enumerate(inside) for v in n.outputs}
    last = {v: i for i, n in enumerate(inside) for v in n.inputs if v in at}
    crossed = [0] * period
    middle = length // period // 2 * period
    for n in inside[middle : middle + period]:
        for v in n.outputs:
            for border in range(at[v] + 1, last.get(v, 0) + 1):
                crossed[border % period] += 1
    shift = min(range(period), key=crossed.__getitem__)
    return Stretch(start + shift, period, length - shift)


class _Loop:
    """One loop in the place of ``copies`` of its body."""

    def __init__(self, graph: Graph, copies: Copies, watched: bool, saving: bool):
        self.graph, self.copies, self.watched, self.saving = graph, copies, watched, saving
        self.states: dict[Back, None] = {}
        self.lists: dict[
            tuple[int, int], Node
        ] = {}  # the stack that takes this output of all copies
        self.last: dict[
            Value, tuple[Back, int]
        ] = {}  # for a value that is used behind the copies: a state, and which of its values
        self.saved: dict[
            tuple[int, int], None
        ] = {}  # outputs that are kept for what is behind the copies

    # ---- what the loop carries

    def plan(self) -> bool:
        """Find the state; whether what is used behind the copies can be had."""
        for uses in self.copies.uses:
            for use in uses:
                if isinstance(use, Back):
                    self.states[use] = None
        if self._outlets():
            return True
        self.copies.count -= 1  # the last copy stays, and with it what only the last one gives
        if self.copies.count >= LEAST and self._outlets():
            return True
        self.copies.count += 1
        return False

    def _outlets(self) -> bool:
        """Whether all that is used behind the copies is state, or goes to one stack."""
        copies = self.copies
        found = users(self.graph)
        self.last, self.lists, self.saved = {}, {}, {}
        for q in range(copies.period):
            for o in range(len(copies.node(0, q).outputs)):
                takers = [
                    self._takers(copies.node(k, q).outputs[o], found) for k in range(copies.count)
                ]
                stacks = {n for taken in takers for n in taken if n is not None and n.op in STACKS}
                if len(stacks) == 1 and self._from_list(q, o, stack := stacks.pop()):
                    takers = [[n for n in taken if n is not stack] for taken in takers]
                if not self._from_state(q, o, [k for k, taken in enumerate(takers) if taken]):
                    if not (self.saving and is_static(copies.node(0, q).outputs[o].type)):
                        return False
                    self.saved[q, o] = None
        return True

    def overwritten(self) -> bool:
        """Whether something behind the copies writes over a value of theirs that the loop does not give."""
        copies = self.copies
        after = self.graph.nodes[copies.start + copies.count * copies.period :]
        over = [*(v for n in after for v in n.over), *self.graph.over]
        return any(v.node is not None and copies.holds(v.node) and v not in self.last for v in over)

    def _takers(self, v: Value, found: dict[Value, list[Node | None]]) -> list[Node | None]:
        """Who uses a value behind the copies."""
        return [n for n in found.get(v, ()) if n is None or not self.copies.holds(n)]

    def _from_state(self, q: int, o: int, seen: Sequence[int]) -> bool:
        """Whether the values of output ``o`` of node ``q`` in the copies ``seen`` are in the state after the last one."""
        count = self.copies.count
        for state in self.states:
            if (
                seen
                and (state.node, state.output) == (q, o)
                and len(state.starts) >= count - seen[0]
            ):
                for k in seen:
                    self.last[self.copies.node(k, q).outputs[o]] = (state, count - 1 - k)
                return True
        return not seen

    def _from_list(self, q: int, o: int, stack: Node) -> bool:
        """Whether a stack takes the values of all copies, side by side, each once."""
        copies = self.copies
        values = [copies.node(k, q).outputs[o] for k in range(copies.count)]
        items, kind = stack.args[0], values[0].type
        if not is_static(kind) or stack in self.lists.values():
            return False
        if (
            stack.kwargs
            or (len(stack.args) > 1 and stack.args[1] != 0)
            or any(v.type != kind for v in items)
        ):
            return False
        at = items.index(values[0]) if values[0] in items else len(items)
        if items[at : at + len(values)] != values or len(
            set(values) & set(items[:at] + items[at + len(values) :])
        ):
            return False
        self.lists[q, o] = stack
        return True

    # ---- the loop

    def write(self) -> None:
        """Put the loop in the place of the copies."""
        copies, graph = self.copies, self.graph
        start, end = copies.start, copies.start + copies.count * copies.period
        before, after = graph.nodes[:start], graph.nodes[end:]
        loop = self._loop(before)
        names, first = Renaming(), self.first
        names.update((v, loop.outputs[first[state] + i]) for v, (state, i) in self.last.items())
        made = loop.outputs[len(loop.outputs) - len(self.lists) - len(self.saved) :]
        pushed = dict(zip(self.lists.values(), made))
        nodes: list[Node] = []
        kept = _Kept(self, [self._whole(key, v, nodes) for key, v in zip(self.saved, made[len(pushed) :])])  # fmt: skip
        for node in after:
            if node not in pushed:
                kept.fetch(node.inputs, names, nodes)
            if node in pushed:
                names[node.outputs[0]] = self._stacked(node, pushed[node], names, nodes)
            else:
                names.apply(node)
                node.over = tuple(map(names.of, node.over))
                nodes.append(node)
        kept.fetch(graph.outputs, names, nodes)
        graph.nodes = [*before, loop, *nodes]
        names.outputs(graph)
        graph.over = tuple(map(names.of, graph.over))

    def _loop(self, before: list[Node]) -> Node:
        """The loop; what it needs beforehand goes to the end of ``before``."""
        copies, model = self.copies, self.copies.node(self.copies.model, 0)
        lists = [self._begun(key, stack, before) for key, stack in self.lists.items()]
        for q, o in self.saved:
            kept = copies.node(0, q).outputs[o]
            lists.append(_add(before, "tg.list_of", (), ListType(kept.type), kept.node))
        body = _Body(self, before)
        starts = [v for state in self.states for v in state.starts]
        carried = [_COUNT, *(v.type for v in starts), *(v.type for v in lists)]
        body.write(carried)
        args = (0, *starts, *lists, *body.outside)
        cond = Graph("cond")
        cond.inputs = [Value(v.type) for v in body.graph.inputs]
        test = Node(
            "py.lt",
            (cond.inputs[0], copies.count),
            types=[ScalarType(bool)],
            location=model.location,
        )
        cond.nodes, cond.outputs = [test], [test.outputs[0]]
        regions = {"cond": cond, "body": body.graph}
        for region in regions.values():
            region.input_names = [""] * len(region.inputs)
        return Node("While", args, {"carried": len(carried)}, carried, regions=regions, location=model.location, grad=model.grad)  # fmt: skip

    @property
    def first(self) -> dict[Back, int]:
        """The position of the first value of each state among what the loop carries."""
        found, at = {}, 1
        for state in self.states:
            found[state] = at
            at += len(state.starts)
        return found

    def _begun(self, key: tuple[int, int], stack: Node, before: list[Node]) -> Value:
        """The list of what a stack takes before the first copy's value."""
        q, o = key
        value = self.copies.node(0, q).outputs[o]
        items = stack.args[0]
        return _add(
            before, "tg.list_of", tuple(items[: items.index(value)]), ListType(value.type), stack
        )

    def _stacked(self, stack: Node, pushed: Value, names: Renaming, nodes: list[Node]) -> Value:
        """What a stack gives, of the list that the loop has pushed on."""
        kind, items = stack.outputs[0].type, stack.args[0]
        q, o = next(key for key, s in self.lists.items() if s is stack)
        last = self.copies.node(self.copies.count - 1, q).outputs[o]
        for item in items[items.index(last) + 1 :]:
            pushed = _add(nodes, "tg.list_push", (pushed, names.of(item)), pushed.type, stack)
        element = last.type
        whole = TensorType(kind.dtype, (len(items), *element.shape), kind.device)
        args = (pushed, kind.dtype, element.shape, torch.device(kind.device))
        made = _add(nodes, "tg.list_stack", args, whole, stack)
        return (
            made
            if kind == whole
            else _add(nodes, "aten.view.default", (made, list(kind.shape)), kind, stack)
        )

    def _whole(self, key: tuple[int, int], items: Value, nodes: list[Node]) -> Value:
        """All values of an output that is kept, in one tensor."""
        q, o = key
        kind, like = self.copies.node(0, q).outputs[o].type, self.copies.node(0, q)
        whole = TensorType(kind.dtype, (self.copies.count, *kind.shape), kind.device)
        return _add(nodes, "tg.list_stack", (items, kind.dtype, kind.shape, torch.device(kind.device)), whole, like)  # fmt: skip


class _Kept:
    """The values that are kept for what is behind the copies: ``wholes`` are those of the outputs in ``loop.saved``, one after the other."""

    def __init__(self, loop: _Loop, wholes: Sequence[Value]):
        self.copies, self.wholes = loop.copies, dict(zip(loop.saved, wholes))

    def fetch(self, values: Sequence[Value], names: Renaming, nodes: list[Node]) -> None:
        """Select those among ``values``, right before they are needed, so that what repeats behind the copies has them in each of its own."""
        for v in values:
            found = self.copies.found(v) if self.wholes and v not in names else None
            if found is not None and found[0] < self.copies.count and found[1:] in self.wholes:
                k, *key = found
                names[v] = _add(nodes, SELECT, (self.wholes[*key], 0, k), v.type, v.node)


class _Body:
    """The body of a loop, written after the copy that is the model for all."""

    def __init__(self, loop: _Loop, before: list[Node]):
        self.loop, self.before, self.graph = loop, before, Graph("body")
        self.outside: dict[Value, Value] = {}  # the inputs that stand for values from outside
        self.numbers: dict[tuple[Any, ...], Value] = {}

    def write(self, carried: Sequence[Type]) -> None:
        loop, copies, graph = self.loop, self.loop.copies, self.graph
        state = [Value(t) for t in carried]
        self.count = state[0]
        first = loop.first
        made: list[Node] = []
        for q in range(copies.period):
            model = copies.node(copies.model, q)
            values = iter([self._value(use, state, first, made) for use in copies.uses[q]])
            made.append(self._copy(model, values, copies.numbers[q]))
        taken = [*loop.lists, *loop.saved]
        lists = state[len(state) - len(taken) :]
        pushed = [self._push(items, made[q].outputs[o]) for items, (q, o) in zip(lists, taken)]
        following = [
            v
            for s in loop.states
            for v in (
                made[s.node].outputs[s.output],
                *state[first[s] : first[s] + len(s.starts) - 1],
            )
        ]
        one = _add(graph.nodes, "py.add", (self.count, 1), _COUNT, made[0])
        graph.inputs = [*state, *self.outside.values()]
        graph.outputs = [one, *following, *pushed]

    def _value(
        self, use: Any, state: Sequence[Value], first: dict[Back, int], made: Sequence[Node]
    ) -> Value:
        if isinstance(use, Own):
            return made[use.node].outputs[use.output]
        if isinstance(use, Outside):
            return self.outside.setdefault(use.value, Value(use.value.type))
        return state[first[use] + len(use.starts) - 1]

    def _copy(self, model: Node, values: Iterator[Value], numbers: Sequence[int | float]) -> Node:
        take: Callable[[Value], Value] = lambda _: next(values)  # noqa: E731
        args, kwargs = map_values(take, model.args), map_values(take, model.kwargs)
        if len(set(map(repr, numbers))) > 1:
            where = VARYING[model.op][0]
            args = (*args[:where], self._number(numbers, model), *args[where + 1 :])
        regions = {name: copied(region) for name, region in model.regions.items()}
        types = [v.type for v in model.outputs]
        node = Node(
            model.op, args, kwargs, types, regions=regions, location=model.location, grad=model.grad
        )
        if self.loop.watched:
            node.over = tuple(node.inputs[i] for i in written_over(model) or ())
        self.graph.nodes.append(node)
        return node

    def _number(self, numbers: Sequence[int | float], model: Node) -> Value:
        """The number of this iteration."""
        key = tuple(map(repr, numbers))
        if key not in self.numbers:
            made = self._counted if isinstance(numbers[0], int) else self._looked_up
            self.numbers[key] = made(numbers, model)
        return self.numbers[key]

    def _counted(self, numbers: Sequence[Any], model: Node) -> Value:
        found, step = self.count, numbers[1] - numbers[0]
        if step != 1:
            found = _add(self.graph.nodes, "py.mul", (found, step), _COUNT, model)
        if numbers[0] != 0:
            found = _add(self.graph.nodes, "py.add", (found, numbers[0]), _COUNT, model)
        return found

    def _looked_up(self, numbers: Sequence[Any], model: Node) -> Value:
        kind = TensorType(torch.float64, (len(numbers),))
        table = _add(self.before, "tg.constant", (list(numbers), torch.float64, _CPU), kind, model)
        inside = self.outside.setdefault(table, Value(kind))
        nodes, cell = self.graph.nodes, TensorType(torch.float64, ())
        one = _add(nodes, "aten.select.int", (inside, 0, self.count), cell, model)
        return _add(nodes, "py.float", (one,), ScalarType(float), model)

    def _push(self, items: Value, v: Value) -> Value:
        return _add(self.graph.nodes, "tg.list_push", (items, v), items.type, v.node)


def _add(nodes: list[Node], op: str, args: tuple, kind: Type, like: Node | None) -> Value:
    """A new node at the end of ``nodes``, at the place in the user's code of another one; what it gives."""
    location = like.location if like else None
    nodes.append(Node(op, args, None, [kind], location=location, grad=like is None or like.grad))
    return nodes[-1].outputs[0]
