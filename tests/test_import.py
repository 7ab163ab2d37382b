"""What ``import tograph`` and a first call do to the process: what they load, and the garbage collector."""

import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tograph import collector
from tograph.lazy import lazy_module

ROOT = Path(__file__).parent.parent
LATE = ["llvmlite", "numpy.random", "safetensors", "html", "tograph.runtime.saved", "tograph.runtime.report", "tograph.runtime.interchange", "tograph.bench", "tograph.cli"]  # fmt: skip

PROGRAM = """
import gc, json, sys
import torch
before = gc.get_threshold(), set(sys.modules)
import tograph as tg
after = gc.get_threshold(), set(sys.modules) - before[1]

def root(x):
    y = x
    while (y * y - x).abs() > 1e-6:
        y = (y + x / y) / 2
    return y

f = tg.function(root)
f(torch.tensor(2.0))
found = {
    "same": before[0] == after[0] == gc.get_threshold() and gc.isenabled(),
    "imported": sorted(after[1]),
    "public": [tg.save.__name__, tg.load.__name__, "save" in dir(tg), hasattr(tg, "no_such_name")],
}

@tg.function
def squeezed(x, m):
    y = x * 2
    y.unsqueeze_(0)
    y.t_()
    d = torch.distributions.Normal(x, x.exp())
    z = torch.fft.fft(torch.complex(x, d.rsample()))
    return x @ m, m @ x, x @ x, y, d.log_prob(x), torch.distributions.Categorical(x).sample(), z.abs(), torch.fft.rfft(x)

squeezed(torch.ones(3), torch.ones(3, 3))
found["vectors"] = "sympy" in sys.modules, "torch.distributed.tensor" in sys.modules

@tg.function
def many(x, m):
    return torch.addr(m, x, x), torch.special.zeta(x, x), torch.mvlgamma(x + 3, 2), torch.renorm(m, 2, 0, 1.0)

many(torch.ones(3), torch.ones(3, 3))
left = [f for f in vars(torch._refs).values() if hasattr(getattr(f, "__wrapped__", f), "__dynamo_disable")]
found["kernels"] = "torch._dynamo" in sys.modules, len(left)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    program = tmp_path_factory.mktemp("import") / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=True)  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", LATE)
def test_import_loads_only_what_a_first_trace_needs(found, name):
    assert name not in found["imported"]


def test_the_collector_is_as_it_was(found):
    assert found["same"]


def test_names_that_load_late_are_there(found):
    assert found["public"] == ["save", "load", True, False]


def test_seldom_is_put_back_by_the_last_to_leave():
    usual = gc.get_threshold()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with collector.seldom():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with collector.seldom():
        assert gc.get_threshold() == (collector.OBJECTS, *usual[1:])
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] == collector.OBJECTS
    leave.set()
    thread.join()
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("threshold", [0, collector.OBJECTS * 2])
def test_seldom_leaves_a_rarer_collector_alone(threshold):
    usual = gc.get_threshold()
    try:
        gc.set_threshold(threshold, *usual[1:])
        with collector.seldom():
            assert gc.get_threshold()[0] == threshold
        assert gc.get_threshold()[0] == threshold
    finally:
        gc.set_threshold(*usual)


def test_settled_objects_are_old_and_none_are_frozen():
    thing: list = []
    thing.append(thing)
    gc.unfreeze()  # what the tests have frozen
    try:
        assert any(x is thing for x in gc.get_objects(0))
        collector.settle()
        assert not any(x is thing for x in gc.get_objects(0))
        assert gc.get_freeze_count() < collector.FROZEN
    finally:
        gc.freeze()


def test_settle_leaves_frozen_objects_frozen():
    gc.freeze()
    count = gc.get_freeze_count()
    collector.settle()
    assert gc.get_freeze_count() > count // 2 > 0  # another thread may free some


def test_seldom_keeps_what_the_block_set():
    usual = gc.get_threshold()
    try:
        with pytest.raises(KeyError), collector.seldom():
            gc.set_threshold(123)
            raise KeyError
        assert gc.get_threshold()[0] == 123
    finally:
        gc.set_threshold(*usual)


def test_lazy_module_sees_what_is_patched(monkeypatch):
    lazy = lazy_module("..string", "tests.a")  # a name without such a module
    with pytest.raises(ImportError):
        lazy.digits  # noqa: B018
    lazy = lazy_module("string")
    assert lazy.digits == "0123456789"
    monkeypatch.setattr("string.digits", "01")
    assert lazy.digits == "01"


def test_kernels_in_python_load_no_compiler(found):
    assert found["kernels"] == [False, 0]


def test_vectors_distributions_and_complex_numbers_load_no_sympy(found):
    """torch makes products with vectors by ops that change a tensor's shape in place; its kernels of others are Python."""
    assert found["vectors"] == [False, False]


@pytest.mark.parametrize("level", ["loud", "9"])
def test_a_level_of_the_environment_that_is_none(level):
    done = subprocess.run(
        [sys.executable, "-c", "import tograph"],
        env={**os.environ, "TOGRAPH_DEBUG": level},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert f"TOGRAPH_DEBUG is a whole number from 0 to 5, not {level!r}" in last
