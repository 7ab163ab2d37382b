"""Every error that tograph raises by itself: one class per cause, public as ``tg.errors``.

Each class also derives from the built-in exception that plain Python or PyTorch would raise for the
same mistake, so an ``except`` clause written for the plain function still works. The location is
added by the base class: ``location`` is ``(file, line)`` of the user's code, shown below the text.
"""

from __future__ import annotations

import linecache

Location = tuple[str, int]


def show_location(location: Location | None) -> str:
    """Two lines that show where in the user's file something happened, or an empty string."""
    if location is None:
        return ""
    file, line = location
    source = linecache.getline(file, line).strip()
    return f'\n  File "{file}", line {line}' + (f"\n    {source}" if source else "")


class TographError(Exception):
    """Base of all errors that tograph raises by itself."""

    def __init__(self, message: str, location: Location | None = None):
        super().__init__(message + show_location(location))
        self.location = location


class StagingError(TographError):
    """A construct that cannot become part of a graph."""


class ConversionError(StagingError, ValueError):
    """A function whose source cannot be rewritten."""


class SourceError(ConversionError):
    """A function whose source cannot be found."""


class NotAFunctionError(TographError, TypeError):
    """``tg.function`` was given something that is not a function with Python source."""


class ScopeError(StagingError, RuntimeError):
    """A tensor of one graph used in another graph that cannot see it."""


class GraphBoolError(StagingError, TypeError):
    """A value that is only known when the graph runs, used as a Python bool or number."""


class SymbolicValueError(GraphBoolError, NotImplementedError):
    """A value that is only known when the graph runs, asked for its contents (``numpy()``)."""


class UnsupportedOpError(StagingError, NotImplementedError):
    """A PyTorch operation that has no functional form."""


class LoopTypeError(StagingError, TypeError):
    """Loop state whose kind changes from one iteration to the next."""


class ShapeInvariantError(StagingError, ValueError):
    """Loop state whose shape does not conform with a declared invariant."""


class DirectiveError(ConversionError):
    """A loop directive in the wrong place."""


class IterationLimitError(StagingError, ValueError):
    """A Python loop that ran longer than ``tg.debug.python_iteration_limit`` while tracing."""


class GradientError(StagingError, NotImplementedError):
    """A gradient that cannot be taken inside a function."""


class CreationError(StagingError, ValueError):
    """A variable or module that every call would make anew, or that is made in a staged branch or loop."""


class DeadResourceError(TographError, ReferenceError):
    """A tensor, variable or object that a function used and that does not exist any more."""


class StructureError(StagingError, TypeError):
    """Two structures that must agree and do not."""


class SignatureError(TographError, TypeError):
    """Arguments that do not fit the function's signature or its ``input_signature``."""


class UnhashableArgumentError(SignatureError):
    """A Python argument that cannot be part of a trace key."""


class InvalidArgumentError(TographError, ValueError):
    """A check that failed while a graph ran."""


class AssertionFailed(InvalidArgumentError, AssertionError):
    """``tg.debug.assert_`` or a staged ``assert`` that failed while a graph ran."""


class OutOfRangeError(TographError, IndexError):
    """An index outside a list or array while a graph ran."""


class GraphSyntaxError(TographError, ValueError):
    """Text that is not a graph."""


class VerifyError(TographError, AssertionError):
    """A graph that breaks a rule of the IR: a defect of tograph."""
