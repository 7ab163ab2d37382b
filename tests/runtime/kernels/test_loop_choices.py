"""Branches of loops over elements as choices: what they give inside of a GPU's kernels, and which of their nodes are still known not to fail."""

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.loop_programs import one_slow
from tests.runtime.kernels.test_triton_loops import check, loop_of
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph.ir import all_nodes
from tograph.runtime.kernels import triton_loops
from tograph.runtime.kernels.loop_choices import chosen
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def small_programs(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)


def on_a_number(x, n):
    k = 0
    for i in range(n):
        if i % 2 == 0:
            x, k = x * 0.5, k + 1
        else:
            x = x - i
    return x, k


def on_a_tensor_and_masked(x, n):
    active, flip, i = x > 1, torch.zeros((), dtype=torch.bool), 0
    while active.any() and i < n:
        if flip:
            x = torch.where(active, x * 0.5, x)
        else:
            x = torch.where(active, x - 0.25, x)
        active, flip, i = active & (x > 1), ~flip, i + 1
    return x, active, i


def until_all_are_done(x, n):
    done, i = x <= 1, 0
    while i < n:
        if i > 2:
            x = torch.where(done, x, x * 0.25)
        else:
            x = torch.where(done, x, x * 0.5)
            i = i + 0
        done, i = done | (x <= 1), i + 1
        if done.all():
            break
    return x, done, i


@pytest.mark.parametrize("fn", [on_a_number, on_a_tensor_and_masked, until_all_are_done])
@pytest.mark.parametrize("n", [0, 1, 4, 50])
def test_both_sides_and_a_choice(fn, n):
    loop = check(fn, one_slow(), torch.tensor(n))
    assert loop.form == "blocks" and "tl.where" in loop.source.text


def test_what_cannot_fail_is_still_known():
    x, n = tg.TensorSpec([600], torch.float32), tg.TensorSpec([], torch.int64)
    graph = retarget(tg.function(on_a_number).get_concrete_function(x, n).value_graph, "cuda:0")
    plan = planner.plan(graph)
    assert plan.trials and plan.error is None
    (loop,) = [node for node in graph.nodes if node.op == "While"]
    inner = set(all_nodes(loop.regions["body"]))
    made, choices, known = chosen(loop, inner)
    assert len(choices) == 1 and known > inner
    assert {*all_nodes(made.regions["body"])} - known == choices


def large_sides(x, n):
    for i in range(n):
        if i % 2 == 0:
            for _ in range(20):
                x = torch.sin(x)
        else:
            x = x - i
    return x


def test_sides_with_much_to_do_stay_branches():
    _, node = loop_of(large_sides, one_slow(), torch.tensor(3))
    with pytest.raises(Unsupported, match="a branch in a loop over blocks"):
        triton_loops.render(node, "loop")
