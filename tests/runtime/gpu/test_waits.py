"""How often the host waits for the device in a call of each workload, once its inputs are known."""

import importlib

import pytest
import torch

import tograph as tg
from tests.runtime.gpu import simulated_benchmark
from tograph.bench import workloads
from tograph.runtime.gpu.block import Block

pytest.importorskip("triton")

# cg: a gradient outside of the function asks whether the loop has run at all, since its result has no history otherwise. a1, b: traces for a CPU, as
# these are, give a number more, which tells whether a result is an argument.
WAITS = {"cg": 1, "a1": 1, "b": 1}


@pytest.mark.parametrize("key", workloads.WORKLOADS)
def test_calls_of_workloads_do_not_wait(key, monkeypatch):
    gpu, made = simulated_benchmark.prepare(monkeypatch)
    seen, fetch = [], Block.fetch

    def fetched(self):
        found = fetch(self)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Block, "fetch", fetched)
    prepared = importlib.import_module("gpu_bench").prepared
    call = prepared(workloads.WORKLOADS[key], tg.function, torch.device("cpu"))
    for _ in range(2):
        call()
    seen.clear()
    call()
    assert sum(seen) == WAITS.get(key, 0)
    assert {level[1:3] for level in made.levels} == {("device", 1)} and not made.declined
