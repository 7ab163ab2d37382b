"""What tograph costs around a graph: import, conversion, first call, cached call, beside eager PyTorch.

Each round runs in a process of its own, after imports; the first call finds compiled code and converted functions on disk. Machines are shared:
read the ratios. Usage: ``python benchmarks/tracing.py [--rounds 3]``; writes ``benchmarks/results/tracing.md``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORKER = """
import json, sys, tempfile, time
clock = time.process_time if sys.argv[1] == "cpu" else time.perf_counter
start = clock(); import torch; torch_ms = (clock() - start) * 1e3
start = clock(); import tograph as tg; tograph_ms = (clock() - start) * 1e3
from tograph import settings
from tograph.converters import pipeline
from long_workload import simulate
from workload import product, solve, trivial
args = torch.randn(4, 8), torch.randn(8, 8), torch.randn(8, 8), torch.tensor(5)
f = tg.function(solve)
start = clock(); f(*args); first = (clock() - start) * 1e3
f.clear_cache()
start = clock(); f(*args); warm = (clock() - start) * 1e3
def convert(function):
    pipeline.clear()
    start = clock(); pipeline.conversion(function)
    return (clock() - start) * 1e3
with tempfile.TemporaryDirectory() as settings.CACHE_DIR:
    conversion, long_conversion = convert(solve), convert(simulate)
    found = convert(simulate)
settings.CACHE_DIR = ""
g = tg.function(trivial)
x, y = torch.ones(4), torch.ones(4)
h = tg.function(product)
start = clock(); h(x, args[1][:4, :4]); vector = (clock() - start) * 1e3
def per_call(call, n=20000):
    call(x, y)
    start = clock()
    for _ in range(n):
        call(x, y)
    return (clock() - start) / n * 1e6
print(json.dumps({
    "import torch (ms)": torch_ms,
    "import tograph, beyond torch (ms)": tograph_ms,
    "first call, conversion and tracing included (ms)": first,
    "trace again (ms)": warm,
    "conversion of the 40-line function (ms)": conversion,
    "conversion of a 97-line function of every construct (ms)": long_conversion,
    "the same, found on disk (ms)": found,
    "first call of a vector times a matrix (ms)": vector,
    "cached call of x * y + 1 (us)": per_call(g),
    "eager x * y + 1 (us)": per_call(trivial),
    "torch._dynamo imported (0 or 1)": "torch._dynamo" in sys.modules,
}))
"""


def measure(clock: str) -> dict:
    """One worker's figures, by "wall" or "cpu" time."""
    command = [sys.executable, "-c", WORKER, clock]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Run the rounds and write the table."""
    parser = argparse.ArgumentParser(description="What tograph costs around a graph.")
    parser.add_argument("--rounds", type=int, default=3)
    count = parser.parse_args().rounds
    rounds = {clock: [measure(clock) for _ in range(count)] for clock in ("wall", "cpu")}
    lines = ["# Tracing costs", "", "Medians (least of the rounds); processor time counts when the machine is shared.", ""]  # fmt: skip
    lines += ["| figure | wall | processor |", "| --- | --- | --- |"]
    for name in rounds["wall"][0]:
        cells = [[float(r[name]) for r in rounds[clock]] for clock in ("wall", "cpu")]
        shown = (f"{statistics.median(c):.1f} ({min(c):.1f})" for c in cells)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    text = "\n".join(lines) + "\n"
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "tracing.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
