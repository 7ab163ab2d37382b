"""Loops that the host visits where it has something to do: the same effects in the same order, with fewer looks."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import capture, planner
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.plan import Conditional, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.gpu.visits import visited
from tograph.runtime.graph import interp

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def cuda(cuda, monkeypatch):
    for name in ("probed", "fuses"):
        monkeypatch.setattr(capture, name, lambda place: "")
    monkeypatch.setattr(capture, "told", lambda plan, room: plan)  # visits alone
    return cuda


def graph_and_plan(fn, args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = planner.plan(retarget(graph, "cuda:0"), whole=False)
    made.device = "cpu"
    return graph, made


def looks(made):
    """The bodies that the host runs: each is behind one look at a condition."""
    found = []
    decide = made.decide

    def counted(step, body):
        decide(step, lambda k: (found.append(step.kind), body(k)))

    made.decide = counted
    return found


def logged(x, n):
    i = torch.zeros_like(n)
    while i < n:
        x = x @ x * 0.5 + 0.1
        if i % 3 == 1:
            print(f"step {i} {x.sum():.3f}")
        i = i + 1
    return x, i


def in_the_other_branch(x, n):
    while n > 0:
        if n % 4 != 2:
            x = x * 0.5
        else:
            print("at", n, x.sum())
            x = x + 1
        n = n - 1
    return x, n


def a_condition_that_changes(x, n):
    """The branch is taken where a variable of the loop says so, which is another one behind it."""
    say = torch.tensor(False)
    while n > 0:
        if say:
            print("said", n)
        x = x * 0.9
        say = n % 3 == 0
        n = n - 1
    return x, say


def leaves(x, n):
    while n > 0:
        x = x * 0.5
        if x.sum() < 1:
            print("small", x.sum())
            break
        n = n - 1
    return x, n


def in_loops(x, n):
    while n > 0:
        k = torch.zeros_like(n)
        while k < n:
            x = x * 0.9
            if k == 2:
                print("inner", n, k)
            k = k + 1
        n = n - 1
    return x, n


PROGRAMS = {f.__name__: f for f in (logged, in_the_other_branch, a_condition_that_changes, leaves, in_loops)}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_the_host_sees_the_same_in_the_same_order(name, n, cuda, capsys):
    args = torch.tensor([[0.9, 0.2], [0.1, 0.8]]), torch.tensor(n)
    graph, plan = graph_and_plan(PROGRAMS[name], args)
    made = capture.captured(plan)
    assert any("visit" in s.source.name for s, _ in made.plan.walk() if hasattr(s, "source"))
    want = interp.run(graph, args)
    said = capsys.readouterr().out
    for _ in range(2):
        for a, b in zip(made.run(*args), want, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
        assert capsys.readouterr().out == said
    assert (n < 7) or said


def test_the_host_looks_only_where_it_is_wanted(cuda, capsys):
    args = torch.eye(2), torch.tensor(21)
    _, plan = graph_and_plan(logged, args)
    found = looks(made := capture.captured(plan))
    made.run(*args)
    visits = len(capsys.readouterr().out.splitlines())
    assert visits == 7 and found.count("while") == found.count("if") == visits + 1


def test_a_failure_is_seen_before_the_host_does_anything(cuda, capsys):
    def divided(x, n):
        while n > -2:
            x = x // n
            if n < 2:
                print("below", n)
            n = n - 1
        return x

    _, plan = graph_and_plan(divided, (torch.tensor([100, 90]), torch.tensor(2)))
    made = capture.captured(plan)
    for _ in range(2):
        with pytest.raises(Failed) as caught:
            made.run(torch.tensor([100, 90]), torch.tensor(2))
        assert capsys.readouterr().out == "below tensor(1)\n" and len(caught.value.log) == 1


def test_the_plan_is_valid_and_its_handles_are_numbers_of_their_own():
    _, plan = graph_and_plan(in_loops, (torch.eye(2), torch.tensor(3)))
    made = visited(coalesced(plan))
    handles = [s.handle for s, _ in made.walk() if isinstance(s, Conditional)]
    assert check(made) == [] and len(set(handles)) == len(handles)
    assert "WHILE" in str(made) and set(made.buffers) > set(coalesced(plan).buffers)


def always(x):
    while x.sum() > 1:
        print("x")
        x = x * 0.5
    return x


def twice(x):
    while x.sum() > 1:
        if x.sum() > 2:
            print("large")
        x = x * 0.5
        if x.sum() < 2:
            print("small")
    return x


def silent(x):
    while x.sum() > 1:
        x = x * 0.5
    return x


@pytest.mark.parametrize("fn", [always, twice, silent])
def test_what_stays_as_it_is(fn):
    plan = graph_and_plan(fn, (torch.ones(2),))[1]
    assert visited(plan) is plan


def test_without_nodes_the_host_runs_the_loop(cuda, monkeypatch, capsys):
    monkeypatch.setattr(capture, "probed", lambda place: "no")
    args = torch.eye(2), torch.tensor(4)
    _, plan = graph_and_plan(logged, args)
    found = looks(made := capture.captured(plan))
    made.run(*args)
    assert found.count("while") == 4 and "step 1" in capsys.readouterr().out


def test_what_no_body_can_hold_leaves_the_loop_to_the_host(cuda, monkeypatch, capsys):
    call = capture.Captured._call

    def refuse(self, step):
        if self._capturing and len(self.path) > 1:
            raise RuntimeError("not permitted in a body")
        return call(self, step)

    monkeypatch.setattr(capture.Captured, "_call", refuse)
    args = torch.eye(2), torch.tensor(4)
    graph, plan = graph_and_plan(logged, args)
    made = capture.captured(plan)
    want = interp.run(graph, args)
    for a, b in zip(made.run(*args), want, strict=True):
        torch.testing.assert_close(a, b)
    assert not any("visit" in s.source.name for s, _ in made.plan.walk() if hasattr(s, "source"))
    assert not cuda.capturing
