"""Plans that run kernel by kernel into memory of the call's own."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import direct, planner
from tograph.runtime.gpu.retarget import retarget

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def planned(fn, *args):
    return planner.plan(retarget(tg.function(fn).get_concrete_function(*args).value_graph, "cuda:0"))  # fmt: skip


def many(x, w):
    y = torch.relu(x @ w) + 1
    return y, y.t(), x, y * 2, y.sum(), y


def test_outputs_belong_to_the_call():
    x, w = torch.randn(4, 6), torch.randn(6, 5)
    runner = direct.Direct(planned(many, x, w), "cpu")
    first = runner.run(x, w)
    kept = [t.clone() for t in first]
    second = runner.run(x + 1, w)
    for got, given in ((first, x), (second, x + 1)):
        for a, b in zip(got, many(given, w), strict=True):
            torch.testing.assert_close(a, b)
    assert all(map(torch.equal, first, kept))
    places = [t.untyped_storage().data_ptr() for t in (*first, *second, x, w)]
    assert len(set(places)) == len(places)


def test_inputs_of_any_layout_and_nothing_is_kept():
    x, w = torch.randn(6, 4).t(), torch.randn(6, 10)[:, ::2]
    runner = direct.Direct(planned(many, x.contiguous(), w.contiguous()), "cpu")
    torch.testing.assert_close(runner.run(x, w)[0], many(x, w)[0])
    held = {t.untyped_storage().data_ptr() for t in runner.memory.of.values()}
    assert held.isdisjoint(t.untyped_storage().data_ptr() for t in (x, w))


def test_variables_are_written_where_they_are():
    a, b = torch.randn(4, 3).t(), torch.randn(3, 4)

    def swap(a, b):
        old = a.clone()
        a.copy_(b * 2)
        b.copy_(old)
        return b

    plan = planned(swap, a.contiguous(), b)
    want = [b * 2, a.clone()]
    out = direct.Direct(plan, "cpu").run(a, b)
    torch.testing.assert_close(a, want[0])
    torch.testing.assert_close(b, want[1])
    torch.testing.assert_close(out[0], want[1])
    assert out[0].data_ptr() != b.data_ptr()


def test_it_is_worth_it_for_much_data_without_loops():
    large = tg.TensorSpec([4096, 4096], torch.float32, device="cuda:0")
    small = tg.TensorSpec([64, 64], torch.float32, device="cuda:0")

    def plan(fn, spec):
        return planner.plan(tg.function(fn).get_concrete_function(spec).value_graph)

    def halve(x):
        while x.sum() > 1:
            x = x @ x * 0.5
        return x

    def products(x):
        return x @ x @ x

    assert direct.worth(plan(lambda x: torch.exp(x) + 1, large))
    assert direct.worth(plan(products, large)) and not direct.worth(plan(products, small))
    assert not direct.worth(plan(lambda x: (x @ x @ x).sum(), large))
    assert not direct.worth(plan(halve, large)) and not direct.worth(plan(halve, small))


def test_one_kernel_is_started_without_a_graph():
    """A graph would have a copy in front of it and one behind it."""
    small = tg.TensorSpec([64, 64], torch.float32, device="cuda:0")

    def kept(x):
        x.mul_(2)
        return x + 1

    for fn, wanted in ((lambda x: torch.exp(x) + 1, True), (kept, False)):
        made = tg.function(fn).get_concrete_function(small)
        assert direct.worth(planner.plan(made.value_graph)) == wanted
