"""Long loops over a plain `range`, as people write them, beside eager PyTorch, and beside tograph with these loops unrolled: python benchmarks/long_loops.py [--steps N].

CPU time of one thread; the disk cache is off for first calls. Prints a Markdown table; times of calls are medians of calls that took turns.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOGRAPH_CACHE_DIR"] = tempfile.mkdtemp()

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

import tograph as tg
from tograph.converters import long_loops

STEPS = 200


def annealing():
    def rastrigin(x):
        return (x**2 - 10 * torch.cos(2 * math.pi * x)).sum() + 10 * len(x)

    def search(x):
        heat, now = 5.0, rastrigin(x)
        best, found = now, x
        for _ in range(STEPS):
            other = x + 0.5 * torch.randn_like(x)
            value = rastrigin(other)
            if value < now or torch.rand(()) < torch.exp((now - value) / heat):
                x, now = other, value
                if now < best:
                    best, found = now, x
            heat *= 0.98
        return found, best

    return search, (torch.full((4,), 2.0),)


def training():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)

    def fit(x, y):
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return fit, (torch.randn(32, 8), torch.randn(32, 1))


def diffusion():
    net = nn.Sequential(nn.Linear(17, 64), nn.SiLU(), nn.Linear(64, 16))
    kept = torch.linspace(0.999, 0.01, STEPS)

    @torch.no_grad()
    def sample(x):
        for t in reversed(range(STEPS)):
            noise = net(torch.cat([x, torch.full((len(x), 1), t / STEPS)], 1))
            clean = ((x - (1 - kept[t]).sqrt() * noise) / kept[t].sqrt()).clamp(-3, 3)
            x = clean
            if t > 0:
                x = kept[t - 1].sqrt() * clean + (1 - kept[t - 1]).sqrt() * noise
        return x

    return sample, (torch.randn(8, 16),)


def timed(function, args):
    torch.manual_seed(1)
    start = time.thread_time()
    function(*args)
    return time.thread_time() - start


def first_call(make, long):
    """A function that was called twice, its arguments and the time of the first call; ``long``: whether long loops are staged."""
    torch.manual_seed(0)
    long_loops.WORTH = WORTH if long else math.inf
    plain, args = make()
    function = tg.function(plain)
    first = timed(function, args)
    for _ in range(10):
        function(*args)
    return function, args, first


def row(make, rounds):
    torch.manual_seed(0)
    eager, args = make()
    eager(*args)
    staged, of_staged, first = first_call(make, True)
    straight, of_straight, slow = first_call(make, False)
    calls = [(eager, args), (staged, of_staged), (straight, of_straight)]
    # the least of three in a row: the first one finds the caches full of what the others have used
    times = zip(*[[min(timed(*call) for _ in range(3)) for call in calls] for _ in range(rounds)])
    before, now, unrolled = map(statistics.median, times)
    print(
        f"| {make.__name__} | {now * 1e3:.3f} | {before / now:.0f} | {unrolled / now:.1f} | {first:.2f} | {slow:.1f} |",
        flush=True,
    )


WORTH = long_loops.WORTH


def main():
    global STEPS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    STEPS = options.steps
    torch.set_num_threads(1)
    print(
        "| loop | tograph ms | eager / tograph | unrolled / tograph | first call s | unrolled s |\n|---|--:|--:|--:|--:|--:|"
    )
    for make in (annealing, training, diffusion):
        row(make, options.rounds)


if __name__ == "__main__":
    main()
