"""Fused kernels beside eager PyTorch and JAX, in one process, as ratios.

    python benchmarks/kernels.py [--size 4096x1024] [--cpu]

Every cell is the best of many calls, interleaved with the others so that a busy machine slows all of them. The programs are
plain PyTorch functions with the decorator, and the same in plain jnp where JAX is installed. ``--cpu`` compares the CPU time of
all threads instead of the time that passes: what to read on a machine that others use too.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F

import tograph as tg

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

ROUNDS = 30


def chain(x, y):
    t = x * 0.5 + y
    w = torch.exp(-(t * t)) * torch.tanh(t) + torch.erf(t)
    return torch.where(w > 0, w, 0.1 * w)


def norm_gelu_residual(x, w, b):
    return x + F.gelu(F.layer_norm(x, (x.shape[-1],), w, b))


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax_rows(x):
    return torch.log_softmax(x, -1).max(-1).values


def column_sums(x):
    return (x * x).sum(0)


def total(x):
    return ((x - 0.5) ** 2).sum()


def jax_programs():
    def j_chain(x, y):
        t = x * 0.5 + y
        w = jnp.exp(-(t * t)) * jnp.tanh(t) + jax.scipy.special.erf(t)
        return jnp.where(w > 0, w, 0.1 * w)

    def j_norm(x, w, b):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return x + jax.nn.gelu((x - mean) * jax.lax.rsqrt(var + 1e-5) * w + b, approximate=False)

    return {
        "chain": j_chain, "norm_gelu_residual": j_norm, "softmax": lambda x: jax.nn.softmax(x, -1),
        "log_softmax_rows": lambda x: jax.nn.log_softmax(x, -1).max(-1),
        "column_sums": lambda x: (x * x).sum(0), "total": lambda x: ((x - 0.5) ** 2).sum(),
    }  # fmt: skip


def best_of(calls: dict, clock=time.perf_counter) -> dict:
    """The best time of each call in ms, taken in turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return {name: 1e3 * t for name, t in best.items()}


def cell(function, args, clock) -> tuple[dict, float]:
    """(times by system, first call of tograph in ms)."""
    staged = tg.function(function)
    start = clock()
    staged(*args)
    first = 1e3 * (clock() - start)
    calls = {"tograph": lambda: staged(*args), "eager": lambda: function(*args)}
    if jax is not None:
        compiled = jax.jit(jax_programs()[function.__name__])
        arrays = [jnp.asarray(a.numpy()) for a in args]
        calls["jax"] = lambda: compiled(*arrays).block_until_ready()
    for call in calls.values():
        call()
    return best_of(calls, clock), first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="4096x1024")
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    n, m = map(int, given.size.split("x"))
    clock = time.process_time if given.cpu else time.perf_counter
    x, w, b = torch.randn(n, m), torch.randn(m), torch.randn(m)
    programs = [(chain, (x, x.flip(0))), (norm_gelu_residual, (x, w, b)), (softmax, (x,)),
                (log_softmax_rows, (x,)), (column_sums, (x,)), (total, (x,))]  # fmt: skip
    print(f"{n}x{m} float32, {torch.get_num_threads()} threads; times as ratios to tograph's")
    print(f"{'program':20s} {'tograph ms':>11s} {'eager':>7s} {'jax':>7s} {'first call ms':>14s}")
    for function, args in programs:
        times, first = cell(function, args, clock)
        ours = times["tograph"]
        jax_ratio = f"{times['jax'] / ours:7.2f}" if "jax" in times else "      -"
        print(
            f"{function.__name__:20s} {ours:11.3f} {times['eager'] / ours:7.2f} {jax_ratio} {first:14.0f}"
        )


if __name__ == "__main__":
    main()
