"""Shape inference without a rule: torch's own kernel on stand-ins for what is not known.

``on_numbers``  an op with symbolic sizes: every symbol gets a large prime of its own, the meta kernel runs on these numbers,
                and the sizes of the outputs are translated back: products and sums of the primes are those of the
                symbols. Any other large number that no input had is not understood: None.
``on_ones``     an op that torch has no meta kernel for: the op itself runs on ones. The sizes of its outputs must not
                depend on data; torch's generator is left as it was.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .shapes import SYMBOLS, Meta, contiguous

PRIMES = (20_011, 45_007, 77_003, 120_011, 175_003, 250_007, 340_007, 450_001)
SMALL = 5_000  # sizes below are taken as they are: no sum or product with a prime is that small
LARGE = 1 << 24  # elements: more are not made to learn a shape


class _Numbers:
    """The primes that stand for symbols; ``equal`` are the indices of two symbols that are taken to be one."""

    def __init__(self, equal: tuple[int, ...] = ()) -> None:
        self.symbols: list[Any] = []
        self.known: set[int] = set()
        self.equal = equal

    def of(self, n: Any) -> int:
        if type(n) is int:
            self.known.add(n)
            return n
        for i, symbol in enumerate(self.symbols):
            if symbol is n or symbol.node.same(n.node):
                return PRIMES[self._first(i)]
        if len(self.symbols) == len(PRIMES):
            raise OverflowError
        self.symbols.append(n)
        return PRIMES[self._first(len(self.symbols) - 1)]

    def _first(self, i: int) -> int:
        return self.equal[0] if i in self.equal else i

    def back(self, n: int | None) -> Any:
        """The size that a number stands for; ValueError when it is not understood."""
        if n is None or n < SMALL or n in self.known:
            return n
        primes = PRIMES[: len(self.symbols)]
        powers, rest = [], n
        for prime in primes:
            powers.append(0)
            while rest % prime == 0:
                rest, powers[-1] = rest // prime, powers[-1] + 1
        if rest < SMALL:
            factors = [s for s, k in zip(self.symbols, powers) for _ in range(k)]
            return functools.reduce(operator.mul, factors if rest == 1 else [*factors, rest])
        for counts in itertools.product(range(4), repeat=len(primes)):
            rest = n - sum(map(operator.mul, counts, primes))
            if abs(rest) < SMALL and any(counts):
                terms = [s if k == 1 else s * k for s, k in zip(self.symbols, counts) if k]
                return functools.reduce(operator.add, terms if rest == 0 else [*terms, rest])
        raise ValueError


def is_symbolic(x: Any) -> bool:
    """Whether a size or a number in the arguments of an op is known only when the graph runs."""
    if isinstance(x, Meta):
        return not x.static
    if isinstance(x, (list, tuple)):
        return any(map(is_symbolic, x))
    if isinstance(x, dict):
        return any(map(is_symbolic, x.values()))
    return isinstance(x, SYMBOLS)


def on_numbers(kernel: Callable[..., Any], func: Any, args: tuple, kwargs: dict) -> Any:
    """What ``kernel(func, args, kwargs)`` gives for the metas, or None where stand-ins do not tell.

    Where the kernel finds an error, two sizes have to be equal, as those of a matrix are for an eigenvalue problem:
    every pair is tried.
    """
    numbers = _Numbers()
    found = _attempt(numbers, kernel, func, args, kwargs)
    for pair in itertools.combinations(range(len(numbers.symbols)), 2):
        if found is not None:
            break
        found = _attempt(_Numbers(pair), kernel, func, args, kwargs)
        if found is not None:
            _must_be_equal(*(numbers.symbols[i] for i in pair))
    return found


def _must_be_equal(a: Any, b: Any) -> None:
    """A guard for sizes with hints; else the graph checks it when it runs."""
    (a == b).node.guard_bool(__file__, 0)


def _attempt(numbers: _Numbers, kernel: Callable, func: Any, args: tuple, kwargs: dict) -> Any:
    def plain(x: Any) -> Any:
        if isinstance(x, Meta):
            size = tuple(map(numbers.of, x.size))
            return contiguous(x.dtype, size, x.device) if not x.static else x
        if isinstance(x, (list, tuple)):
            return type(x)(map(plain, x)) if type(x) in (list, tuple) else tuple(map(plain, x))
        if isinstance(x, torch.SymInt):
            return numbers.of(x)
        return x.node.kind(1) if isinstance(x, SYMBOLS) else x

    def back(x: Meta) -> Meta:
        if contiguous(x.dtype, x.size, x.device).stride == x.stride:
            return contiguous(x.dtype, tuple(map(numbers.back, x.size)), x.device)
        size, stride = tuple(map(numbers.back, x.size)), tuple(map(numbers.back, x.stride))
        return x._replace(size=size, stride=stride, offset=0)

    try:
        out = kernel(func, plain(args), {k: plain(v) for k, v in kwargs.items()})
        return [back(m) for m in out] if isinstance(out, list) else back(out)
    except (RuntimeError, IndexError, ValueError, OverflowError):
        return None  # the kernel that knows of symbols decides, and has the words for an error


def on_ones(func: Any, args: tuple, kwargs: dict) -> Any:
    """What the op gives for ones of the same sizes; None where that cannot be asked."""
    if torch.Tag.dynamic_output_shape in func.tags or is_symbolic((args, kwargs)):
        return None
    metas = list(_metas((args, list(kwargs.values()))))
    if sum(math.prod(m.size) for m in metas) > LARGE:
        return None
    device = metas[0].device if metas else torch.device("cpu")

    def real(x: Any) -> Any:
        if isinstance(x, Meta):
            return torch.ones(x.size, dtype=x.dtype).as_strided_(x.size, contiguous(*x[:2], device).stride)  # fmt: skip
        return [real(a) for a in x] if isinstance(x, (list, tuple)) else x

    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        return func(*(real(a) for a in args), **{k: real(v) for k, v in kwargs.items()}), device


def _metas(x: Any):
    if isinstance(x, Meta):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _metas(part)
