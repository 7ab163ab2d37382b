"""Cost of the guards of a call: ten reads of attributes, globals, items and closure variables, checked before a trace is used.

The same ten reads by plain Python, in one function, are the yardstick, in the same run. Prints one line of JSON.

    python benchmarks/guards.py
"""

import json
import statistics
import time

import torch

import tograph as tg

RATE = 0.5


class Box:
    def __init__(self):
        self.a, self.b, self.c, self.sub = 1, 2.0, True, None


def ten_reads():
    """A function that reads ten Python values, and a plain one that does nothing but read them."""
    box, table, items = Box(), {"x": 1, "y": 2.0}, [1, 2]
    box.sub = Box()

    def f(x):
        if box.c and items[0]:
            x = x * box.a + box.b + table["x"] + table["y"] + items[1]
        return x + RATE + box.sub.a + box.sub.b

    def reads():
        return (
            box.c,
            items[0],
            box.a,
            box.b,
            table["x"],
            table["y"],
            items[1],
            RATE,
            box.sub.a,
            box.sub.b,
        )

    return f, reads


def nanoseconds(function, number=20_000, rounds=15):
    """The median over rounds of the time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(number):
            function()
        times.append((time.perf_counter_ns() - start) / number)
    return statistics.median(times)


def main():
    f, reads = ten_reads()
    g = tg.function(f)
    g(torch.ones(2))
    (trace,) = g.traces
    hold = trace.checks.hold
    assert hold()
    guards, plain = nanoseconds(hold), nanoseconds(reads)
    print(json.dumps({"checks": len(trace.checks.checks), "guards_ns": round(guards), "plain_reads_ns": round(plain),
                      "ratio": round(guards / plain, 2)}))  # fmt: skip


if __name__ == "__main__":
    main()
