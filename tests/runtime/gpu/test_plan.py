"""Plans of graphs on a GPU: what they print, what they refuse, and that running them means what the graph means."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.kernels.loop_programs import divide, halve_each, one_slow
from tograph.bench import programs
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.gpu.plan import Call, Cell, Conditional, Copy, Plan, Run, Set, Update, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.graph import interp
from tograph.runtime.graph.ir import Value
from tograph.runtime.graph.types import TensorType
from tograph.runtime.kernels import split_rows, triton_jit, triton_loops
from tograph.runtime.kernels.loop_ir import ASSERTED, Unsupported
from tograph.runtime.kernels.loop_numbers import FULL

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def plan_of(fn, *args, whole=False, capacity=None):
    """Without ``whole`` loops and branches are conditional nodes, however small."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = planner.plan(retarget(graph, "cuda:0"), whole, capacity)
    assert check(made) == []
    return graph, made


def same(got, want):
    for a, b in zip(got, want, strict=True):
        assert type(a) is type(b)
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))


def check_runs(fn, *args, whole=False, capacity=None):
    graph, made = plan_of(fn, *args, whole=whole, capacity=capacity)
    want = interp.run(graph, args)
    same(Stepwise(made, "cpu").run(*args), want)
    same(Stepwise(coalesced(made), "cpu").run(*args), want)
    chunked = Chunked(made, "cpu", chunk=3)
    same(chunked.run(*args), want)
    same(chunked.run(*args), want)  # memory is used again
    return made, chunked


def test_chunks_run_whole_behind_a_call_that_failed_in_a_body(monkeypatch):
    """The flag of the body that failed is no flag of the next call."""

    def halved(x, w):
        while x.sum() > 1:
            x = x @ w
        return x + 1

    args = torch.eye(3), torch.eye(3) * 0.5
    graph = tg.function(halved).get_concrete_function(*args).value_graph
    runner = Chunked(planner.plan(retarget(graph, "cuda:0"), whole=False), "cpu")
    call = Chunked._call

    def fails(self, step):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Chunked, "_call", fails)
    with pytest.raises(torch.OutOfMemoryError):
        runner.run(args[0] * 0.1, args[1])  # in a body that is not active
    monkeypatch.setattr(Chunked, "_call", call)
    for x in (args[0], args[0] * 0.1):
        torch.testing.assert_close(runner.run(x, args[1])[0], halved(x, args[1]))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (torch.sort(x)[0], torch.sort(x, stable=True)[1]),
        lambda x: x.median() + torch.ops.aten.norm.ScalarOpt_dim(x, 2.0, [0]),
        lambda x: torch.split_with_sizes_copy(x, [1, 3], 1)[1],
        lambda x: torch.unsafe_split(x, 2, 1)[1] * 2,
    ],
)
def test_library_functions_write_by_the_form_that_takes_their_arguments(fn):
    check_runs(fn, torch.arange(12.0).reshape(3, 4).sin())


def test_the_code_of_kernels_is_kept_as_long_as_what_runs_them():
    """Triton unloads it with the last reference."""
    _, made = plan_of(lambda x: torch.softmax(x, -1) @ x, torch.ones(3, 3))
    kernels = [s.source for s in made.steps if isinstance(s, Run)]
    assert Stepwise(made, "cpu").functions == [triton_jit.load(k) for k in kernels] != []


def newton_like(x, tolerance):
    steps = 0
    y = x * x - 2
    while y.abs().max() > tolerance:
        x = x - y / (2 * x)
        y = x * x - 2
        steps += 1
    return x, steps


def test_a_loop_becomes_a_while_node():
    made, chunked = check_runs(newton_like, torch.tensor([1.0, 2.0, 5.0]), torch.tensor(1e-4))
    # 6 steps in chunks of 3, and one that ran ahead.
    assert made.nodes()["while"] == 1 and chunked.looks == 2 * 3
    (loop,) = [s for s in made.steps if isinstance(s, Conditional)]
    assert isinstance(loop.bodies[0][-1], Set)
    assert "WHILE handle 0 <- " in str(made) and "set handle 0 <- " in str(made)


