"""Carried tensors that change their size, in native code: eager PyTorch's values, strides and errors."""

import gc
import signal
import threading
import time

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def check(case, *args, runs=2, declines=False):
    """Run as eager PyTorch and as native code; what native code declines runs on the host."""
    f = tg.function(case)
    for _ in range(runs):
        found, wanted = f(*args), case(*args)
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5, check_stride=True)
    scheduled = f.get_concrete_function(*args).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert declines or not scheduled.declined
    return f


# ---- programs; ``n`` is a tensor, so that one graph serves all lengths


def itself(x, n):
    i = 0
    while i < n:
        x = torch.cat([x, x[-1:] * 2])
        i += 1
    return x * 1


def row_by_row(x, n):
    i = torch.tensor(0)
    out = x * 1
    while i < n:
        out = torch.cat([out, x[:1] + i])
        i = i + 1
    return out


def until(x, n):
    while x.shape[0] < n + 3 and x.sum() < 1e6:
        x = torch.cat([x, x[-2:] + 1])
    return x * 1


def in_front(x, n):
    i = 0
    while i < n:
        x = torch.cat([x[:1] * 3, x])
        i += 1
    return x * 1


def twice(x, n):
    i = 0
    while i < n:
        x = torch.cat([x, x])[:40]
        i += 1
    return x * 1


def several_parts(x, n):
    i = 0
    while i < n:
        x = torch.cat([x, x[:1], x[-1:] * 2, x[1:2]])
        i += 1
    return x * 1


def two_steps(x, n):
    i = 0
    while i < n:
        x = torch.cat([x, x[:1] + i])
        x = torch.cat([x, x[-1:] - 1])
        i += 1
    return x * 1


def read_before_and_after(x, n):
    total, i = x.sum(), 0
    while i < n:
        before = x.mean()
        longer = torch.cat([x, x[-1:] + before])
        total = total + longer.sum() - before
        x = longer
        i += 1
    return x * 1, total


def kept_old(x, n):
    i, old, total = 0, x * 2, x.sum()
    while i < n:
        new = torch.cat([x, x[:1] + 1])
        total = total + old.sum()
        old, x = x, new
        i += 1
    return old * 1, x * 1, total


def exchanged(x, n):
    a, b, i = x * 1, x[:1] * 2, 0
    while i < n:
        a, b = torch.cat([b, a[:1]]), a
        i += 1
    return a * 1, b * 1


def on_a_branch(x, n):
    i = 0
    x = x * 1
    while i < n:
        if x[-1].sum() > 5:
            x = torch.cat([x, x[:1] * 0])
        elif x[-1].sum() > 3:
            x = torch.cat([x, x[-1:] + 1, x[-1:] + 2])
        else:
            x = torch.cat([x, x[-1:] + 1])
        i += 1
    return x


def sometimes(x, n):
    i, x = 0, x * 1
    while i < n:
        if i % 2 == 0:
            x = torch.cat([x, x[-1:] + 1])
        i += 1
    return x


def either_way(x, n):
    i, x = 0, x * 1
    while i < n:
        if x.shape[0] > 4:
            x = x[2:]
        else:
            x = torch.cat([x, x[-1:] + 1])
        i += 1
    return x * 1


def nested(x, n):
    i, x = 0, x * 1
    while i < n:
        j = 0
        while j < i:
            x = torch.cat([x, x[-1:] * 0.5 + j])
            j += 1
        x = torch.cat([x, x[:1]])
        i += 1
    return x


def inner_only(x, n):
    i, total = 0, x.sum()
    while i < n:
        y, j = x * 1, 0
        while j < i:
            y = torch.cat([y, y[-1:] + 1])
            j += 1
        total = total + y.mean()
        i += 1
    return total


def shorter(x, n):
    i, total = 0, x.sum()
    while i < n and x.shape[0] > 1:
        x = x[1:]
        total = total + x.sum() * x.shape[0]
        i += 1
    return total, x * 1


def shorter_and_new(x, n):
    i = 0
    x = torch.cat([x, x, x])
    while i < n and x.shape[0] > 2:
        x = (x[1:] * 2)[:-1]
        i += 1
    return x * 1


