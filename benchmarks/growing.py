"""Loops whose tensors grow: decoding with a cache made by `torch.cat`, rows that are appended, lists of parts of different sizes.

Each program runs as eager PyTorch and under tograph, in turn in one run on one thread; the decoder also in JAX, which needs a cache of a fixed size and a
mask. Times are the least CPU time of a call; ``ratio`` is eager's by tograph's, ``jax_ratio`` JAX's by tograph's. One line of JSON for each.

    python benchmarks/growing.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import time

import torch

import tograph as tg

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

HEADS, WIDTH, TOKENS, STOP = 4, 64, 32, 31


def decode(tokens, table, weights, out, n):
    """One layer of attention over a cache that grows; stops at the token STOP."""
    wq, wk, wv = weights
    k = torch.zeros(1, HEADS, 0, WIDTH // HEADS)
    v = torch.zeros(1, HEADS, 0, WIDTH // HEADS)
    i = 0
    while i < n:
        x = table[tokens[-1]][None, None]
        q, new_k, new_v = ((x @ w).view(1, 1, HEADS, -1).transpose(1, 2) for w in (wq, wk, wv))
        k, v = torch.cat([k, new_k], dim=2), torch.cat([v, new_v], dim=2)
        score = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, dim=-1)
        y = x + (score @ v).transpose(1, 2).reshape(1, 1, WIDTH)
        following = (y[0, 0] @ out).argmax()
        tokens = torch.cat([tokens, following[None]])
        if following == STOP:
            break
        i += 1
    return tokens


def rows(x, n):
    i = 0
    while i < n:
        x = torch.cat([x, (x[-1] * 0.9 + x.mean(0))[None]])
        i += 1
    return x


def doubled(x, n):
    """Growth along the last dimension, until a sum is reached."""
    while x.sum() < n:
        x = torch.cat([x, x[:, -1:] * 1.01], dim=1)
    return x


def parts(x, n):
    """A list whose items have different sizes."""
    out, i = [], 0
    while i < n:
        out.append(x[: i % 7 + 1] * i)
        i += 1
    return torch.cat(out)


def sieve(n):
    left, found = torch.arange(2, n), torch.arange(0)
    while left.shape[0] > 0:
        found = torch.cat([found, left[:1]])
        left = left[left % left[:1] != 0]
    return found


def cases(n):
    torch.manual_seed(0)
    table, out = torch.randn(TOKENS, WIDTH), torch.randn(WIDTH, TOKENS) / 8
    out[:, STOP] = 0  # hardly ever chosen: all lengths are n
    weights = tuple(torch.randn(WIDTH, WIDTH) / 8 for _ in range(3))
    n = torch.tensor(n)
    return {
        "decode": (decode, (torch.tensor([3, 4]), table, weights, out, n)),
        "rows": (rows, (torch.rand(2, 8), n)),
        "doubled": (doubled, (torch.rand(4, 3) + 0.5, n * 4.0)),
        "parts": (parts, (torch.rand(8, 4), n)),
        "sieve": (sieve, (n,)),
    }


def jax_decode(tokens, table, weights, out, n):
    """The decoder with a cache of ``n`` rows, of which those behind the last are masked."""
    wq, wk, wv = (jnp.asarray(w.numpy()) for w in weights)
    table, out, size = jnp.asarray(table.numpy()), jnp.asarray(out.numpy()), WIDTH // HEADS
    n, first = int(n), int(tokens[-1])

    def step(state):
        i, token, k, v, found, _ = state
        x = table[token]
        q, new_k, new_v = ((x @ w).reshape(HEADS, size) for w in (wq, wk, wv))
        k, v = k.at[:, i].set(new_k), v.at[:, i].set(new_v)
        score = jnp.einsum("hd,htd->ht", q, k) / size**0.5
        score = jax.nn.softmax(jnp.where(jnp.arange(n) <= i, score, -jnp.inf), axis=-1)
        y = x + jnp.einsum("ht,htd->hd", score, v).reshape(WIDTH)
        following = (y @ out).argmax().astype(jnp.int32)
        return i + 1, following, k, v, found.at[i].set(following), following == STOP

    @jax.jit
    def run(token):
        cache = jnp.zeros((HEADS, n, size))
        state = (0, token, cache, cache, jnp.zeros(n, jnp.int32), False)
        return jax.lax.while_loop(lambda s: (s[0] < n) & ~s[5], step, state)[4]

    start = jnp.int32(first)
    return lambda: run(start).block_until_ready()


def least(runs, rounds):
    """The least CPU time of a call of each, measured in turn, as many calls at a time as take some milliseconds."""
    counts = [max(1, int(3e-3 / seconds(run, 1))) for run in runs]
    times = [float("inf")] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            times[k] = min(times[k], seconds(run, counts[k]))
    return times


def seconds(run, count):
    start = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - start) / count


def measure(name, f, args, rounds):
    g = tg.function(f)
    for _ in range(4):
        torch.testing.assert_close(g(*args), f(*args), rtol=1e-3, atol=1e-3)
    runs = [lambda: f(*args), lambda: g(*args)]
    if jax is not None and name == "decode":
        other = jax_decode(*args)
        if other().tolist() != f(*args)[2:].tolist():
            raise AssertionError("JAX decodes other tokens")
        runs.append(other)
    eager, ours, *peer = least(runs, rounds)
    (trace,) = g.concrete_functions
    line = {"program": name, "level": trace.scheduled.level, "tograph_us": round(ours * 1e6, 1), "ratio": round(eager / ours, 1)}  # fmt: skip
    return line | ({"jax_ratio": round(peer[0] / ours, 2)} if peer else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for n in (16, 128, 512):
        for name, (f, args) in cases(n).items():
            print(json.dumps({"n": n} | measure(name, f, args, rounds)), flush=True)


if __name__ == "__main__":
    main()
