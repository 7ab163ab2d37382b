"""The gradients of dynamic-length GRUs beside their forward pass, and of early exits, beside eager PyTorch: python benchmarks/gradients.py.

Prints ratios of the medians of interleaved runs: gradient / forward of the function, the same in eager, and both against eager. Where all
sequences are as long as the loop, the products of forward and backward pass alone are 2.5 times those of the forward pass.
"""

import statistics
import time

import torch

import tograph as tg
from tograph.bench import programs, workloads

BATCH, HIDDEN, STEPS = 32, 128, 50


def gru(cell, inputs, length):
    hidden = torch.zeros(BATCH, HIDDEN)
    t = 0
    while t < length:
        hidden = cell(inputs[t], hidden)
        t += 1
    return hidden.square().mean()


class EarlyExits(torch.nn.Module):
    """Four layers, each with a head; the first that is sure enough gives the result."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.heads = torch.nn.ModuleList(torch.nn.Linear(64, 10) for _ in range(4))

    def forward(self, x, sure):
        for layer, head in zip(self.layers, self.heads):
            x = torch.relu(layer(x))
            out = head(x)
            if out.softmax(-1).amax(-1).mean() > sure:
                break
        return out.square().mean()


def early_exits():
    """A step's gradients through the first and the last exit: tograph / eager."""
    model, x = EarlyExits(), torch.randn(16, 64)
    staged = tg.function(model)

    def step(f, sure):
        model.zero_grad()
        f(x, sure).backward()

    for name, sure in (("first", torch.tensor(0.0)), ("last", torch.tensor(2.0))):
        found = {model: [], staged: []}
        for _ in range(400):
            for f, times in found.items():
                times.append(timed(lambda f=f, sure=sure: step(f, sure)))
        eager, ours = (statistics.median(times[50:]) for times in found.values())
        print(f"{name} exit, forward and backward: tograph / eager = {ours / eager:.2f}")


def lengths():
    """Workload ``cg`` beside ``c``, on one thread and on two: rows of sequences that have ended have gradients of zeros."""
    given = [torch.from_numpy(x) for x in workloads.WORKLOADS["c"].inputs().values()]
    weights = [w.clone().requires_grad_() for w in given[2:]]
    function = tg.function(programs.gru)

    def gradient():
        torch.autograd.grad(function(*given[:2], *weights).sum(), weights)

    for threads in (1, 2):
        torch.set_num_threads(threads)
        found = [], []
        for _ in range(60):
            for run, times in zip((lambda: function(*given), gradient), found):
                times.append(timed(run))
        forward, both = (statistics.median(times[20:]) for times in found)
        print(f"sequences of different lengths, {threads} threads: gradient / forward = {both / forward:.2f}")  # fmt: skip


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cell = torch.nn.GRUCell(HIDDEN, HIDDEN)
    weights = list(cell.parameters())
    inputs, length = torch.randn(2 * STEPS, BATCH, HIDDEN), torch.tensor(STEPS)

    @tg.function
    def function(inputs, length):
        return gru(cell, inputs, length)

    def forward(f):
        with torch.no_grad():
            f()

    calls = {
        "tograph": lambda: function(inputs, length),
        "eager": lambda: gru(cell, inputs, length),
    }
    runs = {}
    for name, f in calls.items():
        runs[name, "forward"] = lambda f=f: forward(f)
        runs[name, "gradient"] = lambda f=f: torch.autograd.grad(f(), weights)
    found = {key: [] for key in runs}
    for _ in range(25):
        for key, run in runs.items():
            found[key].append(timed(run))
    middle = {key: statistics.median(times[5:]) for key, times in found.items()}
    for name in calls:
        print(
            f"{name}: gradient / forward = {middle[name, 'gradient'] / middle[name, 'forward']:.2f}"
        )
    for what in ("forward", "gradient"):
        print(f"{what}: tograph / eager = {middle['tograph', what] / middle['eager', what]:.2f}")
    early_exits()
    lengths()


if __name__ == "__main__":
    main()
