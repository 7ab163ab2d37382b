"""Tensors with two sizes that only the run knows, in native code."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native.sizes import Open
from tograph.runtime.native.values import Decline, Span, strides

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def attention(x, n):
    """All tokens attend to all before them, and the last one's answer is appended."""
    i = 0
    while i < n:
        length = x.shape[0]
        score = x @ x.t() / 2
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
        y = torch.softmax(score.masked_fill(~mask, float("-inf")), -1) @ x
        x = torch.cat([x, torch.tanh(y[-1:])])
        i += 1
    return x


def heads(x, n):
    i = 0
    while i < n:
        q = x.view(-1, 2, 4).transpose(0, 1)
        places = torch.arange(x.shape[0])
        score = (q @ q.transpose(-1, -2)).masked_fill(places[None] > places[:, None], -1e9)
        y = (torch.softmax(score, -1) @ q).transpose(0, 1).reshape(-1, 8)
        x = torch.cat([x, y[-1:] * 0.9])
        i += 1
    return x


def distances(x, n):
    total = x.sum()
    while x.shape[0] < n:
        apart = (x[:, None] - x[None]).abs()
        total = total + apart.sum() + apart.amax(0).mean() + apart.sum(-1).argmax(1).sum()
        x = torch.cat([x, apart[0].mean(0, keepdim=True) + apart[:, -1].amax(0)])
    return x, total


def products(x, n):
    total = x.sum()
    i = 0
    while i < n:
        table = x[:, None] * x[None] + 1
        both = torch.stack([table, table * 2])
        total = (
            total * 0.5
            + (both[0] @ both[1].transpose(0, 1)).mean()
            + table.t()[0].sum()
            + both.permute(1, 2, 0)[-1].sum()
        )
        total = (
            total
            + torch.cat([table, table[:1]]).sum() * 0.1
            + table[1:, :-1].sum()
            + table.select(1, 0).sum()
        )
        x = torch.cat([x, x[:1] * 0.3])
        i += 1
    return total


@pytest.mark.parametrize("case, x", [
    (attention, torch.randn(2, 8)), (heads, torch.randn(3, 8)), (distances, torch.rand(2, 3)), (products, torch.rand(3)),
])  # fmt: skip
def test_values(case, x):
    f = tg.function(case)
    for n in (4, 1, 9, 20):
        found, wanted = f(x, torch.tensor(n)), case(x, n)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    scheduled = f.get_concrete_function(x, torch.tensor(4)).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert not scheduled.declined


def batch(x, n):
    """Views that make one dimension of the batch and the length, and back."""
    i, w = 0, torch.eye(6) * 0.5 + 0.1
    while i < n:
        flat = x.reshape(-1, 6) @ w
        y = torch.tanh(flat).view(2, x.shape[1], 6)
        parts = y.view(2, -1, 2, 3).transpose(1, 2)
        score = torch.softmax(parts @ parts.transpose(-1, -2), -1)
        y = (score @ parts).transpose(1, 2).reshape(2, -1, 6)
        x = torch.cat([x, y[:, -1:] + flat.view(2, -1)[:, :6].mean()], 1)
        i += 1
    return x, x.reshape(-1), x.flatten(1) * 2, x.transpose(0, 1).reshape(-1, 12) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_views_across_dimensions(dtype):
    f, x = tg.function(batch), torch.randn(2, 3, 6, dtype=dtype)
    w = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for n in (1, 7, 2):
            found, wanted = f(x, torch.tensor(n)), batch(x, n)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, check_stride=True)
        scheduled = f.get_concrete_function(x, torch.tensor(2)).scheduled
        assert scheduled.level == "native", scheduled.reason
        assert not scheduled.declined
    finally:
        torch.set_default_dtype(w)


def test_a_view_that_does_not_fit_raises():
    def f(x, n):
        total = x.sum()
        while n > 0:
            x = torch.cat([x, x[:1]])
            total = total + x.view(2, -1).sum()
            n = n - 1
        return total

    g, x = tg.function(f), torch.rand(3, 3)
    torch.testing.assert_close(g(x, torch.tensor(1)), f(x, torch.tensor(1)))
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        g(x, torch.tensor(2))


def test_a_module_of_torch():
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval().requires_grad_(False)

    def f(x, n):
        i = 0
        while i < n:
            y, _ = attention(x, x, x, need_weights=False)
            x = torch.cat([x, y[:, -1:]], 1)
            i += 1
        return x

    g, x = tg.function(f), torch.randn(2, 3, 16)
    for n in (2, 5):
        torch.testing.assert_close(g(x, torch.tensor(n)), f(x, n), rtol=1e-4, atol=1e-4)
    scheduled = g.get_concrete_function(x, torch.tensor(2)).scheduled
    assert scheduled.level == "native", scheduled.reason


