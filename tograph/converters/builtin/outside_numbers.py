"""Numbers that are others at every call: what Python's random generators draw and clocks show, when the graph runs and in order.

A generator that the traced code makes itself (``random.Random(0)``) draws while tracing, as long as it is used where it was made: its numbers
are the same at every call. A run sets the state that it had then, so that staged branches and loops can go on from there; from then
on it draws when the graph runs.
"""

from __future__ import annotations

import functools
import random
import time
import weakref
from collections.abc import Callable
from typing import Any

from ...errors import StagingError
from ...runtime.control_flow import outside_value
from ...runtime.graph.ops import OpaqueObject
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ...runtime.symbols.scalars import new_scalar
from ...runtime.values.structure import is_union
from .. import subscripts
from ..call_rules import DECIDING
from ..calls import call
from ..registry import METHODS, handles
from ..staging import is_staged

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
    if not is_tracing():
        return random.Random(*args)
    if not args or args[0] is None or is_staged(args[0]):
        made = random.Random()
        seed(made, *args)
        return made
    made = random.Random(*args)
    _OWN[made] = current_graph()
    _keep_up(made)
    return made


def is_outside(generator: random.Random, *args: Any) -> bool:
    """Whether it has to draw, by these arguments, when the graph runs. A generator that the trace made does so from then on."""
    if not is_tracing():
        return False
    if _OWN.get(generator) is not current_graph() or any(map(is_staged, args)):
        if (owner := _OWN.pop(generator, None)) is not None:
            journal.undone_by(lambda: _OWN.__setitem__(generator, owner))
        return True
    return False


def drawn_now(generator: random.Random, name: str, *args: Any, **kwargs: Any) -> Any:
    """What one draws while tracing, whose state a run has from there on too."""
    if is_tracing():
        # A loop that is unrolled, and then a loop of the graph, draws what it drew in the first attempt again.
        journal.undone_by(functools.partial(generator.setstate, generator.getstate()))
    try:
        return getattr(random.Random, name)(generator, *args, **kwargs)
    finally:
        if is_tracing():
            _keep_up(generator)


def _keep_up(generator: random.Random) -> None:
    state = generator.getstate()
    set_state: Any = generator.setstate
    number(bool, lambda: bool(set_state(state)), "setstate", ())


def _drawn(name: str, kind: type) -> Callable[..., Any]:
    plain = getattr(random.Random, name)

    def form(generator, *args, **kwargs):
        if not is_outside(generator, *args, *kwargs.values()):
            return drawn_now(generator, name, *args, **kwargs)
        if kwargs:
            shown = f"{name} by name"
            return number(kind, lambda *a: plain(generator, *a, **kwargs), shown, args)
        return number(kind, lambda *a: plain(generator, *a), name, args)

    return form


for _name in _FLOATS:
    handles(getattr(random.Random, _name))(_drawn(_name, float))
for _name in _INTS:
    handles(getattr(random.Random, _name))(_drawn(_name, int))
METHODS[random.Random, "random"] = _drawn("random", float)
METHODS[random.Random, "getrandbits"] = _drawn("getrandbits", int)


@handles(random.Random.choice)
def choice(generator, seq):
    n = call(len, seq) if is_tracing() else 0
    if not is_outside(generator, seq, n) or not (is_staged(n) or n):
        if is_union(seq) and n:
            return subscripts.getitem(seq, drawn_now(generator, "_randbelow", n))
        return drawn_now(generator, "choice", seq)
    if is_staged(n):
        call(_check_choice, n)
    at = number(int, lambda n: generator._randbelow(n), "choice", (n,))
    return subscripts.getitem(seq, at)


def _check_choice(n):
    if n == 0:
        raise IndexError("Cannot choose from an empty sequence")


DECIDING.add(_check_choice)


@handles(random.Random.seed)
def seed(generator, a=None, version=2):
    if not is_outside(generator, a):
        drawn_now(generator, "seed", a, version)
        return
    number(bool, lambda *v: bool(generator.seed(*v)), "seed", () if a is None else (a, version))


def _refused(name: str) -> None:
    @handles(getattr(random.Random, name))
    def form(generator, *args):
        if not is_outside(generator):
            return drawn_now(generator, name, *args)
        raise StagingError(
            f"{name}() of a random generator is not supported in a graph: what it holds is known only when the graph runs. Call it outside of the function.",
            user_location(),
        )


for _name in ("getstate", "setstate", "randbytes"):
    _refused(_name)


def drawn_below(generator: Any, n: Any) -> Any:
    """A whole number below ``n`` whenever the graph runs."""
    return number(int, lambda n: generator._randbelow(n), "below", (n,))


def drawn_places(generator: random.Random, n: int, k: int) -> Any:
    """``k`` different places below ``n``, drawn whenever the graph runs: the digits to base ``n`` of one number, the first last, so that the graph asks once."""

    def draw(n: int, k: int) -> int:
        places = random.Random.sample(generator, range(n), k)
        return sum(place * n**i for i, place in enumerate(places))

    return number(int, draw, "sample", (n, k))


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
