"""What tograph costs around a graph: import, conversion, first call, cached call, beside eager PyTorch.

Each round runs in a process of its own, after imports; the first call finds compiled code and converted functions on disk. First calls of programs of
libraries (torchdiffeq, torchmin, transformers) are measured where these are installed. Machines are shared: read the ratios. Usage: ``python benchmarks/tracing.py [--rounds 3]``; writes ``benchmarks/results/tracing.md``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
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

LIBRARIES = """
import importlib.util, json, sys, time
import torch
import tograph as tg
clock = time.process_time if sys.argv[1] == "cpu" else time.perf_counter
torch.manual_seed(0)
def odeint_adjoint():
    from torchdiffeq import odeint_adjoint
    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
        def forward(self, t, y):
            return self.net(y)
    field, times = Field(), torch.linspace(0, 1, 5)
    def run(y):
        loss = odeint_adjoint(field, y, times)[-1].pow(2).sum()
        return loss, *torch.autograd.grad(loss, list(field.parameters()))
    return run, torch.rand(3, 2)
def minimize(method):
    from torchmin import minimize
    def rosen(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    return (lambda x: minimize(rosen, x, method=method, max_iter=20).x), torch.tensor([1.3, 0.7, 0.8])
def generate():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    model = GPT2LMHeadModel(config).eval()
    return (lambda ids: model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0)), torch.tensor([[3, 4, 5]])
programs = {
    "odeint_adjoint": ("torchdiffeq", odeint_adjoint),
    "l-bfgs": ("torchmin", lambda: minimize("l-bfgs")),
    "newton-exact": ("torchmin", lambda: minimize("newton-exact")),
    "generate": ("transformers", generate),
}
found = {}
name = sys.argv[2]
library, make = programs[name]
if importlib.util.find_spec(library) is not None:
    plain, x = make()
    want, f = plain(x), tg.function(plain)
    start = clock(); got = f(x)
    found[f"first call of {name} of {library} (ms)"] = (clock() - start) * 1e3
    torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)
print(json.dumps(found))
"""


def measure(clock: str) -> dict:
    """The workers' figures, by "wall" or "cpu" time."""
    found = run(WORKER, [HERE], clock)
    for name in ("odeint_adjoint", "l-bfgs", "newton-exact", "generate"):
        # Not beside the modules here: transformers would take kernels.py for a library.
        found |= run(LIBRARIES, [], clock, name)
    return found


def run(worker: str, folders: list[Path], *options: str) -> dict:
    """One worker's figures. Converted functions have their source: it runs from a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(worker)
        file.flush()
        return started([sys.executable, file.name, *options], folders)


def started(command: list[str], folders: list[Path]) -> dict:
    """What a process prints that finds modules where this one does, but for its own folder, and in ``folders``."""
    paths = [HERE.parent, *folders, *(p for p in sys.path if p != str(HERE))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
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
