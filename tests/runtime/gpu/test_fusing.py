"""Which kernels set handles, what stays with the setter, and that both give the same, with a driver that runs on the CPU."""

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_graphs import Graph
from tests.runtime.kernels.loop_programs import divide, halve, nested
from tograph.runtime.gpu import capture, fused_code, planner
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.fusing import fused, guarded, loops
from tograph.runtime.gpu.plan import Copy, Set, Setting, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.graph import interp

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
EYE = torch.eye(2)


def graph_and_plan(fn, args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    return graph, planner.plan(retarget(graph, "cuda:0"), whole=False)


def planned(fn, *args):
    return fused(coalesced(graph_and_plan(fn, args)[1]))


def shape(plan):
    """(handles that kernels set, handles that the setter sets in bodies, nodes that it sets before)."""
    steps = [s for s, _ in plan.walk()]
    assert check(plan) == []
    by_kernels = sorted(t.handle for s in steps if isinstance(s, Setting) for t in s.told)
    apart = sorted(s.handle for s in steps if isinstance(s, Set))
    return by_kernels, apart, sum(not s.told for s in steps if hasattr(s, "told") and hasattr(s, "bodies"))  # fmt: skip


# ---- programs


def flag(x):
    """The condition is state, so that it is copied."""
    go = torch.tensor(True)
    while go:
        x = torch.tanh(x @ x) * 0.9
        go = x.abs().max() > 0.1
    return x


def branches(x):
    while x.sum() > 1:
        if x[0, 0] > 0.7:
            x = x @ x * 0.5
        else:
            x = x * 0.3
    return x


def switched(x, i):
    return tg.switch_case(i + 1, [lambda: x @ x, lambda: x @ x @ x, lambda: x * 0.5])


def failing_behind(x, y):
    """What may fail does not depend on the condition."""
    n = torch.tensor(3)
    while n > 0:
        n = n - 1
        x = (x @ x).to(torch.int64) // y
    return x


def library_condition(x):
    go = x.sum() > 1
    while go:
        x = x @ x * 0.5
        go = torch.isin(x, torch.tensor([1.0, 2.0])).any(0)[0]
    return x


PROGRAMS = {
    "a loop": (halve, (torch.tensor([3.0, 4.0]),), ([0, 0], [], 0)),
    "a condition that is state": (flag, (EYE + 0.3,), ([0], [], 1)),
    "branches": (branches, (EYE * 1.5 + 0.1,), ([0, 0, 1, 1], [], 0)),
    "a switch": (switched, (EYE + 0.5, torch.tensor(0)), ([0], [], 0)),
    "loops in loops": (nested, (EYE + 0.1, torch.tensor([[2.0, 1.0], [0.5, 3.0]])), ([0, 0, 1, 1], [], 0)),
    "a failure before": (divide, (torch.tensor(1000), torch.tensor(3)), ([0, 0], [], 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernel_that_computes_a_condition_sets_its_handle(name):
    fn, args, want = PROGRAMS[name]
    made = planned(fn, *args)
    assert shape(made) == want
    text = str(made)
    assert "that sets handle" in text and "  set handle" not in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_setters_give_the_same(name, cuda):
    fn, args, _ = PROGRAMS[name]
    graph, plan = graph_and_plan(fn, args)
    plan.device = "cpu"
    want = interp.run(graph, args)
    counts = []
    for fuse in (None, fused_code.fused_for):
        cuda.calls.clear()
        made = capture.Captured(plan, fuse=fuse)
        counts.append(cuda.calls.count("cuLaunchKernel"))
        for _ in range(2):
            for a, b in zip(made.run(*args), want, strict=True):
                torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    assert counts[1] < counts[0] and (counts[1] == 0 or name == "a condition that is state")


def test_a_failure_ends_the_loop(cuda):
    _, plan = graph_and_plan(divide, (torch.tensor(1000), torch.tensor(3)))
    plan.device = "cpu"
    made = capture.Captured(plan, fuse=fused_code.fused_for)
    with pytest.raises(Failed):
        made.run(torch.tensor(1000), torch.tensor(0))  # would run for ever
    assert int(made.run(torch.tensor(1000), torch.tensor(3))[0]) == 4


# ---- what stays


def test_the_setter_stays_where_something_behind_may_fail():
    made = planned(failing_behind, torch.tensor([[4, 2], [1, 9]]), torch.tensor([2, 1]))
    order = [getattr(s, "source", None) and "error" in s.source.signature for s, _ in made.walk()]
    assert made.error is not None and True in order
    by_kernels, apart, _ = shape(made)
    assert apart == [0] and by_kernels == [0]


def test_the_setter_stays_for_conditions_of_library_functions():
    by_kernels, apart, _ = shape(planned(library_condition, EYE))
    assert apart == [0] and by_kernels == [0]


def test_the_setter_stays_where_the_host_runs_the_loop():
    def telling(x):
        while x.sum() > 1:
            print(x.sum())
            x = x * 0.5
        return x

    made = planned(telling, torch.ones(2))
    assert shape(made)[:2] == ([], [0])


def test_a_kernel_without_code_leaves_its_handle_to_the_setter():
    plan = coalesced(graph_and_plan(halve, (torch.ones(2),))[1])
    assert shape(fused(plan, works=lambda step: False)) == shape(plan) == ([], [0], 1)
    inputs = frozenset(plan.inputs)
    assert shape(fused(plan, kept=inputs)) == ([0, 0], [], 0)  # the loop reads a copy of it


def test_a_copy_that_only_the_setter_read_goes():
    before, after = (p for p in (coalesced(graph_and_plan(flag, (EYE,))[1]), planned(flag, EYE)))
    count = lambda p: sum(len(s.pairs) for s, _ in p.walk() if isinstance(s, Copy))  # noqa: E731
    assert count(after) == count(before) - 1


# ---- the probe


def test_the_probe_runs_a_fused_loop(cuda, monkeypatch):
    probe = capture.probe_plan("cuda:0")
    probe.device = "cpu"
    monkeypatch.setattr(capture, "probe_plan", lambda place: probe)
    assert capture.fuses("cuda:0") == ""


@pytest.mark.parametrize(("answers", "want"), [([""], ""), (["no", ""], ""), (["no", "never"], "never")])  # fmt: skip
def test_one_probe_answers_both_questions_where_it_can(cuda, monkeypatch, answers, want):
    left = list(answers)
    monkeypatch.setattr(capture, "_tried", lambda make: left.pop(0))
    assert capture.probed("cuda:0") == want and not left


def test_a_kernel_that_sets_nothing_is_found_without_a_loop_that_never_ends(cuda, monkeypatch):
    probe = capture.probe_plan("cuda:0")
    probe.device = "cpu"
    monkeypatch.setattr(capture, "probe_plan", lambda place: probe)
    before = cuda._set
    by_setter = lambda name, *given: before(name, *given) if not fusing else None  # noqa: E731
    fusing = []
    run = fused_code.Kernel._run

    def without(self, *given):
        fusing.append(1)
        run(self, *given)
        fusing.clear()

    monkeypatch.setattr(fused_code.Kernel, "_run", without)
    monkeypatch.setattr(cuda, "_set", by_setter)
    for undefined, found in ((0, [0, 0, 0]), (1, [5, 0, 3])):
        monkeypatch.setattr(Graph, "undefined", undefined)
        capture.fuses.cache_clear()
        assert capture.fuses("cuda:0").startswith(f"a WHILE node gave {found}")


def test_a_guard_is_a_step_of_each_loop():
    made = planned(nested, EYE, EYE)
    assert sum(1 for _ in loops(made)) == 2
    assert shape(guarded(made))[1] == [0, 1]
