"""How a loop counts: by how much a number of its state changes in an iteration, and what of its inputs stays as it is."""

from __future__ import annotations

from .ir import Node


def step_of(loop: Node, i: int) -> int:
    """The constant by which each iteration changes input ``i`` of the regions; 0 where there is none."""
    body = loop.regions["body"]
    made = body.outputs[i].node if 0 <= i < loop.kwargs["carried"] else None
    if made is None or made.op not in ("py.add", "py.sub") or made.args[0] is not body.inputs[i]:
        return 0
    size = made.args[1] if type(made.args[1]) is int else 0
    return size if made.op == "py.add" else -size


def stays(loop: Node, i: int) -> bool:
    """Whether input ``i`` of the regions is the same in every iteration."""
    body = loop.regions["body"]
    return i >= loop.kwargs["carried"] or (i >= 0 and body.outputs[i] is body.inputs[i])
