"""What steps wait for: exactly the transitive reduction of all hazards, and every order that keeps to it gives the same."""

import random
import re

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, install
from tograph.runtime.gpu import capture, hazards, planner
from tograph.runtime.gpu.bounded import Bounded
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.plan import Call, Cell, Conditional, Copy, Plan, View
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.steps import bases, reads, walk, writes
from tograph.runtime.graph.ir import Graph, Value
from tograph.runtime.graph.types import TensorType

VECTOR = TensorType(torch.float32, (4,), "cpu")
TRUTH = TensorType(torch.bool, (), "cpu")


def random_plan(seed):
    """Sums, copies of several buffers, views and branches on few buffers."""
    rng = random.Random(seed)
    cells = [Cell(f"m{k}", VECTOR) for k in range(6)]
    flag = Cell("flag", TRUTH)
    views = []

    def simple():
        a, b = rng.choice(cells + views), rng.choice(cells)
        if rng.random() < 0.7:
            return Call("aten.add.Tensor", (a, b), {"alpha": 2}, [rng.choice([c for c in cells if c is not b])])  # fmt: skip
        targets = rng.sample(cells, 2)
        return Copy([(t, c) for t, c in zip(targets, rng.sample([c for c in cells if c not in targets], 2))])  # fmt: skip

    steps = []
    for _ in range(rng.randrange(3, 14)):
        kind = rng.random()
        if kind < 0.1:
            views.append(Value(VECTOR))
            steps.append(View("aten.alias.default", (rng.choice(cells),), {}, views[-1]))  # fmt: skip
        elif kind < 0.25:
            steps.append(Conditional("if", 0, flag, [[simple()], [simple(), simple()]]))
        else:
            steps.append(simple())
    buffers = dict.fromkeys(cells)
    form = Bounded(Graph("random"), [], [], [], 0)
    return Plan("random", "cpu", [], cells, steps, buffers, {flag: rng.random() < 0.5}, form=form)


def touched(step, what, of):
    return {of.get(p, p) for s in walk([step]) if not isinstance(s, View) for p in what(s)}


def conflict(a, b, of):
    """Whether two steps may not change places."""
    wrote, writing = touched(a, writes, of), touched(b, writes, of)
    return bool(wrote & (touched(b, reads, of) | writing) or touched(a, reads, of) & writing)


def closure(steps, of):
    """(i, j) for all steps i that j comes after."""
    found = set()
    for j in range(len(steps)):
        for i in reversed(range(j)):
            if conflict(steps[i], steps[j], of):
                found |= {(i, j)} | {(h, j) for h in range(i) if (h, i) in found}
    return found


@pytest.mark.parametrize("seed", range(60))
def test_edges_are_the_transitive_reduction_of_the_hazards(seed):
    plan = random_plan(seed)
    whole = closure(plan.steps, bases(plan.steps))
    needed = {(i, j) for i, j in whole if not any((i, k) in whole and (k, j) in whole for k in range(i, j))}  # fmt: skip
    assert needed == {(i, j) for j, before in enumerate(plan.edges(plan.steps)) for i in before}


def shuffled(plan, rng):
    """The steps in any order that keeps to the edges; views come first."""
    waiting = dict(enumerate(plan.edges(plan.steps)))
    order = [j for j, s in enumerate(plan.steps) if isinstance(s, View)]
    for j in order:
        del waiting[j]
    while waiting:
        ready = [j for j, before in waiting.items() if waiting.keys().isdisjoint(before)]
        order.append(rng.choice(ready))
        del waiting[order[-1]]
    return [plan.steps[j] for j in order]


@pytest.mark.parametrize("seed", range(60))
def test_every_order_of_the_edges_gives_the_same(seed):
    plan, rng = random_plan(seed), random.Random(seed)
    start = {p: torch.randn(4) for p in plan.buffers}
    results = []
    for order in (plan.steps, *(shuffled(plan, rng) for _ in range(5))):
        runner = Stepwise(plan, "cpu")
        for p, x in start.items():
            runner.memory.of[p].copy_(x)
        views = [s for s in order if isinstance(s, View)]
        runner.steps([*views, *(s for s in order if not isinstance(s, View))])
        results.append(torch.stack([runner.memory.of[p] for p in plan.buffers]))
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("seed", range(40))
def test_lanes_keep_to_the_edges(seed, monkeypatch):
    """A step comes after those of its lane, and after those that it waits for: nothing else is needed."""
    monkeypatch.setattr(hazards, "LEAST", 0.0)
    plan = random_plan(seed)
    after = plan.edges(plan.steps)
    lanes = hazards.streams(plan.steps, after)
    assert set(lanes) <= set(range(hazards.LANES)) and (not lanes or lanes[0] == 0)
    assert len({k for k in lanes}) == max(lanes) + 1


# ---- plans of graphs


def plan_of(fn, *args, whole=True):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    return coalesced(planner.plan(retarget(graph, "cuda:0"), whole))


def two_loops(x, y, w):
    while x.sum() > 1:
        x = (x @ w) * 0.4
    while y.sum() > 1:
        y = (y @ w) * 0.3
    return x + y


