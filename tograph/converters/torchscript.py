"""Code of TorchScript (``torch.jit.script``, ``trace`` and ``load``): torch's interpreter runs it, op by op, as code that is not converted.

Invariants: all that the interpreter may read of a module beside its tensors' content is guarded. An attribute that it sets
would be set while tracing only: that is undone, and refused. The interpreter runs the code as it was written, not
what it has specialised for earlier calls, where several ops, and their gradient, are one node.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from ..errors import GraphBoolError, StagingError
from ..runtime.guarding import reads
from ..runtime.symbols.funcgraph import is_tracing, user_location
from .left_alone import leave_alone

_ASKED = "known only when the graph runs"  # in what ``GraphBoolError`` says; the interpreter keeps the text alone


def module(m: torch.jit.ScriptModule, args: tuple, kwargs: dict[str, Any]) -> Any:
    """``m(*args, **kwargs)``."""
    if not is_tracing() or m._forward_hooks or m._forward_pre_hooks:
        return leave_alone(m, args, kwargs)
    return _of_module(m, "{0}._c", m.forward, args, kwargs)


def method(f: torch._C.ScriptMethod, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a method that is not ``forward``."""
    if not is_tracing():
        return f(*args, **kwargs)
    return _of_module(f, "{0}.owner", f, args, kwargs)


def function(f: torch.jit.ScriptFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a function."""
    return _interpreted(f, (), args, kwargs) if is_tracing() else f(*args, **kwargs)


def _of_module(outside: Any, path: str, f: torch._C.ScriptMethod, args: tuple, kwargs: dict[str, Any]) -> Any:  # fmt: skip
    """``f(*args, **kwargs)``; ``path`` leads from an object that the trace has to what holds the attributes."""
    owner = f.owner
    before, watch = _Attributes(owner), reads.current()
    source = None if watch is None else watch.source_of(outside)
    if watch is not None and source is not None:
        watch.check(source, "script", f"{{1}}({path})", before.same, "what it was")
    try:
        return _interpreted(f, (owner,), args, kwargs)
    finally:
        changed = before.put_back(owner)
        if changed:
            raise StagingError(
                f"the TorchScript code of {f.name!r} sets the attribute {changed!r}, which would act while tracing only: "
                "change a buffer in place, or call the module that was given to torch.jit.script",
                user_location(),
            )


def _interpreted(f: Any, owner: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
    given = [*owner, *_by_position(f.schema.arguments[len(owner) :], args, kwargs)]
    if len(given) != len(f.schema.arguments):
        return f(*args, **kwargs)  # torch says what is wrong with them
    fresh = torch._C._create_function_from_graph(f.name, f.inlined_graph)
    try:
        with torch.jit.optimized_execution(False):
            return leave_alone(fresh, tuple(given), {})
    except RuntimeError as error:
        if _ASKED not in str(error):
            raise
        raise GraphBoolError(
            f"the TorchScript code of {f.name!r} asks for a value that is {_ASKED}: it is not converted. "
            "Call what was given to torch.jit.script, or use tg.py_function",
            user_location(),
        ) from None


def _by_position(parameters: list[Any], args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters, with defaults; fewer or more where they do not fit."""
    rest = parameters[len(args) :]
    if not kwargs.keys() <= {p.name for p in rest}:
        return []
    known = [p for p in rest if p.name in kwargs or p.has_default_value()]
    return [*args, *(kwargs.get(p.name, p.default_value) for p in known)]


class _Attributes:
    """What a module and those in it hold beside modules: tensors by identity, other values by what they are."""

    def __init__(self, m: Any):
        self.found = [(name, _kept(part.getattr(name))) for part, name in _names(m)]

    def same(self, m: Any) -> bool:
        now = list(_names(m))
        return len(now) == len(self.found) and all(
            name == known and _same(part.getattr(name), old)
            for (part, name), (known, old) in zip(now, self.found)
        )

    def put_back(self, m: Any) -> str:
        """The last of the attributes that were set since, all of which are as they were then; else nothing."""
        changed = ""
        for (part, name), (_, old) in zip(_names(m), self.found):
            if not _same(part.getattr(name), old):
                part.setattr(name, old() if isinstance(old, weakref.ref) else old)
                changed = name
        return changed


def _names(m: Any) -> Iterator[tuple[Any, str]]:
    kind: Any = torch._C.ConcreteModuleType.from_jit_type(m._type())
    for name in sorted(kind.get_attributes()):
        yield m, name
    for _, part in torch._C.ModuleDict(m).items():
        yield from _names(part)


def _kept(x: Any) -> Any:
    return weakref.ref(x) if isinstance(x, torch.Tensor) else x


def _same(now: Any, old: Any) -> bool:
    if isinstance(old, weakref.ref):
        return now is old()
    return type(now) is type(old) and now == old
