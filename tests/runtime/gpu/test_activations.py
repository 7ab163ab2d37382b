"""``relu`` behind a product with a bias is done by the product, where its kernel would do nothing else."""

import pytest
import torch

from tests.runtime.gpu.test_plan import check_runs
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.plan import Call, Run

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
MADE = torch.Generator().manual_seed(0)
GIVEN = [torch.randn(*s, generator=MADE) for s in ((5, 4), (4, 4), (4,))]


def layers(x, w, b):
    for _ in range(2):
        x = torch.relu(torch.addmm(b, x, w))
    return x @ w


def more(x, w, b):
    """The kernel does more, the product has another reader, what is added is no row."""
    y, z = torch.addmm(b, x, w), torch.addmm(x, x, w)
    return torch.relu(torch.addmm(b, x, w) * 2 + 1) @ w, torch.relu(y) @ w, y, torch.relu(z) @ w


@pytest.mark.parametrize(("fn", "products", "kernels"), [(layers, 2, 0), (more, 0, 2)])
def test_products_with_relu(fn, products, kernels):
    plan, _ = check_runs(fn, *GIVEN)
    steps = [s for s, _ in coalesced(plan).walk()]
    assert (
        sum(isinstance(s, Call) and s.op == "aten._addmm_activation.default" for s in steps)
        == products
    )
    assert sum(isinstance(s, Run) for s in steps) == kernels


def test_a_product_of_a_loop():
    def loop(x, w, b):
        while x.sum() < 50:
            x = torch.relu(torch.addmm(b, x, w)) @ w.abs() + 1
        return x

    plan, _ = check_runs(loop, *GIVEN)
    assert any(isinstance(s, Call) and "activation" in s.op for s, _ in compact(plan).walk())
