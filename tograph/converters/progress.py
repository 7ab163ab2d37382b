"""Bars of tqdm: a function shows none, in plain loops and staged ones alike, and goes over what they go over.

A bar looks at the numbers that it is told and at the clock, and draws on stderr; of a loop of the graph it would see what is known while
tracing. What ``tqdm.write`` writes is printed.
"""

from __future__ import annotations

import sys
from typing import Any

from ..errors import StagingError
from ..runtime.symbols.funcgraph import user_location


class Bar:
    """What ``tqdm(iterable)`` makes."""

    def __init__(self, iterable: Any = None, *args: Any, **options: Any):
        self.iterable, self.given = iterable, options

    def __iter__(self) -> Any:
        return iter(self.iterable)

    def __len__(self) -> int:
        return len(self.iterable) if self.iterable is not None else self.given["total"]

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name not in _SHOWN:
            raise AttributeError(f"'tqdm' object has no attribute {name!r}", name=name, obj=self)
        raise StagingError(
            f"{name!r} of a bar of tqdm: in a function a bar shows nothing and counts nothing; keep a number of your own",
            user_location(),
        )


_SHOWN = frozenset(
    [
        "n",
        "total",
        "desc",
        "postfix",
        "format_dict",
        "last_print_n",
        "last_print_t",
        "start_t",
        "pos",
        "disable",
        "ncols",
    ]
)


def _nothing(self: Bar, *args: Any, **options: Any) -> None:
    """What only changes how a bar looks."""


for _name in ("update", "close", "refresh", "clear", "reset", "display", "unpause", "moveto", "set_description", "set_description_str", "set_postfix",
              "set_postfix_str"):  # fmt: skip
    setattr(Bar, _name, _nothing)


def is_bar(cls: type) -> bool:
    """Whether a class is one of tqdm's own bars."""
    library = sys.modules.get("tqdm.std")
    return library is not None and issubclass(cls, library.tqdm) and _is_of_library(cls)


def _is_of_library(f: Any) -> bool:
    return f.__module__.partition(".")[0] == "tqdm"


def over(x: Any) -> Any:
    """What a loop over ``x`` goes over."""
    return x.iterable if type(x) is Bar and x.iterable is not None else x
