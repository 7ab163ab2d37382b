"""Memory of the gradient of a long loop: python benchmarks/checkpoint.py [steps].

A state of 1 MB goes through 10,000 steps under ``tg.set_loop_options(checkpoint="sqrt")``. Prints the most memory beyond
that before the call, and the time of the gradient beside that of the forward pass.
"""

import resource
import sys
import time

import torch

import tograph as tg


@tg.function
def simulate(x, a, n):
    for _ in range(n):
        tg.set_loop_options(checkpoint="sqrt")
        x = x + 0.001 * torch.sin(x * a)
    return x.mean()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    x, a = torch.randn(512, 512), torch.tensor(1.5, requires_grad=True)
    torch.autograd.grad(simulate(x, a, torch.tensor(3)), a)
    start = time.perf_counter()
    with torch.no_grad():
        simulate(x, a, torch.tensor(steps))
    forward = time.perf_counter() - start
    before, start = peak(), time.perf_counter()
    torch.autograd.grad(simulate(x, a, torch.tensor(steps)), a)
    took = time.perf_counter() - start
    print(
        f"{steps} steps of 1 MB: {peak() - before:.0f} MB; gradient / forward = {took / forward:.1f} ({took:.0f} s)"
    )


if __name__ == "__main__":
    main()
