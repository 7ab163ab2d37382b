"""Tensors that are one of several, known only when the graph runs: identity under staged control flow.

In plain Python a name is bound to a tensor *object*; a branch or an iteration may bind it to another one, and an in-place op
then changes that one, for all names of it. A ``Picked`` storage is the model of such a name: it has no content of its own but
an index and the tensors that it may be.

Invariants: an option is a tensor (a storage and a chain of views of it, perhaps picked itself), so two options may overlap. ``Lost`` stands for a tensor whose memory cannot be followed: its value is known as
long as nothing that it may share memory with is written; anything else is an error at the user's line, never another value.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from ...errors import AliasError
from ..graph.ir import Value
from ..graph.types import BOOL
from ..guarding import reads
from ..inference.infer import tensor_type
from ..inference.shapes import Meta
from ..symbols.funcgraph import FuncGraph, Ref, Storage, current_graph, last_write, user_location
from ..symbols.open_layouts import is_open
from ..symbols.scalars import new_scalar
from ..symbols.symbolic import SymTensor, value_of, wrap
from ..values.listed import moved, parts
from ..writes.mutation import LEAF_WRITTEN, VARIABLE, write
from .nested_choices import Which, one_choice
from .regions import close, forget_written, trace_region

_version = operator.attrgetter("version")


class Picked(Storage):
    """The storage of a variable that is one of several tensors, by a staged index.

    Its content is that of the tensor that counts, as it is when it is read; writing it writes that tensor, and leaves
    the others as they are. So all names of a tensor see every change, whichever branch or iteration gave them the name.
    """

    derived = True

    def __init__(
        self, meta: Meta, ref: Ref, which: Which, options: Sequence[SymTensor], home: FuncGraph
    ):
        self.which, self.options = which, tuple(options)
        self.holders: Mapping[
            int, SymTensor
        ] = {}  # the variables by the ids of the memories that they have as their own
        for x in self.options:
            x.picked_ = True
        self._asked: tuple[Any, Any, int] = (None, None, 0)
        super().__init__(meta, ref, home=home)
        parts(self)  # those of the options are known

    @property
    def version(self) -> Any:
        # Asked often, of as many tensors as constructs follow each other. Each write gives a version that is larger than all before.
        known, written = parts(self), last_write[0]
        if self._asked[0] is not known or self._asked[1] != written:
            self._asked = known, written, max(map(_version, known), default=0)
        return self._asked[2]

    @version.setter
    def version(self, value: Any) -> None:
        pass

    def strided(self) -> bool:
        return any(map(_out_of_order, self.options))

    def unfollowed(self, x: SymTensor, what: str) -> None:
        """``x`` shares memory with the tensors that lie in memory as it does, and is a copy of the others: none of them may change."""
        lose(x, [s for s in parts(self) if not s.derived], what)

    def in_order(self) -> Any:
        """``is_contiguous()`` of the tensor that counts."""
        which, options = flat(self.which, self.options)
        graph = current_graph()
        table = [torch.Tensor.is_contiguous(o) for o in options]
        at = which(graph)
        return (
            table[at] if isinstance(at, int) else new_scalar("tg.choose", (at, table), bool, graph)
        )

    def computed(self, graph: FuncGraph) -> Value:
        # Options are often picked among the same ones in turn, as deep as loops and branches nest: within one look at
        # a storage, which writes nothing, each is computed once.
        outer = graph.looking
        made = {} if outer is None else outer
        if self in made:
            return made[self]
        # The ops cannot fail: handlers that note what variables hold would read this storage again.
        graph.looking = made
        try:
            with graph.root.unwatched():
                contents = [value_of(x, graph) for x in self.options]
                found = made[self] = chosen(graph, self.which(graph), contents, self.meta)
            return found
        finally:
            graph.looking = outer

    def refuse_leaf(self, graph: FuncGraph, view: bool) -> None:
        index, options = flat(self.which, self.options)
        for i, x in enumerate(options):
            if not _is_leaf(x, graph):
                continue
            reads.leaf_written()
            which = index(graph)
            said = LEAF_WRITTEN if not (view or x.chain) else f"a view of {LEAF_WRITTEN}"
            if not isinstance(which, int):
                other = graph.emit("py.ne", which, i, type=BOOL)
                graph.add("tg.assert", (other, "RuntimeError", (said,)))
            elif which == i:
                raise RuntimeError(said)

    def spread(self, graph: FuncGraph, value: Value) -> bool:
        index, options = flat(self.which, self.options)
        for x in options:
            if isinstance(x.storage_, Lost):
                x.storage_.refuse("changed in place")
        which = index(graph)
        for i, x in enumerate(options):
            if isinstance(which, int) and which != i:
                continue
            if x.storage_.external is not None or x.storage_.argument is not None:
                _write_if(graph, which, i, x, value)
                continue
            # The options may overlap: what this one holds by now, not what it held before the others were written.
            old = value_of(x, graph)
            values = [value if k == i else old for k in range(len(options))]
            write(x, wrap(chosen(graph, which, values, x.meta), x.meta, graph))
        return True


def _out_of_order(x: SymTensor) -> bool:
    """Whether the elements of a tensor do not lie in order in memory, or may not."""
    if x.storage_.strided():
        return True
    return not torch.Tensor.is_contiguous(x) if x.meta.laid_out else is_open(x.chain, x.meta)


class Lost(Storage):
    """The storage of a tensor that may share memory with ``bases``, in a way that cannot be followed."""

    derived = True

    def __init__(self, meta: Meta, ref: Ref, bases: Sequence[Storage], name: str, home: FuncGraph):
        self.bases, self.name = tuple(bases), name
        super().__init__(meta, ref, home=home)

    @property
    def version(self) -> Any:
        return max((b.version for b in self.bases), default=0)

    @version.setter
    def version(self, value: Any) -> None:
        pass

    def computed(self, graph: FuncGraph) -> Value:
        return self.refuse("read after a change in place of what it may share memory with")

    def spread(self, graph: FuncGraph, value: Value) -> bool:
        return self.refuse("changed in place")

    def refuse(self, what: str) -> Any:
        raise AliasError(
            f"'{self.name}' may share memory with another variable, of an earlier iteration or of a branch, and whether it does is "
            f"known only when the graph runs; so it cannot be {what} here. Use clone() where it is assigned.",
            user_location(),
        )


def lose(x: SymTensor, bases: Sequence[Storage], what: str) -> None:
    """``x``, a copy in the graph that ``what`` gave, may share memory with ``bases``: none of them may change while it is read."""
    assert x.ref is not None
    moved()
    x.storage_, x.chain = Lost(x.meta, x.ref, bases, what, current_graph()), ()
    x.version = x.storage_.version


def _is_leaf(x: SymTensor, graph: FuncGraph) -> bool:
    """Whether a tensor is a leaf of the caller's that requires a gradient, or a view of one that autograd knows as such."""
    storage, given, watch = x.storage_, graph.root.given, reads.current()
    outside, i = storage.external, storage.argument
    if i is not None and i < len(given):
        outside = given[i]
    if not isinstance(outside, torch.Tensor) or any(v.func is _DETACH for v in x.chain):
        return False
    return watch is not None and watch.leaf(outside, i)


