"""Modules of a saved file: their functions, parameters, buffers and submodules, under the names they had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...errors import UnsavableError
from ..functions.function import Function
from ..functions.methods import BoundFunction
from ..recording.variables import Variable


class LoadedModule(torch.nn.Module):
    """A module that ``tg.load`` gave: parameters, buffers, submodules, and the functions that were saved with it.

    It trains and moves like any module; its ``tg.function`` methods run their saved traces.
    """

    def __init__(self, name: str):
        super().__init__()
        self.saved_class = name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"this {self.saved_class} was saved without a `forward` that is a tg.function; call one of: "
            + (", ".join(sorted(k for k, v in vars(self).items() if isinstance(v, Function))) or "none")
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"saved {self.saved_class}"

    def __getitem__(self, key: Any) -> torch.nn.Module:
        if isinstance(key, int):
            return list(self._modules.values())[key]
        return self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    __bool__ = lambda self: True  # noqa: E731  a module without submodules is not false


def functions_of(module: torch.nn.Module) -> dict[str, Function]:
    """The ``tg.function`` methods and attributes of a module, by name."""
    found: dict[str, Function] = {}
    for cls in reversed(type(module).__mro__):
        for name, x in vars(cls).items():
            if isinstance(x, Function):
                found[name] = getattr(module, name)._function
            else:
                found.pop(name, None)
    for name, x in vars(module).items():
        if isinstance(x, BoundFunction):
            found[name] = x._function
        elif isinstance(x, Function):
            found[name] = x
    return found


def variables_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors that are plain attributes of a module, such as ``tg.Variable``s."""
    return {n: x for n, x in vars(module).items() if isinstance(x, (torch.Tensor, Variable))}


def names_in(module: torch.nn.Module) -> dict[int, str]:
    """A name for every tensor of a module, by id."""
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]  # fmt: skip
    for prefix, inner in module.named_modules():
        dot = prefix + "." if prefix else ""
        named += [(dot + n, x) for n, x in variables_of(inner).items()]
    names: dict[int, str] = {}
    for name, x in named:
        names.setdefault(id(x), name)
    return names


class ModuleTable:
    """The modules to save; one that is reached twice is kept once. ``function`` and ``tensor`` give positions."""

    def __init__(self, function: Any, tensor: Any):
        self.function, self.tensor = function, tensor
        self.places: dict[int, int] = {}
        self.rows: list[Any] = []

    def add(self, module: torch.nn.Module) -> int:
        """The position of a module."""
        if id(module) in self.places:
            return self.places[id(module)]
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsavableError("tg.save: a torch.jit.ScriptModule has its own format: use torch.jit.save")  # fmt: skip
        place = self.places[id(module)] = len(self.rows)
        self.rows.append(None)
        maybe = lambda x: None if x is None else self.tensor(x)  # noqa: E731
        name = module.saved_class if isinstance(module, LoadedModule) else type(module).__name__
        self.rows[place] = {
            "class": name,
            "training": module.training,
            "parameters": {n: maybe(x) for n, x in module._parameters.items()},
            "buffers": {
                n: [maybe(x), n not in module._non_persistent_buffers_set]
                for n, x in module._buffers.items()
            },
            "variables": {n: self.tensor(x) for n, x in variables_of(module).items()},
            "functions": {n: self.function(f) for n, f in functions_of(module).items()},
            "modules": {n: None if m is None else self.add(m) for n, m in module._modules.items()},
        }
        return place


def restore(rows: list[dict], functions: list[Any], tensors: list[torch.Tensor]) -> list[Any]:
    """The modules of a file."""
    modules = [LoadedModule(row["class"]) for row in rows]
    for module, row in zip(modules, rows):
        for name, i in row["parameters"].items():
            module.register_parameter(name, None if i is None else tensors[i])
        for name, (i, persistent) in row["buffers"].items():
            module.register_buffer(name, None if i is None else tensors[i], persistent=persistent)
        for name, i in row["variables"].items():
            object.__setattr__(module, name, tensors[i])
        for name, i in row["functions"].items():
            object.__setattr__(module, name, functions[i])
        for name, i in row["modules"].items():
            module.add_module(name, None if i is None else modules[i])
        module.training = row["training"]
    return modules
