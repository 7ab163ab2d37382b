"""Every error that tograph raises by itself: one class per cause, public as ``tg.errors``.

Each class also derives from the built-in exception that plain Python or PyTorch would raise for the
same mistake, so an ``except`` clause written for the plain function still works. The location is
added by the base class: ``location`` is ``(file, line)`` of the user's code, shown below the text.
"""

from __future__ import annotations

import linecache
import re
import sys
import types
from collections.abc import Sequence
from itertools import islice

Location = tuple[str, int]


class Place(tuple):
    """A location, with the code and the line of each call of the user's around it, innermost first and itself among them."""

    calls: Sequence[tuple[types.CodeType, int]] = ()


class Explained(tuple):
    """A location, with what a person reads about the error that happened there."""

    note: str = ""


def show_location(location: Location | None) -> str:
    """Two lines that show where in the user's file something happened, or an empty string."""
    if location is None:
        return ""
    file, line = location
    source = linecache.getline(file, line).strip()
    return f'\n  File "{file}", line {line}' + (f"\n    {source}" if source else "")


def show_caret(location: Location | None) -> str:
    """A line of carets under the expression that runs at a location on the stack now; empty for a whole line."""
    frame = sys._getframe(2)
    while location is not None and frame is not None:
        if (frame.f_code.co_filename, frame.f_lineno) == location:
            positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
            carets = carets_under(linecache.getline(*location).rstrip(), location[1], positions)
            return f"\n    {carets}" if carets else ""
        frame = frame.f_back
    return ""


_TEST = re.compile(r"\s*(?:el)?(?:if|while)\s+(?P<test>.*\S)\s*:")


def carets_under(line: str, number: int, positions: tuple) -> str:
    """Carets under an expression, for its line without indentation; empty where that is the whole line.

    ``positions``: first line, last line, first column, end column, as code objects give them. A statement that holds
    others has no width: its test is meant.
    """
    first, last, start, end = positions
    text, raw = line.strip(), line.encode()
    if first != number or start is None or not text:
        return ""
    if (first, start) == (last, end):
        test = _TEST.match(line)
        if test is None:
            return ""
        start, end = (
            len(line[: test.start("test")].encode()),
            len(line[: test.end("test")].encode()),
        )
    elif last != first:
        end = len(raw)
    before = raw[:start].decode(errors="replace").lstrip()
    width = len(raw[start:end].decode(errors="replace"))
    return "" if not 0 < width < len(text) else " " * len(before) + "^" * width


class TographError(Exception):
    """Base of all errors that tograph raises by itself."""

    def __init__(self, message: str, location: Location | None = None):
        super().__init__(message + show_location(location) + show_caret(location))
        self.message, self.location = message, location


class StagingError(TographError):
    """A construct that cannot become part of a graph."""

    in_any_form = False  # whether a loop that is unrolled has the same error
    stood: object = None  # where a dict or set from outside is found that a table would have to stand for (``guarding.outer_tables``)
    grown = False  # a list from outside that grows by a staged condition is used in another way (``guarding.outer_lists``)
    table: Location | None = (
        None  # where the dict or set was made that would have to be one of the graph (``values.tables``)
    )


class ConversionError(StagingError, ValueError):
    """A function whose source cannot be rewritten."""


class SourceError(ConversionError):
    """A function whose source cannot be found."""


class AsyncFunctionError(ConversionError, TypeError):
    """A function that gives a coroutine instead of values."""

    def __init__(self, name: str, location: Location | None = None):
        super().__init__(
            f"{name!r} is an async function: asynchronous functions are not supported in a graph. A function "
            "must return zero or more Tensors, Python values or None, not a coroutine",
            location,
        )


class NotAFunctionError(TographError, TypeError):
    """``tg.function`` was given something that is not a function with Python source."""


class ScopeError(StagingError, RuntimeError):
    """A tensor of one graph used in another graph that cannot see it."""


class GraphBoolError(StagingError, TypeError):
    """A value that is only known when the graph runs, used as a Python bool or number."""

    formula: object = None  # the node of torch's autograd whose formula used it


class ConditionError(GraphBoolError, ValueError, RuntimeError):
    """A condition that is neither true nor false, such as a tensor of several elements. ``plain``: what torch says."""

    plain = "Boolean value of Tensor with more than one value is ambiguous"


def refused(error: BaseException | None) -> bool:
    """Whether an exception says that tograph cannot do something, which is no exception of the program."""
    return isinstance(error, StagingError) and not isinstance(error, ConditionError)


class UnknownSizeError(GraphBoolError):
    """A size that is only known when the graph runs, where the rank or number of results depends on it."""


class SymbolicValueError(GraphBoolError, NotImplementedError):
    """A value that is only known when the graph runs, asked for its contents (``numpy()``)."""


