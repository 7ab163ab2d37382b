"""The decorated signature as mypy sees it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

PROGRAM = """
import torch
import tograph as tg

@tg.function
def f(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n

@tg.function(reduce_retracing=True)
def g(x: torch.Tensor) -> int:
    return 1

class M:
    @tg.function
    def step(self, x: torch.Tensor) -> str:
        return ""

reveal_type(f(torch.ones(1), n=3))
reveal_type(g(torch.ones(1)))
reveal_type(M().step(torch.ones(1)))
reveal_type(f.trace_count)
f("no")
f(torch.ones(1), m=3)
g()
M().step(3)
"""

WANTED = [
    (18, "note", 'Revealed type is "torch._tensor.Tensor"'),
    (19, "note", 'Revealed type is "int"'),
    (20, "note", 'Revealed type is "str"'),
    (21, "note", 'Revealed type is "int"'),
    (22, "error", 'Argument 1 to "__call__" of "Function" has incompatible type "str"; expected "Tensor"'),
    (23, "error", 'Unexpected keyword argument "m"'),
    (24, "error", 'Missing positional argument "x"'),
    (25, "error", 'Argument 1 to "__call__" of "BoundFunction" has incompatible type "int"; expected "Tensor"'),
]  # fmt: skip


def test_decorated_functions_keep_their_signature(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent", str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lines = [
        line.rpartition("/")[2] for line in done.stdout.splitlines()
    ]  # a cached path may be an older one
    for number, kind, text in WANTED:
        found = [line for line in lines if line.startswith(f"{path.name}:{number}: {kind}: ")]
        found = [line.replace("builtins.", "") for line in found]
        assert any(text in line for line in found), (text, done.stdout, done.stderr)
