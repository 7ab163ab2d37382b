"""Results that share memory with each other, or are not contiguous, are what they are in eager PyTorch."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def grown(x, n):
    for i in range(n):
        x = torch.tanh(x * 2 + i)
    return x


def and_a_row(x, n):
    y = grown(x, n)
    return y, y[0], y.view(-1)[2:]


def rows_only(x, n):
    y = grown(x, n)
    return y[0], y[1:], y.t()[1]


def turned(x, n):
    y = grown(x, n)
    return y.t()


def turned_and_more(x, n):
    y = grown(x, n)
    z = y.unsqueeze(0).expand(2, 3, 4)
    return z, y.t().unsqueeze(-1), (y * 2).t(), y.sum()


def columns(x, n):
    """LAPACK writes columns."""
    y = grown(x, n)
    a = y @ y.t() + torch.eye(3)
    return torch.linalg.inv(a), torch.linalg.cholesky(a).mT, a.sum()


def columns_and_a_part(x, n):
    q = torch.linalg.qr(grown(x, n).t()).Q
    return q, q[1:], (q * 2).sum()


def twice(x, n):
    y = grown(x, n)
    return y, y


def part(x, n):
    return grown(x, n)[-1]


@pytest.mark.parametrize(
    "f", [and_a_row, rows_only, turned, turned_and_more, columns, columns_and_a_part, twice, part]
)
def test_memory_and_strides(f):
    g, x, n = tg.function(f), torch.randn(3, 4), torch.tensor(2)
    for _ in range(4):
        found, wanted = g(x, n), f(x, n)
        found, wanted = (r if isinstance(r, tuple) else (r,) for r in (found, wanted))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
        for i in range(len(found)):
            with torch.no_grad():
                found[i].mul_(0.5) if i and f is not turned_and_more else None
                wanted[i].mul_(0.5) if i and f is not turned_and_more else None
            for a, b in zip(found, wanted):
                torch.testing.assert_close(a, b)
    (cf,) = g.concrete_functions
    assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")


def test_a_view_of_an_argument_is_one():
    g, x = tg.function(lambda x, n: (x[1], grown(x, n).t())), torch.randn(3, 4)
    for _ in range(3):
        a, b = g(x, torch.tensor(2))
        assert a.data_ptr() == x[1].data_ptr() and b.stride() == (1, 4)


def test_gradients_go_through_results_that_are_views():
    x, y = torch.randn(3, 4, requires_grad=True), None
    g = tg.function(and_a_row)
    for f in (g, g, and_a_row):
        x.grad = None
        a, b, c = f(x, torch.tensor(2))
        (a.sum() * b.sum() + c.sum()).backward()
        y = x.grad if y is None else y
        torch.testing.assert_close(x.grad, y)


MIXED = {
    "the first leads": lambda x, y: x + y.t(),
    "the other way round": lambda x, y: y.t() * x,
    "a number and a mask": lambda x, y: torch.where(y.t() > 0, x, 0.5) * 2,
    "broadcast": lambda x, y: x.unsqueeze(0) + y.t(),
    "a row": lambda x, y: x[:1] - y.t(),
    "normed": lambda x, y: torch.nn.functional.layer_norm(x + y.t(), [4]),
    "a chain": lambda x, y: torch.sigmoid((x + y.t()) * y.t()).abs() + 1,
    "three dims": lambda x, y: x.view(3, 2, 2) + y.view(2, 2, 3).permute(2, 1, 0),
}


@pytest.mark.parametrize("name", sorted(MIXED))
def test_operands_whose_dims_are_in_different_orders(name):
    f = MIXED[name]
    x, y = torch.randn(3, 4), torch.randn(4, 3)

    def twice(x, y):
        z = f(x, y)
        return z, z.view(-1) if z.is_contiguous() else z.reshape(-1), z * 2

    for g in (f, twice):
        staged = tg.function(g)
        want = g(x, y)
        for _ in range(3):
            got = staged(x, y)
            torch.testing.assert_close(got, want)
            assert [t.stride() for t in _several(got)] == [t.stride() for t in _several(want)]
        if f(x, y).is_contiguous():
            assert staged.concrete_functions[0].scheduled.level == "native"


def _several(x):
    return x if isinstance(x, tuple) else (x,)


LIKE = {
    "zeros": lambda a, b: torch.zeros_like(a) + b,
    "a number": lambda a, b: torch.zeros_like(a) + 1,
    "full": lambda a, b: torch.full_like(a, 2.0) - b,
    "ones": lambda a, b: torch.ones_like(a) * b.exp(),
    "in order": lambda a, b: torch.ones_like(a, memory_format=torch.contiguous_format) * b,
    "new": lambda a, b: a.new_zeros(4, 6) + b,
}


@pytest.mark.parametrize("name", sorted(LIKE))
def test_what_is_made_like_a_tensor_whose_dims_are_turned(name):
    f, a, b = LIKE[name], torch.randn(6, 4).t(), torch.randn(4, 6)
    g = tg.function(f)
    want = f(a, b)
    for _ in range(3):
        got = g(a, b)
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


OTHER_SIZES = {
    "view": lambda x, w: (x * 2 + 1).view(-1),
    "views of a view": lambda x, w: (x * 2 + 1).view(-1).view(2, 6).reshape(3, 2, 2),
    "kron": lambda x, w: torch.kron(x, x),
    "linear": lambda x, w: torch.nn.functional.linear(x[None].expand(2, 3, 4), w),
}


@pytest.mark.parametrize("name", sorted(OTHER_SIZES))
def test_results_of_other_sizes_are_computed_where_they_leave(name):
    f, x, w = OTHER_SIZES[name], torch.randn(3, 4), torch.randn(6, 4)
    g = tg.function(f)
    for _ in range(3):
        torch.testing.assert_close(g(x, w), f(x, w))
    code = g.concrete_functions[-1].scheduled.llvm
    assert "call void @llvm.memmove" not in code


def test_a_view_and_more_of_what_it_is_taken_of():
    def f(x):
        y, z = x * 2, x + 1
        return (
            y.view(-1),
            y.sum(),
            y,
            z.reshape(6, 2),
            (z + 1).t().reshape(-1),
            z.view(-1).cumsum(0),
        )

    g, x = tg.function(f), torch.randn(3, 4)
    for _ in range(3):
        found, wanted = g(x), f(x)
        torch.testing.assert_close(found, wanted)
        shares = [[a.data_ptr() == b.data_ptr() for a in r for b in r] for r in (found, wanted)]
        assert shares[0] == shares[1]


def test_parts_of_a_result_and_one_view_twice():
    def f(x):
        y = x * 1
        v = y.view(-1)
        rows = [row.unbind() for row in y.unbind()]
        return y, rows, y.chunk(2), y.split(3), y.as_strided((2,), (5,)), v, [v]

    g, x = tg.function(f), torch.arange(16.0).view(4, 4)
    for _ in range(3):
        found, wanted = g(x), f(x)
        for made in (found, wanted):
            made[0].add_(5)
            made[2][1].mul_(2)
            made[1][0][0].zero_()
        torch.testing.assert_close(found, wanted)
        assert found[5] is found[6][0]
    one = torch.ones(6, 1)
    torch.testing.assert_close(g(one), f(one))


def rows_in_turn(x, n):
    """As a solver that keeps its last iterates: one of them is the result."""
    kept, k = x.new_zeros(2, 4, 8), 0
    while k < n:
        kept[:, k % 4] = torch.tanh(x + kept.sum() * 0.1)
        k += 1
    return kept[:, (k - 1) % 4], kept[:, :, k % 8], kept[k % 2, ::2], kept[..., k % 4 :, 0]


def test_parts_at_places_that_only_the_run_knows_have_the_strides_of_eager():
    staged, x = tg.function(rows_in_turn), torch.rand(2, 8)
    for n in (3, 5, 6, 6):
        for a, b in zip(staged(x, torch.tensor(n)), rows_in_turn(x, torch.tensor(n)), strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
    last = tg.function(lambda x, n: rows_in_turn(x, n)[0])
    for _ in range(3):
        last(x, torch.tensor(3))
    assert last.concrete_functions[0].scheduled.level == "native"


def argument_or_twice(x, n):
    y, k = x, 0
    while k < n:
        if k > 3:
            y = x * 2
        k += 1
    return y[k % 3]


def argument_by_a_loop(x, n):
    y, k = x, 0
    while k < n:
        y = y if k > 1 else x
        k += 1
    return y[:, k % 3]


@pytest.mark.parametrize("f", [argument_or_twice, argument_by_a_loop])
def test_a_part_of_an_argument_that_a_loop_gives_is_a_view_of_it(f):
    staged = tg.function(f)
    for n in (0, 2, 3, 3):
        x = torch.rand(3, 3)
        staged(x, torch.tensor(n)).fill_(7.0)
        assert (x == 7).sum() == 3


MADE_LIKE = {
    "zeros": lambda m: torch.zeros_like(m.t()),
    "a number of the run": lambda m: torch.full_like(m.t(), m.max().item()),
    "filled": lambda m: torch.zeros_like(m.t()).fill_(1),
    "copied": lambda m: torch.zeros_like(m.t()).copy_(m[0, 0]),
    "by rows": lambda m: _written_by_rows(torch.zeros_like(m.t()), m),
    "masked": lambda m: torch.zeros_like(m.t()).masked_fill(m.t() > 0, 1.0),
    "scattered": lambda m: torch.zeros_like(m.t()).index_copy(0, torch.tensor([1]), m.t()[:1]),
    "put": lambda m: (m.t() * 2).index_put((torch.tensor([1]),), m[0, 0]),
}


def _written_by_rows(z, m):
    for i in range(2):
        z[i] = m[:, i]
    return z


@pytest.mark.parametrize("name", sorted(MADE_LIKE))
def test_what_is_made_like_a_turned_tensor_and_written_lies_as_in_eager(name):
    f, m, inside = MADE_LIKE[name], torch.randn(3, 4), []

    def told(m):
        y = f(m)
        inside.append(y.stride())
        return y

    g = tg.function(told)
    for _ in range(3):
        want, got = f(m), g(m)
        assert torch.equal(got, want) and got.stride() == want.stride() == inside[0]


def written_where_it_looks(x):
    z = x.clone()
    a, b = z[0], z[1:]
    z[0], z[1:] = 5, 7
    return z, a, b


def written_behind_a_branch(x):
    z = x * 2
    v = z[0]
    if x.sum() > 0:
        v.add_(1)
    z[0] = 3
    return [z], v


@pytest.mark.parametrize("f", [written_where_it_looks, written_behind_a_branch])
def test_a_view_of_a_place_that_was_written_stays_one(f):
    g = tg.function(f)
    for n in (1.0, 1.0, -1.0):
        for h in (f, g):
            leaves = torch.utils._pytree.tree_leaves(h(torch.full((3,), n)))
            whole = max(leaves, key=torch.numel)
            whole.fill_(9)
            assert all((x == 9).all() for x in leaves)


def test_views_of_an_argument_that_branches_turn_around():
    def f(x, y):
        for _ in range(2):
            x = x + 1
            if x.sum() > 0:
                y = y.permute(*range(y.dim())[::-1])
        return y

    y = torch.arange(6.0).view(2, 3)
    for x in (torch.ones(2), -torch.ones(2), torch.full((2,), -1.5)):
        assert torch.equal(tg.function(f)(x, y), f(x, y))


def best_row(x, i):
    return x[x.sum(1).argmax()], (x * 2).sum()


def parts_at_places_of_the_run(x, i):
    return x[i], x[i:, 1:], x[:, i], x[0, i], x.unsqueeze(-1)[i], (x * 2).sum()


def known_parts(x, i):
    return x[0], x.t(), x.split(2)[1], x.unbind(1)[2], x[:1].expand(3, 4), (x * 2).sum()


def behind_a_loop(x, i):
    while x[i].sum() < 30:
        i = i + 1
    return x[i], i


@pytest.mark.parametrize("f", [best_row, parts_at_places_of_the_run, known_parts, behind_a_loop])
def test_views_of_an_argument_are_taken_of_it_behind_native_code(f):
    x = torch.arange(20.0).reshape(5, 4)
    for given in (x, x.t().contiguous().t()):
        g = tg.function(f)
        for at in (2, 0, 1, 3):
            got, expected = (h(given, torch.tensor(at)) for h in (g, f))
            for y, z in zip(got, expected):
                torch.testing.assert_close(y, z, rtol=0, atol=0)
                assert y.stride() == z.stride()
                assert z.dim() == 0 or y.data_ptr() == z.data_ptr()
        (cf,) = g.concrete_functions
        assert (cf.scheduled.level, cf.scheduled.declined) == ("native", 0)


def test_a_view_of_an_argument_at_a_place_that_is_not_there_is_an_error_of_the_line():
    g = tg.function(lambda x, i: (x[i], (x * 2).sum()))
    x = torch.arange(20.0).reshape(5, 4)
    for at in (1, 7, 2, -6, 7):
        if -5 <= at < 5:
            assert g(x, torch.tensor(at))[0].data_ptr() == x[at].data_ptr()
        else:
            with pytest.raises(IndexError, match=r"(?s)out of bounds.*test_results\.py"):
                g(x, torch.tensor(at))


def test_a_view_of_an_argument_that_is_written_is_none_of_what_was_there():
    def f(x, i):
        y = x[i].clone()
        x.mul_(2)
        return y, x[0], x.sum()

    g = tg.function(f)
    for _ in range(4):
        x, z = torch.arange(8.0).reshape(2, 4), torch.arange(8.0).reshape(2, 4)
        for got, expected in zip(g(x, torch.tensor(1)), f(z, torch.tensor(1))):
            torch.testing.assert_close(got, expected)
