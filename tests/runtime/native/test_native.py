"""Whole graphs as native code: the same values as the reference interpreter, or a reason why not."""

import math
import re
import signal
import threading
import warnings

import pytest
import torch

import tograph as tg
from tograph import disk, settings
from tograph.runtime.graph import interp
from tograph.runtime.kernels import jit
from tograph.runtime.native import compiling, entry, nests, program

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def newton(x, n):
    y, i = x, torch.zeros_like(n)
    while bool((i < n) & (y > 0)):
        y = 0.5 * (y + x / y)
        i = i + 1
    return y, i


def collatz(n):
    steps = torch.zeros_like(n)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return n, steps


def python_numbers(x):
    i, total = 0, 0.0
    while i < int(x.sum()):
        total += i / 3 - (i % 4) * (i // 5) + math.sin(i) + max(i, 7) + abs(3 - i)
        i += 1
    return i, total, i > 3


def int_powers(x):
    i, total = 0, 0
    while i < int(x.sum()):
        total += 2**i - (i - 3) ** (i % 4)
        i += 1
    return total, i


def skipped(x, h):
    """The state of a part of the iterations stays: a choice among tensors."""
    state, seen = {"h": h, "n": 0}, []
    for i in range(len(x)):
        new = torch.tanh(state["h"] + x[i])
        if (x[i].abs() > 2).any():
            state["n"] += 1
        else:
            state = {"h": new, "n": state["n"]}
            state["h"] = state["h"] * 0.5
        seen.append(state["h"])
    return state["h"], state["n"], torch.stack(seen)


def power(a, v):
    for _ in tg.range(10):
        u = a @ v
        v = u / torch.sqrt((u * u).sum())
    return v


def gates(x, h, w, b):
    t = torch.zeros(())
    while t < 3:
        r, z = torch.addmm(b, h + x, w).chunk(2, 1)
        h = torch.sigmoid(r) * torch.tanh(z) + (1 - torch.sigmoid(r)) * h
        t = t + 1
    return h


def swapped(a, b):
    i = 0
    while i < 5:
        a, b = b, a + b
        i += 1
    return a, b


def nested(x):
    n = torch.zeros((), dtype=torch.int64)
    while n < 4:
        m = torch.zeros((), dtype=torch.int64)
        while m < n:
            x = x * 1.01
            m = m + 1
        if x.sum() > 10:
            x = x - x.max()
        else:
            x = torch.cat([x[2:], x[:2]])
        n = n + 1
    return x


def rows(x):
    y, i = x, 0
    while (y.abs().max() > 0.5) & (i < 4):
        i += 1
        y = torch.softmax(y, -1) + torch.nn.functional.layer_norm(y, [y.size(-1)]) * 0.1
    return y, y.argmax(-1), y.sum(0), y.t() @ y


def indexed(x, order):
    i, total = 0, torch.zeros(x.size(1))
    while i < 6:
        total = total + x[i] * x[-i - 1]
        i = i + 1
    return total, order + i


def stacked(x):
    i = torch.zeros((), dtype=torch.int32)
    while i < 3:
        x = torch.stack([x[1], x[0] * 2])
        i = i + 1
    return x


def integers(a, b):
    i = 0
    while i < 3:
        a, b = a // b + (a % b) * 3, b + (a > 2).to(a.dtype)
        i += 1
    return a, b


def half(x):
    i = 0
    while i < 3:
        x = x * 1.5 + 0.25
        i += 1
    return x, x.to(torch.float64)


def batched(a, b):
    i = 0
    while i < 2:
        a = torch.bmm(a, b) * 0.1
        i += 1
    return a


def r(*size, dtype=torch.float32, low=-5, high=6):
    g = torch.Generator().manual_seed(sum(size))
    if dtype.is_floating_point:
        return torch.randn(size, generator=g).to(dtype)
    return torch.randint(low, high, size, generator=g).to(dtype)


PROGRAMS = [
    (newton, [torch.tensor(2.0), torch.tensor(20, dtype=torch.int32)]),
    (newton, [torch.tensor(2.0, dtype=torch.float64), torch.tensor(20)]),
    (collatz, [torch.tensor(27)]),
    (python_numbers, [torch.full((3,), 4.5)]),
    (power, [r(64, 64), r(64)]),
    (power, [r(13, 13), r(13)]),
    (power, [r(7, 7, dtype=torch.float64), r(7, dtype=torch.float64)]),
    (int_powers, [torch.tensor([4, 5])]),
    (skipped, [r(9, 3) * 2, r(3)]),
    (gates, [r(5, 24), r(5, 24), r(24, 48), r(48)]),
    (gates, [r(17, 40), r(17, 40), r(40, 80), r(80)]),
    (swapped, [r(3, 3), r(3, 3)]),
    (swapped, [r(600, 3), r(600, 3)]),
    (nested, [r(5)]),
    (rows, [r(6, 10) * 3]),
    (rows, [r(40, 33) * 3]),
    (indexed, [r(6, 5), r(6, 5)]),
    (stacked, [r(2, 700)]),
    (integers, [r(9, dtype=torch.int32), r(9, dtype=torch.int32, low=1)]),
    (integers, [r(500, dtype=torch.int64), r(500, dtype=torch.int64, low=1)]),
    (half, [r(9, dtype=torch.bfloat16)]),
    (half, [r(400, dtype=torch.float16)]),
    (batched, [r(3, 4, 4), r(3, 4, 4)]),
]


def native_of(f, args):
    cf = tg.function(f).get_concrete_function(*args)
    cf.scheduled.compile()
    return cf


def close(a, b):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor)
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=1e-5 if a.dtype != torch.float64 else 1e-12, atol=1e-5, equal_nan=True)  # fmt: skip
    else:
        assert type(a) is type(b)
        assert a == pytest.approx(b)


