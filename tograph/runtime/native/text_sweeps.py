"""Loops drop the texts that their iterations leave behind: between two iterations only what is carried, and what is older than the loop, can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.ir import Graph, all_nodes
from ..graph.types import STR
from .carries import Carry
from .list_items import inside, listed
from .text_code import pool
from .text_records import OFTEN

if TYPE_CHECKING:
    from .lower import Lowering


def makes_texts(body: Graph) -> bool:
    """Whether a loop makes texts."""
    return any(v.type == STR or (listed(v.type) and inside(v.type) == STR) for n in all_nodes(body) for v in n.outputs)  # fmt: skip


def sweeps(body: Graph, count: int) -> bool:
    """Whether a loop knows all texts that it carries: those in lists would have to be looked for."""
    carried = zip(body.inputs[:count], body.outputs)
    return makes_texts(body) and not any(listed(v.type) and inside(v.type) == STR and v is not x for v, x in carried)  # fmt: skip


class Sweep:
    """The sweeps of one loop, made in front of it."""

    def __init__(self, low: Lowering):
        self.low, code = low, low.code
        self.mark = code.do(f"load i64, ptr {self._word(1)}")
        self.limit = code.cell("i64")
        self._wait(code.do(f"load i64, ptr {self._word(3)}"), "0")

    def _word(self, i: int) -> str:
        return self.low.code.do(f"getelementptr i64, ptr {pool(self.low)}, i64 {i}")

    def _wait(self, weight: str, kept: str) -> None:
        """Let texts of some weight be made until the next sweep, as much as what stays at least."""
        code = self.low.code
        code.declare("llvm.umax.i64", "i64 {}(i64, i64)")
        more = code.do(f"call i64 @llvm.umax.i64(i64 {OFTEN}, i64 {kept})")
        code.line(f"store i64 {code.do(f'add i64 {weight}, {more}')}, ptr {self.limit}")

    def close(self, carries: Sequence[Carry]) -> None:
        """At the end of an iteration: sweep where enough has been made."""
        code = self.low.code
        roots = [c for c in carries if c.mode == "register" and c.result.dtype == "text"]
        weight = code.do(f"load i64, ptr {self._word(3)}")
        heavy = code.do(f"icmp ugt i64 {weight}, {code.do(f'load i64, ptr {self.limit}')}")
        now, on, before = code.fresh("sweep"), code.fresh("on"), code.block
        code.branch(heavy, now, on)
        code.label(now)
        numbers = self._swept([c.result.text for c in roots])
        end = code.block
        code.jump(on)
        for c, number in zip(roots, numbers):
            c.result = replace(c.result, text=code.phi("i64", (c.result.text, before), (number, end)))  # fmt: skip

    def _swept(self, roots: list[str]) -> list[str]:
        code, kind = self.low.code, f"[{max(len(roots), 1)} x i64]"
        texts, strings = code.cell(kind), code.cell(kind)
        places = [code.do(f"getelementptr i64, ptr {texts}, i64 {i}") for i in range(len(roots))]
        for place, root in zip(places, roots):
            code.line(f"store i64 {root}, ptr {place}")
        given = (
            f"ptr {pool(self.low)}, i64 {self.mark}, ptr {texts}, ptr {strings}, i64 {len(roots)}"
        )
        done = code.do(f"call i1 @text_sweep({given})")
        self.low.fail(code.do(f"xor i1 {done}, true"))
        left = code.do(f"load i64, ptr {self._word(3)}")
        self._wait(left, left)
        return [code.do(f"load i64, ptr {place}") for place in places]
