"""Variables that the CUDA graph writes itself, with a driver that runs on the CPU."""

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import plan_on_cpu
from tograph.runtime.gpu import (
    capture,
    planner,
    pointers,
    program,
    refresh,
    storage,
    stores,
)
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.plan import Copy
from tograph.runtime.gpu.retarget import retarget

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def cuda(cuda, monkeypatch):
    monkeypatch.setattr(capture, "probed", lambda place: "")
    monkeypatch.setattr(pointers, "SMALLEST", 1)
    plan_on_cpu(monkeypatch)
    return cuda


def planned(fn, *args):
    return planner.plan(retarget(tg.function(fn).get_concrete_function(*args).value_graph, "cuda:0"))  # fmt: skip


def started(fn, *args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = program.Program(retarget(graph, "cuda:0"))
    made.plan.device = "cpu"
    return made


def step(w, m, x):
    """Momentum: what is returned is the loss before the step."""
    loss = ((w * x) ** 2).sum()
    m.mul_(0.9).add_(w * x * x * 2)
    w.sub_(m * 0.01)
    return loss


def compared(made, fn, variables, inputs, calls=6):
    """Calls beside plain Python; how many tensors each has copied into variables."""
    want = [v.clone() for v in variables]
    keep, copied = [], []
    for k in range(calls):
        given = inputs(k)
        keep.append(given)
        versions = [v._version for v in variables]
        copied.append(made.copied(lambda given=given: made.run([*variables, *given])))
        expected = fn(*want, *given)
        torch.testing.assert_close(copied[-1][1][0], expected)
        for v, w, before in zip(variables, want, versions, strict=True):
            torch.testing.assert_close(v, w)
            assert v._version > before
    return [n for n, _ in copied]


@pytest.fixture
def counted(monkeypatch):
    """Gives a program ``copied(call)``: (how many tensors were stored behind the run, what the call gives)."""

    def count(made):
        def copied(call):
            seen = []
            before = storage.Memory._assign

            def assign(self, inputs, values):
                seen.extend(values)
                before(self, inputs, values)

            with monkeypatch.context() as patch:
                patch.setattr(storage.Memory, "_assign", assign)
                out = call()
            return len(seen), out

        made.copied = copied
        return made

    return count


def test_variables_that_stay_are_written_by_the_graph(cuda, counted):
    w, m = torch.randn(8), torch.zeros(8)
    made = counted(started(step, w, m, torch.ones(8)))
    stored = compared(made, step, [w, m], lambda k: [torch.rand(8)])
    assert stored == [2, 2, 0, 0, 0, 0]
    assert list(made._runner.plan.stored.values()) == [0, 1]


def test_kernels_write_the_variable_without_a_copy():
    plan = planned(step, torch.randn(8), torch.zeros(8), torch.ones(8))
    made = coalesced(stores.stored(plan, sorted(stores.storable(plan))))
    targets = {a for s in made.steps if isinstance(s, Copy) for a, _ in s.pairs}
    assert len(made.stored) == 2 and targets.isdisjoint(made.stored)


def test_a_capture_does_not_change_them(cuda):
    w, m = torch.randn(8), torch.ones(8)
    plan = program.planner.plan(retarget(tg.function(step).get_concrete_function(w, m, w).value_graph, "cuda:0"))  # fmt: skip
    before = w.clone(), m.clone()
    own = stores.stored(plan, [0, 1])
    capture.Captured(own, {plan.inputs[0]: w, plan.inputs[1]: m})
    assert torch.equal(w, before[0]) and torch.equal(m, before[1])


def test_a_loop_ends_in_the_variable(cuda, counted):
    def shrink(w, x):
        while w.sum() > 1:
            w.mul_(0.5).sub_(x * 0.01)
        return w.sum()

    w = torch.rand(6) * 9
    made = counted(started(shrink, w, torch.ones(6)))
    assert compared(made, shrink, [w], lambda k: [torch.rand(6)])[2:] == [0] * 4


# ---- what keeps a variable out, or could


def swap(a, b):
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return (a - b).sum()


def returned(w):
    old = w.clone()
    w.mul_(2)
    return old


def failing(w, n):
    w.add_(1)
    return w.sum() + 7 // n


def test_an_exchange_is_stored_by_the_call(cuda, counted):
    assert stores.storable(planned(swap, torch.ones(4), torch.zeros(4))) == {}
    a, b = torch.rand(4), torch.rand(4)
    compared(counted(started(swap, a, b)), swap, [a, b], lambda k: [])


def test_an_old_value_that_is_returned(cuda, counted):
    w = torch.rand(4)
    compared(counted(started(returned, w)), returned, [w], lambda k: [])


def test_what_may_fail_changes_nothing_when_it_does():
    plan = planned(failing, torch.ones(4), torch.tensor(3))
    assert plan.error is not None and stores.storable(plan) == {}


def test_what_prints_is_stored_by_the_call():
    def telling(w):
        print(w.sum())
        w.add_(1)
        return w.sum()

    assert stores.storable(planned(telling, torch.ones(4))) == {}


def test_memory_that_two_inputs_share():
    whole = torch.zeros(20)
    a, b, c = whole[:8], whole[8:16], torch.zeros(9)
    assert stores.apart([a, b, c, 3], [0, 1, 2]) == [2]
    assert stores.apart([a, c[1:]], [0, 1]) == [0]  # kernels are made for another alignment


def test_an_input_that_is_the_variable_itself_is_read_before(cuda, counted, monkeypatch):
    """An input that may be elsewhere in each call is read in place, but not where the graph writes."""
    monkeypatch.setattr(refresh, "LARGE", 16)

    def add(x, w):
        y = torch.relu(x) + w
        w.add_(x)
        return y.sum(), y * x

    w = torch.rand(4)
    made = started(add, torch.ones(4), w)
    given = [torch.rand(4) for _ in range(4)]
    for x in given:
        made.run([x, w])
    assert made.pointers.moving == {0} and made._runner.plan.stored
    alias = w[:]
    want = (torch.relu(w) + w).sum(), (torch.relu(w) + w) * w, w * 2
    got = made.run([alias, w])
    for a, b in zip([*got, w], want, strict=True):
        torch.testing.assert_close(a, b)


def test_a_variable_that_moves_is_stored_by_the_call_again(cuda, counted):
    w, m = torch.randn(8), torch.zeros(8)
    made = counted(started(step, w, m, torch.ones(8)))
    compared(made, step, [w, m], lambda k: [torch.rand(8)], 4)
    other = w.clone()
    before = w.clone()
    assert compared(made, step, [other, m], lambda k: [torch.rand(8)], 3) == [1, 1, 1]
    assert torch.equal(w, before)
