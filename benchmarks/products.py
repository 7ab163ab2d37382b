"""Matrix products in loops on all threads: tograph beside eager PyTorch.

Two forms: a state times a weight that stays (``state``), and a weight's gradient that is added up (``gradient``). Products are a
few microseconds long, so that what counts is how threads share them: which parts each finds in its own cache.
Writes a table to standard output.

    python benchmarks/products.py > benchmarks/results/products.md
"""

import time

import torch

import tograph as tg

SIZES = [(32, 128, 384), (64, 128, 512), (128, 512, 128), (256, 256, 256), (1024, 64, 1024), (4096, 128, 384)]  # fmt: skip
ROUNDS, WORK = 9, 1e9


def state(x, w, n):
    i, y = 0, x @ w
    while i < n:
        y = torch.tanh(x @ w)
        x = x + y[0, 0] * 1e-9
        i += 1
    return y


def gradient(x, g, n):
    i, w = 0, torch.zeros(x.shape[1], g.shape[1])
    while i < n:
        w = w + x.t() @ g
        g = g * 0.99
        i += 1
    return w


def gigaflops(run, work):
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return work / min(found) / 1e9


def main() -> None:
    torch.manual_seed(0)
    print(
        f"# Products in loops\n\nGFLOP/s on {torch.get_num_threads()} threads, best of {ROUNDS}.\n"
    )
    print("| program | rows, depth, columns | eager PyTorch | tograph | tograph / eager |")
    print("| --- | --- | --- | --- | --- |")
    for rows, depth, columns in SIZES:
        x, w, g = torch.randn(rows, depth), torch.randn(depth, columns) / depth, torch.randn(rows, columns)  # fmt: skip
        trips = max(3, int(WORK / (2 * rows * depth * columns)))
        n, work = torch.tensor(trips), trips * 2 * rows * depth * columns
        for f, args in ((state, (x, w, n)), (gradient, (x, g, n))):
            staged = tg.function(f)
            eager = gigaflops(lambda f=f, args=args: f(*args), work)
            ours = gigaflops(lambda f=staged, args=args: f(*args), work)
            print(f"| {f.__name__} | {rows}, {depth}, {columns} | {eager:.0f} | {ours:.0f} | {ours / eager:.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
