"""How the code of a function reaches its texts (``text_pool``), and what of it Python sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import text_pool
from .values import Decline, Reg

if TYPE_CHECKING:
    from .storage import Storage


def pool(low: Storage) -> str:
    """The register with the pool."""
    if not low.texts:
        if not text_pool.available():
            raise Decline("malloc is not at hand")
        low.texts[""] = 0
        low.globals["texts"] = text_pool.TEXT
        low.code.declares.update(text_pool.DECLARES)
    code = low.code
    return code.do(f"load ptr, ptr {code.do(f'getelementptr i8, ptr {low.base}, i64 16')}")


def known(low: Storage, text: str) -> Reg:
    """A text that the code knows."""
    pool(low)
    return Reg(str(low.texts.setdefault(text, len(low.texts))), "text")


def reset(low: Storage) -> str:
    """The instructions that drop all texts of a call; empty where there are none."""
    if not low.texts:
        return ""
    at, place = (f"%{low.code.fresh('texts')}" for _ in range(2))
    return (
        f"{at} = getelementptr i8, ptr {low.base}, i64 16\n  {place} = load ptr, ptr {at}\n"
        f"  call void @text_reset(ptr {place})"
    )


def declined(low: Storage, plain: int, interrupted: int) -> str:
    """What a run that declines returns: another number where a handler of a signal has raised while Python wrote a text."""
    if not low.texts:
        return str(plain)
    raised = low.code.do(f"icmp ne ptr {low.code.do('call ptr @PyErr_Occurred()')}, null")
    return low.code.do(f"select i1 {raised}, i32 {interrupted}, i32 {plain}")


def string(low: Storage, text: str) -> str:
    """The register with Python's string of a text."""
    found = low.code.do(f"call ptr @text_flat(ptr {pool(low)}, i64 {text})")
    low.fail(low.code.do(f"icmp eq ptr {found}, null"))
    return found


def left(low: Storage, place: str, count: str) -> None:
    """Let the strings of texts stand in the place of their numbers, for the caller."""
    fine = low.code.do(f"call i1 @text_leave(ptr {pool(low)}, ptr {place}, i64 {count})")
    low.fail(low.code.do(f"xor i1 {fine}, true"))
