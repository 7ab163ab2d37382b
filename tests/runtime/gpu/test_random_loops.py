"""Random loops as captured plans, with every step that could be on a stream of its own on one: what the graph gives, in any order of the edges.

`TOGRAPH_TEST_PROGRAMS=50` in the environment runs that many instead of the 4 of every run.
"""

import linecache
import os

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, install
from tests.runtime.gpu.loop_writer import source
from tests.runtime.gpu.test_programs import same
from tograph.errors import SharedMemoryError
from tograph.runtime.gpu import capture, fused_code, hazards, planner
from tograph.runtime.gpu.plan import check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph import interp

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
COUNT = int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "4"))
ROOM = 24  # items of a list


def define(seed):
    text, name = source(seed), f"<loop {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"torch": torch}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def copies(inputs):
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_loop(seed, monkeypatch):
    install(monkeypatch, Cuda())
    monkeypatch.setattr(hazards, "LEAST", 0.0)
    made = torch.Generator().manual_seed(seed)
    args = [torch.randn(2, 2, generator=made) for _ in range(3)]
    try:
        concrete = tg.function(define(seed)).get_concrete_function(*args, torch.tensor(3))
    except SharedMemoryError:
        pytest.skip("a list whose items change")
    graph = concrete.value_graph
    plan = planner.plan(retarget(graph, "cuda:0"), capacity=ROOM, whole=False)
    assert check(plan) == []
    plan.device = "cpu"
    runner = capture.Captured(plan, fuse=fused_code.fused_for if seed % 2 else None)
    for n in (3, 0):
        tensors, _ = concrete._bind(concrete, (*args, torch.tensor(n)), {})
        given = [*tensors, *concrete.captured_inputs]
        same(runner.run(*copies(given)), interp.run(graph, copies(given)))
