"""Tensors over memory that somebody else keeps, by one storage for all memory and by the buffer protocol."""

import pytest
import torch

from tograph.runtime.native import over_memory
from tograph.runtime.native.over_memory import over

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.bool,
          torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]  # fmt: skip


@pytest.fixture(params=["one storage", "buffers"])
def way(request, monkeypatch):
    if request.param == "buffers":
        monkeypatch.setattr(over_memory, "_bases", {})
    elif not over_memory._bases:
        pytest.skip("torch has no such storage")
    return request.param


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shows_and_writes_the_memory(way, dtype):
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for y in (x, x.permute(2, 0, 1), x[:, 1:, ::2], x[1, 2, 3], x[:1].expand(5, 3, 4)):
        seen = over(y.data_ptr(), y.dtype, y.shape, y.stride())
        assert torch.equal(seen, y) and seen.stride() == y.stride() and seen.dtype is dtype
        assert seen.data_ptr() == y.data_ptr()
    over(x.data_ptr(), dtype, (24,), (1,)).zero_()
    assert not x.any()


def test_nothing_is_read_for_no_elements(way):
    assert over(0, torch.float32, (2, 0), (0, 1)).shape == (2, 0)


def test_an_address_between_two_elements(way):
    x = torch.arange(64, dtype=torch.uint8)
    address = x.data_ptr() + 3
    seen = over(address, torch.int32, (5,), (1,))
    assert torch.equal(seen, x[3:23].clone().view(torch.int32))


def test_ops_take_several_of_them(way):
    x, y = torch.randn(4, 5), torch.randn(5, 3)
    a, b = (over(t.data_ptr(), t.dtype, t.shape, t.stride()) for t in (x, y))
    torch.testing.assert_close(a @ b, x @ y)
    torch.testing.assert_close(torch.cat([a, b.t()]), torch.cat([x, y.t()]))
    a.add_(a.clone())
    assert torch.equal(torch.logcumsumexp(a, 0), torch.logcumsumexp(x, 0))


def test_a_torch_that_makes_another_storage_is_not_taken():
    def elsewhere(address, device, nbytes):
        return torch.UntypedStorage(1 << 12)

    with pytest.raises(RuntimeError):
        over_memory._everything(elsewhere)