class UnsupportedOpError(StagingError, NotImplementedError):
    """A PyTorch operation that has no functional form."""


class LoopTypeError(StagingError, TypeError):
    """Loop state whose kind changes from one iteration to the next."""


class LoopShapeError(LoopTypeError, ValueError):
    """A tensor of loop state whose number of dimensions changes from one iteration to the next."""


class ShapeInvariantError(StagingError, ValueError):
    """Loop state whose shape does not conform with a declared invariant."""


class DirectiveError(ConversionError):
    """A loop directive in the wrong place."""


class IterationLimitError(StagingError, ValueError):
    """A Python loop that ran longer than ``tg.debug.python_iteration_limit`` while tracing."""


class GradientError(StagingError, NotImplementedError):
    """A gradient that cannot be taken."""

    apart = False  # whether it can be with the first iteration of the loop around apart
    again = False  # whether it can be of what an iteration computes anew
    rising = False  # whether each is of a higher order than the one before


class CreationError(StagingError, ValueError):
    """A variable or module that every call would make anew, or that is made in a staged branch or loop."""


class SharedMemoryError(StagingError, RuntimeError):
    """Two tensors that share memory and of which one is written, where the graph cannot know them as one."""


class AliasError(StagingError, RuntimeError):
    """A tensor or container that may be shared with another name, in a way that a graph cannot follow, is changed."""


class DeadResourceError(TographError, ReferenceError):
    """A tensor, variable or object that a function used and that does not exist any more."""


class RecursiveCallError(StagingError, RecursionError):
    """A function that calls itself until a staged condition holds, otherwise than at its end."""


class MappedConditionError(StagingError):
    """A tensor that ``torch.func.vmap`` maps, inside of a function, in a staged condition, loop or ``try``."""


class LastingChangeError(StagingError):
    """A change that was made while tracing and cannot be undone: tracing again would find it made."""


class StructureError(StagingError, TypeError):
    """Two structures that must agree and do not."""


class SignatureError(TographError, TypeError):
    """Arguments that do not fit the function's signature or its ``input_signature``."""


class UnhashableArgumentError(SignatureError):
    """A Python argument that cannot be part of a trace key."""


class UnsavedSignatureError(SignatureError, ValueError):
    """A call of a loaded function with arguments that none of its saved traces takes."""


class UnsavableError(TographError, TypeError):
    """Something that a saved file cannot hold, such as a Python callback."""


class InterchangeError(TographError, NotImplementedError):
    """An op that another system's form of a graph does not have. ``advice``: a sentence on what to do."""

    def __init__(self, system: str, op: str, location: Location | None = None, advice: str = ""):
        text = f"{system} has no counterpart of {op}"
        super().__init__(f"{text}. {advice}" if advice else text, location)


class SavedFileError(TographError, ValueError):
    """A file that ``tg.load`` cannot read."""


class ForeignFileError(SavedFileError):
    """A file that ``tg.save`` did not write."""


class CorruptFileError(SavedFileError):
    """A saved file that was cut off or changed."""


class NewerFileError(SavedFileError):
    """A saved file in a format that this version of tograph does not know."""


class InvalidArgumentError(TographError, ValueError):
    """A check that failed while a graph ran."""


class AssertionFailed(InvalidArgumentError, AssertionError):
    """``tg.debug.assert_`` or a staged ``assert`` that failed while a graph ran."""


class UnexpectedSizeError(StagingError, RuntimeError):
    """A size, known only when the graph runs, that torch's own code was not traced for."""


class NoIterationError(StagingError, RuntimeError):
    """A staged loop in which gradients are gathered had no iteration, and what follows was traced for those gradients."""


class NoGradientError(StagingError, RuntimeError):
    """A gradient is None, because the paths that a call took do not lead to it, and what follows was traced for a tensor."""


class OutOfRangeError(TographError, IndexError):
    """An index outside an array, or more than there is room for, while a graph ran."""


OF_THE_PROGRAM = (
    InvalidArgumentError,
    OutOfRangeError,
)  # mistakes where it gets there, as Python's own errors are


class LateFailureError(TographError, RuntimeError):
    """A call on a GPU that has failed where nothing had told that it could: what decided it was written unseen."""

    def __init__(self, name: str, code: int, location: Location | None = None):
        super().__init__(
            f"a call of {name} before this one has failed on the GPU (code {code}), so that what it and later calls have given is wrong. Its "
            "inputs had not failed in an earlier call, and have been written in a way that PyTorch does not count: by x.data, in a CUDA graph or by "
            "another library",
            location,
        )


class GraphSyntaxError(TographError, ValueError):
    """Text that is not a graph."""


class NotAGraphError(GraphSyntaxError, TypeError):
    """Something other than text where the text of a graph is read."""


class VerifyError(TographError, AssertionError):
    """A graph that breaks a rule of the IR: a defect of tograph."""
