"""Writing one row of a cache per step of a loop: tograph beside eager in place, and beside a version that copies.

The cache is 100 MB (``--rows``, ``--columns`` change it) and each of 1,000 steps writes one row. Three places for the
cache: an argument that the caller sees change, a captured tensor, and a value of the function itself. Time per run is the
median of ``--rounds``, taken in turn; bytes are those that the graph allocates and those that it copies, counted from
the sizes of what each op of the host program is given and gives. The copying version is the same graph without
the passes that write in place, for a few steps only, scaled. Machines are shared: read the ratios.
Usage: ``python benchmarks/inplace_cache.py``; writes ``benchmarks/results/inplace_cache.md``.
"""

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import tograph as tg  # noqa: E402
from tograph.runtime import passes  # noqa: E402
from tograph.runtime.execution import host  # noqa: E402


def argument(cache, x, n):
    for i in range(n):
        cache[i] = x * i
    return cache[0].sum()


def own(x, n, like):
    cache = torch.zeros_like(like)
    for i in range(n):
        cache[i] = x * i
    return cache[0].sum()


class Bytes(TorchDispatchMode):
    """Counts the bytes that ops write: what they return without sharing it, and what they are told to write."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        returns = func._schema.returns
        shares = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        if isinstance(result, torch.Tensor) and not shares:
            self.count += result.numel() * result.element_size()
        return result


def bytes_written(run):
    with Bytes() as counter:
        run()
    return counter.count


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def cells(rows, columns, steps, few):
    """Name -> {version: (run, factor to scale by)}."""
    cache, x = torch.zeros(rows, columns), torch.ones(columns)
    n, short = torch.tensor(steps), torch.tensor(few)
    made = tg.function(argument)
    inside = tg.function(own)
    captured = torch.zeros(rows, columns)

    @tg.function
    def capture(x, n):
        for i in range(n):
            captured[i] = x * i
        return captured[0].sum()

    def copying(function, *args):
        concrete = function.get_concrete_function(*args)
        program = host.build(passes.optimize(concrete.graph, inference=False))
        return lambda: program.run(*args, *concrete.captured_inputs)

    scale = steps / few
    return {
        "argument": {
            "tograph": (lambda: made(cache, x, n), 1),
            "eager, in place": (lambda: argument(cache, x, steps), 1),
            "copying": (copying(made, cache, x, short), scale),
        },
        "captured tensor": {
            "tograph": (lambda: capture(x, n), 1),
            "eager, in place": (lambda: argument(captured, x, steps), 1),
            "copying": (copying(capture, x, short), scale),
        },
        "own value": {
            "tograph": (lambda: inside(x, n, cache), 1),
            "eager, in place": (lambda: own(x, steps, cache), 1),
            "copying": (copying(inside, x, short, cache), scale),
        },
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=26_214)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(2)
    row = options.columns * 4
    size = options.rows * row
    lines = [
        f"# One row of a {size / 2**20:.0f} MB cache per step, {options.steps} steps",
        "",
        "| cache | version | time (ms) | time / eager | rows written | rows / eager |",
        "|---|---|---|---|---|---|",
    ]
    for place, versions in cells(options.rows, options.columns, options.steps, 5).items():
        for run, _ in versions.values():
            run()
        times = {name: [] for name in versions}
        for _ in range(options.rounds):
            for name, (run, factor) in versions.items():
                times[name].append(timed(run) * factor * 1e3)
        moved = {
            name: bytes_written(run) * factor / row for name, (run, factor) in versions.items()
        }
        base = statistics.median(times["eager, in place"]), moved["eager, in place"]
        for name in versions:
            t = statistics.median(times[name])
            lines.append(
                f"| {place} | {name} | {t:.0f} | {t / base[0]:.2f} | {moved[name]:,.0f} | {moved[name] / base[1]:.2f} |"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    lines += [
        "",
        f"Peak memory of the whole run: {peak:.0f} MB. torch {torch.__version__}, 2 threads.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    (HERE / "results" / "inplace_cache.md").write_text(text)


if __name__ == "__main__":
    main()
