"""What can be neither pickled nor copied: an object that belongs to one process, with tensors of the caller's in it."""

from __future__ import annotations

import pickle
from typing import Any, NoReturn


class Unpicklable:
    """A base of classes of such objects; ``copy.deepcopy`` and ``pickle`` say what to do in place of it."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise pickle.PicklingError(
            f"cannot pickle or copy {self!r}: it holds compiled code and the tensors that were captured. Pickle or copy the "
            "tg.function, or write it to a file with tg.save"
        )

    def __copy__(self) -> Any:
        """Another object with the same compiled code and tensors."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made