def window(x, n):
    i, out = 0, x.sum()
    while i < n:
        x = torch.cat([x, x[-3:].mean(0, keepdim=True)])
        out = out + x[-3:].sum()
        i += 1
    return out


def written(x, n):
    i, x = 0, x * 1
    while i < n:
        x = torch.cat([x, x[-1:] + 1])
        x[i] = 7
        x[-1] += 1
        i += 1
    return x


def padded_by_zeros(x, n):
    i, x = 0, x * 1
    while i < n:
        x = torch.cat([x, torch.zeros(2, *x.shape[1:], dtype=x.dtype)])
        x = torch.cat([x, torch.ones_like(x[:1])])
        i += 1
    return x


ROWS = [itself, row_by_row, until, in_front, twice, several_parts, two_steps, read_before_and_after, kept_old, exchanged, on_a_branch,
        sometimes, either_way, nested, inner_only, shorter, shorter_and_new, window, written, padded_by_zeros]  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("shape", [(2,), (3, 4)])
def test_rows(case, shape):
    f = tg.function(case)
    x = torch.rand(shape)
    for n in (3, 0, 1, 7, 12):
        found, wanted = f(x, torch.tensor(n)), case(x, torch.tensor(n))
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5, check_stride=True)
    scheduled = f.get_concrete_function(x, torch.tensor(3)).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert scheduled.native.run([x, torch.tensor(5)]) is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.uint8])  # fmt: skip
@pytest.mark.parametrize("case", [several_parts, exchanged, in_front, sometimes])
def test_dtypes(case, dtype):
    check(case, torch.arange(1, 5).to(dtype), torch.tensor(4))


def test_bools():
    def grown(x, n):
        i = 0
        while i < n:
            x = torch.cat([x, ~x[-1:], x[:1] & x[1:2]])
            i += 1
        return x, x.sum()

    check(grown, torch.tensor([True, False]), torch.tensor(5))


# ---- growth in any dimension


def cache(q, k, v, n):
    i = 0
    while i < n:
        new = q * 0.5
        k, v = torch.cat([k, new], -2), torch.cat([v, new + 1], -2)
        score = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
        q = score @ v
        i += 1
    return q, k * 1, v


@pytest.mark.parametrize("shape", [(1, 4), (1, 1, 8), (3, 1, 4), (1, 2, 1, 8), (2, 3, 1, 4)])
def test_a_cache_for_attention(shape):
    q = torch.randn(shape)
    k, v = (torch.randn(*shape[:-2], 3, shape[-1]) for _ in range(2))
    for n in (1, 9):
        check(cache, q, k, v, torch.tensor(n))


@pytest.mark.parametrize("d", [0, 1, 2, -1, -2, 3])
def test_dimensions(d):
    def grown(x, n):
        i = 0
        total = x.sum()
        while i < n:
            last = x.select(d, -1).unsqueeze(d)
            x = torch.cat([x, last * 0.5, x.narrow(d, 0, 1)], d)
            total = total + x.mean() + x.sum(d).amax()
            i += 1
        return x, x.sum(0) + 1, total

    check(grown, torch.randn(2, 3, 4, 5), torch.tensor(6))


@pytest.mark.parametrize("d", [0, 1, 2])
def test_other_ways_to_change_in_any_dimension(d):
    def changed(x, n):
        i, y = 0, x * 2
        while i < n:
            x = torch.cat([x.narrow(d, 0, 1) + 1, x], d)
            if i % 3 != 1:
                y = torch.cat([y, x.narrow(d, 0, 2)], d)
            i += 1
        return x * 1, y

    check(changed, torch.randn(2, 3, 2), torch.tensor(7))


def test_a_view_of_what_grew_has_its_strides():
    def grown(x, n):
        i = 0
        while i < n:
            x = torch.cat([x, x[:, -1:]], 1)
            i += 1
        return x, x[:, 1:], x.transpose(0, 1), x[:, 0]

    check(grown, torch.randn(2, 3, 4), torch.tensor(5))


