"""Bytes beside a number of the run: items and ``in``; bytes that are made of it are refused."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()
KEPT = bytearray(b"kept")


@cases((2,), (0,), (-4,), (5,))
def items(n):
    return b"abca"[n] + 1, bytearray(b"wxyz")[n], KEPT[n]


@cases((97,), (2,), (-1,))
def within(n):
    return n in b"abc", n + 1 in KEPT, n not in b""


@cases((1,), (0,))
def no_number(n):
    return (n > 0.5) in b"\x01", n / 2 in b"ab"


test_same = cases.test()


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b"%d" % n,
        lambda n: b"%d|%d" % (n.item(), 1),
        lambda n: bytes(n),
        lambda n: bytes([n.item()]),
        lambda n: bytearray(n.item()),
        lambda n: b"abc"[:n],
        lambda n: b"abc" * n,
        lambda n: n.item() * bytearray(b"abc"),
    ],
)
def test_bytes_of_the_run_are_refused(make):
    with pytest.raises(StagingError, match="make the bytes outside of the function"):
        tg.function(make)(torch.tensor(2))
