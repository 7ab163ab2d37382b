"""Functions and methods of torch that take or give Python numbers and lists."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ...errors import UnsupportedOpError
from ...runtime import control_flow
from ...runtime.gradients import determinants, grad_fields
from ...runtime.guarding import reads
from ...runtime.library import (
    autograd_functions,
    custom,
    grads,
    hooks,
    leaf_flags,
    unconverted_functions,
)
from ...runtime.symbols import journal, valueless
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.symbols.scalars import to_python
from ...runtime.symbols.symbolic import SymTensor, as_symbolic, scalar_of, switches
from ...runtime.symbols.valueless import no_array, no_elements
from ...runtime.values.growing import StagedList
from ...runtime.values.structure import is_growing, is_union
from .. import union
from ..attribute_writes import setattr_
from ..call_rules import WRAPPERS
from ..calls import call
from ..growing_lists import nested_tensor
from ..joined_lists import JOINS
from ..registry import METHODS, TENSOR_METHODS, handles
from ..resolved import resolved
from ..staged_array import NUMPY, StagedArray
from ..staging import is_staged
from .forms import unless_staged
from .numbers import bool_


def tensor(data, *, dtype=None, device=None, requires_grad=False, **kwargs):
    """``torch.tensor`` of data with staged parts."""
    leaf_flags.need_known(requires_grad)
    data = data.tensor if isinstance(data, StagedArray) else data
    found = _first_union(data)
    if found is not None:
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        return union.distribute(lambda v: tensor(_replaced(data, found, v), **options), found)
    if not _nested_staged(data):
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, **kwargs}
        return leaf_flags.note_made(torch.tensor(data, **options))
    out = data.clone() if isinstance(data, torch.Tensor) else nested_tensor(data, dtype)
    out = out.detach()
    if dtype is not None or device is not None:
        out = out.to(dtype=dtype or out.dtype, device=device)
    return out.requires_grad_() if requires_grad else out


def _first_union(data: Any) -> Any:
    """What a staged condition chose among the parts of nested lists, or all of them; None without one."""
    if is_union(data):
        return data
    parts = data if isinstance(data, (list, tuple)) and not is_growing(data) else ()
    return next((found for p in parts if (found := _first_union(p)) is not None), None)


def _replaced(data: Any, part: Any, by: Any) -> Any:
    if data is part:
        return by
    known = isinstance(data, (list, tuple)) and not is_growing(data)
    return [_replaced(d, part, by) for d in data] if known else data


def _nested_staged(data: Any) -> bool:
    if is_growing(data):
        return True
    if isinstance(data, (list, tuple)):
        return any(map(_nested_staged, data))
    return is_staged(data)


handles(torch.tensor)(tensor)


def _of_type(function: Any, dtype: torch.dtype | None) -> None:
    @handles(function)
    def run(*args, **kwargs):
        data = args[0] if len(args) == 1 and not kwargs else None
        if isinstance(data, (list, tuple)) and _nested_staged(data):
            return tensor(data, dtype=dtype or torch.get_default_dtype())
        return function(*args, **kwargs)


for _function, _dtype in {
    torch.FloatTensor: torch.float32, torch.DoubleTensor: torch.float64, torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16, torch.LongTensor: torch.int64, torch.IntTensor: torch.int32,
    torch.ShortTensor: torch.int16, torch.CharTensor: torch.int8, torch.ByteTensor: torch.uint8, torch.BoolTensor: torch.bool,
    torch.Tensor: None,
}.items():  # fmt: skip
    _of_type(_function, _dtype)


@handles(torch.det, torch.linalg.det)
def det(*args, **kwargs):
    x = args[0] if args else kwargs.get("A", kwargs.get("input"))
    staged = isinstance(x, torch.Tensor) and is_tracing() and len(args) + len(kwargs) == 1
    return determinants.det(x) if staged else torch.linalg.det(*args, **kwargs)


TENSOR_METHODS["det"] = det


@handles(torch.as_tensor)
def as_tensor(data, dtype=None, device=None):
    data = data.tensor if isinstance(data, StagedArray) else data
    if isinstance(data, torch.Tensor):
        return (
            data
            if dtype is None and device is None
            else data.to(dtype=dtype or data.dtype, device=device)
        )
    return tensor(data, dtype=dtype, device=device)


@handles(torch.asarray)
def asarray(obj, **kwargs):
    if isinstance(obj, torch.Tensor) or not _nested_staged(obj):
        return torch.asarray(obj, **kwargs)
    kwargs.pop("copy", None)  # data of Python numbers is always copied
    return tensor(obj, **kwargs)


@union.each
def _new_tensor(x, data, *, dtype=None, device=None, requires_grad=False, **kwargs):
    if not _nested_staged(data):
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, **kwargs}
        return leaf_flags.note_made(x.new_tensor(data, **options))
    dtype, device = dtype or x.dtype, device or x.device
    return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


TENSOR_METHODS["new_tensor"] = _new_tensor


@handles(torch.from_numpy)
def from_numpy(array):
    """An array that is an argument is a tensor of its memory already."""
    if isinstance(array, StagedArray):
        return array.tensor.clone()
    return (
        array if isinstance(array, torch.Tensor) and is_staged(array) else torch.from_numpy(array)
    )


@union.each
def _numpy(x, *, force=False):
    return array_of(x.detach() if force else x) if is_tracing() else x.numpy(force=force)


def array_of(x, shares=True):
    """The array of a tensor: of one from outside where what that holds is known (``contents``), else one of the run.

    Where it ``shares`` the memory of the tensor, that is not written after it.
    """
    x = as_symbolic(x)
    known = None if x.requires_grad else valueless.ARRAY(x, shares)
    if known is not None or x.requires_grad or x.dtype not in NUMPY:
        return x.numpy() if known is None else known
    made = x.detach().clone()
    if shares:
        control_flow.lose(made, [x.storage_], "the array of a tensor")
    return StagedArray(made)


TENSOR_METHODS["numpy"] = _numpy
handles(SymTensor.numpy)(_numpy)


def _of_memory(function, name):
    @handles(function)
    def handler(x, *args, **options):
        if is_tracing() and isinstance(x, torch.Tensor):
            raise no_array(name)
        return function(x, *args, **options)


_of_memory(np.from_dlpack, "from_dlpack")
_of_memory(torch.from_dlpack, "from_dlpack")
_of_memory(torch.utils.dlpack.to_dlpack, "to_dlpack")


def _lists_of_tensors(function):
    def joined(tensors, *args, **kwargs):
        if not (args or kwargs):
            return function(tensors)
        return resolved(lambda a, k: function(*a, **k), function, (tensors, *args), kwargs)

    @handles(function)
    def run(tensors, *args, **kwargs):
        if is_union(tensors):
            return union.apply(run, tensors, *args, **kwargs)
        if isinstance(tensors, StagedList):
            if tensors.handle is None:
                return joined(list(tensors), *args, **kwargs)
            return JOINS[function](tensors, *args, **kwargs)
        if isinstance(tensors, (list, tuple)) and union.holds_union(tensors, {}):
            return union.apply(lambda *t: joined(list(t), *args, **kwargs), *tensors)
        return joined(tensors, *args, **kwargs)

    return run


for _function in JOINS:
    _lists_of_tensors(_function)


def _as_plain_number(name: str):
    kind = {
        "item": None,
        "__bool__": "bool",
        "__int__": "int",
        "__float__": "float",
        "__index__": "int",
    }[name]

    def form(x):
        if not is_staged(x):
            return getattr(x, name)()
        return scalar_of(x) if kind is None else to_python(scalar_of(x), kind)

    return form


for _name in ("item", "__bool__", "__int__", "__float__", "__index__"):
    TENSOR_METHODS[_name] = _as_plain_number(_name)


@unless_staged(torch.is_nonzero)
def is_nonzero(x):
    return bool_(x)


def _requires_grad_(x, requires_grad=True):
    leaf_flags.need_known(requires_grad)
    if isinstance(x, SymTensor) and isinstance(requires_grad, bool):
        leaf_flags.set_flag(x, requires_grad, assigned=False)
        return x
    if journal.active():
        reads.leaf(x)
        if x.requires_grad is not requires_grad:
            if not isinstance(x, SymTensor):
                switches(x, requires_grad)
            journal.record(leaf_flags.Place(x))
    return x.requires_grad_(requires_grad)


handles(SymTensor.requires_grad_)(_requires_grad_)
TENSOR_METHODS["requires_grad_"] = _requires_grad_


def _as_subclass(x, cls):
    if is_staged(x) and cls is not torch.Tensor:
        raise UnsupportedOpError(
            f"as_subclass makes a {cls.__name__} of a tensor that is known only when the graph runs: tensors of a class of their own are not made in "
            "a function. Make it outside, or work on the plain tensor",
            user_location(),
        )
    return x.as_subclass(cls)


TENSOR_METHODS["as_subclass"] = _as_subclass
handles(torch.Tensor.as_subclass)(_as_subclass)


def _of_each_element(name):
    """Of a tensor from outside it would act once, while tracing."""

    def form(x, *given):
        if is_tracing():
            raise no_elements(name)
        return getattr(x, name)(*given)

    return form


for _name in ("apply_", "map_", "map2_"):
    TENSOR_METHODS[_name] = _of_each_element(_name)


def _while_tracing(function, form):
    """``form`` in a trace, option by option of unions among the arguments and of the items of lists."""

    @union.each
    def each(*args, **kwargs):
        return union.apply_to_items(form, *args, **kwargs)

    @handles(function)
    def run(*args, **kwargs):
        return (each if is_tracing() else function)(*args, **kwargs)


_while_tracing(torch.autograd.grad, grads.grad)
_while_tracing(torch.autograd.backward, grads.backward)


for _detach in (torch.detach_, torch.Tensor.detach_):
    _while_tracing(_detach, lambda x: x.detach_())


def register_hook(x, hook):
    return hooks.register(x, lambda g: call(hook, g))


_while_tracing(torch.Tensor.register_hook, register_hook)
_while_tracing(hooks.register, register_hook)


@handles(torch.optim.Optimizer.zero_grad)
def zero_grad(optimizer, set_to_none=True):
    """Fields that are set to None need not be read."""
    if not (is_tracing() and set_to_none):
        call(_ZERO_GRAD, optimizer, set_to_none)
        return
    for group in optimizer.param_groups:
        for p in group["params"]:
            grad_fields.write(p, None)


_zero_grad: Any = torch.optim.Optimizer.zero_grad
_apply: Any = torch.autograd.Function.apply
_ZERO_GRAD = _zero_grad.__wrapped__


def apply_function(cls, *args):
    """``F.apply(...)``: the gradient that the class says becomes a region of the graph."""
    if not is_tracing():
        return cls.apply(*args)
    return union.apply(
        lambda *given: autograd_functions.apply_function(cls, given, call, union.apply), *args
    )


unconverted_functions.APPLY = apply_function
if hasattr(_apply, "__func__"):
    handles(_apply.__func__, unconverted_functions.apply)(apply_function)
else:  # torch 2.14 has it in C
    METHODS[type(torch.autograd.Function), "apply"] = apply_function


def _kept_in(name):
    """A method of ``ctx`` that keeps tensors, which may do so in a staged branch, and keep what is one of several values."""

    @handles(getattr(autograd_functions.Context, name))
    def keep(ctx, *tensors):
        setattr_(ctx, autograd_functions.KEEPS[name], tensors)


for _name in autograd_functions.KEEPS:
    _kept_in(_name)


def as_called(f):
    """A callable that calls ``f`` as converted code does."""
    return functools.partial(call, f)


custom.CONVERT, custom.RESOLVED = as_called, union.apply
WRAPPERS.add(custom.custom_gradient(as_called).__code__)
