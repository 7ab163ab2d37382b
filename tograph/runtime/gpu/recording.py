"""One CUDA graph, captured by torch on a stream of ours, that leaves the process as it was where it fails. Not yet seen on a GPU.

``torch.cuda.graph`` is not used for three reasons: where a capture cannot be ended it leaves its stream current, torch's allocator and
generator in the state of a capture (a later ``torch.rand`` then fails); it empties the caching allocator before each capture; and
it routes only what the captured stream itself allocates into memory of the graph. The body of a conditional node is a capture of
another graph, so what a library function takes there would be ordinary memory, which others get while the graph still writes it.
So all that this thread allocates while it records, and while it tries the steps before, goes into one pool (``Pool``), which lives as
long as the graphs do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


class Pool:
    """The memory that library functions take while a plan's graphs are captured. ``handle``: what torch knows the captures by."""

    def __init__(self, device: torch.device):
        self.device = device
        self.memory = torch.cuda.MemPool()
        self.handle = torch.cuda.graph_pool_handle()

    def kept(self) -> Any:
        """A scope in which what this thread allocates is memory of the graphs, as are workspaces of library functions that torch gives a stream.

        In ordinary memory others might get those, once somebody has torch let go of them (as ``torch.compile`` does with "reduce-overhead"),
        while the graphs still write there.
        """
        return torch.cuda.use_mem_pool(self.memory)

    @contextlib.contextmanager
    def recording(self, graph: Any, stream: torch.cuda.Stream) -> Iterator[None]:
        """What ``stream``, and streams that fork from it and join it, are given goes into ``graph``."""
        torch.cuda.synchronize()
        with torch.cuda.stream(stream), self.kept():
            graph.capture_begin(pool=self.handle, capture_error_mode="relaxed")
            try:
                yield
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the first error is the one to tell
                    self._ended(graph)
                raise
            self._ended(graph)

    def _ended(self, graph: Any) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Undo what torch has begun for a capture that CUDA does not end."""
        index = self.device.index or 0
        with contextlib.suppress(
            RuntimeError
        ):  # torch has ended that itself where the graph cannot be instantiated
            torch._C._cuda_endAllocateToPool(index, self.handle)
            torch._C._cuda_releasePool(index, self.handle)
        restored(torch.cuda.default_generators[index], self.device)


def restored(generator: torch.Generator, device: torch.device) -> None:
    """Give a generator a new state with the same seed and offset, where it still believes that it is captured."""
    offset = generator.get_offset()
    try:
        torch.empty(1, device=device).uniform_(generator=generator)
    except RuntimeError:
        made = torch.Generator(device)
        made.manual_seed(generator.initial_seed())
        made.set_offset(offset)
        generator.graphsafe_set_state(made.graphsafe_get_state())
    else:
        generator.set_offset(offset)
