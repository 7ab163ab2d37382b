"""``nn.RNN``, ``nn.GRU`` and ``nn.LSTM`` over a sequence whose length the graph finds out, or a long one: one loop for each layer and direction.

Torch's own layers take the steps one by one in C++, as many as there are while tracing: a graph of a loop is traced and compiled in
the time of one step. Short sequences go there, and what torch's own checks refuse; ``packed`` is for packed ones. The equations are those of torch's
documentation of the three classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from ...runtime.gradients.transforms import is_wrapped
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values.structure import is_union
from .. import union
from ..call_rules import DECIDING
from ..conversion import converted
from ..registry import handles

LONG = 8  # steps from which on a sequence of a known length is a loop
WIDE = 256  # columns from which on oneDNN's op for all steps of an LSTM is faster, where no gradient is taken


def _loops(m: nn.RNNBase, x: Any, hx: Any) -> bool:
    """Whether the steps are a loop of the graph."""
    if not is_tracing() or not isinstance(x, torch.Tensor) or x.dim() not in (2, 3):
        return False
    length = x.shape[1 if m.batch_first and x.dim() == 3 else 0]
    return isinstance(length, SYMBOLS) or (
        length >= LONG and _regular(m, x, hx) and not _one_op(m, x)
    )


def _one_op(m: nn.RNNBase, x: torch.Tensor) -> bool:
    """Whether torch has one fast op for all steps."""
    if not isinstance(m, nn.LSTM) or m.proj_size or m.hidden_size < WIDE:
        return False
    there = torch.backends.mkldnn.is_available() and x.dtype == torch.float32
    return there and not torch.is_grad_enabled()


def _regular(m: nn.RNNBase, x: torch.Tensor, hx: Any) -> bool:
    """Whether the arguments are what torch's checks let pass, on a CPU and outside of what wraps tensors or casts."""
    given = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
    if x.device.type != "cpu" or is_wrapped(x) or torch.is_autocast_enabled("cpu"):
        return False
    if hx is not None and len(given) != (2 if isinstance(m, nn.LSTM) else 1):
        return False
    if not all(isinstance(v, torch.Tensor) and v.dtype == x.dtype for v in (*given, m.weight_ih_l0)):  # fmt: skip
        return False
    batch = () if x.dim() == 2 else (x.shape[0 if m.batch_first else 1],)
    rows = m.num_layers * (2 if m.bidirectional else 1)
    sizes = (m.proj_size or m.hidden_size, m.hidden_size)
    shapes = [(rows, *batch, n) for n, _ in zip(sizes, given)]
    return x.shape[-1] == m.input_size and [tuple(v.shape) for v in given] == shapes


def _form(cls: type[nn.RNNBase]) -> None:
    plain = cls.forward

    @handles(plain)
    def forward(m, input, hx=None):
        if is_union(input) or is_union(hx):
            return union.apply(forward, m, input, hx)
        if isinstance(input, PackedSequence) and is_tracing():
            return converted(plain)(m, input, hx)
        if not _loops(m, input, hx):
            return plain(m, input, hx)
        return converted(_sequence)(m, input, hx)


for _cls in (nn.RNN, nn.GRU, nn.LSTM):
    _form(_cls)


def _sequence(m, x, hx):
    """All layers: (the last layer's output of each step, the final state)."""
    lstm, batched = isinstance(m, nn.LSTM), x.dim() == 3
    given = () if hx is None else hx if lstm else (hx,)
    if not batched:
        x, given = x.unsqueeze(1), tuple(s.unsqueeze(1) for s in given)
    elif m.batch_first:
        x = x.transpose(0, 1)
    if len(x) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if m.bidirectional else 1
    if hx is None:
        sizes = (m.proj_size or m.hidden_size, m.hidden_size)[: 2 if lstm else 1]
        rows = m.num_layers * directions
        given = tuple(x.new_zeros(rows, x.shape[1], size) for size in sizes)
    finals = []
    for layer in range(m.num_layers):
        outputs = []
        for d in range(directions):
            weights = m.all_weights[layer * directions + d]
            state = tuple(s[layer * directions + d] for s in given)
            output, state = _steps(m, x.flip(0) if d else x, state, weights)
            outputs.append(output.flip(0) if d else output)
            finals.append(state)
        x = torch.cat(outputs, -1) if m.bidirectional else outputs[0]
        if m.dropout and layer < m.num_layers - 1:
            x = F.dropout(x, m.dropout, m.training)
    state = tuple(torch.stack([f[i] for f in finals]) for i in range(len(given)))
    if not batched:
        x, state = x.squeeze(1), tuple(s.squeeze(1) for s in state)
    elif m.batch_first:
        x = x.transpose(0, 1)
    return x, state if lstm else state[0]


