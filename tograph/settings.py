"""The five environment variables of tograph, and the verbosity of its log."""

from __future__ import annotations

import logging
import os

DEBUG = int(os.environ.get("TOGRAPH_DEBUG", "0") or 0)
DUMP = os.environ.get("TOGRAPH_DUMP", "")
VERIFY = os.environ.get("TOGRAPH_VERIFY", "") not in ("", "0")
NOOPT = os.environ.get("TOGRAPH_NOOPT", "") not in ("", "0")
CACHE_DIR = os.environ.get("TOGRAPH_CACHE_DIR", "")

_LEVELS = {0: logging.WARNING, 1: logging.INFO}


def set_verbosity(level: int) -> None:
    """How much the logger "tograph" says: 0 warnings, 1 each conversion and trace, 2 and more everything."""
    logging.getLogger("tograph").setLevel(_LEVELS.get(level, logging.DEBUG))


if DEBUG:
    set_verbosity(DEBUG)
