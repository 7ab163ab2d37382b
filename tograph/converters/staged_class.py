"""``StagedClass``: the class of an exception that happens when the graph runs, and what may be asked of it.

Its name, whether it is a class or one below it (``issubclass``), whether it is that class itself (``is``, ``==``), and another exception
of it (``raise type(e)(text)``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..runtime.control_flow import StagedException, outside_value
from ..runtime.graph.ops import OpaqueObject, plain
from ..runtime.graph.types import OBJECT
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols.funcgraph import Ref, current_graph
from ..runtime.symbols.scalars import new_scalar
from ..runtime.values.structure import Handle
from .logical import not_


@dataclass(frozen=True)
class _Exactly:
    """As the second argument of ``isinstance``: objects of the class itself."""

    kind: type

    def __instancecheck__(self, x: Any) -> bool:
        return type(x) is self.kind


@dataclass(frozen=True)
class _Another:
    """Makes an exception of the class of another one; ``names`` are those of the last arguments."""

    names: tuple[str, ...]

    def __call__(self, error: BaseException, *args: Any) -> BaseException:
        given = [plain(a) for a in args]
        first = len(given) - len(self.names)
        return type(error)(*given[:first], **dict(zip(self.names, given[first:])))


class StagedClass:
    """``type(e)`` of an exception that happens when the graph runs."""

    __tograph_shown__ = True  # its text is one that only the run knows

    def __init__(self, error: StagedException):
        self._error = error

    def within(self, classes: Any) -> Any:
        """Whether it is one of some classes or a class below one of them."""
        error, graph = object.__getattribute__(self, "_error"), current_graph()
        value = graph.resolve(error.handle_.ref)
        return new_scalar("py.isinstance", (value, OpaqueObject(classes, "types")), bool, graph)

    def exactly(self, other: Any) -> Any:
        """Whether it is a class."""
        same = type(other) is StagedClass and object.__getattribute__(other, "_error")
        if same is not False:
            return same is object.__getattribute__(self, "_error") or self._unknown()
        return self.within(_Exactly(other)) if isinstance(other, type) else False

    def another(self, args: tuple, kwargs: dict[str, Any]) -> StagedException:
        """An exception of the class."""
        graph = current_graph()
        given = [outside_value(a, graph) for a in (*args, *kwargs.values())]
        error = object.__getattribute__(self, "_error")
        maker = OpaqueObject(_Another(tuple(kwargs)), "make an exception")
        made = graph.emit("py.apply_opaque", maker, graph.resolve(error.handle_.ref), *given, type=OBJECT)  # fmt: skip
        return StagedException(Handle(Ref(made, graph)))

    __tograph_opaque__ = True  # it holds nothing of the user's

    def __tograph_flatten__(self):
        return None, [object.__getattribute__(self, "_error")]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return StagedClass(parts[0]) if isinstance(parts[0], StagedException) else type(parts[0])

    def __getattribute__(self, name: str) -> Any:
        if name in ("within", "exactly", "another", "_unknown", "__tograph_flatten__"):
            return object.__getattribute__(self, name)
        error = object.__getattribute__(self, "_error")
        if name in ("__name__", "__qualname__"):
            graph = current_graph()
            value = graph.emit("py.type_name", graph.resolve(error.handle_.ref), type=OBJECT)
            return StagedString(Handle(Ref(value, graph)))
        if name == "handle_":  # the class itself, for what shows it
            graph = current_graph()
            return Handle(Ref(graph.emit("py.type", graph.resolve(error.handle_.ref), type=OBJECT), graph))  # fmt: skip
        if name == "__class__":
            return type
        raise error.unknown(f"class (its {name})")

    def _unknown(self) -> Any:
        raise object.__getattribute__(self, "_error").unknown("class")

    def __eq__(self, other: object) -> Any:
        return self.exactly(other)

    def __ne__(self, other: object) -> Any:
        return not_(self.exactly(other))

    __hash__ = None
