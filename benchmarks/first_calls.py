"""What the first calls of programs cost, in processes of their own with an empty cache: conversion, traces, passes, LLVM.

Processor time of each of the first four calls on one thread, the least of ``--rounds``: some things are compiled by the second call or the third. ``--beside FOLDER``
measures another checkout in turn with this one, and shows what this one takes of its time. Machines are shared: read the ratios.
Usage: ``python benchmarks/first_calls.py [NAME...] [--rounds 3] [--beside FOLDER]``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import tograph as tg  # in a process that measures, of the checkout that PYTHONPATH names

HERE = Path(__file__).parent
CALLS = 4


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        parts = self.qkv(self.before(x)).view(n, t, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.mix(y.reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


def transformer():
    """A loop of training over batches, with AdamW and clipped gradients."""
    model = nn.Sequential(nn.Embedding(64, 32), Block(), nn.LayerNorm(32), nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def train(data, n):
        loss = torch.zeros(())
        for i in range(n):
            logits = model(data[i, :, :-1])
            loss = F.cross_entropy(logits.reshape(-1, 64), data[i, :, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.detach()

    return train, (torch.randint(0, 64, (5, 4, 17)), torch.tensor(3))


def perceptron():
    """One step of Adam."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 16), torch.randint(0, 4, (8,)))


def recurrent():
    """A GRU over a length that the run knows, and its gradients."""
    cell, head = nn.GRUCell(16, 32), nn.Linear(32, 4)
    parameters = [*cell.parameters(), *head.parameters()]

    def gradients(x, n, y):
        h, states = torch.zeros(x.shape[1], 32), []
        for t in range(n):
            h = cell(x[t], h)
            states.append(h)
        loss = F.mse_loss(head(torch.stack(states).mean(0)), y)
        return loss.detach(), torch.autograd.grad(loss, parameters)

    return gradients, (torch.randn(12, 8, 16), torch.tensor(10), torch.randn(8, 4))


def exits():
    """Branches and early exits over eight layers."""
    layers = [nn.Linear(8, 8) for _ in range(8)]

    def run(x, least):
        for i, layer in enumerate(layers):
            x = torch.relu(layer(x))
            if x.max() < least:
                return x, i
            if x.sum() > 100:
                break
        return x, -1

    return run, (torch.randn(4, 8), torch.tensor(0.01))


PROGRAMS = {f.__name__: f for f in (transformer, perceptron, recurrent, exits)}


def work(name):
    """In a process of its own: the time of each call."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    function, args = PROGRAMS[name]()
    staged, times = tg.function(function), []
    for _ in range(CALLS):
        start = time.process_time()
        staged(*args)
        times.append(time.process_time() - start)
    print(json.dumps(times))


def measure(name, folder):
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TOGRAPH_CACHE_DIR": cache, "PYTHONPATH": str(folder)}
        command = [sys.executable, __file__, "--work", name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--work")
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    print("| program | first call ms | next calls ms | together ms | of the other's |\n|---|--:|---|--:|--:|")  # fmt: skip
    for name in options.names:
        folders = [HERE.parent, *([options.beside] if options.beside else [])]
        rounds = [[measure(name, folder) for folder in folders] for _ in range(options.rounds)]
        best = [[1e3 * min(t) for t in zip(*r)] for r in zip(*rounds)]
        first, *later = best[0]
        share = f"{sum(best[0]) / sum(best[1]):.2f}" if len(best) > 1 else ""
        shown = ", ".join(f"{t:.1f}" for t in later)
        print(f"| {name} | {first:.0f} | {shown} | {sum(best[0]):.0f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
