"""Nodes that become loop nests: their loops, and the nest that is called; and small ones as straight-line code.

Nodes that do not fit into one nest get one each; a node without loops is asked of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..graph.ir import Node, Value, map_values
from ..graph.types import DTYPES, ScalarType, TensorType
from ..inference.memory_formats import RANKS
from ..inference.shapes import RULES, Meta
from ..kernels.build import Region, build
from ..kernels.creators import CREATORS
from ..kernels.gathers import GATHERS, settled
from ..kernels.loop_ir import Kernel, Open, Unsupported
from ..kernels.pointwise import ROWS
from ..kernels.pools import POOLS
from ..kernels.products import PRODUCTS
from ..kernels.reductions import REDUCERS
from ..kernels.resampling import RESAMPLED
from . import calls, nests
from .callees import without_gaps
from .code import literal
from .groups import CLONE, one_element
from .loops import Place, emit
from .parts import Part
from .values import Decline, Fill, Mem, Operand, Reg, alike, in_a_row, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering

_FORMS = (ROWS, REDUCERS, CREATORS, GATHERS, PRODUCTS)
_CPU = torch.device("cpu")


def lower(low: Lowering, nodes: list[Node], needed: set[Value]) -> None:
    """A loop nest; where its nodes do not fit into one, each gets its own."""
    outputs = _unsettled(low, [v for n in nodes for v in n.outputs if v in needed])
    if not outputs:
        return
    _settle_fills(low, nodes)
    fills = _fills(low, nodes)
    copies, placed = _copies(low, outputs), _strided(low, outputs)
    written = [*outputs, *(n.outputs[0] for n in copies)]
    placed |= {n.outputs[0]: place.stride for n, (_, place) in copies.items()}
    region = Region([*fills, *nodes, *copies], written)
    made = [x for x in map(low.env.get, _used(nodes)) if isinstance(x, Fill)]
    packed, turns = all(map(_is_packed, nodes)), any(map(in_other_order, nodes))
    ordered = packed or (
        not turns and all(x.ordered for x in (*map(low.operand, region.inputs), *made))
    )
    steps = None if ordered else _strides_there(low, region, made)
    turned = {} if steps is None else _turned(low, steps, outputs, placed)
    placed |= turned
    try:
        kernel = _kernel(low, [*fills, *nodes, *copies], written, placed)
    except Decline:
        if len(nodes) == 1:
            for v in placed:
                low.dests.pop(v, None)
            calls.lower(low, nodes[0])
            return
        _apart(low, nodes)
        return
    results: list[Any] = []
    for v in outputs:
        dtype, size = low.tensor(v)
        if v in turned:
            place = _in_its_order(low, v, turned[v])
        else:
            place = low.direct.place(v, kernel, region) or low.target(v)
        results.append(place if numel(size) > 1 else _cell(low, dtype, size))
    nests.call(low, kernel, region, [*results, *(place for _, place in copies.values())])
    low.parts.stored.update(part for part, _ in copies.values())
    for v, x in zip(outputs, results):
        known = steps is None or v in turned or _packed_by(low, v, steps)
        low.bind(v, _as_result(low, v, x, known))


def _as_result(low: Lowering, v: Value, x: Any, packed: bool) -> Any:
    """What a value is behind its nest; ``packed``: whether eager PyTorch's has the same strides."""
    if isinstance(x, Mem) and one_element(v):
        return Reg(low.code.load(x.dtype, x.pointer), x.dtype, x.size)
    if isinstance(x, Mem) and not packed:
        return replace(x, dense=in_a_row(x.size))
    return x


def _packed_by(low: Lowering, v: Value, steps: dict[Value, tuple]) -> bool:
    """Whether a result is contiguous in eager PyTorch, of whose strides ``steps`` tells."""
    size = low.tensor(v)[1]
    return v in steps and alike(size, steps[v], strides(size))


def _turned(low: Lowering, steps: dict[Value, tuple], outputs: Sequence[Value], placed: Collection[Value]) -> dict[Value, tuple]:  # fmt: skip
    """The strides of the results that have their dims in another order in eager PyTorch: they get them here, so that what is given to the caller is known."""
    found = {}
    for v in outputs:
        size = low.tensor(v)[1]
        if v in placed or v not in steps or one_element(v) or _packed_by(low, v, steps):
            continue
        if not any(isinstance(n, Open) for n in size) and without_gaps(size, steps[v]):
            found[v] = steps[v]
    return found


