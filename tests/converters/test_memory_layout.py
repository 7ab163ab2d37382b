"""What a program asks of how a tensor lies in memory is answered for the tensors of the call."""

import pytest
import torch

import tograph as tg

WAYS = [
    torch.arange(6.0).view(2, 3),
    torch.arange(6.0).view(3, 2).t(),
    torch.arange(12.0).view(2, 6)[:, ::2],
]


def flat(x):
    return x.view(-1) * 2 if x.is_contiguous() else x.reshape(-1) + 1


def steps(x):
    return x + x.stride(0), x.stride(), x.t().stride(1)


@pytest.mark.parametrize("function", [flat, steps])
def test_each_way_is_a_trace(function):
    f = tg.function(function)
    for _ in range(2):
        for x in [w for w in WAYS for _ in range(5)]:
            assert repr(f(x)) == repr(function(x))
    assert f.trace_count <= len(WAYS)


def test_sizes_may_stay_open():
    f = tg.function(flat, reduce_retracing=True)
    for n in range(2, 9):
        x = torch.arange(2.0 * n).view(2, n)
        assert torch.equal(f(x), flat(x))
    assert f.trace_count <= 3


def test_functions_that_do_not_ask_have_one_trace():
    f = tg.function(lambda x: x * 2)
    for x in WAYS:
        assert torch.equal(f(x), x * 2)
    assert f.trace_count == 1


def places(x):
    return x.storage_offset(), x[1:].storage_offset(), (x + 1).storage_offset()


def test_where_a_tensor_begins():
    f = tg.function(places)
    rows = [torch.ones(5), torch.ones(7)[2:], torch.ones(5, 2)[:, 1]]
    for x in (*rows, *rows):
        assert f(x) == places(x)
    assert f.trace_count == len(rows)
