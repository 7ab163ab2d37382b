"""Symbolic tensors: ``torch.Tensor`` objects without data that stand for values of a graph."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ScopeError, StagingError, UnsupportedOpError
from ..graph import ops
from ..graph.ir import Value
from ..inference import shapes
from ..inference.infer import meta_of, tensor_type
from ..inference.shapes import Meta
from . import contents, devices, duals, leaf_values, open_layouts, products, switched, valueless
from .funcgraph import FuncGraph, Ref, Storage, current_graph, moment, user_location
from .known import UNKNOWN
from .mapped import check_unmapped
from .retrace import Retrace
from .root import Root
from .scalars import new_scalar
from .valueless import Valueless
from .views import View
from .wholes import note as note_whole


class SymTensor(Valueless, torch.Tensor):
    """A tensor whose content is known only when the graph runs."""

    storage_: Storage
    chain: tuple[View, ...]
    meta: Meta
    ref: Ref | None
    version: int
    born: int
    given_ = False  # the argument itself
    asked_ = False  # the code made a leaf of it
    became_: Any = None  # of such a leaf: its value then, and the node before
    graded_ = False  # it stands for leaves of regions, which may have a gradient there
    sometimes_ = plain_ = False  # in some runs a leaf that a region made; requires no gradient
    mixed_ = ""  # it stands for leaves, some of which are from before the regions: "mixed", or "graded" where one may have a gradient
    real_: Any  # of an argument that requires a gradient: the tensor that it stands for
    caller_: Any = None  # of one that requires none: the same
    nothing_ = False  # a derivative that is zero, by a formula of torch
    picked_ = False  # a staged condition may pick it
    shown_: Any  # of the leaf of an argument that is none outside: what the code sees
    shows_: Any = None  # weakly, the tensor of which ``_unsafe_view`` made it: torch's code lets go of that, or writes it by this name
    unknown_: frozenset[str] = frozenset()  # attributes of the user's that it has on some path

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, meta: Meta, storage: Storage, chain: tuple = (), ref: Ref | None = None):
        if torch.is_inference_mode_enabled():  # a view of an argument cannot be an inference tensor
            with torch.inference_mode(False):
                return cls.__new__(cls, meta, storage, chain, ref)
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            meta.size,
            strides=meta.stride,
            storage_offset=meta.offset,
            dtype=meta.dtype,
            device=devices.made_on(meta.device),
            # torch would compute it from the sizes: five numbers of the graph for each tensor of an unknown size
            storage_size=None if meta.static else 0,
        )
        self.meta, self.storage_, self.chain, self.ref = meta, storage, chain, ref
        self.version = storage.version
        self.born = moment()
        if not meta.static:
            self.numel()  # torch keeps it: asked in a branch first, it would be a value of that branch
        return self

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name: str) -> Any:
        if name in self.unknown_:
            raise StagingError(
                f"attribute {name!r} of a tensor depends on a staged condition or loop, and which one it is is known only when the graph runs: "
                "keep it in a variable of its own",
                user_location(),
            )
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._has_compatible_shallow_copy_type.default:
            return True  # asked when a tensor becomes another view in place
        if func is torch.ops.aten._unpack_dual.default:  # ``duals`` asks while an op is recorded
            return func.decompose(*args)
        if func in duals.SAME or func in duals.AGREE:
            return same(args[0]) if func in duals.SAME else duals.may_agree(*args)
        raise ScopeError(
            f"a tensor is out of scope and cannot be used here ({func}): it belongs to the graph of a function, and has a value "
            "only where that runs. Return it from the function instead."
        )

    __class__ = property(lambda self: torch.Tensor)  # what a program may ask; ``type`` tells

    def requires_grad_(self, requires_grad: bool = True):
        (switches if self.given_ else leaf_values.check)(self, requires_grad)
        self.asked_ = requires_grad
        if requires_grad and not self.requires_grad and not self.given_:
            LEAF(self)
            self.begin_leaf()
        elif not requires_grad and self.became_ is not None:
            leaf_values.end(self.became_[0], current_graph())
        return super().requires_grad_(requires_grad)

    def begin_leaf(self):
        """The code makes a leaf of the value that the tensor has now."""
        note_whole(self, current_graph().root)
        self.plain_ = False  # whatever gave it, from here on it requires a gradient in all runs
        self.became_ = leaf_values.begin(value_of(self, current_graph()), current_graph())

    def contiguous(self, memory_format=torch.contiguous_format):
        if memory_format is torch.contiguous_format and open_layouts.is_open(self.chain, self.meta):
            made = self.view(self.shape)
            made.chain = (*made.chain[:-1], dataclasses.replace(made.chain[-1], unsure=True))
            return made
        if memory_format is not torch.contiguous_format or not self.storage_.strided():
            self.storage_.reshaped = True
            return super().contiguous(memory_format=memory_format)
        made = self.clone(memory_format=memory_format)
        self.storage_.unfollowed(made, "the result of contiguous()")
        return made

    def is_contiguous(self, memory_format=torch.contiguous_format):
        if memory_format is torch.contiguous_format and not self.chain and self.storage_.strided():
            return self.storage_.in_order()
        return super().is_contiguous(memory_format=memory_format)

    def __matmul__(self, other):
        if isinstance(other, torch.Tensor) and (products.is_open(self) or products.is_open(other)):
            return products.matmul(self, other)
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        if isinstance(other, torch.Tensor) and products.is_open(self):
            return products.matmul(other, self)
        return super().__rmatmul__(other)

    def matmul(self, other):
        return self.__matmul__(other) if isinstance(other, torch.Tensor) else super().matmul(other)

    def untyped_storage(self):
        """For its number of bytes, which a tensor of an unknown size is made without."""
        if self.meta.static:
            return super().untyped_storage()
        bytes_ = math.prod(self.storage_.meta.size) * self.meta.dtype.itemsize
        made = torch.Tensor._make_wrapper_subclass(SymTensor, (0,), device=self.meta.device, storage_size=bytes_)  # fmt: skip
        return torch.Tensor.untyped_storage(made)

    def __repr__(self, **kwargs) -> str:
        return f"<tensor {tensor_type(self.meta)}, known when the graph runs>"

    def __iter__(self):
        if not self.meta.rank:
            raise TypeError("iteration over a 0-d tensor")
        if type(self.meta.size[0]) is not int:
            self._no_value("iterator")
        return iter(self.unbind(0))

    def __format__(self, spec):
        return repr(self)

    def item(self):
        return scalar_of(self)

    def tolist(self):
        if not self.meta.rank:
            return scalar_of(self)
        return [row.tolist() for row in self.unbind(0)]

    def apart(self, quiet=False):
        """The same memory without a history, and with a version of its own."""
        graph = current_graph()
        kind = tensor_type(self.meta)
        value = graph.emit("aten.detach.default", value_of(self, graph), type=kind)
        step = View(torch.ops.aten.detach.default, (), {}, None, self.meta, quiet)
        return SymTensor(self.meta, self.storage_, (*self.chain, step), Ref(value, graph))

    def detach_(self):
        torch.Tensor.detach_(self)
        storage, graph = self.storage_, current_graph()
        if storage.external is None and storage.argument is None and not storage.derived:
            value = value_of(self, graph)
            graph.assign(storage, graph.emit("aten.detach.default", value, type=value.type))
        return self

    def _replace_data(self, value):
        torch.Tensor.data.__set__(self, value)

    # Torch's own shares the history of the graph's value.
    data = property(lambda self: self.apart(quiet=True), _replace_data)

    @property
    def nbytes(self) -> Any:
        """Torch's own asks for a number of elements that is known."""
        return self.numel() * self.element_size()

    def __deepcopy__(self, memo):
        copied = getattr(memo, "copied", None)  # of a memo that copies tensors itself
        return self.clone() if copied is None else copied(self)


