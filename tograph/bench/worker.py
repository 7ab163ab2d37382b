"""One cell: a workload under a peer, in this process. Each figure is one line of JSON; arrays of the result go to a file.

Usage: ``python -m tograph.bench.worker WORKLOAD PEER THREADS RESULT.npz``. The first line tells of the first call; each line that comes
in by standard input, the seconds to look for a quiet one, is then answered by the time of one window of calls, so that peers can be timed in turn.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from . import clock
from .peers import PEERS, Refused, load
from .workloads import WORKLOADS

Figures = dict[str, Any]


def _limit_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    if hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as it sees processors
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _arrays(result: Any) -> list[np.ndarray]:
    if isinstance(result, (tuple, list)):
        return [a for r in result for a in _arrays(r)]
    if isinstance(result, torch.Tensor):
        result = result.detach().numpy()
    return [np.array(result)]


def prepare(key: str, peer: str, threads: int, path: str) -> tuple[Figures, Callable[[], Any]]:
    """(``first`` in seconds and ``memory`` before it in KB, the call), after the first call; its result is in the file.

    Raises ``Refused`` where the peer has no form of the workload.
    """
    _limit_threads(threads)
    arrays = WORKLOADS[key].inputs()
    load(peer)
    before = _memory()
    start = time.perf_counter()
    call = PEERS[peer](key, arrays, threads)
    result = call()
    first = time.perf_counter() - start
    np.savez(path, *_arrays(result))
    for _ in range(3):
        call()
    return {"first": first, "before": before}, call


def _memory() -> int:
    """The most memory this process has had, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _turn(call: Callable[[], Any], before: int, budget: float) -> Figures:
    timing = clock.steady(call, wanted=1, budget=budget)
    memory = (_memory() - before) / 1024
    return {"turn": timing.seconds, "quiet": timing.quiet, "memory": memory}


def _tell(figures: Figures) -> None:
    print(json.dumps(figures), flush=True)


def main(argv: list[str]) -> None:
    """Run the cell that the command line names, until standard input ends."""
    key, peer, threads, path = argv
    try:
        figures, call = prepare(key, peer, int(threads), path)
    except Refused as refusal:
        _tell({"refused": str(refusal)})
        return
    _tell(figures)
    for budget in sys.stdin:
        _tell(_turn(call, figures["before"], float(budget)))


if __name__ == "__main__":
    main(sys.argv[1:])
