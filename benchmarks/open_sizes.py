"""Calls whose sizes differ from call to call (``reduce_retracing=True``): tograph's time as a share of eager PyTorch's: python benchmarks/open_sizes.py.

Prints a Markdown table of medians of interleaved calls, in CPU time on one thread.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import tograph as tg

RUNS, WARM = 60, 12


def small(x):
    """One op on a few rows"""
    return torch.tanh(x)


def normalised(x):
    """Batch norm by hand"""
    y = (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-5)
    if y.max() > 10:
        y = y * 0.5
    return y


GATE = nn.Linear(64, 8).requires_grad_(False)
EXPERTS = [
    nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).requires_grad_(False)
    for _ in range(8)
]


def experts(x):
    """Mixture of experts"""
    share, chosen = GATE(x).softmax(-1).topk(2, -1)
    out = torch.zeros_like(x)
    for i, expert in enumerate(EXPERTS):
        rows, slot = torch.where(chosen == i)
        if rows.numel() > 0:
            out.index_add_(0, rows, expert(x[rows]) * share[rows, slot][:, None])
    return out


CELL, WORDS = nn.GRUCell(64, 64).requires_grad_(False), torch.randn(500, 64)


def greedy(h):
    """Greedy decoding, the tokens stacked"""
    found = []
    token = torch.zeros(len(h), dtype=torch.long)
    for _ in range(20):
        h = CELL(WORDS[token], h)
        token = (h @ WORDS.T).argmax(-1)
        found.append(token)
        if (token == 1).all():
            break
    return torch.stack(found, 1)


def beams(h):
    """Beam search"""
    score, found = torch.zeros(len(h)), torch.zeros(len(h), 1, dtype=torch.long)
    for _ in range(15):
        h = torch.tanh(h + WORDS[found[:, -1]])
        table = torch.log_softmax(h @ WORDS.T, -1) + score[:, None]
        score, chosen = table.flatten().topk(4)
        h = h[chosen // len(WORDS)]
        found = torch.cat([found[chosen // len(WORDS)], (chosen % len(WORDS))[:, None]], 1)
    return found


def tokens(ids):
    """A loss over batches of any size and length"""
    h = torch.tanh(WORDS[ids].cumsum(1))
    return F.cross_entropy((h @ WORDS.T)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def timed(f, x):
    start = time.thread_time()
    f(x)
    return time.thread_time() - start


def share(plain, inputs):
    """tograph's time as a share of eager PyTorch's."""
    f = tg.function(plain, reduce_retracing=True)
    for i in range(WARM):
        f(inputs[i % len(inputs)])
    found = [(timed(f, x), timed(plain, x)) for x in inputs * (RUNS // len(inputs))]
    ours, eager = map(statistics.median, zip(*found))
    return ours / eager


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [torch.randn(n, 64) for n in (16, 17, 20)]
    batches = [torch.randint(0, 500, size) for size in ((2, 5), (3, 7), (4, 6))]
    print("| program | tograph / eager |\n| --- | --- |")
    for plain in (small, normalised, experts, greedy, beams, tokens):
        print(f"| {plain.__doc__} | {share(plain, batches if plain is tokens else rows):.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
