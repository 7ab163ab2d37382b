"""Loops over elements that do not need one another: tograph beside eager PyTorch, and beside JAX and Numba where they are installed, values compared.

What runs in tograph is plain PyTorch; JAX's loops and Numba's are by hand. Time per call is the least of ``--rounds`` turns, on two threads. Usage:
``python benchmarks/element_loops.py [NAME...]``. Machines are shared: read the ratios.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

import tograph as tg

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None
try:
    import numba
except ImportError:
    numba = None


def logistic(x, r, n):
    """Counted."""
    for _ in range(n):
        x = r * x * (1 - x)
    return x


def logistic_jax(x, r, n):
    return jax.lax.fori_loop(0, n, lambda i, x: r * x * (1 - x), x)


def logistic_numba(x, r, n):
    out = np.empty_like(x)
    for i in numba.prange(x.size):
        y = x[i]
        for _ in range(n):
            y = r * y * (np.float32(1) - y)
        out[i] = y
    return out


def pendulum(x, v, n):
    """Counted, with a function of the math library."""
    for _ in range(n):
        v = v - 0.01 * torch.sin(x)
        x = x + 0.01 * v
    return x


def pendulum_jax(x, v, n):
    def step(i, state):
        x, v = state
        v = v - 0.01 * jnp.sin(x)
        return x + 0.01 * v, v

    return jax.lax.fori_loop(0, n, step, (x, v))[0]


def pendulum_numba(x, v, n):
    out, h = np.empty_like(x), np.float32(0.01)
    for i in numba.prange(x.size):
        a, b = x[i], v[i]
        for _ in range(n):
            b -= h * np.sin(a)
            a += h * b
        out[i] = a
    return out


def roots(x, n):
    """Until all have converged."""
    y, active, i = x, x > 0, 0
    while i < n and active.any():
        new = 0.5 * (y + x / y)
        active = active & ((new - y).abs() > 1e-3 * new)
        y = torch.where(active, new, y)
        i += 1
    return y


def roots_jax(x, n):
    def step(state):
        y, active, i = state
        new = 0.5 * (y + x / y)
        active = active & (jnp.abs(new - y) > 1e-3 * new)
        return jnp.where(active, new, y), active, i + 1

    return jax.lax.while_loop(lambda s: (s[2] < n) & s[1].any(), step, (x, x > 0, 0))[0]


def roots_numba(x, n):
    out = np.empty_like(x)
    for i in numba.prange(x.size):
        y, k = x[i], 0
        while k < n:
            new = np.float32(0.5) * (y + x[i] / y)
            if not abs(new - y) > np.float32(1e-3) * new:
                break
            y = new
            k += 1
        out[i] = y
    return out


def collatz(x):
    """Until all have come to 1: some take much longer."""
    steps = torch.zeros_like(x)
    while (x > 1).any():
        steps = steps + (x > 1)
        x = torch.where(x > 1, torch.where(x % 2 == 0, x // 2, 3 * x + 1), x)
    return steps


def collatz_jax(x):
    def step(state):
        x, steps = state
        following = jnp.where(x % 2 == 0, x // 2, 3 * x + 1)
        return jnp.where(x > 1, following, x), steps + (x > 1)

    return jax.lax.while_loop(lambda s: (s[0] > 1).any(), step, (x, jnp.zeros_like(x)))[1]


def collatz_numba(x):
    out = np.empty_like(x)
    for i in numba.prange(x.size):
        y, steps = x[i], 0
        while y > 1:
            y = y // 2 if y % 2 == 0 else 3 * y + 1
            steps += 1
        out[i] = steps
    return out


def cases():
    """(program, the same in JAX, the same in Numba, arguments)."""
    torch.manual_seed(0)
    many, n = torch.rand(1_000_000), torch.tensor(100)
    yield logistic, logistic_jax, logistic_numba, (many, torch.tensor(3.3), n)
    yield pendulum, pendulum_jax, pendulum_numba, (many, many * 0, n)
    yield roots, roots_jax, roots_numba, (many * 1e4 + 1, n)
    yield (
        collatz,
        collatz_jax,
        collatz_numba,
        (torch.arange(1, 100_000, dtype=torch.int32),),
    )  # more would leave 32 bits


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def forms(f, by_jax, by_numba, args):
    """(name, a call) of each peer."""
    g, arrays = tg.function(f), [a.numpy() for a in args]
    yield "eager PyTorch", lambda: f(*args)
    yield "tograph", lambda: g(*args)
    if jax is not None:
        there, j = [jnp.asarray(a) for a in arrays], jax.jit(by_jax)
        yield "JAX", lambda: j(*there).block_until_ready()
    if numba is not None:
        k = numba.njit(parallel=True)(by_numba)
        scalars = [a[()] if a.ndim == 0 else a for a in arrays]
        yield "Numba", lambda: k(*scalars)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(2)
    if numba is not None:
        numba.set_num_threads(2)
    header = False
    for f, by_jax, by_numba, args in cases():
        if options.names and f.__name__ not in options.names:
            continue
        runs = dict(forms(f, by_jax, by_numba, args))
        if not header:
            head = [f"{name} ms" for name in runs] + [f"/ {name}" for name in runs if name != "tograph"]  # fmt: skip
            print("| program | " + " | ".join(head) + " |\n|---|" + "--:|" * len(head), flush=True)
            header = True
        expected = f(*args).numpy()
        for run in runs.values():
            for _ in range(3):
                np.testing.assert_allclose(np.asarray(run()), expected, rtol=1e-2, atol=1e-3)
        least = dict(zip(runs, map(min, zip(*([timed(r) for r in runs.values()] for _ in range(options.rounds))))))  # fmt: skip
        own = least["tograph"]
        cells = [f"{t * 1e3:.2f}" for t in least.values()]
        cells += [f"{own / t:.2f}" for name, t in least.items() if name != "tograph"]
        print(f"| {f.__name__} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