def test_a_branch_that_raises():
    def f(x, n):
        i = 0
        while i < n:
            if x.sum() > 30:
                raise ValueError(f"too large: {x.shape[0]}, {list(x.shape)}")
            x = torch.cat([x, x[:1]])
            i += 1
        return x

    g, x = tg.function(f), torch.ones(3)
    assert torch.equal(g(x, torch.tensor(20)), f(x, 20))
    assert g.get_concrete_function(x, torch.tensor(20)).scheduled.level == "native"
    with pytest.raises(ValueError, match=r"too large: 31, \[31\]"):
        g(x, torch.tensor(40))


def test_sizes_that_differ_raise():
    def f(x, n):
        total, y = x.sum(), x * 1
        while n > 0:
            x = torch.cat([x, x[:1]])
            y = torch.cat([y, y[:1], y[:1]])
            total = total + (x[:, None] * x[None] + y[:, None] * y[None]).sum()
            n = n - 1
        return total

    with pytest.raises(RuntimeError, match="must match the size"):
        tg.function(f)(torch.rand(3), torch.tensor(2))


def native(f, *args):
    """Native code gives what eager PyTorch gives."""
    g = tg.function(f)
    for _ in range(2):
        found, wanted = g(*args), f(*args)
        torch.testing.assert_close(found, wanted, check_stride=True, rtol=1e-4, atol=1e-4)
    scheduled = g.get_concrete_function(*args).scheduled
    assert (scheduled.level, scheduled.reason, scheduled.declined) == ("native", "", 0)
    return g


def outer(x, n):
    while n > 0:
        x = torch.cat([x, F.relu(x[:1])])
        n = n - 1
    return x[:, None] * x[None]


