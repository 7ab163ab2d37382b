"""Modules that load when something of them is used: what a first trace does not need costs `import tograph` nothing.

A lazy import stands at the top of a file, as any other, and counts as an edge between layers:
``onnx = lazy_module(".interchange.onnx", __package__)``.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    """Stands for a module. It keeps nothing: what is patched in the real module is seen, and no two threads race."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def lazy_module(name: str, package: str | None = None) -> Any:
    """A module by its name, as ``importlib.import_module`` takes it. ImportError comes from the first use."""
    return _Lazy(importlib.util.resolve_name(name, package))
