"""The arguments of a traced function as inputs of its graph: placeholders for tensors, staged numbers for open numbers.

A dimension that a spec leaves open is a staged size, with the size of this call as its hint. Of a tensor of any rank
there is a trace for each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.types import ScalarType
from ..inference.infer import meta_of, tensor_type
from ..inference.shapes import Meta, contiguous
from ..recording.variables import SymVariable, Variable
from ..symbols import wholes
from ..symbols.descriptions import given_attributes
from ..symbols.funcgraph import FuncGraph, Ref, Storage
from ..symbols.scalar_nodes import ScalarNode
from ..symbols.scalars import size_of, staged
from ..symbols.symbolic import SymTensor, value_of
from ..values import families
from ..values.arguments import Flat
from ..values.specs import TensorSpec
from ..writes import rebasing


def inputs_of(
    root: FuncGraph, flat: Flat, specs: Sequence[TensorSpec], open_numbers: Sequence[int]
) -> tuple[list[SymTensor], Taker]:
    """(the inputs: tensors, then open numbers; what stands for each tensor and number of the arguments)."""
    inputs = [_placeholder(root, flat, i, s) for i, s in enumerate(specs)]
    numbers = {
        i: _number(root, flat.numbers[i], i, len(inputs) + j) for j, i in enumerate(open_numbers)
    }
    inputs += [x for x, _ in numbers.values()]
    return inputs, Taker(flat, inputs, {i: x for i, (_, x) in numbers.items()}, root.root.real)


def _placeholder(root: FuncGraph, flat: Flat, index: int, spec: TensorSpec) -> SymTensor:
    x = flat.tensors[index]
    label = flat.names[index]
    label = label if label.isidentifier() else ""
    real = isinstance(x, torch.Tensor) and not isinstance(x, SymTensor)
    # Of a tensor of any rank there is a trace for each rank.
    shape = spec.shape if spec.shape is not None else (None,) * (x.dim() if real else 0)
    if None not in shape:
        meta = meta_of(x) if real else contiguous(spec.dtype, shape, spec.device)
        meta = meta._replace(offset=0)
        made = _argument(
            root,
            meta,
            index,
            label,
            SymVariable if isinstance(x, Variable) else SymTensor,
        )
    else:
        made = _dynamic(root, index, spec, shape, x if real else None, label)
    if real and x.requires_grad:
        made.requires_grad_(True)
        made.real_ = x
        made = made if x.is_leaf else _with_history(made)
    elif real:
        made.caller_ = x  # it has a field too, where the code makes a leaf of it
    if real:
        made.__dict__.update(given_attributes(x))
    wholes.note(made, root.root)
    return made


def _with_history(leaf: SymTensor) -> SymTensor:
    """An argument that has a history outside is no leaf, whatever the gradient mode of the call is."""
    made = rebasing.alias(leaf)
    made.given_, made.real_, leaf.shown_ = True, leaf.real_, made
    return made


def _argument(
    graph: FuncGraph, meta: Meta, argument: int, label: str = "", kind: type[SymTensor] = SymTensor
) -> SymTensor:
    """An argument of the function: an external storage that the caller can see change."""
    storage = Storage(meta, argument=argument)
    graph.captures[storage] = graph.input(tensor_type(meta), label)
    made = kind(meta, storage)
    made.given_ = True
    return made


def _number(root: FuncGraph, x: Any, i: int, place: int) -> tuple[SymTensor, Any]:
    """(input, staged number) for an argument that is an int or a float; its value ``x`` is a hint."""
    meta = meta_of(families.number_tensor(x))
    made = _argument(root, meta, place, f"number{i}")
    kind = type(x)
    value = root.emit(f"py.{kind.__name__}", value_of(made, root), type=ScalarType(kind))  # fmt: skip
    return made, staged(ScalarNode(kind, Ref(value, root), hint=x, expr=("number", place)))


def _dynamic(
    root: FuncGraph, index: int, spec: TensorSpec, shape: Sequence[int | None], x: Any, label: str
) -> SymTensor:
    static = contiguous(spec.dtype, [n if n is not None else 0 for n in shape], spec.device)
    made = _argument(root, static, index, label)
    value = root.captures[made.storage_]
    size = []
    for d, n in enumerate(shape):
        if n is None:
            hint = int(x.shape[d]) if x is not None else 7 + 4 * d + 2 * index
            size.append(size_of(value, d, root, hint, ("size", index, d)))
        else:
            size.append(n)
    meta = contiguous(spec.dtype, size, spec.device)
    storage = made.storage_
    storage.meta = meta
    value.type = tensor_type(meta)
    made = SymTensor(meta, storage)
    made.given_ = True
    return made


class Taker:
    """The placeholder for each tensor of the arguments; numpy arrays and numbers come in order."""

    def __init__(
        self, flat: Flat, inputs: list[SymTensor], staged: dict[int, Any], real: frozenset[int]
    ):
        self.places, self.inputs, self.staged = flat.places, [*inputs], staged
        for i in real:
            self.inputs[i] = flat.tensors[i]
        self.arrays = iter(sorted(set(range(len(flat.tensors))) - set(flat.places.values())))
        self.numbers = 0

    def __call__(self, x: Any) -> Any:
        if type(x) in families.DTYPES:
            self.numbers += 1
            return self.staged.get(self.numbers - 1, x)
        place = self.places.get(id(x))
        return self.inputs[next(self.arrays) if place is None else place]
