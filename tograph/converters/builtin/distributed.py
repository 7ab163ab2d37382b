"""``torch.distributed`` in converted code: what is sent and received between two ranks, and ``DistributedDataParallel``.

Collectives (``dist.all_reduce`` and its kind) need no form: they are ops (``runtime.recording.collectives``).

What ``isend`` and ``irecv`` give is a request of the trace, whose ``wait`` is an op.

A module under ``DistributedDataParallel`` is called with parameters behind one function whose gradient is that of all ranks, averaged. So
the collectives are ops of the backward graph, inside of a staged loop too. The reducer of C++, which counts hooks of the parameters, has no part in it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from ...errors import UnsupportedOpError
from ...runtime.recording import collectives
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ..calls import call
from ..registry import handles


def _posted(f: Any) -> Any:
    """A form of ``isend`` or ``irecv``: the request, None of a rank that is not in the group."""

    @functools.wraps(f)
    def form(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return f(*args, **kwargs)
        with collectives.posting() as requests:
            f(*args, **kwargs)
        return requests[0] if requests else None

    return form


def _batch(p2p_op_list):
    if not is_tracing():
        return dist.batch_isend_irecv(p2p_op_list)
    dist.distributed_c10d._check_p2p_op_list(p2p_op_list)
    with collectives.posting() as requests:
        for p in p2p_op_list:
            peer = "group_dst" if p.op is dist.isend else "group_src"
            p.op(p.tensor, group=p.group, tag=p.tag, **{peer: p.group_peer})
    return requests


# They send what pickle writes, and read how much that is.
_OBJECTS = (
    "all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list",
    "send_object_list", "recv_object_list",
)  # fmt: skip


def _refused(f: Any) -> Any:
    @functools.wraps(f)
    def form(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            raise UnsupportedOpError(
                f"torch.distributed.{f.__name__} sends Python objects, which a graph does not have: call it outside of the function, or send tensors",
                user_location(),
            )
        return f(*args, **kwargs)

    return form


if dist.is_available():
    for _label in _OBJECTS:
        handles(getattr(dist, _label))(_refused(getattr(dist, _label)))
    for _function in (dist.isend, dist.irecv):
        handles(_function)(_posted(_function))
    handles(dist.batch_isend_irecv)(_batch)


# ---- data parallel modules


class _Averaged(torch.autograd.Function):
    """The parameters; their gradients are the averages of those of all ranks."""

    @staticmethod
    def forward(ctx: Any, group: Any, *parameters: torch.Tensor) -> Any:
        ctx.group = group
        return tuple(p.view_as(p) for p in parameters)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        found = []
        for grad in grads:
            grad = grad / dist.get_world_size(ctx.group)
            dist.all_reduce(grad, group=ctx.group)
            found.append(grad)
        return (None, *found)


_MODES = {
    "_comm_hooks": "a communication hook",
    "mixed_precision": "mixed_precision",
    "_delay_all_reduce_all_params": "delay_all_reduce_named_params",
    "_use_python_reducer": "the Python reducer",
}


def _refuse(m: DistributedDataParallel) -> None:
    """UnsupportedOpError for ways of reducing gradients that a graph does not have."""
    found = [text for name, text in _MODES.items() if getattr(m, name, None)]
    if m._join_config.enable:
        found.append("join()")
    if found:
        raise UnsupportedOpError(
            f"DistributedDataParallel with {found[0]} cannot be part of a graph: call the module that it wraps, and reduce "
            "its gradients by torch.distributed.all_reduce",
            user_location(),
        )


@handles(DistributedDataParallel.forward)
def _data_parallel(m, *inputs, **kwargs):
    if not is_tracing():
        return DistributedDataParallel.forward(m, *inputs, **kwargs)
    _refuse(m)
    if m.will_sync_module_buffers():
        with torch.no_grad():
            for buffer in m.modules_buffers:
                dist.broadcast(buffer, group=m.process_group, group_src=0)
    if m.device_ids:
        inputs, kwargs = tree_map(_mover(m), (inputs, kwargs))
    if not (torch.is_grad_enabled() and m.require_backward_grad_sync):
        return call(m.module, *inputs, **kwargs)
    named = _reduced(m)
    averaged = call(_Averaged.apply, m.process_group, *named.values())
    return call(torch.func.functional_call, m.module, dict(zip(named, averaged)), inputs, kwargs)


def _mover(m: DistributedDataParallel) -> Any:
    device = torch.device(m.device_type, m.device_ids[0])
    return lambda x: x.to(device) if isinstance(x, torch.Tensor) else x


def _reduced(m: DistributedDataParallel) -> dict[str, torch.Tensor]:
    """The parameters whose gradients the ranks share, by name."""
    ignored = m.parameters_to_ignore
    found = m.module.named_parameters()
    return {n: p for n, p in found if p.requires_grad and n not in ignored}
