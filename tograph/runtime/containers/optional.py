"""``tg.Optional``: a value or none."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import SignatureError, StructureError
from ..graph import ops
from ..graph.types import BOOL, OptionalType, TensorType
from ..symbols.funcgraph import Ref, current_graph, is_tracing, user_location
from ..symbols.scalar_nodes import ScalarNode
from ..symbols.scalars import staged
from ..symbols.symbolic import value_of
from ..values.flattening import symbolic
from ..values.specs import TensorSpec
from ..values.structure import Handle
from .content import as_tensor, type_of


class Optional:
    """A value that may be absent.

    Example: ``o = tg.Optional.from_value(x)``; ``o.has_value()``; ``o.get_value()``.
    """

    def __init__(self, content: Any, spec: Any):
        self.content, self.spec = content, spec

    @staticmethod
    def from_value(value: Any) -> Optional:
        """An Optional that holds ``value``."""
        if isinstance(value, (list, tuple, dict)):
            raise StructureError(
                f"an Optional holds one tensor, not a {type(value).__name__}", user_location()
            )
        value = as_tensor(value)
        if not is_tracing():
            return Optional((value,), None)
        graph = current_graph()
        kind = OptionalType(type_of(value))
        return Optional(
            Handle(Ref(graph.emit("tg.optional_some", value_of(value, graph), type=kind), graph)),
            None,
        )

    @staticmethod
    def empty(spec: TensorSpec) -> Optional:
        """An Optional without a value; ``spec`` says of which type one would be."""
        if not isinstance(spec, TensorSpec):
            raise SignatureError(
                f"Optional.empty takes the tg.TensorSpec that a value would have, not {spec!r}",
                user_location(),
            )
        if not is_tracing():
            return Optional((), None)
        graph = current_graph()
        kind = OptionalType(TensorType(spec.dtype, spec.shape or (), str(spec.device)))
        return Optional(Handle(Ref(graph.emit("tg.optional_none", type=kind), graph)), None)

    def __tograph_flatten__(self):
        return None, [self.content]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return Optional(parts[0], None)

    def has_value(self) -> Any:
        """Whether there is a value, as a bool tensor."""
        if not isinstance(self.content, Handle):
            return torch.tensor(bool(self.content))
        graph = current_graph()
        node = staged(
            ScalarNode(
                bool,
                Ref(
                    graph.emit("tg.optional_has", graph.resolve(self.content.ref), type=BOOL), graph
                ),
            )
        )
        return torch.scalar_tensor(node, dtype=torch.bool)

    def get_value(self) -> Any:
        """The value; an error at run time when there is none."""
        if not isinstance(self.content, Handle):
            return ops.lookup("tg.optional_get").run(self.content)
        graph = current_graph()
        kind = self.content.type.element
        return symbolic(
            graph.emit("tg.optional_get", graph.resolve(self.content.ref), type=kind), graph
        )

    def __repr__(self) -> str:
        return f"Optional({self.content!r})"
