"""Items that kernels read where they are, and products of rows that are one product ahead of a loop."""

import pytest
import torch
import torch.nn.functional as F

from tests.runtime.gpu.test_plan import check_runs
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.plan import Call, Conditional, Copy, Run

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def recurrent(x, h, n):
    """The product of ``x[t]`` is made ahead; the row of it is read by the kernel that adds it."""
    w, b = x[0].t() @ x[1], x[0, 0] * 2
    t = 0
    while t < x.shape[0] and n > t:
        z, r = torch.addmm(b, x[t], w).chunk(2, 1)
        q, s = F.linear(x[t], w).split(2, 1)
        h = torch.tanh(torch.cat([z * q, r + s], 1) + h @ w)
        t = t + 1
    return h, t


def running(x, h, n):
    """An item that is replaced before it is read is copied, not all of the tensor."""
    kept, total, t = x[:, 0].clone(), h[0] * 0, 0
    while t < int(n):
        old = kept[t % 4]
        kept[t % 4] = total + t
        total = total + h.sum(0) - old
        t = t + 1
    return kept, total


def body(plan):
    made = compact(coalesced(plan))
    loop = next(s for s, _ in made.walk() if isinstance(s, Conditional) and s.kind == "while")
    return made, loop.bodies[0]


GIVEN = torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(3, 4)


@pytest.mark.parametrize("n", [4, 0])
def test_products_of_rows_are_one_ahead_of_the_loop(n):
    plan, _ = check_runs(recurrent, *GIVEN, torch.tensor(n))
    made, inside = body(plan)
    assert [s.op for s in inside if isinstance(s, Call)].count("aten.addmm.default") == 0
    assert (
        sum(isinstance(s, Call) and s.op == "aten.mm.default" for s in inside) == 1
    )  # of the state
    assert not any("item" in s.source.name for s, _ in made.walk() if isinstance(s, Run))


def test_large_products_stay_where_they_are(monkeypatch):
    monkeypatch.setattr("tograph.runtime.gpu.row_products.MOST_WORK", 100)
    plan, _ = check_runs(recurrent, *GIVEN, torch.tensor(2))
    _, inside = body(plan)
    assert sum(isinstance(s, Call) and "mm" in s.op for s in inside) == 3


def test_an_item_that_is_replaced_is_copied_before():
    plan, _ = check_runs(running, *GIVEN, torch.tensor(7))
    _, inside = body(plan)
    assert not any(isinstance(s, Copy) for s in inside)
