"""``tg.Variable``: a tensor that functions read and write by reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import InvalidArgumentError, SignatureError, StructureError
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import is_tracing, user_location
from ..symbols.misuse import check_flag
from ..symbols.symbolic import SymTensor
from ..writes.mutation import VARIABLE
from . import creation, now


class Variable(torch.Tensor):
    """A tensor with a value that functions may assign. It is a ``torch.Tensor`` and takes part in autograd.

    ``value``: a tensor, a number, a list, or a function that gives one. ``dtype``: of the variable, that of the value by
    default. ``requires_grad``: for floating variables. ``name``: an attribute for people to read.

    Example::

        v = tg.Variable(0.0)

        @tg.function
        def add(x):
            v.assign_add(x)
            return v.read_value()
    """

    name_: str | None

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls,
        value: Any,
        dtype: torch.dtype | None = None,
        requires_grad: bool = True,
        name: str | None = None,
    ):
        check_flag(requires_grad, "tg.Variable", "requires_grad")
        if not isinstance(name, str | None):
            raise SignatureError(
                f"'name' of tg.Variable must be a str, not {name!r}", user_location()
            )
        if is_tracing():
            return _made_in_a_trace(cls, value, dtype, requires_grad, name)
        if isinstance(value, Callable) and not isinstance(value, torch.Tensor):
            value = value()
        data = _data(value, dtype).detach().clone()
        grad = requires_grad and (data.is_floating_point() or data.is_complex())
        made = torch.Tensor._make_subclass(cls, data, grad)
        made.name_ = name
        return made

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    @property
    def name(self) -> str | None:
        """The name that the variable was given; it means nothing to tograph."""
        return self.name_

    def read_value(self) -> torch.Tensor:
        """A snapshot of the value: later assignments do not change it."""
        return self.clone()

    def assign(self, value: Any) -> Variable:
        """Set the value; shape and dtype stay."""
        with torch.no_grad():
            self.copy_(self._checked(value))
        return self

    def assign_add(self, delta: Any) -> Variable:
        """Add to the value."""
        with torch.no_grad():
            self.copy_(self.detach() + self._checked(delta, broadcast=True))
        return self

    def assign_sub(self, delta: Any) -> Variable:
        """Subtract from the value."""
        with torch.no_grad():
            self.copy_(self.detach() - self._checked(delta, broadcast=True))
        return self

    def _checked(self, value: Any, broadcast: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dtype != self.dtype:
                raise self._unfit(value.dtype)
            return value if broadcast else self._of_its_shape(value)
        if isinstance(value, SYMBOLS):
            exact = {int: torch.int64, float: torch.float32}
            dtype = exact.get(value.node.kind, torch.bool)
        else:
            dtype = _data(value).dtype
        if not torch.can_cast(dtype, self.dtype):
            raise self._unfit(dtype)
        if isinstance(value, SYMBOLS):
            return value
        made = torch.as_tensor(value, dtype=self.dtype)
        return made if broadcast or not made.dim() else self._of_its_shape(made)

    def _of_its_shape(self, value: torch.Tensor) -> torch.Tensor:
        if tuple(value.shape) != tuple(self.shape):
            raise InvalidArgumentError(
                f"a variable of shape {tuple(self.shape)} cannot take a value of shape {tuple(value.shape)}",
                user_location(),
            )
        return value

    def _unfit(self, dtype: torch.dtype) -> StructureError:
        return StructureError(
            f"a variable of dtype {self.dtype} cannot take a value of dtype {dtype}",
            user_location(),
        )

    def __deepcopy__(self, memo: dict) -> Variable:
        if id(self) not in memo:
            memo[id(self)] = Variable(*self._parts())
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return Variable, self._parts()

    def _parts(self) -> tuple:
        plain = self.detach().as_subclass(torch.Tensor)
        return plain, self.dtype, self.requires_grad, self.name_

    def __repr__(self, **kwargs: Any) -> str:
        return f"tg.Variable({self.tolist()}, dtype={self.dtype})"


PLAIN = (torch.Tensor, torch.nn.Parameter, Variable)  # classes of tensors whose ops are torch's own


def _data(value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    if not isinstance(dtype, torch.dtype | None):
        raise SignatureError(f"dtype must be a torch.dtype, not {dtype!r}", user_location())
    try:
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise StructureError(
            f"the value of a variable is a tensor, a number or a list of numbers, not {value!r}",
            user_location(),
        ) from error


def _made_in_a_trace(cls: Any, value: Any, *rest: Any) -> Variable:
    if isinstance(value, Callable) and not isinstance(value, torch.Tensor):
        value = value()
    creation.check("a tg.Variable")
    data = now.value_now(value)
    return creation.make(lambda: cls(data, *rest))


class SymVariable(SymTensor, Variable):
    """A variable that came as an argument, while tracing."""

    __repr__ = SymTensor.__repr__


VARIABLE[0] = SymVariable
