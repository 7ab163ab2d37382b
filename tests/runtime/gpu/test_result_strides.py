"""Results of a GPU lie in memory as eager PyTorch's, whatever the strides of a call's arguments."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.gpu.fake_driver import forget
from tests.runtime.gpu.simulated import simulate
from tograph.runtime.gpu import capture, direct
from tograph.runtime.gpu.result_strides import strides_of

pytest.importorskip("triton")
WEIGHT = torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def simulated(monkeypatch):
    yield simulate(monkeypatch)
    monkeypatch.undo()
    forget(capture.probed)


def image(order=torch.contiguous_format, channels=3):
    made = torch.rand(2, channels, 4, 4, generator=torch.Generator().manual_seed(1))
    return made.to(memory_format=order)


def looped(x):
    y, n = x.permute(1, 0, 2, 3) * 1, x.sum() * 0 + 3
    while n > 0:
        y = y * 0.5
        n = n - 1
    return y


def turned(x):
    """Each iteration turns what it is given."""
    y, n = x.permute(0, 1, 3, 2) * 1, x.sum() * 0 + 2
    while n > 0:
        y = y.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3) * 2
        n = n - 1
    return y


def branched(x):
    if x.sum() > 0:
        y = F.conv2d(x, WEIGHT)
    else:
        y = F.conv2d(x * 2, WEIGHT)
    return y * 2, y.sum((2, 3))


FUNCTIONS = {
    "pointwise": lambda x: x * 2 + 1,
    "transposed": lambda x: (x.permute(1, 0, 2, 3) * 2 + 1, x.flatten(1).t() * 1),
    "convolution": lambda x: F.conv2d(x, WEIGHT).relu(),
    "normalised": lambda x: F.batch_norm(x, None, None, training=True),
    "pooled": lambda x: (F.max_pool2d(x, 2), F.interpolate(x, scale_factor=2)),
    "viewed": lambda x: (x * 2).permute(0, 2, 3, 1),
    "part": lambda x: (x + 1)[:, :, 1:, ::2],
    "expanded": lambda x: (x.sum(0, keepdim=True) * 1).expand(2, 3, 4, 4),
    "looped": looped,
    "turned": turned,
    "branched": branched,
}


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_as_eager_pytorchs(name, order, simulated):
    fn = FUNCTIONS[name]
    staged, x = tg.function(fn), image(order)
    want = fn(x)
    for _ in range(3):
        got = staged(x)
        for a, b in zip(*((y if isinstance(y, tuple) else (y,)) for y in (got, want)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
            assert a.stride() == b.stride() or name == "expanded"  # whose elements share memory
    assert simulated.levels[0][1:3] == ("device", 1) and not simulated.declined


def test_calls_with_other_strides_of_one_graph(simulated):
    staged = tg.function(lambda x: x * 2)
    for x in (image(), image(torch.channels_last), image().permute(0, 1, 3, 2), image()):
        assert staged(x).stride() == (x * 2).stride()


def test_memory_of_the_call_is_given_away_where_it_lies_so(simulated, monkeypatch):
    monkeypatch.setattr(direct, "worth", lambda plan: True)
    staged = tg.function(lambda x: (x * 2, x + 1))
    for x in (image(), image(torch.channels_last), image(torch.channels_last, channels=1)):
        for got, want in zip(staged(x), (x * 2, x + 1), strict=True):
            assert got.stride() == want.stride() and torch.equal(got, want)
            assert got._base is None


def test_gradients_lie_as_eager_pytorchs(simulated):
    def loss(x, w):
        return F.conv2d(x, w).square().sum()

    found = []
    for f in (loss, tg.function(loss)):
        x, w = image(torch.channels_last).requires_grad_(), WEIGHT.clone().requires_grad_()
        f(x, w).backward()
        found.append((x.grad, w.grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
        assert a.stride() == b.stride()


def test_what_only_the_run_knows_is_not_told():
    def either(x):
        if x.sum() > 0:
            y = x.permute(1, 0, 2, 3) * 1
        else:
            y = (x * 1).permute(1, 0, 2, 3).contiguous()
        return y, x.permute(1, 0, 2, 3) * 2, x[x > 0]

    graph = tg.function(either).get_concrete_function(image()).value_graph
    assert strides_of(graph, [image()]) == [(32, 16, 4, 1), (16, 48, 4, 1), None]
