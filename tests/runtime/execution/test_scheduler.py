"""When a graph is compiled: at its first call, its second, or later."""

import pytest
import torch

import tograph as tg
from tograph.runtime.execution import host, scheduler
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def short(x):
    return torch.sin(x * 2 + 1)


def loop(x):
    while x.sum() < 1.8:
        x = torch.sin(x) + 1
    return x


def large(x):
    return torch.sin(x.expand(200, 200) * 2).mean()


def unrolled(x):
    for i in range(30):
        x = torch.sin(torch.clamp(x, max=3 + i)) - x * 0.5
    return x


@pytest.mark.parametrize(("f", "call"), [(short, 2), (loop, 1), (large, 1), (unrolled, 4)])
def test_the_call_that_compiles(f, call, monkeypatch):
    monkeypatch.setattr(scheduler, "LONG", 100)
    monkeypatch.setattr(scheduler, "STRETCH", 30)
    converted, x = tg.function(f), torch.full((1,), 0.5)
    levels = []
    for _ in range(call + 1):
        torch.testing.assert_close(converted(x), f(x))
        levels.append(converted.get_concrete_function(x).scheduled.level)
    assert levels == ["host"] * (call - 1) + ["native"] * 2


def test_a_graph_that_waits_is_written_out_once(monkeypatch):
    monkeypatch.setattr(scheduler, "LONG", 100)
    monkeypatch.setattr(scheduler, "STRETCH", 30)
    built, build = [], host.build
    monkeypatch.setattr(host, "build", lambda *args: built.append(1) or build(*args))
    converted, x = tg.function(unrolled), torch.full((1,), 0.5)
    for _ in range(3):
        torch.testing.assert_close(converted(x), unrolled(x))
    assert converted.get_concrete_function(x).scheduled.level == "host"
    assert len(built) == 1
