"""Samples and workloads as plans: every kernel in Triton's interpreter, all results beside the reference interpreter's."""

import importlib.util
from pathlib import Path

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.triton_samples import flat
from tests.runtime.kernels.triton_worker import interpret
from tograph.bench import programs
from tograph.runtime import interp
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.plan import Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device, triton_jit

pytest.importorskip("triton")
SAMPLES = Path(__file__).parents[3] / "samples"


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Kernels start in Triton's interpreter, on CPU tensors."""

    def launch(source, arguments):
        after = interpret(source, {n: flat(arguments[n]) for n in source.signature})
        for name in source.signature:
            torch.as_strided(arguments[name], after[name].shape, (1,)).copy_(after[name])

    monkeypatch.setattr(device, "launch", launch)


def sample(name):
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main_function, module.example_inputs()


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.5


def gru_inputs():
    weights = random(4, 12), random(4, 12, seed=1), random(12, seed=2), random(12, seed=3)
    return random(5, 3, 4), torch.tensor([2, 3, 1], dtype=torch.int32), *weights


def orbit():
    y = torch.tensor([[10.0, 8.0, 5.0], [5.0, 4.0, 3.0]])
    p = torch.tensor([1.1, 0.1, 1.2, 0.07]).unsqueeze(1).expand(4, 3).contiguous()
    return y, p, torch.tensor(2.0)


CASES = {
    "collatz": lambda: sample("collatz"),
    "newton": lambda: sample("newton"),
    "power_iteration": lambda: sample("power_iteration"),
    "beam_search": lambda: sample("beam_search"),
    "gru": lambda: (tg.function(programs.gru), gru_inputs()),
    "runge_kutta": lambda: (tg.function(programs.runge_kutta), orbit()),
    "norm": lambda: (tg.function(programs.norm_gelu_residual), (random(3, 1024), random(1024, seed=1), random(1024, seed=2))),
    "trivial": lambda: (tg.function(programs.trivial), (torch.arange(4.0), torch.ones(4))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_plan_gives_what_the_graph_gives(name):
    f, args = CASES[name]()
    concrete = f.get_concrete_function(*args)
    graph = concrete.watched_graph
    tensors, _ = concrete._bind(concrete, args, {})
    given = [*tensors, *concrete.captured_inputs]
    made = planner.plan(retarget(graph, "cuda:0"))
    assert check(made) == []
    for got, want in zip(Stepwise(made, "cpu").run(*given), interp.run(graph, given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want), rtol=1e-4, atol=1e-4)  # fmt: skip


@pytest.mark.parametrize("name", ["gru", "runge_kutta", "norm", "beam_search"])
def test_the_kernels_compile_and_spill_nothing(name):
    f, args = CASES[name]()
    made = planner.plan(retarget(f.get_concrete_function(*args).watched_graph, "cuda:0"))
    for step, _ in made.walk():
        if isinstance(step, Run):
            assert triton_jit.compiled(step.source, "sm_90").resources.spills == 0
