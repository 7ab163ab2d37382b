"""Block sizes of loops inside of kernels: each choice gives the same, the fastest one is taken and kept. Times are made up."""

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.loop_programs import halve_each, one_slow
from tograph import settings
from tograph.runtime.gpu import capture, direct, loop_tuning, planner, program
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.loop_tuning import SHAPES, Loops
from tograph.runtime.gpu.plan import Copy, Run
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device, triton_loops

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted", "folder")
BEST = triton_loops.Shape(64, 1)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(triton_loops, "MOST", 64)
    return tmp_path


class Clock:
    """Kernels of the best shape are twice as fast. ``started``: what has run, with its arguments."""

    def __init__(self, pause=0.0):
        self.at, self.pause, self.started = 0.0, pause, []

    def now(self):
        return self.at

    def launch(self, source, arguments):
        self.started.append((source, arguments))
        device.launch(source, arguments)

    def seconds(self, start, times):
        self.at += self.pause
        start()
        source = self.started[-1][0]
        return 1e-4 if (source.constants["XBLOCK"], source.warps) == (BEST.block, BEST.warps) else 2e-4  # fmt: skip


def planned(loops, fn=halve_each):
    graph = tg.function(fn).get_concrete_function(one_slow()).value_graph
    return planner.plan(retarget(graph, "cuda:0"), shapes=loops.shape)


def loop_of(plan):
    return next(s for s in plan.steps if isinstance(s, Run) and s.source.name in plan.trials)


def test_each_shape_runs_on_the_memory_of_a_run_and_gives_the_same():
    clock = Clock()
    loops = Loops("cpu", clock.launch, clock)
    plan = planned(loops)
    runner = Stepwise(plan, "cpu")
    assert torch.equal(runner.run(one_slow())[0], halve_each(one_slow())[0])
    step = loop_of(plan)
    assert loops.measure(plan.steps, plan.trials, runner.memory.of)
    assert [(s.constants["XBLOCK"], s.warps) for s, _ in clock.started] == [(s.block, s.warps) for s in SHAPES]  # fmt: skip
    for source, arguments in clock.started:
        vectors = [n for n in source.signature if n[0] == "o" and arguments[n].shape == (600,)]
        assert vectors
        for name in vectors:
            known = runner.memory.of[step.arguments[name]]
            assert torch.equal(arguments[name], known) and arguments[name] is not known
    assert not loops.measure(plan.steps, plan.trials, runner.memory.of)  # once


def test_what_was_found_is_there_for_the_next_process():
    clock = Clock()
    loops = Loops("cpu", clock.launch, clock)
    plan = planned(loops)
    runner = Stepwise(plan, "cpu")
    runner.run(one_slow())
    loops.measure(plan.steps, plan.trials, runner.memory.of)
    later = planned(Loops("cpu", clock.launch, clock))
    assert loop_of(later).source.constants == {"XBLOCK": BEST.block}
    x, steps = Stepwise(later, "cpu").run(one_slow())
    assert torch.equal(x, halve_each(one_slow())[0]) and steps == halve_each(one_slow())[1]


def test_a_measurement_without_time_keeps_nothing(folder):
    clock = Clock(pause=loop_tuning.SECONDS)
    loops = Loops("cpu", clock.launch, clock)
    plan = planned(loops)
    runner = Stepwise(plan, "cpu")
    runner.run(one_slow())
    assert not loops.measure(plan.steps, plan.trials, runner.memory.of)
    assert len(clock.started) == 2 and not list(folder.glob("*.loop"))


def test_a_loop_whose_data_is_gone_is_not_measured():
    clock = Clock()
    loops = Loops("cpu", clock.launch, clock)
    plan = planned(loops)
    runner = Stepwise(plan, "cpu")
    runner.run(one_slow())
    read = plan.inputs[0]
    steps = [*plan.steps, Copy([(read, loop_of(plan).arguments["o0"])])]
    assert not loops.measure(steps, plan.trials, runner.memory.of) and not clock.started


def on_the_cpu(plan):
    plan.device = "cpu"
    return plan


@pytest.mark.parametrize("straight", [False, True])
def test_a_program_plans_again_with_what_is_faster(monkeypatch, straight):
    clock = Clock()
    plan, chosen = planner.plan, []

    def on_cpu(graph, capacity=None, **options):
        made = plan(graph, capacity=capacity, shapes=options["shapes"])
        made.device = "cpu"
        chosen.append(loop_of(made).source.constants["XBLOCK"])
        return made

    monkeypatch.setattr(program.planner, "plan", on_cpu)
    monkeypatch.setattr(program, "Loops", lambda device, launch: Loops("cpu", clock.launch, clock))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(direct, "worth", lambda plan: straight)
    monkeypatch.setattr(capture, "lacking", lambda plan: "")
    monkeypatch.setattr(capture, "captured", lambda plan, *_, **__: Stepwise(plan, "cpu"))
    graph = tg.function(halve_each).get_concrete_function(one_slow()).value_graph
    made = program.Program(retarget(graph, "cuda:0"))
    made._types = [v.type for v in graph.inputs]
    for _ in range(3):
        x, steps = made.run([one_slow()])
        assert torch.equal(x, halve_each(one_slow())[0]) and steps == halve_each(one_slow())[1]
    assert chosen == [triton_loops.BLOCK, BEST.block] and len(clock.started) == len(SHAPES)


def test_a_run_that_fails_is_not_measured_and_neither_are_those_behind_it(monkeypatch):
    def run(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(direct, "worth", lambda plan: False)
    monkeypatch.setattr(capture, "lacking", lambda plan: "")
    monkeypatch.setattr(capture, "captured", lambda plan, *_, **__: Stepwise(plan, "cpu"))
    plan = planner.plan
    monkeypatch.setattr(program.planner, "plan", lambda graph, **options: on_the_cpu(plan(graph, capacity=options["capacity"])))  # fmt: skip
    graph = tg.function(halve_each).get_concrete_function(one_slow()).value_graph
    made = program.Program(retarget(graph, "cuda:0"))
    made._types = [v.type for v in graph.inputs]
    assert made.plan.trials
    with monkeypatch.context() as failing:
        failing.setattr(made._runner, "play", run)
        with pytest.raises(torch.OutOfMemoryError):
            made.run([one_slow()])
    assert made._runner.behind is None
    assert torch.equal(made.run([one_slow()])[0], halve_each(one_slow())[0])
