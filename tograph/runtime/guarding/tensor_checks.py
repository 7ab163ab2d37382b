"""What a trace depends on of tensors, those of the arguments and those that it captured, besides their kinds and places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..symbols.descriptions import given_attributes
from ..symbols.funcgraph import Storage
from ..symbols.retrace import Retrace
from ..symbols.symbolic import SymTensor
from . import sources
from .guards import (
    APART,
    ATOMS,
    CAPTURED,
    CLEAR,
    HOOKS,
    IN_ORDER,
    OFFSET,
    OTHER,
    PARAMETER,
    STRIDES,
)
from .place_checks import PlaceChecks
from .sources import Source, holder
from .tensor_facts import hooks_of, unconnected


class TensorChecks(PlaceChecks):
    """Checks of gradients, of memory, and of what is one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.differentiated = False  # whether it depends on which tensors require a gradient
        self.laid_out = (
            False  # whether it depends on how the tensors of the arguments lie in memory
        )

    def argument(self, i: int, x: torch.Tensor) -> None:
        """The ``i``-th tensor of the arguments is also one that was captured."""
        self.check(Source(None, "tensor", i, f"tensor {i}"), "same", CAPTURED, holder(x))

    def other(self, i: int, x: torch.Tensor) -> None:
        """The ``i``-th tensor of the arguments was asked whether it is this captured one: it is not."""
        source = Source(None, "tensor", i, f"tensor {i}")
        self.check(source, ("other", id(x)), OTHER, holder(x))

    def stand_in(self, x: torch.Tensor, i: int) -> None:
        """``x`` stands for the ``i``-th tensor of the arguments, or is that tensor."""
        if i not in self.real:
            self.placeholders[id(x)] = x, i, Source(None, "tensor", i, f"tensor {i}")
        elif given_attributes(x):
            self.sources[id(x)] = x, sources.object_(x, f"tensor {i}")

    def tensor_fields(self, x: torch.Tensor) -> dict[str, Any]:
        """All attributes that code has given to a tensor were asked for."""
        found = given_attributes(x)
        if id(x) in self.placeholders:
            source = self.placeholders[id(x)][2]
            old = [n for n in found if not self.written(("attr", id(x), n))]
            self.check(source, "fields", "sorted({0}.__dict__) == {1}", sorted(old))
            for name in old:
                self.attribute_given(x, name, found[name])
        return found

    def attribute_given(self, owner: torch.Tensor, name: str, value: Any) -> None:
        """An attribute that code has given to a tensor of the arguments: one that is a number or a string is compared, one of another kind is this tensor's."""
        if name not in given_attributes(owner) or self.written(("attr", id(owner), name)):
            return
        _, i, source = self.placeholders[id(owner)]
        if not (value is None or isinstance(value, ATOMS)):
            raise Retrace(real=frozenset([i]))
        self.value(value, self.step(source, "attr", name))

    def history(self) -> None:
        """Whether tensors require a gradient matters, those of the arguments and what is captured: another answer traces anew."""
        self.differentiated = True
        for i, x in enumerate(self.given):
            if isinstance(x, torch.Tensor):
                self._gradient(Source(None, "tensor", i, f"tensor {i}"), x)

    def leaf(self, x: torch.Tensor, i: int | None) -> bool:
        """Whether a captured tensor, or the ``i``-th one of the arguments, is a leaf that requires a gradient was asked."""
        source = Source(None, "object", sources.Strong(x), "a captured tensor")
        if i is not None:
            source = Source(None, "tensor", i, f"tensor {i}")
        found = x.requires_grad and x.is_leaf
        test = f"({{0}}.requires_grad and {{0}}.is_leaf) is {found}"
        self.check(self.source_of(x) or source, "leaf", test)
        return found

    def content(self, x: torch.Tensor) -> bool:
        """What a tensor from outside holds was asked for; False of one that stands for a number which is read at every call."""
        if id(x) in self.numbers:
            return False
        kept = Source(None, "object", sources.Strong(x), "a captured tensor")
        with _disable_current_modes():
            self.check(
                self.source_of(x) or kept, "content", "same_content({0}, {1})", x.detach().clone()
            )
        return True

    def leaf_written(self, captured: Sequence[Any]) -> None:
        """A write to one of the leaves that require a gradient has failed: to another tensor it does not."""
        for i, x in (*enumerate(self.given), *((None, x) for x in captured)):
            if _is_real(x) and x.requires_grad and x.is_leaf:
                self.leaf(x, i)

    def leaves(self, assigned: Mapping[int, bool], storages: Iterable[Storage]) -> None:
        """Some storages are written, which is no error of the graph: other leaves trace anew."""
        for s in storages:
            x = s.external if s.argument is None else self.given[s.argument]
            if assigned.get(id(s)) and _is_real(x) and (x.is_floating_point() or x.is_complex()):
                self.leaf(x, s.argument)

    def offset(self, i: int, x: torch.Tensor) -> int:
        """Where the ``i``-th tensor of the arguments begins in its memory was asked."""
        found = x.storage_offset()
        source = Source(None, "tensor", i, f"tensor {i}")
        self.check(source, "offset", OFFSET, found)
        return found

    def parameter(self, i: int, x: torch.Tensor) -> bool:
        """Whether the ``i``-th tensor of the arguments is a parameter was asked."""
        found, kind = type(x) is torch.nn.Parameter, torch.nn.Parameter
        source = Source(None, "tensor", i, f"tensor {i}")
        self.check(source, "class", PARAMETER[found], kind)
        return found

    def layout(self) -> None:
        """How the tensors of the arguments lie in memory matters: others trace anew."""
        if self.laid_out:
            return
        self.laid_out = True
        for i, x in enumerate(self.given):
            if isinstance(x, torch.Tensor) and x.layout is torch.strided:
                source = Source(None, "tensor", i, f"tensor {i}")
                test = IN_ORDER if x.is_contiguous() else STRIDES
                self.check(source, "layout", test, x.stride())

    def captured(self, tensors: Sequence[torch.Tensor]) -> None:
        """What the trace captured, at its end."""
        if self.differentiated:
            for x in tensors:
                kept = Source(None, "object", sources.Strong(x), "a captured tensor")
                self._gradient(self.source_of(x) or kept, x)
        used = set(map(id, tensors))
        for x, source in list(self.sources.values()):
            # calls look at those that are used
            if isinstance(x, torch.Tensor) and id(x) not in used:
                type_ = tuple(x.shape), x.dtype
                self.check(source, "type", "({0}.shape, {0}.dtype) == {1}", type_)

    def _gradient(self, source: Source, x: torch.Tensor) -> None:
        if x.is_floating_point() or x.is_complex():
            test = "{0}.requires_grad" if x.requires_grad else "not {0}.requires_grad"
            self.check(source, "gradient", test)

    def apart(self, i: int) -> None:
        """The ``i``-th tensor of the arguments is written: no other one may share its memory."""
        self.check(Source(None, "tensor", i, f"the memory of tensor {i}"), "apart", APART)

    def clear(self, captured: Sequence[torch.Tensor], places: Sequence[tuple[int, ...]]) -> None:
        """The arguments at these places overlap none of the captured tensors, of each of which one of both is written."""
        pairs = [(holder(x), p) for x, p in zip(captured, places) if p]
        if pairs:
            at = pairs[0][1][0]
            source = Source(None, "tensor", at, "the memory of captured tensors")
            self.check(source, "clear", CLEAR, pairs)

    def unconnected(self, x: torch.Tensor, i: int, targets: tuple[Any, ...]) -> bool:
        """Whether the history of the ``i``-th tensor of the arguments leads to none of some tensors from outside was asked.

        ``targets``: positions of arguments, and what gives others.
        """
        found = unconnected(x, self.given, targets)
        test = "unconnected({0}, tensors, {1})"
        self.check(
            Source(None, "tensor", i, f"the history of tensor {i}"),
            "history",
            test if found else f"not {test}",
            targets,
        )
        return found

    def gradient_hooks(self, x: torch.Tensor, i: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The hooks of the ``i``-th tensor of the arguments were asked for, see ``hooks_of``."""
        found = hooks_of(x)
        self.check(Source(None, "tensor", i, f"the hooks of tensor {i}"), "hooks", HOOKS, found)
        return found

    def constant(self, x: torch.Tensor) -> bool:
        """A tensor from outside must go on requiring no gradient; False where its place is not known."""
        source = self.source_of(x)
        if source is not None:
            self.check(source, "constant", "not {0}.requires_grad", None, "no gradient")
        return source is not None


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, SymTensor)
