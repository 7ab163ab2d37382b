"""Lists and optionals in native code: values, gradients, and what crosses to other programs."""

import gc
import itertools

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def collect(x, n):
    xs, i = [], 0
    while i < n:
        x = x * 0.5 + 1
        xs.append(x)
        i += 1
    return torch.stack(xs), x


def read_back(x, n):
    xs, i = [x], 0
    while i < n:
        xs.append(xs[-1] * 0.5 + xs[0])
        i += 1
    total = torch.zeros_like(x)
    for j in tg.range(len(xs)):
        total = total + xs[j] * (j + 1)
    return total, len(xs)


def stack_machine(x, n):
    xs, i = [], 0
    total = torch.zeros_like(x)
    while i < n:
        xs.append(x * (i + 1))
        if i % 3 == 2:
            top = xs.pop()
            xs.append(top + 1)
            xs.append(top - 1)
            total = total + top
        i += 1
    while len(xs) > 0:
        total = total * 0.5 + xs.pop()
    return total


def replaced(x, n):
    xs = [x, x + 1, x + 2]
    i = 0
    while i < n:
        old = xs[i % 3]
        xs[i % 3] = old * 2 + xs[(i + 1) % 3]
        x = x + old
        i += 1
    return torch.stack(xs), x


def numbers(x, n):
    seen, i = [], 0
    while i < n:
        seen.append(i * i)
        i += 1
    total = 0
    for k in tg.range(len(seen)):
        total += seen[k]
    return x * total, len(seen)


def scalars(x, n):
    xs, i = [], 0
    while i < n:
        xs.append(x.sum() * i)
        i += 1
    return torch.stack(xs).sum()


def two_kinds(x, n):
    xs, ys, i = [], [], 0
    while i < n:
        if i % 2 == 0:
            xs.append(x + i)
        else:
            ys.append((x - i).sum(0))
        i += 1
    return torch.cat(xs).sum(0) + torch.stack(ys).sum(0)


def inner_loops(x, n):
    rows, i = [], 0
    while i < n:
        j = 0
        while j < i:
            rows.append(x * j + i)
            j += 1
        i += 1
    return torch.stack(rows).sum(0), len(rows)


def kept_copy(x, n):
    xs, best, i = [x], x, 0
    while i < n:
        xs.append(x + i)
        best = xs[0] + xs[-1]
        i += 1
    ys = xs.copy()
    ys.append(best)
    return torch.stack(xs).sum(0), torch.stack(ys).sum(0)


def matrices(x, n):
    xs, gs, i = [], [], 0
    while i < n:
        x = torch.tanh(x) + 0.1
        xs.append(x)
        gs.append(x.sin())
        i += 1
    a, b = torch.cat(xs), torch.cat(gs)
    return a.t() @ b, b.sum(0), torch.addmm(x[0], a.t(), b)


def items_of_a_list(x, n):
    """The list that ``tensor`` makes of the items begins empty."""
    found, last = [], -1
    for row in x[:n].argmax(1):
        row = row.item()
        if row != last:
            found.append(row)
        last = row
    return torch.tensor(found), len(found)


def side_by_side(x, n):
    """Joined along other dims than the first: the results are contiguous, and so is what is computed of one."""
    xs, i = [], 0
    while i < n:
        x = torch.tanh(x) + 0.1
        xs.append(x)
        i += 1
    a = torch.stack(xs, 1)
    return a, torch.stack(xs, -1), torch.cat(xs, 1), a.contiguous() * 2 + 1


PROGRAMS = [side_by_side, collect, read_back, stack_machine, replaced, numbers, scalars, two_kinds, inner_loops, kept_copy, matrices, items_of_a_list]  # fmt: skip


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (5, 70)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_native(program, size):
    x, f = torch.randn(*size), tg.function(program)
    for n in (7, 3, 40):
        found, wanted = f(x, torch.tensor(n)), program(x, torch.tensor(n))
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3, check_stride=True)
    scheduled = f.get_concrete_function(x, torch.tensor(n)).scheduled
    assert scheduled.level == "native", scheduled.reason


def recurrent(w, x, n):
    h, t = torch.zeros(3, 5), 0
    while t < n:
        h = torch.tanh(h @ w + x)
        t += 1
    return (h * h).sum()