def _array(x: SymTensor, shares: bool) -> Any:
    return contents.array(value_of(x, current_graph()), x.storage_, shares)


def _number(x: SymTensor) -> Any:
    found = contents.asked_for(value_of(x, current_graph())) if contents.may_ask() else UNKNOWN
    return None if found is UNKNOWN else found.item()


valueless.ARRAY, valueless.NUMBER = _array, _number

# Messages of Python and torch, and type(x).__name__, say what they say of any tensor.
SymTensor.__name__ = SymTensor.__qualname__ = "Tensor"
SymTensor.__module__ = "torch"  # by which autoray and opt_einsum find their functions


def scalar_of(x: torch.Tensor) -> Any:
    """The staged Python number that ``x.item()`` is."""
    x = as_symbolic(x)
    if any(type(n) is int and n != 1 for n in x.meta.size):
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    if x.dtype.is_complex:
        raise UnsupportedOpError(
            "a complex number of Python whose value only the run knows cannot be part of a graph: keep it a tensor, or take "
            "its real and imaginary parts",
            user_location(),
        )
    kind = bool if x.dtype == torch.bool else float if x.dtype.is_floating_point else int
    graph = current_graph()
    return new_scalar(f"py.{kind.__name__}", (value_of(x, graph),), kind, graph)


