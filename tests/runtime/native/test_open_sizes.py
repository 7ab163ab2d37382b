"""Slices whose length only a run knows, in native code: eager PyTorch's values and errors."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import entry, layout
from tograph.runtime.native.program import Native

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def attention(x, n):
    keys, values, out = torch.zeros(16, 8), torch.zeros(16, 8), torch.zeros(8)
    t = 0
    while t < n:
        keys[t] = x[t] * 2
        values[t] = torch.tanh(x[t] + out)
        score = torch.softmax(keys[: t + 1] @ x[t] / 8**0.5, 0)
        out = score @ values[: t + 1]
        t += 1
    return out, keys


def heads(x, n):
    keys, out, t = torch.zeros(16, 8), torch.zeros(2, 1, 4), 0
    while t < n:
        keys[t] = x[t]
        seen = keys[: t + 1].view(-1, 2, 4).permute(1, 0, 2)
        score = torch.softmax((x[t].view(2, 1, 4) + out) @ seen.transpose(1, 2), -1)
        out = score @ seen
        t += 1
    return out


def folds(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        part = x[t : t + 3]
        total = total + part.sum(0) + part.mean() + part.amax(0) * part.argmax(0)
        total = total + (part - part.min()).exp().prod(0).clamp(max=3.0)
        t += 1
    return total


def maybe_empty(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        total = total * 0.5 + x[:t].sum(0) + x[t + 1 :].sum(0) + x[-t:5].cumsum(0).sum(0)
        t += 1
    return total


def stepped(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        total = total + x[t::2].sum(0) - x[: -t - 1 : 3].sum(0) + x[:, : t + 2].t().sum()
        t += 1
    return total


def written(x, n):
    buffer, t = torch.zeros(16, 8), 0
    while t < n:
        buffer[t : t + 2] = x[t : t + 2] + 1
        buffer[:, t // 2 :] += x[:, t // 2 :]
        buffer[: t + 1, 0] = 7
        t += 1
    return buffer


def joined(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        both = torch.cat([x[:t], x[t + 1 : t + 4], total[None]])
        total = torch.softmax(both, 0).sum(0) + both[-1] * 0.5 + both.size(0)
        t += 1
    return total


def masked(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        part = x[: t + 1]
        seen = torch.where(part > 0, part, torch.zeros_like(part))
        total = (
            total + (seen * torch.full_like(part, 2.0)).sum(0) + torch.ones_like(part[:, 0]) @ part
        )
        total = total + (torch.arange(part.size(0))[:, None] * part).sum(0)
        t += 1
    return total


def two_lengths(x, n):
    t, total = 0, torch.zeros(8)
    while t < n:
        a, b = torch.exp(x[: t + 1]), torch.exp(x[: 2 * t + 1])
        total = total + a.sum(0) - b.mean(0) + (a + x[:16][: t + 1] + b[: t + 1]).sum(0)
        t += 1
    return total


CASES = [attention, heads, folds, maybe_empty, stepped, written, joined, masked, two_lengths]


def program(f, *args):
    return f.get_concrete_function(*args).scheduled


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.unoptimised)])  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_values(case, dtype):
    torch.set_default_dtype(dtype)
    try:
        f, x = tg.function(case), torch.randn(16, 8)
        for n in map(torch.tensor, (0, 0, 1, 7, 12, 12)):
            torch.testing.assert_close(f(x, n), case(x, int(n)), rtol=2e-5, atol=2e-5)
        assert program(f, x, n).level == "native", program(f, x, n).reason
        assert f.trace_count == 1
    finally:
        torch.set_default_dtype(torch.float32)


def test_nothing_declined_on_the_way():
    f, x, n = tg.function(attention), torch.randn(16, 8), torch.tensor(9)
    f(x, n)
    assert program(f, x, n).native.run([x, n]) is not None


def test_a_row_is_written_where_it_is():
    f, x, n = tg.function(attention), torch.randn(16, 8), torch.tensor(9)
    f(x, n)
    lines = program(f, x, n).llvm.split("while", 1)[1]
    # A cache has 512 bytes: none is copied, the one that is the result is carried in its memory.
    assert lines.count("i64 512, i1 false") == 0


@pytest.mark.parametrize("case, error", [
    (lambda x, n: x[: int(n)] + x[: int(n) + 1], RuntimeError),
    (lambda x, n: x[: int(n)].amax(0), IndexError),
    (lambda x, n: x[: int(n)][int(n)], IndexError),
    (lambda x, n: x[: int(n)] @ x[: int(n) + 1].t() @ x[: int(n)], RuntimeError),
])  # fmt: skip
def test_errors_of_eager(case, error):
    def looped(x, n):
        total, i = x.sum() * 0, 0
        while i < 2:
            total = total + case(x, n).sum()
            i += 1
        return total

    f, x = tg.function(looped), torch.randn(6, 4)
    with pytest.raises(error):
        looped(x, torch.tensor(0 if error is IndexError else 2))
    with pytest.raises(error):
        f(x, torch.tensor(0 if error is IndexError else 2))


def old_row_read_later(x, n):
    buffer, t = torch.zeros(16, 8), 0
    while t < n:
        old = buffer[t - 1] * 1
        kept = buffer
        buffer = buffer.clone()
        buffer[t] = x[t] + old
        x = x + kept.sum(0) * 0.1
        t += 1
    return buffer, x


def row_from_itself(x, n):
    buffer, t = x.clone(), 0
    while t < n:
        buffer[t] = buffer[t + 1] + buffer[t]
        buffer[t + 1] = buffer[0]
        buffer[1:9] = buffer[0:8].clone()
        t += 1
    return buffer


def swapped(x, n):
    a, b, t = x * 1, x * 2, 0
    while t < n:
        a, b = b, torch.select_scatter(a, b[t] + 1, 0, t)
        t += 1
    return a, b


def on_a_branch(x, n):
    buffer, t = torch.zeros(16, 8), 0
    while t < n:
        if x[t].sum() > 0:
            buffer[t] = x[t]
        else:
            buffer[t, 0] = -1
        t += 1
    return buffer


def kept_versions(x, n):
    buffer, t, before = x * 1, 0, x
    while t < n:
        before = buffer * 1
        buffer[t] = 0
        t += 1
    return buffer, before


@pytest.mark.parametrize("n", [0, 1, 6])
@pytest.mark.parametrize("case", [old_row_read_later, row_from_itself, swapped, on_a_branch, kept_versions])  # fmt: skip
def test_updates_in_a_loop(case, n):
    f, x, n = tg.function(case), torch.randn(16, 8), torch.tensor(n)
    before = x.clone()
    for _ in range(2):
        torch.testing.assert_close(f(x, n), case(x.clone(), int(n)))
    assert program(f, x, n).level == "native", program(f, x, n).reason
    assert torch.equal(x, before)


def test_losses_are_declined_without_a_crash():
    def grown(x, n):
        t, y = 0, x[:0]
        while t < n:
            y = torch.cat([y, F.relu(x[t : t + 1])])
            t += 1
        return y

    f, x = tg.function(grown), torch.randn(6, 4)
    for n in (0, 3, 5):
        torch.testing.assert_close(f(x, torch.tensor(n)), grown(x, n))


def test_elements_of_a_part_by_index():
    def looped(x, n):
        t, total = 0, torch.zeros(8)
        while t < n:
            part, last = x[: t + 2], torch.tensor([t])
            total = (
                total
                + part.index_select(0, last)[0]
                + part[last - 1].sum(0)
                + part.gather(0, last[:, None])
            )
            t += 1
        return total

    f, x, n = tg.function(looped), torch.randn(16, 8), torch.tensor(5)
    torch.testing.assert_close(f(x, n), looped(x, 5))
    assert program(f, x, n).level == "native", program(f, x, n).reason
    with pytest.raises(IndexError):
        f(x, torch.tensor(17))


def stacked(x, n):
    return torch.stack([x[0], x[1, :n]]) * 2


def one_number(x, n):
    return x[:n, 0].item() + 1


def likelihood(x, n):
    return F.nll_loss(x[:n], torch.tensor([0, 1, 2])) * 2


def normalised(x, n):
    return F.layer_norm(x * 2, (4,), x[0, :n]) + 1


def normalised_over_a_number(x, n):
    return F.layer_norm(x[:, :2] * 2, (n,)) + F.layer_norm(x[:, :n], x[0, :n].shape)


@pytest.mark.parametrize(
    "case", [stacked, one_number, likelihood, normalised, normalised_over_a_number]
)
def test_operands_that_do_not_fit_are_an_error(case):
    """Native code read what lay behind them."""

    def of_tensor(x, n):
        return case(x, int(n))

    f, x = tg.function(of_tensor), torch.arange(12.0).view(3, 4)
    for n in (4, 3, 2, 1, 0, 4):
        try:
            expected = case(x, n)
        except (RuntimeError, ValueError):
            for _ in range(2):
                with pytest.raises((RuntimeError, ValueError)):
                    f(x, torch.tensor(n))
        else:
            torch.testing.assert_close(f(x, torch.tensor(n)), expected)


def doubled(x, w):
    if w.sum() > 0:
        x = torch.tanh(x) * w
    return x + 1, x.sum(0)


@pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)
def test_tensors_of_open_sizes_are_looked_at_by_machine_code(monkeypatch):
    """Any number of rows, in memory row by row or not; what does not fit takes Python's path, or is the error of the signature."""
    rows = tg.TensorSpec([None, 3], torch.float32)
    f = tg.function(doubled, input_signature=[rows, tg.TensorSpec([3], torch.float32)])
    w = torch.rand(3)
    for _ in range(5):
        f(torch.randn(4, 3), w)
    assert f.concrete_functions[0].scheduled.level == "native"
    turned = torch.randn(3, 6).t()
    for x in (turned, turned[:1], torch.randn(8, 3)[::2], torch.randn(2, 3).double().float()):
        torch.testing.assert_close(f(x, w), doubled(x, w), rtol=1e-5, atol=1e-6)
    with pytest.raises(tg.errors.SignatureError):
        f(torch.randn(4, 2), w)
    monkeypatch.setattr(Native, "_run_alone", lambda *_: pytest.fail("by Python's path"))
    for n in (1, 7, 0, 900):
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x, w), doubled(x, w), rtol=1e-5, atol=1e-4)


def normed(x):
    return F.layer_norm(torch.tanh(x) * torch.sigmoid(x), [24]) + x, x.exp().amax(0)


def test_many_rows_of_the_run_are_work_for_all_threads():
    """Also without a loop or branch; few rows, none and many, in turn."""
    f = tg.function(normed, input_signature=[tg.TensorSpec([None, 24], torch.float32)])
    for n in (3, 9000, 1, 5, 9000, 4001, 2) * 2:
        x = torch.randn(n, 24)
        torch.testing.assert_close(f(x), normed(x), rtol=1e-5, atol=1e-5)
    native = f.concrete_functions[0].scheduled.native
    assert "call void @spread(" in native.llvm