# ---- decoding


def decode(tokens, table, weights, out, n):
    wq, wk, wv = weights
    k = torch.zeros(1, 0, 8)
    v = torch.zeros(1, 0, 8)
    i = 0
    while i < n:
        x = table[tokens[-1]][None, None]
        k, v = torch.cat([k, x @ wk], dim=1), torch.cat([v, x @ wv], dim=1)
        score = torch.softmax((x @ wq) @ k.transpose(1, 2) / 8**0.5, dim=-1) @ v
        following = (score[0, 0] @ out).argmax()
        tokens = torch.cat([tokens, following[None]])
        if following == 0:
            break
        i += 1
    return tokens


def test_decoding_stops_at_the_end_token():
    torch.manual_seed(7)
    table, out = torch.randn(12, 8), torch.randn(8, 12)
    weights = tuple(torch.randn(8, 8) for _ in range(3))
    f = check(decode, torch.tensor([3, 4]), table, weights, out, torch.tensor(20))
    lengths = set()
    for first in range(12):
        args = torch.tensor([5, first]), table, weights, out, torch.tensor(20)
        lengths.add(len(decode(*args)))
        assert torch.equal(f(*args), decode(*args))
    assert len(lengths) > 1


# ---- sizes that are numbers of the run


def test_a_tensor_of_a_computed_size():
    def made(x, n):
        total = x.sum() * 0
        while total < n:
            size = int(total) * 2 + 1
            y = torch.zeros(size) + torch.arange(size) + torch.ones(2, size)[0] * x[0]
            total = total + y.mean() + 1
        return total, torch.full((int(total) + 1, 2), 3.0)

    check(made, torch.rand(3), torch.tensor(30))


def test_a_negative_size_raises():
    def made(n):
        total = torch.zeros(())
        while n > -3:
            total = total + torch.ones(int(n)).sum()
            n = n - 1
        return total

    f = tg.function(made)
    assert f(torch.tensor(-5)) == 0
    with pytest.raises(RuntimeError, match="negative"):
        f(torch.tensor(2))


@pytest.mark.parametrize("d", [0, 1, 2])
def test_an_argument_of_any_size(d):
    shape = [2, 3, 4]
    shape[d] = None

    def grown(x):
        for _ in tg.range(3):
            x = torch.cat([x, x.narrow(d, 0, 1) * 2], d)
        return x, x.sum(d)

    f = tg.function(grown, input_signature=[tg.TensorSpec(shape, torch.float32)])
    for n in (1, 5, 2):
        x = torch.randn([n if m is None else m for m in shape])
        for given in (x, x.clone(), x.transpose(0, 2).contiguous().transpose(0, 2)):
            torch.testing.assert_close(f(given), grown(given), check_stride=True)
    (found,) = f.concrete_functions
    assert found.scheduled.level == "native", found.scheduled.reason


def test_empty_tensors():
    def grown(x, n):
        i, y, z = 0, torch.empty(0), x[:0]
        while i < n:
            y = torch.cat([y, x[i : i + 1, 0]])
            z = torch.cat([z, x[i : i + 2]])
            i += 1
        return y, z, torch.zeros(0, 3), z.sum(0)

    x = torch.randn(9, 4)
    for n in (0, 1, 6):
        check(grown, x, torch.tensor(n), declines=not n)
    check(lambda x, n: row_by_row(torch.cat([x, x[:1]]), n), torch.randn(2, 3), torch.tensor(3))


def test_an_empty_argument():
    def grown(x, n):
        i, y = 0, x * 2
        while i < n:
            y = torch.cat([y, torch.full((1, 3), 1.5) * y.shape[0]])
            i += 1
        return y, x.sum()

    check(grown, torch.empty(0, 3), torch.tensor(4))


# ---- memory


def test_growth_past_several_blocks():
    def grown(x, n):
        i = 0
        while i < n:
            x = torch.cat([x, x[-1:] + 1, x[:1] * i])
            i += 1
        return x

    x = torch.ones(1, 7)
    f = check(grown, x, torch.tensor(3000))
    for n in (1, 2000, 5, 3):
        torch.testing.assert_close(f(x, torch.tensor(n)), grown(x, n))


