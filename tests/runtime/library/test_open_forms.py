"""Functions of torch whose C++ asks for values that only the run knows, beside eager PyTorch."""

import pytest
import torch

import tograph as tg

COUNTS, WEIGHTS = torch.tensor([1, 0, 2, 3]), torch.tensor([0.5, 1.0, 0.0, 2.0])


def spread(x, c, counts, weights, correction):
    found = None
    if c > 0:
        found = torch.cov(x, fweights=counts, aweights=weights, correction=correction)
    return found


def outcome(f, *args):
    try:
        return f(*args)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int64])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_covariance_with_weights(dtype, rows):
    f, torch_seed = tg.function(spread), torch.Generator().manual_seed(0)
    size = (4,) if rows is None else (rows, 4)
    x = (torch.randn(size, generator=torch_seed) * 5).to(dtype)
    for counts, weights in ((COUNTS, None), (None, WEIGHTS), (COUNTS, WEIGHTS)):
        for correction in (0, 1):
            args = x, torch.tensor(1), counts, weights, correction
            torch.testing.assert_close(f(*args), spread(*args))


@pytest.mark.parametrize(
    ("counts", "weights"),
    [
        (-COUNTS, None),
        (None, -WEIGHTS),
        (COUNTS * 0, None),
        (COUNTS[:2], None),
        (COUNTS[None], None),
        (WEIGHTS, None),
        (None, COUNTS),
    ],
)
def test_weights_that_cannot_be(counts, weights):
    args = torch.arange(8.0).reshape(2, 4), torch.tensor(1), counts, weights, 1
    expected = outcome(spread, *args)
    assert isinstance(expected, str)
    found = outcome(tg.function(spread), *args)
    assert isinstance(found, str) and expected.splitlines()[0] in found


def test_gradient_of_a_weighted_covariance():
    f, grads = tg.function(spread), []
    for g in (spread, f):
        x = torch.arange(8.0).reshape(2, 4).square().requires_grad_()
        w = WEIGHTS.clone().requires_grad_()
        found = g(x, torch.tensor(1), COUNTS, w, 1)
        grads.append(torch.autograd.grad(found.square().sum(), (x, w)))
    torch.testing.assert_close(*grads)


ALIKE = {
    "norm": lambda x, n: (torch.linalg.norm(x, 2), torch.linalg.norm(x, -2, keepdim=True), torch.linalg.norm(x[:, 0], 2), torch.linalg.matrix_norm(x, 2)),
    "combinations": lambda x, n: (torch.combinations(x[:, 0]), torch.combinations(x[:, 0], 3), torch.combinations(x[:, 0], with_replacement=True)),
    "vander": lambda x, n: (torch.vander(x[:, 0]), torch.vander(x[:, 0].long(), 3), torch.vander(x[:, 0], n, increasing=True)),
    "linalg.vander": lambda x, n: (torch.linalg.vander(x),),
    "gradient": lambda x, n: (*torch.gradient(x, spacing=0.3), *torch.gradient(x[:, 0], edge_order=2)),
    "triangles": lambda x, n: (torch.triu_indices(n, n), torch.triu_indices(3, n, 1, dtype=torch.int32), torch.tril_indices(n, 4, n - 3)),
}  # fmt: skip


def _answer(call, *args):
    try:
        made = call(*args)
    except (
        Exception
    ) as error:  # of any kind: what torch raises is compared with what is raised here
        return type(error), str(error).split("\n")[0]
    return [(y, y.stride() if y.numel() else None, y.dtype) for y in made]


@pytest.mark.parametrize("form", ALIKE.values(), ids=ALIKE)
def test_values_and_errors(form):
    def f(x, mask):
        return form(x[mask], int(mask.sum()))

    x, g = torch.randn(6, 3), tg.function(f)
    for count in (4, 2, 1, 0, 3):
        mask = torch.arange(6) < count
        found, wanted = _answer(g, x, mask), _answer(f, x, mask)
        if isinstance(wanted, tuple):
            assert found == wanted
            continue
        for (y, *how), (z, *expected) in zip(found, wanted, strict=True):
            torch.testing.assert_close(y, z)
            assert how == expected


def test_gradients_of_forms():
    def f(x, mask):
        y = x[mask]
        return torch.linalg.norm(y, 2) + torch.combinations(y[:, 0]).prod(1).sum() + (torch.gradient(y, dim=0)[0] * y).sum()  # fmt: skip

    x, mask = torch.randn(5, 3, requires_grad=True), torch.arange(5) < 4
    found = [torch.autograd.grad(run(x, mask), x)[0] for run in (tg.function(f), f)]
    torch.testing.assert_close(*found)
