"""How a concrete function takes its arguments: those of its trace, with the sizes and numbers that the trace leaves open.

Python values are part of the trace: the same value may be passed again or left out, any other is a SignatureError.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...errors import SignatureError
from ..graph.ordering import graph_effects
from ..values import arguments, families
from ..values.arguments import Flat
from ..values.specs import TensorSpec

if TYPE_CHECKING:
    from .concrete import ConcreteFunction

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def _is_constant(key: Any) -> bool:
    if not isinstance(key, tuple) or len(key) != 2:
        return False
    return all(map(_is_constant, key[1])) if key[0] in (tuple, slice) else key[0] in _CONSTANTS


def _constant(key: Any) -> Any:
    """The value that a key of ``arguments.key_of`` stands for: that of a float holds its text."""
    if key[0] in (tuple, slice):
        parts = map(_constant, key[1])
        return tuple(parts) if key[0] is tuple else slice(*parts)
    return float(key[1]) if key[0] is float else key[1]


def binder(
    signature: inspect.Signature,
    label: str,
    key: Any,
    specs: Sequence[TensorSpec],
    normal: Callable[[Any], Any] = lambda key: key,
    opened: frozenset[type] = frozenset(),
) -> Callable[..., Any]:
    """The function that takes the tensors from the arguments of a concrete function.

    ``key``: pairs of a parameter and the key of its value in the trace. ``normal``: what counts of the key of an argument.
    ``opened``: classes of records that are what they hold.
    """
    traced = dict(key)
    constants = {n: _constant(k) for n, k in key if _is_constant(k)}

    def bind(concrete: ConcreteFunction, args: tuple, kwargs: dict) -> tuple[list[Any], tuple]:
        bound = _bound(signature, label, args, kwargs, constants)
        known = specs
        if any(s.shape is None for s in specs):
            known = [s.of_rank(v.type.shape) for s, v in zip(specs, concrete.inputs)]

        def taken(flat: Flat) -> str:
            """The first parameter whose argument does not fit."""
            fits = _Fits(known, concrete.open_numbers)
            for name, x in bound.arguments.items():
                if not fits(traced[name], normal(arguments.key_of(x, flat, name))):
                    return name
            return ""

        flat = Flat(opened=opened)
        name = taken(flat)
        if name and not graph_effects(concrete.graph).writes:
            flat = Flat(places=None, opened=opened)  # a tensor that is given twice is read as two
            name = taken(flat)
        if name:
            wanted = _text(traced[name], known)
            raise _refused(label, name, bound.arguments[name], wanted)
        return families.inputs_of(flat, concrete.open_numbers), ()

    return bind


def _bound(
    signature: inspect.Signature, label: str, args: tuple, kwargs: dict, constants: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError:
        return arguments.bind(signature, args, kwargs, label)  # the error in Python's words
    given = {**constants, **bound.arguments}
    bound.arguments = {n: given[n] for n in signature.parameters if n in given}
    return arguments.bind(signature, bound.args, bound.kwargs, label)


class _Fits:
    """Whether the key of an argument is one that the trace is for. ``count``: the Python numbers that were met."""

    def __init__(self, specs: Sequence[TensorSpec], open_numbers: Sequence[int]):
        self.specs, self.open_numbers, self.count = specs, open_numbers, -1

    def __call__(self, traced: Any, given: Any) -> bool:
        if (
            not isinstance(traced, tuple)
            or not isinstance(given, tuple)
            or len(traced) != len(given)
        ):
            return traced == given
        if len(traced) == 2 and traced[0] in (int, float):
            self.count += 1
            return traced[0] is given[0] and (self.count in self.open_numbers or traced == given)
        if len(traced) == 6 and traced[0] == given[0] == "tensor":
            return self._tensor(traced, given)
        return all(map(self, traced, given))

    def _tensor(self, traced: tuple, given: tuple) -> bool:
        shape = (
            self.specs[traced[5]].shape or ()
        )  # known, also where the trace is one of those of any rank
        same = (traced[1], traced[3], traced[5]) == (given[1], given[3], given[5])
        return (
            same
            and len(shape) == len(given[2])
            and all(m in (None, n) for m, n in zip(shape, given[2]))
        )


def _text(traced: Any, specs: Sequence[TensorSpec]) -> str:
    """What an argument was in the trace."""
    if isinstance(traced, tuple) and len(traced) == 6 and traced[0] == "tensor":
        return repr(specs[traced[5]])
    return repr(_constant(traced)) if _is_constant(traced) else "another value"


def _refused(label: str, name: str, x: Any, wanted: str) -> SignatureError:
    found = repr(TensorSpec.of(x)) if isinstance(x, torch.Tensor) else repr(x)
    if found == wanted:
        found, wanted = (
            "another argument too",
            "tensors that are shared in another way, and writes to them",
        )
    return SignatureError(
        f"Binding inputs to the concrete function of {label!r} failed: argument {name!r} is {found}, and it was traced for {wanted}. "
        "Call the tg.function itself, which traces for other arguments, or get another concrete function."
    )
