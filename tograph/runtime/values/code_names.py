"""The names that the code of a function, and of the functions in it, loads and assigns."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass

from ..symbols.code_lines import per_code


@dataclass(frozen=True)
class _Used:
    """The names that a code object itself uses, by how it does, in the order of first use."""

    loaded_globals: tuple[str, ...]
    loaded_variables: tuple[str, ...]
    stored_globals: tuple[str, ...]
    stored_variables: tuple[str, ...]


_KINDS = (
    ("LOAD_GLOBAL", "LOAD_NAME"),
    ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"),
    ("STORE_GLOBAL", "DELETE_GLOBAL"),
    ("STORE_DEREF", "DELETE_DEREF"),
)
_KIND = {dis.opmap[op]: i for i, ops in enumerate(_KINDS) for op in ops if op in dis.opmap}
_EXTENDED, _LOAD_GLOBAL = dis.EXTENDED_ARG, dis.opmap["LOAD_GLOBAL"]
_OF_CELLS = frozenset(dis.hasfree)


@per_code
def _used(code: types.CodeType) -> _Used:
    """One look at the instructions, which ``dis`` would describe in full: that takes ten times as long."""
    found: tuple[dict[str, None], ...] = ({}, {}, {}, {})
    text, high = code.co_code, 0
    for op, low in zip(text[::2], text[1::2]):
        if op == _EXTENDED:
            high = (high | low) << 8
            continue
        kind = _KIND.get(op)
        if kind is not None:
            found[kind][_name(code, op, high | low)] = None
        high = 0
    return _Used(*map(tuple, found))


def _name(code: types.CodeType, op: int, arg: int) -> str:
    if op in _OF_CELLS:
        return code._varname_from_oparg(arg)  # type: ignore[attr-defined]
    # The lowest bit of a global's says whether it is called.
    return code.co_names[arg >> 1 if op == _LOAD_GLOBAL else arg]


def _with_nested(code: types.CodeType) -> Iterator[_Used]:
    """What a code object uses, and what those nested in it do."""
    yield _used(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_nested(constant)


@per_code
def stored_names(code: types.CodeType) -> frozenset[str]:
    """Globals and free variables that the code itself assigns."""
    every = _with_nested(code)
    return frozenset(n for used in every for n in (*used.stored_globals, *used.stored_variables))


@per_code
def loaded_globals(code: types.CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for used in _with_nested(code) for n in used.loaded_globals))


@per_code
def loaded_variables(code: types.CodeType) -> frozenset[str]:
    return frozenset(n for used in _with_nested(code) for n in used.loaded_variables)


@per_code
def code_names(code: types.CodeType) -> dict[str, None]:
    """The global and attribute names of a code object and of those nested in it, in order; converted code has some as strings."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += code_names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            found.append(constant)
    return dict.fromkeys(found)


_OF_PARTS = frozenset([
    "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR",
    "GET_ITER",
])  # fmt: skip
_LOCALS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")  # also LOAD_FAST_CHECK, LOAD_FAST_BORROW


@per_code
def used_whole(code: types.CodeType) -> frozenset[str]:
    """The local names that code uses otherwise than for an attribute, a method or an item, or to go over the items in a loop.

    By where the instructions stand in the source: ``x[i]`` begins where its ``x`` does.
    """
    steps = [(i, i.positions) for i in dis.get_instructions(code) if i.positions is not None]
    parts = {(p.lineno, p.col_offset) for i, p in steps if i.opname in _OF_PARTS}
    found: set[str] = set()
    for i, p in steps:
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        if "LOAD_FAST" in i.opname and len(names) > 1:
            found.update(names)  # two at once, of one position
        elif i.opname.startswith(_LOCALS) and (p.lineno, p.col_offset) not in parts:
            found.add(names[0])
    return frozenset(found)


@per_code
def writes(code: types.CodeType) -> tuple[frozenset[str], tuple[str, ...]]:
    """The free variables and the globals that code, with the functions nested in it, assigns."""
    used = _used(code)
    cells, names = set(used.stored_variables), set(used.stored_globals)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner_cells, inner_names = writes(constant)
            cells |= inner_cells
            names |= set(inner_names)
    return frozenset(cells & set(code.co_freevars)), tuple(sorted(names))
