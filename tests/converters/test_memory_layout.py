"""What a program asks of how a tensor lies in memory is answered for the tensors of the call."""

import pytest
import torch

import tograph as tg

WAYS = [
    torch.arange(6.0).view(2, 3),
    torch.arange(6.0).view(3, 2).t(),
    torch.arange(12.0).view(2, 6)[:, ::2],
]


def flat(x):
    return x.view(-1) * 2 if x.is_contiguous() else x.reshape(-1) + 1


def steps(x):
    return x + x.stride(0), x.stride(), x.t().stride(1)


@pytest.mark.parametrize("function", [flat, steps])
def test_each_way_is_a_trace(function):
    f = tg.function(function)
    for _ in range(2):
        for x in [w for w in WAYS for _ in range(5)]:
            assert repr(f(x)) == repr(function(x))
    assert f.trace_count <= len(WAYS)


def test_sizes_may_stay_open():
    f = tg.function(flat, reduce_retracing=True)
    for n in range(2, 9):
        x = torch.arange(2.0 * n).view(2, n)
        assert torch.equal(f(x), flat(x))
    assert f.trace_count <= 3


def test_functions_that_do_not_ask_have_one_trace():
    f = tg.function(lambda x: x * 2)
    for x in WAYS:
        assert torch.equal(f(x), x * 2)
    assert f.trace_count == 1


def places(x):
    return x.storage_offset(), x[1:].storage_offset(), (x + 1).storage_offset()


def test_where_a_tensor_begins():
    f = tg.function(places)
    rows = [torch.ones(5), torch.ones(7)[2:], torch.ones(5, 2)[:, 1]]
    for x in (*rows, *rows):
        assert f(x) == places(x)
    assert f.trace_count == len(rows)


def written_flat(x):
    y = x.flatten()[:2]
    y.add_(10)
    return x * 1


def written_in_a_branch(x):
    if x[0, 0] > -1:
        y = x.reshape(-1)
        y[0] = 7
    return x * 1


def written_copy(x):
    y = x * 2
    z = y.contiguous()
    y[0] = 100
    return y, z, y.ravel()


def returned(x):
    return x.contiguous(), x.reshape(-1), x.contiguous() is x


def viewed(x):
    return x.view(3, 2) + 1


def strided_by_hand(x):
    return x.as_strided((2,), (2,)) + 1


def written_from_another_way(x):
    y, z = torch.arange(6.0).view(2, 3) * 2, torch.arange(6.0).view(3, 2)
    torch.cumsum(z * x[0, 0], 0, out=y.t())
    torch.sub(y.t(), 1, out=z)
    return y, z


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("function", [written_flat, written_in_a_branch, written_copy, written_from_another_way, returned, viewed, strided_by_hand])  # fmt: skip
def test_what_is_a_view_and_what_a_copy(function, first):
    def outcome(f, x):
        x = x.clone(memory_format=torch.preserve_format)
        try:
            found = f(x)
        except RuntimeError as e:
            return str(e).split("\n")[0]
        steps = [y.stride() for y in found if isinstance(y, torch.Tensor)]
        return repr(found), repr(x), steps

    f = tg.function(function)
    for x in (WAYS[first], WAYS[1 - first], WAYS[first]):
        assert outcome(f, x) == outcome(function, x)


def numbers(x):
    z = torch.view_as_complex(x.view(3, 2))
    z.imag.mul_(3)
    torch.view_as_real(z)[0] = 9
    w = torch.complex(x, x + 1)
    if x.sum() > 0:
        w.real[0] = -1
        x.view(torch.int32)[1, 1:] = 0
        x.view(torch.int16)[0, 0] = 0
    return x * 1, w


def test_writes_through_views_of_other_types():
    x = torch.arange(6.0).view(2, 3)
    for row in (x, -x - 1):
        a, b = row.clone(), row.clone()
        assert repr(tg.function(numbers)(a)) == repr(numbers(b)) and torch.equal(a, b)


def conjugates(c):
    d = c.conj()
    d.imag.add_(1)
    if c.real.sum() > 0:
        d.mul_(2j)
    c.conj().real.mul_(3)
    return c * 1, d * 1


def test_writes_through_a_conjugate():
    c = torch.complex(torch.arange(3.0), torch.arange(3.0) + 1)
    for row in (c, -c, c):
        for history in (False, True):
            given = [row.clone().requires_grad_(history) for _ in range(2)]
            outs = [f(x * 1) for f, x in zip((conjugates, tg.function(conjugates)), given)]
            torch.testing.assert_close(outs[1], outs[0])
            if history:
                for x, (a, b) in zip(given, outs):
                    (a * b).abs().sum().backward()
                torch.testing.assert_close(given[1].grad, given[0].grad)


def copied_in_a_branch(x):
    if x.sum() > 3:
        y = x.reshape(4)
    else:
        y = x.reshape(4) + 1
    y.mul_(2)
    return x.sum()


def test_a_copy_of_a_branch_is_one_for_that_layout():
    f = tg.function(copied_in_a_branch)
    for make in (
        lambda: torch.arange(4.0).view(2, 2),
        lambda: torch.arange(4.0).view(2, 2).t(),
    ) * 2:
        a, b = make(), make()
        assert repr(f(a)) == repr(copied_in_a_branch(b)) and torch.equal(a, b)


def columns(x, n):
    k = int(n)
    v, w = x[:, :k], x.t()[:, :k].unsqueeze(0)
    told = (
        v.stride(),
        v.is_contiguous(),
        w.stride(-1),
        w.is_contiguous(),
        v[0].stride(),
        v[:, ::2].stride(),
    )
    return told, v.t().is_contiguous(), x[:k].view(-1, 2, 2).is_contiguous()


@pytest.mark.parametrize("rows", [1, 2])
def test_columns_of_which_the_run_knows_how_many(rows):
    f, x = tg.function(columns), torch.arange(4.0 * rows).view(rows, 4)
    for n in range(5):
        assert f(x, torch.tensor(n)) == columns(x, torch.tensor(n))


def test_strides_behind_a_view_that_cannot_be_followed():
    def f(x, n):
        return x[:, : int(n)].expand(3, -1, -1).stride()

    with pytest.raises(tg.errors.StagingError, match="strides"):
        tg.function(f)(torch.ones(2, 4), torch.tensor(2))
