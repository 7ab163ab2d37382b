"""Loops over elementwise state: block by block where that is what the loop means, as eager PyTorch in any case."""

import linecache
import signal
import threading
from dataclasses import replace

import pytest
import torch

import tograph as tg
from tests.block_programs import Writer
from tests.late_loops import until_all_are_done, while_any_is_left
from tograph.runtime.native import blocks


def blocks_of(f, *args):
    """How many loops of a function run block by block."""
    program = f.get_concrete_function(*args).scheduled
    program.compile()
    assert program.level == "native", program.reason
    return sum("iteration" in k.llvm for k in program.native.low.kernels)


def check(fn, *args, count=1, **tolerance):
    f = tg.function(fn)
    for _ in range(2):
        torch.testing.assert_close(f(*args), fn(*args), **tolerance)
    assert blocks_of(f, *args) == count
    return f


def steps(n):
    return torch.tensor(n)


def logistic(x, r, n):
    i = torch.zeros_like(n)
    while i < n:
        x = r * x * (1 - x)
        i += 1
    return x, i


@pytest.mark.parametrize("shape", [(64,), (65,), (1000,), (5000,), (3, 70), (2, 3, 64)])
def test_elements_at_every_place(shape):
    x = torch.linspace(0.1, 0.9, torch.Size(shape).numel()).reshape(shape)
    for n in (0, 1, 13):
        check(logistic, x, torch.tensor(3.1), steps(n))


@pytest.mark.parametrize("shape", [(65,), (1000,), (3, 70)])
def test_without_instructions_that_take_masks(shape, monkeypatch):
    machine = replace(blocks.target(), avx512=False, vector_bytes=32)
    monkeypatch.setattr(blocks, "target", lambda: machine)
    x = torch.linspace(0.1, 50, torch.Size(shape).numel()).reshape(shape)
    check(until_done, x, steps(13))


def roots(x, n):
    y, i, active = torch.ones_like(x), 0, torch.ones_like(x, dtype=torch.bool)
    while i < n and active.any():
        new = 0.5 * (y + x / y)
        active = active & ((new - y).abs() > 1e-6)
        y = torch.where(active, new, y)
        i += 1
    return y, i, active


def until_done(x, n):
    done, i = torch.zeros_like(x, dtype=torch.bool), 0
    while not done.all() and i < n:
        x = torch.where(done, x, x * 0.5)
        done = done | (x < 1)
        i += 1
    return x, i, done


def collatz(x, n):
    count = torch.zeros_like(x, dtype=torch.int64)
    whole = x.to(torch.int64)
    while (whole > 1).any():
        count = count + (whole > 1)
        whole = torch.where(
            whole > 1, torch.where(whole % 2 == 0, whole // 2, 3 * whole + 1), whole
        )
    return count, whole


def endless(x, n):
    done = torch.zeros_like(x, dtype=torch.bool)
    while True:
        x = torch.where(done, x, x * 0.5)
        done = done | (x < n)
        if done.all():
            break
    return x, done


def counted(x, n):
    active = torch.ones_like(x, dtype=torch.bool)
    while active.sum() > 0:
        x = torch.where(active, x * 0.5, x)
        active = active & (x > n)
    return x


@pytest.mark.parametrize("fn", [endless, while_any_is_left, until_all_are_done, counted])
def test_breaks_and_counts(fn):
    x = torch.arange(1.0, 700.0)
    x[300] = 1e6
    for n in (1, 4, 20, 21, 100):
        check(fn, x, steps(n))
    if fn is not endless and fn is not counted:
        check(fn, x, steps(0))
    check(fn, torch.ones(700), steps(3))


@pytest.mark.parametrize("fn", [endless, while_any_is_left, until_all_are_done])
def test_breaks_at_the_end_of_a_round(fn, monkeypatch):
    x = torch.arange(1.0, 700.0)
    x[300] = 1e6
    for size in (13, 14, 15, 16, 17):
        monkeypatch.setattr(blocks, "ROUND", 1 << size)
        for n in (1, 19, 20, 21, 100):
            check(fn, x, steps(n))


@pytest.mark.parametrize("fn", [roots, until_done, collatz])
def test_blocks_that_end_before_others(fn):
    x = torch.arange(1.0, 700.0)
    x[300] = 1e6
    for n in (0, 4, 100):
        check(fn, x, steps(n))


def test_the_numbers_are_those_of_the_slowest_element():
    x = torch.ones(2000)
    x[1234] = 1e9
    assert check(until_done, x, steps(100))(x, steps(100))[1] == 30


def drift(x, scale, bias, n):
    for i in range(n):
        x = x * scale + bias * i
    return x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32])  # fmt: skip
