"""Samples and workloads as plans: every kernel in Triton's interpreter, all results beside the reference interpreter's."""

import importlib.util
import re
from pathlib import Path

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, install
from tograph.bench import programs
from tograph.runtime.gpu import capture, hazards, planner
from tograph.runtime.gpu.bounded import bounded
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.forms import Held
from tograph.runtime.gpu.plan import Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph import interp
from tograph.runtime.kernels import triton_jit
from tograph.runtime.kernels.triton_text import ERROR

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
SAMPLES = Path(__file__).parents[3] / "samples"


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


def escaping():
    f, (c, _) = sample("mandelbrot")
    return f, (c[::8, ::16].contiguous(), 5)


def letters():
    """A step of training on the first letters."""
    f, (weights, lines, lengths, _) = sample("language_model")
    return f, (weights, lines[:3], lengths.clamp(max=3), torch.tensor(1))


def episodes():
    f, (policy, noise) = sample("reinforce")
    return f, (policy, noise[:2, :5])


def decoding():
    """Ends after a few tokens."""
    d, words = 128, 9
    shapes = [(words, d), (128, d), *[(d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)] * 2]
    given = [random(*s, seed=i) * (2 if i < 2 else 2 / s[0] ** 0.5) for i, s in enumerate(shapes)]
    tokens = programs.greedy_decode(*given, torch.tensor(-1))
    return tg.function(programs.greedy_decode), (*given, tokens[3])


def training():
    shapes = [(5, 7), (7,), (7, 6), (6,), (6, 3), (3,)]
    weights = [random(*s, seed=i).requires_grad_() for i, s in enumerate(shapes)]
    target = torch.tensor([0, 2, 1, 0])
    return tg.function(programs.train_step), (
        random(4, 5),
        target,
        weights,
        [torch.ones(s) for s in shapes],
    )


CASES = {
    "collatz": lambda: sample("collatz"),
    "newton": lambda: sample("newton"),
    "power_iteration": lambda: sample("power_iteration"),
    "beam_search": lambda: sample("beam_search"),
    "mandelbrot": escaping,
    "language_model": letters,
    "reinforce": episodes,
    "decode": decoding,
    "train": training,
    "gru": lambda: (tg.function(programs.gru), gru_inputs()),
    "runge_kutta": lambda: (tg.function(programs.runge_kutta), orbit()),
    "norm": lambda: (tg.function(programs.norm_gelu_residual), (random(3, 1024), random(1024, seed=1), random(1024, seed=2))),
    "trivial": lambda: (tg.function(programs.trivial), (torch.arange(4.0), torch.ones(4))),
}  # fmt: skip
ROOM = 6  # items of a list: what lies beyond costs the interpreter time


@pytest.mark.parametrize("name", CASES)
def test_a_plan_gives_what_the_graph_gives(name):
    f, args = CASES[name]()
    concrete = f.get_concrete_function(*args)
    graph = concrete.value_graph
    tensors, _ = concrete._bind(concrete, args, {})
    given = [*tensors, *concrete.captured_inputs]
    compare(graph, given)


@pytest.mark.parametrize("name", ["beam_search", "decode", "train", "gru", "runge_kutta"])
def test_a_captured_plan_gives_the_same_in_any_order_of_its_edges(name, monkeypatch):
    """With every step that could be on a stream of its own on one; the driver takes another order in each run."""
    install(monkeypatch, Cuda())
    monkeypatch.setattr(hazards, "LEAST", 0.0)
    f, args = CASES[name]()
    concrete = f.get_concrete_function(*args)
    tensors, _ = concrete._bind(concrete, args, {})
    given = [*tensors, *concrete.captured_inputs]
    plan = planner.plan(retarget(concrete.value_graph, "cuda:0"), capacity=ROOM)
    plan.device = "cpu"
    made = capture.Captured(plan)
    assert made.forks or name in ("beam_search", "runge_kutta")
    for _ in range(2):
        mine, theirs = ([x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given] for _ in range(2))  # fmt: skip
        got, want = made.run(*mine), interp.run(concrete.value_graph, theirs)
        for a, b in zip([*got, *mine], [*want, *theirs], strict=True):
            same(a, b)


def same(a, b):
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))


def stored(source):
    """The parameters that a kernel writes, but for the error cell: the edges of a plan follow from what it says of them."""
    return {*re.findall(r"tl\.(?:store|atomic_\w+)\((\w+)", source.text)} - {ERROR}


def compare(graph, given):
    """Outputs and writes of a plan beside those of the graph; its outputs."""
    made = planner.plan(retarget(graph, "cuda:0"), capacity=ROOM)
    small = compact(made)
    assert check(made) == [] == check(coalesced(made)) == check(small)
    assert all(stored(s.source) <= s.writes for s, _ in made.walk() if isinstance(s, Run))
    mine, theirs = (
        [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given] for _ in range(2)
    )
    outputs = Stepwise(small, "cpu").run(*mine)
    for got, want in zip([*outputs, *mine], [*interp.run(graph, theirs), *theirs], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    return outputs


def numbered(x, n):
    """Rows with their numbers, and every second one of those beyond."""
    found = torch.zeros(())
    for i in torch.arange(n):
        found = found + (torch.arange(i, n + i, 2) * x[i]).sum()
    return found, torch.arange(n).to(x.dtype) * 0.5


def test_ranges_of_numbers_that_only_the_run_knows():
    x = torch.randn(6, generator=torch.Generator().manual_seed(0))
    for n in (5, 1):
        concrete = tg.function(numbered).get_concrete_function(x, torch.tensor(n))
        compare(concrete.value_graph, [x, torch.tensor(n)])


def test_a_gradient_is_two_plans():
    """Lists go from the forward plan to the backward one as a whole."""
    x, lengths, *weights = gru_inputs()
    f = tg.function(programs.gru)
    f(x, lengths, *(w.requires_grad_() for w in weights)).sum().backward()
    (pair,) = f.concrete_functions[0].gradients.differentiable._pairs.values()
    given = [x, lengths, *weights]
    outputs = compare(pair.program.graph, given)
    count = len(pair.graph.outputs)
    saved = [given[i] for i in pair.pullback.kept] + outputs[count : count + pair.saved]
    assert any(isinstance(s, Held) for s in saved)
    (backward,) = pair._backwards.values()
    gradients = compare(backward.graph, [*saved, torch.ones(3, 4)])
    for got, w in zip(gradients, weights, strict=True):
        torch.testing.assert_close(got, w.grad, rtol=1e-4, atol=1e-4)


def test_a_solver_that_is_trained_has_the_same_meaning_in_parts_of_fixed_size():
    f, args = sample("neural_ode")
    graph = f.get_concrete_function(*args).value_graph
    made = bounded(graph, "cpu", 64)
    got, _ = made.unpack(interp.run(made.graph, made.pack(args)))
    for a, b in zip(got, interp.run(graph, args), strict=True):
        torch.testing.assert_close(a, b)
    assert check(planner.plan(retarget(graph, "cuda:0"))) == []


@pytest.mark.parametrize("name", ["gru", "runge_kutta", "norm", "beam_search", "reinforce"])
def test_the_kernels_compile_and_spill_nothing(name):
    f, args = CASES[name]()
    made = planner.plan(retarget(f.get_concrete_function(*args).value_graph, "cuda:0"))
    for step, _ in made.walk():
        if isinstance(step, Run):
            assert triton_jit.compiled(step.source, "sm_90").resources.spills == 0
