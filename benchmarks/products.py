"""Matrix products on all threads: tograph beside eager PyTorch.

In loops: a state times a weight that stays (``state``), and a weight's gradient that is added up (``gradient``). Most are a
few microseconds long, so that what counts is how threads share them: which parts each finds in its own cache.
One for each call, from small ones to those that no cache holds, in turn with eager PyTorch: as they are, with either factor turned, for several
matrices (``batch``), and with sizes that only the run knows (``open``). Writes tables to standard output.

    python benchmarks/products.py > benchmarks/results/products.md
"""

import math
import time

import torch

import tograph as tg

SIZES = [(32, 128, 384), (64, 128, 512), (128, 512, 128), (256, 256, 256), (1024, 64, 1024), (4096, 128, 384)]  # fmt: skip
ALONE = [(8, 64, 64), (64, 64, 64), (128, 32, 256), (128, 128, 256), (64, 256, 256), (64, 784, 512), (512, 512, 512), (128, 768, 3072), (128, 3072, 768), (1000, 500, 300), (32, 2048, 2048), (4, 4096, 4096)]  # fmt: skip
ROUNDS, WORK, SHORT = 9, 1e9, 1e8


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


def alone(rows, depth, columns):
    """(name, function, its arguments) of the forms of a product; each is followed by another op, so that it is no call of torch alone."""
    a, b, batch = torch.randn(rows, depth), torch.randn(depth, columns), torch.randn(4, depth, columns)  # fmt: skip
    at, bt = a.t().contiguous(), b.t().contiguous()
    for name, f, args in [
        ("a @ b", lambda a, b: (a @ b, a[0] * 2), (a, b)),
        ("a.t() @ b", lambda a, b: (a.t() @ b, a[0] * 2), (at, b)),
        ("a @ b.t()", lambda a, b: (a @ b.t(), a[0] * 2), (a, bt)),
        ("batch of 4", lambda a, b: (a @ b, a[0, 0] * 2), (a.expand(4, -1, -1).contiguous(), batch)),
        ("batch of 4, b turned", lambda a, b: (a @ b.transpose(1, 2), a[0, 0] * 2), (a.expand(4, -1, -1).contiguous(), batch.mT.contiguous())),
    ]:  # fmt: skip
        yield name, f, tg.function(f), args
    f, spec = (lambda a, b: (a @ b, a[0] * 2)), tg.TensorSpec
    for name, size in (("open rows", (None, depth)), ("open rows and depth", (None, None))):
        inner = spec((size[1], columns), torch.float32)
        yield name, f, tg.function(f, input_signature=[spec(size, torch.float32), inner]), (a, b)


def single() -> None:
    """The table of single products."""
    print("\n# Products for each call\n\nTime, tograph / eager PyTorch; the least of each.\n")
    print("| rows, depth, columns | form | eager PyTorch, us | ratio |\n| --- | --- | --- | --- |")
    for size in ALONE:
        for name, f, g, args in alone(*size):
            torch.testing.assert_close(g(*args), f(*args), rtol=1e-3, atol=1e-2)
            count = max(5, min(400, int(SHORT / math.prod(size))))
            times: list[list[float]] = [[], []]
            for _ in range(count):
                for run, found in zip((f, g), times, strict=True):
                    start = time.perf_counter()
                    run(*args)
                    found.append(time.perf_counter() - start)
            eager, ours = map(min, times)
            print(f"| {', '.join(map(str, size))} | {name} | {eager * 1e6:.0f} | {ours / eager:.2f} |", flush=True)  # fmt: skip


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
    single()


if __name__ == "__main__":
    main()