def same(x: SymTensor, kind: type[SymTensor] | None = None) -> Any:
    """Another object for the same view of the same storage, which knows as much of its content as ``x`` does."""
    made = (kind or type(x))(x.meta, x.storage_, x.chain, x.ref)
    made.version = x.version
    return made


def wrap(value: Value, meta: Meta, graph: FuncGraph) -> SymTensor:
    """A new tensor, with a storage of its own, for a value of ``graph``."""
    ref = Ref(value, graph)
    return SymTensor(meta, Storage(meta, ref, home=graph), (), ref)


def switches(x: torch.Tensor, wanted: bool) -> None:
    """The code is about to set ``x.requires_grad``, of a tensor from outside."""
    root = current_graph().root
    known = x.storage_ if isinstance(x, SymTensor) else root.captured.get(id(x))
    graph = root.graphs[0]
    value = None if known is None else graph.captures.get(known)
    read = value is not None and any(value in node.inputs for node in graph.graph.nodes)
    switched.switch(x, wanted, root, read)


def capture(x: torch.Tensor) -> SymTensor:
    """The symbolic tensor that stands for a real one, captured by reference."""
    root = current_graph().root
    if x._is_zerotensor():  # of a formula of torch, with no memory
        return wrap(duals.zeros(x, current_graph()), meta_of(x), current_graph())
    check_unmapped(x)
    found_outside(x, root)
    if root.bases and memory(x) in root.bases:
        return _part(x, root)
    if id(x) not in root.captured:
        root.captured[id(x)] = Storage(meta_of(x), external=x)
        root.outside.append((x, x.grad_fn, x._version))
    storage = root.captured[id(x)]
    return SymTensor(storage.meta, storage)


def found_outside(x: torch.Tensor, root: Root) -> None:
    """A real tensor is used: one that is an argument, too, is captured where the trace begins anew."""
    for i, given in enumerate(root.given):
        if given is x and i not in root.real:
            raise Retrace(real=frozenset([i]))


def memory(x: torch.Tensor) -> int:
    """Which memory a tensor lies in; 0 when it has none that can be asked for."""
    try:
        return x.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0


def _part(x: torch.Tensor, root: Any) -> SymTensor:
    """A captured tensor that shares memory with others, as a view of all of it."""
    at = memory(x)
    if at not in root.flat:
        with torch.no_grad(), _disable_current_modes():
            flat = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
        root.keep.append(flat)
        root.flat[at] = root.captured[id(flat)] = Storage(meta_of(flat), external=flat)
    storage, meta = root.flat[at], meta_of(x)
    args = (list(meta.size), list(meta.stride), meta.offset)
    view = View(torch.ops.aten.as_strided.default, args, {}, None, storage.meta)
    return SymTensor(meta, storage, (view,))


