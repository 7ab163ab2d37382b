"""Methods of plain strings with arguments that only the run knows: ``"text".find(f"{n}")``, ``"a-b".split(s)``, ``"ab".center(n)``.

They are the ops that methods of a ``StagedString`` are. Where all is known, Python's own method runs.
"""

from __future__ import annotations

from typing import Any

from ...runtime.library.staged_string import METHODS as STAGED
from ...runtime.library.staged_string import StagedString
from .. import text_options, union
from ..logical import or_
from ..registry import METHODS, Form
from ..staging import is_staged
from . import new_lists  # noqa: F401  its forms run where all is known


def _with_staged(name: str) -> Form:
    own = METHODS.get((str, name), getattr(str, name))

    def method(text: str, *args: Any, **named: Any) -> Any:
        args, named = (
            tuple(map(text_options.as_text, args)),
            {n: text_options.as_text(a) for n, a in named.items()},
        )
        given = (*args, *named.values())
        if any(map(union.is_union, given)):
            return union.apply(lambda *a, **n: method(text, *a, **n), *args, **named)
        if name in ("startswith", "endswith") and args and _is_choice(args[0]):
            return or_(False, *(lambda part=part: method(text, part, *args[1:]) for part in args[0]))  # fmt: skip
        staged = name in STAGED and any(isinstance(a, StagedString) or is_staged(a) for a in given)
        run = StagedString.method(name) if staged else own
        return run(text, *args, **named)

    return method


def _is_choice(x: Any) -> bool:
    """Whether it is a tuple of strings of which only the run knows some."""
    return type(x) is tuple and any(isinstance(part, StagedString) or union.is_union(part) for part in x)  # fmt: skip


for _name in dir(str):
    if not _name.startswith("_") and _name not in ("join", "maketrans", "format", "format_map"):
        METHODS[str, _name] = _with_staged(_name)
