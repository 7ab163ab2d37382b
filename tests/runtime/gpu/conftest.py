import pytest
import torch

from tests.runtime.gpu.fake_driver import Cuda, forget, install
from tests.runtime.kernels.triton_samples import flats
from tograph.runtime.gpu import capture
from tograph.runtime.kernels import device


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels start in Triton's interpreter, on CPU tensors."""
    worker = pytest.importorskip("tests.runtime.kernels.triton_worker")

    def launch(source, arguments):
        before = flats({n: arguments[n] for n in source.signature})
        after = worker.interpret(source, before)
        for name, x in before.items():
            if not same_bits(x, after[name]):
                torch.as_strided(arguments[name], x.shape, (1,)).copy_(after[name])

    monkeypatch.setattr(device, "launch", launch)


def same_bits(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.fixture
def bindings():
    """The version of CUDA's Python bindings that the driver is seen through."""
    return 13


@pytest.fixture
def cuda(monkeypatch, bindings):
    """A driver that runs on the CPU."""
    made = Cuda(edges=bindings >= 13)
    install(monkeypatch, made)
    yield made
    monkeypatch.undo()
    forget(capture.probed)