@pytest.mark.parametrize(
    ("f", "args"), PROGRAMS, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(PROGRAMS)]
)
def test_same_as_the_interpreter(f, args):
    cf = native_of(f, args)
    assert cf.scheduled.level == "native", cf.scheduled.reason
    inputs = [x.clone() for x in args] + cf.captured_inputs
    expected = interp.run(cf.graph, inputs)
    got = cf.scheduled._native.run(inputs)
    assert got is not None
    for a, b in zip(expected, got, strict=True):
        close(a, b)
    for x, old in zip(inputs, args):
        assert torch.equal(x, old)
    again = cf.scheduled._native.run(inputs)
    for a, b in zip(got, again, strict=True):
        assert a is not b or not isinstance(a, torch.Tensor)
        close(a, b)


def zero_trips(x, n):
    while n > 0:
        x = x * 2
        n = n - 1
    return x


def test_a_result_that_is_an_argument_is_that_argument():
    f = tg.function(zero_trips)
    x = torch.ones(3)
    assert f(x, torch.tensor(0)) is x
    assert torch.equal(f(x, torch.tensor(2)), x * 4)
    assert f.concrete_functions[0].scheduled.level == "native"


def divides(a, b):
    i = torch.zeros((), dtype=torch.int64)
    while i < 3:
        b = b - 1
        a = a // b
        i = i + 1
    return a


def reads(x, i):
    total = x[0] * 0
    while i < 10:
        total = total + x[i]
        i = i + 1
    return total


def grows(x):
    n = 1
    while x > 0:
        n = n * 10
        x = x - 1
    return n


@pytest.mark.parametrize(
    ("f", "good", "bad", "error"),
    [
        (divides, (torch.tensor(100), torch.tensor(9)), (torch.tensor(100), torch.tensor(2)), ZeroDivisionError),
        (reads, (r(10, 2), torch.tensor(3)), (r(10, 2), torch.tensor(-12)), IndexError),
    ],
)  # fmt: skip
def test_failures_raise_what_eager_raises(f, good, bad, error):
    staged = tg.function(f)
    torch.testing.assert_close(staged(*good), f(*good))
    assert staged.concrete_functions[0].scheduled.level == "native"
    with pytest.raises((error, RuntimeError)) as plain:
        f(*bad)
    with pytest.raises(type(plain.value)):
        staged(*bad)
    torch.testing.assert_close(staged(*good), f(*good))


def test_ints_beyond_64_bits():
    f = tg.function(grows)
    assert f(torch.tensor(3)) == 1000
    assert f.concrete_functions[0].scheduled.level == "native"
    assert f(torch.tensor(40)) == 10**40


def forever(x):
    while x > 0:
        x = x + 0
    return x


def test_an_interrupt_stops_a_loop():
    f = tg.function(forever)
    f(torch.tensor(-1.0))
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(torch.tensor(1.0))
    timer.join()
    assert f.concrete_functions[0].scheduled.level == "native"


def looping(x, y):
    i = 0
    while i < 3:
        x = x * y + 1
        i += 1
    return x


