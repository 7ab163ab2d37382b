"""``torch.autograd.graph.saved_tensors_hooks`` and ``save_on_cpu`` inside of a function.

torch gives a hook a detached tensor, and what the other hook makes of that later the history of the tensor again. A graph that is differentiated again, outside
of the function, has to know of that history too: by ``tg.written`` the one value has the history of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from ...runtime.graph.ir import Value
from ...runtime.inference.infer import tensor_type
from ...runtime.symbols.funcgraph import Ref, current_graph, is_tracing
from ...runtime.symbols.symbolic import SymTensor, as_symbolic, same, value_of, wrap
from ..registry import handles


def _history_of(x: Any) -> Ref | None:
    """The value that a tensor which torch has detached for a hook has been."""
    if not isinstance(x, SymTensor) or not (x.is_floating_point() or x.is_complex()):
        return None
    graph = current_graph()
    value = value_of(x, graph)
    node = value.node
    if node is not None and node.op == "aten.detach.default" and isinstance(node.args[0], Value):
        value = node.args[0]
    return Ref(value, graph)


def _with_history(x: Any, ref: Ref | None) -> Any:
    if ref is None or not isinstance(x, torch.Tensor):
        return x
    graph, plain = current_graph(), as_symbolic(x)
    old, new = graph.resolve(ref), value_of(plain, graph)
    if old is new:
        return same(
            plain
        )  # a new object: of one that is known elsewhere torch would make a detached one
    if old.type != new.type:
        return x
    return wrap(graph.emit("tg.written", old, new, type=tensor_type(plain.meta)), plain.meta, graph)


def _kept(made: Any) -> Any:
    """The hooks, so that what is unpacked has the history of what was packed."""
    pack, unpack = made.pack_hook, made.unpack_hook

    faithful = isinstance(made, save_on_cpu)

    def packing(x: Any) -> Any:
        if is_tracing() and not faithful:
            current_graph().root.packed.add(current_graph().graph)
        return (_history_of(x), pack(x)) if is_tracing() else (None, pack(x))

    def unpacking(packed: Any) -> Any:
        found = unpack(packed[1])
        return _with_history(found, packed[0]) if is_tracing() else found

    packing.faithful = faithful  # type: ignore[attr-defined]
    made.pack_hook, made.unpack_hook = packing, unpacking
    return made


def _handle(cls: type) -> None:
    @handles(cls)
    def run(*args: Any, **kwargs: Any) -> Any:
        made: Callable[..., Any] = cls(*args, **kwargs)
        return _kept(made) if is_tracing() else made


_handle(saved_tensors_hooks)
_handle(save_on_cpu)
