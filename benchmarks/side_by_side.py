"""Programs beside eager PyTorch in one table: the same arguments and seeds, values compared, times taken in turn on one thread."""

import argparse
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

import tograph as tg


def timed(f, args, calls):
    start = time.process_time()
    for _ in range(calls):
        f(*args)
    return (time.process_time() - start) / calls


def seeded(f, args):
    torch.manual_seed(1)
    random.seed(1)
    return f(*args)


def measure(f, args, rounds, compared=True):
    """(eager, tograph, first call in seconds, level). ``compared``: the function gives the same for the same arguments and seeds."""
    g = tg.function(f)
    first = timed(g, args, 1)
    for _ in range(20):
        found, expected = seeded(g, args), seeded(f, args)
        if not compared:
            continue
        if isinstance(expected, str):
            assert found == expected
        else:
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    # As many calls as take a while: one interruption would be most of a short round.
    calls = [max(1, int(0.05 / max(timed(h, args, 5), 1e-6))) for h in (f, g)]
    pairs = [(timed(f, args, calls[0]), timed(g, args, calls[1])) for _ in range(rounds)]
    eager, staged = map(min, zip(*pairs))
    return eager, staged, first, g.concrete_functions[-1].scheduled.level


def table(description, cases, keeping=()):
    """Print a row for each (program, arguments) that the command line names, or for all. ``keeping``: names of programs that keep something
    outside, which is not the same in two calls: there only times are compared."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| program | eager us | tograph us | ratio | first call s | level |\n|---|--:|--:|--:|--:|---|"
    )
    for f, args in cases:
        name = getattr(f, "__name__", type(f).__name__)
        if not options.names or name in options.names:
            eager, staged, first, level = measure(f, args, options.rounds, name not in keeping)
            print(
                f"| {name} | {eager * 1e6:.0f} | {staged * 1e6:.1f} | {staged / eager:.3f} | {first:.2f} | {level} |",
                flush=True,
            )
