"""Ops that read elements at places that follow from their own are part of kernels on a GPU, not calls of library functions."""

import pytest
import torch
import torch.nn.functional as F

from tests.runtime.gpu.test_plan import check_runs
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.plan import Call
from tograph.runtime.kernels import regions

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def losses(x, w, target):
    """Losses by class and by distance, with their gradients, and those of parts."""
    w = w.detach().requires_grad_()
    y = torch.tril(x @ w)
    each = F.cross_entropy(y, target, reduction="none")
    loss = F.cross_entropy(y * 2, target) + each.max() + F.mse_loss(y[0], x[1]) + y[1:3].exp().sum()
    return loss.detach(), torch.autograd.grad(loss, w)[0]


def turned(x, y, target):
    x = x.roll(1, 0).flip(1) * 2
    return torch.triu(x + y.sigmoid()), torch.diag_embed(x[0]).exp()


def beside(x, y, target):
    """Parts of several dtypes and sizes, folded behind; the same parts twice."""
    z = torch.cat([x * 2, target[:, None], y.sigmoid()], 1)
    w = torch.cat([x * 2, y.sigmoid(), target[None] + 1], -2)
    return z.sum(0), z, torch.stack([x[0], y[1] * 2, target * 1.5], 1).exp(), w


@pytest.mark.parametrize("fn", [losses, turned, beside])
def test_only_products_are_library_functions(fn):
    made = torch.Generator().manual_seed(0)
    x, w = (torch.randn(5, 5, generator=made) for _ in range(2))
    plan, _ = check_runs(fn, x, w, torch.tensor([0, 3, -100, 4, 1]))
    calls = {s.op for s, _ in compact(coalesced(plan)).walk() if isinstance(s, Call)}
    assert calls <= {"aten.mm.default"}


def test_many_or_much_data_beside_each_other_is_moved_by_the_library(monkeypatch):
    def many(x, y, target):
        return torch.stack([x + k for k in range(17)])

    given = torch.ones(2, 3), torch.ones(2, 3), torch.tensor(1)
    plan, _ = check_runs(many, *given)
    assert [s.op for s, _ in plan.walk() if isinstance(s, Call)] == ["aten.stack.default"]
    monkeypatch.setattr(regions, "MOST", 11)
    plan, _ = check_runs(lambda x, y, target: torch.cat([x.exp(), y]) + target, *given)
    assert [s.op for s, _ in plan.walk() if isinstance(s, Call)] == ["aten.cat.default"]
