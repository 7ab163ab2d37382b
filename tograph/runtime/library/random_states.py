"""Seeds and states of torch's random generators: set and read when the graph runs, in order with what is drawn.

``generator=None`` is torch's default one. A generator is a Python object of the trace, the same one at every call; one that the program
makes begins with torch's default seed each time, so making it sets that seed. Without a trace the functions are torch's own.
"""

from __future__ import annotations

from typing import Any

import torch

from ..control_flow import outside_value
from ..graph.ops import OpaqueObject
from ..graph.types import TensorType
from ..symbols.funcgraph import current_graph, is_tracing
from ..symbols.scalars import new_scalar
from ..values.flattening import symbolic


def _given(generator: torch.Generator | None) -> tuple[OpaqueObject, ...]:
    return () if generator is None else (OpaqueObject(generator, "generator"),)


def manual_seed(seed: Any, generator: torch.Generator | None = None) -> torch.Generator:
    """``torch.manual_seed``, and that of a generator."""
    if not is_tracing():
        return torch.manual_seed(seed) if generator is None else generator.manual_seed(seed)
    graph = current_graph()
    graph.add("tg.manual_seed", (outside_value(seed, graph), *_given(generator)))
    return torch.default_generator if generator is None else generator


def new_generator(*args: Any, **kwargs: Any) -> torch.Generator:
    """``torch.Generator(device)``"""
    made = torch.Generator(*args, **kwargs)
    return manual_seed(made.initial_seed(), made) if is_tracing() else made


def initial_seed(generator: torch.Generator | None = None) -> int:
    """The seed that was set last."""
    if not is_tracing():
        return (generator or torch).initial_seed()
    return new_scalar("tg.initial_seed", _given(generator), int, current_graph())


def seed(generator: torch.Generator | None = None) -> int:
    """Set a seed that nobody foresees, and give it."""
    if not is_tracing():
        return (generator or torch).seed()
    return new_scalar("tg.new_seed", _given(generator), int, current_graph())


def get_state(generator: torch.Generator | None = None) -> torch.Tensor:
    """The state as a tensor of bytes."""
    state = torch.get_rng_state() if generator is None else generator.get_state()
    if not is_tracing():
        return state
    graph = current_graph()
    kind = TensorType(torch.uint8, (len(state),))
    return symbolic(graph.emit("tg.rng_state", *_given(generator), type=kind), graph)


def set_state(state: torch.Tensor, generator: torch.Generator | None = None) -> Any:
    """Go on from a state that ``get_state`` gave; RuntimeError or TypeError for another tensor."""
    if not is_tracing():
        return torch.set_rng_state(state) if generator is None else generator.set_state(state)
    graph = current_graph()
    graph.add("tg.set_rng_state", (outside_value(state, graph), *_given(generator)))
    return generator


def clone_state(generator: torch.Generator) -> torch.Generator:
    """Another generator that goes on from the same state."""
    if not is_tracing():
        return generator.clone_state()
    return set_state(get_state(generator), torch.Generator(generator.device))


def of_device(device: Any = "cuda") -> torch.Generator:
    """The default generator of a GPU, as the functions of ``torch.cuda`` name it; torch's error where there is none."""
    torch.cuda.init()
    place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    index = torch.cuda.current_device() if place.index is None else place.index
    return torch.cuda.default_generators[index]


def manual_seed_gpu(seed: Any, all_of_them: bool) -> None:
    """``torch.cuda.manual_seed``, or ``manual_seed_all``: nothing without a GPU."""
    if not torch.cuda.is_available():
        return
    torch.cuda.init()
    generators = torch.cuda.default_generators if all_of_them else (of_device(),)
    for generator in generators:
        manual_seed(seed, generator)
