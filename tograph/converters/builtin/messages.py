"""Text that goes out when the graph runs: ``logging``, ``warnings.warn`` and ``warn_explicit``, and ``write`` of text files.

Each is a print into a sink: it acts whenever the graph runs, in order with other prints. A record carries the line of the user's call.
A log call whose level is off while tracing is left out. A warning outside of staged branches and loops is given once, while tracing. The filters that
``warnings.catch_warnings`` sets in the function are gone when the graph runs: there a warning of the run is left out (``"ignore"``) or refused.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import StagingError
from ...runtime.library.staged_string import StagedString
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from .. import union
from ..outside_world import is_opened_here, plain_text
from ..registry import STREAM_METHODS, handles
from ..strings import fstring, percent
from .printing import print_


class Sink:
    """Where a print goes whose text another function takes."""

    def __init__(self, take: Callable[[str], Any]):
        self.take, self.text = take, ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        text, self.text = self.text, ""
        self.take(text)


def _send(text: Any, take: Callable[[str], Any]) -> None:
    print_(text, end="", file=Sink(take), flush=True)


# ---- logging


def _text(message: Any, args: tuple) -> Any:
    """What ``LogRecord.getMessage`` makes."""
    text = message if isinstance(message, (str, StagedString)) else fstring((message, "s", ""))
    if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
        return percent(text, args[0])
    return percent(text, args) if args else text


def _log(logger: Any, level: int, message: Any, args: tuple, options: dict[str, Any]) -> None:
    if not is_tracing():
        logger.log(level, message, *args, **options)
        return
    if not logger.isEnabledFor(level):
        return
    if union.holds_union((message, *args), {}):
        union.apply(lambda m, *a: _log(logger, level, m, a, options), message, *args)
        return
    file, line = user_location() or ("(unknown file)", 0)
    options = {k: v for k, v in options.items() if k in ("extra", "exc_info")}

    def take(text: str) -> None:
        if logger.isEnabledFor(level):
            error = sys.exc_info() if options.get("exc_info") else None
            logger.handle(
                logger.makeRecord(
                    logger.name, level, file, line, text, (), error, None, options.get("extra")
                )
            )

    _send(_text(message, args), take)


def _of_logger(level: int, **more: Any) -> Callable[..., None]:
    def form(logger, message, *args, **options):
        _log(logger, level, message, args, {**more, **options})

    return form


def _of_root(level: int, plain: Callable[..., None], **more: Any) -> Callable[..., None]:
    def form(message, *args, **options):
        if not is_tracing():
            plain(message, *args, **options)
            return
        if not logging.root.handlers:
            logging.basicConfig()
        _log(logging.root, level, message, args, {**more, **options})

    return form


def _of_adapter(level: int, **more: Any) -> Callable[..., None]:
    def form(adapter, message, *args, **options):
        message, options = adapter.process(message, {**more, **options})
        _log(adapter.logger, level, message, args, options)

    return form


for _name, _level in [
    ("debug", logging.DEBUG),
    ("info", logging.INFO),
    ("warning", logging.WARNING),
    ("error", logging.ERROR),
    ("critical", logging.CRITICAL),
    ("exception", logging.ERROR),
]:
    _more = {"exc_info": True} if _name == "exception" else {}
    handles(getattr(logging.Logger, _name))(_of_logger(_level, **_more))
    handles(getattr(logging.LoggerAdapter, _name))(_of_adapter(_level, **_more))
    _plain = getattr(logging, _name)
    handles(_plain)(_of_root(_level, _plain, **_more))


@handles(logging.Logger.log)
def log(logger, level, message, *args, **options):
    _log(logger, level, message, args, options)


# ---- warnings


@handles(warnings.warn)
def warn(message, category=None, stacklevel=1, source=None, **options):
    if not is_tracing() or (journal.depth() < 2 and not _of_the_run(message)):
        warnings.warn(message, category, _stack_level(stacklevel), source, **options)
        return
    file, line = user_location() or ("(unknown file)", 0)
    _warn(message, category or UserWarning, file, line, {"registry": {}})


def _stack_level(wanted: int) -> int:
    """The ``stacklevel`` for the form above that means frame ``wanted`` of those that are not of this package."""
    frame, level = sys._getframe(2), 1
    while frame.f_back is not None:
        wanted -= not frame.f_globals.get("__name__", "").startswith("tograph.")
        if not wanted:
            break
        frame, level = frame.f_back, level + 1
    return level + 1


_CAUGHT: WeakKeyDictionary[Any, list[warnings.catch_warnings]] = WeakKeyDictionary()


@handles(warnings.catch_warnings)
def catch_warnings(**options):
    made = warnings.catch_warnings(**options)
    if is_tracing():
        _CAUGHT.setdefault(current_graph().root, []).append(made)
    return made


def _is_left_out(text: Any, kind: type) -> bool:
    """Whether filters that the function itself has set ignore a warning of the run; StagingError where they do something else with it."""
    made, current = _CAUGHT.get(current_graph().root, ()), warnings.filters
    if all(vars(m).get("_filters", current) is current for m in made):
        return False  # none of those is entered
    for action, message, category, module, line in current:
        if not issubclass(kind, category):
            continue
        if message is None and module is None and not line and action == "ignore":
            return True
        if message is None or not isinstance(text, str) or message.match(text):
            break
    raise StagingError(
        "a warning by a condition or with a text that is known only when the graph runs cannot be caught, or made an error, by "
        "`with warnings.catch_warnings():` in the function: write that around the call of the function",
        user_location(),
    )


@handles(warnings.warn_explicit)
def warn_explicit(message, category, filename, lineno, *rest, **options):
    if not is_tracing() or (journal.depth() < 2 and not _of_the_run(message)):
        warnings.warn_explicit(message, category, filename, lineno, *rest, **options)
        return
    options |= zip(("module", "registry", "module_globals", "source"), rest)
    _warn(message, category, filename, lineno, options)


def _warn(message: Any, category: Any, file: str, line: int, options: dict[str, Any]) -> None:
    """A warning when the graph runs."""
    if _of_the_run(message) and isinstance(message, Warning):
        message, category = message.args[0], type(message)  # which makes it again of the text
    given = isinstance(message, Warning)
    kind = type(message) if given else category
    if _is_left_out(message, kind):
        return

    def take(text: str) -> None:
        warnings.warn_explicit(message if given else text, kind, file, line, **options)

    _send(fstring((message, "s", "")) if given else message, take)


def _of_the_run(message: Any) -> bool:
    """Whether the text of a warning is known only when the graph runs: one of the function's own, or of one that it has made."""
    if isinstance(message, Warning) and len(message.args) == 1:
        message = message.args[0]
    return isinstance(message, StagedString)


# ---- files


def _write(file, text):
    if not isinstance(text, (str, StagedString)):
        return file.write(text)
    if is_opened_here(file):
        return file.write(plain_text(text))
    print_(text, end="", file=None if file is sys.stdout else file)
    return len(text) if isinstance(text, str) else text.__tograph_len__()


def _writelines(file, lines):
    for line in lines:
        _write(file, line)


def _flush(file):
    if is_opened_here(file):
        file.flush()
        return
    print_("", end="", file=None if file is sys.stdout else file, flush=True)


STREAM_METHODS.update(write=_write, writelines=_writelines, flush=_flush)
