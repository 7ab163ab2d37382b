"""``sys.exc_info()`` in a handler of an exception that happens when the graph runs; its traceback is None there."""

from __future__ import annotations

import sys
from typing import Any

from ...runtime.control_flow import StagedException
from ..registry import handles
from ..staged_class import StagedClass
from ..try_stmt import caught, is_handling


@handles(sys.exc_info)
def exc_info() -> tuple[Any, Any, Any]:
    """``sys.exc_info()``"""
    active = sys.exc_info()
    error = caught() if active[1] is None and is_handling() else None
    return (StagedClass(error), error, None) if isinstance(error, StagedException) else active
