"""Gradients of loops over the rows of a tensor, of Python loops that are unrolled, and of recurrent layers, by length: python benchmarks/rows.py.

Prints a Markdown table of tograph's time as a share of eager PyTorch's, medians of interleaved runs of forward and backward on one thread, and how often as long as
for the length before, which is four times less: 4 is linear.
"""

import statistics
import time

import torch
from torch import nn

import tograph as tg

LENGTHS = (50, 200, 800)
RUNS, WARM = 7, 3


def by_index(x, n):
    """``x[t]`` in a staged loop."""
    h, t = torch.zeros(8, 64), 0
    while t < n:
        h = torch.tanh(x[t] + h * 0.9)
        t += 1
    return h.square().mean()


def by_row(x, n):
    """The rows of a tensor, with an early end."""
    h = torch.zeros(8, 64)
    for row in x:
        h = torch.tanh(row + h * 0.9)
        if h.sum() > 1e9:
            break
    return h.square().mean()


CELL, GRU, LSTM = nn.GRUCell(64, 64), nn.GRU(64, 64), nn.LSTM(64, 64)


def unrolled(x, n):
    """A Python loop of as many steps as there are rows, which is unrolled while it is traced."""
    h = torch.zeros(8, 64)
    for t in range(len(x)):
        h = CELL(x[t], h)
    return h.square().mean()


def gru(x, n):
    """``nn.GRU``."""
    return GRU(x)[0].square().mean()


def lstm(x, n):
    """``nn.LSTM``."""
    return LSTM(x)[0].square().mean()


def step(f, x, n):
    start = time.perf_counter()
    f(x, n).backward()
    return time.perf_counter() - start


def measured(plain, length):
    """(tograph's time, eager PyTorch's), in seconds."""
    f, n = tg.function(plain), torch.tensor(length)
    x = torch.randn(length, 8, 64, requires_grad=True)
    for _ in range(WARM):
        step(f, x, n)
    found = [(step(f, x, n), step(plain, x, n)) for _ in range(RUNS)]
    return tuple(map(statistics.median, zip(*found)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("| program | rows | tograph / eager | tograph, to the length before | eager, to the length before |")  # fmt: skip
    print("| --- | --- | --- | --- | --- |")
    for plain in (by_index, by_row, unrolled, gru, lstm):
        before = None
        for length in LENGTHS:
            ours, eager = measured(plain, length)
            growth = ["", ""] if before is None else [f"{a / b:.1f}" for a, b in zip((ours, eager), before)]  # fmt: skip
            print(f"| {plain.__doc__.rstrip('.')} | {length} | {ours / eager:.3f} | {' | '.join(growth)} |", flush=True)  # fmt: skip
            before = ours, eager


if __name__ == "__main__":
    main()
