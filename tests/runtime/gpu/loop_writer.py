"""Random loops on small matrices that are not one kernel: state that is exchanged, overwritten, read late and kept in lists, in branches and loops."""

from __future__ import annotations

import random

NAMES = ["x", "y", "z"]


def source(seed: int) -> str:
    """The text of ``f(x, y, w, n)``."""
    r = random.Random(seed)
    lines = [f"z = {_expression(r, NAMES[:2])}", "k = 0", f"kept = [{r.choice(NAMES)}]"]
    lines += _block(r, 1)
    lines += ["for i in range(n):", *_inside(_block(r, 0) + _block(r, 0))]
    lines += [f"q = {_expression(r, NAMES)}", "return x, y, z, q, k, len(kept), kept[-1]"]
    return "\n".join(["def f(x, y, w, n):", *_inside(lines), ""])


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _expression(r: random.Random, names: list[str], depth: int = 0) -> str:
    if depth == 2 or r.random() < 0.3:
        return r.choice(names)
    a, b = (_expression(r, names, depth + 1) for _ in range(2))
    return r.choice([f"torch.tanh({a} @ w)", f"({a} + {b})", f"torch.sin({a} * {b})", f"{a}.t()",
                     f"torch.where({a} > 0.1, {a}, {b})", f"({a} - {b}.sum(0))"])  # fmt: skip


def _block(r: random.Random, depth: int) -> list[str]:
    return [line for _ in range(r.randrange(1, 4)) for line in _statement(r, depth)]


def _statement(r: random.Random, depth: int) -> list[str]:
    v, expression = r.choice(NAMES), _expression(r, NAMES)
    kind = r.randrange(10 if depth < 2 else 8)
    if kind < 4:
        return [f"{v} = {expression}"]
    if kind == 4:
        a, b = r.sample(NAMES, 2)
        return [f"{a}, {b} = {b}, {a}"]
    if kind == 5:
        return [f"{v} = {v}.clone()", f"{v}[k % 2] = {expression}[0]"]
    if kind == 6:
        return [f"kept.append({expression})", f"{v} = kept[-1] * 0.5 + kept[0]"]
    if kind == 7:
        return ["k = k + 1"]
    inner = _inside(_block(r, depth + 1))
    if kind == 8:
        return ["for _ in range(n % 3):", *inner]
    test = f"if {r.choice(NAMES)}.sum() > {r.choice([-1, 0, 1])}:"
    return [test, *inner, "else:", *_inside(_block(r, depth + 1))]
