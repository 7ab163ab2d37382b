"""Sequences of different lengths in one tensor: ``torch.nn.utils.rnn.pad_sequence`` and what packs and unpads them.

Torch asks each sequence for its length in C++. Where only the run knows one, or how many sequences there are, the result is as long as the
longest of them, and each is written to its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.utils import rnn

from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values.structure import is_growing, is_union
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..conversion import converted
from ..registry import handles

_plain = rnn.pad_sequence


@handles(rnn.pad_sequence)
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    if not is_tracing() or not isinstance(sequences, Iterable):
        return _plain(sequences, batch_first, padding_value, padding_side)
    if is_union(sequences) or union.holds_union([batch_first, padding_value, padding_side], {}):
        return union.apply(pad_sequence, sequences, batch_first, padding_value, padding_side)
    rows = sequences if is_growing(sequences) else call(list, sequences)
    if not is_growing(rows) and all(_is_known(s) for s in rows):
        return _plain(rows, batch_first, padding_value, padding_side)
    return converted(_padded)(rows, batch_first, padding_value, padding_side)


def _is_known(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or all(type(n) is int for n in x.shape)


def _padded(sequences, batch_first, padding_value, padding_side):
    count = len(sequences)
    if count == 0:
        raise ValueError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    first = sequences[0]
    longest = max([s.size(0) for s in sequences])
    size = (count, longest) if batch_first else (longest, count)
    out = first.new_full((*size, *first.shape[1:]), padding_value)
    for i, s in enumerate(sequences):
        n = s.size(0)
        start = longest - n if padding_side == "left" else 0
        row = out[i] if batch_first else out[:, i]
        row[start : start + n] = s
    return out


DECIDING.update((_padded, rnn.pack_sequence, rnn.unpad_sequence))
