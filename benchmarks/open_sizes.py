"""Calls whose sizes differ from call to call (``reduce_retracing=True``), and training on slices from places that the run draws: tograph's time as a share of
eager PyTorch's: python benchmarks/open_sizes.py.

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


TEXT, CONTEXT, BATCH = torch.randint(0, 65, (10_000,)), 32, 8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.between, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))  # fmt: skip

    def forward(self, x):
        rows, steps, _ = x.shape
        parts = self.attend(self.before(x)).view(rows, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # fmt: skip
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.feed(self.between(x))


class Letters(nn.Module):
    def __init__(self, width=64, letters=65):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, letters, bias=False))

    def forward(self, ids):
        return self.out(self.blocks(self.letters(ids) + self.places(torch.arange(CONTEXT))))


def of_slices():
    """Training a transformer on slices"""
    at = torch.randint(0, len(TEXT) - CONTEXT - 1, (BATCH,))
    return torch.stack([TEXT[i : i + CONTEXT] for i in at]), torch.stack([TEXT[i + 1 : i + CONTEXT + 1] for i in at])  # fmt: skip


def of_one_slice():
    """Training a transformer on one slice, cut in rows"""
    i = torch.randint(0, len(TEXT) - BATCH * CONTEXT - 1, ()).item()
    cut = TEXT[i : i + BATCH * CONTEXT + 1]
    return cut[:-1].view(BATCH, CONTEXT), cut[1:].view(BATCH, CONTEXT)


def by_indices():
    """Training a transformer on an index matrix"""
    at = torch.randint(0, len(TEXT) - CONTEXT - 1, (BATCH,))[:, None] + torch.arange(CONTEXT)
    return TEXT[at], TEXT[at + 1]


def training(batch):
    """Steps of AdamW that end early where the loss is small."""
    model = Letters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(steps):
        loss = torch.zeros(())
        for _ in range(steps):
            ids, targets = batch()
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss < 0.1:
                break
        return loss.detach()

    return train


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
    for batch in (of_slices, of_one_slice, by_indices):
        print(f"| {batch.__doc__} | {share(training(batch), [torch.tensor(5)]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
