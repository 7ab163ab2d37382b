"""Shape inference without a rule: torch's own kernel on stand-ins for what is not known.

``on_numbers``  an op with symbolic sizes: every symbol gets a large prime of its own, the meta kernel runs on these numbers,
                and the sizes of the outputs are translated back: products and sums of the primes are those of the
                symbols. Any other large number that no input had is not understood: None. The kernel then runs on other
                numbers too, larger and smaller in another order: a size that does not follow is one that the kernel took by
                comparing, such as the rank of a factorisation, and is left to the value itself (a size of None).
``on_ones``     an op that torch has no meta kernel for: the op itself runs on ones, and on zeros for integers, which may be positions. The sizes of its outputs must not
                depend on data; torch's generator is left as it was.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.ir import items_in
from .shapes import SYMBOLS, Meta, contiguous

PRIMES = (20_011, 45_007, 77_003, 120_011, 175_003, 250_007, 340_007, 450_001)
FEW = (2, 3, 5, 7, 11, 13, 17, 19)
OTHERS = (PRIMES[::-1], FEW, FEW[::-1], (1,) * len(PRIMES))
SMALL = 5_000  # sizes below are taken as they are: no sum or product with a prime is that small
LARGE = 1 << 24  # elements: more are not made to learn a shape


class _Size(NamedTuple):
    """A size of an output: the product or the sum of symbols, each ``counts`` times, and of ``rest``."""

    join: Callable[[Any, Any], Any]
    counts: tuple[int, ...]
    rest: int

    def of(self, values: Sequence[Any]) -> Any:
        """The size where the symbols are these."""
        if self.join is operator.mul:
            parts = [v for v, k in zip(values, self.counts) for _ in range(k)]
        else:
            parts = [v if k == 1 else v * k for v, k in zip(values, self.counts) if k]
        neutral = 1 if self.join is operator.mul else 0
        if self.rest != neutral or not parts:
            parts.append(self.rest)
        return functools.reduce(self.join, parts)


class _Numbers:
    """The numbers that stand for symbols; ``equal`` are the indices of two symbols that are taken to be one."""

    def __init__(self, equal: tuple[int, ...] = (), numbers: tuple[int, ...] = PRIMES) -> None:
        self.symbols: list[Any] = []
        self.known: set[int] = set()
        self.equal = equal
        self.numbers = numbers

    def of(self, n: Any) -> int:
        if type(n) is int:
            self.known.add(n)
            return n
        for i, symbol in enumerate(self.symbols):
            if symbol is n or symbol.node.same(n.node):
                return self._number(i)
        if len(self.symbols) == len(self.numbers):
            raise OverflowError
        self.symbols.append(n)
        return self._number(len(self.symbols) - 1)

    def _number(self, i: int) -> int:
        return self.numbers[self.equal[0] if i in self.equal else i]

    @property
    def values(self) -> list[int]:
        return [self._number(i) for i in range(len(self.symbols))]

    def size(self, n: int) -> _Size:
        """What a number is made of; ValueError when that is not understood."""
        if n < SMALL or n in self.known:
            return _Size(operator.add, (), n)
        primes = self.numbers[: len(self.symbols)]
        powers, rest = [], n
        for prime in primes:
            powers.append(0)
            while rest % prime == 0:
                rest, powers[-1] = rest // prime, powers[-1] + 1
        if rest < SMALL:
            return _Size(operator.mul, tuple(powers), rest)
        for counts in itertools.product(range(4), repeat=len(primes)):
            rest = n - sum(map(operator.mul, counts, primes))
            if abs(rest) < SMALL and any(counts):
                return _Size(operator.add, counts, rest)
        raise ValueError

    def back(self, n: int | None) -> Any:
        """The size that a number stands for."""
        return None if n is None else self.size(n).of(self.symbols)


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

    ``kernel`` should remember what it found: it is asked again for the same numbers. Where the kernel finds an error, two sizes have to be equal, as those of a matrix are for an eigenvalue problem:
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
    (a == b).node.require()


def _attempt(numbers: _Numbers, kernel: Callable, func: Any, args: tuple, kwargs: dict) -> Any:
    try:
        out = _run(numbers, kernel, func, args, kwargs)
        compared = _compared(numbers, out, kernel, func, args, kwargs)
        found = [_back(numbers, m, c) for m, c in zip(out, compared)]
        return found if type(out) is list else found[0]
    except (RuntimeError, IndexError, ValueError, OverflowError):
        return None  # the kernel that knows of symbols decides, and has the words for an error


class _One(tuple):
    """The outputs of an op that has one."""


def _run(numbers: _Numbers, kernel: Callable, func: Any, args: tuple, kwargs: dict) -> Any:
    """The metas of the outputs, where the symbols are these numbers."""

    def plain(x: Any) -> Any:
        if isinstance(x, Meta):
            size = tuple(map(numbers.of, x.size))
            return contiguous(x.dtype, size, x.device) if not x.static else x
        if isinstance(x, (list, tuple)):
            return type(x)(map(plain, x)) if type(x) in (list, tuple) else tuple(map(plain, x))
        if isinstance(x, torch.SymInt):
            return numbers.of(x)
        return x.node.kind(1) if isinstance(x, SYMBOLS) else x

    out = kernel(func, plain(args), {k: plain(v) for k, v in kwargs.items()})
    return out if isinstance(out, list) else _One((out,))


def _compared(numbers: _Numbers, out: Any, *call: Any) -> list[set[int]]:
    """Of each output the dimensions whose size is another one for other numbers than the symbols make it."""
    compared: list[set[int]] = [set() for _ in out]
    for others in OTHERS:
        again = _Numbers(numbers.equal, others)
        try:
            metas = _run(again, *call)
        except (RuntimeError, IndexError, ValueError):
            continue  # too small for the op, such as for a kernel size
        if [m.rank for m in metas] != [m.rank for m in out]:
            raise ValueError
        for dims, meta, first in zip(compared, metas, out):
            sizes = [None if n is None else numbers.size(n).of(again.values) for n in first.size]
            dims.update(d for d, n in enumerate(sizes) if n != meta.size[d])
    return compared


def _back(numbers: _Numbers, x: Meta, compared: set[int]) -> Meta:
    size = tuple(None if d in compared else numbers.back(n) for d, n in enumerate(x.size))
    if compared or contiguous(x.dtype, x.size, x.device).stride == x.stride:
        return contiguous(x.dtype, size, x.device)
    return x._replace(size=size, stride=tuple(map(numbers.back, x.stride)), offset=0)


def on_ones(func: Any, args: tuple, kwargs: dict) -> Any:
    """What the op gives for ones of the same sizes; None where that cannot be asked."""
    return None if torch.Tag.dynamic_output_shape in func.tags else run_on_ones(func, args, kwargs)


def run_on_ones(func: Any, args: tuple, kwargs: dict) -> Any:
    """The same of any op, where the sizes of its outputs are not asked."""
    if is_symbolic((args, kwargs)):
        return None
    metas = list(items_in((args, kwargs), Meta))
    if sum(math.prod(m.size) for m in metas) > LARGE:
        return None
    device = metas[0].device if metas else torch.device("cpu")

    def real(x: Any) -> Any:
        if isinstance(x, Meta):
            made = torch.ones if x.dtype.is_floating_point or x.dtype.is_complex else torch.zeros
            return made(x.size, dtype=x.dtype).as_strided_(x.size, contiguous(*x[:2], device).stride)  # fmt: skip
        return [real(a) for a in x] if isinstance(x, (list, tuple)) else x

    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        return func(*(real(a) for a in args), **{k: real(v) for k, v in kwargs.items()}), device
