"""A soak: many calls and many retraces, and what the process has grown by.

    python benchmarks/soak.py [--calls 20000] [--retraces 300]

Prints one line of JSON: the growth of the resident memory in MB after a warm-up, and how many objects that only weak
references held are still alive.
"""

import argparse
import gc
import json
import weakref

import torch

import tograph as tg


class Model:
    """Makes its variable on the first call, counts calls, keeps its last outputs."""

    def __init__(self, mode):
        self.mode, self.w, self.recent = mode, None, []

    @tg.function
    def step(self, x):
        if self.w is None:
            self.w = tg.Variable(torch.zeros(64))
        total = x * 0
        for row in x.reshape(8, 8):
            total = total + row.sum() if row.sum() > 0 else total - 1
        self.w.assign_add(total * len(self.mode))
        self.recent.append(total.sum())
        return self.w.sum()


def resident():
    """Resident memory of this process, MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def soak(calls, retraces):
    """(growth in MB, objects left alive)"""
    models = []

    def run(count, retraces_):
        model = Model("0")
        models.append(weakref.ref(model))
        every = max(1, count // max(1, retraces_))
        for i in range(count):
            if i % every == 0:
                model.mode = str(i)  # a guarded setting: traces anew
            model.step(torch.ones(64))
            model.recent.clear()

    run(200, 40)
    gc.collect()
    before = resident()
    for _ in range(4):
        run(calls // 4, retraces // 4)
    gc.collect()
    return resident() - before, sum(m() is not None for m in models)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--retraces", type=int, default=300)
    options = parser.parse_args()
    growth, alive = soak(options.calls, options.retraces)
    print(
        json.dumps(
            {
                "calls": options.calls,
                "retraces": options.retraces,
                "growth_mb": round(growth, 1),
                "alive": alive,
            }
        )
    )


if __name__ == "__main__":
    main()
