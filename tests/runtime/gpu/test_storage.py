"""One copy sets the numbers of a run, one brings back those that the host reads."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import planner, storage
from tograph.runtime.gpu.direct import Direct
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.gpu.retarget import retarget

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def planned(fn, *args):
    return planner.plan(retarget(tg.function(fn).get_concrete_function(*args).value_graph, "cuda:0"))  # fmt: skip


def counted(x, n):
    i, total = 0, 0.5
    while x.sum() < n:
        x = x * 2
        i += 1
        total = total * 2
    return x, i, total, x.sum() > 0, n


def test_numbers_come_back_together(monkeypatch):
    looks = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: looks.append(x) or cpu(x))
    runner = Stepwise(planned(counted, torch.ones(3), torch.tensor(20.0)), "cpu")
    for n in (20.0, 1.0, 100.0):
        given = torch.ones(3), torch.tensor(n)
        for a, b in zip(runner.run(*given), counted(*given), strict=True):
            assert type(a) is type(b)
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    assert len(looks) == 3


def test_nothing_is_read_where_there_are_no_numbers(monkeypatch):
    def refuse(*_):
        raise AssertionError("a wait for the device")

    def halve(x):
        while x.sum() > 1:
            x = x * 0.5
        return x

    runner = storage.Memory(planned(halve, torch.ones(4)), "cpu")
    monkeypatch.setattr(torch.Tensor, "cpu", refuse)
    monkeypatch.setattr(torch.Tensor, "item", refuse)
    runner.fill([torch.ones(4)])
    (out,) = runner.results([torch.ones(4)])
    assert out.shape == (4,)


def test_lists_of_numbers_and_tensors():
    def collect(x, n):
        out = []
        for i in range(n):
            out.append(x * i)
        return out, len(out)

    runner = Stepwise(planned(collect, torch.ones(2), torch.tensor(3)), "cpu")
    for n in (3, 0, 5):
        out, count = runner.run(torch.ones(2), torch.tensor(n))
        assert count == n == len(out)
        assert all(torch.equal(t, torch.ones(2) * i) for i, t in enumerate(out))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_copies(count):
    targets = [torch.zeros(n + 2) for n in range(count)]
    storage.copy_all(targets, [torch.ones(n + 2) for n in range(count)])
    assert all(t.eq(1).all() for t in targets)


@pytest.mark.parametrize("runner", [Stepwise, Chunked, Direct])
def test_memory_of_a_first_call_in_inference_mode_is_written_by_later_ones(runner):
    plan = planned(lambda x, n: (x @ x + n, n * 2), torch.ones(2, 2), torch.tensor(3))
    with torch.inference_mode():
        made = runner(plan, "cpu")
        made.run(torch.ones(2, 2), torch.tensor(3))
    for n in (3, 4):
        x, twice = made.run(torch.ones(2, 2), torch.tensor(n))
        assert torch.equal(x, torch.full((2, 2), 2.0 + n)) and twice == 2 * n
        assert not x.is_inference()
