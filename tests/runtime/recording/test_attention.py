"""On a machine with a GPU attention is recorded as its formula; torch's switches are as they were behind it."""

import functools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.execution import scheduler
from tograph.runtime.recording import attention, tracing


def switches():
    c = torch._C
    return list(c._get_sdp_priority_order()), c._get_mem_efficient_sdp_enabled(), c._get_cudnn_sdp_enabled()  # fmt: skip


def traced(fn, *args):
    return str(tg.function(fn).get_concrete_function(*args).graph)


@pytest.fixture
def gpu(monkeypatch):
    """A device that is there, and never asked."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(scheduler, "gpus_in", lambda graph: [])


def test_the_formula_goes_first_while_a_call_is_traced(gpu, monkeypatch):
    before, seen = switches(), []
    record = tracing.record
    monkeypatch.setattr(tracing, "record", lambda *given, **more: (seen.append(switches()), record(*given, **more))[1])  # fmt: skip
    traced(lambda q: q + 1, torch.ones(2))
    assert switches() == before
    order, efficient, cudnn = seen[0]
    assert order[0] == 0 and sorted(order) == sorted(before[0]) and not efficient and not cudnn


def test_the_order_of_the_device_is_set_before_the_formula_goes_first(gpu, monkeypatch):
    """On Hopper torch puts cuDNN's kernel first, where it is first asked: not in a trace."""
    before, hopper, seen = switches(), [3, 1, 2, 0, 4], []
    record = tracing.record
    asked = functools.cache(lambda: torch._C._set_sdp_priority_order(hopper))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(attention, "_ask_for_a_kernel", asked)
    attention._order_of_the_device.cache_clear()

    def noted(*given, **more):
        asked()
        seen.append(switches()[0][0])
        return record(*given, **more)

    monkeypatch.setattr(tracing, "record", noted)
    traced(lambda q: q + 1, torch.ones(2))
    assert {*seen} == {0} and switches()[0] == hopper
    torch._C._set_sdp_priority_order(before[0])
    attention._order_of_the_device.cache_clear()


@pytest.mark.parametrize("device,asks", [("cuda:0", 1), ("cpu", 0)])
def test_a_device_that_nobody_has_used_is_asked_when_a_trace_needs_it(device, asks, gpu, monkeypatch):  # fmt: skip
    """For a ``TensorSpec``: torch would ask in the trace, and put the formula behind cuDNN's kernel."""
    before, hopper, calls, seen = switches(), [3, 1, 2, 0, 4], [], []

    def ask():
        calls.append(switches()[1:])
        torch._C._set_sdp_priority_order(hopper)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(attention, "_ask_for_a_kernel", ask)
    attention._order_of_the_device.cache_clear()
    record = tracing.record
    monkeypatch.setattr(tracing, "record", lambda *given, **more: (seen.append(switches()), record(*given, **more))[1])  # fmt: skip
    traced(lambda q: q + 1, tg.TensorSpec([2], torch.float16, device=device))
    assert calls == [before[1:]] * asks and {(s[0][0], *s[1:]) for s in seen} == {(0, False, False)}
    assert switches() == ((hopper, *before[1:]) if asks else before)
    torch._C._set_sdp_priority_order(before[0])
    attention._order_of_the_device.cache_clear()


def test_they_are_as_they_were_behind_an_error(gpu):
    def f(q):
        raise KeyError(q.shape)

    before = switches()
    with pytest.raises(KeyError):
        traced(f, torch.ones(3))
    assert switches() == before


def test_on_a_cpu_torchs_kernel_stays(gpu):
    text = traced(lambda q: F.scaled_dot_product_attention(q, q, q), torch.ones(1, 2, 3, 8))
    assert "_scaled_dot_product_flash_attention_for_cpu" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_of_a_gpu_go_into_products(dtype):
    q = tg.TensorSpec([2, 4, 16, 64], dtype, device="cuda:0")
    text = traced(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q)
    assert "aten.bmm" in text and "_scaled_dot_product" not in text


def test_a_kernel_that_gives_numbers_is_refused_with_its_name():
    q = tg.TensorSpec([2, 4, 16, 64], torch.bfloat16, device="cuda:0")
    attention = torch.ops.aten._scaled_dot_product_flash_attention
    with pytest.raises(tg.errors.UnsupportedOpError, match="_scaled_dot_product_flash_attention"):
        traced(lambda q: attention(q, q, q, 0.0, True)[0], q)