def LEAF(x: SymTensor) -> None:
    """The code makes a leaf of ``x``. Set by ``twins``, which gives a detached tensor its own history."""


def as_symbolic(x: torch.Tensor) -> SymTensor:
    return x if isinstance(x, SymTensor) else capture(x)


def value_of(x: torch.Tensor, graph: FuncGraph) -> Value:
    """The graph value that a tensor has at this point."""
    value = _value_of(as_symbolic(x), graph)
    if x.requires_grad or (duals.level_open() and duals.tangent_of(x) is not None):
        _note_source(x, value, graph)
    elif switched.is_off(x, graph.root):
        value = graph.emit("aten.detach.default", value, type=value.type)
        graph.root.frozen.append((value, x))
    return value


def _value_of(x: SymTensor, graph: FuncGraph) -> Value:
    storage = x.storage_
    if (
        x.ref is not None
        and x.version == storage.version
        and (x.ref.graph is graph or graph.within(x.ref.graph))
        and x.ref.value not in x.ref.graph.undone
    ):
        return graph.resolve(x.ref)
    if x.ref is not None and x.version != storage.version:
        open_layouts.check(x.chain, "read after a change in place of what it may share memory with")
    value = graph.current(storage)
    for view in x.chain:
        value = apply_view(graph, view, value)
        assert value.node is not None
        value.node.grad = True  # a view has the history of what it is one of in any gradient mode
    if storage.external is None and storage.argument is None and not storage.derived:
        # A view is known where it was replayed; a whole tensor wherever its storage is.
        x.ref, x.version = Ref(value, graph) if x.chain else storage.ref, storage.version
    return value


def _note_source(x: torch.Tensor, value: Value, graph: FuncGraph) -> None:
    """``x`` carries ``value`` in autograd, here and in every graph on the way to where it is from."""
    graph.sources[value] = x
    x_, base = as_symbolic(x), x._base
    if base is None and not x_.chain:
        base = x  # a view that has a history of its own says nothing of the whole tensor
    storage = x_.storage_
    at: FuncGraph | None = graph
    while at is not None:
        if base is not None and storage in at.captures:
            at.sources[at.captures[storage]] = base
        whole = None if storage.derived else storage.ref
        for ref, carrier in ((x_.ref, x), (whole, base)):
            if ref is None or carrier is None:
                continue
            if ref.graph is at or ref.value in at.captures:
                at.sources[at.resolve(ref)] = carrier
        at = at.outer


def apply_view(graph: FuncGraph, view: View, base: Value) -> Value:
    """One step of a view chain on a base value."""
    found = view.shown()
    args = tuple(argument(graph, a) for a in view.args)
    types = [tensor_type(m) for m in (found if isinstance(found, list) else [found])]
    name = ops.overload_name(view.func)
    node = graph.add(name, (base, *args), view.kwargs, types, unsure=view.guarded)
    node.unsure = view.guarded
    return node.outputs[view.index or 0]


def argument(graph: FuncGraph, x: Any) -> Any:
    """An op's argument as it stands in a node: values for tensors and staged numbers."""
    if type(x) in PLAIN:
        return x
    if isinstance(x, torch.Tensor):
        return value_of(x, graph)
    if isinstance(x, shapes.SYMBOLS):
        return x.node.value(graph)
    if isinstance(x, (list, tuple)):
        found = [argument(graph, a) for a in x]
        return tuple(found) if type(x) is tuple else found
    if isinstance(x, torch.Generator):
        return ops.OpaqueObject(x, "generator")
    return x


# Classes of arguments with no tensor in them.
PLAIN = frozenset([int, float, bool, str, torch.dtype, torch.device, type(None)])
