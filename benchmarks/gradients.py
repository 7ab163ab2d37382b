"""The gradient of a dynamic-length GRU beside its forward pass, and beside eager PyTorch: python benchmarks/gradients.py.

Prints ratios of the medians of interleaved runs: gradient / forward of the function, the same in eager, and both against eager.
"""

import statistics
import time

import torch

import tograph as tg

BATCH, HIDDEN, STEPS = 32, 128, 50


def gru(cell, inputs, length):
    hidden = torch.zeros(BATCH, HIDDEN)
    t = 0
    while t < length:
        hidden = cell(inputs[t], hidden)
        t += 1
    return hidden.square().mean()


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


if __name__ == "__main__":
    main()
