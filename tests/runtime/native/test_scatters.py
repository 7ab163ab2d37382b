"""Updates at positions that a tensor gives, in native code: eager PyTorch's values and errors."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import check
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def puts(x, n):
    t, a = 0, x.clone()
    i = torch.tensor([0, 3, -1])
    j = torch.tensor([1, 2, 2])
    c = torch.zeros(6, dtype=torch.int64)
    while t < n:
        a[a > 1] = 0.5
        a[i, j] = a[i, j] * 2 + t
        a[i] = a[1].clone()
        a[:, j] = -1.0
        a[a[:, 0] > 0] = x[0]
        a.index_put_((i, j), torch.ones(3), accumulate=True)
        c[j] += 1
        m = a[:, 1] < 0
        a[m] = x[m] * 3
        a = a - a.mean()
        t += 1
    return a, c


def scatters(x, n):
    t, a = 0, x.clone()
    i = torch.tensor([0, 3, 3, 1])
    k = torch.tensor([[0, 1, 2], [2, 2, 2], [5, 4, 0]])
    while t < n:
        a = a.index_add(0, i, x[:4]) * 0.5
        a = a.index_copy(1, torch.tensor([0, 2]), x[:, 1:3])
        a = a.index_fill(1, torch.tensor([4]), 2.5)
        a = a.scatter(1, k, x[:3, :3])
        a = a.scatter(0, k, 1.5)
        a = a.scatter_add(1, k, x[1:4, 2:5].contiguous())
        a = a.scatter_reduce(0, k, x[:3, :3], "amax")
        a = a.scatter_reduce(0, k, x[:3, :3], "amin", include_self=False)
        a = a.scatter_reduce(1, k, x[:3, :3], "prod", include_self=False)
        a = a.scatter_reduce(1, k, x[:3, :3], reduce="sum")
        t += 1
    return a


def counts(x, n):
    t, total = 0, torch.zeros(5)
    while t < n:
        lab = (x.abs() * 2).long().clamp(max=4).reshape(-1)
        total = (
            total
            + torch.bincount(lab, minlength=5)
            + torch.bincount(lab, x.reshape(-1), minlength=5)
        )
        total = total + torch.bincount(lab + t).sum()
        t += 1
    return total


def groups(x, n):
    """Means of groups."""
    c, t = x[:3].clone(), 0
    while t < n:
        lab = torch.cdist(x, c).argmin(1)
        sums = torch.zeros_like(c).index_add_(0, lab, x)
        c = sums / torch.bincount(lab, minlength=3).clamp(min=1).unsqueeze(1)
        t += 1
    return c, lab


def confusions(x, n):
    """Counts of pairs of labels, as a matrix, and counts of the columns of a matrix."""
    t, total, mean = 0, torch.zeros(3, 4), torch.zeros(2)
    while t < n:
        lab = (x.abs() * 2).long().clamp(max=2).reshape(-1)
        pairs = lab * 4 + lab.flip(0)
        total = total + torch.bincount(pairs, minlength=12).reshape(3, 4)
        mean = mean + torch.bincount(pairs, minlength=12).view(2, -1).float().mean(1)
        t += 1
    return total, mean


def ranges(x, n):
    """Positions and values that are made of numbers where they are used."""
    t = 0
    while t < n:
        x = x.clone().index_add(0, torch.arange(3), torch.eye(3, 6)) * 0.5
        x[torch.arange(2), torch.arange(2) + 1] = torch.arange(2.0)
        x = x.scatter_add(0, torch.arange(6).reshape(1, 6), torch.ones(1, 6))
        x = x.scatter(1, torch.arange(4).unsqueeze(1), torch.zeros(4, 1))
        x[x > 1] = torch.zeros(())
        x[torch.arange(7) > 4] = torch.arange(6.0)
        x = (
            x
            + torch.bincount(torch.arange(6), minlength=6)
            + torch.bincount(torch.arange(6), torch.arange(6.0))
        )
        t += 1
    return x


@pytest.mark.parametrize("f", [puts, scatters, counts, confusions, groups, ranges])
def test_values(f):
    check(f, ops=["aten._cdist_forward.default", "aten._euclidean_dist.default"])


def test_counts_that_do_not_fit_a_matrix():
    """As many labels as the run finds: a view of another size is eager PyTorch's error."""

    @tg.function
    def f(x):
        return torch.bincount(x, minlength=6).reshape(2, 3) * 2

    x = torch.tensor([0, 1, 5, 5])
    for _ in range(3):
        assert f(x).tolist() == [[2, 2, 0], [0, 0, 4]]
    assert f.concrete_functions[0].scheduled.level == "native"
    with pytest.raises(RuntimeError, match="invalid for input of size 8"):
        f(x + 2)
    assert f(x).tolist() == [[2, 2, 0], [0, 0, 4]]


