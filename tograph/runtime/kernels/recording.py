"""One CUDA graph, captured by torch on a stream of ours, that leaves the process as it was where it fails. Not yet seen on a GPU.

``torch.cuda.graph`` is not used for three reasons: where a capture cannot be ended it leaves its stream current, torch's allocator and
generator in the state of a capture (a later ``torch.rand`` then fails); it empties the caching allocator before each capture; and
it routes only what the captured stream itself allocates into memory of the graph. The body of a conditional node is a capture of
another graph, so what a library function takes there would be ordinary memory, which others get while the graph still writes it.
So all that this thread allocates while it records, and while it tries the steps before, goes into one pool (``Pool``), which lives as
long as the graphs do.

What has been made for a pool goes to the next one, and is never destroyed. A ``MemPool`` that dies while anybody captures ends the process, since torch
asserts in its destructor that nobody does, and the garbage collector chooses when that is. Workspaces of library functions belong to a stream: so a pool has
streams of its own, whose workspaces are its memory, and no two plans that are alive share one.

One thread of the process records at a time, and waits for the whole device (``settle``) only while no other one records: CUDA makes such a wait an error
that ends the capture of the other thread, and torch's generator of the device is in the state of a capture for all threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from . import driver

STREAMS = 32  # that torch has of each device

TRIES = 3  # of a capture that another thread ends
Made = TypeVar("Made")
Memory = tuple[Any, list[Any]]  # a MemPool and its streams
_idle: dict[int, list[Memory]] = {}  # by device: of pools that are gone
_alone = threading.RLock()  # held by the thread that records, or waits for a whole device
_failed: list[Any] = []  # graphs whose captures did not end: torch still has their addresses


class Pool:
    """The memory that library functions take while a plan's graphs are captured. ``handle``: what torch knows the captures by."""

    def __init__(self, device: torch.device):
        self.device = device
        made = _taken(device)
        self.memory, self._streams = made
        self.handle = torch.cuda.graph_pool_handle()
        weakref.finalize(self, _idle.setdefault(device.index or 0, []).append, made).atexit = False

    def stream(self, number: int) -> Any:
        """One of the streams of this pool; those of other numbers are others."""
        while len(self._streams) <= number:
            self._streams.append(_stream(self.device, self._streams))
        return self._streams[number]

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A scope in which what this thread allocates is memory of the graphs, as are workspaces of library functions that torch gives a stream.

        In ordinary memory others might get those, once somebody has torch let go of them (as ``torch.compile`` does with "reduce-overhead"),
        while the graphs still write there.
        """
        with _quiet, torch.cuda.use_mem_pool(self.memory):
            yield

    @contextlib.contextmanager
    def recording(self, graph: Any, stream: torch.cuda.Stream) -> Iterator[None]:
        """What ``stream``, and streams that fork from it and join it, are given goes into ``graph``."""
        with _alone, torch.cuda.stream(stream), self.kept():
            settle(self.device)
            try:
                graph.capture_begin(pool=self.handle, capture_error_mode="relaxed")
            except RuntimeError:
                self._abandon(graph)
                raise
            try:
                yield
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the first error is the one to tell
                    self._ended(graph)
                raise
            self._ended(graph)

    def _ended(self, graph: Any) -> None:
        try:
            with warnings.catch_warnings():  # a program on no elements has no nodes
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                graph.capture_end()
        except RuntimeError:
            self._abandon(graph)
            raise

    def _abandon(self, graph: Any) -> None:
        """Undo what torch has begun for a capture that CUDA does not end."""
        _failed.append(graph)
        index = self.device.index or 0
        with contextlib.suppress(
            RuntimeError
        ):  # torch has ended that itself where the graph cannot be instantiated
            torch._C._cuda_endAllocateToPool(index, self.handle)
            torch._C._cuda_releasePool(index, self.handle)
        restored(torch.cuda.default_generators[index], self.device)


def settle(device: torch.device) -> None:
    """Wait for all that a device has been given; not while another thread records."""
    with _alone:
        torch.cuda.synchronize(device)


def _taken(device: torch.device) -> Memory:
    """What a pool that is gone had, once the device is done with it; else what is new."""
    found = _idle.get(device.index or 0)
    if found:
        settle(device)
        return found.pop()
    made = torch.cuda.MemPool()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # not even when Python ends
    return made, []


def _stream(device: torch.device, taken: list[Any]) -> Any:
    """A stream that nobody else has. Without the driver one of torch's, which takes turns with those that it has."""
    if not driver.loadable():
        with contextlib.suppress(Exception):  # whatever the bindings raise: torch has streams too
            return torch.cuda.ExternalStream(driver.stream(), device)
    known = {s.cuda_stream for s in taken}
    made = (torch.cuda.Stream(device) for _ in range(STREAMS))
    found = next((s for s in made if s.cuda_stream not in known), None)
    if found is None:
        raise driver.DriverError(f"a plan that needs more than {len(known)} streams")
    return found


def disturbed(error: RuntimeError) -> bool:
    """Whether a capture was ended from outside, as by another thread that waits for the whole device, and not by what it was given."""
    return any(text in str(error) for text in _INVALIDATED)


# As the driver names it, and as torch tells it.
_INVALIDATED = "CAPTURE_INVALIDATED", "StreamCaptureInvalidated", "operation failed due to a previous error during capture"  # fmt: skip


def again_if_disturbed(make: Callable[[], Made]) -> Made:
    """What is captured; the last of ``TRIES`` counts where other threads have ended those before."""
    for _ in range(TRIES - 1):
        try:
            return make()
        except RuntimeError as error:  # of torch and of the driver
            if not disturbed(error):
                raise
    return make()


class _Quiet:
    """Scopes, of any threads, in which no garbage is collected: what dies then may free memory in a way that torch takes for an error in a capture."""

    def __init__(self) -> None:
        self._mutex, self._open, self._was = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._mutex:
            if not self._open:
                self._was = gc.isenabled()
                gc.disable()
            self._open += 1

    def __exit__(self, *error: Any) -> None:
        with self._mutex:
            self._open -= 1
            if not self._open and self._was:
                gc.enable()


_quiet = _Quiet()


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
