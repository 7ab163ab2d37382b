"""Loops that no state fits as long as their first iteration is one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...errors import AliasError, LoopTypeError, SharedMemoryError, StagingError, StructureError
from ..symbols.journal import Location as Place
from ..symbols.retrace import Retrace
from .attempts import Attempt

Made = TypeVar("Made")
_OF_STATE = (StagingError, StructureError, LoopTypeError, AliasError, SharedMemoryError)


def whole_or(
    whole: Callable[[], Made | None],
    apart: Callable[[], Made | None],
    places: Sequence[Place],
    outermost: bool,
) -> Made | None:
    """The rounds of a loop. One that no state fits has its first iteration ``apart``: only that one sets a key, makes a module or turns on
    ``requires_grad``, finds an object from outside where later ones find what iterations made, or differentiates by its state what comes from that by other names.

    For the last alone where the loop is not ``outermost``: that is rare, and each attempt is another trace of all loops inside.
    """
    attempt = Attempt(places)
    try:
        rounds = whole()
    except (StagingError, Retrace) as error:
        attempt.undo()
        helps = getattr(error, "apart", None)  # None where it does not say
        if not helps and (helps is False or not outermost or type(error) not in _OF_STATE):
            raise
        failure = error
    except BaseException:
        attempt.commit()
        raise
    else:
        attempt.commit()
        return rounds
    try:
        return apart()
    except (
        Exception
    ):  # the user's code runs here, on what it was not written for: it may raise anything
        raise failure from None
    except Retrace as again:
        raise (failure if again.apart else again) from None
