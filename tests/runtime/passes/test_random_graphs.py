"""Every pass alone, and the whole list, keep what random graphs do: values, effects, their order, errors, sharing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.passes.random_graphs import compare, observe, original, random_graph
from tograph.runtime.execution import host
from tograph.runtime.graph.rewrite import copied
from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.graph.verification import verify
from tograph.runtime.passes import PASSES, checked, optimize, passes

SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True)


def same(before, seen, after, seed, **options):
    """What a run of ``after`` shows, which is what was ``seen`` of ``before``; a graph with the same text is the same one."""
    if not options and show(after) == show(before):
        return seen
    now = observe(after, seed, **options)
    found = compare(seen, now)
    assert found is None, f"seed {seed}: {found}\n{show(before)}\n{show(after)}"
    return now


@pytest.mark.parametrize("step", PASSES, ids=lambda p: p.name)
def test_pass(step):
    @EXAMPLES
    @given(SEEDS)
    def check(seed):
        graph, seen = original(seed)
        same(graph, seen, checked(step.run, copied(graph)), seed)

    check()


@pytest.mark.parametrize("inference", [False, True])
@EXAMPLES
@given(SEEDS)
def test_whole_list(inference, seed):
    graph, seen = original(seed)
    made = optimize(copied(graph), inference)
    verify(made)
    same(graph, seen, made, seed)
    same(graph, seen, made, seed, run=lambda g, inputs: host.build(g).run(*inputs))


@EXAMPLES
@given(SEEDS)
def test_each_pass_after_the_ones_before_it(seed):
    graph, seen = original(seed)
    made = copied(graph)
    for step in passes(True):
        before = copied(made)
        made = checked(step.run, made)
        seen = same(before, seen, made, seed)


def test_graphs_have_what_passes_have_to_keep():
    seen = [(random_graph(seed), *observe(random_graph(seed), seed)) for seed in range(200)]
    texts = [show(graph) for graph, _, _ in seen]
    for word in [
        "If(",
        "While(",
        "Case(",
        "Call(",
        "Try(",
        "tg.read",
        "tg.assign",
        "tg.print",
        "rand_like",
    ]:
        assert sum(word in text for text in texts) > 20, word
    assert 20 < sum(shown["error"] is not None for _, shown, _ in seen) < 150
    assert sum(bool(shown["printed"]) for _, shown, _ in seen) > 20
    for seed in range(30):
        text = show(random_graph(seed))
        assert show(parse_graph(text)) == text