def beams(x, n):
    """From one row to three, which become longer."""
    score, found = torch.zeros(1), torch.zeros(1, 1, dtype=torch.long)
    for _ in range(n):
        table = torch.log_softmax(x[found[:, -1]], -1) + score[:, None]
        score, chosen = table.flatten().topk(3)
        found = torch.cat([found[chosen // len(x)], (chosen % len(x))[:, None]], 1)
    return found, score


def system(x, n):
    """A matrix of the items so far, on the diagonals of another one."""
    seen = []
    for i in range(n):
        seen.append(x * (i + 1))
        rows = torch.stack(seen)
        first = rows[:, 0]
        table = rows @ rows.T + torch.eye(len(seen)) + torch.diag(first)
        x = torch.linalg.solve(table, torch.ones(len(seen))) @ rows
    return x, torch.linalg.eigvalsh(table), table, torch.diag(first, -1)


def either(x, n):
    table = x[:1, None] * x
    for i in range(n):
        if table.sum() > 0:
            table = torch.cat([table, table[:1] - i])
        else:
            table = torch.cat([table, table[:, :1] + 20], 1)
    return table


def selected(f):
    """``f`` of the rows that a mask selects, and of as many columns."""

    def run(x, n):
        rows = x[x[:, 0] > 0.1 * n] * 2
        return f(rows), f(rows.t())

    return run


# Of these ops torch lays out results by columns, or as the operand.
COLUMNS = {
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False)[0].abs().sum(1),
    "right vectors": lambda x: torch.linalg.svd(x, full_matrices=False)[2].abs().sum(1),
    "qr": lambda x: torch.linalg.qr(x)[1].abs().sum(),
    "rfft": lambda x: torch.fft.rfft(x, dim=0).abs().sum(0),
    "triangular": lambda x: torch.linalg.solve_triangular(x @ x.t() + torch.eye(len(x)), x, upper=True).sum(1),
    "lu": lambda x: torch.linalg.lu_factor(x @ x.t() + torch.eye(len(x)))[0].sum(),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(len(x))).sum(0),
    "sorted": lambda x: x.sort(0).values.cumsum(0)[0] + x.msort().sum(0),
}  # fmt: skip

if torch.__version__ >= "2.12":  # the C++ of 2.11 asks for the number of elements
    COLUMNS["quantile"] = lambda x: x.quantile(0.3, -1).sum()


@pytest.mark.parametrize("name", COLUMNS)
def test_results_of_torch_that_are_not_contiguous(name):
    torch.manual_seed(0)
    native(selected(COLUMNS[name]), torch.randn(12, 3), torch.tensor(-3))


def drawn(*shape):
    """The same numbers each time: the scores of two beams can be so near that rounding decides."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("f, x", [
    (outer, drawn(3)), (beams, drawn(5, 5)), (system, drawn(4)), (either, drawn(4)),
])  # fmt: skip
def test_what_is_carried_and_given(f, x):
    g = native(f, x, torch.tensor(4))
    torch.testing.assert_close(g(x, torch.tensor(7)), f(x, 7), rtol=1e-3, atol=1e-3)


def tokens(ids, table):
    h = torch.tanh(table[ids].cumsum(1))
    loss = torch.log_softmax(h @ table.T, -1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    if loss.sum() > 0:
        loss = loss * 2
    return loss, ids + 1, (ids > 3).nonzero().sum(0), ids[ids > 3]


def test_arguments_of_two_such_sizes():
    g, table = tg.function(tokens, reduce_retracing=True), torch.rand(9, 4)
    for size in ((2, 5), (3, 4), (4, 7), (1, 2), (6, 3), (2, 1), (3, 8)):
        ids = torch.randint(0, 9, size)
        torch.testing.assert_close(g(ids, table), tokens(ids, table), check_stride=True)
        torch.testing.assert_close(g(ids.t(), table), tokens(ids.t(), table))
    scheduled = g.concrete_functions[-1].scheduled
    assert scheduled.level == "native", scheduled.reason


def test_items_of_one_such_size_are_stacked_anywhere():
    def f(x, n):
        found, turned = [], []
        for i in range(n):
            x = x[x > i / 10]
            found.append(x[:2] * i)
            turned.append(x[None] + torch.zeros(2, 1))
            if i == 2:
                turned = turned[-1:]
        return torch.stack(found), torch.stack(found, 1), torch.stack(turned[-1:], 2)

    native(f, torch.arange(9.0), torch.tensor(5))
    with pytest.raises(RuntimeError, match="equal size"):
        tg.function(f)(torch.tensor([0.05, 0.15, 3.0]), torch.tensor(3))


def test_folds_see_that_sizes_are_equal():
    """A fold of a row is made once, and not again for each element of the row."""

    def f(x, y, n):
        for _ in range(n):
            x = y[:, None] + torch.log_softmax(x[: len(y)], -1)
        return x

    g = tg.function(f, reduce_retracing=True)
    for n in (3, 4, 5):
        x, y = torch.rand(n, 6), torch.rand(n)
        torch.testing.assert_close(g(x, y, torch.tensor(2)), f(x, y, 2))
    kernels = [k.loops for k in g.concrete_functions[-1].scheduled.kernels]
    folds = [k for k in kernels if any(e.op == "reduce" for e in k.body)]
    assert folds
    assert all(len(k.outer) == 1 for k in folds)


def test_strides_are_products_of_sizes():
    a, b = Open("a", 1 << 32), Open("b", 1 << 32)
    outer, middle, inner = strides((2, a, b, 3)[:3])
    assert inner == 1
    assert middle == Span(1, (b,)) != Span(1, (a,))
    assert outer == Span(1, (a, b)) == Span(1, (b, a))
    assert outer > middle > inner
    assert middle * 3 == Span(3, (b,))
    assert middle * 0 == 0
    for compute in (lambda: middle + 1, lambda: f"{middle}", lambda: str(middle)):
        with pytest.raises(Decline):
            compute()


def test_scores_are_folded_along_contiguous_columns():
    f, x = tg.function(attention), torch.randn(2, 8)
    f(x, torch.tensor(3))
    kernels = [k.loops for k in f.get_concrete_function(x, torch.tensor(3)).scheduled.kernels]
    folds = [k for k in kernels if len(k.outer) == 2 and len(k.row) == 1 and k.row[0].size == 8]
    (fold,) = folds
    lanes = fold.outer[-1].name
    (store,) = fold.stores
    loads = [e.address.factor(lanes) for e in fold.body if e.op == "load"]
    assert store.address.factor(lanes) == 1
    assert sorted(loads) == [0, 1]


def test_a_stride_of_two_sizes_that_a_branch_computes_first():
    def causal(x, flag):
        y = x[x > 0]
        for _ in range(2):
            s = y[:, None] * y[None, :]
            s = torch.stack([s, s * 2])
            if flag > 0:
                n = s.shape[1]
                s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -1e9)
            y = s.softmax(-1)[0] @ y
        return y

    staged = tg.function(causal)
    x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.5])
    for given in (x, -x):
        for flag in (torch.tensor(1), torch.tensor(0)):
            torch.testing.assert_close(staged(given, flag), causal(given, flag))
    scheduled = staged.concrete_functions[0].scheduled
    assert scheduled.level == "native", scheduled.reason