def test_elements_of_numbers_and_of_tensors_that_are_spread(dtype):
    x = torch.arange(700).reshape(10, 70).remainder(11).to(dtype)
    bias = torch.arange(10).reshape(10, 1).to(dtype)
    check(drift, x, torch.tensor(2, dtype=dtype), bias, steps(5))


def handed_on(x, n):
    before = x
    for _ in range(n):
        before = x
        x = x + 1
    return before, x


def test_a_result_that_is_an_argument_is_that_very_tensor():
    x = torch.ones(100)
    f = check(handed_on, x, steps(5))
    before, after = f(x, steps(0))
    assert before is x and after is x
    before, after = f(x, steps(1))
    assert before is x and after is not x
    assert all(found is not x for found in f(x, steps(2)))


def chosen_tensor(x, y, n):
    for i in range(n):
        if i % 3 == 0:
            y = x
        elif i % 3 == 1:
            y = y + 1
    return x * 2, y


def test_what_a_branch_hands_on_may_be_an_argument():
    x, y = torch.ones(100), torch.zeros(100)
    f = check(chosen_tensor, x, y, steps(5), count=0)  # another tensor than one of the state
    assert f(x, y, steps(1))[1] is x


def swapped(x, y, n):
    for i in range(n):
        if i % 2 == 0:
            x, y = y, x
        else:
            x = x + 1
    return x, y


def test_tensors_that_are_swapped_in_some_iterations():
    x, y = torch.ones(100), torch.zeros(100)
    f = check(swapped, x, y, steps(5))
    for n in range(5):
        got, want = f(x, y, steps(n)), swapped(x, y, n)
        torch.testing.assert_close(got, want)
        assert [[a is b for b in (x, y)] for a in got] == [[a is b for b in (x, y)] for a in want]


def overflowing(x, n):
    k = 1 << 60
    for _ in range(n):
        x = x + 1
        k = k + k
    return x, k


def dividing(x, n):
    k = 0
    for i in range(n):
        x = x + 1
        k = 10 // (4 - i)
    return x, k


def test_numbers_that_fail_fail_as_in_python():
    x = torch.ones(100)
    f = check(overflowing, x, steps(1))
    assert f(x, steps(9))[1] == 1 << 69
    f = check(dividing, x, steps(3))
    with pytest.raises(ZeroDivisionError):
        f(x, steps(5))


def in_turn(x, n):
    y, late = x * 0, 0
    for i in range(n):
        if i % 2 == 0:
            x = x * 0.5 if i < 5 else x - 1
            late = i
        else:
            x, y = x + 1, x
    return x, y, late


def test_branches_on_numbers_are_choices():
    for n in (0, 1, 2, 9):
        check(in_turn, torch.linspace(-3, 3, 500), steps(n))


def walked(x, n):
    for _ in range(n):
        x = x + x.roll(1)
    return x


def rounded(x, n):
    """The mask is false, and true of the same number as a float64: 0.7 is more than a float32 of it."""
    i = 0
    while (x < 0.7).any() and i < n:
        wide = torch.where(x < 0.7, x.double() * 2, x)
        x = torch.where(wide < 0.7, x + 0.5, x)
        i += 1
    return x, i


