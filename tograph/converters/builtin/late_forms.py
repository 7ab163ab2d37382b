"""Forms of functions of modules that not every program loads: they are registered when one of these is first called."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from ...lazy import lazy_module
from ...runtime.symbols.funcgraph import is_tracing
from ..calls import call
from ..registry import LATE, handles
from .printing import print_

_averages = lazy_module(".averages", __package__)

LATE["statistics"] = lambda: _averages.register()


def _of_bars(module: str) -> None:
    """What tqdm has beside its classes (``progress``)."""
    library = sys.modules[module]

    @handles(library.trange)
    def trange(*args: Any, **options: Any) -> Any:
        return call(library.tqdm, call(range, *args), **options)

    plain = library.tqdm.write.__func__

    @handles(plain)
    def write(cls: Any, s: Any, file: Any = None, end: str = "\n", nolock: bool = False) -> None:
        if is_tracing():
            print_(s, end=end, file=file)
        else:
            plain(cls, s, file, end, nolock)


for _module in ("std", "auto", "asyncio", "notebook", "rich"):
    LATE[f"tqdm.{_module}"] = partial(_of_bars, f"tqdm.{_module}")
