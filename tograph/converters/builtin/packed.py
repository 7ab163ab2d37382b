"""Packed sequences: torch's ops that pack and pad them, and its recurrent layers over them.

Torch reads the lengths in C++. Where they are known while tracing (Python numbers, and what is made of them), torch itself says
which element goes where, and its layers take their steps while tracing. Else ``batch_sizes`` has as many items as the longest
sequence has steps, which the graph finds out: the packed data are the rows of the padded sequences where a mask (time, batch)
holds, in that order, and a layer is a loop over time in which a sequence keeps its state where the mask does not hold.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from ...runtime.inference.infer import meta_of, tensor_type
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ...runtime.symbols.known import UNKNOWN, known
from ...runtime.symbols.symbolic import SymTensor, value_of, wrap
from ..call_rules import DECIDING
from ..conversion import converted
from ..registry import handles
from .recurrent import step_of

_VF: Any = torch._VF
_PACK, _PAD = _VF._pack_padded_sequence, _VF._pad_packed_sequence


def _numbers(x: Any) -> torch.Tensor | None:
    """The content of a tensor that depends on constants only."""
    if not isinstance(x, SymTensor) or not x.meta.static:
        return None
    ref = x.ref  # in the graph that made it, where a branch of it sees an input
    unchanged = ref is not None and x.version == x.storage_.version
    found = known(ref.value if unchanged else value_of(x, current_graph()))
    return None if found is UNKNOWN else found


def _count(batch_sizes: Any) -> Any:
    """How many sequences there are, where that is known: as many as were packed, for none is empty."""
    numbers = _numbers(batch_sizes)
    if numbers is not None:
        return _untraced(numbers.tolist)[0]
    count, version = getattr(batch_sizes, _PACKED, (None, None))
    return count if version == batch_sizes.storage_.version else None


_PACKED = "packed_"  # (how many sequences, the version of the content that this was true of)


def _untraced(function: Any, *args: Any) -> Any:
    with _disable_current_modes():
        return function(*args)


def _constant(x: torch.Tensor) -> SymTensor:
    """A tensor of whole numbers that stays known, however long it is."""
    graph, meta = current_graph(), meta_of(x)
    data = (_untraced(x.tolist), x.dtype, x.device)
    return wrap(graph.emit("tg.constant", *data, type=tensor_type(meta)), meta, graph)


def _places(count: int) -> torch.Tensor:
    return _untraced(torch.arange, count)


def _check_vector(x: torch.Tensor) -> None:
    if x.dim() != 1 or x.dtype != torch.int64 or x.device.type != "cpu":
        kind = f"{x.dim()}D {x.device.type} {x.dtype}"
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {kind}")


@handles(_PACK)
def pack(x, lengths, batch_first):
    """``(data, batch_sizes)`` of padded sequences; their lengths do not increase."""
    if not is_tracing():
        return _PACK(x, lengths, batch_first)
    _check_vector(lengths)
    x = x.transpose(0, 1) if batch_first else x
    sizes, numbers = (x.size(0), x.size(1)), _numbers(lengths)
    if 0 in [n for n in x.shape if type(n) is int]:
        raise RuntimeError("Cannot pack empty tensors.")
    if numbers is None or not all(type(n) is int for n in sizes):
        data, batch_sizes = converted(_pack)(x, lengths)
        if type(sizes[1]) is int:
            setattr(batch_sizes, _PACKED, (sizes[1], batch_sizes.storage_.version))
        return data, batch_sizes
    grid = _untraced(_places(sizes[0] * sizes[1]).view, sizes)
    places, batch_sizes = _untraced(_PACK, grid, numbers, False)
    return x.flatten(0, 1).index_select(0, places.to(x.device)), _constant(batch_sizes)


def _pack(x, lengths):
    if lengths.size(0) != x.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size(0)} (batch_size={x.size(1)})"
        )
    if (lengths <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (lengths[1:] > lengths[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence to sidestep this requirement."
        )
    longest = int(lengths[0])
    batch_sizes = (torch.arange(longest).unsqueeze(1) < lengths).sum(1)
    steps = torch.arange(x.size(0)).unsqueeze(1)
    return x[(steps < lengths).to(x.device)], batch_sizes


@handles(_PAD)
def pad(data, batch_sizes, batch_first, padding_value, total_length):
    """``(padded, lengths)`` of packed sequences."""
    if not is_tracing():
        return _PAD(data, batch_sizes, batch_first, padding_value, total_length)
    _check_vector(batch_sizes)
    numbers, count = _numbers(batch_sizes), data.size(0)
    if numbers is None or type(count) is not int or type(total_length) is not int:
        count = _count(batch_sizes)
        padded, lengths = converted(_pad)(data, batch_sizes, count, padding_value, total_length)
    else:
        grid, lengths = _untraced(_PAD, _places(count), numbers, False, -1, total_length)
        padded = _spread(data, grid.to(data.device), padding_value)
        lengths = _constant(lengths)
    return padded.transpose(0, 1) if batch_first else padded, lengths


def _spread(data, grid, padding_value):
    """The rows of ``data`` at the places of a grid (time, batch); the padding where a place is negative."""
    rows = data.index_select(0, grid.clamp(min=0).flatten()).unflatten(0, grid.shape)
    there = (grid >= 0).view(*grid.shape, *[1] * (data.dim() - 1))
    return torch.where(there, rows, torch.full_like(data[:0].sum(), padding_value, dtype=data.dtype))  # fmt: skip


def _grid(data, batch_sizes, batch, steps):
    """Where each element (time, batch) of packed sequences is in their data; -1 where there is none."""
    if (batch_sizes[1:] > batch_sizes[:-1]).any():
        raise RuntimeError("the batch sizes of a packed sequence must not increase")
    if batch_sizes.sum() > data.size(0):
        raise RuntimeError(
            f"the batch sizes of a packed sequence need more rows than its data has: {data.size(0)}"
        )
    batch_sizes = F.pad(batch_sizes, (0, steps - batch_sizes.size(0)))
    mask = torch.arange(batch) < batch_sizes.unsqueeze(1)
    places = mask.flatten().cumsum(0).view(mask.shape) - 1
    return torch.where(mask, places, -1).to(data.device)


def _pad(data, batch_sizes, count, padding_value, total_length):
    count = int(batch_sizes[0]) if count is None else count
    grid = _grid(data, batch_sizes, count, total_length)
    return _spread(data, grid, padding_value), (grid >= 0).sum(0).cpu()


# ---- layers


def _layer(kind: str) -> None:
    plain = getattr(_VF, kind)

    @handles(plain)
    def run(*args):
        if not is_tracing() or not isinstance(args[3], (list, tuple)):  # not packed
            return plain(*args)
        data, batch_sizes, hx, *rest = args
        _check_vector(batch_sizes)
        numbers, count = _numbers(batch_sizes), _count(batch_sizes)
        hx = tuple(_of(h, count) for h in hx) if kind == "lstm" else _of(hx, count)
        if numbers is not None and type(data.size(0)) is int:
            return plain(data, numbers, hx, *rest)
        return converted(_layers)(kind, data, batch_sizes, hx, *rest)


def _of(state: torch.Tensor, count: int | None) -> torch.Tensor:
    """A state of this many sequences, where its own size says so only when the graph runs."""
    if count is None or type(state.size(1)) is int:
        return state
    return state.reshape(state.size(0), count, state.size(2))


for _kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _layer(_kind)


def _layers(kind, data, batch_sizes, hx, params, bias, layers, dropout, train, bidirectional):
    """What torch's op gives: the last layer's output of each step, packed, and the final states."""
    given = hx if kind == "lstm" else (hx,)
    batch, directions = given[0].size(1), 2 if bidirectional else 1
    if int(batch_sizes[0]) != batch:
        raise RuntimeError(
            f"the states are of {batch} sequences, but {int(batch_sizes[0])} are packed"
        )
    projected = kind == "lstm" and hx[0].size(2) != hx[1].size(2)
    width = (4 if bias else 2) + (1 if projected else 0)
    grid = _grid(data, batch_sizes, batch, batch_sizes.size(0))
    finals = []
    for layer in range(layers):
        outputs = []
        for d in range(directions):
            k = layer * directions + d
            state, weights = tuple(s[k] for s in given), params[k * width : (k + 1) * width]
            output, state = _steps(kind, data, grid, state, weights, bias, d == 1)
            outputs.append(output)
            finals.append(state)
        data = (torch.cat(outputs, -1) if bidirectional else outputs[0])[grid >= 0]
        if dropout and train and layer < layers - 1:
            data = F.dropout(data, dropout, True)
    state = tuple(torch.stack([f[i] for f in finals]) for i in range(len(given)))
    return (data, *state)


def _steps(kind, data, grid, state, weights, bias, reverse):
    """One layer in one direction: (the outputs, padded; the final state)."""
    w_input, w_state, *rest = weights
    b_input, b_state = rest[:2] if bias else (None, None)
    projection = rest[-1] if len(weights) % 2 else None
    rows, there = _spread(F.linear(data, w_input, b_input), grid, 0.0), grid >= 0
    if reverse:
        rows, there = rows.flip(0), there.flip(0)
    outputs = []
    for i in range(grid.size(0)):
        step = F.linear(state[0], w_state, b_state)
        after = step_of(kind, rows[i], step, state, projection)
        state = tuple(torch.where(there[i].unsqueeze(1), a, b) for a, b in zip(after, state))
        outputs.append(state[0])
    output = torch.stack(outputs)
    return output.flip(0) if reverse else output, state


DECIDING.update((_pack, _pad, _grid, _layers, _steps))
