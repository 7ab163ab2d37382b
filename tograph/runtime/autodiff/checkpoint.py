"""Long loops in bounded memory: the state at the start of each segment is kept, the rest is computed again.

A ``While`` with ``checkpoint`` becomes, when its gradient is taken, a loop over segments, each a ``While`` with a bound on its
trips. The gradient of the outer loop keeps only its state; going back it runs a segment again, now with what its gradient
needs. ``checkpoint=n``: segments of n trips. ``"sqrt"``: the trip count need not be known, because segments grow: segment s
has 1 + 2 + ... + (s + 1) trips and is in turn a loop over segments of 1, 2, ..., s + 1 trips. N trips then keep three
times the cube root of 6 N states at most, and compute the forward pass three times.

The idea is that of A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation", Optimization Methods and Software 1 (1992).
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import graph_effects, prune, set_control_inputs
from ..graph.rewrite import copied, copy_node
from ..graph.types import BOOL, INT, TensorType
from ..symbols.funcgraph import FuncGraph
from .graphs import append, before
from .joint import Joint
from .parting import Parts

_TRIANGLE = "triangle"  # segments of 1, 2, 3, ... trips


def wanted(node: Node) -> bool:
    """Whether a loop is to be cut into segments: it can run again without another effect."""
    effects = graph_effects(node.regions["body"])
    again = not (effects.random or effects.io or effects.writes)
    return node.kwargs.get("checkpoint") is not None and again


def segment(node: Node, graph: FuncGraph) -> None:
    """Make a ``While`` a loop over segments of itself."""
    carried, schedule = node.kwargs["carried"], node.kwargs.pop("checkpoint")
    node.kwargs["recompute"] = True
    body, cond = node.regions["body"], node.regions["cond"]
    outer = Graph("body")
    outer.inputs = [Value(v.type) for v in body.inputs[:carried]] + [Value(INT)]
    outer.inputs += [Value(v.type) for v in body.inputs[carried:]]
    outer.input_names = [""] * len(outer.inputs)
    state, index, rest = outer.inputs[:carried], outer.inputs[carried], outer.inputs[carried + 1 :]
    limit = _limit(outer, index, schedule)
    kwargs: dict[str, Any] = {"carried": carried + 1}
    if schedule == "sqrt":
        kwargs["checkpoint"] = _TRIANGLE
    inner = Node(
        "While",
        (*state, append(outer, "py.constant", 0, type=INT), *rest, limit),
        kwargs,
        [*(v.type for v in node.outputs[:carried]), INT],
        regions={"cond": _bounded(cond, carried), "body": _counted(body, carried)},
        location=node.location,
    )
    outer.nodes.append(inner)
    outer.outputs = [*inner.outputs[:carried], append(outer, "py.add", index, 1, type=INT)]
    node.regions["body"] = outer
    cond.inputs = [*cond.inputs[:carried], Value(INT), *cond.inputs[carried:]]
    cond.input_names = [""] * len(cond.inputs)
    start = before(node, graph, "py.constant", 0, type=INT)
    node.args = (*node.args[:carried], start, *node.args[carried:])
    node.kwargs["carried"] = carried + 1
    node.outputs.append(Value(INT, node, len(node.outputs)))


def _limit(graph: Graph, index: Value, schedule: Any) -> Value:
    """The trips of segment ``index``."""
    if isinstance(schedule, int):
        return append(graph, "py.constant", schedule, type=INT)
    following = append(graph, "py.add", index, 1, type=INT)
    if schedule == _TRIANGLE:
        return following
    twice = append(
        graph, "py.mul", following, append(graph, "py.add", index, 2, type=INT), type=INT
    )
    return append(graph, "py.floordiv", twice, 2, type=INT)


def _inputs(graph: Graph, carried: int) -> tuple[Graph, Value, Value]:
    """A copy of a region with a trip counter behind its state and a bound at its end."""
    made, trips, limit = copied(graph, ordered=True), Value(INT), Value(INT)
    made.inputs = [*made.inputs[:carried], trips, *made.inputs[carried:], limit]
    made.input_names = [""] * len(made.inputs)
    return made, trips, limit


def _bounded(cond: Graph, carried: int) -> Graph:
    made, trips, limit = _inputs(cond, carried)
    test, more = made.outputs[0], append(made, "py.lt", trips, limit, type=BOOL)
    if isinstance(test.type, TensorType):
        test = append(made, "py.bool", test, type=BOOL)
    made.outputs = [append(made, "py.and_", test, more, type=BOOL)]
    return made


def _counted(body: Graph, carried: int) -> Graph:
    made, trips, _ = _inputs(body, carried)
    made.outputs = [*made.outputs[:carried], append(made, "py.add", trips, 1, type=INT)]
    return made


def recomputing(body: Graph, joint: Joint, carried: int) -> Parts:
    """``joint`` parted such that only the state at the start is saved: the backward part runs ``body`` again."""
    forward = copied(body, ordered=True)
    nodes = joint.forward + joint.backward
    ends = [g for g in joint.grads if g is not None] + list(joint.ways.values())
    env = {v: Value(v.type) for v in (*joint.inputs, *joint.cotangents)}
    backward = Graph(body.name + "_backward")
    backward.inputs = list(env.values())
    backward.nodes = [copy_node(n, env) for n in nodes]
    backward.outputs = [env[g] for g in ends]
    prune(backward)
    used = {v for n in backward.nodes for v in n.inputs} | set(backward.outputs)
    kept = [i for i, v in enumerate(joint.inputs) if i >= carried and env[v] in used]
    saved = [i for i, v in enumerate(joint.inputs) if i < carried and env[v] in used]
    backward.inputs = [env[joint.inputs[i]] for i in kept + saved] + [
        env[v] for v in joint.cotangents
    ]
    backward.input_names = [""] * len(backward.inputs)
    set_control_inputs(backward)
    values = [forward.inputs[i] for i in saved]
    present = [k for k, g in enumerate(joint.grads) if g is not None]
    asked = dict(zip(joint.ways, backward.outputs[len(present) :]))
    forward.outputs = forward.outputs + values
    return Parts(
        forward,
        backward,
        forward.inputs,
        kept,
        values,
        joint.given,
        present,
        joint.told,
        joint.saves,
        asked,
        joint.filled,
        joint.unsure,
    )
