"""Packed sequences and recurrent layers over them: lengths that are known while tracing, and lengths that the graph finds out."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpack_sequence,
)

import tograph as tg


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for part in x for t in tensors(part)] if isinstance(x, (list, tuple)) else []


def same(function, *calls):
    """One trace gives for every row of arguments what the plain function gives."""
    f = tg.function(function)
    for args in calls:
        expected, found = function(*args), f(*args)
        assert type(found) is type(expected)
        for a, b in zip(tensors(expected), tensors(found), strict=True):
            torch.testing.assert_close(b, a)
            assert b.stride() == a.stride()
    assert f.trace_count == 1


LAYERS = [
    (nn.LSTM, {}, True),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True}, False),
    (nn.LSTM, {"proj_size": 2}, True),
    (nn.LSTM, {"proj_size": 2}, False),
    (nn.GRU, {"bidirectional": True}, True),
    (nn.GRU, {"bidirectional": True}, False),
    (nn.GRU, {"bias": False}, False),
    (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}, True),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("cls", "options", "ordered"), LAYERS)
def test_layers_and_gradients(cls, options, ordered):
    torch.manual_seed(0)
    layer, x = cls(3, 4, batch_first=True, **options), torch.randn(3, 5, 3)

    def run(x, lengths):
        x = x.clone().requires_grad_()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=ordered)
        output, state = layer(packed)
        padded, lengths = pad_packed_sequence(output, batch_first=True)
        loss = padded.pow(2).sum() + tensors(state)[-1].sum()
        return padded, lengths, state, torch.autograd.grad(loss, [x, *layer.parameters()])

    rows = [[5, 3, 2], [2, 1, 1]] if ordered else [[2, 5, 3], [1, 1, 2]]
    same(run, *[(x, torch.tensor(row)) for row in rows])
    same(lambda x: run(x, rows[0]), (x,))


def test_packed_sequences_are_arguments_and_results():
    torch.manual_seed(0)
    layer, x = nn.LSTM(3, 4), torch.randn(5, 3, 3)
    same(lambda x, n: layer(pack_padded_sequence(x, n))[0], (x, torch.tensor([4, 3, 2])))
    packed = pack_padded_sequence(x, [1, 3, 2], enforce_sorted=False)
    same(lambda p: (layer(p), pad_packed_sequence(p)), (packed,))
    same(lambda a, b: pack_sequence([a, b], enforce_sorted=False), (x[:2, 0], x[:, 1]))
    same(
        lambda x, n: unpack_sequence(pack_padded_sequence(x, n, enforce_sorted=False)),
        (x, torch.tensor([2, 5, 1])),
    )


def test_padding():
    x = torch.arange(15).view(5, 3)

    def run(x, n):
        packed = pack_padded_sequence(x, n)
        return pad_packed_sequence(packed, batch_first=True, padding_value=1.5, total_length=7)

    same(run, (x, torch.tensor([4, 2, 2])), (x, torch.tensor([5, 5, 1])))
    same(lambda x: run(x, [4, 2, 2]), (x,))
    short = tg.function(lambda x, n: pad_packed_sequence(pack_padded_sequence(x, n), total_length=3))  # fmt: skip
    with pytest.raises(ValueError, match="Expected total_length to be at least the length"):
        short(x, torch.tensor([4, 2, 2]))


def test_known_lengths_stay_known_in_a_branch():
    torch.manual_seed(0)
    layer, x = nn.LSTM(3, 4), torch.randn(5, 3, 3).abs()

    def run(x, n):
        p = pack_padded_sequence(x, n)
        if x.sum() > 0:
            o, _ = layer(p)
        else:
            o, _ = layer(PackedSequence(p.data * 2, p.batch_sizes))
        return pad_packed_sequence(o)[0]

    same(lambda x: run(x, [4, 3, 2]), (x,), (-x,))
    same(run, (x, torch.tensor([4, 3, 2])), (-x, torch.tensor([3, 1, 1])))


def test_last_outputs_by_length():
    torch.manual_seed(0)
    layer, x = nn.GRU(3, 4, batch_first=True), torch.randn(3, 5, 3)

    def run(x, n):
        output, lengths = pad_packed_sequence(layer(pack_padded_sequence(x, n, True))[0], True)
        return output[torch.arange(3), lengths - 1]

    same(run, (x, torch.tensor([4, 3, 2])), (x, torch.tensor([5, 5, 5])))


def test_dropout_between_layers_draws_the_same_numbers():
    layer, x = nn.GRU(3, 4, num_layers=2, dropout=0.5), torch.randn(5, 3, 3)

    def run(x, n):
        torch.manual_seed(3)
        return layer(pack_padded_sequence(x, n))

    same(run, (x, torch.tensor([4, 3, 2])))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 3], "must be sorted in decreasing order"),
        ([2, 1, 0], "Length of all samples has to be greater than 0"),
        ([2, 1], "to be equal to batch_size, but got 2"),
    ],
)
def test_wrong_lengths(lengths, message):
    f = tg.function(lambda x, n: pack_padded_sequence(x, n).data)
    x = torch.ones(5, 3, 2)
    for n in (lengths, torch.tensor(lengths)):
        with pytest.raises(RuntimeError, match=message):
            f(x, n)


def test_data_that_is_too_short():
    layer, x = nn.LSTM(2, 4), torch.ones(5, 2, 2)
    f = tg.function(lambda x, n: layer(pack_padded_sequence(x, n))[0].data)
    with pytest.raises(RuntimeError, match="need more rows than its data has"):
        f(x, torch.tensor([7, 1]))
