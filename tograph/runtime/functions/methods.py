"""``tg.function`` on methods: one function for each object, which does not keep the object alive."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from ...errors import ScopeError
from ..recording.outer_tracers import opaque
from .signatures import signature_of

P = ParamSpec("P")
R = TypeVar("R")


class WeakMethod:
    """A method of an object that it does not keep alive."""

    def __init__(self, function: Callable[..., Any], instance: Any):
        self.function, self.instance = function, weakref.ref(instance)
        functools.update_wrapper(self, function, updated=())
        parameters = list(signature_of(function).parameters.values())
        bound = parameters[:1] and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL
        self.__signature__ = inspect.Signature(parameters[1:] if bound else parameters)

    def __call__(self, /, *args, **kwargs):
        return self.function(self.bound_to(), *args, **kwargs)

    def bound_to(self) -> Any:
        instance = self.instance()
        if instance is None:
            raise ScopeError(
                f"the object whose method {self.function.__name__!r} is called does not exist any more"
            )
        return instance


class HeldMethod:
    """A ``Function`` of a method and an object that cannot be referenced weakly, such as one with slots: it is an argument of that function."""

    def __init__(self, function: Any, instance: Any):
        self.function, self.instance = function, instance
        self.python_function = types.MethodType(function.python_function, instance)
        self.__wrapped__ = self.python_function

    def __call__(self, /, *args, **kwargs):
        return self.function(self.instance, *args, **kwargs)

    def get_concrete_function(self, /, *args, **kwargs):
        """The trace for the object and these arguments; it is called with the object, too."""
        return self.function.get_concrete_function(self.instance, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __repr__(self):
        return repr(self.function)


def can_be_weak(x: Any) -> bool:
    """Whether an object can be referenced weakly."""
    return type(x).__weakrefoffset__ != 0 or isinstance(x, type)


class BoundFunction(Generic[P, R]):
    """A ``Function`` of a method together with the object, which it keeps alive for the time of the call."""

    __tograph_callable__ = True

    def __init__(self, function: Any, instance: Any, unbound: Any):
        self._function, self.__self__, self._unbound = function, instance, unbound
        # Its name is asked of the function; these every object has by its class, annotations from the first time on that the class is asked for its own.
        python = function.python_function
        self.__module__, self.__doc__ = python.__module__, python.__doc__
        try:  # noqa: SIM105  as fast as without
            self.__annotations__ = unbound.__annotations__
        except AttributeError:  # of what is no function
            pass

    @opaque
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self

    @property
    def __func__(self) -> Any:
        """The function that is not bound, as of Python's methods."""
        return self._unbound

    @property
    def __code__(self) -> types.CodeType:
        """The user's: ``torch.export`` asks the ``forward`` of a module where it stands."""
        return self._unbound.python_function.__code__

    def __getattr__(self, name):
        function = self.__dict__.get("_function")
        if function is None:  # not initialised yet: torch.compile makes it so
            raise AttributeError(name)
        return getattr(function, name)

    def __eq__(self, other):
        if not isinstance(other, BoundFunction):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self):
        return hash(self._identity())

    def _identity(self) -> tuple[int, int]:
        known = self.__dict__  # without content in torch.compile, which asks all the same
        return id(known.get("__self__")), id(known.get("_unbound"))

    def __reduce__(self):
        return getattr, (self.__self__, self._unbound.python_function.__name__)

    def __deepcopy__(self, memo):
        return self._unbound.__get__(copy.deepcopy(self.__self__, memo))

    def __repr__(self):
        return f"<bound {self._function!r} of {self.__self__!r}>"
