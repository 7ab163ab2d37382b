"""What torch alone can do, in a plan: constants from the start, and library functions that write into given memory."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Node, Value
from ..graph.types import TensorType
from ..kernels.creators import CREATORS

_FILLS = {"zeros": 0, "ones": 1, "full": None}


def constant(node: Node) -> tuple | None:
    """(op, arguments, keywords) of a tensor whose content does not depend on any value; None for other nodes."""
    if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
        return None
    kind = node.outputs[0].type
    name = node.op.removeprefix("aten.").removesuffix(".default").removeprefix("new_").removesuffix("_like")  # fmt: skip
    if node.op.startswith("aten.") and name in _FILLS and None not in kind.shape:
        fill = _FILLS[name] if _FILLS[name] is not None else node.args[1]
        if not isinstance(fill, Value):
            given = {"dtype": kind.dtype, "device": torch.device(kind.device)}
            return "aten.full.default", (list(kind.shape), fill), given
    if node.op in CREATORS and not node.inputs:
        return node.op, node.args, node.kwargs
    return None


# Ops whose CUDA kernels assert that positions are in range, or values sane: one that fails makes the process's CUDA context
# unusable, so that they only run on the data that the program gives them, where the program runs them.
ASSERTS = frozenset(["index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl", "index_select", "index_add", "index_copy", "index_fill",
    "index_reduce", "gather", "scatter", "scatter_add", "scatter_reduce", "take", "put", "embedding", "embedding_dense_backward",
    "embedding_renorm", "_embedding_bag", "_embedding_bag_forward_only", "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward",
    "multi_margin_loss", "max_unpool2d", "max_unpool3d", "_ctc_loss", "binary_cross_entropy", "multinomial", "bernoulli"])  # fmt: skip


def asserts(op: str) -> bool:
    """Whether a library function may stop the device on data that it was not meant for."""
    return op.startswith("aten.") and op.split(".")[1].removesuffix("_") in ASSERTS


def wanted(op: str, args: Any) -> list[bool]:
    """Which of its results a backward function gives, by its ``output_mask``; the others are None, which its ``out`` form cannot write. Empty where it gives all."""
    for a, given in zip(ops.overload(op)._schema.arguments, args):
        if a.name in _MASKS and isinstance(given, (list, tuple)) and not all(given):
            return list(given)
    return []


_MASKS = ("output_mask", "grad_input_mask")


@functools.cache
def out_form(op: str) -> Any:
    """The overload of an ATen op that writes into given tensors; None where there is none."""
    if not op.startswith("aten."):
        return None
    plain = ops.overload(op)._schema
    wanted = [(a.name, str(a.type)) for a in plain.arguments]
    packet = getattr(torch.ops.aten, op.split(".")[1])
    roomier = None  # one that takes more arguments, which may be left out
    for name in packet.overloads():
        form = getattr(packet, name)
        outs = [a for a in form._schema.arguments if a.is_out]
        given = [a for a in form._schema.arguments if not a.is_out]
        known = [(a.name, str(a.type)) for a in given]
        if not outs or [str(a.type) for a in outs] != [str(r.type) for r in plain.returns]:
            continue
        if known == wanted:
            return form
        more = [a for a, k in zip(given, known) if k not in wanted]
        if [k for k in known if k in wanted] == wanted and all(a.has_default_value() for a in more):
            roomier = roomier or form
    return roomier


# What torch is asked for when a library function is started, and a captured graph keeps: names of functions of ``torch._C``.
_SETTINGS = ("_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction", "_get_cublas_allow_fp16_accumulation",
    "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_enabled", "_get_deterministic_algorithms", "_get_blas_preferred_backend")  # fmt: skip


def settings() -> tuple[Any, ...]:
    """The precision and the algorithms that library functions are to have now: a graph that was captured with others is not what eager PyTorch does."""
    precision, asked = _questions()
    return (*(precision("cuda", op) for op in ("matmul", "conv", "rnn") if precision), *(ask() for ask in asked))  # fmt: skip


@functools.cache
def _questions() -> tuple[Any, list[Any]]:
    """As far as this version of torch knows them."""
    asked = [f for name in _SETTINGS if (f := getattr(torch._C, name, None)) is not None]
    return getattr(torch._C, "_get_fp32_precision_getter", None), asked