def test_a_small_result_does_not_keep_the_memory_of_a_large_one():
    f = tg.function(itself)
    f(torch.zeros(2), torch.tensor(50_000))
    small = f(torch.zeros(2), torch.tensor(2))
    assert small.untyped_storage().nbytes() == 16


def test_results_are_apart():
    f, x = tg.function(itself), torch.ones(2)
    found = [f(x, torch.tensor(n)) for n in (3, 4, 5, 6)]
    for n, y in zip((3, 4, 5, 6), found):
        assert torch.equal(y, itself(x, n))
    found[0].zero_()
    assert torch.equal(found[1], itself(x, 4))


def test_memory_is_given_back():
    def grown(x, n):
        i, rows = 0, x * 1
        while i < n:
            rows = torch.cat([rows, x[i : i + 1] if i < 200 else x[int(n) : int(n) + 1][0][None]])
            i += 1
        return rows

    f, x = tg.function(grown), torch.randn(201, 1152)

    def calls(count):
        for _ in range(count):
            f(x, torch.tensor(155))
            with pytest.raises(IndexError):
                f(x, torch.tensor(201))
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before = calls(5)
    assert calls(30) - before < 20_000_000


def test_a_failure_and_then_another_call():
    def grown(x, n):
        i = 0
        while i < n:
            x = torch.cat([x, x[i] * 0 + x[5 * i - 3][None]])
            i += 1
        return x

    f, x = tg.function(grown), torch.arange(3.0)[:, None] * torch.ones(3, 1)

    def plain(n):
        try:
            return grown(x, n)
        except (IndexError, RuntimeError) as error:
            return type(error)

    def staged(n):
        try:
            return f(x, torch.tensor(n))
        except (IndexError, RuntimeError) as error:
            return type(error)

    for n in (1, 4, 1, 0, 2, 1):
        found, wanted = staged(n), plain(n)
        assert (found is wanted) if isinstance(wanted, type) else torch.equal(found, wanted)


def test_an_interrupt_ends_a_growing_loop():
    def grown(x):
        while x.sum() < 1:
            x = torch.cat([x, x[:1]])
        return x

    f = tg.function(grown)
    f(torch.ones(2))
    thread = threading.Thread(target=lambda: (time.sleep(0.5), signal.raise_signal(signal.SIGINT)))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        f(torch.zeros(2))
    thread.join()
    assert torch.equal(f(torch.ones(2)), torch.ones(2))


def test_parts_that_do_not_fit_raise():
    def grown(x, y, n):
        i = 0
        while i < n:
            x = torch.cat([x, y[i:]], 1)
            i += 1
        return x

    f, x, y = tg.function(grown), torch.ones(3, 2), torch.ones(3, 2)
    torch.testing.assert_close(f(x, y, torch.tensor(1)), grown(x, y, 1))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        f(x, y, torch.tensor(2))


def test_relu_of_what_grows():
    def grown(x, n):
        y, i = x[:0], 0
        while i < n:
            y = F.relu(torch.cat([y, x[i : i + 1]])) + 0.5
            i += 1
        return y

    check(grown, torch.randn(6, 4), torch.tensor(5))


# ---- padding, masks, and ops whose result's size only torch tells


@pytest.mark.parametrize("pads", [(0, 1), (2, 0), (1, 1), (0, 0, 0, 2), (0, 0, 1, 0)])
def test_padding(pads):
    def grown(x, n):
        i = 0
        while i < n:
            x = F.pad(x * 2, pads, value=1.5) + i
            i += 1
        return x, x.sum()

    check(grown, torch.randn(2, 3), torch.tensor(4))


def test_padding_of_a_known_size():
    def padded(x, n):
        i = 0
        while i < n:
            x = F.pad(x, (1, 0))[:, :3] + F.pad(x, (-1, 1), value=2)
            i += 1
        return x

    check(padded, torch.randn(2, 3), torch.tensor(4))