def _in_its_order(low: Lowering, v: Value, stride: tuple) -> Mem:
    """New memory for a tensor of those strides."""
    low.dests.pop(v, None)
    dtype, size = low.tensor(v)
    return replace(low.new(dtype, size), stride=stride)


def _strides_there(low: Lowering, region: Region, made: Sequence[Fill]) -> dict[Value, tuple]:
    """The strides of results in eager PyTorch, as far as its rules tell from those of the inputs.

    ``made``: the tensors of numbers among them.
    """
    metas: dict[Value, Any] = {}
    if not all(x.ordered for x in made):
        return _packed_anyhow(low, region)
    for v in region.inputs:
        x = low.operand(v)
        if isinstance(v.type, TensorType):
            if isinstance(x, Mem) and (not x.dense or x.open or x.gaps or x.lead is not None):
                return _packed_anyhow(low, region)
            new = _new(x.dtype, tuple(x.size or ()))
            metas[v] = new._replace(stride=x.stride) if isinstance(x, Mem) else new
    for n in region.nodes:
        if not any(isinstance(v.type, TensorType) for v in n.inputs):
            metas |= {v: _new(*low.tensor(v)) for v in n.outputs}
            continue
        rule = RULES.get(n.op.split(".")[1]) if n.op.startswith("aten.") else None
        if rule is None or any(isinstance(v.type, TensorType) and v not in metas for v in n.inputs):
            continue
        given = map_values(_known_to(metas), n.args)
        found = rule(*given, **n.kwargs)
        found = [found] if isinstance(found, Meta) else found or []
        metas |= {v: m for v, m in zip(n.outputs, found) if isinstance(m, Meta) and m.laid_out}
    return {v: metas[v].stride for v in region.outputs if v in metas}


_IN_ITS_ORDER = frozenset(
    [
        "aten.flip.default",
        "aten.roll.default",
        "aten.constant_pad_nd.default",
        "aten.index.Tensor",
        "aten.copy.default",
        "aten.fill.Scalar",
        "aten.fill.Tensor",
        *POOLS,
        *RESAMPLED,
    ]
)


def in_other_order(node: Node) -> bool:
    """Whether a result has a format for images or volumes, whatever the strides of its operands are."""
    return node.kwargs.get("memory_format") in RANKS


def _is_packed(node: Node) -> bool:
    """Whether a result is contiguous in eager PyTorch whatever its operands are."""
    return node.op in PRODUCTS or (node.op in GATHERS and node.op not in _IN_ITS_ORDER)


def _packed_anyhow(low: Lowering, region: Region) -> dict[Value, tuple]:
    """The results that are contiguous whatever the strides of the other inputs are: new copies, and what is computed from such and from ordered tensors."""
    held = {v: x for v in _used(region.nodes) if (x := low.env.get(v)) is not None}
    packed = {v for v, x in held.items() if x.ordered}
    for n in region.nodes:
        new = _is_packed(n) or (n.op == CLONE and n.kwargs.get("memory_format") is torch.contiguous_format)  # fmt: skip
        if in_other_order(n):
            continue
        if new or all(v in packed for v in n.inputs if isinstance(v.type, TensorType)):
            packed.update(v for v in n.outputs if v not in held)
    return {v: strides(low.tensor(v)[1]) for v in region.outputs if v in packed}


def _new(dtype: str, size: tuple[int, ...]) -> Meta:
    return Meta(DTYPES[dtype], size, strides(size), 0, _CPU)


def _known_to(metas: dict[Value, Any]) -> Callable[[Value], Any]:
    return lambda v: v.type.kind(1) if isinstance(v.type, ScalarType) else metas.get(v, v)


def _strided(low: Lowering, outputs: Sequence[Value]) -> dict[Value, tuple]:
    """The strides of the results that go to places with gaps."""
    places = {v: low.dests.get(v) for v in outputs}
    return {v: x.stride for v, x in places.items() if isinstance(x, Mem) and not x.packed}


def _copies(low: Lowering, outputs: Sequence[Value]) -> dict[Node, tuple[Part, Mem]]:
    """Nodes that give a result again, for each further place where it goes as a part."""
    found = [(v, part, place) for v in outputs for part, place in low.parts.also.get(v, {}).items()]
    return {Node(CLONE, (v,), types=[v.type]): (part, place) for v, part, place in found}