GIVEN = torch.full((2, 2), 3.0), torch.full((2, 2), 5.0), torch.eye(2)


def test_loops_that_share_nothing_are_lanes():
    plan = plan_of(two_loops, *GIVEN)
    after = plan.edges(plan.steps)
    lanes = hazards.streams(plan.steps, after)
    loops = [j for j, s in enumerate(plan.steps) if isinstance(s, Conditional)]
    assert len({lanes[j] for j in loops}) == 2


def test_small_kernels_stay_on_one_stream():
    plan = plan_of(lambda x, y: ((x + 1).sum(0), (y * 2).sum(1)), torch.ones(3, 4), torch.ones(3, 4))  # fmt: skip
    assert set(hazards.streams(plan.steps, plan.edges(plan.steps))) == {0}


def test_kernels_that_fill_the_device_stay_on_one_stream():
    large = tg.TensorSpec([8192, 8192], torch.float32, device="cuda:0")
    fn = tg.function(lambda x, y: (x.exp().sum(0), y.exp().sum(1)))
    plan = planner.plan(fn.get_concrete_function(large, large).value_graph)
    assert max(map(hazards.seconds, plan.steps)) > hazards.LEAST
    assert set(hazards.streams(plan.steps, plan.edges(plan.steps))) == {0}


def test_a_step_alone_is_no_lane():
    plan = plan_of(lambda x, w: torch.relu(x @ w) @ w, torch.ones(4, 4), torch.ones(4, 4))
    assert set(hazards.streams(plan.steps, plan.edges(plan.steps))) == {0}


def test_the_text_of_a_plan_has_its_edges():
    plan = plan_of(two_loops, *GIVEN)
    for j, before in enumerate(plan.edges(plan.steps)):
        line = next(x for x in str(plan).splitlines() if x.startswith(f"  {j}: "))
        assert re.findall(r" after ([\d, ]+?)(?:  #|$)", line) == ([", ".join(map(str, before))] if before else [])  # fmt: skip


# ---- captured


def test_a_capture_forks_and_joins(monkeypatch, interpreted):
    cuda = Cuda()
    install(monkeypatch, cuda)
    plan = plan_of(two_loops, *GIVEN, whole=False)
    plan.device = "cpu"
    made = capture.Captured(plan)
    assert made.forks == 1 and not cuda.capturing
    root = made.graphs[0].root
    loops = [i for i, (kind, *_) in enumerate(root.nodes) if kind == "CONDITIONAL"]
    assert not any(a in root.behind(root.nodes[b][2]) for a in loops for b in loops)
    inside = [p for p in made.streams if len(p) == 2]
    assert sorted(inside) == [
        (0, 0),
        (1, 0),
    ]  # bodies that may run at once have streams of their own
    want = two_loops(*GIVEN)
    for _ in range(6):  # the driver takes another order each time
        torch.testing.assert_close(made.run(*GIVEN)[0], want)
    assert capture.Captured(plan, fork=False).forks == 0


def test_a_driver_that_refuses_to_fork_gets_a_chain(monkeypatch, interpreted):
    cuda = Cuda()
    install(monkeypatch, cuda)
    plan = plan_of(two_loops, *GIVEN, whole=False)
    plan.device = "cpu"

    def refuse(self, event, before=torch.cuda.Stream.wait_event):
        if cuda.capturing:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        before(self, event)

    monkeypatch.setattr(torch.cuda.Stream, "wait_event", refuse)
    made = capture.captured(plan)
    assert made.forks == 0 and not cuda.capturing
    torch.testing.assert_close(made.run(*GIVEN)[0], two_loops(*GIVEN))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_what_a_driver_refuses_costs_no_more_than_it_has_to(most, monkeypatch):
    tried = []

    def capturing(plan, bound, moving, fork, fuse, form):
        tried.append((fork, fuse is not None, form is compact))
        if len(tried) < most:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return tried[-1]

    monkeypatch.setattr(capture, "unfused", lambda plan: "")
    monkeypatch.setattr(capture, "Captured", capturing)
    plan = plan_of(two_loops, *GIVEN, whole=False)
    capture._captured(plan, None, None)
    whole = (True, True, True), (False, True, True), (False, False, True), (False, False, False)
    assert tried == [*whole[:most]]


def test_a_stream_that_torch_gives_twice_is_not_used_for_two_paths(monkeypatch, interpreted):
    cuda = Cuda()
    install(monkeypatch, cuda)
    fresh = torch.cuda.Stream

    def stream(device=None):
        made = fresh()
        made.cuda_stream = 900 + made.cuda_stream % 2
        return made

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(
        torch.cuda, "ExternalStream", None
    )  # streams are torch's where the driver gives none
    plan = plan_of(two_loops, *GIVEN, whole=False)
    plan.device = "cpu"
    with pytest.raises(capture.driver.DriverError, match="more than 2 streams"):
        capture.Captured(plan)
    made = capture.captured(plan)
    assert made.forks == 0
    torch.testing.assert_close(made.run(*GIVEN)[0], two_loops(*GIVEN))