@pytest.mark.parametrize("x", [torch.arange(9.0), torch.arange(24.0).view(8, 3) % 7, torch.arange(12) % 5])  # fmt: skip
def test_masks(x):
    def filtered(x, n):
        i, seen = 0, x.sum() * 0
        while i < n and x.shape[0] > 0:
            x = x[(x if x.dim() == 1 else x[:, 0]) != i]
            seen = seen + x.sum()
            i += 1
        return x * 1, seen

    for n in (1, 4):
        check(filtered, x, torch.tensor(n))


def test_a_mask_of_all_dimensions_is_left_to_torch():
    def filtered(x, n):
        i, total = 0, x.sum()
        while i < n:
            large = x[x > i * 0.1]
            total = total * 0.5 + large.sum() + large.mean() * large.shape[0] + torch.sqrt(x).sum()
            i += 1
        return total, x[x > 0.5]

    check(filtered, torch.rand(4, 5), torch.tensor(6))


def test_what_torch_gives_is_dropped_after_the_call():
    def found(x, n):
        i, total = 0, x.sum()
        while i < n:
            places = torch.unique(torch.round(x * i))
            total = total * 0.5 + places.sum() + torch.sqrt(x).sum() * torch.exp(-x).mean()
            i += 1
        return total

    f = check(found, torch.rand(4, 5), torch.tensor(6))
    native = f.get_concrete_function(torch.rand(4, 5), torch.tensor(6)).scheduled.native
    assert native._later and not any(call._known for call in native._later)


def test_a_sieve():
    def primes(n):
        left, found = torch.arange(2, n), torch.arange(0)
        while left.shape[0] > 0:
            found = torch.cat([found, left[:1]])
            left = left[left % left[:1] != 0]
        return found

    check(primes, torch.tensor(80))


def test_the_last_row_is_broadcast():
    def grown(x, n):
        i = 0
        while i < n:
            x = torch.cat([x - x[-1:] * 0.5, x[:1] + x[-1:]])
            i += 1
        return x

    check(grown, torch.randn(2, 3), torch.tensor(5))
    empty = torch.empty(0, 3)
    assert torch.equal(tg.function(grown)(empty, torch.tensor(5)), grown(empty, 5))


def test_rows_by_index():
    def chosen(x, table, n):
        i = 0
        while i < n:
            x = torch.cat([x, table[x[-2:]].sum(1).argmax()[None]])
            order = torch.argsort(x.float()[:3])
            i += 1
        return x, table[x], table[x, order[0]], F.embedding(x, table), table.index_select(0, x)

    check(chosen, torch.tensor([1, 2, 3]), torch.randn(6, 4), torch.tensor(5))


# ---- lists whose items have different sizes


def appended(x, n):
    out, i = [x], 0
    while i < n:
        out.append(out[-1][-1:] * 2 + i)
        i += 1
    return torch.cat(out), len(out)


def of_all_sizes(x, n):
    out, i = [], 0
    while i < n:
        out.append(x[: i + 1])
        out.append(x[i:] * 2)
        i += 1
    return torch.cat(out), out[-1] + 1, out[0].sum()


def grown_items(x, n):
    out, i = [x], 0
    while i < n:
        x = torch.cat([x, x[-1:] + 1])
        out.append(x)
        i += 1
    total = x.sum()
    for item in out:
        total = total * 0.5 + item.mean()
    return torch.cat(out), total


def returned(x, n):
    out, i = [], 0
    while i < n:
        out.append(x[: i + 1] * 2)
        i += 1
    return out


def on_branches(x, n):
    out, i = [x[:1]], 0
    while i < n:
        if out[-1].shape[0] < 3:
            out.append(torch.cat([out[-1], x[:1]]))
        else:
            out.append(x[i:])
        i += 1
    return torch.cat(out), out[-1] * 1


def popped(x, n):
    stack, i, total = [x], 0, x.sum()
    while i < n:
        top = stack.pop()
        total = total + top.sum()
        stack.append(top[:2])
        stack.append(torch.cat([top, x[:1]]))
        i += 1
    return total, torch.cat(stack)


