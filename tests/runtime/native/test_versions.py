"""Counted loops and loops in two versions: results, signals, and the choice between the versions."""

import ctypes
import signal
import time

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import threading, versions

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def collatz(n):
    start, x, k = n * 0 + 3, n * 0 + 3, n * 0
    while k < n:
        if x == 1:
            start = start + 2
            x = start
        elif x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        k = k + 1
    return start, x, k


def python_numbers(n):
    k, s = 0, 1.0
    while n > k:
        if k % 3 == 0:
            s = s / 2 + k
        else:
            s = s + 1
        k += 2
    return k, s


def by_range(n):
    a = b = n * 0
    for i in tg.range(n):
        if a > b:
            b = b + i
        else:
            a = a + 2 * i
    return a, b


def countdown_inside(n):
    total, k = n * 0, n * 0
    while k < n:
        if total > 10:
            total = total - 10
        m = k
        while m > 0:
            m = m - 1
            total = total + 1
        k = k + 1
    return total


def spans(n):
    total, steps = n * 0, 0
    for i in tg.range(1, n + 1, 3):
        total = total + i
        steps = steps + 1
    for i in tg.range(n + 2, 0, -2):
        total = total * 2 - i
        steps = steps + 100
    return total, steps


def near_the_end(n):
    k, odd = n - 20, n * 0
    while k < n:
        if k % 2 == 1:
            odd = odd + 1
        k = k + 1
    return k, odd


CASES = [collatz, python_numbers, by_range, countdown_inside, near_the_end]


def same(got, want):
    got, want = ((x,) if not isinstance(x, tuple) else x for x in (got, want))
    for a, b in zip(got, want, strict=True):
        assert type(a) is type(b)
        assert a == b
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype


@pytest.mark.parametrize("version", ["true", "false", "%chosen"])
@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_values(f, version, dtype, monkeypatch):
    monkeypatch.setattr(versions, "TEXT", versions.TEXT.replace("ret i1 %chosen", f"ret i1 {version}"))  # fmt: skip
    staged = tg.function(f)
    for n in (0, 1, 2, 7, 8, 9, 100, *([] if f is by_range else [-5])):
        n = torch.tensor(n, dtype=dtype)
        for _ in range(3):
            same(staged(n), f(n))
    program = staged.concrete_functions[0].scheduled
    assert program.level == "native", program.reason
    one_kind = f is not python_numbers or dtype == torch.int64  # a Python int counts in 64 bits
    assert ("@pick(" in program.llvm) == (one_kind and f is not countdown_inside)
    assert ("strip" in program.llvm) == one_kind


def test_lengths_of_ranges():
    f = tg.function(spans)
    for n in (0, 1, 2, 3, 4, 9, 10):
        same(f(torch.tensor(n)), spans(torch.tensor(n)))
    program = f.concrete_functions[0].scheduled
    assert program.level == "native", program.reason


def test_bounds_at_the_ends_of_the_type():
    f = tg.function(near_the_end)
    for n in (2**31 - 1, -(2**31) + 20):
        same(f(torch.tensor(n, dtype=torch.int32)), near_the_end(torch.tensor(n, dtype=torch.int32)))  # fmt: skip
    n = torch.tensor(2**63 - 1)
    same(f(n), near_the_end(n))


def uncounted(n):
    k, s = n * 0, n * 0
    while k < n:
        if s % 2 == 0:
            k = k + 1
        s = s + 1
    return k, s


def bound_moves(n):
    k, m = n * 0, n
    while k < m:
        if k % 3 == 0:
            m = m - 1
        k = k + 1
    return k, m


@pytest.mark.parametrize("f", [uncounted, bound_moves])
def test_loops_that_do_not_count(f):
    staged, n = tg.function(f), torch.tensor(30)
    same(staged(n), f(n))
    program = staged.concrete_functions[0].scheduled
    assert program.level == "native"
    assert "strip" not in program.llvm


def forever(n):
    k, s = n * 0, n * 0
    while k < n:
        if s % 7 == 3:
            s = s * 5 + k
        else:
            s = s + 1
        k = k + 1
    return s


class Stop(Exception):
    pass


def test_a_signal_stops_a_counted_loop():
    f = tg.function(forever)
    f(torch.tensor(10))
    assert f.concrete_functions[0].scheduled.level == "native"

    def stop(*_):
        raise Stop

    old = signal.signal(signal.SIGALRM, stop)
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stop):
            f(torch.tensor(1 << 60))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert time.perf_counter() - start < 20  # it did stop
    same(f(torch.tensor(10)), forever(torch.tensor(10)))


def compiled_policy(*names):
    """Addresses of the functions that choose a version."""
    text = versions.TEXT.replace("define internal", "define")
    text += f"declare i64 @llvm.umin.i64(i64, i64)\ndeclare i64 @llvm.{threading.COUNTER}()\n"
    return jit.compile_module(text + "attributes #0 = { nounwind }\n", [*names])


@pytest.fixture
def policy():
    """(pick, judge) of a fresh state, as Python functions."""
    found = compiled_policy("pick", "judge")
    state = (ctypes.c_int64 * 3)()
    pick = ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_void_p)(found["pick"])
    judge = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)(found["judge"])  # fmt: skip
    at = ctypes.addressof
    return lambda: bool(pick(at(state)) & 1), lambda v, ticks, trips: judge(
        at(state), v, ticks, trips
    )


@pytest.mark.parametrize("ticks", [(500, 900), (900, 500)])
def test_the_faster_version_is_taken(policy, ticks):
    pick, judge = policy
    for i in range(versions.TRIALS):
        version = pick()
        assert version == bool(i % 2)
        judge(version, ticks[version], 100)
    taken = [pick() for _ in range(versions.REPEAT)]
    assert taken.count(ticks[1] < ticks[0]) == versions.REPEAT - 1


def test_the_choice_follows_the_data(policy):
    pick, judge = policy
    taken = []
    for i in range(4000):
        version = pick()
        judge(version, (500, 900 if i < 1000 else 300)[version], 100)
        taken.append(version)
    assert sum(taken[100:1000]) < 50
    assert sum(taken[3000:]) > 950


def test_the_clock_is_read_now_and_then_and_always_for_the_other_version():
    found = compiled_policy("pick", "clock", "stop")
    state = (ctypes.c_int64 * 3)(0, 500, 900)
    pick = ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_void_p)(found["pick"])
    clock = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(found["clock"])
    stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)(found["stop"])  # fmt: skip
    at, calls = ctypes.addressof(state), 2 * versions.REPEAT
    read = [(bool(pick(at) & 1), clock(at) != 0) for _ in range(calls)]
    later = [timed for _, timed in read[versions.EARLY :]]
    assert all(timed for _, timed in read[: versions.EARLY])
    assert sum(later) == len(later) // versions.LATER
    others = [timed for version, timed in read[versions.TRIALS :] if version]
    assert others == [True, True]
    before = list(state)
    stop(at, False, 0, 10**6)
    assert list(state) == before
    stop(at, False, clock(at) or 1, 10**6)
    assert state[1] != before[1]


def test_short_runs_say_nothing(policy):
    pick, judge = policy
    for _ in range(versions.TRIALS):
        version = pick()
        judge(version, (500, 900)[version], 100)
    for _ in range(500):
        version = pick()
        judge(version, 1 if version else 10**6, versions.ENOUGH)
        if version:
            break
    assert not pick()
