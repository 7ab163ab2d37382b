"""torch.cond, while_loop, map, scan and associative_scan inside of a function."""

import pytest
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as torch_map

import tograph as tg

ROWS = torch.arange(1.0, 7.0).reshape(3, 2)


@pytest.mark.parametrize("x", [ROWS, -ROWS])
def test_cond(x):
    @tg.function
    def f(x):
        y = torch.cond(x.sum() > 0, lambda x, k: x.sin() * k, lambda x, k: x.cos() - k, (x, 2))
        if y.sum() > 0:
            y = y + 1
        return y, torch.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1)

    y = x.sin() * 2 if x.sum() > 0 else x.cos() - 2
    found = f(x)
    torch.testing.assert_close(found[0], y + 1 if y.sum() > 0 else y)
    torch.testing.assert_close(found[1], x + 1 if x.sum() > 0 else x - 1)


def test_while_loop():
    @tg.function
    def f(x, n):
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))

    count, x = f(ROWS, torch.tensor(4))
    assert count == 4 and "While" in str(f.concrete_functions[0].graph)
    torch.testing.assert_close(x, ROWS * 1.5**4)


def test_map_with_a_condition():
    def scaled(row, k):
        if row.sum() > 5:
            return row * k
        return row

    found = tg.function(lambda x, k: torch_map(scaled, x, k))(ROWS, torch.tensor(2.0))
    expected = torch.stack([scaled(row, 2.0) for row in ROWS])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(dim, reverse):
    @tg.function
    def f(x):
        step = lambda total, part: (total * 0.5 + part.sum(), (total, part * 2))  # noqa: E731
        return scan(step, torch.tensor(0.0), x, dim=dim, reverse=reverse)

    total, (totals, parts) = f(ROWS)
    x, seen = torch.tensor(0.0), []
    for part in ROWS.unbind(dim)[:: -1 if reverse else 1]:
        seen.append(x)
        x = x * 0.5 + part.sum()
    torch.testing.assert_close(total, x)
    torch.testing.assert_close(totals, torch.stack(seen[:: -1 if reverse else 1]))
    torch.testing.assert_close(parts, ROWS.movedim(dim, 0) * 2)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse):
    f = tg.function(lambda x: associative_scan(lambda a, b: a * b, x, dim=1, reverse=reverse))
    expected = ROWS.flip(1).cumprod(1).flip(1) if reverse else ROWS.cumprod(1)
    torch.testing.assert_close(f(ROWS), expected)
