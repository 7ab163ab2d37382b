"""``tg.save`` and ``tg.load``: functions, modules and variables in a file that needs neither pickle nor the user's code.

A file is a zip archive (``archive``): ``tograph.json`` says what there is, ``graphs/*.txt`` are the graphs as text,
``tensors.safetensors`` are the captured tensors, parameters and buffers. Functions of one file share their tensors, as they
did when they were saved.

The format has a version. A reader takes its own version and older ones; a field that it does not know is a newer version.
Modules, lowest first: ``archive``, ``tensors``, ``classes``, ``values``, ``inline``, ``traces``, ``functions``, ``modules``.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch

from ...errors import CorruptFileError, NewerFileError, SavedFileError, UnsavableError
from ..functions.function import Function
from ..functions.methods import BoundFunction
from . import archive, functions, modules, tensors
from .functions import LoadedFunction
from .modules import LoadedModule
from .values import Decoder, Encoder

FORMAT = 1
_TENSORS = "tensors.safetensors"

__all__ = ["FORMAT", "LoadedFunction", "LoadedModule", "load", "save"]


def save(x: Any, path: str | os.PathLike) -> None:
    """Write a function, a module, a tensor, or a list, tuple or dict of these to a file.

    A function is saved with all its traces: call it first, or use ``get_concrete_function``, for each signature that the
    loaded one shall have. A module is saved with its ``tg.function`` methods, parameters, buffers and submodules.
    Raises UnsavableError, at the user's line, for what a file cannot hold: ``tg.py_function``, exceptions of the user's
    own classes, writes to Python variables outside of the function.

    Example::

        tg.save(model, "model.tograph")
        model = tg.load("model.tograph")
    """
    archive.write(path, _Writer(x).parts())


def load(path: str | os.PathLike) -> Any:
    """What ``tg.save`` wrote: a ``LoadedFunction``, a ``LoadedModule``, a tensor, or a container of these.

    No code of the file runs, and no module is imported. Raises ForeignFileError, CorruptFileError or NewerFileError,
    all SavedFileError; OSError as ``open`` does.

    Example: ``f = tg.load("f.tograph"); f(torch.ones(3))``
    """
    name = os.fspath(path)
    parts = archive.read(path)
    try:
        return _read(parts, name)
    except SavedFileError:
        raise
    except RecursionError:
        raise CorruptFileError(f"{name}: it is nested too deeply") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, RuntimeError) as error:  # fmt: skip
        raise CorruptFileError(
            f"{name}: its parts do not fit together: {type(error).__name__}: {error}"
        ) from error


class _Writer:
    """Everything reachable from one object, by position."""

    def __init__(self, root: Any):
        self.graphs: dict[str, bytes] = {}
        self.tensors = tensors.TensorTable(_names(root))
        self.encoder = Encoder(self.tensors)
        self.functions: list[Any] = []
        self.places: dict[int, int] = {}
        self.modules = modules.ModuleTable(self.function, self.tensors.add)
        self.root = self.item(root)
        if not self.functions:
            raise UnsavableError(
                "tg.save: there is no tg.function in it; decorate a method, or use torch.save for tensors alone"
            )

    def item(self, x: Any) -> list:
        if isinstance(x, (Function, BoundFunction)):
            found = self.function(x._function if isinstance(x, BoundFunction) else x)
            if not self.functions[found]["traces"]:
                raise UnsavableError(
                    f"tg.save: {self.functions[found]['name']!r} has no trace that holds now: call it, or its "
                    "get_concrete_function, for each signature to save"
                )
            return ["function", found]
        if isinstance(x, torch.nn.Module):
            return ["module", self.modules.add(x)]
        if isinstance(x, torch.Tensor):
            return ["tensor", self.tensors.add(x)]
        if type(x) in (list, tuple):
            return [type(x).__name__, *map(self.item, x)]
        if type(x) is dict and all(type(k) is str for k in x):
            return ["dict", {k: self.item(v) for k, v in x.items()}]
        raise UnsavableError(
            f"tg.save takes a tg.function, a torch.nn.Module, or a list, tuple or dict of these, not {x!r}"
        )

    def function(self, f: Function) -> int:
        """The position of a function."""
        if id(f) not in self.places:
            self.places[id(f)] = len(self.functions)
            self.functions.append(functions.encode(f, self.encoder, self._text))
        return self.places[id(f)]

    def _text(self, shown: str) -> str:
        name = f"graphs/{len(self.graphs)}.txt"
        self.graphs[name] = (shown + "\n").encode()
        return name

    def parts(self) -> dict[str, bytes]:
        manifest = {
            "format": FORMAT, "torch": torch.__version__, "root": self.root, "functions": self.functions,
            "modules": self.modules.rows, "tensors": self.tensors.rows(),
        }  # fmt: skip
        text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
        return {archive.MANIFEST: text.encode(), _TENSORS: self.tensors.part(), **self.graphs}


def _names(root: Any) -> dict[int, str]:
    """Names for the tensors of all modules that are reached, by id."""
    if isinstance(root, (list, tuple, dict)):
        items = root.values() if isinstance(root, dict) else root
        return {i: n for x in items for i, n in _names(x).items()}
    owner = root.__self__ if isinstance(root, BoundFunction) else root
    if isinstance(owner, Function):
        owner = getattr(owner.python_function, "__self__", owner.python_function)
    return modules.names_in(owner) if isinstance(owner, torch.nn.Module) else {}


def _read(parts: dict[str, bytes], name: str) -> Any:
    manifest = json.loads(parts[archive.MANIFEST])
    version = manifest["format"]
    if version > FORMAT:
        raise NewerFileError(
            f"{name} has format {version}; this version of tograph reads formats up to {FORMAT}: update tograph"
        )
    found = tensors.restore(manifest["tensors"], parts[_TENSORS], name)
    decoder = Decoder(found)
    made = [
        functions.decode(row, decoder, lambda part: parts[part].decode())
        for row in manifest["functions"]
    ]
    tree = modules.restore(manifest["modules"], made, found)

    def item(x: list) -> Any:
        kind, *rest = x
        if kind in ("list", "tuple"):
            return {"list": list, "tuple": tuple}[kind](map(item, rest))
        if kind == "dict":
            return {k: item(v) for k, v in rest[0].items()}
        return {"function": made, "module": tree, "tensor": found}[kind][rest[0]]

    return item(manifest["root"])
