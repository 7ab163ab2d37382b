"""The five environment variables of tograph, and the verbosity of its log."""

from __future__ import annotations

import logging
import os

from .errors import SignatureError


def _level(text: str) -> int:
    """The number that TOGRAPH_DEBUG gives."""
    if text.strip() not in ("", "0", "1", "2", "3", "4", "5"):
        raise SignatureError(f"TOGRAPH_DEBUG is a whole number from 0 to 5, not {text!r}")
    return int(text.strip() or 0)


DEBUG = _level(os.environ.get("TOGRAPH_DEBUG", ""))
DUMP = os.environ.get("TOGRAPH_DUMP", "")
VERIFY = os.environ.get("TOGRAPH_VERIFY", "") not in ("", "0")
NOOPT = os.environ.get("TOGRAPH_NOOPT", "") not in ("", "0")
_FOLDER = os.environ.get("TOGRAPH_CACHE_DIR", "")
CACHE_DIR = (
    os.path.abspath(os.path.expanduser(_FOLDER)) if _FOLDER else ""
)  # the program may change its directory

_LEVELS = {0: logging.WARNING, 1: logging.INFO}
_verbosity = [0]


def set_verbosity(level: int) -> None:
    """How much the logger "tograph" says.

    0 warnings; 1 each trace, with its time and reason; 2 each conversion; 3 the graph of each trace; 4 the rewritten
    Python; 5 the host program. Where logging is not set up, level 1 and more print to stderr.

    Example: ``tg.set_verbosity(1)`` shows why a function is traced anew.
    """
    if not isinstance(level, int) or not 0 <= level <= 5:
        raise SignatureError(f"the verbosity is a whole number from 0 to 5, not {level!r}")
    _verbosity[0] = level
    logger = logging.getLogger("tograph")
    logger.setLevel(_LEVELS.get(level, logging.DEBUG))
    if level and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tograph: %(message)s"))
        logger.addHandler(handler)


def verbosity() -> int:
    """The level that ``set_verbosity`` set last."""
    return _verbosity[0]


if DEBUG:
    set_verbosity(DEBUG)
