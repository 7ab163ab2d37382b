"""Elements at positions that a tensor gives: eager PyTorch's values and errors, as native code."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def select_rows(x, i):
    return torch.index_select(x, 0, i) * 2


def select_columns(x, i):
    return torch.index_select(x, -1, i) + 1


def gather_rows(x, i):
    return x.gather(0, i.view(-1, 1).expand(-1, x.size(1)) % 3)


def gather_computed(x, i):
    y = torch.exp(x)
    return y.gather(1, i.view(1, -1) + 0) + y[:1, : i.numel()]


def embedded(x, i):
    return F.embedding(i.view(-1, 1), x).sum(1)


def indexed(x, i):
    return x[i] - x[i, i][:, None]


def middle(x, i):
    return x.view(1, *x.shape).expand(2, -1, -1)[:, i]


CASES = [select_rows, select_columns, gather_rows, gather_computed, embedded, indexed, middle]


def native(f, *args):
    """The result of the third call: it runs native code, or the test fails with the reason why not."""
    for _ in range(2):
        f(*args)
    program = f.get_concrete_function(*args).scheduled
    assert program.level == "native", program.reason
    return f(*args)


@pytest.mark.parametrize("size", [(3, 5), (40, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("case", CASES)
def test_values(case, size, dtype):
    if dtype in (torch.int64, torch.bool) and case is not select_rows:
        pytest.skip("one case for dtypes that only move")
    x = (torch.randn(size) * 3).to(dtype)
    i = torch.tensor([2, 0, 1, 1])
    got, want = native(tg.function(case), x, i), case(x, i)
    torch.testing.assert_close(got, want)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bad", [1000, -1, -1000])
def test_positions_out_of_range(case, bad):
    f, x, i = tg.function(case), torch.randn(40, 70), torch.tensor([2, 0, 1, 1])
    native(f, x, i)
    i = torch.tensor([0, bad, 1, 0])
    try:
        want = case(x, i)
    except (IndexError, RuntimeError) as error:
        with pytest.raises(type(error)):
            f(x, i)
    else:
        torch.testing.assert_close(f(x, i), want)


def from_ones(x, i):
    return F.embedding(i, torch.ones(3, 2)), torch.ones(3, 2)[i], x + 1


def from_one_row(x, i):
    return x[:1].expand(3, -1)[i]


def not_used(x, i):
    x[i]  # noqa: B018
    F.embedding(i, x)
    return x + 1


@pytest.mark.parametrize("case", [from_ones, from_one_row, not_used])
def test_positions_out_of_range_where_no_element_depends_on_them(case):
    f, x = tg.function(case), torch.randn(3, 2)
    native(f, x, torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        f(x, torch.tensor([0, 7]))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(1, 2), (7, 5), (300, 17)])
def test_losses_over_classes(size, dtype, weighted, reduction):
    def step(x, target, weight):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, target, weight if weighted else None, reduction=reduction)
        return loss.detach(), torch.autograd.grad((loss * loss).sum(), x)[0]

    x, weight = torch.randn(size, dtype=dtype), torch.rand(size[1], dtype=dtype)
    target = torch.randint(0, size[1], size[:1])
    target[: size[0] // 3] = -100
    f = tg.function(step)
    for got, want in zip(native(f, x, target, weight), step(x, target, weight)):
        torch.testing.assert_close(got, want)
    target[-1] = size[1]
    with pytest.raises(IndexError):
        f(x, target, weight)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 17, 3, 1), (3, 2, 40), (2, 4, 3, 2, 5)])
def test_losses_over_classes_of_images(size, dtype, weighted, reduction):
    def step(x, target, weight):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x * 2, target, weight if weighted else None, reduction=reduction)
        return loss.detach(), torch.autograd.grad((loss * loss).sum(), x)[0]

    x, weight = torch.randn(size, dtype=dtype), torch.rand(size[1], dtype=dtype)
    target = torch.randint(0, size[1], (size[0], *size[2:]))
    target[0, 0] = -100
    f = tg.function(step)
    for got, want in zip(native(f, x, target, weight), step(x, target, weight), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert got.stride() == want.stride()
    target.view(-1)[-1] = size[1]
    with pytest.raises(IndexError, match=f"Target {size[1]} is out of bounds"):
        f(x, target, weight)


@pytest.mark.parametrize("change", [lambda x, t, w: (x, t[:, :3], w), lambda x, t, w: (x, t, w[:2]), lambda x, t, w: (x, t.int(), w), lambda x, t, w: (x, t, w.double())])  # fmt: skip
def test_what_a_loss_over_images_is_not_given(change):
    def loss(x, target, weight):
        return F.nll_loss(x, target, weight)

    given = change(torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5)), torch.rand(3))
    with pytest.raises(RuntimeError) as want:
        loss(*given)
    with pytest.raises(RuntimeError) as got:
        tg.function(loss)(*given)
    assert str(want.value) in str(got.value)


def test_all_classes_ignored():
    def loss(x, target):
        return F.nll_loss(x, target, ignore_index=3)

    x, target = torch.randn(4, 5), torch.full((4,), 3)
    assert native(tg.function(loss), x, target).isnan() and loss(x, target).isnan()


def test_rows_of_a_carried_tensor():
    def shuffled(x, order, n):
        t = 0
        while t < n:
            x = torch.tanh(x.index_select(0, order)) + 0.5
            t += 1
        return x

    f, x, order = tg.function(shuffled), torch.randn(6, 9), torch.tensor([1, 2, 3, 4, 5, 0])
    for n in (0, 1, 5):
        torch.testing.assert_close(f(x, order, torch.tensor(n)), shuffled(x, order, n))
    assert f.concrete_functions[0].scheduled.level == "native"


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("size", [(4, 7), (1, 40), (33, 1)])
@pytest.mark.parametrize(
    ("shifts", "dims"), [(1, 0), (-1, 1), (50, -1), (0, 0), ((2, -3), (0, 1)), ((1, 1), (1, 1)), ((3, -3), (0, 0))]
)  # fmt: skip
def test_roll(shifts, dims, size, dtype):
    def f(x):
        y = x.roll(shifts, dims)
        return y, (x.to(torch.float32) + 1).roll(shifts, dims) * x

    x = (torch.randn(size) * 3).to(dtype)
    for got, wanted in zip(native(tg.function(f), x), f(x), strict=True):
        torch.testing.assert_close(got, wanted)


def test_roll_of_a_row_and_of_nothing():
    x, empty = torch.arange(9.0), torch.ones(0, 3)
    assert torch.equal(native(tg.function(lambda x: x.roll(2) + 1), x), x.roll(2) + 1)
    f = tg.function(lambda x: x.roll(1, 0) * 2)
    for _ in range(3):
        assert f(empty).shape == (0, 3)


def test_a_stencil_with_wrapping_edges():
    def life(g, n):
        i = torch.zeros_like(n)
        while i < n:
            near = sum(g.roll((a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - g
            g = ((near == 3) | ((near == 2) & (g == 1))).to(g.dtype)
            i = i + 1
        return g

    g = torch.randint(0, 2, (20, 37))
    f, n = tg.function(life), torch.tensor(12)
    assert torch.equal(native(f, g, n), life(g, n))


def test_roll_of_all_elements_is_the_host_s():
    x = torch.arange(12.0).view(3, 4)
    f = tg.function(lambda x: x.roll(5) + 1)
    for _ in range(3):
        assert torch.equal(f(x), x.roll(5) + 1)


def add_to(x, y):
    x.add_(y)
    return x


def add_selected_to(x, y):
    x.add_(y[y > 0])
    return x


@pytest.mark.parametrize(
    ("f", "of", "size"),
    [(add_to, (1,), (3,)), (add_to, (3,), (1, 3)), (add_selected_to, (1,), (3,))],
)
def test_more_than_there_is_room_for(f, of, size):
    staged = tg.function(f)
    for g in (f, staged, staged, staged):
        with pytest.raises(RuntimeError, match=r"shape \[|doesn't match"):
            g(torch.ones(of), torch.ones(size))


def with_rows_left(x, index):
    return x.gather(1, index[index[:, 0] >= 0]) * 2


def of_rows_left(x, index):
    return x[x[:, 0] > 0].gather(1, index) + 1


@pytest.mark.parametrize("function", [with_rows_left, of_rows_left])
def test_an_index_of_more_rows_than_there_are(function):
    """How many rows there are only the run knows: it raises, and reads nothing beyond the tensor."""
    x, staged = torch.arange(1.0, 7.0).reshape(2, 3), tg.function(function)
    for index in ([[0], [1]], [[2]], [[0], [1], [2], [0]]):
        index = torch.tensor(index)
        if len(index) > 2:
            with pytest.raises(RuntimeError, match="Size does not match at dimension 0"):
                staged(x, index)
        else:
            assert torch.equal(staged(x, index), function(x, index))


def test_an_index_of_no_elements_may_have_other_dimensions():
    def f(x, i, n):
        while n > 0:
            y = x.gather(0, i)
            n = n - 1
        return y

    args = torch.ones(5), torch.zeros(2, 0, dtype=torch.int64), torch.tensor(1)
    assert tg.function(f)(*args).shape == f(*args).shape == (2, 0)


PICKING = {
    "rows": lambda x, i: x.index_select(0, i),
    "columns": lambda x, i: x.index_select(1, i) + 1,
    "embedding": lambda x, i: F.embedding(i, x),
    "indexed": lambda x, i: x[i] * 2,
    "gathered": lambda x, i: x.gather(0, i.view(-1, 1).expand(-1, x.size(1))),
}


@pytest.mark.parametrize("spec", [(0, 3), (None, 3), (None, None)], ids=str)
@pytest.mark.parametrize("name", PICKING)
def test_nothing_is_picked_where_there_are_no_elements(name, spec):
    def tried(f, *args):
        try:
            found = f(*args)
        except (IndexError, RuntimeError) as error:
            return type(error), str(error).split("\n")[0]
        return found.shape, found.stride()

    f = PICKING[name]
    i = tg.TensorSpec([None], torch.int64)
    g = tg.function(f, input_signature=[tg.TensorSpec(spec, torch.float32), i])
    g.get_concrete_function().scheduled.compile()
    for size in ((0, 3), (0, 0), (3, 0), (4, 3)):
        if all(n in (None, m) for n, m in zip(spec, size)):
            for index in ([], [0], [5], [0, 0]):
                args = torch.zeros(size), torch.tensor(index, dtype=torch.int64)
                assert tried(g, *args) == tried(f, *args), (size, index)
