"""The host's side of the ring: what it reads, and when it asks loops to come back."""

import pytest
import torch

from tograph.runtime.gpu import ring
from tograph.runtime.gpu.plan import Cell
from tograph.runtime.gpu.ring import Reader, Ring, Site
from tograph.runtime.graph.types import TensorType

CPU = torch.device("cpu")


def cell(name, *shape, dtype=torch.int64):
    return Cell(name, TensorType(dtype, shape, "cpu"))


@pytest.fixture
def reader():
    made = Ring(cell("position"), cell("memory", 16), cell("asked"), 16)
    made.sites += [Site((), {cell("x", 2): 1}, 3), Site((), {cell("y", dtype=torch.float32): 1}, 2)]
    of = {p: torch.zeros(p.type.shape, dtype=torch.int64) for p in (made.position, *made.shared)}
    return Reader(made, of, CPU)


def test_messages_in_order_and_then_none(reader):
    one = torch.tensor(1.5).view(torch.int32).item()
    reader.memory[:8] = torch.tensor([0, 4, 5, 1, one, 0, 6, 7])
    reader.position.fill_(8)
    reader.asked.fill_(1)
    assert [x.tolist() for _, found in reader.messages() for x in found.values()] == [[4, 5], 1.5, [6, 7]]  # fmt: skip
    assert reader.position.item() == reader.asked.item() == 0 and list(reader.messages()) == []


def test_loops_are_asked_after_a_while(reader, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(ring.time, "monotonic", lambda: now[0])
    reader.reset()
    assert not reader.remind() and reader.asked.item() == 0
    now[0] += 2 * ring.SOON
    assert reader.remind() and reader.asked.item() == 1
    list(reader.messages())
    assert not reader.remind() and reader.asked.item() == 0


def test_waiting_asks_and_ends_with_the_device(reader, monkeypatch):
    """The device is done once it has been asked."""
    slept = []
    reader.device = torch.device("cuda:0")

    class Event:
        def record(self, stream): ...

        def query(self):
            return False if not reader.asked.item() else self.done

        def synchronize(self):
            self.done = True

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(ring.time, "sleep", slept.append)
    reader.reset()
    reader.wait()
    assert reader.asked.item() == 1 and slept and {*slept} == {ring.NAP}
