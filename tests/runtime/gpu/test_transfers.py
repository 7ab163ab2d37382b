"""Graphs with tensors on a GPU and small ones on the CPU."""

import contextlib
import itertools

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import direct, downloads, planner, pointers, storage, uploads
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.messages import told
from tograph.runtime.gpu.plan import Host
from tograph.runtime.gpu.steps import places_in
from tograph.runtime.gpu.transfers import gathered
from tograph.runtime.graph.ir import Value
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.graph.types import TensorType
from tograph.runtime.kernels.device import gpu_of
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def spec(*shape, device="cuda:0", dtype=torch.float32):
    return tg.TensorSpec(list(shape), dtype, device=device)


def graph_of(fn, *specs):
    return tg.function(fn).get_concrete_function(*specs).value_graph


def decay(x, rate, n):
    i = torch.tensor(0)
    while i < n and x.sum() > 1:
        x = x * rate
        i = i + 1
    return x, i, n + 1


GIVEN = spec(5), spec(device="cpu"), spec(device="cpu", dtype=torch.int64)


def test_numbers_of_the_cpu_go_along():
    graph = graph_of(decay, *GIVEN)
    made, device, back = gathered(graph)
    assert device == gpu_of(graph.inputs) == "cuda:0" and back == {1, 2}
    assert "@cuda:0" in str(made) and "i64[] " not in str(made) and "f32[]," not in str(made)
    assert [v.type.device for v in graph.inputs] == ["cuda:0", "cpu", "cpu"]  # as it was


@pytest.mark.parametrize("n", [0, 2, 9])
def test_a_plan_gives_what_the_function_gives(n):
    plan = planner.plan(graph_of(decay, *GIVEN))
    assert plan.form.to_host == {1, 2} and "host" not in plan.nodes()
    given = torch.ones(5), torch.tensor(0.5), torch.tensor(n)
    runner = Stepwise(plan, "cpu")
    for a, b in zip(runner.run(*given), decay(*given), strict=True):
        torch.testing.assert_close(a, b)


def test_tensors_of_the_cpu_go_and_come_in_one_copy(monkeypatch):
    """With the numbers: the tensors of the device are the only ones that are copied by themselves."""

    def scaled(x, rates, n, shift):
        steps = 0
        while x.sum() > n:
            x = x * rates[0]
            steps += 1
        return x, rates.flip(0) + shift, n, steps, n

    specs = spec(5), spec(3, device="cpu"), spec(device="cpu", dtype=torch.int64), spec(3, device="cpu")  # fmt: skip
    plan = planner.plan(graph_of(scaled, *specs))
    copied, fetched = [], []
    together, cpu = storage.copy_all, torch.Tensor.cpu
    monkeypatch.setattr(storage, "copy_all", lambda a, b: copied.append(len(a)) or together(a, b))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: fetched.append(x.numel()) or cpu(x))
    runner = Stepwise(plan, "cpu")
    before = []
    for k in range(3):
        given = torch.rand(5) * 9, torch.tensor([0.5, 1.0, k]), torch.tensor(k), torch.ones(3) * k
        copied.clear(), fetched.clear()
        before.append((runner.run(*given), scaled(*given)))
        assert copied == [1, 1, 0] and sum(n > 0 for n in fetched[:1]) == 1
    for got, want in before:  # results belong to the caller
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
            assert type(a) is type(b)


def test_what_is_on_the_cpu_is_not_read_in_place(monkeypatch):
    monkeypatch.setattr(pointers, "SMALLEST", 1)
    plan = planner.plan(graph_of(lambda x, w: x * w, spec(5), spec(5, device="cuda:0")))
    given = torch.ones(5), torch.ones(5)
    for elsewhere, bound in (((), {0, 1}), ({1}, {0})):
        seen = pointers.Pointers(plan, elsewhere)
        for _ in range(pointers.CALLS):
            seen.moved(given)
        assert seen.bound == bound


def draws(x, n):
    return x * torch.rand(()), n


def prints(x, n):
    while n > 0:
        x = x * n
        print("n is", n, x.sum())
        print(f"{n}")
        if x.sum() < 3:
            n = tg.py_function(lambda k, y: k - 1, [n, x], tg.TensorSpec([], torch.int64))
        else:
            n = n - 2
    return x, n


def test_the_host_sees_tensors_of_the_cpu_there(capsys):
    """Numbers of the device that belong on the CPU are copied for it; others are not."""
    plan = planner.plan(graph_of(prints, spec(5), spec(device="cpu", dtype=torch.int64)))
    hosts = [s for s, _ in plan.walk() if isinstance(s, Host)]
    moved = [next(places_in(s.args)).type for s in hosts if s.op == "tg.on_cpu"]
    assert len(moved) == 3 and {t.dtype for t in moved} == {torch.int64}
    for n in (0, 4):
        given = torch.full((5,), 0.2), torch.tensor(n)
        want = prints(*given)
        said = capsys.readouterr().out
        for a, b in zip(Stepwise(told(plan, visits=False), "cpu").run(*given), want, strict=True):
            torch.testing.assert_close(a, b)
        assert capsys.readouterr().out == said


def much(x, n):
    big = torch.zeros(1 << 19) + n
    return x * big.sum()


