"""tograph: AutoGraph for PyTorch. A plain Python function becomes one graph, and runs.

>>> import torch, tograph as tg
>>> @tg.function
... def root(x):
...     y = x
...     while (y * y - x).abs() > 1e-6:
...         y = (y + x / y) / 2
...     return y
>>> root(torch.tensor(2.0))
tensor(1.4142)
"""

from typing import TYPE_CHECKING

from .collector import seldom as _seldom
from .collector import settle as _settle
from .lazy import lazy_module as _lazy_module
from .runtime.kernels.read_ahead import read_ahead as _read_ahead

_read_ahead()
with _seldom():
    from . import errors
    from .converters.api import convert, function, to_code, to_graph
    from .converters.call_rules import do_not_convert
    from .converters.directives import set_loop_options
    from .converters.staged_range import range_ as range
    from .runtime.containers import Optional, TensorArray, TensorList
    from .runtime.functions.function import run_functions_eagerly
    from .runtime.functions.row_loops import foldl, foldr, map_fn, scan
    from .runtime.graph.text import parse_graph
    from .runtime.library import debug
    from .runtime.library.custom import custom_gradient
    from .runtime.library.effects import init_scope, py_function, stop_gradient
    from .runtime.library.effects import print_ as print
    from .runtime.library.higher_order import cond, switch_case, while_loop
    from .runtime.recording.variables import Variable
    from .runtime.values.specs import TensorSpec
    from .settings import set_verbosity
_settle()

if TYPE_CHECKING:
    from .runtime.saved import load, save
else:
    _saved = _lazy_module(".runtime.saved", __name__)

    def __getattr__(name):
        """``save`` and ``load``, at their first use."""
        if name in ("load", "save"):
            return getattr(_saved, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"
__all__ = [
    "Optional", "TensorArray", "TensorList", "TensorSpec", "Variable", "cond", "convert", "custom_gradient", "debug", "do_not_convert", "errors",
    "foldl", "foldr", "function", "init_scope", "load", "map_fn", "parse_graph", "print", "py_function", "range", "run_functions_eagerly",
    "save", "scan", "set_loop_options", "set_verbosity", "stop_gradient", "switch_case", "to_code", "to_graph", "while_loop",
]  # fmt: skip
