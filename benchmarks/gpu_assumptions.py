"""What the GPU code assumes of a device, its driver, torch and Triton, one by one, behind the probes (``gpu_probes``).

Each part says whether an assumption holds, and if not what was found in its place. None of them has been seen on a GPU yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gpu_draws
from gpu_calls import CALLS, called
from gpu_draws import DRAWS, drawn
from gpu_nodes import NODES, bodies_keep_memory, failed_capture, fused, runs

from tograph.runtime.gpu import capture
from tograph.runtime.gpu.execute import Chunked


def assumptions(bench: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The other parts; on a CPU there is nothing to assume."""
    if not bench.gpu:
        yield "all", lambda: bench.row(name="all", note="only on a GPU")
        return
    kinds = {"": capture.Captured, ", setters fused": fused, ", in chunks": Chunked}
    for name, (fn, make) in NODES.items():
        for how, runner in kinds.items():
            yield name + how, functools.partial(runs, bench, name + how, fn, make, runner)
    yield "memory of bodies is the graph's", functools.partial(bodies_keep_memory, bench)
    yield "a failed capture leaves torch as it was", functools.partial(failed_capture, bench)
    for name, fn in CALLS.items():
        yield name, functools.partial(called, bench, name, fn)
    for size in gpu_draws.SIZES:  # where time ends, every kind is there in one size
        for name, draw in DRAWS.items():
            yield f"{name} {size}", functools.partial(drawn, bench, name, draw, size)