def branching(w, x, n):
    h, t = x, 0
    while t < n:
        if h.sum() > 0:
            h = torch.sin(h @ w)
        else:
            h = h * w.sum() + torch.exp(-h)
        t += 1
    return h.sum()


def nested(w, x, n):
    h, t = x, 0
    while t < n:
        s = 0
        while s < t + 1:
            h = torch.tanh(h @ w) + 0.1 * h
            s += 1
        h = h * 0.9
        t += 1
    return h.square().mean()


def nested_deep(w, x, n):
    h = x
    for a in tg.range(n):
        for b in tg.range(a):
            if h.mean() > 0.1:
                for _ in tg.range(b + 1):
                    h = torch.tanh(h @ w) * h
            else:
                h = h + 0.3 * torch.cos(h @ w)
    return h.sum()


def one_branch(w, x, n):
    if n > 3:
        return torch.exp(torch.sin(x @ w)).sum()
    return (x @ w).square().sum()


def early(w, x, n):
    h = x
    for t in tg.range(n):
        h = torch.tanh(h @ w) * 1.5
        if h.abs().max() < 0.2:
            break
    return h.sum()


def collected(w, x, n):
    xs, h = [], x
    for _ in tg.range(n):
        h = torch.tanh(h @ w)
        xs.append(h)
    return torch.stack(xs).square().mean()


def _slices(part):
    def slices(w, x, n):
        xs, h = [], x
        for _ in tg.range(n):
            h = torch.tanh(h @ w)
            xs.append(h)
        found = torch.stack(xs[part])
        return (found * torch.arange(1, len(found) + 1).view(-1, 1, 1)).square().mean()

    slices.__name__ = str(part)
    return slices


SLICES = [_slices(slice(*ends)) for ends in [(None, None, -1), (1, None, 2), (-2, None), (None, 9, 3), (4, 0, -2), (0, -1)]]  # fmt: skip
DIFFERENTIABLE = [recurrent, branching, nested, nested_deep, one_branch, early, collected, *SLICES]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("program", DIFFERENTIABLE, ids=lambda p: p.__name__)
def test_gradients(program, dtype):
    torch.manual_seed(1)
    x, w = torch.randn(3, 5, dtype=dtype), torch.randn(5, 5, dtype=dtype, requires_grad=True)
    if program is recurrent:
        x, w = x.float(), w.detach().float().requires_grad_()
    f = tg.function(program)
    for n in (4, 2, 6, 5):
        (found,) = torch.autograd.grad(f(w, x, torch.tensor(n)), w)
        (wanted,) = torch.autograd.grad(program(w, x, torch.tensor(n)), w)
        exact = x.dtype == torch.float64
        torch.testing.assert_close(found, wanted, rtol=1e-8 if exact else 1e-3, atol=1e-8 if exact else 1e-4)  # fmt: skip


def _pairs(f, *args):
    """The programs of the gradients that a function has taken."""
    found = f.get_concrete_function(*args).gradients.differentiable._pairs.values()
    return [(p.program, *p._backwards.values()) for p in found]


@pytest.mark.parametrize("program", [recurrent, branching, nested, one_branch, early, *SLICES], ids=lambda p: p.__name__)  # fmt: skip
def test_both_passes_are_native(program):
    x, w = torch.randn(3, 5), torch.randn(5, 5, requires_grad=True)
    f, n = tg.function(program), torch.tensor(4)
    for _ in range(3):
        torch.autograd.grad(f(w, x, n), w)
    for programs in _pairs(f, w, x, n):
        assert [p.reason for p in programs] == [""] * len(programs)


def test_saved_lists_are_apart_from_later_calls():
    x, w = torch.randn(3, 5), torch.randn(5, 5, requires_grad=True)
    f = tg.function(recurrent)
    losses = [f(w, x, torch.tensor(n)) for n in (3, 9, 1, 5)]
    for loss, n in zip(losses, (3, 9, 1, 5)):
        (found,) = torch.autograd.grad(loss, w)
        (wanted,) = torch.autograd.grad(recurrent(w, x, torch.tensor(n)), w)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_results_that_grow_are_tensors_of_their_own():
    f, x = tg.function(collect), torch.randn(4, 4)
    first, _ = f(x, torch.tensor(50))
    kept = first.clone()
    for n in (60, 3, 80):
        f(x + n, torch.tensor(n))
    assert torch.equal(first, kept)
    row = f(x, torch.tensor(9))[0][4]
    gc.collect()
    f(x + 1, torch.tensor(9))
    assert torch.equal(row, collect(x, 9)[0][4])


