"""Shapes of ops that have no rule, for tensors with sizes that are known only when the graph runs.

torch's own kernel runs on meta tensors of made-up sizes, twice, with other sizes each time. A size of the result that is
the same both times is that number; one that follows one of the made-up sizes is that size; any other is unknown, and
the value itself tells it when the graph runs. Sizes that have to agree are tried equal, and then nothing can be said of
which of them a result's size is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .shapes import SYMBOLS, Meta, contiguous

_FIRST = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
_SECOND = (47, 53, 59, 61, 67, 71, 73, 79, 83, 89)
_TRIES = ((_FIRST, _SECOND), ((12,) * 10, (24,) * 10), ((2,) * 10, (3,) * 10), ((1,) * 10, (1,) * 10))
_ERRORS = (RuntimeError, IndexError, ValueError, NotImplementedError)


def probe(kernel: Callable[..., Any], func: Any, args: tuple, kwargs: dict) -> Any:
    """The meta, or list of metas, of the outputs, with None for sizes that cannot be told; None where it does not apply.

    ``kernel(func, args, kwargs)`` runs torch's kernel on metas of known sizes.
    """
    symbols = _symbols((args, kwargs), {})
    if all(s.node.has_hint() for s in symbols.values()) or len(symbols) > len(_FIRST):
        return None
    problem: Exception | None = None
    for first, second in _TRIES:
        try:
            outs = [kernel(func, *_put((args, kwargs), dict(zip(symbols, sizes)))) for sizes in (first, second)]  # fmt: skip
        except _ERRORS as error:
            problem = problem or error
            continue
        return _merged(outs[0], outs[1], symbols, first, second)
    assert problem is not None
    raise problem


def _identity(x: Any) -> Any:
    """What tells staged numbers apart."""
    return x.node.ref.value if x.node.ref is not None else x.node.constant_


def _symbols(x: Any, found: dict[Any, Any]) -> dict[Any, Any]:
    """The staged numbers among arguments, by identity, in order."""
    if isinstance(x, Meta):
        _symbols(x.size, found)
    elif isinstance(x, SYMBOLS):
        found.setdefault(_identity(x), x)
    elif isinstance(x, (list, tuple)):
        for item in x:
            _symbols(item, found)
    elif isinstance(x, dict):
        for item in x.values():
            _symbols(item, found)
    return found


def _put(x: Any, sizes: dict[Any, int]) -> Any:
    """Arguments with made-up numbers in the place of staged ones."""
    if isinstance(x, Meta):
        return x if x.static else contiguous(x.dtype, _put(x.size, sizes), x.device)
    if isinstance(x, SYMBOLS):
        return x.node.kind(sizes[_identity(x)])
    if isinstance(x, (list, tuple)):
        return type(x)(_put(item, sizes) for item in x) if type(x) in (list, tuple) else [_put(i, sizes) for i in x]  # fmt: skip
    if isinstance(x, dict):
        return {k: _put(v, sizes) for k, v in x.items()}
    return x


def _merged(a: Any, b: Any, symbols: dict, first: Sequence[int], second: Sequence[int]) -> Any:
    if isinstance(a, list):
        return [_merged(x, y, symbols, first, second) for x, y in zip(a, b, strict=True)]
    of: dict[tuple[int, int], list[Any]] = {}
    for symbol, pair in zip(symbols.values(), zip(first, second)):
        of.setdefault(pair, []).append(symbol)
    size = [_one(n, m, of) for n, m in zip(a.size, b.size, strict=True)]
    return contiguous(a.dtype, size, a.device)


def _one(n: int, m: int, of: dict[tuple[int, int], list[Any]]) -> Any:
    found = of.get((n, m), ())
    if len(found) == 1 and n != m:
        return found[0]
    return n if n == m and not found else None
