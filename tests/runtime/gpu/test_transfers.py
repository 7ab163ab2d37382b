"""Graphs with tensors on a GPU and small ones on the CPU."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import planner, pointers, storage
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.transfers import gathered
from tograph.runtime.kernels.device import gpu_of
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def spec(*shape, device="cuda:0", dtype=torch.float32):
    return tg.TensorSpec(list(shape), dtype, device=device)


def graph_of(fn, *specs):
    return tg.function(fn).get_concrete_function(*specs).watched_graph


def decay(x, rate, n):
    i = torch.tensor(0)
    while i < n and x.sum() > 1:
        x = x * rate
        i = i + 1
    return x, i, n + 1


GIVEN = spec(5), spec(device="cpu"), spec(device="cpu", dtype=torch.int64)


def test_numbers_of_the_cpu_go_along():
    graph = graph_of(decay, *GIVEN)
    made, device, back = gathered(graph)
    assert device == gpu_of(graph.inputs) == "cuda:0" and back == {1, 2}
    assert "@cuda:0" in str(made) and "i64[] " not in str(made) and "f32[]," not in str(made)
    assert [v.type.device for v in graph.inputs] == ["cuda:0", "cpu", "cpu"]  # as it was


@pytest.mark.parametrize("n", [0, 2, 9])
def test_a_plan_gives_what_the_function_gives(n):
    plan = planner.plan(graph_of(decay, *GIVEN))
    assert plan.form.to_host == {1, 2} and "host" not in plan.nodes()
    given = torch.ones(5), torch.tensor(0.5), torch.tensor(n)
    runner = Stepwise(plan, "cpu")
    for a, b in zip(runner.run(*given), decay(*given), strict=True):
        torch.testing.assert_close(a, b)


def test_tensors_of_the_cpu_go_and_come_in_one_copy(monkeypatch):
    """With the numbers: the tensors of the device are the only ones that are copied by themselves."""

    def scaled(x, rates, n, shift):
        steps = 0
        while x.sum() > n:
            x = x * rates[0]
            steps += 1
        return x, rates.flip(0) + shift, n, steps, n

    specs = spec(5), spec(3, device="cpu"), spec(device="cpu", dtype=torch.int64), spec(3, device="cpu")  # fmt: skip
    plan = planner.plan(graph_of(scaled, *specs))
    copied, fetched = [], []
    together, cpu = storage.copy_all, torch.Tensor.cpu
    monkeypatch.setattr(storage, "copy_all", lambda a, b: copied.append(len(a)) or together(a, b))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: fetched.append(x.numel()) or cpu(x))
    runner = Stepwise(plan, "cpu")
    before = []
    for k in range(3):
        given = torch.rand(5) * 9, torch.tensor([0.5, 1.0, k]), torch.tensor(k), torch.ones(3) * k
        copied.clear(), fetched.clear()
        before.append((runner.run(*given), scaled(*given)))
        assert copied == [1, 1, 0] and sum(n > 0 for n in fetched[:1]) == 1
    for got, want in before:  # results belong to the caller
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
            assert type(a) is type(b)


def test_what_is_on_the_cpu_is_not_read_in_place(monkeypatch):
    monkeypatch.setattr(pointers, "SMALLEST", 1)
    plan = planner.plan(graph_of(lambda x, w: x * w, spec(5), spec(5, device="cuda:0")))
    given = torch.ones(5), torch.ones(5)
    for elsewhere, bound in (((), {0, 1}), ({1}, {0})):
        seen = pointers.Pointers(plan, elsewhere)
        for _ in range(pointers.CALLS):
            seen.moved(given)
        assert seen.bound == bound


def draws(x, n):
    return x * torch.rand(()), n


def prints(x, n):
    print(n)
    return x * n


def much(x, n):
    big = torch.zeros(1 << 19) + n
    return x * big.sum()


@pytest.mark.parametrize(
    ("fn", "why"),
    [(draws, "rand"), (prints, "on the CPU beside"), (much, "much to copy")],
)
def test_what_stays_with_the_host(fn, why):
    with pytest.raises(Unsupported, match=why):
        planner.plan(graph_of(fn, spec(5), spec(device="cpu")))


def test_two_gpus_are_refused():
    with pytest.raises(Unsupported, match="cuda:0 and cuda:1"):
        planner.plan(graph_of(lambda x, y: (x + 1, y + 1), spec(2), spec(2, device="cuda:1")))