def inline(low: Lowering, node: Node) -> dict[Value, Reg]:
    """A node of one-element values as straight-line code; what is bound already is left out."""
    outputs = _unsettled(low, node.outputs)
    kernel = _kernel(low, [node], outputs)
    region = Region([node], outputs)
    bind = {f"o{i}": Place("", True) for i in range(len(outputs))}
    for i, v in enumerate(region.inputs):
        x = low.register(low.operand(v))
        bind[f"p{i}"] = bind[f"s{i}"] = Place(x.text, True)
    found = emit(low.code, kernel, bind, low.fail)
    return {v: Reg(found[f"o{i}"], *low.tensor(v)) for i, v in enumerate(outputs)}


def _unsettled(low: Lowering, values: Sequence[Value]) -> list[Value]:
    """The values that are to be computed; those that are known already are bound."""
    rest = []
    for v in values:
        number = settled(v)
        if number is None:
            rest.append(v)
            continue
        dtype, size = low.tensor(v)
        low.bind(v, Reg(literal(number, dtype), dtype, size))
    return rest


def _kernel(
    low: Lowering,
    nodes: list[Node],
    outputs: Sequence[Value],
    placed: dict[Value, tuple] | None = None,
) -> Kernel:
    """The loops of some nodes; Decline where there are none. ``placed``: strides of outputs that are not packed."""
    for n in nodes:
        if not any(n.op in table for table in _FORMS):
            raise Decline(f"{n.op} has no native form")
    region = Region(nodes, list(outputs))
    metas = {v: _meta(low, v, low.operand(v)) for v in region.inputs if isinstance(v.type, TensorType)}  # fmt: skip
    for n in nodes:
        for v in n.outputs:
            size = low.tensor(v)[1]
            stride = (placed or {}).get(v, strides(size))
            metas[v] = Meta(v.type.dtype, tuple(map(low.sizes.same, size)), low.sizes.strides(stride), 0, _CPU)  # fmt: skip
    name = f"k{len(low.kernels)}"
    try:
        kernel = build(region, metas, name)
    except Unsupported as error:
        raise Decline(f"{nodes[0].op}: {error}") from None
    nests.check(low, kernel)
    return kernel


def _meta(low: Lowering, v: Value, x: Operand) -> Meta:
    stride = x.stride if isinstance(x, Mem) else (0,) * len(x.size or ())
    size = tuple(map(low.sizes.same, x.size or ()))
    return Meta(v.type.dtype, size, low.sizes.strides(stride), 0, _CPU)


def _apart(low: Lowering, nodes: list[Node]) -> None:
    """Each node in a nest of its own; what was to go to a place that others still read goes there last."""
    kept = {v: low.dests.pop(v) for n in nodes for v in n.outputs if v in low.dests}
    for n in nodes:
        lower(low, [n], set(n.outputs))
    for v, dest in kept.items():
        x = low.env[v]
        made = low.moved(x, dest)
        same = not isinstance(x, Mem) or alike(made.size, x.stride, made.stride)
        made = replace(made, dense=x.dense and same)
        low.unbind(v)
        low.bind(v, made)


def _cell(low: Lowering, dtype: str, size: tuple[int, ...]) -> Mem:
    return Mem(low.code.cell("i64"), dtype, size, strides(size))


def _settle_fills(low: Lowering, nodes: list[Node]) -> None:
    """A tensor of numbers that has another name here, as the argument of a region, is written out."""
    for v in dict.fromkeys(v for n in nodes for v in n.inputs):
        x = low.env.get(v)
        if isinstance(x, Fill) and v not in x.node.outputs:
            made = low.memory(x)
            low.unbind(v)
            low.bind(v, made)


def _used(nodes: list[Node]) -> dict[Value, None]:
    return dict.fromkeys(v for n in nodes for v in n.inputs)


def _fills(low: Lowering, nodes: list[Node]) -> list[Node]:
    found = [x.node for v in _used(nodes) if isinstance(x := low.env.get(v), Fill)]
    return list(dict.fromkeys(found))


def copy(low: Lowering, source: Mem | Fill, target: Mem) -> None:
    """Write all elements of ``source`` to ``target`` by a loop nest."""
    if isinstance(source, Fill):
        node = source.node
        low.sizes.note(node.outputs[0], source.size)
    else:
        value = Value(TensorType(DTYPES[source.dtype], source.size))
        node = Node(CLONE, (value,), types=[value.type])
        low.env[value] = source
    kernel = _kernel(low, [node], node.outputs, {node.outputs[0]: target.stride})
    nests.call(low, kernel, Region([node], list(node.outputs)), [target])
    if isinstance(source, Mem):
        del low.env[value]
