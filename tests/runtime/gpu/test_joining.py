"""Small kernels as one, what is computed once, and that both change no value."""

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import fused_code, planner
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.fusing import fused
from tograph.runtime.gpu.plan import Conditional, Copy, Run, Setting, Update, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph import interp
from tograph.runtime.kernels import regions, triton_jit

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
W = torch.randn(40, 40, generator=torch.Generator().manual_seed(0)) / 5


def made(fn, *args, whole=False):
    """The plan, after a comparison with the graph in two calls."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    before = planner.plan(retarget(graph, "cuda:0"), whole)
    text = str(before)
    found = compact(before)
    assert str(before) == text and check(found) == []
    runner = Stepwise(found, "cpu")
    for _ in range(2):
        for a, b in zip(runner.run(*args), interp.run(graph, args), strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    return found


def body(plan):
    return next(s for s in plan.steps if isinstance(s, Conditional)).bodies[0]


def kinds(steps):
    return [type(s).__name__ for s in steps if type(s).__name__ != "View"]


def filled(x, w, n):
    """Three lists get an item each; the counter and the condition are numbers."""
    a, b, c, k = [], [], [], 0
    while k < n:
        x = torch.tanh(x @ w)
        a.append(x * 2)
        b.append(torch.cat([x, x]))
        c.append(x[0] + k)
        k += 1
    return torch.stack(a), torch.stack(b), torch.stack(c), k


def test_items_of_lists_are_written_together(monkeypatch):
    """Large ones by one kernel, small ones by that of the counter."""
    monkeypatch.setattr(regions, "MOST", 0)  # what is beside each other is a call of the library
    plan = made(filled, W.clone(), W, torch.tensor(3))
    steps = body(plan)
    texts = {s.source.programs: s.source.text for s in steps if isinstance(s, Run) and "_item" in s.source.text}  # fmt: skip
    assert {*texts} == {1, 4} and all(text.count("_item") >= 2 for text in texts.values())
    assert "if tl.program_id(0) < 2:" in texts[4] and "debug_barrier" not in texts[4]
    assert not any(type(s) is Update for s in steps)


def test_what_follows_in_one_program_waits_behind_a_barrier():
    def steps(x, n):
        i = torch.zeros_like(n)
        while i < n:
            x = torch.linalg.solve(x + torch.eye(3), x)
            top = x.max()
            i = i + (top > 0.5) + 1
        return x, i

    plan = fused(made(steps, torch.rand(3, 3), torch.tensor(5)))
    (one,) = (s for s in body(plan) if isinstance(s, Setting))
    assert "    tl.debug_barrier()\n" in one.source.text
    source = fused_code.source_of(one)
    pointers = {n for n, kind in source.signature.items() if kind.startswith("*")}
    (image, _), shared, _ = fused_code.image(source, "sm_90", frozenset(pointers), len(one.told))
    assert image.startswith(b"\x7fELF") and shared < 48 * 1024
    assert triton_jit.compiled(one.source, "gfx942").resources.spills == 0


def test_a_condition_is_computed_behind_what_may_fail():
    def looked(x, n):
        i = torch.zeros_like(n)
        while i < n:
            i = i + 1
            x = x + (100 // (6 - i))
        return x, i

    plan = made(looked, torch.arange(5), torch.tensor(4))
    runs = [s for s in body(plan) if isinstance(s, Run)]
    failing = [k for k, s in enumerate(runs) if "error" in s.source.signature]
    cell = body(plan)[-1].cell
    (sets,) = (k for k, s in enumerate(runs) if cell in {s.arguments[n] for n in s.writes})
    assert failing and max(failing) <= sets


def test_what_is_the_same_in_every_call_is_computed_once():
    def steps(x, n):
        y, z = torch.zeros_like(x), torch.ones_like(x) * 2
        k = torch.zeros_like(n)
        while k < n:
            y, k = y * 0.5 + x, k + 1
        return y, k, z, torch.full_like(x, 3.0).cumsum(0)

    plan = made(steps, torch.rand(5), torch.tensor(3), whole=True)
    assert plan.once and "once: kernel" in str(plan)
    given = {p for s in plan.once for n, p in s.arguments.items() if n in s.writes}
    assert given.isdisjoint(plan.outputs)  # a call may give its memory away
    assert not any(isinstance(s, Run) and not s.arguments.keys() - s.writes for s in plan.steps if given & {*s.arguments.values()})  # fmt: skip


@pytest.mark.parametrize("own", [False, True])
def test_a_product_is_added_where_the_sum_is(own):
    def sums(x, w, n):
        k = torch.zeros_like(n)
        while k < n:
            x = torch.addmm(x, x if own else w, w)
            k = k + 1
        return x, k

    plan = made(sums, W.clone(), W, torch.tensor(3))
    copied = any(isinstance(s, Copy) or isinstance(s, Run) and "_copy" in s.source.name for s in body(plan))  # fmt: skip
    assert copied == own


def test_copies_are_one_kernel():
    def turned(a, b, c, n):
        while n > 0:
            a, b, c, n = b, c, a, n - 1
        return a, b, c

    plan = made(turned, *torch.rand(3, 7), torch.tensor(4))
    assert kinds(body(plan)).count("Copy") == 0
    assert any("_copy" in s.source.name for s in body(plan) if isinstance(s, Run))
