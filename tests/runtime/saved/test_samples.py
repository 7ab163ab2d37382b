"""Every sample, saved here, gives the same in a fresh process that has none of its source."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tograph as tg

ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "samples").glob("*.py"))

FRESH = """
import sys, torch, tograph as tg
folder, *names = sys.argv[1:]
for name in names:
    f = tg.load(f"{folder}/{name}.tograph")
    inputs, expected = torch.load(f"{folder}/{name}.pt", weights_only=True)
    torch.testing.assert_close(f(*inputs), expected, rtol=0, atol=0)
    assert f.trace_count == 0
    print(name)
assert not [m for m in sys.modules if m.startswith("sample")]
assert "torch._dynamo" not in sys.modules
"""


def main_function(path):
    spec = importlib.util.spec_from_file_location(f"saved_sample_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main_function, module.example_inputs


@pytest.fixture(scope="module")
def loaded_names(tmp_path_factory):
    """The names that a fresh process printed after it ran them."""
    folder = tmp_path_factory.mktemp("saved")
    for path in SAMPLES:
        function, inputs = main_function(path)
        torch.save((inputs(), function(*inputs())), folder / f"{path.stem}.pt")
        tg.save(function, folder / f"{path.stem}.tograph")
    names = [path.stem for path in SAMPLES]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(folder), *names],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("name", [path.stem for path in SAMPLES])
def test_sample_runs_in_a_fresh_process(loaded_names, name):
    names, errors = loaded_names
    assert name in names, errors
