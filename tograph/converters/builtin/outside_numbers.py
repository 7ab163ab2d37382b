"""Numbers that are others at every call: what Python's random generators draw and clocks show, when the graph runs and in order.

A generator that the traced code makes itself (``random.Random(0)``) draws while tracing: its numbers are the same at every call.
"""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable
from typing import Any

from ...runtime.control_flow import outside_value
from ...runtime.graph.ops import OpaqueObject
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ...runtime.symbols.scalars import new_scalar
from .. import subscripts
from ..registry import METHODS, handles

_FLOATS = ("uniform", "triangular", "gauss", "normalvariate", "lognormvariate", "expovariate", "betavariate", "gammavariate",
           "vonmisesvariate", "paretovariate", "weibullvariate")  # fmt: skip
_INTS = ("randint", "randrange")


def number(kind: type, call: Callable[..., Any], name: str, args: tuple) -> Any:
    """``call(*args)`` whenever the graph runs: a staged number."""
    graph = current_graph()
    values = [outside_value(a, graph) for a in args]
    return new_scalar("py.outside", (OpaqueObject(call, name), *values), kind, graph)


_OWN: weakref.WeakKeyDictionary[random.Random, Any] = weakref.WeakKeyDictionary()


@handles(random.Random)
def generator_(*args):
    made = random.Random(*args)
    if is_tracing():
        _OWN[made] = current_graph().root
    return made


def is_outside(generator: random.Random) -> bool:
    return is_tracing() and _OWN.get(generator) is not current_graph().root


def _drawn(name: str, kind: type) -> Callable[..., Any]:
    plain = getattr(random.Random, name)

    def form(generator, *args, **kwargs):
        if not is_outside(generator):
            return plain(generator, *args, **kwargs)
        if kwargs:
            return number(kind, lambda *a: plain(generator, *a, **kwargs), name, args)
        return number(kind, lambda *a: plain(generator, *a), name, args)

    return form


for _name in _FLOATS:
    handles(getattr(random.Random, _name))(_drawn(_name, float))
for _name in _INTS:
    handles(getattr(random.Random, _name))(_drawn(_name, int))
METHODS[random.Random, "random"] = _drawn("random", float)
METHODS[random.Random, "getrandbits"] = _drawn("getrandbits", int)


@handles(random.Random.choice)
def choice(generator, items):
    if not is_outside(generator) or not len(items):
        return generator.choice(items)
    at = number(int, lambda n: generator._randbelow(n), "choice", (len(items),))
    return subscripts.getitem(items, at)


@handles(random.Random.seed)
def seed(generator, a=None, version=2):
    if not is_outside(generator):
        generator.seed(a, version)
        return
    number(bool, lambda *v: bool(generator.seed(*v)), "seed", () if a is None else (a, version))


def drawn_below(generator: Any, n: Any) -> Any:
    """A whole number below ``n`` whenever the graph runs."""
    return number(int, lambda n: generator._randbelow(n), "below", (n,))


def drawn_float(generator: random.Random) -> Any:
    """What ``random()`` gives whenever the graph runs."""
    return number(float, lambda: random.Random.random(generator), "random", ())


def _clock(name: str) -> None:
    plain = getattr(time, name)
    kind = int if name.endswith("_ns") else float

    @handles(plain)
    def form():
        return number(kind, plain, name, ()) if is_tracing() else plain()


for _name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    _clock(_name)
    _clock(f"{_name}_ns")


@handles(time.sleep)
def sleep(seconds):
    if not is_tracing():
        time.sleep(seconds)
        return
    number(bool, lambda s: bool(time.sleep(s)), "sleep", (seconds,))
