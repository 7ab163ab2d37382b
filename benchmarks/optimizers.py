"""Optimisers' steps, and whole training steps, of one call each beside eager PyTorch: python benchmarks/optimizers.py [--rounds N].

CPU time of one thread: a shared machine interrupts. Prints a Markdown table; eager / tograph is a ratio of medians of calls that took turns.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

import tograph as tg

SGD, ADAM = torch.optim.SGD, torch.optim.Adam
OPTIMIZERS = {
    "SGD": lambda p: SGD(p, 1e-2), "SGD, momentum": lambda p: SGD(p, 1e-2, momentum=0.9), "Adam": ADAM, "AdamW": torch.optim.AdamW,
    "RMSprop": torch.optim.RMSprop, "Adagrad": torch.optim.Adagrad, "Adadelta": torch.optim.Adadelta, "NAdam": torch.optim.NAdam,
}  # fmt: skip
SIZES = {"60 of 64 x 64": (60, 64), "4 of 1000 x 1000": (4, 1000)}
TRAINED = {"SGD, momentum": OPTIMIZERS["SGD, momentum"], "Adam": ADAM}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


def perceptron():
    layers = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    return nn.Sequential(*layers), torch.randn(64, 64)


def convolutions():
    layers = (
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 196, 10),
    )
    return nn.Sequential(*layers), torch.randn(32, 1, 28, 28)


def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    layers = nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(64 * 16, 10)
    return nn.Sequential(*layers), torch.randn(16, 16, 64)


def recurrent():
    return Recurrent(), torch.randn(16, 12, 16)


def step_alone(make, count, size):
    """A step of an optimiser for parameters whose gradients are there."""
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(size, size)) for _ in range(count)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return make(parameters).step, parameters


def training_step(model, make):
    torch.manual_seed(0)
    module, x = model()
    target, optimizer = torch.randint(0, 10, (len(x),)), make(module.parameters())

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), target)
        loss.backward()
        optimizer.step()

    return step, list(module.parameters())


def timed(step):
    start = time.thread_time()
    step()
    return time.thread_time() - start


def row(name, build, rounds):
    """The Markdown row of a step that ``build`` makes twice, from one seed."""
    (eager, expected), (plain, found) = build(), build()
    staged = tg.function(plain)
    first = timed(staged)
    eager()
    for _ in range(8):  # state is made in the first, code is compiled in the second
        eager(), staged()
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    pairs = [(timed(eager), timed(staged)) for _ in range(rounds)]
    before, now = map(statistics.median, zip(*pairs))
    print(f"| {name} | {now * 1e3:.2f} | {before / now:.1f} | {first:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print("| step | tograph ms | eager / tograph | first call s |\n|---|--:|--:|--:|")
    for name, make in OPTIMIZERS.items():
        for size, (count, side) in SIZES.items():
            row(f"{name}, {size}", lambda: step_alone(make, count, side), rounds)  # noqa: B023
    for model in (perceptron, convolutions, encoder, recurrent):
        for name, make in TRAINED.items():
            row(f"training, {model.__name__}, {name}", lambda: training_step(model, make), rounds)  # noqa: B023


if __name__ == "__main__":
    main()