def test_a_list_from_outside_and_back():
    @tg.function
    def f(items, x):
        while items.size() % 4 != 0:
            items = items.push(x + items.size())
        return items.push(x), items.stack().sum()

    x = torch.ones(2)
    start = tg.TensorList(torch.float32, [2]).push(x)
    once, total = f(start, x)
    twice, total2 = f(once, x)
    assert total == 2 + 6 + 2 * 6 and int(once.size()) == 5 and int(twice.size()) == 9
    assert torch.equal(twice.get(5), x + 5) and torch.equal(once.get(2), x + 2)
    same, first = tg.function(lambda items: (items, items.get(0) * 2))(once)
    assert torch.equal(first, 2 * x) and torch.equal(same.get(4), x)
    assert total2 == total + 2 + 6 + 2 * 18


def test_a_failing_index_raises_where_python_does():
    def f(x, n):
        xs = [x, x]
        for _ in tg.range(n):
            xs.append(x)
        return xs[n + 2]

    with pytest.raises(IndexError):
        tg.function(f)(torch.ones(2), torch.tensor(3))


def test_optionals():
    @tg.function
    def f(x, flag):
        o = tg.Optional.empty(tg.TensorSpec([2], torch.float32))
        if flag:
            o = tg.Optional.from_value(x + 1)
        out = torch.zeros(2)
        if o.has_value():
            out = out + o.get_value()
        return out

    for _ in range(3):
        assert torch.equal(f(torch.ones(2), torch.tensor(True)), torch.full((2,), 2.0))
        assert torch.equal(f(torch.ones(2), torch.tensor(False)), torch.zeros(2))
    found = f.get_concrete_function(torch.ones(2), torch.tensor(True)).scheduled
    assert found.level == "native", found.reason


def test_memory_of_dropped_results_is_used_again():
    f, x = tg.function(collect), torch.randn(64, 64)
    for _ in range(3):
        f(x, torch.tensor(30))
    places = {f(x, torch.tensor(30))[0].data_ptr() for _ in range(6)}
    assert len(places) <= 2


def test_a_tensor_whose_length_only_the_run_knows_goes_in():
    def f(w, x, n):
        xs, h = [], x
        for _ in tg.range(n):
            h = torch.tanh(h @ w)
            xs.append(h)
        return torch.stack(xs).exp().square().sum()

    x, w = torch.randn(3, 5), torch.randn(5, 5, requires_grad=True)
    g = tg.function(f)
    for n in (4, 2, 7):
        (found,), (wanted,) = (torch.autograd.grad(h(w, x, torch.tensor(n)), w) for h in (g, f))
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_a_list_grows_without_copies_and_without_much_memory():
    @tg.function
    def f(x, n):
        xs, i = [], 0
        while i < n:
            xs.append(x + i)
            i += 1
        return torch.stack(xs)

    x = torch.zeros(1 << 16)
    native = f(x, torch.tensor(100))
    assert native.shape == (100, 1 << 16) and native[99, 5] == 99
    held = f.get_concrete_function(x, torch.tensor(1)).scheduled.native._buffers
    assert held._table[0] == 0  # no block that was outgrown is left


def pushed_in_place(x, n):
    """Pushed tensors that are read, pushed and changed again after they were computed in their place in the list."""
    a, b, c = (*(tg.TensorList(torch.float32, [300]) for _ in range(2)), [])
    i = 0
    while i < n:
        y = x * 2 + i
        a = a.push(y)
        b = b.push(y)
        z = torch.cat([y[1:], y[:1]])
        c.append(z)
        z = z.clone()
        z[0] = -1.0
        x = torch.tanh(y) if i % 2 == 0 else z + y
        if x.sum() > 0:
            a = a.push(x + 1)
        i += 1
    return x, a.stack(), b.stack(), torch.stack(c)


def test_tensors_that_are_computed_where_they_are_pushed():
    f = tg.function(pushed_in_place)
    for trips in (3, 40, 1):
        x = torch.randn(300)
        torch.testing.assert_close(
            f(x, torch.tensor(trips)), pushed_in_place(x, torch.tensor(trips))
        )
    assert f.concrete_functions[0].scheduled.level == "native"


