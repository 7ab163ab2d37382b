"""The form of a plan that is captured: with fewer copies, without what every call would do again, its smallest kernels together."""

from __future__ import annotations

from .coalescing import coalesced
from .joining import joined
from .once import hoisted
from .plan import Plan


def compact(plan: Plan) -> Plan:
    """The same plan with fewer nodes. The given one stays as it is."""
    return joined(hoisted(coalesced(plan)))
