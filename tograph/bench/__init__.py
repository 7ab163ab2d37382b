"""``tograph bench``: the same programs under tograph and under every installed peer, side by side.

A *workload* is a plain PyTorch program with its inputs (``programs``, ``workloads``). A *peer* is a way to run it: eager
PyTorch, ``torch.compile`` of the plain program and of a ``while_loop`` form written by hand (``torch_forms``),
TorchScript, and JAX and Numba forms written by hand (``jax_forms``, ``numba_forms``). tograph's cell decorates the plain
program. Each cell runs in a process of its own (``worker``), so that its first call is a true cold start; a second process
with the same disk cache tells the warm start. The processes of a workload are timed in turn (``cells``), since machines are shared and
have phases. Results are compared with eager's; figures are given as ratios to the best peer (``report``).
"""

from .command import add
from .report import run

__all__ = ["add", "run"]