def test_a_push_of_what_was_just_computed_copies_nothing():
    def program(x, n):
        ys = []
        for i in range(n):
            ys.append(torch.tanh(x * i))
        return torch.stack(ys)

    f = tg.function(program)
    for trips in (3, 40):
        n = torch.tensor(trips)
        torch.testing.assert_close(f(torch.ones(300), n), program(torch.ones(300), n))
    lines = f.concrete_functions[0].scheduled.llvm.splitlines()
    assert any("@room" in line for line in lines)
    assert not any("memmove" in line and " 1200, " in line for line in lines)


# ---- slices


def sliced(x, n):
    xs, i = [x], 0
    while i < n:
        x = torch.cos(x) * 0.5 + i
        xs.append(x)
        i += 1
    ys, zs = xs[2:], xs[-3:-1]
    ys.append(x * 2)
    zs.append(x * 3)
    xs.append(x * 4)
    return (
        torch.stack(ys),
        torch.stack(zs),
        torch.stack(xs),
        len(xs[:-1]),
        len(xs[3:1]),
        len(xs[-100:100]),
    )


def windows(x, n):
    xs, i, total = [x, x + 1], 0, torch.zeros(4)
    while i < n:
        xs.append(xs[-1] * 0.5 + i)
        xs = xs[-3:]
        for y in xs[1:]:
            total = total + y
        i += 1
    return total, torch.stack(xs)


@pytest.mark.parametrize("f", [sliced, windows])
def test_slices_of_lists(f):
    g, x = tg.function(f), torch.randn(4)
    for n in map(torch.tensor, (2, 2, 3, 7, 7)):
        for a, b in zip(g(x, n), f(x, n), strict=True):
            torch.testing.assert_close(a, b)
    if f is sliced:
        (cf,) = g.concrete_functions
        assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")


def stepped(x, n, start, stop):
    xs, numbers, i = [x], [0], 0
    while i < n:
        x = torch.cos(x) * 0.5 + i
        xs.append(x)
        numbers.append(i * 3)
        i += 1
    back, every = xs[::-1], xs[start:stop:2]
    back.append(x * 5)
    total = torch.zeros(())
    for k in numbers[start:stop:-2]:
        total = total * 10 + k
    path = torch.stack(xs[stop:start:-1]) if len(xs[stop:start:-1]) else x * 3
    return torch.stack(back), torch.stack(xs), len(every), sum(every, x * 2), total, path