def test_a_mask_of_another_precision_is_another_mask():
    x = torch.full((5000,), 0.7)
    x[-1] = 0
    for n in (0, 1, 2, 5):
        check(rounded, x, steps(n), count=0)


def asked_behind(x, n):
    i = 0
    while i < n and (x > 1).any():
        x = torch.where(x > 1, x * 0.5, x)
        i += 1
    return x, i


def of_numbers(x, n):
    """What is chosen while the mask is true may be anything."""
    active, i, rate = torch.ones_like(x, dtype=torch.bool), 0, 1.0
    while i < n and active.any():
        if i % 3 == 0:
            rate = rate * 0.5
            new = x * rate
        else:
            new = x - rate * i
        x = torch.where(active, new, x)
        active = active & (x > 1)
        i += 1
    return x, i, rate, active


@pytest.mark.parametrize("fn", [asked_behind, of_numbers])
@pytest.mark.parametrize("size", [12, 25])
def test_masks_behind_numbers_and_steps_of_numbers(fn, size, monkeypatch):
    monkeypatch.setattr(blocks, "ROUND", 1 << size)
    x = torch.arange(1.0, 3000.0)
    x[::7] = float("nan")
    for n in (0, 1, 5, 40):
        f = tg.function(fn)
        torch.testing.assert_close(f(x, steps(n)), fn(x, steps(n)), equal_nan=True)
        assert blocks_of(f, x, steps(n)) == 1


def told_in_a_branch(x, n):
    active, seen = torch.ones_like(x, dtype=torch.bool), False
    for i in range(n):
        active = active & (x > 1)
        if i % 2 == 0:
            new = x * 0.5
            seen = active.any()
        else:
            new = x * 0.25
        x = torch.where(active, new, x)
        if not active.any():
            break
    return x, active, seen


def test_a_branch_that_asks_its_elements():
    for n in (0, 1, 2, 30):
        check(told_in_a_branch, torch.arange(1.0, 700.0), steps(n), count=0)


def normed(x, n):
    for _ in range(n):
        x = x / x.norm()
    return x


def pulled(x, n):
    x = x.view(-1, 2)
    for _ in range(n):
        x = x - 0.1 * x / (x.norm(dim=1, keepdim=True) + 1)
    return x


def asked_in_a_branch(x, n):
    total = x[0]
    for i in range(n):
        if i > 2:
            if total < i:
                x, total = x + 1, x[3]
            else:
                x = x * 0.5
    return x, total


def spread(x, n):
    """What an iteration gives is one number for all elements."""
    for i in range(n):
        x = torch.zeros(()).add(i).expand(x.shape)
    return x


def turned(x, n):
    x = x.view(10, 10)
    for _ in range(n):
        x = (x * 2).t()
    return x


def unmasked(x, n):
    while (x < n).any():
        x = x + 1
    return x


def two_masks(x, n):
    y = -x
    while (x < n).any() and not (y < -n).any():
        x, y = torch.where(x < n, x + 1, x), y - 1
    return x, y


def divided(x, n):
    whole = x.to(torch.int64)
    for i in range(n):
        whole = whole // (whole - i)
    return whole


def told(x, n):
    """Elements are computed of the answer."""
    for _ in range(n):
        x = torch.where(x > 1, x * 0.5, x) + (x > 1).any()
        if not (x > 1).any():
            break
    return x


def goes_on(x, n):
    """The answer ends nothing."""
    ended = False
    for _ in range(n):
        x = torch.where(x > 1, x * 0.5, x)
        ended = bool((x <= 1).all())
    return x, ended


@pytest.mark.parametrize(
    "fn",
    [walked, normed, pulled, asked_in_a_branch, unmasked, two_masks, told, goes_on],
)
def test_elements_that_need_others(fn):
    check(fn, torch.arange(100.0), steps(5), count=0)


