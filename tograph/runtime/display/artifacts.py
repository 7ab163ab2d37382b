"""What ``set_verbosity``, ``TOGRAPH_DEBUG`` and ``TOGRAPH_DUMP`` show of each trace, and progress of long work.

Levels of ``set_verbosity`` and ``TOGRAPH_DEBUG``: 0 warnings only; 1 each trace, with its time and reason (and
tracebacks keep the library's frames, for the variable); 2 each conversion; 3 also the graph of each trace; 4 also the
rewritten Python; 5 also the host program. ``TOGRAPH_DUMP=dir`` writes the three texts of every trace into a folder.
"""

from __future__ import annotations

import itertools
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ... import settings
from ..graph.rewrite import count_nodes

LOGGER = logging.getLogger("tograph")
PATIENCE = 1.0  # seconds of work before progress is shown
_numbers = itertools.count(1)

# Set by the layer that converts: the rewritten functions of a file, as (first line, last line, name, text, line map).
CONVERTED: list[Callable[[str], Iterable[tuple[int, int, str, str, dict[int, int]]]]] = []


def converted(name: str, source: Any) -> None:
    """A function was converted; ``source()`` is its rewritten Python."""
    if settings.verbosity() >= 2:
        LOGGER.debug("converted %r", name)
    if settings.verbosity() >= 4:
        LOGGER.debug("rewritten Python of %r:\n%s", name, source())
    if settings.DUMP:
        write(f"{name}.code.py", source())


def traced(concrete: Any, why: str, seconds: float) -> None:
    """A function was traced."""
    if settings.verbosity() >= 1:
        count = count_nodes(concrete.graph)
        LOGGER.info(
            "traced %r in %.0f ms, nodes: %d, because: %s", concrete.name, 1e3 * seconds, count, why
        )
    if settings.verbosity() >= 3:
        LOGGER.debug("graph of %r:\n%s", concrete.name, concrete.graph)
    if settings.verbosity() >= 5:
        LOGGER.debug("host program of %r:\n%s", concrete.name, concrete.host_code)
    if settings.DUMP:
        number = next(_numbers)
        write(f"{concrete.name}.{number}.graph.txt", f"{concrete.graph}\n")
        write(f"{concrete.name}.{number}.host.py", concrete.host_code)


def write(name: str, text: str) -> None:
    """A file in ``TOGRAPH_DUMP``; a folder that cannot be written is one warning, not an error."""
    folder = Path(settings.DUMP)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / re.sub(r"[^\w.-]+", "_", name)).write_text(text)
    except OSError as error:
        LOGGER.warning("TOGRAPH_DUMP: %s", error)
        settings.DUMP = ""


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say on a terminal what goes on, and for how long, once it has taken ``PATIENCE`` seconds."""
    if not sys.stderr.isatty():
        yield
        return
    done, start = threading.Event(), time.perf_counter()

    def show() -> None:
        shown = False
        while not done.wait(PATIENCE):
            shown = True
            sys.stderr.write(f"\rtograph: {what} ... {time.perf_counter() - start:.0f} s")
            sys.stderr.flush()
        if shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
