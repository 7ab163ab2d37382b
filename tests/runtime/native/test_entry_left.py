"""What a call leaves in buffers comes from the entry: lists of numbers, and tensors as long as the run says."""

import gc

import pytest
import torch

import tograph as tg
from tograph.runtime.native import entry, layout, program, rows

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def digits(n):
    n, out = int(n), []
    while n > 0:
        out.append(n % 10)
        n //= 10
    return out


def halves(x):
    x, out = x.item(), []
    while abs(x) > 1:
        x /= 2
        out.append(x)
    return out


def bits(n):
    n, out = int(n), []
    while n > 0:
        out.append(n % 2 == 1)
        n //= 2
    return out


def powers(n):
    out, v = [], -1
    for _ in range(int(n)):
        out.append(v)
        v *= 8
    return out


def both(n):
    n, small, large = int(n), [], []
    while n > 0:
        if n % 10 < 5:
            small.append(n % 10)
        else:
            large.append(float(n % 10))
        n //= 10
    return small, {"large": large}, n


def chosen(x, low):
    while low > 10:
        low = low / 2
    return x[x > low]


def nested(n):
    n, out = int(n), []
    while n > 0:
        out.append([n, n + 1])
        n -= 1
    return out


def rounds(x, n):
    out = []
    for _ in range(n):
        x = x * 2
        out.append(x)
    return out


@pytest.fixture
def settled(monkeypatch):
    """Calls ``f`` until it has an entry, which then has to take every call without help of Python's path."""

    def settle(f, *calls):
        g = tg.function(f)
        for args in calls:
            for _ in range(5):
                g(*args)
        assert g.concrete_functions[-1].scheduled.level == "native"
        monkeypatch.setattr(program.Native, "run", lambda *_: pytest.fail("by Python's path"))
        return g

    return settle


@pytest.mark.parametrize(
    ("f", "values"),
    [
        (digits, [120456, 0, 7, 10**17]),
        (halves, [100.0, 0.5, -1e30]),
        (bits, [10, 0, 1, 2**62]),
        (powers, [3, 0, 21]),
        (both, [1928374655, 0, 3, 9]),
    ],
)
def test_lists_of_numbers(settled, f, values):
    tensors = [torch.tensor(v) for v in values]
    g = settled(f, *[(x,) for x in tensors])
    for x in tensors:
        found = g(x)
        assert found == f(x)
        assert repr(found) == repr(f(x))  # of the same types
        assert g(x) is not found


def test_the_lists_are_new(settled):
    n = torch.tensor(123)
    g = settled(digits, (n,))
    first = g(n)
    first.append(7)
    assert g(n) == [3, 2, 1]
    assert type(g(n)) is list


@pytest.mark.parametrize("count", [8, 40_000])
def test_tensors_as_long_as_the_run_says(settled, count):
    x = torch.randn(count, 3)[:, 0].contiguous()
    lows = [torch.tensor(v) for v in (0.0, -9.0, 9.0, 0.5)]
    g = settled(chosen, (x, lows[0]))
    for low in lows:
        found, expected = g(x, low), chosen(x, low)
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
        assert found.is_contiguous()
        found.zero_()
        assert torch.equal(g(x, low), expected)


def test_rows_of_tensors(settled):
    x = torch.randn(6, 2, 3)
    g = settled(rows_above, (x, torch.tensor(0.0)))
    for low in (0.0, 99.0, -99.0):
        found, expected = g(x, torch.tensor(low)), rows_above(x, torch.tensor(low))
        assert torch.equal(found, expected)
        assert (found.shape, found.stride()) == (expected.shape, expected.stride())


def rows_above(x, low):
    while low > 1000:
        low = low - 1
    return x[x[:, 0, 0] > low]


def test_results_that_python_makes(settled):
    g = settled(nested, (torch.tensor(2),))
    assert g(torch.tensor(3)) == [[3, 4], [2, 3], [1, 2]]
    assert g(torch.tensor(0)) == []


def test_a_list_of_tensors(settled):
    x = torch.randn(3)
    g = settled(rounds, (x, torch.tensor(3)))
    found = g(x, torch.tensor(2))
    assert [torch.equal(a, b) for a, b in zip(found, [x * 2, x * 4])] == [True, True]


def test_a_call_while_another_one_reads_its_buffers(monkeypatch):
    """The lock is held until the results are made: a call in between runs by another way."""
    g, seen = tg.function(nested), []
    for _ in range(5):
        g(torch.tensor(2))
    leave = rows._nested

    def between(*words):
        if not seen:
            seen.append(None)
            seen.append(g(torch.tensor(4)))
        return leave(*words)

    monkeypatch.setattr(rows, "_nested", between)
    assert g(torch.tensor(2)) == nested(torch.tensor(2))
    assert seen[1] == nested(torch.tensor(4))
    assert g(torch.tensor(1)) == nested(torch.tensor(1))


def test_an_error_of_what_makes_a_result_is_the_calls(monkeypatch):
    g = tg.function(nested)
    for _ in range(5):
        g(torch.tensor(2))

    def fail(*_):
        raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr(rows, "_nested", fail)
        with pytest.raises(MemoryError, match="none left"):
            g(torch.tensor(2))
    assert g(torch.tensor(3)) == nested(torch.tensor(3))


def test_long_results_hand_their_memory_over_and_get_it_back(settled):
    x = torch.randn(100_000)
    g = settled(chosen, (x, torch.tensor(0.0)))
    kept = [g(x, torch.tensor(float(v))) for v in (0.0, 0.5, -0.5)]
    assert all(torch.equal(k, x[x > v]) for k, v in zip(kept, (0.0, 0.5, -0.5)))
    del kept
    gc.collect()
    places = {g(x, torch.tensor(0.0)).data_ptr() for _ in range(20)}
    assert len(places) <= 4


def test_a_block_that_a_call_allocated_is_not_replaced():
    """A buffer without a block got one from a call, and then the one of a result that was dropped: the first was lost."""
    x = torch.randn(100_000)
    g = tg.function(chosen)
    for _ in range(5):
        held = g(x, torch.tensor(0.0))
    buffers = g.concrete_functions[-1].scheduled.native._buffers
    g(x, torch.tensor(9.0))
    (at,) = [i for i, word in enumerate(buffers._table) if i % 2 and word]
    before = buffers._table[at]
    buffers._empty.add(buffers.address + 8 * at)
    del held
    buffers.refill()
    assert buffers._table[at] == before
    assert not buffers._empty


def test_calls_that_decline_now_and_then_leave_the_native_code():
    """Calls that an entry ran were not counted: the eighth one that declined was taken for the eighth in a row."""

    def inverse(x, n):
        out = []
        for v in x:
            out.append(n.item() // v.item())
        return out

    g, x = tg.function(inverse), torch.tensor([1, 2, 3])
    for _ in range(5):
        g(x, torch.tensor(6))
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            g(x * 0, torch.tensor(6))
        assert g(x, torch.tensor(7)) == [7, 3, 2]
    scheduled = g.concrete_functions[-1].scheduled
    assert (scheduled.level, scheduled.declined) == ("native", 0)
    for _ in range(8):
        with pytest.raises(ZeroDivisionError):
            g(x * 0, torch.tensor(6))
    assert scheduled.level == "host"
    assert g(x, torch.tensor(7)) == [7, 3, 2]
