"""Sequences whose lengths, or whose number, only the run knows, padded to one tensor."""

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence, unpad_sequence

import tograph as tg


def parts(x, n):
    return pad_sequence([x[:n], x[n:] * 2, x[1:3]], batch_first=True, padding_value=-1)


def columns(x, n):
    return pad_sequence((x[:n, 0], x[n:, 1]), padding_side="left"), pad_sequence(x), n


def grown(x, n):
    out = []
    for i in range(n):
        out.append(x[i:] * i)
    return pad_sequence(out, True, 0.5, "left"), pad_sequence(out, padding_value=float(n))


def generated(x, n):
    return pad_sequence(row[:n] for row in x)


def chosen(x, n):
    rows = [x[:n], x] if n > 1 else [x[1:], x, x]
    return pad_sequence(rows)


def packed(x, n):
    found, lengths = pad_packed_sequence(pack_sequence([x[n:], x[n + 1 :]]))
    return found, lengths, *unpad_sequence(found, lengths)


def results(f, x, n):
    x = x.clone().requires_grad_()
    y = f(x, n)
    y = y if isinstance(y, (tuple, list)) else [y]
    y = [t if isinstance(t, torch.Tensor) else torch.tensor(t) for t in y]
    sum((t * t).sum() for t in y if t.requires_grad).backward()
    return [*y, x.grad]


@pytest.mark.parametrize("program", [parts, columns, grown, generated, chosen, packed])
def test_values_and_gradients(program):
    torch.manual_seed(0)
    f, x = tg.function(program), torch.randn(5, 3)
    for n in map(torch.tensor, (1, 2, 3)):
        torch.testing.assert_close(results(f, x, n), results(program, x, n), check_stride=True)
    assert f.trace_count == 1


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda x, n: pad_sequence([x[i:] for i in range(n)]), "empty list of sequences"),
        (lambda x, n: pad_sequence([x[n:]], padding_side="up"), "one of left or right"),
    ],
)
def test_errors(program, error):
    for f in (program, tg.function(program)):
        with pytest.raises((ValueError, RuntimeError), match=error):
            f(torch.ones(3), torch.tensor(0))