@pytest.mark.parametrize(
    ("fn", "why"),
    [(draws, "rand"), (much, "much to copy")],
)
def test_what_stays_with_the_host(fn, why):
    with pytest.raises(Unsupported, match=why):
        planner.plan(graph_of(fn, spec(5), spec(device="cpu")))


BATCH = """
batch(%x: f32[512,512], %w: f32[512]@cuda:0) {
  %0: f32[512,512]@cuda:0 = aten._to_copy.default(%x, device=device("cuda:0"))
  %1: f32[512,512]@cuda:0 = aten.mul.Tensor(%0, %w)
  %2: f32[512,512] = aten._to_copy.default(%1, device=device("cpu"))
  return %1, %2
}
"""


def test_large_tensors_go_to_the_device_and_come_back():
    """1 MiB each; the CPU computes with none of them."""
    plan = planner.plan(parse_graph(BATCH))
    assert plan.form.from_host == {0} and plan.form.to_host == {1}
    x, w = torch.rand(512, 512), torch.rand(512)
    for runner in (Stepwise(plan, "cpu"), direct.Direct(plan, "cpu")):
        for got in runner.run(x, w):
            assert torch.equal(got, x * w)
    with pytest.raises(Unsupported, match="much to copy"):
        planner.plan(parse_graph(BATCH.replace("aten.mul.Tensor(%0", "aten.mul.Tensor(%x").replace("512]@cuda:0 = aten.mul", "512] = aten.mul").replace("512,", "1024,")))  # fmt: skip


class Stream:
    def __init__(self, *_):
        self.log = []

    def wait_event(self, event):
        self.log.append(("waits", event.name))

    def wait_stream(self, other):
        self.behind = other


class Event:
    def __init__(self):
        self.name, self.at = f"e{next(NUMBERS)}", None

    def record(self, stream):
        self.at = len(stream.log)
        stream.log.append(("records", self.name))

    def synchronize(self):
        WAITED.append(self.name)


NUMBERS, WAITED = itertools.count(), []


def test_uploads_take_turns_between_two_places(monkeypatch):
    """The transfer of a call waits for the reads of the last but one; the call waits for its transfer; the host for memory in use."""
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", lambda s: contextlib.nullcontext())
    now = Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: now)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda x, stream: None)
    monkeypatch.setattr(uploads, "locked", lambda shape, dtype: torch.zeros(shape, dtype=dtype))
    place = Value(TensorType(torch.float32, (3,), "cpu"))
    made = uploads.Uploads([place], torch.device("cpu"))
    seen = []
    for k in range(4):
        there = made.send(place, torch.full((3,), float(k)))
        assert torch.equal(there, torch.full((3,), float(k)))
        seen.append(there.data_ptr())
        made.done()
    assert seen[0] == seen[2] != seen[1] == seen[3]
    assert made.stream.behind is now  # the first transfer waits for what had the memory before
    assert {x.data_ptr() for x in made.device_memory} == {*seen}
    slots = [*made._slots[place]]
    order = [s for k in range(2) for s in (slots[0], slots[1])]
    assert [n for _, n in made.stream.log] == [x for s in order for x in (s.read.name, s.sent.name)]
    assert [n for _, n in now.log] == [x for s in order for x in (s.sent.name, s.read.name)]
    assert WAITED == [s.sent.name for s in order]


COUNTED = BATCH.replace("batch(%x", "batch(%n: int, %x").replace(
    "  return %1", "  %3: int = py.add(%n, 1)\n  return %3, %1"
)


@pytest.mark.parametrize("text, waits", [(BATCH, "for results"), (COUNTED, "for the block")])
def test_large_results_come_back_behind_one_wait(monkeypatch, text, waits):
    """The caller's tensors are its own: the memory that they come through is the next call's."""
    log = []
    made = Stepwise(planner.plan(parse_graph(text)), "cpu")
    memory = made.memory
    memory.downloads = downloads.Downloads([*storage.to_host(made.plan)])
    fetch, start = memory._block.fetch, memory.downloads.start
    monkeypatch.setattr(downloads, "locked", lambda shape, dtype: torch.empty(shape, dtype=dtype))
    monkeypatch.setattr(memory.downloads, "start", lambda of: (log.append("copies"), start(of)))
    monkeypatch.setattr(memory.downloads, "wait", lambda: log.append("for results"))
    monkeypatch.setattr(memory._block, "fetch", lambda: (found := fetch(), log.append("for the block") if found is not None else None)[0])  # fmt: skip
    w, kept = torch.rand(512), []
    for k in (1.0, 2.0):
        kept.append(made.run(*[4] * (text is COUNTED), torch.full((512, 512), k), w))
    for k, found in zip((1.0, 2.0), kept):
        assert found[:-2] == [5] * (text is COUNTED)
        assert all(torch.equal(x, k * w.expand(512, 512)) for x in found[-2:])
    assert log == ["copies", waits] * 2


def test_two_gpus_are_refused():
    with pytest.raises(Unsupported, match="cuda:0 and cuda:1"):
        planner.plan(graph_of(lambda x, y: (x + 1, y + 1), spec(2), spec(2, device="cuda:1")))