_DETACH = torch.ops.aten.detach.default


def chosen(graph: FuncGraph, which: Any, values: Sequence[Value], meta: Meta) -> Value:
    """The one of ``values`` that an index picks."""
    if isinstance(which, int):
        return values[which]
    return graph.emit("tg.choose", which, list(values), type=tensor_type(meta))


def _write_if(graph: FuncGraph, which: Any, i: int, x: SymTensor, value: Value) -> None:
    """Write a tensor that the caller sees, only where it is the one that counts: a write is an effect."""
    if isinstance(which, int):
        write(x, wrap(value, x.meta, graph))
        return
    content = Ref(value, graph)

    def then() -> None:
        inner = current_graph()
        write(x, wrap(inner.resolve(content), x.meta, inner))

    regions = {"then": trace_region("then", then), "orelse": trace_region("orelse", lambda: None)}
    arguments = {k: v for r in regions.values() for k, v in r.graph.arguments.items()}
    for region in regions.values():
        close(region.graph, list(arguments), [])
    here = graph.emit("py.eq", which, i, type=BOOL)
    inner = {name: r.graph.graph for name, r in regions.items()}
    node = graph.add("If", (here, *arguments.values()), {}, [], regions=inner)
    forget_written(graph, regions["then"].graph, node)


def flat(
    which: Which, options: Sequence[SymTensor], inner: FuncGraph | None = None
) -> tuple[Which, list[SymTensor]]:
    """The same choice with the options of every ``Picked`` among the options in its place.

    Of those that were made in ``inner``, when it is given: their indices are known only there.
    """
    if not any(_opens(x, inner) for x in options):
        return which, list(options)

    def opened(x: SymTensor) -> tuple[Which, Sequence[SymTensor]] | None:
        picked: Any = x.storage_ if _opens(x, inner) else None
        return picked and (picked.which, options_of(x))

    return one_choice(which, options, opened, _memory)


def _memory(x: SymTensor | None) -> Hashable:
    """The same for tensors that are the same part of the same memory."""
    return None if x is None else (id(x.storage_), tuple(map(id, x.chain)))


def _opens(x: SymTensor | None, inner: FuncGraph | None) -> bool:
    if x is None or not isinstance(x.storage_, Picked):
        return False
    return inner is None or (x.storage_.home is not None and x.storage_.home.within(inner))


def options_of(x: SymTensor) -> list[SymTensor]:
    """The tensors that a picked one may be."""
    assert isinstance(x.storage_, Picked)
    if not x.chain:
        return list(x.storage_.options)
    return [fresh_view(o.storage_, (*o.chain, *x.chain), x.meta) for o in x.storage_.options]


def fresh_view(storage: Storage, chain: tuple, meta: Meta) -> SymTensor:
    """A tensor of a storage whose value is looked up when it is read."""
    made = SymTensor(meta, storage, chain)
    made.version = -1
    return made


def become(
    x: SymTensor, which: Which, options: Sequence[SymTensor], home: FuncGraph, variable: bool
) -> None:
    """Make ``x``, which has the value of the option that counts, share the memory of the options; one is a ``variable``."""
    assert x.ref is not None
    if x.picked_:
        moved()
    x.storage_ = Picked(x.meta, x.ref, which, options, home)
    x.version = x.storage_.version
    if variable:  # SymTensor says that it is a plain tensor
        object.__dict__["__class__"].__set__(x, VARIABLE[0])