@pytest.mark.parametrize("fn", [spread, turned])
def test_elements_that_are_views(fn):
    f, x = tg.function(fn), torch.arange(100.0)
    for n in (0, 1, 4):
        for _ in range(2):
            got, want = f(x, steps(n)), fn(x, n)
            assert torch.equal(got, want) and got.stride() == want.stride()


def halved(x, n):
    while (x > 1).any() and n > 0:
        x = x * 0.5
        n = n - 1
    return x, n


def partly_asked(x, n):
    while (x[:0] > 1).any() or n > 0:
        x = x * 0.5
        n = n - 1
    return x, n


@pytest.mark.parametrize("fn, size", [(halved, 0), (partly_asked, 0), (partly_asked, 100)])
def test_no_elements_are_asked(fn, size):
    f, args = tg.function(fn), (torch.full((size,), 8.0), steps(3))
    for _ in range(2):
        torch.testing.assert_close(f(*args), fn(*args))
    program = f.get_concrete_function(*args).scheduled
    assert not size or program.level == "native"


def test_elements_that_fail():
    x = torch.full((100,), 50.0)
    f = check(divided, x, steps(1), count=0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(torch.full((100,), 1.0), steps(3))


def printed(x, n):
    for i in range(n):
        x = x + 1
        print(i)
    return x


def test_effects_stay_in_their_order(capsys):
    f = tg.function(printed)
    f(torch.ones(100), steps(3))
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_a_loop_in_a_loop():
    def fn(x, n):
        total = torch.zeros(())
        for _ in range(n):
            for _ in range(n):
                x = x * 0.9 + 0.1
            total = total + x.sum()
        return x, total

    check(fn, torch.linspace(-1, 1, 300), steps(4))


def forever(x):
    active = torch.ones_like(x, dtype=torch.bool)
    while active.any():
        x = torch.where(active, x * 1.0, x)
        active = active & (x > 0)
    return x


def test_an_interrupt_stops_it():
    f = tg.function(forever)
    f(torch.full((200,), -1.0))
    assert blocks_of(f, torch.ones(200)) == 1
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(torch.ones(200))
    timer.join()


def test_more_iterations_than_a_round_makes(monkeypatch):
    monkeypatch.setattr(blocks, "ROUND", 1 << 12)
    x = torch.arange(1.0, 300.0) * 1e6
    check(until_done, x, steps(100))
    check(logistic, x / 1e9, torch.tensor(3.1), steps(40), rtol=1e-3, atol=1e-3)


def inputs(writer, seed):
    g = torch.Generator().manual_seed(seed)
    for dtype in writer.state.values():
        x = torch.randn(writer.shape, generator=g) * 3
        yield (x.abs() * 9 if dtype == "uint8" else x).to(getattr(torch, dtype))
    for dtype, shape in writer.others.values():
        x = torch.randn(shape, generator=g) * 2
        yield x > 0 if dtype == "bool" else x.to(getattr(torch, dtype))


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    writer = Writer(seed)
    name, space = f"<block program {seed}>", {"torch": torch}
    linecache.cache[name] = (len(writer.source), None, writer.source.splitlines(True), name)
    exec(compile(writer.source, name, "exec"), space)
    f = tg.function(space["f"])
    given = list(inputs(writer, seed))
    for n in (0, 1, 2, 9):
        got, want = f(*given, steps(n)), space["f"](*given, steps(n))
        for a, b in zip(got, want, strict=True):
            half = isinstance(b, torch.Tensor) and b.dtype in (torch.float16, torch.bfloat16)
            torch.testing.assert_close(a, b, rtol=0.05 if half else 1e-3, atol=0.05 if half else 1e-3, equal_nan=True)  # fmt: skip
            if isinstance(b, torch.Tensor):
                assert a.stride() == b.stride()
