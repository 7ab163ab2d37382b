"""Batch normalisation in native code, beside eager PyTorch: with statistics of the batch and kept ones, and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
SHAPES = {
    "rows": (8, 5),
    "sequences": (4, 5, 7),
    "images": (3, 5, 6, 9),
    "volumes": (2, 5, 3, 4, 2),
}


def _layer(kind, dtype, **options):
    torch.manual_seed(0)
    layer = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[kind](
        5, dtype=dtype, **options
    )
    for x in layer.state_dict().values():
        if x.is_floating_point():
            x.copy_(torch.rand_like(x) + 0.5)
    return layer


def _run(make, shape, dtype, training, **options):
    """What a layer, another op and their gradients give, and what is kept."""
    layer = _layer(len(shape), dtype, **options).train(training)

    def f(x):
        x = x.detach().requires_grad_()
        y = F.relu(layer(x * 2) + x)
        (y * torch.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape)).sum().backward()
        return y.detach(), x.grad, [p.grad for p in layer.parameters()]

    run, found = make(f), []
    for i in range(3):
        layer.zero_grad()
        found.append(run(torch.randn(shape, generator=torch.Generator().manual_seed(i)).to(dtype)))
    return found, dict(layer.state_dict()), run


@pytest.mark.parametrize("training", [True, False], ids=["batch", "kept"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_values_gradients_and_statistics(shape, training):
    found, state, run = _run(tg.function, shape, torch.float32, training)
    expected, kept, _ = _run(lambda f: f, shape, torch.float32, training)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, kept, rtol=1e-5, atol=1e-6)
    native = run.concrete_functions[-1].scheduled.native
    assert native is not None
    assert not any("batch_norm" in call.node.op for call in native._calls)


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str)  # fmt: skip
def test_without_some_of_its_parts(options):
    found = _run(tg.function, SHAPES["images"], torch.float64, True, **options)[:2]
    expected = _run(lambda f: f, SHAPES["images"], torch.float64, True, **options)[:2]
    torch.testing.assert_close(found, expected)


def test_images_in_the_order_of_their_pixels_keep_it():
    layer = _layer(4, torch.float32).eval()
    f = tg.function(lambda x: F.relu(layer(x + 1)))
    x = torch.randn(2, 5, 6, 4).to(memory_format=torch.channels_last)
    for _ in range(3):
        found = f(x)
    expected = F.relu(layer(x + 1))
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


def test_tensors_of_two_types_are_left_to_torch():
    layer = _layer(4, torch.float32).eval()
    x = torch.randn(2, 5, 6, 4).to(torch.bfloat16)
    f = tg.function(lambda x: F.relu(layer(x + 1)))
    for _ in range(3):
        torch.testing.assert_close(f(x), F.relu(layer(x + 1)))


@pytest.mark.parametrize(
    ("norm", "shape"),
    [(F.batch_norm, (0, 3, 4)), (F.batch_norm, (2, 3, 0)), (F.instance_norm, (2, 3, 0))],
)
def test_statistics_of_nothing_are_not_followed(norm, shape):
    def kept(run):
        mean, var = torch.full((3,), 5.0), torch.full((3,), 6.0)
        how = {"training": True} if norm is F.batch_norm else {}
        y = run(lambda x: norm(x, mean, var, **how))(torch.zeros(shape))
        return y, mean, var

    torch.testing.assert_close(kept(tg.function), kept(lambda f: f), equal_nan=True)


@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_one_kept_statistic_of_two_is_an_error(norm):
    how = {"training": True} if norm is F.batch_norm else {}
    for mean, var in ((torch.zeros(3), None), (None, torch.zeros(3))):
        with pytest.raises(ValueError, match="must either both be None"):
            tg.function(lambda x, m=mean, v=var: norm(x, m, v, **how))(torch.ones(2, 3, 4))
