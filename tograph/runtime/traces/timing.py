"""Times of a run of a trace, node by node, for its report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...lazy import lazy_module
from ..execution import probes

if TYPE_CHECKING:
    from .concrete import ConcreteFunction

pages = lazy_module("..report", __package__)


def timed(cf: ConcreteFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
    """See ``ConcreteFunction.timed``."""
    history = cf.retraces() if cf.retraces is not None else None
    extras = pages.Extras(retraces=history() if history is not None else "")
    if not (args or kwargs):
        return extras
    tensors, _ = cf._bind(cf, args, kwargs) if cf._bind else (list(args), ())
    cf.run([t.detach().clone() for t in tensors])
    tensors = [t.detach().clone() for t in tensors]
    clock = probes.Probed(cf.optimized_graph, probes.Clock)
    start = time.perf_counter()
    clock.run(*cf._with_late(tensors))
    extras.total = time.perf_counter() - start
    probe = clock.probe
    extras.times = {n: (s, r) for n, s, r in zip(probe.nodes, probe.seconds, probe.runs) if r}
    return extras