@pytest.mark.parametrize(
    "make",
    [lambda: r(8, 4).t(), lambda: r(16, 4)[1::2].t(), lambda: torch.ones(1).expand(4, 8), lambda: r(4, 8).requires_grad_()],
)  # fmt: skip
def test_inputs_that_it_was_not_made_for(make):
    f = tg.function(looping)
    x = r(4, 8)
    torch.testing.assert_close(f(x, x), looping(x, x))
    y = make()
    got, expected = f(x, y), looping(x, y)
    torch.testing.assert_close(got, expected)
    assert got.stride() == expected.stride()
    assert got.requires_grad == y.requires_grad


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        i = 0
        while i < 3:
            x = x * 2
            i += 1
        before = self.total + 0
        self.total.add_(x.sum())
        return before, self.total * 1


def test_variables_are_written_at_the_end():
    module, plain = Counter(), Counter()
    f = tg.function(module.forward)
    x = torch.ones(4)
    for _ in range(3):
        version = module.total._version
        for a, b in zip(f(x), plain(x)):
            torch.testing.assert_close(a, b)
        assert module.total._version > version
    torch.testing.assert_close(module.total, plain.total)
    assert f.concrete_functions[0].scheduled.level == "native"


def test_a_written_tensor_that_overlaps_an_argument():
    module, plain = Counter(), Counter()
    f = tg.function(module.forward)
    f(torch.ones(4)), plain(torch.ones(4))
    for a, b in zip(f(module.total), plain(plain.total)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("level", ["missing", "broken"])
def test_other_levels_give_the_same(level, monkeypatch):
    if level == "missing":
        monkeypatch.setattr(program.jit, "host", lambda: None)
    else:
        monkeypatch.setattr(program.jit, "compile_module", broken)
    monkeypatch.setattr(disk, "_warned", set())
    f = tg.function(newton)
    args = [torch.tensor(2.0), torch.tensor(20, dtype=torch.int32)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for a, b in zip(f(*args), newton(*args)):
            torch.testing.assert_close(a, b)
    scheduled = f.concrete_functions[0].scheduled
    assert scheduled.level == "host"
    assert scheduled.reason
    if level == "broken":
        assert any("does not compile" in str(w.message) for w in seen)


def broken(*_):
    raise RuntimeError("no such instruction")


def test_outputs_are_fresh():
    f = tg.function(looping)
    x = r(3)
    first = f(x, x)
    kept = first.clone()
    f(x * 2, x)
    assert torch.equal(first, kept)


def test_nests_that_repeat_are_compiled_once():
    def layers(x, ws):
        y = x
        for i in range(12):
            y = torch.tanh(y * 0.5 + ws[i % 3])
            y = y - y.mean() * 0.1
        return y

    f = tg.function(layers)
    for size in ((4, 4), (40, 40)):  # written as plain loops, and with explicit vectors
        x, ws = torch.randn(size), [torch.randn(size) for _ in range(3)]
        cf = f.get_concrete_function(x, ws)
        cf.scheduled.compile()
        torch.testing.assert_close(f(x, ws), layers(x, ws))
        assert cf.scheduled.level == "native"
        assert 0 < len(cf.kernels) <= 6
        names = re.findall(r"^define internal i32 @(k\d+)\(", cf.scheduled.llvm, re.M)
        assert len(set(names)) == len(names) == len(cf.kernels)


def test_a_graph_of_many_nests_keeps_them_apart():
    def many(x):
        for i in range(52):
            x = torch.tanh(torch.clamp(x, max=3 + i))
            x = x - x.mean()
        return x

    f, x = tg.function(many), torch.randn(3, 5)
    cf = f.get_concrete_function(x)
    cf.scheduled.compile()
    torch.testing.assert_close(f(x), many(x))
    assert len(cf.kernels) > nests.MANY
    assert cf.scheduled.llvm.count("noinline #0") == len(cf.kernels)


def test_no_memory_for_the_temporaries(monkeypatch):
    real = torch.empty

    def empty(*size, **kwargs):
        if kwargs.get("dtype") == torch.uint8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return real(*size, **kwargs)

    monkeypatch.setattr(disk, "_warned", set())
    f = tg.function(gates)
    args = [r(5, 6), r(5, 6), r(6, 12), r(12)]
    with monkeypatch.context() as patched:
        patched.setattr(program.torch, "empty", empty)
        with pytest.warns(RuntimeWarning, match="no memory"):
            got = f(*args)
    torch.testing.assert_close(got, gates(*args))
    assert f.concrete_functions[0].scheduled.level == "host"
    assert "no memory" in f.concrete_functions[0].scheduled.reason


def widened(x, y):
    return x + 1, x.unsqueeze(1) * y.unsqueeze(0)


def test_no_memory_for_a_result_is_the_error_of_eager():
    x = torch.zeros(1 << 24)
    f = tg.function(widened)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="memory"):
            f(x, x)


def test_a_kernel_shows_itself_short():
    @tg.function
    def f(x):
        return torch.softmax(x * 2, -1).exp()

    x = torch.randn(64, 256)
    f(x)
    concrete = f.concrete_functions[0]
    concrete.scheduled.compile()
    f(x)
    text = repr(concrete.kernels[0])
    assert text.startswith(f"<kernel {concrete.kernels[0].name}: 64 x 256, ")
    assert "test_native.py" in text
    assert len(text) < 200


class Grower(torch.nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(rate))

    @tg.function
    def forward(self, x):
        while x.sum() < 10:
            x = x * self.rate
        return x, x.max()


def test_a_graph_like_an_earlier_one_takes_its_code_with_memory_of_its_own(monkeypatch):
    one, other, x = Grower(2.0), Grower(3.0), torch.ones(40) / 40
    lowered = []
    monkeypatch.setattr(compiling, "_lower", lambda g, *rest, made=compiling._lower: lowered.append(g) or made(g, *rest))  # fmt: skip
    with torch.no_grad():
        assert one(x)[1] == 16 / 40 and other(x)[1] == 27 / 40 and one(x)[1] == 16 / 40
        found = [m.forward.get_concrete_function(x).scheduled.native for m in (one, other)]
        assert len(lowered) == 1 and found[0] is not found[1]
        assert found[0]._arena.data_ptr() != found[1]._arena.data_ptr()
        assert one(torch.ones(41) / 41)[1] == 16 / 41 and len(lowered) == 2


def test_compiling_prints_nothing(tmp_path, monkeypatch, capfd):
    def prints(x, n):
        y, k = torch.ones(()), 0
        while k < n:
            k = k + 1
            y = y * 0.5 + 1
            print("p", 2)
        return y if x > 1 else x

    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    f = tg.function(prints)
    for n in (4, torch.tensor(3)):
        for _ in range(4):
            f(torch.tensor(1), n)
    assert list(tmp_path.glob("*.o"))
    assert capfd.readouterr().err == ""


def test_a_view_of_the_old_value_that_goes_on_is_not_written_over():
    def traded(x, y, n):
        total, i = x.sum() * 0, 0
        while i < n:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
            total = total + y.sum() * 0.01
            x, y = y, x
            i += 1
        return (x + 1).pow(2).sum() + total

    f, x, y = tg.function(traded), torch.randn(2, 3, 2), torch.randn(2, 3, 2)
    a, b, c, d = (t.clone().requires_grad_() for t in (x, y, x, y))
    f(a, b, torch.tensor(3)).backward()
    traded(c, d, 3).backward()
    torch.testing.assert_close((a.grad, b.grad), (c.grad, d.grad))


@pytest.mark.parametrize("part", ["run", "call"])
def test_code_that_does_not_link_leaves_calls_to_the_host(part, monkeypatch):
    """``run``: the code of graphs, ``call``: that of calls."""
    link = jit._link

    def some(image, functions, imports):
        if part in functions:
            raise RuntimeError("symbols not found")
        return link(image, functions, imports)

    monkeypatch.setattr(jit, "_link", some)
    monkeypatch.setattr(disk, "_warned", set())
    entry._method.cache_clear()
    f = tg.function(lambda x: (x * 3 - 1).relu())
    x = torch.randn(4, 6)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for a in (x, x, x, x.t(), x.t(), x):
                assert torch.equal(f(a), (a * 3 - 1).relu())
    finally:
        entry._method.cache_clear()
    assert {"compile" in str(w.message) for w in seen} == {True}


def test_code_for_other_strides_that_does_not_link_leaves_them_to_the_host(monkeypatch):
    f = tg.function(lambda x: (x * 5 - 1).softmax(-1))
    x = torch.randn(4, 6)
    for _ in range(3):
        f(x.t().contiguous())

    def none(*args):
        raise RuntimeError("symbols not found")

    monkeypatch.setattr(jit, "_link", none)
    monkeypatch.setattr(disk, "_warned", set())
    with pytest.warns(RuntimeWarning, match="does not compile"):
        for _ in range(3):
            torch.testing.assert_close(f(x.t()), (x.t() * 5 - 1).softmax(-1))
