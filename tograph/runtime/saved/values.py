"""Python values as JSON and back, for the parts of a saved file that are not tensors or graphs.

None, bools, ints and strings stand for themselves; everything else is a list whose first item is a tag. Reading never
imports a module and never calls code of the file: a class is one of the table below, a class that the running program
has already (a dataclass or namedtuple with the same name and fields), or a stand-in with these fields.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ...errors import CorruptFileError, UnsavableError
from ..control_flow.raising import Rebuild
from ..graph.types import parse_type
from ..symbols.journal import MISSING
from ..values import pytrees
from ..values.records import Columns
from ..values.specs import TensorSpec
from ..values.structure import Again, Choice, Const, Leaf, Spec, Tree
from .classes import class_of, name_of_class
from .tensors import TensorTable

_STREAMS = ("stdout", "stderr")


class Encoder:
    """Values to JSON; ``tensors`` are the tensors of the file."""

    def __init__(self, tensors: TensorTable):
        self.tensors = tensors

    def value(self, x: Any) -> Any:
        """The JSON of a value; UnsavableError when there is none."""
        if x is None or type(x) in (bool, int, str):
            return x
        if isinstance(x, torch.Tensor):
            return ["tensor", self.tensors.add(x)]
        if isinstance(x, type):
            return ["class", name_of_class(x)]
        found = _SIMPLE.get(type(x))
        if found is not None:
            tag, parts = found
            return [tag, *map(self.value, parts(x))]
        return self._other(x)

    def _other(self, x: Any) -> Any:
        if x is MISSING:
            return ["missing"]
        for name in _STREAMS:
            if x is getattr(sys, name) or x is getattr(sys, f"__{name}__"):
                return ["stream", name]
        if isinstance(x, Rebuild):
            return ["rebuild", name_of_class(x.cls), self.value(x.aux)]
        if isinstance(x, BaseException):
            return self._exception(x)
        if isinstance(x, Columns):
            return ["columns", self.spec(x.item)]
        found = pytrees.parts_of(x)
        if found is None:
            raise UnsavableError(f"{_described(x)} cannot be saved")
        aux, parts = found
        return ["object", name_of_class(type(x)), self.value(aux), *map(self.value, parts)]

    def _exception(self, x: BaseException) -> Any:
        cause = None if x.__cause__ is None else self._exception(x.__cause__)
        plain = {k: v for k, v in vars(x).items() if k != "__notes__"}
        args = [a if type(a) in (str, int, float, bool) else str(a) for a in x.args]
        return ["exception", name_of_class(type(x)), self.value(args), self.value(plain), cause, x.__suppress_context__]  # fmt: skip

    def spec(self, spec: Spec) -> Any:
        """The JSON of a spec."""
        if isinstance(spec, Leaf):
            return ["fixed", str(spec.type), self.value(spec.const)] if spec.fixed else ["leaf", str(spec.type)]  # fmt: skip
        if isinstance(spec, Const):
            return ["const", self.value(spec.value)]
        if isinstance(spec, Tree):
            parts = [self.spec(p) for p in spec.parts]
            tree = ["tree", name_of_class(spec.cls), self.value(spec.aux), *parts]
            if spec.number is None:
                return tree
            return ["cyclic" if spec.cyclic else "shared", spec.number, tree]
        if isinstance(spec, Again):
            return ["again", spec.number]
        return ["choice", *map(self.spec, spec.options)]


def _described(x: Any) -> str:
    name = getattr(x, "__qualname__", None)
    return f"the Python object {name or repr(x)} of class {type(x).__name__}"


# class -> (tag, parts) for values that are rebuilt from parts
_SIMPLE: dict[type, tuple[str, Callable[[Any], list]]] = {
    float: ("float", lambda x: [repr(x)]),
    complex: ("complex", lambda x: [x.real, x.imag]),
    bytes: ("bytes", lambda x: [x.hex()]),
    tuple: ("tuple", list),
    list: ("list", list),
    frozenset: ("frozenset", lambda x: sorted(x, key=repr)),
    dict: ("dict", lambda x: [p for item in x.items() for p in item]),
    range: ("range", lambda x: [x.start, x.stop, x.step]),
    slice: ("slice", lambda x: [x.start, x.stop, x.step]),
    type(...): ("ellipsis", lambda x: []),
    torch.dtype: ("torch", lambda x: [str(x)]),
    torch.layout: ("torch", lambda x: [str(x)]),
    torch.memory_format: ("torch", lambda x: [str(x)]),
    torch.device: ("device", lambda x: [str(x)]),
    torch.Size: ("size", list),
    TensorSpec: (
        "spec",
        lambda s: [None if s.shape is None else list(s.shape), s.dtype, s.name, s.device],
    ),
}


class Decoder:
    """JSON to values; the inverse of ``Encoder``."""

    def __init__(self, tensors: list[torch.Tensor]):
        self.tensors = tensors

    def value(self, x: Any) -> Any:
        if not isinstance(x, list):
            return x
        tag, *rest = x
        make = _MAKERS.get(tag)
        if make is not None:
            return make(*map(self.value, rest))
        if tag == "tensor":
            return self.tensors[rest[0]]
        if tag == "class":
            return class_of(rest[0])
        if tag == "rebuild":
            return Rebuild(class_of(rest[0]), self.value(rest[1]))
        if tag == "columns":
            return Columns(self.spec(rest[0]))
        if tag == "object":
            return pytrees.rebuild(
                class_of(rest[0]), self.value(rest[1]), [self.value(p) for p in rest[2:]]
            )
        if tag == "exception":
            return self._exception(*rest)
        raise CorruptFileError(f"an unknown kind of value: {tag!r}")

    def _exception(self, name: Any, args: Any, fields: Any, cause: Any, suppress: bool) -> Any:
        cls = class_of(name)
        if not issubclass(cls, BaseException):
            raise CorruptFileError(f"{cls.__name__} is not an exception")
        made = cls.__new__(cls, *self.value(args))
        made.__dict__.update(self.value(fields))
        made.__cause__ = None if cause is None else self._exception(*cause[1:])
        made.__suppress_context__ = suppress
        return made

    def spec(self, x: Any) -> Spec:
        tag, *rest = x
        if tag == "leaf":
            return Leaf(parse_type(rest[0]))
        if tag == "fixed":
            return Leaf(parse_type(rest[0]), self.value(rest[1]))
        if tag == "const":
            return Const(self.value(rest[0]))
        if tag == "tree":
            return Tree(class_of(rest[0]), self.value(rest[1]), tuple(map(self.spec, rest[2:])))
        if tag in ("shared", "cyclic"):
            return replace(self.spec(rest[1]), number=rest[0], cyclic=tag == "cyclic")
        if tag == "again":
            return Again(rest[0])
        if tag == "choice":
            return Choice(tuple(map(self.spec, rest)))
        raise CorruptFileError(f"an unknown kind of spec: {tag!r}")


def _torch_word(text: str) -> Any:
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise CorruptFileError(f"not a word of torch: {text!r}")
    return found


_MAKERS: dict[str, Callable[..., Any]] = {
    "float": float,
    "complex": complex,
    "bytes": bytes.fromhex,
    "tuple": lambda *parts: parts,
    "list": lambda *parts: list(parts),
    "frozenset": lambda *parts: frozenset(parts),
    "dict": lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "range": range,
    "slice": slice,
    "ellipsis": lambda: ...,
    "missing": lambda: MISSING,
    "torch": _torch_word,
    "device": torch.device,
    "size": lambda *parts: torch.Size(parts),
    "spec": lambda shape, *rest: TensorSpec(shape, *rest),
    "stream": lambda name: {"stdout": sys.stdout, "stderr": sys.stderr}[name],
}
