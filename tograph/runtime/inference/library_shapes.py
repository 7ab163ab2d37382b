"""Shapes of ops that libraries register, by the rules that they register with them (``torch.library.register_fake``).

Such a rule may ask for sizes that only the run knows (``torch.library.get_ctx().new_dynamic_size()``). Numbers stand for them, other ones
the second time: a size of the result that is another one then follows from what was asked for, and is left to the value itself.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from torch._library import fake_impl, simple_registry

from .shapes import Meta, contiguous
from .stand_in import PRIMES

Rule = Callable[..., Any]


class _Asked:
    """What a rule asks for sizes."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.left, self.any = itertools.cycle(numbers), False

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        self.any = True
        return next(self.left)

    create_unbacked_symint = new_dynamic_size


def rule_of(func: Any) -> Rule | None:
    """The rule that a library registered for an op."""
    if func.namespace == "aten":
        return None
    kernel = simple_registry.singleton.find(func._schema.name).fake_impl.kernel
    return None if kernel is None else kernel.func


def described(run: Callable[[Rule], Any], rule: Rule) -> Any:
    """What ``run`` makes of a rule; sizes that follow from what the rule asks for are None."""
    asked = _Asked(PRIMES)
    first = run(functools.partial(_answered, rule, asked))
    if not asked.any:
        return first
    second = run(functools.partial(_answered, rule, _Asked(PRIMES[1:] + PRIMES[:1])))
    if isinstance(first, Meta):
        return _common(first, second)
    return [_common(a, b) for a, b in zip(first, second, strict=True)]


def _answered(rule: Rule, asked: _Asked, *args: Any, **kwargs: Any) -> Any:
    with fake_impl.set_ctx_getter(lambda: asked):
        return rule(*args, **kwargs)


def _common(one: Meta, other: Meta) -> Meta:
    if one.size == other.size:
        return one
    size = tuple(n if n is m or n == m else None for n, m in zip(one.size, other.size, strict=True))
    return contiguous(one.dtype, size, one.device)
