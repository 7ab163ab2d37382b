"""Objects that stand in a place outside for one call each: ``self.state = replace(self.state, x=...)``.

An object of a user's class is guarded by identity. Where calls, or code between them, put another one of its class in the place, every call
would trace anew. So behind the first such call the class is the guard: what the trace reads of the object is checked, or looked up, along
the way that begins at the place.

Invariants: the object was found in one place; nothing that a call leaves or returns holds it; the trace changes neither it nor what it
holds; the code does not ask which object it is, nor gives it to code that is not converted; no function of Python that the graph calls can see it; and other objects of its class that the trace found are others at every call. Where one does not
hold, the guard stays what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import Any

import torch

from ..graph.ir import Graph, all_nodes
from ..values.reach import reachable
from ..values.structure import Const, Identity, Spec, Tree
from .guards import SAME, Check, current_value, extends_container
from .lookups import of_a_user
from .watch import Watch

_OF_A_CLASS = "{1}({0})"


class _Like:
    """What stands there has to be of this class, and none of the other objects of it."""

    def __init__(self, cls: type, others: Iterable[Check]):
        self.cls, self.others = cls, [current_value(c.source) for c in others]

    def __call__(self, x: Any) -> bool:
        return type(x) is self.cls and all(x is not other() for other in self.others)


def is_record(x: Any) -> bool:
    """Whether an object may be followed: one of a user's own class, which is no module, function, class or container."""
    cls = type(x)
    plain = not issubclass(cls, (type, torch.nn.Module, torch.Tensor)) and not callable(x)
    return plain and of_a_user(cls) and not extends_container(x)


def _constants(spec: Spec) -> Iterator[Any]:
    """What a call gives as it is: objects from before it, and what tells a structure from others."""
    if isinstance(spec, Const):
        yield spec.value.value if isinstance(spec.value, Identity) else spec.value
    elif isinstance(spec, Tree):
        yield spec.aux
    for part in getattr(spec, "parts", ()) or getattr(spec, "options", ()):
        yield from _constants(part)


def follow(graph: Graph, watch: Watch, hints: Container[str], changed: Iterable[Any], left: Iterable[Spec]) -> None:  # fmt: skip
    """Let the class be the guard of the objects whose places are among ``hints``, labels of places where others stood.

    ``changed``: the objects that the trace changed; ``left``: what a call leaves and returns.
    """
    checks = [c for c in watch.checks.values() if c.test == SAME]
    found = [c for c in checks if c.source.label in hints and is_record(c.old())]
    if not found or any(n.op == "tg.py_call" for n in all_nodes(graph)):
        return
    objects = {id(c): c.old() for c in checks}
    counts = Counter(map(id, objects.values()))
    held = reachable([x for spec in left for x in _constants(spec)])
    written = {id(x) for x in changed}
    for check in found:
        x = objects[id(check)]
        alone = counts[id(x)] == 1 and id(x) not in held and id(x) not in watch.compared
        if alone and written.isdisjoint(reachable([x])):
            others = [c for c in checks if c is not check and type(objects[id(c)]) is type(x)]
            _fields(x, watch)
            check.test, check.old = _OF_A_CLASS, _Like(type(x), others)


def _fields(x: Any, watch: Watch) -> None:
    """All that an object holds counts: what a staged construct joined with another one was no read while the object itself was the guard."""
    if hasattr(x, "__dict__"):
        watch.fields(x)
    for value in watch.slots(x):
        watch.whole(value)
