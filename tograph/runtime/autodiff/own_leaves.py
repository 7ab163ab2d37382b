"""Which results of a function were computed of leaves that it made, and that do not leave: ``w = torch.zeros(3, requires_grad=True)``, then ``return f(w)``.

In eager PyTorch such a result requires a gradient, and leads to a leaf that nobody has. So a gradient of it has nothing to compute: all that is told is whether
a run has such a history.
"""

from __future__ import annotations

from functools import cached_property

import torch

from ..graph.families import ITEM_READS
from ..graph.ir import Node, Value, all_nodes
from ..symbols.funcgraph import FuncGraph, Storage
from ..symbols.symbolic import SymTensor
from .list_items import put_in
from .paths import LEAF, Terms, Way, Ways, ways_within


class OwnLeaves:
    """``root``: the graph of a function that was recorded."""

    def __init__(self, root: FuncGraph):
        self.root = root

    @cached_property
    def sources(self) -> list[tuple[Value, torch.Tensor]]:
        """The values that stand for tensors in torch's history, in all graphs, with these."""
        return [(v, x) for g in self.root.root.graphs for v, x in g.sources.items()]

    @cached_property
    def leaves(self) -> frozenset[Value]:
        """The values of leaves that the code made."""
        root = self.root.root
        return frozenset(v for v, x in self.sources if _is_made(x, v)).union(root.leaves, root.left_leaves)  # fmt: skip

    @cached_property
    def before(self) -> dict[Node, set[Value]]:
        """By node those of them that it used before they were leaves."""
        found: dict[Node, set[Value]] = {}
        for v, nodes in self.root.root.leaves.items():
            for node in nodes:
                found.setdefault(node, set()).add(v)
        return found

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """Those of them that it made outside of staged constructs, frozen ones among them, and arguments that are leaves and were written: in a list they are themselves."""
        frozen = (x for _, x in self.frozen if x.storage_.home is self.root)
        found = [*(x for v, x in self.root.sources.items() if _is_made(x, v)), *frozen]
        return [*{id(x): x for x in found}.values(), *self.written]

    @cached_property
    def frozen(self) -> list[tuple[Value, SymTensor]]:
        """The values of those that require no gradient any more, with these."""
        known = [*self.root.root.frozen, *self.sources]
        made = ((v, x) for v, x in known if isinstance(x, SymTensor) and x.became_ is not None)
        return [(v, x) for v, x in made if not (x.requires_grad or x.given_ or x.chain)]

    @cached_property
    def written(self) -> list[SymTensor]:
        """The arguments that are leaves, and written."""
        assigned = self.root.root.assigned
        given = (x for x in self.root.sources.values() if isinstance(x, SymTensor) and x.given_)
        found = (x for x in given if x.is_leaf and x.requires_grad and id(x.storage_) in assigned)
        return list({id(x): x for x in found}.values())

    @cached_property
    def passed(self) -> dict[Value, Storage]:
        """The tensors from outside, not written ones, that are put in lists as they are: an item that is read may be one of them."""
        graph, written = self.root.graph, {id(x.storage_) for x in self.written}
        found = put_in(graph) if self.reads_items else ()
        held = {
            v: k
            for k, v in self.root.captures.items()
            if v in found and isinstance(k, Storage) and id(k) not in written
        }
        return {v: held[v] for v in graph.inputs if v in held}

    @cached_property
    def reads_items(self) -> bool:
        """Whether the code reads items of lists of the graph."""
        return any(n.op in ITEM_READS for n in all_nodes(self.root.graph))

    @property
    def any(self) -> bool:
        """Whether the code made one."""
        return bool(self.leaves)

    @property
    def in_lists(self) -> bool:
        """Whether items of lists may be such leaves, frozen ones, or arguments that were written."""
        return self.any or bool(self.written or self.frozen)

    @cached_property
    def _kept(self) -> bool:
        """Whether the body of a ``try`` made one."""
        bodies = [n.regions["body"] for n in all_nodes(self.root.graph) if n.op == "Try"]
        return any(v in self.leaves for b in bodies for n in all_nodes(b) for v in n.outputs)

    @cached_property
    def _ways(self) -> dict[Value, Ways]:
        graph = self.root.graph
        terms = Terms(graph, leaves=self.leaves, before=self.before, kept=self._kept)
        return ways_within(terms) if self.leaves else {}

    def lead_to(self, v: Value) -> Way:
        """Whether a value was computed of such a leaf, or is one."""
        return self._ways.get(v, {}).get(LEAF, False)


def _is_made(x: object, v: Value) -> bool:
    """Whether the code made a leaf: not an argument, nor what stands for the history of something else."""
    if not isinstance(x, SymTensor) or x.given_ or not (x.asked_ or (v.node and not v.node.inputs)):
        return False
    stands = hasattr(x, "token_") or hasattr(x, "shown_")
    return x.requires_grad and x._base is None and x.is_leaf and not stands
