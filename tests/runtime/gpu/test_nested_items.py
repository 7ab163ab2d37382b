"""An item of an item is written in place, by one kernel and without a copy."""

import pytest
import torch

from tests.runtime.gpu.test_plan import check_runs, plan_of
from tests.runtime.gpu.test_read_through import body
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.plan import Copy, Update
from tograph.runtime.gpu.storage import Failed

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def cache(x, n):
    """As the keys and values of layers and heads, at a place that the run knows."""
    keys = torch.zeros(2, 2, 3, 5, 4)
    t = 0
    while t < 5 and n > t:
        for layer in range(2):
            keys[layer, 1, :, t] = x + t
            x = x + keys[layer, 1].sum(1)
            keys[-1, 0, 2, t] = x[layer]
        t = t + 1
    return keys, x


def read_between(x, n):
    """Who has the part as it was before gets a copy."""
    kept, t, parts = torch.zeros(3, 5, 4), 0, torch.zeros(5, 4)
    while t < 5 and n > t:
        before = kept[1].clone()
        kept[1, t] = x[0]
        parts = parts + before + kept[1]
        t = t + 1
    return kept, parts


GIVEN = torch.arange(12.0).reshape(3, 4) + 1


@pytest.mark.parametrize("n", [5, 0])
def test_one_write_for_each_item(n):
    plan, _ = check_runs(cache, GIVEN, torch.tensor(n))
    _, inside = body(plan)
    writes = [s for s, _ in plan.walk() if type(s) is Update and "item" in s.source.name]
    assert len(writes) == 4 and not any(isinstance(s, Copy) for s in inside)


def test_a_part_that_is_read_between():
    check_runs(read_between, GIVEN, torch.tensor(4))


def test_an_item_out_of_range_is_reported():
    def out_of_range(x, k):
        kept = torch.zeros(2, 3, 4)
        kept[1, int(k)] = x[0]
        return kept

    check_runs(out_of_range, GIVEN, torch.tensor(-3))
    _, made = plan_of(out_of_range, GIVEN, torch.tensor(1))
    with pytest.raises(Failed):
        Stepwise(made, "cpu").run(GIVEN, torch.tensor(3))
