"""Calls with an object that is made for each call, beside eager PyTorch, and beside tograph where such objects are constants: python benchmarks/call_objects.py.

CPU time of one thread a call. The kinds take turns; times are medians. Prints a Markdown table.
"""

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

os.environ["TOGRAPH_CACHE_DIR"] = tempfile.mkdtemp()

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

import tograph as tg

NET = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))


@dataclass
class State:
    x: torch.Tensor
    v: torch.Tensor
    t: float


def simulated(state, rate):
    """A step of an integrator, which gives a new state."""
    v = state.v + rate * NET(state.x)
    if v.abs().max() > 1:
        v = v / v.abs().max()
    return State(state.x + rate * v, v, state.t + rate)


def solved(f, y):
    """Heun's method until the step is small."""
    n, step = 0, torch.tensor(1.0)
    while step > 1e-3 and n < 40:
        first = f(y)
        moved = 0.05 * (first + f(y + 0.1 * first))
        y, n, step = y + moved, n + 1, moved.abs().max()
    return y


def sampled(x, generator):
    """Langevin steps until one is far out."""
    n = 0
    while x.abs().max() < 3 and n < 40:
        x, n = 0.99 * x + 0.1 * torch.randn(8, generator=generator), n + 1
    return x


class Model:
    def __init__(self):
        self.rate = torch.tensor(0.5)

    def slope(self, y):
        return -self.rate * y


MODEL, X, V = Model(), torch.linspace(-1, 1, 8), torch.zeros(8)
CASES = {
    "a dataclass": (simulated, lambda i: (State(X, V, 0.1 * i), 0.1)),
    "a closure": (solved, lambda i: (lambda y: -y * (1 + i % 7 / 8), X)),
    "a bound method": (solved, lambda i: (MODEL.slope, X)),
    "a generator": (sampled, lambda i: (X, torch.Generator().manual_seed(i))),
}


def timed(function, args):
    start = time.thread_time()
    function(*args)
    return time.thread_time() - start


def constants(function):
    """A function that takes all objects for constants."""
    made = tg.function(function)
    made.records.refuse()
    made.stand_ins.refused = True
    return made


def row(name, calls):
    function, make = CASES[name]
    kinds = [function, tg.function(function), constants(function)]
    args = [make(i) for i in range(20)]
    for kind in kinds[:2]:
        for given in args:
            kind(*given)
    turns = [[timed(kind, make(i)) for kind in kinds] for i in range(calls)]
    eager, now, traced = map(statistics.median, zip(*turns))
    print(f"| {name} | {now * 1e6:.0f} | {eager / now:.2f} | {traced / now:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    logging.getLogger("tograph").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    print("| made for each call | tograph µs | eager / tograph | traced at each call / tograph |\n|---|--:|--:|--:|")  # fmt: skip
    with torch.no_grad():
        for name in CASES:
            row(name, options.calls)


if __name__ == "__main__":
    main()
