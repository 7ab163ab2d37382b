"""Which callables are converted when called, and which are left alone.

Left alone: C functions; everything in ``LEFT_ALONE`` (torch's op-level modules, numpy, the standard library, tograph
itself); functions marked by ``tg.do_not_convert``; code that is converted already. Everything else is converted,
third-party packages and torch's own Python that decides on data included. A Python function without source
is an error that names it, unless its code holds no branch and no loop.
"""

from __future__ import annotations

import collections
import dis
import functools
import sys
import types
from typing import Any

import torch

from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.code_lines import CodeSet
from ..runtime.symbols.misuse import check_callable
from ..runtime.values.structure import is_union
from .registry import SPECIAL_METHODS
from .staging import is_staged

# Packages and modules whose functions run as they are. A longer name wins over a shorter one.
LEFT_ALONE = frozenset((
    "torch", "numpy", "tograph", "builtins", "gast", "astunparse", "six", "scipy", "matplotlib", "pandas", "PIL", "tqdm",
    "triton", "llvmlite", "numba", "sympy", "jax", "tensorflow", "pytest", "_pytest", "hypothesis", "IPython", "ipykernel",
    "yaml", "attr", "attrs", "typing_extensions", "packaging", "filelock", "fsspec", "jinja2", "networkx", "mpmath",
))  # fmt: skip
CONVERTED = frozenset((
    "torch.optim", "torch.distributions", "torch.nn.modules", "torch._lobpcg", "torch.nn.utils", "torch.utils.checkpoint",
    "torch.nn.parallel", "torch.distributed.nn", "torch.nn.init", "torch.random", "torch.ao", "torch.amp.grad_scaler", "tograph.bench", "collections.abc",
))  # fmt: skip
STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}
MARK = "__tograph_do_not_convert__"

# Modules of torch.nn that are one op each: nothing in them decides on data.
LEAF_MODULES = frozenset(
    getattr(torch.nn, n)
    for n in [
        "Linear",
        "Bilinear",
        "Identity",
        "Embedding",
        "LayerNorm",
        "RMSNorm",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ReLU",
        "ReLU6",
        "LeakyReLU",
        "ELU",
        "SELU",
        "GELU",
        "SiLU",
        "Mish",
        "Tanh",
        "Sigmoid",
        "Softplus",
        "Softmax",
        "LogSoftmax",
        "Hardtanh",
        "Hardswish",
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Flatten",
        "Unflatten",
        "MaxPool1d",
        "MaxPool2d",
        "AvgPool1d",
        "AvgPool2d",
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "MSELoss",
        "L1Loss",
        "CrossEntropyLoss",
        "NLLLoss",
        "BCELoss",
        "BCEWithLogitsLoss",
        "SmoothL1Loss",
        "HuberLoss",
        "ZeroPad2d",
        "PReLU",
        "GLU",
        "Softsign",
        "Tanhshrink",
    ]
)


@functools.total_ordering
class _Ordered:
    def __lt__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


# Functions of modules that are left alone which decide on data: the comparisons of ``functools.total_ordering`` among them.
DECIDING = {
    torch.nn.functional.gaussian_nll_loss, torch.func.functional_call, _Ordered.__gt__, _Ordered.__le__, _Ordered.__ge__,
}  # fmt: skip
# Containers that the standard library writes in Python: what they do with the dicts and lists in them is converted.
for _class in (collections.ChainMap, collections.UserDict, collections.UserList):
    DECIDING.update(f for f in vars(_class).values() if isinstance(f, types.FunctionType))
DECIDING.add(collections.Counter.__delitem__)

# Code that decorators of libraries make, which has a rule of its own.
WRAPPERS: set[types.CodeType] = set()

CONVERTED_CODE = CodeSet()
_BRANCHES = frozenset(
    op for op in dis.opmap.values() if "JUMP" in dis.opname[op] or dis.opname[op] == "FOR_ITER"
)


@functools.cache
def module_rule(name: str) -> bool:
    """Whether functions of a module are converted."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        prefix = ".".join(parts[:i])
        if prefix in CONVERTED:
            return True
        if prefix in LEFT_ALONE:
            return False
    return parts[0] not in STANDARD


def is_user_function(f: Any) -> bool:
    """Whether ``f`` is a Python function that runs converted in a trace: one to convert, or defined by converted code."""
    if type(f) is not types.FunctionType or getattr(f, MARK, False):
        return False
    if f.__code__ in CONVERTED_CODE or f in DECIDING:
        return True
    if not module_rule(f.__module__ or ""):
        return False
    if module_rule(f.__globals__.get("__name__") or ""):
        return True
    # What a library's decorator made of a user's function calls it: ``torch.no_grad()``, a ``ContextDecorator``.
    return is_user_function(getattr(f, "__wrapped__", None)) and f.__code__ not in WRAPPERS


def missing_method(x: Any, key: Any) -> Any:
    """The ``__missing__`` of a user's class that C would call for ``x[key]`` of a dict; None where the dict has the key, or its class no such method."""
    if not isinstance(x, dict):
        return None
    method = getattr(type(x), "__missing__", None)
    return method if is_user_function(method) and not dict.__contains__(x, key) else None


def is_unconverted(f: Any) -> bool:
    """Whether ``f`` is a user's function as it was written, not one that converted code defined."""
    return is_user_function(f) and f.__code__ not in CONVERTED_CODE


def is_straight(code: types.CodeType) -> bool:
    """Whether code holds no branch and no loop, so that there is nothing to convert in it."""
    return not any(i.opcode in _BRANCHES for i in dis.get_instructions(code))


def do_not_convert(function: Any = None) -> Any:
    """Leave a function alone: it runs as plain Python while tracing, on symbolic tensors.

    Works with and without parentheses. Example: ``@tg.do_not_convert``.
    """
    if function is None:
        return do_not_convert
    check_callable(function, "do_not_convert", "function")
    target = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(target, types.FunctionType):

        @functools.wraps(target)
        def left_alone(*args, **kwargs):
            return target(*args, **kwargs)

        setattr(left_alone, MARK, True)
        if isinstance(function, types.MethodType):
            return types.MethodType(left_alone, function.__self__)
        return left_alone

    def left_alone_object(*args, **kwargs):
        return function(*args, **kwargs)

    setattr(left_alone_object, MARK, True)
    return left_alone_object


def is_special(f: Any, args: tuple) -> bool:
    """Whether a method is what an operator does with the first of ``args``, and one of these is staged. A class written in Python has its own."""
    if f.__name__ not in SPECIAL_METHODS or not any(map(_decides, args)):
        return False
    own = getattr(type(args[0]), f.__name__, None)
    return isinstance(args[0], SYMBOLS) or type(own) is not types.FunctionType


def _decides(x: Any) -> bool:
    """Whether what a special method does with ``x`` may have to wait for the graph."""
    if type(x) is slice:
        return any(map(_decides, (x.start, x.stop, x.step)))
    return is_staged(x) or is_union(x)


def is_step(function: Any) -> bool:
    """Whether a method is the step of an optimiser's class; ``hooked`` is only the one of a class with an object, not that of a base class."""
    own = getattr(function, "__name__", "") == "step" and is_optimizers(function)
    return own or hasattr(function, "hooked")


def is_optimizers(function: Any) -> bool:
    """Whether it is of torch's own optimisers."""
    return function.__module__.startswith("torch.optim.")
