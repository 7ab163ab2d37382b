"""Empty containers that dicts get under new keys by a staged condition: one for each dict and key, as if it had been there before.

``groups[k].append(v)`` of a ``defaultdict(list)``, ``d.setdefault(k, []).append(v)`` and ``if k not in d: d[k] = []`` make a container on the
paths where the key is missing. Made anew by each branch and iteration, it would be several objects, and which one a key holds known
only when the graph runs. Nothing tells one empty container that nothing else holds from another: so each such path takes the
same one, which counts as reachable from its dict, and what depends on the condition is whether the key is there.

A key that is taken out again may leave its container to another holder, so a trace that does that begins again without
(``Root.unreserved``).
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict
from typing import Any

from ..symbols.funcgraph import current_graph, stack
from ..symbols.retrace import Retrace
from .growing import StagedList
from .reach import RESERVED, reachable, user_variables


def reserve(x: dict, key: Any, made: Any) -> Any:
    """The container that ``x`` gets under a key that is missing, where ``made`` is an empty one that nothing else holds; else ``made``."""
    graph = current_graph() if stack.graphs else None
    if graph is None or graph.outer is None or not _is_empty(made):
        return made
    root = graph.root
    if root.unreserved or id(made) in reachable(user_variables(), [made]):
        return made
    if id(x) in root.shrunk:
        raise Retrace(unreserved=True)
    held = root.reserved.setdefault(id(x), (x, {}))[1]
    name = type(made), getattr(made, "default_factory", None), key
    if name not in held:  # one of its own: ``made`` may go under one of several keys
        held[name] = StagedList() if isinstance(made, StagedList) else copy.copy(made)
    return held[name]


def _is_empty(x: Any) -> bool:
    if isinstance(x, StagedList):
        return x.handle is None and not x.frozen and list.__len__(x) == 0
    return type(x) in _KINDS and not x


_KINDS = (list, dict, set, defaultdict, Counter, OrderedDict)


def shrinks(x: Any) -> None:
    """A key is about to be taken out of a dict."""
    graph = current_graph() if stack.graphs else None
    if graph is None or not issubclass(type(x), dict):
        return
    graph.root.shrunk[id(x)] = x
    for found in [k for k in graph.root.looked_up if k[0] == id(x)]:
        del graph.root.looked_up[found]  # what was read before need not be there any more
    if id(x) in graph.root.reserved:
        raise Retrace(unreserved=True)


def _of(x: dict) -> list[Any]:
    """The containers that are kept for a dict."""
    found = stack.graphs[-1].root.reserved.get(id(x)) if stack.graphs else None
    return [] if found is None else list(found[1].values())


RESERVED.append(_of)