def test_a_loop_that_runs_no_time_keeps_its_state():
    check_runs(newton_like, torch.tensor([2.0**0.5]), torch.tensor(1e3))


def test_state_that_swaps_goes_through_other_memory():
    def fibonacci(n):
        a, b = torch.zeros_like(n), torch.ones_like(n)
        while n > 0:
            a, b = b, a + b
            n = n - 1
        return a

    check_runs(fibonacci, torch.tensor(10))


def test_branches_in_loops():
    made, _ = check_runs(programs.collatz, torch.tensor(12, dtype=torch.int32))
    assert made.nodes()["while"] == 1 and made.nodes()["if"] == 2


def test_loops_in_loops_with_products_and_numbers():
    def nested(a, x):
        total, scale = 0, 0.5
        while x.sum() > 1:
            inner = a @ x
            while inner.max() > 0.5:
                inner = inner * scale
                total += 1
            if inner[0, 0] > 0.3:
                x = x - 0.25 * inner
            else:
                x = x * 0.5
        return x, total

    a = torch.eye(3) + 0.1
    made, _ = check_runs(nested, a, torch.rand(3, 3, generator=torch.Generator().manual_seed(1)))
    assert made.nodes()["while"] == 2 and "library" in made.nodes()
    assert any(isinstance(s, Call) and s.op == "aten.mm.default" and depth for s, depth in made.walk())  # fmt: skip


def test_items_by_a_number_of_the_device():
    """Reading and writing rows, and the parts of a product: what a recurrent network does."""

    def recurrent(x, w):
        h, out = torch.zeros(2, 3), torch.zeros(5, 2, 3)
        t = 0
        while t < 5 and x[t].sum() < 100:
            a, b = (h @ w).split(3, 1)
            h = torch.tanh(x[t] + a) * 0.5 + b
            out[t] = h
            t += 1
        return out, t

    torch.manual_seed(0)
    check_runs(recurrent, torch.randn(5, 2, 3), torch.randn(3, 6) * 0.3)


def test_an_item_out_of_range_is_reported():
    def beyond(x):
        t, total = 0, torch.zeros(())
        while total < 100:
            total = total + x[t]
            t += 1
        return total

    _, made = plan_of(beyond, torch.ones(3))
    with pytest.raises(Failed, match="error code 2"):
        Stepwise(made, "cpu").run(torch.ones(3))


def test_conditions_that_are_numbers():
    def count(x):
        n = 3
        while n:
            if x[0]:
                x = x - 1
            n -= 1
        return x

    check_runs(count, torch.tensor([2.0, 1.0]))


def test_an_early_exit():
    def search(x):
        for i in range(x.shape[0] * 4):
            x = x * 0.7
            if (x < 0.1).all():
                return x, i
        return x, -1

    check_runs(search, torch.tensor([1.0, 0.3, 2.0]))


def test_small_loops_are_one_kernel():
    _, made = plan_of(
        programs.newton, torch.tensor(2.0), torch.tensor(20, dtype=torch.int32), whole=True
    )
    assert made.nodes() == {"kernel": 2}
    args = torch.tensor(2.0), torch.tensor(5, dtype=torch.int32)
    concrete = tg.function(programs.newton).get_concrete_function(*args)
    same(Stepwise(made, "cpu").run(*args), interp.run(concrete.value_graph, args))


def test_a_number_that_is_one_of_several():
    def f(x, y):
        z = x if x.sum() > y.sum() else y * 2
        return z if z.max() > 4 else y

    for x, y in ((1.0, 3.0), (3.0, 1.0), (1.0, 0.0)):
        args = torch.full((3,), x), torch.full((3,), y)
        concrete = tg.function(f).get_concrete_function(*args)
        assert len(concrete.graph.outputs) == 2 and len(concrete.outputs) == 1
        made = planner.plan(retarget(concrete.watched_graph, "cuda:0"))
        same(Stepwise(made, "cpu").run(*args), interp.run(concrete.watched_graph, args))


