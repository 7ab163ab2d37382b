"""What needs the value of a tensor while tracing: refused at the user's line, with advice that fits the code there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...errors import GraphBoolError, SymbolicValueError, UnsupportedOpError
from ..inference.infer import tensor_type
from .asking import asked_by, refusal
from .funcgraph import user_location

if TYPE_CHECKING:
    from ..inference.shapes import Meta


NO_ADDRESS = "Cannot access data pointer of Tensor"  # torch's words for a symbolic tensor's


def no_array(name: str) -> SymbolicValueError:
    """The error of a function that makes an array of a tensor from outside of the trace."""
    return SymbolicValueError(
        f"{name}() asks for the memory of a torch.Tensor: what it holds is known only when the graph runs. Use torch functions, make "
        "the array outside and let the function use that, or use tg.py_function.",
        user_location(),
    )


def no_elements(name: str) -> UnsupportedOpError:
    """The error of a method that calls a Python function for each element."""
    return UnsupportedOpError(
        f"{name}() calls a Python function for every element, in the memory of a tensor, which a graph cannot do: write what the function does "
        "with operations on the whole tensor, loop over its elements, or use tg.py_function.",
        user_location(),
    )


class Valueless:
    """The methods of a symbolic tensor that Python and libraries ask its value by."""

    __slots__ = ()
    meta: Meta

    def _no_value(self, what: str, depth: int = 2):
        error = GraphBoolError(
            f"Using a symbolic `torch.Tensor` as a Python `{what}` is not allowed: its value is known only when the "
            f"graph runs. {asked_by(sys._getframe(depth))}",
            user_location(),
        )
        raise refusal(error)

    def _number(self, kind: type):
        """The number that a tensor of one element is, where C code of torch or numpy may ask for what is known (``contents``)."""
        found = NUMBER(self) if self.meta.size in ((), (1,)) else None
        return self._no_value(kind.__name__, 3) if found is None else kind(found)

    def __bool__(self):
        return self._number(bool)

    def __int__(self):
        return self._number(int)

    def __float__(self):
        return self._number(float)

    def __complex__(self):
        self._no_value("complex")

    def __index__(self):
        self._no_value("int")

    def __contains__(self, item):
        self._no_value("bool")

    def __array__(self, dtype=None, copy=None):
        made = self._array(shares=not copy)
        return made if dtype is None else made.astype(dtype, copy=False)

    def numpy(self, *, force=False):
        return (self.detach() if force else self)._array()

    def _array(self, shares=True):
        """The array of what the tensor holds, where that is known (``contents``)."""
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")  # fmt: skip
        made = ARRAY(self, shares)
        if made is not None:
            return made
        error = SymbolicValueError(
            f"Cannot convert a symbolic torch.Tensor ({tensor_type(self.meta)}) to a numpy array: numpy() needs the "
            "value, which is known only when the graph runs. Use torch functions, or tg.py_function.",
            user_location(),
        )
        raise refusal(error)

    def __reduce_ex__(self, protocol):
        raise SymbolicValueError(
            "a torch.Tensor of a graph cannot be pickled or saved: its value is known only when the graph runs. Save what the "
            "function returns, or use tg.py_function.",
            user_location(),
        )

    def __dlpack__(self, *args, **kwargs):
        self.data_ptr()

    def __copy__(self):
        """Another tensor of the same memory, as ``copy.copy`` makes it."""
        made = self.detach()
        return made.requires_grad_() if self.requires_grad else made

    def apply_(self, function):  # torch's own would write to an address that there is not
        raise no_elements("apply_")

    def map_(self, other, function):
        raise no_elements("map_")

    def map2_(self, one, two, function):
        raise no_elements("map2_")

    def const_data_ptr(self):
        self.data_ptr()

    def data_ptr(self):
        raise SymbolicValueError(
            "a torch.Tensor of a graph has no address (data_ptr) while tracing. Use tg.py_function for code that needs it.",
            user_location(),
        )


def ARRAY(x: Valueless, shares: bool) -> Any:
    """The array that a symbolic tensor is, which may share its memory; None where it is not known. Set by ``symbolic``."""


def NUMBER(x: Valueless) -> Any:
    """The number that a symbolic tensor of one element is; None where it is not known, or not asked for by such code. Set by ``symbolic``."""
