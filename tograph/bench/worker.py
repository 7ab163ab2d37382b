"""One cell: a workload under a peer, in this process. Prints one line of JSON; arrays of the result go to a file.

Usage: ``python -m tograph.bench.worker WORKLOAD PEER THREADS RESULT.npz``.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

import numpy as np
import torch

from . import clock
from .peers import PEERS, Refused, load
from .workloads import WORKLOADS


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


def cell(key: str, peer: str, threads: int, path: str) -> dict[str, Any]:
    """Figures of a cell: ``first`` and ``steady`` in seconds, ``memory`` in MB, or ``refused``."""
    _limit_threads(threads)
    workload = WORKLOADS[key]
    arrays = workload.inputs()
    load(peer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    try:
        call = PEERS[peer](key, arrays, threads)
    except Refused as refusal:
        return {"refused": str(refusal)}
    result = call()
    first = time.perf_counter() - start
    np.savez(path, *_arrays(result))
    for _ in range(3):
        call()
    timing = clock.steady(call)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"first": first, "steady": timing.seconds, "quiet": timing.quiet, "memory": memory}


def main(argv: list[str]) -> None:
    """Run the cell that the command line names."""
    key, peer, threads, path = argv
    print(json.dumps(cell(key, peer, int(threads), path)))


if __name__ == "__main__":
    main(sys.argv[1:])
