"""The sections of ``benchmarks/gpu.py``: each gives its parts, a name and a call that does it and reports rows."""

from __future__ import annotations

from gpu_assumptions import assumptions
from gpu_correctness import cases, correctness
from gpu_measures import bandwidth, calls, loops
from gpu_peers import compiling, workloads
from gpu_probes import probes

SECTIONS = {f.__name__: f for f in (probes, assumptions, correctness, cases)} | {"peers": compiling}
SECTIONS |= {f.__name__: f for f in (loops, bandwidth, calls, workloads)}
