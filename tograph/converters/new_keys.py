"""New keys of dicts and sets that are known only when the graph runs.

The dict or set has to be a table of the graph (``runtime.values.tables``) where it was made, or where it was found: tracing begins again. Where a loop
can be unrolled, and its keys are known then, that comes first.
"""

from __future__ import annotations

from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import outer_tables, reads
from ..runtime.symbols.funcgraph import user_location
from ..runtime.symbols.retrace import Retrace
from ..runtime.values.tables import site_of

NEW_KEY = "a dict was given a new key that is known only when the graph runs: set every key before"


def need_table(x: Any) -> None:
    """A key that only the run knows is about to be put into a dict or set."""
    site = site_of(x)
    stood = None if site is not None else outer_tables.place_of(x, reads.current())
    if site is None and stood is None:
        return
    if not control_flow.has_alternative():
        raise (
            Retrace(tabled=frozenset([site]))
            if stood is None
            else Retrace(stood=frozenset([stood]))
        )
    error = StagingError(NEW_KEY, user_location())
    error.table, error.stood = site, stood
    raise error
