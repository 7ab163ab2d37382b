"""What draws random numbers, by name: ``gpu_assumptions`` compares each with eager PyTorch on the GPU, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

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
