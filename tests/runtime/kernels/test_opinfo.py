"""The sample inputs that ship with torch, as a source of shapes: every fused form against eager."""

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.kernel_samples import ulps
from tograph.runtime.execution import host
from tograph.runtime.graph import interp
from tograph.runtime.kernels import lower, regions

NAMES = """add sub mul div maximum minimum where clamp exp log tanh erf sigmoid sqrt rsqrt atan2 lerp addcmul masked_fill eq lt
logical_and floor_divide remainder sum mean amax amin argmax var std softmax log_softmax logsumexp nn.functional.layer_norm
nn.functional.gelu nn.functional.silu nn.functional.softplus nn.functional.leaky_relu nn.functional.hardtanh cumsum any all
expand permute transpose squeeze unsqueeze reshape flatten""".split()
SAMPLES = 4


@pytest.fixture(scope="module")
def op_db():
    """Imported by the first test that needs it: seconds, which other workers need not spend."""
    name = "torch.testing._internal.common_methods_invocations"
    return pytest.importorskip(name, exc_type=ImportError).op_db


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    """Fuse whatever can be fused."""
    monkeypatch.setattr(regions, "MIN_POINTS", 0)
    monkeypatch.setattr(lower, "fuse", lambda graph: regions.fuse(graph, lambda group: True))
    monkeypatch.setattr(lower.Fused.__init__, "__defaults__", (0,))


def close(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if not want.dtype.is_floating_point:
        return torch.equal(got, want)
    near = (ulps(got, want) <= 4) | ((got - want).abs() <= 2e-5 * (1 + want.abs()))
    return bool(near.all())


def call_of(op, sample):
    """The call of a sample as a function of its tensors."""

    given_here = [
        None if isinstance(a, torch.Tensor) else (a,) for a in (sample.input, *sample.args)
    ]
    kwargs = sample.kwargs

    def call(*given):
        rest = iter(given)
        args = [next(rest) if a is None else a[0] for a in given_here]
        return op.op(*args, **kwargs) * 1

    return call


@pytest.mark.parametrize("name", NAMES)
def test_samples(name, op_db):
    (op,) = [o for o in op_db if o.name == name and not o.variant_test_name][:1] or [
        next(o for o in op_db if o.name == name)
    ]
    kernels = 0
    for sample in list(op.sample_inputs("cpu", torch.float32))[:SAMPLES]:
        tensors = [a for a in (sample.input, *sample.args) if isinstance(a, torch.Tensor)]

        staged = tg.function(call_of(op, sample))
        graph = staged.get_concrete_function(*tensors).graph
        lowered, fused = lower.lower(graph, host.build)
        want = interp.run(graph, tensors)
        for a, b in zip(host.build(lowered).run(*tensors), want, strict=True):
            assert close(a, b), (sample, [f.kernels for f in fused])
        kernels += sum(len(f.kernels) for f in fused)
    assert kernels, "nothing was fused"
