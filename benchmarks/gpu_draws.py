"""What draws random numbers, by name; each is compared with eager PyTorch on the GPU, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_nodes import planned
from gpu_probes import said

import tograph as tg
from tograph.runtime.gpu import capture

SIZES = (1002,), (3001, 1002), (5,), (300, 1000)
DRAWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rand": torch.rand_like,
    "randn": torch.randn_like,
    "rand f16": lambda x: torch.rand_like(x, dtype=torch.float16),
    "randn bf16": lambda x: torch.randn_like(x, dtype=torch.bfloat16),
    "rand f64": lambda x: torch.rand_like(x, dtype=torch.float64),
    "randn f64": lambda x: torch.randn_like(x, dtype=torch.float64),
    "uniform": lambda x: torch.empty_like(x).uniform_(-0.3, 1.7),
    "normal": lambda x: torch.empty_like(x).normal_(0.1, 2.3),
    "exponential": lambda x: torch.empty_like(x).exponential_(1.5),
    "bernoulli": lambda x: torch.bernoulli(x, 0.3),
    "randint": lambda x: torch.randint_like(x, -5, 1000, dtype=torch.int64),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout f16": lambda x: F.dropout(x.half(), 0.3),
    "dropout bf16": lambda x: F.dropout(x.bfloat16(), 0.3),
    "bernoulli of a tensor": lambda x: torch.bernoulli(x * 0.3),
    "bernoulli of a row": lambda x: torch.empty_like(x).bernoulli_(x.select(0, 0) * 0.3),
    "normal of tensors": lambda x: torch.normal(x, x * 0.3),
    "bernoulli of halves": lambda x: torch.bernoulli(x.half() * 0.3),
    "multinomial": lambda x: torch.multinomial(x.abs() + 1, 1),
}


def drawn(bench: Any, name: str, draw: Callable, size: tuple[int, ...]) -> None:
    """Bits beside eager PyTorch's, in two calls: the second one draws on."""
    x = torch.ones(size, device=bench.device)
    fn = tg.function(lambda x: (draw(x), draw(x)))
    made = capture.Captured(planned(fn.python_function, [x]))
    found = []
    for run in (lambda: [*draw_twice(draw, x)], lambda: made.run(x)):
        torch.manual_seed(1234)
        found.append([y.clone() for _ in range(2) for y in run()])
    pairs = list(zip(*found, strict=True))
    same = sum(int((a == b).sum()) for a, b in pairs)
    total = sum(a.numel() for a, _ in pairs)
    worst = max(float((a.double() - b.double()).abs().max()) for a, b in pairs)
    why = "" if same == total else f"{same} of {total} equal, the largest difference {worst:.3g}"
    bench.row(name=f"{name} {size}", **said(why))


def draw_twice(draw: Callable, x: torch.Tensor) -> tuple[Any, Any]:
    return draw(x), draw(x)
