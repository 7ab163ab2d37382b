"""The decorated signature as mypy sees it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
import tograph as tg

class Tensor: ...

@tg.function
def f(x: Tensor, n: int = 2) -> Tensor:
    return x

@tg.function(reduce_retracing=True)
def g(x: Tensor) -> int:
    return 1

class M:
    @tg.function
    def step(self, x: Tensor) -> str:
        return ""

reveal_type(f(Tensor(), n=3))
reveal_type(g(Tensor()))
reveal_type(M().step(Tensor()))
reveal_type(f.trace_count)
f("no")
f(Tensor(), m=3)
g()
M().step(3)
"""
# Reading torch would take most of the time; what a signature is made of does not matter.
CONFIG = """
[mypy]
ignore_missing_imports = true
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
"""

WANTED = [
    (19, "note", 'Revealed type is "program.Tensor"'),
    (20, "note", 'Revealed type is "int"'),
    (21, "note", 'Revealed type is "str"'),
    (22, "note", 'Revealed type is "int"'),
    (23, "error", 'Argument 1 to "__call__" of "Function" has incompatible type "str"; expected "Tensor"'),
    (24, "error", 'Unexpected keyword argument "m"'),
    (25, "error", 'Missing positional argument "x"'),
    (26, "error", 'Argument 1 to "__call__" of "BoundFunction" has incompatible type "int"; expected "Tensor"'),
]  # fmt: skip


def test_decorated_functions_keep_their_signature(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    config = tmp_path / "mypy.ini"
    config.write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path}", str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lines = [line.rpartition("/")[2] for line in done.stdout.splitlines()]
    for number, kind, text in WANTED:
        found = [line for line in lines if line.startswith(f"{path.name}:{number}: {kind}: ")]
        found = [line.replace("builtins.", "") for line in found]
        assert any(text in line for line in found), (text, done.stdout, done.stderr)
