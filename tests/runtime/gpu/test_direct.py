"""Plans that run kernel by kernel into memory of the call's own."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import direct, planner, storage
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


def two(x, y):
    return x * 2 + y, (x - y).sum(1)


def test_a_call_with_nothing_else_to_do_only_starts_the_steps(monkeypatch):
    x, y = torch.randn(4, 6), torch.nn.Parameter(torch.randn(6, 4))
    runner = direct.Direct(planned(two, x, torch.ones(4, 6)), "cpu")
    assert runner.short
    for name in ("fill", "results"):
        monkeypatch.setattr(storage.Memory, name, None)
    runner.memory.strides = [(6, 1), None]
    first, second = runner.run(x, y.t()), runner.run(x + 1, y.t())
    for got, given in ((first, x), (second, x + 1)):
        for a, b in zip(got, two(given, y.t().detach()), strict=True):
            torch.testing.assert_close(a, b)
            assert not a.requires_grad
    assert len({t.data_ptr() for t in (*first, *second)}) == 4
    assert runner.memory.of.keys().isdisjoint([*runner.plan.inputs, *runner.plan.outputs])


def test_results_with_other_strides_are_laid_out():
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    runner = direct.Direct(planned(two, x, y), "cpu")
    for strides in ([(1, 4), None], [(6, 1), None], [(1, 4), None]):
        runner.memory.strides = strides
        made, _ = runner.run(x, y)
        assert made.stride() == strides[0] and torch.equal(made, x * 2 + y)


def add_one(x, v):
    v.add_(1)
    return x + v


@pytest.mark.parametrize(
    ("fn", "given"),
    [
        (lambda x, n: (x * 2, n + 1), (torch.tensor(3),)),
        (lambda x, y: (x + y, x), (torch.ones(4),)),
        (lambda x, i: x + 8 // i, (torch.tensor([1, 2, 3, 4]),)),
        (add_one, (torch.ones(4),)),
    ],
    ids=["a tensor of one element", "an input", "what may fail", "written"],
)
def test_other_calls_are_asked_what_there_is(fn, given):
    plan = planned(fn, torch.arange(4.0), *given)
    assert not direct.Direct(plan, "cpu").short
