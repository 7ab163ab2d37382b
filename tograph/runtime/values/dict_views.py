"""What ``keys()``, ``values()`` and ``items()`` of Python's dicts give: of which dict they are, and as what."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

KINDS = ("keys", "values", "items")
_ORDERED = {type(getattr(OrderedDict(), kind)()): kind for kind in KINDS}
VIEWS = {type(getattr({}, kind)()): kind for kind in KINDS}
SET_VIEWS = tuple(view for view, kind in VIEWS.items() if kind != "values")  # they compare as sets


def of_view(x: Any) -> tuple[dict, str] | None:
    """A dict of what the view ``x`` shows, and its kind; None for what is no such view."""
    if (kind := VIEWS.get(type(x))) is not None:
        return dict(x.mapping), kind
    if (kind := _ORDERED.get(type(x))) is not None:
        return OrderedDict(x.mapping), kind
    return None