@pytest.mark.parametrize("shape", [(6,), (7, 2)])
@pytest.mark.parametrize("case", [appended, of_all_sizes, grown_items, returned, on_branches, popped])  # fmt: skip
def test_lists(case, shape):
    x = torch.randn(shape)
    f = tg.function(case)
    for n in (3, 1, 5):
        torch.testing.assert_close(f(x, torch.tensor(n)), case(x, n), rtol=2e-5, atol=2e-5, check_stride=True)  # fmt: skip
    scheduled = f.get_concrete_function(x, torch.tensor(3)).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert scheduled.native.run([x, torch.tensor(4)]) is not None


def test_lists_of_items_that_are_open_in_another_dimension():
    def kept(x, n):
        out, i = [x * 1], 0
        while i < n:
            x = torch.cat([x, x[:, :1]], 1)
            out.append(x)
            i += 1
        return out[1] + 1, out[-1].sum(1), out

    check(kept, torch.randn(2, 3, 2), torch.tensor(4))


# ---- gradients


def recurrence(x, w, n):
    i = 0
    while i < n:
        x = torch.cat([x, torch.tanh(x[-1:] @ w)])
        i += 1
    return (x * x).mean()


def cached(q, w, n):
    k, i = q, 0
    while i < n:
        k = torch.cat([k, torch.tanh(q @ w)], 1)
        q = torch.softmax(q @ k.transpose(1, 2), -1) @ k
        i += 1
    return q.pow(2).sum()


@pytest.mark.parametrize("case, shape", [(recurrence, (2, 4)), (cached, (2, 1, 4))])
def test_gradients(case, shape):
    f, w = tg.function(case), torch.randn(4, 4) * 0.5
    for n in (3, 1, 6, 3):
        x = torch.randn(shape)
        a, b, c, d = (t.clone().requires_grad_() for t in (x, w, x, w))
        f(a, b, torch.tensor(n)).backward()
        case(c, d, n).backward()
        torch.testing.assert_close((a.grad, b.grad), (c.grad, d.grad), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case, shape", [(recurrence, (2, 4)), (cached, (2, 1, 4))])
def test_gradients_inside_are_native(case, shape):
    def step(x, w, n):
        w = w.detach().requires_grad_()
        return torch.autograd.grad(case(x, w, n), w)[0]

    check(step, torch.randn(shape), torch.randn(4, 4) * 0.5, torch.tensor(4))


# ---- arguments that a loop makes smaller


def suppressed(boxes, scores, n):
    kept = [boxes.sum(0)]
    while scores.shape[0] > n:
        kept.append(boxes[scores.argmax()] * 2)
        rest = scores < scores.max()
        boxes, scores = boxes[rest], scores[rest]
    return kept


def by_two_loops(boxes, scores, n):
    while boxes.shape[0] > n:
        boxes = boxes[boxes[:, 0] < boxes[:, 0].max()]
    s = boxes.sum()
    while scores.shape[0] > n:
        scores = scores[scores < scores.max()]
    return s, scores.index_fill(0, torch.tensor([0]), 5.0)


@pytest.mark.parametrize("n", [1, 4, 8, 9])
@pytest.mark.parametrize("case", [suppressed, by_two_loops])
def test_arguments_that_iterations_take_parts_of(case, n):
    boxes, scores = torch.rand(8, 4), torch.rand(8)
    before = scores.clone()
    check(case, boxes, scores, torch.tensor(n))
    assert torch.equal(scores, before)


def behind(x):
    """What is left of one element, or nothing."""
    first, i = x[:1], 0
    while i < len(first) and first[i] < 2:
        i += 1
    rest = [x[1]]
    rest.extend(first[i:])
    return torch.stack(rest), first[i:].sum(), first[i:] * 2


def test_slices_of_one_element():
    g = tg.function(behind)
    for v in (1.0, 3.0) * 6:
        x = torch.tensor([v, 5.0])
        for a, b in zip(g(x), behind(x), strict=True):
            assert torch.equal(a, b)
    (cf,) = g.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")
