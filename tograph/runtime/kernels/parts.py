"""The text of an LLVM module as several modules, for as many threads of LLVM.

``divided(text, most)``  the texts of the parts, the first last: each may call what those before it define.

Model: a function that is never inlined and names nothing else of its module is compiled to the same code wherever it stands, but for
what LLVM would have learnt of its callers (an argument that is the same at every call) and told them (what it reads). Loop nests and
products are such functions. They go to the parts, largest first, each to the smallest part; what is left (``run`` and all
that it inlines) is the last part, which declares them. A part costs LLVM some milliseconds of its own, so short texts stay whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAST = 12_000  # characters of a part
_FUNCTION = re.compile(r"^define [^\n]*@([-\w.$]+)\([^\n]*\{\n.*?^\}\n?", re.MULTILINE | re.DOTALL)
_DATA = re.compile(r"^@([-\w.$]+) =", re.MULTILINE)
_NAME = re.compile(r"@([-\w.$]+)")


@dataclass
class Part:
    """A module, and what it defines for others."""

    text: str
    names: list[str]


@dataclass
class _Share:
    """Functions of a part by name, and how many characters it has."""

    functions: dict[str, str]
    size: int


def divided(text: str, most: int) -> list[Part]:
    """``text`` as ``most`` modules or fewer. What the last one needs of the others has to be given to it when it is linked."""
    count = min(most, len(text) // LEAST)
    found = list(_FUNCTION.finditer(text)) if count > 1 else []
    known = {f[1] for f in found} | set(_DATA.findall(text))
    apart = {f[1]: f[0] for f in found if _stands_alone(f[0], f[1], known)}
    shares = _distributed(apart, len(text) - sum(map(len, apart.values())), count)
    if not shares:
        return [Part(text, [])]
    around = "".join(t for t in _FUNCTION.sub("", text).splitlines(True) if not t.startswith("@"))
    moved = {name for s in shares for name in s.functions}
    last = _FUNCTION.sub(lambda f: _declared(f[0]) if f[1] in moved else f[0], text)
    parts = ["".join(map(_exported, s.functions.values())) + around for s in shares]
    return [
        *(Part(p, list(s.functions)) for p, s in zip(parts, shares, strict=True)),
        Part(last, []),
    ]


def _stands_alone(function: str, name: str, known: set[str]) -> bool:
    """Whether a function may be compiled in a module of its own."""
    head = function[: function.index("\n")]
    ours = set(_NAME.findall(function)) & known
    return head.startswith("define internal ") and " noinline " in head and ours == {name}


def _distributed(apart: dict[str, str], rest: int, count: int) -> list[_Share]:
    """The parts before the last one, which has ``rest`` characters of its own; what would be a short part stays with it."""
    _, *others = every = [_Share({}, rest), *(_Share({}, 0) for _ in range(count - 1))]
    for name, function in sorted(apart.items(), key=lambda f: len(f[1]), reverse=True):
        share = min(every, key=lambda s: s.size)
        share.functions[name] = function
        share.size += len(function)
    return [s for s in others if s.size >= LEAST // 2]


def _exported(function: str) -> str:
    return function.replace("define internal ", "define ", 1)


def _declared(function: str) -> str:
    head = function[: function.index("\n")]
    return "declare " + head.removeprefix("define internal ").removesuffix("{").rstrip() + "\n"
