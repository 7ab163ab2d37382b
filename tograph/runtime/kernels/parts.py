"""The text of an LLVM module as several modules, for as many threads of LLVM.

``divided(text, most)``  the parts, the main one last: each may call what those before it define.

Model: a function that is never inlined and names nothing else of its module is compiled to the same code wherever it stands, but for
what LLVM would have learnt of its callers (an argument that is the same at every call) and told them (what it reads). Loop nests and
products are such functions. They go to the parts, largest first, each to the smallest part; what is left (``run`` and all
that it inlines) is the last part, which declares them. A part costs LLVM some milliseconds of its own, so short texts stay whole.

Functions that are ``FINISHED`` are written as LLVM's passes would leave them: values in registers, what does not change outside of the loops. They
have parts of their own, also for one thread, in which loops are unrolled where they ask for it, and nothing else is done before instructions are chosen:
that takes less than two thirds of the time, for the same bits at the same speed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAST = 12_000  # characters of a part
FINISHED = '"finished"'  # the attribute of a function that LLVM has only to unroll
FEW = 16_000  # characters of such functions that a part does not pay for
_FUNCTION = re.compile(r"^define [^\n]*@([-\w.$]+)\([^\n]*\{\n.*?^\}\n?", re.MULTILINE | re.DOTALL)
_DATA = re.compile(r"^@([-\w.$]+) =", re.MULTILINE)
_NAME = re.compile(r"@([-\w.$]+)")


@dataclass
class Part:
    """A module, what it defines for others, and whether its functions are finished."""

    text: str
    names: list[str]
    finished: bool = False


@dataclass
class _Share:
    """Functions of a part by name, and how many characters it has."""

    functions: dict[str, str]
    size: int


def divided(text: str, most: int, apart: bool = True) -> list[Part]:
    """``text`` as modules for ``most`` threads. What the last one needs of the others has to be given to it when it is linked.

    ``apart``: whether what is finished has parts of its own.
    """
    found = _alone(text) if len(text) >= 2 * LEAST or (apart and FINISHED in text) else {}
    finished = {n: f for n, f in found.items() if apart and FINISHED in _head(f)}
    size = sum(map(len, finished.values()))
    if size < FEW:
        finished, size = {}, 0
    others = {n: f for n, f in found.items() if n not in finished}
    rest = len(text) - size - sum(map(len, others.values()))
    shares = [s for s in _distributed(others, rest, most)[1:] if s.size >= LEAST // 2]
    ready = [s for s in _distributed(finished, 0, most) if s.functions]
    if not shares and not ready:
        return [Part(text, [])]
    around = "".join(t for t in _FUNCTION.sub("", text).splitlines(True) if not t.startswith("@"))
    moved = {name for s in (*ready, *shares) for name in s.functions}
    last = _FUNCTION.sub(lambda f: _declared(f[0]) if f[1] in moved else f[0], text)
    return [
        *(_part(s, around, finished=True) for s in ready),
        *(_part(s, around) for s in shares),
        Part(last, []),
    ]


def _alone(text: str) -> dict[str, str]:
    """The functions that may be compiled in modules of their own, by name."""
    found = list(_FUNCTION.finditer(text))
    known = {f[1] for f in found} | set(_DATA.findall(text))
    return {f[1]: f[0] for f in found if _stands_alone(f[0], f[1], known)}


def _part(share: _Share, around: str, finished: bool = False) -> Part:
    text = "".join(map(_exported, share.functions.values())) + around
    return Part(text, list(share.functions), finished)


def _head(function: str) -> str:
    return function[: function.index("\n")]


def _stands_alone(function: str, name: str, known: set[str]) -> bool:
    head = _head(function)
    ours = set(_NAME.findall(function)) & known
    return head.startswith("define internal ") and " noinline " in head and ours == {name}


def _distributed(functions: dict[str, str], rest: int, most: int) -> list[_Share]:
    """Shares of about the same size, ``most`` or fewer; the first has ``rest`` characters of its own."""
    count = max(1, min(most, (rest + sum(map(len, functions.values()))) // LEAST))
    shares = [_Share({}, rest), *(_Share({}, 0) for _ in range(count - 1))]
    for name, function in sorted(functions.items(), key=lambda f: len(f[1]), reverse=True):
        share = min(shares, key=lambda s: s.size)
        share.functions[name] = function
        share.size += len(function)
    return shares


def _exported(function: str) -> str:
    return function.replace("define internal ", "define ", 1)


def _declared(function: str) -> str:
    return (
        "declare "
        + _head(function).removeprefix("define internal ").removesuffix("{").rstrip()
        + "\n"
    )