def _steps(m, x, state, weights):
    """One layer in one direction: (the outputs, the final state)."""
    w_input, w_state, *rest = weights
    b_input, b_state = rest[:2] if m.bias else (None, None)
    projection = rest[-1] if m.proj_size else None
    kind = f"rnn_{m.nonlinearity}" if isinstance(m, nn.RNN) else m.mode.lower()
    outputs = []
    for row in F.linear(x, w_input, b_input):
        step = F.linear(state[0], w_state, b_state)
        state = step_of(kind, row, step, state, projection)
        outputs.append(state[0])
    return torch.stack(outputs), state


def step_of(kind, row, step, state, projection):
    """The next state of ``kind`` (lstm, gru, rnn_tanh or rnn_relu) from what the input and the last output give."""
    if kind == "lstm":
        return _lstm(row + step, state[1], projection)
    if kind == "gru":
        return (_gru(row, step, state[0]),)
    total = row + step
    return (torch.tanh(total) if kind == "rnn_tanh" else torch.relu(total),)


def _lstm(gates, cell, projection):
    enter, forget, new, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
    hidden = torch.sigmoid(leave) * torch.tanh(cell)
    return (hidden if projection is None else F.linear(hidden, projection)), cell


def _gru(row, step, hidden):
    reset, update, new = row.chunk(3, -1)
    reset_step, update_step, new_step = step.chunk(3, -1)
    update = torch.sigmoid(update + update_step)
    new = torch.tanh(new + torch.sigmoid(reset + reset_step) * new_step)
    return (hidden - new) * update + new


# ---- cells: torch's own code fixes how many rows they are given


def _cell_class(cls: type[nn.Module]) -> None:
    plain = cls.forward

    @handles(plain)
    def forward(m, input, hx=None):
        given = hx if isinstance(hx, tuple) else (hx,)
        opened = is_tracing() and any(is_union(v) or _open(v) for v in (input, *given))
        return converted(plain)(m, input, hx) if opened else plain(m, input, hx)


def _cell_op(name: str) -> None:
    plain, kind = getattr(torch._VF, name), name.removesuffix("_cell")

    @handles(plain)
    def run(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        state = tuple(hx) if kind == "lstm" else (hx,)
        if not is_tracing() or not any(map(_open, (input, *state))):
            return plain(input, hx, w_ih, w_hh, b_ih, b_hh)
        made = converted(_cell)(kind, input, state, w_ih, w_hh, b_ih, b_hh)
        return made if kind == "lstm" else made[0]


def _open(x: Any) -> bool:
    """Whether it is a tensor of a size that only the run knows."""
    return isinstance(x, torch.Tensor) and any(isinstance(n, SYMBOLS) for n in x.shape)


def _cell(kind, x, state, w_ih, w_hh, b_ih, b_hh):
    """The next state, for as many rows as the input has."""
    for i, part in enumerate(state):
        if part.shape[0] != x.shape[0]:
            raise RuntimeError(f"Input batch size {x.shape[0]} doesn't match hidden{i} batch size {part.shape[0]}")  # fmt: skip
    row, step = F.linear(x, w_ih, b_ih), F.linear(state[0], w_hh, b_hh)
    return step_of(kind, row, step, state, None)


for _cls in (nn.RNNCell, nn.GRUCell, nn.LSTMCell):
    _cell_class(_cls)
for _name in ("rnn_tanh_cell", "rnn_relu_cell", "gru_cell", "lstm_cell"):
    _cell_op(_name)

DECIDING.update((_sequence, _steps, _cell))
