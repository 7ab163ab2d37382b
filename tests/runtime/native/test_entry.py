"""The call path in machine code: the same results, and ``MISS`` wherever a call is not of the plain kind."""

import gc
import types
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tograph as tg
from tograph.runtime.native import entry, layout

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def affine(x, y):
    return x * y + 1


def warm(f, *args):
    for _ in range(4):
        f(*args)
    entry = f._entry or f._fast
    assert entry is not None
    return entry


@pytest.fixture
def fast():
    return warm(tg.function(affine), torch.arange(4.0), torch.ones(4))


def test_plain_calls(fast):
    x, y = torch.arange(4.0), torch.ones(4)
    for a, b in [(x, y), (torch.arange(8.0)[4:], y), (x, torch.ones(2, 2).view(4)), (torch.nn.Parameter(x, False), y)]:  # fmt: skip
        got = fast(a, b)
        assert torch.equal(got, a * b + 1)
        assert type(got) is torch.Tensor
        assert got._version == 0
        assert got.grad_fn is None


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


X, Y = torch.arange(4.0), torch.ones(4)


@pytest.mark.parametrize(
    "args",
    [(), (X,), (X, Y, Y), (X, 1), (None, None), (X, X), (X, Y.double()), (torch.ones(5), Y), (torch.ones(4, 2)[:, 0], Y),
     (X.reshape(2, 2), Y), (X, Y.clone().requires_grad_()), (X, Y.clone().requires_grad_() * 2), (X.to("meta"), Y), (X.to_sparse(), Y),
     (X, torch.complex(X, X).imag), (X, torch._neg_view(Y))],
)  # fmt: skip
def test_other_arguments_miss(fast, args):
    assert fast(*args) is entry.MISS


def test_other_circumstances_miss(fast):
    with Mode():
        assert fast(X, Y) is entry.MISS
    with torch.device("cpu"):
        assert fast(X, Y) is entry.MISS
    with torch.autocast("cpu"):
        assert fast(X, Y) is entry.MISS
    torch.set_default_dtype(torch.float64)
    try:
        assert fast(X, Y) is entry.MISS
    finally:
        torch.set_default_dtype(torch.float32)
    seen = []
    torch.func.vmap(lambda x: seen.append(fast(x, x + 1)) or x)(torch.ones(3, 4))
    assert seen == [entry.MISS]
    assert fast(X, Y) is not entry.MISS


def test_gradients_only_when_they_are_on():
    f = tg.function(affine)
    fast = warm(f, X, Y)
    y = torch.ones(4, requires_grad=True)
    assert f(X, y).requires_grad
    with torch.no_grad():
        assert torch.equal(fast(X, y), X + 1)


def counted(x):
    n = 0
    while x.sum() < 100:
        x = x * 2
        n += 1
    return x, n, n > 3, n / 2


def test_several_results():
    fast = warm(tg.function(counted), torch.ones(3))
    got = fast(torch.ones(3))
    expected = counted(torch.ones(3))
    assert torch.equal(got[0], expected[0])
    assert got[1:] == expected[1:]
    assert list(map(type, got)) == [torch.Tensor, int, bool, float]
    assert fast(torch.full((3,), 200.0)) is entry.MISS  # the result is the argument


def test_captured_tensors_are_read_and_kept():
    w = torch.full((4,), 2.0)
    f = tg.function(lambda x: x * w)
    fast = warm(f, X)
    w.add_(1)
    assert torch.equal(fast(X), X * 3)
    w.data = torch.full((4,), 5.0)
    assert torch.equal(fast(X), X * 5)


def test_captured_tensors_live_as_long_as_the_entry():
    holder = [torch.full((4,), 2.0)]
    f = tg.function(lambda x: x * holder[0])
    fast = warm(f, X)
    kept = weakref.ref(holder.pop())
    f.clear_cache()
    gc.collect()
    assert kept() is not None
    assert torch.equal(fast(X), X * 2)


SCALE = 2.0


def scaled(x):
    return x * SCALE


def test_a_changed_global_is_seen(monkeypatch):
    f = tg.function(scaled)
    warm(f, X)
    assert torch.equal(f(X), X * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert torch.equal(f(X), X * 3)


def test_eager_mode_is_seen():
    f = tg.function(affine)
    warm(f, X, Y)
    calls = []
    f.python_function = lambda *a: calls.append(a)
    tg.run_functions_eagerly(True)
    try:
        f(X, Y)
    finally:
        tg.run_functions_eagerly(False)
    assert len(calls) == 1


def test_without_the_layout(monkeypatch):
    monkeypatch.setattr(entry, "layout", lambda: None)
    f = tg.function(affine)
    for _ in range(4):
        assert torch.equal(f(X, Y), X + 1)
    assert f._entry is f._fast is None


def test_programs_of_other_devices_have_no_entry():
    cf = tg.function(affine).get_concrete_function(X, Y)
    cf.scheduled._native = types.SimpleNamespace(kernels=[])
    assert cf.entry is None