def test_blocks_with_a_count(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    made, _ = check_runs(halve_each, one_slow(), whole=True)
    assert "while" not in made.nodes()


def test_a_long_row_is_folded_by_two_kernels(monkeypatch):
    monkeypatch.setattr(split_rows, "LONG", 64)
    monkeypatch.setattr(split_rows, "PART", 20)
    made, _ = check_runs(lambda x: (x * 2).sum() + 1, torch.linspace(-1, 2, 99))
    assert made.nodes() == {"kernel": 2}


def test_a_failure_ends_the_loops_and_is_reported():
    _, made = plan_of(divide, torch.tensor(1000), torch.tensor(3))
    assert made.error is not None
    assert Stepwise(made, "cpu").run(torch.tensor(1000), torch.tensor(3))[0] == 4
    for run in (Stepwise(made, "cpu"), Chunked(made, "cpu")):
        with pytest.raises(Failed, match="error code 1"):
            run.run(torch.tensor(1000), torch.tensor(0))


# ---- lists, open sizes, variables


def collect(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
        x = x + 1
    return torch.stack(out), torch.cat(out).sum()


def test_a_list_is_written_in_place():
    made, _ = check_runs(collect, torch.arange(3.0), torch.tensor(4), capacity=6)
    (loop,) = [s for s in made.steps if isinstance(s, Conditional)]
    assert sum(isinstance(s, Update) for s in loop.bodies[0]) == 1
    copied = [p for s in loop.bodies[0] if isinstance(s, Copy) for pair in s.pairs for p in pair]
    assert all(6 not in p.type.shape for p in copied if isinstance(getattr(p, "type", None), TensorType))  # fmt: skip


def test_a_list_without_room_says_so():
    _, made = plan_of(collect, torch.arange(3.0), torch.tensor(4), capacity=3)
    for run in (Stepwise(made, "cpu"), Chunked(made, "cpu")):
        with pytest.raises(Failed) as caught:
            run.run(torch.arange(3.0), torch.tensor(4))
        assert caught.value.code == FULL


def test_an_old_list_that_is_read_again_stays_as_it_was():
    def versions(x, n):
        rows = [x, x + 1]
        total = torch.zeros(2)
        for i in range(n):
            before = list(rows)
            rows[0] = rows[1] + i
            rows[1] = x * i
            total = total + before[0] - rows[0]
        return total, torch.stack(rows)

    check_runs(versions, torch.tensor([1.0, 2.0]), torch.tensor(3), capacity=4)


def test_a_row_that_is_a_view_of_what_it_is_written_into_is_copied_first():
    """Threads of a kernel run in any order: one would read what another has written already."""

    def write(x, n):
        x, i = x + 1, 0
        while i < n:
            x[i % 3] = x[:, 0]
            i += 1
        return x

    made, _ = check_runs(write, torch.arange(9.0).reshape(3, 3), torch.tensor(4))
    body = next(s for s in made.steps if isinstance(s, Conditional)).bodies[0]
    writes = next(s for s in body if isinstance(s, Update))
    row = writes.arguments["row"]
    assert any(isinstance(s, Copy) and s.pairs[0][0] is row for s in body)
    assert made.bases.get(row, row) is not writes.arguments["x"]


def test_a_cache_that_is_written_by_position():
    def attend(q, k):
        cache, out, t = torch.zeros(4, 3), torch.zeros(4, 3), 0
        while t < 4 and q[t].sum() > -100:
            cache[t] = k[t] * 2
            weights = torch.softmax(cache[: t + 1] @ q[t], 0)
            out[t] = weights @ cache[: t + 1]
            t = t + 1
        return out

    torch.manual_seed(0)
    made, _ = check_runs(attend, torch.randn(4, 3), torch.randn(4, 3))
    assert sum(isinstance(s, Update) for s, depth in made.walk() if depth) == 2


def test_a_gradient_in_a_loop():
    def descend(x, n):
        losses = []
        for _ in range(n):
            leaf = x.detach().requires_grad_()
            y = leaf
            while y.sum() > 1:
                y = y * leaf.sin() * 0.5
            (g,) = torch.autograd.grad(y.sum(), leaf)
            x = leaf.detach() - g
            losses.append(y.detach().sum())
        return x, torch.stack(losses)

    check_runs(descend, torch.tensor([1.0, 1.5]), torch.tensor(2), capacity=4)


def test_variables_are_written_when_all_has_run():
    weight = torch.ones(2)

    def step(x, n):
        for i in range(n):
            weight.mul_(0.5).add_(x)
            if weight.sum() > 100:
                raise ValueError("too large")
        return weight + 1

    def plan_and_run(x, n):
        concrete = tg.function(step).get_concrete_function(x, n)
        made = planner.plan(retarget(concrete.value_graph, "cuda:0"), whole=False)
        assert check(made) == [] and made.form.written == [2]
        mine, want = weight.clone(), weight.clone()
        expected = interp.run(concrete.value_graph, [x, n, want])
        same([*Stepwise(made, "cpu").run(x, n, mine), mine], [*expected, want])
        return made

    made = plan_and_run(torch.ones(2), torch.tensor(3))
    before = weight.clone()
    with pytest.raises(Failed):
        Stepwise(made, "cpu").run(torch.full((2,), 1e3), torch.tensor(3), weight)
    assert torch.equal(weight, before)


def random(x):
    while x.sum() > 1:
        x = x * torch.poisson(x / 2)
    return x


def open_size(x):
    return torch.unique(x).sum()


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (random, r"test_plan.py:\d+: .*draws random numbers"),
        (open_size, "runs on the host|known only at run time"),
    ],
    ids=["random", "open size"],
)
def test_what_stays_on_the_host_says_where(fn, reason):
    graph = tg.function(fn).get_concrete_function(torch.ones(5)).value_graph
    with pytest.raises(Unsupported, match=reason):
        planner.plan(retarget(graph, "cuda:0"))


