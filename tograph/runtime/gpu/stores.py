"""Variables that a CUDA graph writes where they are, instead of giving new values that the call copies.

A plan gives the new values of variables as outputs, so that one which fails has changed nothing. Where nothing in it can fail, and
nothing is left to the host, a variable that keeps its address is written by the graph itself: ``stored`` turns its output into a
copy at the end of the plan, which often goes (``coalescing``): then the kernel that computes the value writes it there. What
else may see the memory keeps a variable out: an output that is its old value, another input in the same storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .plan import Copy, Host, Place, Plan
from .steps import bases
from .storage import SLOT


def storable(plan: Plan) -> dict[int, Place]:
    """The numbers of the variables that a plan may write itself, each with the memory of its new value."""
    if plan.error is not None or any(isinstance(s, Host) for s, _ in plan.walk()):
        return {}
    of = bases(plan.steps)
    given = {of.get(v, v) for v in plan.outputs}
    found = {}
    for i, new in zip(plan.form.written, _new(plan), strict=True):
        old = _place(plan, i)
        if old is not None and old not in given and old.type == getattr(new, "type", None):
            found[i] = new
    return found


def _new(plan: Plan) -> list[Any]:
    """The new values of the variables: the last outputs."""
    return plan.outputs[len(plan.outputs) - len(plan.form.written) :]


def _place(plan: Plan, number: int) -> Any:
    """The memory of an input, if it is one tensor."""
    part = sum(len(f.types) for f in plan.form.inputs[:number])
    return plan.inputs[part] if len(plan.form.inputs[number].types) == 1 else None


def apart(inputs: Sequence[Any], numbers: Sequence[int]) -> list[int]:
    """Those of the inputs whose storage no other one shares, and that kernels may write at their address."""
    owners: dict[int, int] = {}
    for x in inputs:
        if isinstance(x, torch.Tensor):
            at = x.untyped_storage().data_ptr()
            owners[at] = owners.get(at, 0) + 1
    return [i for i in numbers if owners[inputs[i].untyped_storage().data_ptr()] == 1
            and inputs[i].data_ptr() % SLOT == 0 and not inputs[i].is_inference()]  # fmt: skip


def stored(plan: Plan, numbers: Sequence[int]) -> Plan:
    """The plan with these variables written by its steps."""
    new = storable(plan)
    copies = [Copy([(_place(plan, i), new[i])]) for i in numbers]
    kept = [(i, v) for i, v in zip(plan.form.written, _new(plan)) if i not in numbers]
    outputs = plan.outputs[: len(plan.outputs) - len(plan.form.written)]
    return replace(
        plan,
        steps=[*plan.steps, *copies],
        outputs=[*outputs, *(v for _, v in kept)],
        form=replace(plan.form, written=[i for i, _ in kept]),
        stored={_place(plan, i): i for i in numbers},
    )
