"""Prints and Python functions of plans: in order, and once, also where the plan fails after them."""

import pytest
import torch

import tograph as tg
from tograph.runtime.execution import scheduler
from tograph.runtime.gpu import capture, planner, program
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.gpu.plan import check
from tograph.runtime.gpu.resume import resumed
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def graph_of(fn, *args):
    return tg.function(fn).get_concrete_function(*args).value_graph


def counting(x):
    steps = 0
    while x.sum() > 1:
        print("step", steps, f"{x.sum():.2f}")
        x = tg.py_function(lambda v: v * 0.5, [x], tg.TensorSpec([2], torch.float32))
        steps += 1
    print("end", x)
    return x, steps


@pytest.mark.parametrize("runner", [Stepwise, Chunked])
def test_the_host_acts_in_order(runner, capsys):
    made = planner.plan(retarget(graph_of(counting, torch.ones(2)), "cuda:0"), whole=False)
    assert check(made) == [] and "host tg.print" in str(made) and "host WHILE" in str(made)
    assert {
        "host while": 1,
        "host": 4,
    }.items() <= made.nodes().items() and "while" not in made.nodes()
    x, steps = runner(made, "cpu").run(torch.full((2,), 3.0))
    assert (x.tolist(), steps) == ([0.375, 0.375], 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["step 0 6.00", "step 1 3.00", "step 2 1.50", "end tensor([0.3750, 0.3750])"]


@pytest.fixture
def started(monkeypatch):
    """Makes the runner of a graph whose plans run in chunks on the CPU."""
    made = planner.plan

    def plan(graph, whole=True, capacity=None, **_):
        found = made(graph, False, capacity)
        found.device = "cpu"
        return found

    def start(graph):
        runner = scheduler.build(graph)
        runner._native, runner._left = program.Program(retarget(graph, "cuda:0")), 0
        return runner

    monkeypatch.setattr(program.planner, "plan", plan)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(capture, "lacking", lambda plan: "no driver")
    monkeypatch.setattr(program, "warn_once", lambda text: None)
    return start


def limited(x):
    total = 0
    while x.sum() < 100:
        print("sum", x.sum())
        assert x.sum() < 10, "too much"
        x = x * 2
        total += 1
    return x, total


def test_what_was_printed_before_a_failure_is_printed_once(started, capsys):
    runner = started(graph_of(limited, torch.ones(2)))
    with pytest.raises(AssertionError, match="too much"):
        runner.run(torch.ones(2))
    assert capsys.readouterr().out.splitlines() == [f"sum tensor({n}.)" for n in (2, 4, 8, 16)]


def test_a_python_function_that_raises_is_called_once(started):
    seen = []

    def fail(v):
        seen.append(float(v))
        if len(seen) == 3:
            raise KeyError("third")
        return v * 2

    def loop(x):
        while x < 100:
            x = tg.py_function(fail, [x], tg.TensorSpec([], torch.float32))
        return x

    runner = started(graph_of(loop, torch.tensor(1.0)))
    with pytest.raises(KeyError, match="third"):
        runner.run(torch.tensor(1.0))
    assert seen == [1.0, 2.0, 4.0]


def test_a_python_function_and_a_variable_stay_on_the_host():
    weight = torch.ones(2)

    def both(x):
        weight.mul_(2)
        return tg.py_function(lambda v: v + weight, [x], tg.TensorSpec([2], torch.float32))

    with pytest.raises(Unsupported, match="may see a variable"):
        planner.plan(retarget(graph_of(both, torch.ones(2)), "cuda:0"))


def test_going_on_after_some_effects(capsys):
    graph = graph_of(counting, torch.ones(2))
    log = [(), (torch.tensor([1.5, 1.5]),), ()]
    x, steps = resumed(graph, [torch.full((2,), 3.0)], log)
    assert (x.tolist(), steps) == ([0.375, 0.375], 3)
    assert capsys.readouterr().out.splitlines() == ["step 2 1.50", "end tensor([0.3750, 0.3750])"]
