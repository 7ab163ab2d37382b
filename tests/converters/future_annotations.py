"""Functions of a module whose annotations are not evaluated, for ``test_annotations``."""

from __future__ import annotations

import dataclasses
import typing

if typing.TYPE_CHECKING:
    from nowhere import Missing


def inner_functions(x):
    def twice(a: Missing, *, b: Missing.part = 1) -> dict[Missing, int] | None:
        return a * 2 + b

    y: Missing = x
    if x.sum() > 0:

        def more(a: Missing[0 < len(x) < 3]) -> Missing.part:
            return a + 1

        y = more(twice(x))
    return y, str(twice.__annotations__)


def classes(x):
    @dataclasses.dataclass
    class State:
        a: Missing[int]
        n: typing.ClassVar[dict[str, int]] = {}
        b: list[Missing] = None

        def moved(self, by: Missing) -> Missing[1]:
            return dataclasses.replace(self, a=self.a + by)

    state = State(x)
    while state.a.sum() < 9:
        state = state.moved(x)
    names = [f.name for f in dataclasses.fields(State)]
    return state.a, f"{names} {State.__annotations__} {State.moved.__annotations__}"