def test_a_loop_updates_in_place():
    def f(x, n):
        seen, t = torch.zeros(7, 6), torch.tensor(0)
        while t < n:
            seen[torch.stack([t % 7, (t * 3) % 7])] += x[t % 7]
            before = seen * 1
            seen = seen.index_add(0, torch.tensor([1]), x[:1])
            t += 1
        return seen, before

    check(f, n=9)


def test_experts_add_to_the_rows_that_chose_them():
    """Written under ``no_grad`` into a tensor that autograd might watch."""
    experts = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(3))

    @torch.no_grad()
    def f(x, n):
        best, out = x[:, :3].argmax(1), torch.zeros_like(x)
        for i, expert in enumerate(experts):
            mine = best == i
            if mine.any():
                (rows,) = torch.where(mine)
                out.index_add_(0, rows, expert(x[rows]) * n)
        return out

    check(f)


def test_not_a_number_wins():
    def f(x, n):
        t, i = 0, torch.tensor([[0] * 6, [0] * 6])
        y = torch.cat([x[:1] * float("nan"), x[1:2]])
        while t < n:
            x = x.scatter_reduce(0, i, y, "amax") + x.scatter_reduce(
                0, i, y.flip(0), "amin", include_self=False
            )
            t += 1
        return x.isnan(), x.nan_to_num(0.0)

    check(f, n=1, ops=["aten.flip.default"])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float64])
def test_types(dtype):
    def f(x, n):
        y, t, i = (x * 5).to(dtype), 0, torch.tensor([[0, 1, 1, 2, 2, 2]])
        while t < n:
            y = y.scatter_reduce(0, i, y[:1] + 1, "amin", include_self=False)
            y = y.scatter_reduce(0, i, y[2:3], "amax", include_self=False).index_add(
                0, i[0, :2], y[3:5]
            )
            t += 1
        return y

    check(f)


def bad_index_add(x, i, n):
    return x.index_add(0, i, x[: len(i)])


def bad_scatter(x, i, n):
    return x.scatter(0, i.unsqueeze(1), x)


def bad_put(x, i, n):
    x = x.clone()
    x[i - 20] = 1.0
    return x


def bad_mask(x, i, n):
    x = x.clone()
    x[x > 0] = i.float()
    return x


def bad_count(x, i, n):
    return x + torch.bincount(i - 2 * n).sum()


@pytest.mark.parametrize("step", [bad_index_add, bad_scatter, bad_put, bad_mask, bad_count])
def test_errors(step):
    def f(x, i, n):
        t = 0
        while t < n:
            x = step(x * 0.5, i, n) + x.mean()
            t += 1
        return x

    g, x = tg.function(f), torch.arange(12.0).reshape(4, 3) + 1
    g(x, torch.tensor([0, 9]), torch.tensor(0))
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        f(x, torch.tensor([0, 9]), torch.tensor(1))
    with pytest.raises(wanted.type):
        g(x, torch.tensor([0, 9]), torch.tensor(1))