def test_slices_of_lists_with_a_step():
    g, x = tg.function(stepped), torch.randn(4)
    ends = [-9, -3, -1, 0, 2, 9]
    for n, start, stop in itertools.product([0, 1, 6], ends, ends):
        given = x, torch.tensor(n), torch.tensor(start), torch.tensor(stop)
        for a, b in zip(g(*given), stepped(*given), strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    (cf,) = g.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")


def _queue(x, n):
    """Served in turn."""
    waiting, served, k = [], torch.zeros(3), 0
    while k < n:
        waiting.append(x * k)
        if len(waiting) > 2:
            served = served * 2 + waiting.pop(0)
        k += 1
    return waiting, served


def _sorted(x, n):
    found, k = [], 0
    while k < n:
        v, at = torch.sin(x.sum() * (k + 1)), 0
        while at < len(found) and found[at] < v:
            at += 1
        found.insert(at, v)
        k += 1
    return found


def _anywhere(x, n):
    """Places from both ends, and beyond them; an older list stays as it is."""
    xs, k = [x], 0
    while k < n:
        xs.insert(-1, x + k)
        xs.insert(k * 3 - 4, x * k)
        xs.insert(99, -x)
        if k % 2 == 1:
            old = xs[:]
            y = xs.pop(k // 2)
            z = xs.pop(-2)
            xs.insert(1, y * 10 + z + old[0] + len(old))
        k += 1
    return xs


def _numbers(x, n):
    xs, total, k = [1], 0, 0
    while k < n:
        xs.insert(k // 2, k)
        total = total * 3 + xs.pop(len(xs) // 2) + len(xs)
        xs.insert(0, total)
        k += 1
    return xs, total


def _itself(x, n):
    """Items go from place to place."""
    xs, k = [x, x + 1, x + 2], 0
    while k < n:
        xs.insert(0, xs[-1])
        xs.append(xs.pop(1))
        k += 1
    return xs


@pytest.mark.parametrize("f", [_queue, _sorted, _anywhere, _numbers, _itself])
def test_items_in_the_middle(f):
    g, x = tg.function(f), torch.tensor([0.3, -1.0, 2.0])
    for n in (0, 1, 2, 3, 9, 40):
        torch.testing.assert_close(g(x, torch.tensor(n)), f(x, torch.tensor(n)))
    assert g.concrete_functions[-1].scheduled.level == "native"


def test_an_item_that_is_not_there():
    def f(x, n):
        xs, k = [x, x + 1], 0
        while k < n:
            x = x + xs.pop(k)
            k += 1
        return x

    g, x = tg.function(f), torch.ones(2)
    torch.testing.assert_close(g(x, torch.tensor(1)), f(x, torch.tensor(1)))
    for call in (f, g):
        with pytest.raises(IndexError):
            call(x, torch.tensor(2))


def test_a_list_that_is_made_of_itself_in_a_loop():
    """What is put before it is written where the old list is not read any more."""

    def around(n, x):
        a = [x, x * 2]
        for i in range(n):
            a = [x + i, *a, x - i]
        return a

    def chosen(n, x):
        a = [1, 2]
        for i in range(n):
            if i % 2 == 0:
                a = [i] + a + [a[0]]
            else:
                a = a + [a[-1]]
        return a

    x = torch.arange(3.0)
    for f in (around, chosen):
        g = tg.function(f)
        for n in (3, 0, 5):
            torch.testing.assert_close(g(torch.tensor(n), x), f(torch.tensor(n), x))
        assert g.concrete_functions[0].scheduled.level == "native"


def _turns(n, x):
    p, q = [5], [6]
    for i in range(n):
        p, q = q, p + [i]
    return p, q


def _turns_of_tensors(n, x):
    p, q, r = [x], [x + 1], [x * 2]
    for i in range(n):
        p, q, r = r, p + [q[0] * 2], q[1:] + r[:2]
    return p, q, r


def _turns_in_a_branch(n, x):
    p, q = [1.5], []
    for i in range(n):
        if x[i] > 0.5:
            p, q = q, p + [x[i].item()]
        else:
            p, q = q + p[-2:], p
    return p, q


def _begun_with_the_other(n, x):
    p, q = [2.0, 3.0], [1.0]
    for i in range(n):
        p, q = q + p[:2], q + [x[i].item()]
    return p, q


def _whole_behind_the_other(n, x):
    p, q = [1, 2, 3], [4]
    for i in range(n):
        if i % 3 == 2:
            p, q = p + q[1:], q + p[:2]
        else:
            p, q = q + p, p
    return p, q


@pytest.mark.parametrize(
    "f",
    [_turns, _turns_of_tensors, _turns_in_a_branch, _begun_with_the_other, _whole_behind_the_other],
)
def test_lists_that_change_places_while_one_of_them_grows(f):
    """One is not copied to where the other stands as long as that is to be moved."""
    g, x = tg.function(f), torch.tensor([0.0, 2.0, 3.0, 0.5, 4.0, 0.1])
    for n in (3, 0, 1, 2, 5):
        torch.testing.assert_close(g(torch.tensor(n), x), f(torch.tensor(n), x))


def turned_items(x):
    found = []
    for i in tg.range(3):
        found.append(x * i)
    return found


def one_turned_item(x):
    found = [x]
    for i in tg.range(3):
        found.append(found[-1] + i)
    return found[2] * 2, torch.stack(found)


def views_as_items(x):
    found = []
    for i in tg.range(3):
        found.append(x.mT * i)
        found.append(x.mT)
    return found


@pytest.mark.parametrize("spec", [(2, 3), (None, 3), (4, 2, 3)], ids=str)
@pytest.mark.parametrize("f", [turned_items, one_turned_item, views_as_items])
def test_items_have_the_strides_of_eager_pytorch(f, spec):
    g = tg.function(f, input_signature=[tg.TensorSpec(spec, torch.float32)])
    g.get_concrete_function().scheduled.compile()
    size = [n or 2 for n in spec]
    for x in (torch.randn(size), torch.randn(size[::-1]).permute(*reversed(range(len(size))))):
        for _ in range(3):
            for a, b in zip(g(x), f(x), strict=True):
                assert torch.equal(a, b)
                assert a.stride() == b.stride()
