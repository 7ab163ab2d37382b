"""Every analysis of a function, once, each graph built a single time and shared.

The facts describe the tree as it is now. A converter that changes the tree reads the facts of the
original, which ``copy.deepcopy`` and ``copy_facts`` keep; after a change call ``analyze_all``
again, which replaces every fact it had recorded.
"""

from . import cfg, liveness, reaching, scope
from .syntax import gast

__all__ = ["analyze_all"]


def analyze_all(fn: gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda) -> scope.FunctionScope:
    """Record every Fact in a function and in the functions nested in it; returns its scope."""
    names = scope.analyze(fn)
    graphs = cfg.build_all(fn)
    liveness.annotate(fn, graphs)
    reaching.annotate(fn, graphs)
    for graph in graphs:
        graph.release()
    return names
