"""Native code that earlier processes made, by the graph as it was traced: a process that finds it runs no pass and lowers nothing.

What is kept is the ``Form`` of the code and what lowering gave, as text; the machine code is a file of its own (``kernels.jit``).
The name of a file is a digest of the text of the traced graph and of all that passes and lowering depend on besides it: the sources
of this library, the CPU, the versions of Python, torch and LLVM. A graph with Python objects in it (a file to print to, a generator)
has no name, since its text does not tell one object from another, and code that prints or makes text holds objects: neither is kept.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import sys
from dataclasses import replace

from ... import disk, settings
from .. import passes
from ..graph import types
from ..graph.ir import Graph
from ..graph.text import python_objects, show
from ..kernels import jit
from .callees import Call
from .form import Form
from .leaving import Leaving
from .program import Lowered


def name_of(graph: Graph, leaving: Leaving) -> str | None:
    """The name of the file for a traced graph; None where nothing is kept."""
    if settings.VERIFY or jit.host() is None or _version() is None:
        return None
    if next(python_objects(graph), None) is not None:
        return None
    parts = (show(graph), str(leaving), str(_version()), *jit.target(), sys.version)
    return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.plan"


@functools.cache
def _version() -> str | None:
    """Which version of the library this is."""
    return disk.version_of(types.__file__, passes.__file__, jit.__file__, __file__)


def load(name: str | None) -> tuple[Form, Lowered] | None:
    """What was stored under a name."""
    content = disk.load(name) if name is not None else None
    return None if content is None else pickle.loads(content)


def store(name: str | None, form: Form, low: Lowered) -> None:
    """Keep code for later processes."""
    if name is None or any(type(call) is not Call for call in low.asked):
        return
    # The nests are what people read; whoever asks for them lowers the graph again.
    disk.store(name, pickle.dumps((form, replace(low, kernels=None, _address=0))))
