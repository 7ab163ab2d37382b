"""Forms of functions of modules that not every program loads: they are registered when one of these is first called."""

from __future__ import annotations

from ...lazy import lazy_module
from ..registry import LATE

_averages = lazy_module(".averages", __package__)

LATE["statistics"] = lambda: _averages.register()