def test_a_plan_is_for_one_gpu():
    graph = tg.function(lambda x: x + 1).get_concrete_function(torch.ones(5)).value_graph
    with pytest.raises(Unsupported, match="tensors on cpu: a plan is for one GPU"):
        planner.plan(graph)


def test_the_check_finds_what_is_forbidden():
    cell = Cell("c0", TensorType(torch.bool, (), "cuda:0"), True)
    value = Value(TensorType(torch.float32, (2,), "cuda:0"))
    body = [Copy([(value, value)])]
    made = Plan("f", "cuda:0", [], [], [Conditional("while", 0, cell, [body])])
    problems = check(made)
    assert any("does not set its handle" in p for p in problems)
    assert sum("no memory" in p for p in problems) == 3


def pixels(x, target):
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x, target, ignore_index=1)
    return loss.detach(), torch.autograd.grad(loss, x)[0]


def test_losses_over_images_are_kernels_and_assert_nothing():
    x, target = torch.randn(2, 3, 4, 5), torch.arange(40).reshape(2, 4, 5) % 3
    graph = tg.function(pixels).get_concrete_function(x, target).value_graph
    plan = planner.plan(retarget(graph, "cuda:0"))
    assert {*plan.nodes()} == {"kernel"} and plan.asserted is not None
    runner = Stepwise(plan, "cpu")
    for got, want in zip(runner.run(x, target), pixels(x, target), strict=True):
        torch.testing.assert_close(got, want)
    with pytest.raises(Failed) as failed:
        runner.run(x, target + 1)
    assert failed.value.code == ASSERTED
