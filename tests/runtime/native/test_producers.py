"""Pointwise ops in the nests of the reductions that alone look at them."""

import pytest
import torch

import tograph as tg

SHAPES = [(4096, 64), (300, 200), (33, 5000), (2049, 257), (2, 20000)]


def native(function, *args):
    """(results, nests) of a native call, which are eager's."""
    expected = function(*args)
    staged = tg.function(function)
    for _ in range(2):
        got = staged(*args)
    (concrete,) = staged.concrete_functions
    assert concrete.scheduled.level == "native", concrete.scheduled.reason
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-2)
    return got, [k.loops for k in concrete.kernels]


def writes_all(nests, x):
    """Whether a nest stores a tensor as large as ``x``."""
    return any(k.store_depends(s) == {d.name for d in (*k.outer, *k.row)} and points(k) >= x.numel() for k in nests for s in k.stores)  # fmt: skip


def points(kernel):
    out = 1
    for d in (*kernel.outer, *kernel.row):
        out *= d.size
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "fold",
    [
        lambda y: y.sum(0),
        lambda y: y.mean(),
        lambda y: y.amax(0),
        lambda y: y.max(0).indices,
        lambda y: y.var(0),
        lambda y: (y > 1).any(0),
    ],
    ids=["sum", "mean", "amax", "indices", "var", "any"],
)
def test_what_only_a_fold_needs_is_not_stored(shape, fold):
    x, w = torch.randn(shape), torch.randn(shape)
    _, nests = native(lambda x, w: (fold((x - 0.5) * w),), x, w)
    assert not writes_all(nests, x)


def test_what_others_need_is_stored_once():
    x = torch.randn(512, 300)
    (_, y), nests = native(lambda x: ((x * 2).sum(0), x * 2), x)
    assert torch.equal(y, x * 2) and writes_all(nests, x)


def test_two_folds_share_what_they_need():
    """Over different dims, so that there are two nests: neither can have it alone."""

    def f(x):
        y = x * x + 1
        return y.sum(0), y.sum(1), y.amax(0)

    native(f, torch.randn(700, 90))


def test_costly_ops_stay_apart_from_a_fold_of_two_sweeps():
    x = torch.randn(700, 90)
    _, nests = native(lambda x: (torch.exp(x).var(0),), x)
    assert writes_all(nests, x)


def test_what_is_read_before_a_write_is_read_before_it():
    x = torch.randn(700, 90)

    def f(x):
        s = (x * x).sum(0)
        x.add_(1)
        return s, (x * x).sum(0)

    first, second = x.clone(), x.clone()
    for a, b in zip(tg.function(f)(first), f(second)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert torch.equal(first, second)


def test_in_a_loop():
    def f(x, n):
        for _ in range(n):
            x = x / (1 + (x * x).sum(0).sqrt())
        return (x,)

    native(f, torch.randn(700, 90), torch.tensor(4))


def test_beside_sizes_that_only_the_run_knows():
    def f(x, rows):
        found = {}
        for i, row in enumerate(rows):
            found[i] = (row * 2).sum()
        return (x * x).sum(0), found[0]

    spec = [tg.TensorSpec([600, 90], torch.float32), tg.TensorSpec([None, 2], torch.float32)]
    x, rows = torch.randn(600, 90), torch.randn(3, 2)
    got = tg.function(f, input_signature=spec)(x, rows)
    for a, b in zip(got, f(x, rows)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_what_broadcasts_stays_apart_from_a_fold_of_everything():
    """Its loops would not be one, which threads share in parts and which adds up many lanes."""
    x, w = torch.randn(600, 90), torch.randn(90)
    _, nests = native(lambda x, w: ((x * w).sum(),), x, w)
    assert writes_all(nests, x)


def test_a_fold_that_takes_a_number_of_the_run():
    """The number is no operand that a nest could compute."""
    f = tg.function(lambda x, n: x.norm(n.item()) + x.norm(n, 1).sum())
    x = torch.randn(4, 6)
    for n in (2, 3, 1, 2):
        torch.testing.assert_close(f(x, torch.tensor(n)), x.norm(n) + x.norm(n, 1).sum())


@pytest.mark.parametrize("shape", [(300, 1001), (3, 130, 257), (257, 1024)], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x[..., 1:] - x[..., :-1]).abs().sum(),
        lambda x: (x[:, 1:] * x[:, :-1]).mean(),
        lambda x: ((x - x[:1]) ** 2).mean(),
        lambda x: (x - torch.arange(float(x.shape[-1]))).amax(),
    ],
)
def test_parts_of_tensors_are_folded_where_they_lie(f, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    _, nests = native(lambda x: (f(x),), x)
    assert not writes_all(nests, x[..., 1:, 1:])


def test_columns_of_a_view_are_computed_before_they_are_folded():
    x = torch.randn(300, 1000, generator=torch.Generator().manual_seed(0))
    _, nests = native(lambda x: ((x[:, ::2] * 2).sum(), (x.t() * 3).mean()), x)
    assert writes_all(nests, x[:, ::2])
